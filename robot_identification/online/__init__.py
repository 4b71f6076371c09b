# SPDX-License-Identifier: Apache-2.0
"""Identification beside a running robot: one sample in, one estimate out, in constant time."""

from .change_detector import Change, ChangeDetector, ChangeSettings
from .delay import DelayRows, DelayWatch
from .filters import StreamCounts
from .identifier import OnlineIdentifier, Update
from .momentum_observer import (
    EffortWatch,
    MomentumObserver,
    Observation,
    ObserverSettings,
)

__all__ = [
    'Change',
    'ChangeDetector',
    'ChangeSettings',
    'DelayRows',
    'DelayWatch',
    'EffortWatch',
    'MomentumObserver',
    'Observation',
    'ObserverSettings',
    'OnlineIdentifier',
    'StreamCounts',
    'Update',
]
