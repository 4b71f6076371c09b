# SPDX-License-Identifier: Apache-2.0
"""Dry friction over one time step, with true sticking: no velocity below which it fades out."""

from __future__ import annotations

import numpy as np

SWEEPS = 200
"""Most sweeps of the fallback; it halves the error many times over in that many."""


def coulomb(
    mobility: np.ndarray, free: np.ndarray, limit: np.ndarray, stuck: np.ndarray | None = None
) -> np.ndarray:
    r"""
    Friction efforts that oppose the velocities at the end of a step.

    With the velocity :math:`v = v_{free} - W f`, each :math:`f_i` is :math:`limit_i \,
    \mathrm{sign}(v_i)` where the joint slides, and lies within :math:`\pm limit_i` where it sticks
    (:math:`v_i = 0`).  As W is positive definite there is exactly one such f.

    Parameters
    ----------
    mobility:
        (n, n) velocity that a unit friction effort takes away over the step, W.
    free:
        (n,) velocity at the end of the step without dry friction.
    limit:
        (n,) Coulomb friction, 0 or more.
    stuck:
        (n,) bool, which joints probably stick, such as those of the step before; it saves time.

    Returns
    -------
    np.ndarray
        (n,) friction efforts.

    """
    if stuck is not None and stuck.any():
        return _active_set(mobility, free, limit, np.where(free >= 0.0, 1.0, -1.0), stuck)
    effort = np.where(free >= 0.0, limit, -limit)
    velocity = free - mobility @ effort
    if (velocity * effort >= 0.0).all():
        return effort  # all joints slide on as they were: nearly every step
    sign = np.where(effort >= 0.0, 1.0, -1.0)
    return _active_set(mobility, free, limit, sign, velocity * effort < 0.0)


def _active_set(
    mobility: np.ndarray, free: np.ndarray, limit: np.ndarray, sign: np.ndarray, stuck: np.ndarray
) -> np.ndarray:
    """Solve for the joints that stick, correct the guess which do; usually done in two rounds."""
    for _ in range(2 * limit.size + 2):
        if stuck.all():
            effort = np.linalg.solve(mobility, free)
            broken = np.abs(effort) > limit
            if not broken.any():
                return effort
            reversed_ = ~stuck
        else:
            effort = limit * sign
            rest = free - mobility[:, ~stuck] @ effort[~stuck]
            effort[stuck] = np.linalg.solve(mobility[np.ix_(stuck, stuck)], rest[stuck])
            velocity = free - mobility @ effort
            broken = stuck & (np.abs(effort) > limit)
            reversed_ = ~stuck & (limit > 0.0) & (velocity * effort < 0.0)
            if not (broken.any() or reversed_.any()):
                return effort
        sign = np.where(broken, np.where(effort >= 0.0, 1.0, -1.0), sign)
        stuck = (stuck & ~broken) | reversed_
    return _sweeps(mobility, free, limit, effort)


def _sweeps(
    mobility: np.ndarray, free: np.ndarray, limit: np.ndarray, effort: np.ndarray
) -> np.ndarray:
    """Projected Gauss-Seidel, which converges from everywhere."""
    effort = np.clip(effort, -limit, limit)
    diagonal = mobility.diagonal()
    for _ in range(SWEEPS):
        before = effort.copy()
        for i in range(effort.size):
            velocity = free[i] - mobility[i] @ effort
            effort[i] = np.clip(effort[i] + velocity / diagonal[i], -limit[i], limit[i])
        if np.abs(effort - before).max() <= 1e-12 * max(limit.max(), 1.0):
            break
    return effort
