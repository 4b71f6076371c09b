# SPDX-License-Identifier: Apache-2.0
"""Gains of current-controlled drives from runs with and without a load that was weighed."""

from .fit import drive_gains, gain_rows, GainRows, METHODS
from .load import Load, load_on
from .result import DriveGain, DriveGains
from .runs import identify_gains

__all__ = [
    'drive_gains',
    'DriveGain',
    'DriveGains',
    'gain_rows',
    'GainRows',
    'identify_gains',
    'Load',
    'load_on',
    'METHODS',
]
