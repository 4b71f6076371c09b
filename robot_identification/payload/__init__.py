# SPDX-License-Identifier: Apache-2.0
"""The load at a tool, from runs with and without it."""

from .identify import payload, PayloadSettings
from .result import Payload, PayloadBody

__all__ = ['Payload', 'PayloadBody', 'PayloadSettings', 'payload']
