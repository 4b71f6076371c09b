# SPDX-License-Identifier: Apache-2.0
"""Identification beside a running robot: one sample in, one estimate out, in constant time."""

from .change import Change
from .change_settings import ChangeSettings
from .changes import ChangeDetector
from .delay import DelayRows, DelayWatch
from .grid import StreamCounts
from .identifier import OnlineIdentifier, Update

__all__ = [
    'Change',
    'ChangeDetector',
    'ChangeSettings',
    'DelayRows',
    'DelayWatch',
    'OnlineIdentifier',
    'StreamCounts',
    'Update',
]
