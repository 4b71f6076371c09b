# SPDX-License-Identifier: Apache-2.0
"""
Dry friction over one time step.

Coulomb friction sticks truly: there is no velocity below which it fades out.  Static friction
(Szabo and Szadeczky-Kardoss) is a steep but smooth function of the velocity, and so is the mean
over a step of Dahl's friction, whose direction follows the displacement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..regressor.joint_terms import arctan_shape

NEWTON, HALVINGS = 60, 30
"""Most steps to a step's static friction, and how often one is halved; a few are the rule."""

SWEEPS = 200
"""Most sweeps of the fallback; it halves the error many times over in that many."""


def coulomb(
    mobility: np.ndarray, free: np.ndarray, limit: np.ndarray, stuck: np.ndarray | None = None
) -> np.ndarray:
    r"""
    Friction efforts (n,) that oppose the velocities at the end of a step.

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


@dataclass(frozen=True)
class StaticFriction:
    """
    Stiction and Stribeck friction, equation (9) of Szabo and Szadeczky-Kardoss (2021).

    ts and tsc are (n,) [N m or N], their slopes (n,) [s/rad or s/m].
    """

    stiction: np.ndarray
    stribeck: np.ndarray
    stiction_slope: np.ndarray
    stribeck_slope: np.ndarray

    def effort(self, velocity: np.ndarray) -> np.ndarray:
        """Friction efforts (n,) at velocities (n,)."""
        return self.stiction * arctan_shape(velocity, self.stiction_slope) + (
            self.stribeck * arctan_shape(velocity, self.stribeck_slope)
        )

    def steepness(self, velocity: np.ndarray) -> np.ndarray:
        """Return the derivatives (n,) of the efforts by the velocities."""
        total = np.zeros_like(velocity)
        for size, slope in (
            (self.stiction, self.stiction_slope),
            (self.stribeck, self.stribeck_slope),
        ):
            total += size * slope / (1.0 + (slope * velocity) ** 2)
        return 2.0 / np.pi * total


STEEPEST = 1e-6
"""Breakaway displacement that stands for none beside others [rad or m]."""


@dataclass(frozen=True)
class DahlFriction:
    """
    Dry friction over a step whose direction z follows the displacement, after Dahl.

    ``dz/dt = v/x0 (1 - z sign v)`` (`regressor.joint_terms`) has, for a constant velocity v, the
    solution ``z = sign v + (z_0 - sign v) exp(-|v| t / x0)``; the effort of a step is the limit
    times the mean of z.

    ``limit`` is the (n,) dry friction [N m or N], ``breakaway`` (n,) x0 [rad or m], ``state`` (n,)
    z_0 at the beginning of the step, from -1 to 1, and ``step`` its length [s].
    """

    limit: np.ndarray
    breakaway: np.ndarray
    state: np.ndarray
    step: float

    def effort(self, velocity: np.ndarray) -> np.ndarray:
        """Mean friction efforts (n,) over the step at constant velocities (n,)."""
        sign, u = np.sign(velocity), self._displacement(velocity)
        share = np.divide(-np.expm1(-u), u, out=np.ones_like(u), where=u > 0.0)
        return self.limit * (sign + (self.state - sign) * share)

    def steepness(self, velocity: np.ndarray) -> np.ndarray:
        """Return the derivatives (n,) of the efforts by the velocities."""
        u = self._displacement(velocity)
        wide = np.maximum(u, 1e-3)
        fall = np.where(u < 1e-3, 0.5 - u / 3.0, (1.0 - np.exp(-wide) * (1.0 + wide)) / wide**2)
        rise = 1.0 - np.sign(velocity) * self.state
        return self.limit * rise * fall * self.step / self.breakaway

    def after(self, velocity: np.ndarray) -> np.ndarray:
        """Return the directions (n,) at the end of the step at constant velocities (n,)."""
        sign = np.sign(velocity)
        return sign + (self.state - sign) * np.exp(-self._displacement(velocity))

    def _displacement(self, velocity: np.ndarray) -> np.ndarray:
        """Return displacements of the step in units of the breakaway displacement, (n,)."""
        return np.abs(velocity) * self.step / self.breakaway


def over_step(
    kinds: Sequence[StaticFriction | DahlFriction],
    mobility: np.ndarray,
    before: np.ndarray,
    free: np.ndarray,
) -> np.ndarray:
    """
    Friction efforts (n,) at the mean velocity of a step, which they change themselves.

    Parameters
    ----------
    kinds:
        What the friction is the sum of.
    mobility, free:
        As for `coulomb`.
    before:
        (n,) velocity at the beginning of the step.

    """
    identity = np.eye(before.size)
    mean = 0.5 * (before + free)

    def effort(v: np.ndarray) -> np.ndarray:
        return np.sum([kind.effort(v) for kind in kinds], axis=0)

    def excess(v: np.ndarray) -> np.ndarray:
        return v - mean + 0.5 * (mobility @ effort(v))

    velocity = 0.5 * before + 0.5 * (free - mobility @ effort(before))
    rest = excess(velocity)
    for _ in range(NEWTON):
        size = np.abs(rest).max()
        if size <= 1e-14 * max(1.0, np.abs(mean).max()):
            break
        steepness = np.sum([kind.steepness(velocity) for kind in kinds], axis=0)
        step = np.linalg.solve(identity + 0.5 * mobility * steepness, rest)
        # beyond its knee the friction is far from straight: full steps would overshoot for ever
        for _ in range(HALVINGS):
            trial = velocity - step
            value = excess(trial)
            if np.abs(value).max() < size:
                break
            step = 0.5 * step
        velocity, rest = trial, value
    return effort(velocity)
