# SPDX-License-Identifier: Apache-2.0
"""
Calibration: motions until the parameters are known well enough.

`goal` has what is wanted and what is known, `loop` plans, executes and identifies.
"""

from .goal import CalibrationSettings, hopeless, needed_duration, Standing, sufficient_share
from .loop import (
    automatic_choice,
    calibrate,
    Calibration,
    DECLINED,
    Executor,
    MET,
    next_motion,
    SPENT,
    UNREACHABLE,
)

__all__ = [
    'automatic_choice',
    'calibrate',
    'Calibration',
    'CalibrationSettings',
    'DECLINED',
    'Executor',
    'hopeless',
    'MET',
    'needed_duration',
    'next_motion',
    'SPENT',
    'Standing',
    'sufficient_share',
    'UNREACHABLE',
]
