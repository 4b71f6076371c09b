# SPDX-License-Identifier: Apache-2.0
"""Shares of what was measured that sets of parameters cover, alone and with noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

LEVEL = 0.9
"""Share of the sets between whose outermost values a measured one has to be."""


@dataclass(frozen=True)
class Coverage:
    """
    Shares of measured values within 90 % of what parameter sets give.

    Attributes
    ----------
    sets:
        By the sets alone.
    with_residual:
        By the sets with the residual of each joint as noise.
    count:
        Number of sets.

    """

    sets: float
    with_residual: float
    count: int


def coverage_of(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], noise: np.ndarray, count: int, seed: int = 1
) -> tuple[Coverage, np.ndarray]:
    """
    Return the share of measured values that sets cover, and those with noise by joint.

    Parameters
    ----------
    parts:
        What the sets give, (count, m, n), and what was measured, (m, n); NaN does not count.
    noise:
        (n,) standard deviations of what is put on what the sets give.
    count:
        Number of sets.
    seed:
        Of the noise.

    Returns
    -------
    Coverage
        Over all joints.
    ndarray
        (n,) shares with noise; NaN for joints without a value.

    """
    tail, random = 0.5 * (1.0 - LEVEL), np.random.default_rng(seed)
    inside, total = np.zeros((2, len(noise))), np.zeros(len(noise))
    for drawn, measured in parts:
        noisy = drawn + noise * random.standard_normal(drawn.shape)
        for k, values in enumerate((drawn, noisy)):
            low, high = np.quantile(values, (tail, 1.0 - tail), axis=0)
            inside[k] += np.sum((low <= measured) & (measured <= high), axis=0)
        total += np.isfinite(measured).sum(axis=0)
    alone, with_residual = (inside.sum(axis=1) / max(total.sum(), 1.0)).tolist()
    joints = np.divide(inside[1], total, out=np.full(len(noise), np.nan), where=total > 0)
    return Coverage(alone, with_residual, count), joints
