# SPDX-License-Identifier: Apache-2.0
"""
Objective of the planner with its gradient, in unconstrained variables.

`Objective` is a criterion of the information along a motion of a family that keeps its limits by
construction, with penalties for what cannot be had so: too large efforts, and links that come
close to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..data.recording import Motion
from ..model.parameters import ParameterSet
from ..regressor import Regressor
from ..regressor.inverse_dynamics import pull_back
from .distance_penalty import DistancePenalty
from .families import Matrices, MotionFamily

EFFORT_SHARE = 0.99
"""Share of an effort limit from which on the penalty grows."""

EFFORT_WEIGHT = 1000.0
"""Factor of the mean squared excess over the effort limits."""

SIGN_WIDTH = 0.05
"""Share of a velocity limit over which the sign of the velocity is smoothed."""

Criterion = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Turns an information matrix (b, b) into the value to be minimised and its gradient (b, b)."""


@dataclass(frozen=True)
class Value:
    """
    Value of the objective.

    Attributes
    ----------
    total:
        What is minimised.
    criterion:
        Without the penalties.
    penalty:
        Of efforts and distances; 0 where all is well.

    """

    total: float
    criterion: float
    penalty: float


@dataclass(frozen=True)
class Objective:
    """
    The criterion along a motion, with penalties.

    Attributes
    ----------
    family:
        What motions there are.
    regressor, prior:
        The model, and the parameters that predict efforts.
    columns:
        (b,) columns of the regressor whose parameters are estimated.
    criterion:
        Function of the information that is minimised.
    noise:
        (n_joints,) standard deviation of the efforts of one of ``time``.
    earlier:
        (b, b) information of earlier recordings.
    time:
        (n_samples,) when the motion is looked at [s].
    effort:
        (n_joints,) limits of the efforts.
    distances:
        Penalty of links that come close; None leaves distances aside.
    buffer:
        Distance from which on links count as close [m].
    weight:
        Factor of the penalties.
    every:
        Each so many samples distances are looked at.

    """

    family: MotionFamily
    regressor: Regressor
    columns: np.ndarray
    prior: ParameterSet
    criterion: Criterion
    noise: np.ndarray
    earlier: np.ndarray
    time: np.ndarray
    effort: np.ndarray
    distances: DistancePenalty | None = None
    buffer: float = 0.0
    weight: float = 1.0
    every: int = 2
    _matrices: Matrices = field(init=False, repr=False, compare=False)
    _coulomb: tuple[tuple[int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, '_matrices', self.family.basis.matrices(self.time))
        names = {name: i for i, name in enumerate(self.regressor.layout.names)}
        places = [(j, names.get(f'{name}.fc')) for j, name in enumerate(self.family.limits.joints)]
        object.__setattr__(self, '_coulomb', tuple(p for p in places if p[1] is not None))

    def motion(self, x: np.ndarray) -> Motion:
        """Return the motion at `time` for variables x."""
        return Motion(*self.family.motion(x, self._matrices))

    def rows(self, motion: Motion) -> np.ndarray:
        """
        Return the regressor as (n_samples, n_joints, n_parameters).

        Coulomb friction's jump is smoothed: a criterion that jumps has no useful gradient, and a
        drive that hardly moves says little about it.
        """
        rows = self.regressor.rows(motion).reshape(len(motion), -1, len(self.regressor.layout))
        for joint, column in self._coulomb:
            rows[:, joint, column] = np.tanh(motion.velocity[:, joint] / self._width(joint))
        return rows

    def _effort(self, rows: np.ndarray) -> np.ndarray:
        """
        Return the efforts (n_samples, n_joints), with friction of either sign near a reversal.

        What is missing of the friction where its sign is smoothed is added to the size: within the
        width the sign changes, and the effort is the larger one of both sides.
        """
        effort = rows @ self.prior.values
        for joint, column in self._coulomb:
            missing = self.prior.values[column] * (1.0 - np.abs(rows[:, joint, column]))
            effort[:, joint] += np.copysign(missing, effort[:, joint])
        return np.asarray(effort)

    def _width(self, joint: int) -> float:
        return SIGN_WIDTH * float(self.family.limits.velocity[joint])

    def information(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the information (b, b) and the weighed base rows (n_samples n_joints, b)."""
        base = rows[:, :, self.columns] / self.noise[:, None]
        flat = base.reshape(-1, self.columns.size)
        return flat.T @ flat + self.earlier, flat

    def value(self, x: np.ndarray) -> Value:
        """Return the value for variables x."""
        motion = self.motion(x)
        rows = self.rows(motion)
        criterion, _ = self.criterion(self.information(rows)[0])
        effort, _ = effort_penalty(self._effort(rows), self.effort)
        distance, _ = self._distance(motion)
        penalty = self.weight * (effort + distance)
        return Value(criterion + penalty, criterion, penalty)

    def gradient(self, x: np.ndarray) -> tuple[Value, np.ndarray]:
        """Return the value and its gradient by the variables."""
        motion = self.motion(x)
        rows = self.rows(motion)
        information, flat = self.information(rows)
        criterion, by_information = self.criterion(information)
        effort, by_effort = effort_penalty(self._effort(rows), self.effort)
        distance, by_position = self._distance(motion)
        by_rows = np.zeros_like(rows)
        if effort > 0.0:
            by_rows += self.weight * by_effort[:, :, None] * self.prior.values
        by_base = (flat @ (2.0 * by_information)).reshape(len(motion), -1, flat.shape[1])
        by_rows[:, :, self.columns] += by_base / self.noise[:, None]
        by_signs = [by_rows[:, joint, column].copy() for joint, column in self._coulomb]
        for joint, column in self._coulomb:
            by_rows[:, joint, column] = 0.0
        by_q, by_dq, by_ddq = pull_back(self.regressor, motion, by_rows)
        by_q += self.weight * by_position
        for (joint, column), by_sign in zip(self._coulomb, by_signs, strict=True):
            bent = (1.0 - rows[:, joint, column] ** 2) / self._width(joint)
            # the missing friction falls as the smoothed sign grows
            missing = np.sign(rows[:, joint, column]) * np.sign(by_effort[:, joint])
            missing *= self.weight * by_effort[:, joint] * self.prior.values[column]
            by_dq[:, joint] += (by_sign - missing) * bent
        penalty = self.weight * (effort + distance)
        value = Value(criterion + penalty, criterion, penalty)
        return value, self.family.pull_back(x, self._matrices, (by_q, by_dq, by_ddq))

    def _distance(self, motion: Motion) -> tuple[float, np.ndarray]:
        """Return the penalty of distances at some samples, and its gradient by all positions."""
        gradient = np.zeros_like(motion.position)
        value, some = 0.0, slice(None, None, self.every)
        if self.distances is not None:
            value, gradient[some] = self.distances.of(motion.position[some], self.buffer)
        return value, gradient


def effort_penalty(effort: np.ndarray, limit: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean squared excess over the limits, and its gradient (n_samples, n_joints)."""
    excess = np.maximum(np.abs(effort) / limit - EFFORT_SHARE, 0.0)
    factor = EFFORT_WEIGHT / len(effort)
    gradient = np.where(excess > 0.0, 2.0 * factor * excess * np.sign(effort) / limit, 0.0)
    return float(factor * (excess**2).sum()), gradient
