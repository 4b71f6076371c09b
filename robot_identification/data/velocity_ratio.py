# SPDX-License-Identifier: Apache-2.0
"""
Ratio of recorded velocities to those of the positions.

A wrong rate, or stamps in another unit, make all of them wrong by one factor.  Positions are
compared with the integral of the velocities, both without their straight lines: noise and the
rounding of encoders, which differences amplify, hardly enter, and no filter is needed whose
cut-off frequency would depend on the rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy


@dataclass(frozen=True)
class RatioConstants:
    """Constants of the comparison."""

    fewest_samples: int = 50
    """Samples from which there is a ratio."""
    alike: float = 0.95
    """Squared correlation of position and integral from which a column counts."""
    apart: float = 0.05
    """Relative difference up to which ratios are one."""
    share: float = 0.5
    """Share of the columns that move which have to count."""


RATIO = RatioConstants()


def velocity_ratio(time: np.ndarray, position: np.ndarray, velocity: np.ndarray) -> float | None:
    """
    Return the ratio of velocities to those of the positions that all joints have in common.

    ``time`` (n,), ``position`` and ``velocity`` (n, k) are in any units.  None where there is no
    common ratio, or a negative one.
    """
    moves = (np.ptp(position, axis=0) > 0.0) & (np.ptp(velocity, axis=0) > 0.0)
    if len(time) < RATIO.fewest_samples or not moves.any():
        return None
    travelled = scipy.integrate.cumulative_trapezoid(velocity[:, moves], time, axis=0, initial=0.0)
    line = np.stack([np.ones_like(time), (time - time.mean()) / np.ptp(time)], axis=1)
    both = np.hstack([position[:, moves], travelled])
    both -= line @ np.linalg.lstsq(line, both, rcond=None)[0]
    places, travelled = np.hsplit(both, 2)
    product = (places * travelled).sum(axis=0)
    square, size = (travelled**2).sum(axis=0), (places**2).sum(axis=0)
    counts = (product > 0.0) & (product**2 > RATIO.alike * square * size)
    if counts.sum() < RATIO.share * moves.sum():
        return None
    ratios = square[counts] / product[counts]
    common = float(np.median(ratios))
    return common if (np.abs(ratios / common - 1.0) < RATIO.apart).all() else None
