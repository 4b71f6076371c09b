# SPDX-License-Identifier: Apache-2.0
"""
Calibration: motions until the parameters are known well enough.

`goal` has what is wanted and what is known, `motions` plans for what is open, `loop` executes and
identifies.
"""

from .goal import (
    Calibration,
    CalibrationSettings,
    DECLINED,
    hopeless,
    MET,
    SPENT,
    Standing,
    UNREACHABLE,
)
from .loop import automatic_choice, calibrate, Executor
from .motions import (
    first_duration,
    needed_duration,
    next_motion,
    PlanMotion,
    sufficient_share,
)

__all__ = [
    'automatic_choice',
    'calibrate',
    'Calibration',
    'CalibrationSettings',
    'DECLINED',
    'Executor',
    'first_duration',
    'hopeless',
    'MET',
    'needed_duration',
    'next_motion',
    'PlanMotion',
    'SPENT',
    'Standing',
    'sufficient_share',
    'UNREACHABLE',
]
