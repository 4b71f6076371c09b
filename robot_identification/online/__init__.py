# SPDX-License-Identifier: Apache-2.0
"""Identification beside a running robot: one sample in, one estimate out, in constant time."""

from .change_detector import Change, ChangeDetector, ChangeSettings
from .delay import DelayRows, DelayWatch
from .filters import StreamCounts
from .identifier import identifier_of, OnlineIdentifier, Update

__all__ = [
    'Change',
    'ChangeDetector',
    'ChangeSettings',
    'DelayRows',
    'DelayWatch',
    'OnlineIdentifier',
    'StreamCounts',
    'Update',
    'identifier_of',
]
