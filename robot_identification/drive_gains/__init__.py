# SPDX-License-Identifier: Apache-2.0
"""Gains of current-controlled drives from runs with and without a load that was weighed."""

from .fit import drive_gains, gain_rows, GainRows, METHODS
from .load import Load, load_on
from .result import DriveGain, DriveGains
from .runs import identify_gains

__all__ = [
    'METHODS',
    'DriveGain',
    'DriveGains',
    'GainRows',
    'Load',
    'drive_gains',
    'gain_rows',
    'identify_gains',
    'load_on',
]
