# SPDX-License-Identifier: Apache-2.0
"""
Negative numbers that were read without their sign.

Servos send 8 or 16 bits; read as an unsigned number, -1 is 255 or 65535, and a sign in a bit of
its own adds 128, 1024 or 32768 to the absolute value.  Where the numbers move smoothly with one of
these undone, and jump without, it was so.
"""

from __future__ import annotations

import numpy as np

_COMPLEMENTS = (8, 16, 32)
_SIGN_BITS = (7, 10, 15)
_SMOOTHER = 0.2
"""Steps at changes of the sign, of the right numbers by those of the wrong ones."""
_LEAST_SHARE = 0.01
"""Share of samples of either sign that there has to be."""


def lost_sign(values: np.ndarray) -> str:
    """Return what undoes the loss of signs in values (n,), in words; empty where none is lost."""
    if not values.size or values.min() < 0.0 or (values != np.rint(values)).any():
        return ''
    for bits in _COMPLEMENTS:
        half = 2.0 ** (bits - 1)
        right = np.where(values >= half, values - 2.0 * half, values)
        if _is_right(values, right, half):
            return f'subtract {2.0 * half:.0f} from values from {half:.0f} on'
    for bits in _SIGN_BITS:
        half = 2.0**bits
        right = np.where(values >= half, half - values, values)
        if _is_right(values, right, half):
            return f'take {half:.0f} off values from {half:.0f} on, and reverse their sign'
    return ''


def _is_right(values: np.ndarray, right: np.ndarray, half: float) -> bool:
    share = float(np.mean(values >= half))
    in_range = values.max() < 2.0 * half and _LEAST_SHARE < share < 1.0 - _LEAST_SHARE
    if not in_range:
        return False
    # 8 bits are hardly wider than what is in them, so that not all steps are asked
    changes = np.flatnonzero(np.diff(values >= half))
    steps = [np.median(np.abs(np.diff(each))[changes]) for each in (right, values)]
    return bool(steps[0] < _SMOOTHER * steps[1])
