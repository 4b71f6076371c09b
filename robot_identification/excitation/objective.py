# SPDX-License-Identifier: Apache-2.0
"""
Objective of the planner with its gradient, in unconstrained variables.

`FeasibleSeries` turns any numbers into a Fourier series that starts and ends at rest and keeps the
limits of position, velocity, acceleration and jerk.  `Objective` adds penalties for what cannot be
had by construction: too large efforts, and links that come close to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..base_parameters import BaseStructure
from ..data.recording import Motion
from ..errors import ExcitationError
from ..model.parameters import ParameterSet
from ..regressor import Regressor
from .collisions import CollisionModel
from .criteria import Criterion
from .limits import Limits
from .trajectories import fourier_basis, FourierTrajectory, jerk_basis, rest_to_rest

POINTS_PER_PERIOD = 40
"""Points of the grid on which limits are kept, for each period of the highest harmonic."""

SHARPNESS = 40
"""p of the p-norm that stands for the largest value on the grid, from above."""

LEAST_ROOM = 0.01
"""Share of the position range that has to be free on either side of the start."""


@dataclass(frozen=True)
class FeasibleSeries:
    r"""
    Fourier series within limits, from unconstrained variables.

    For joint j with variables :math:`x_j`, the coefficients are :math:`s_j Z x_j`: Z is a basis of
    the series from rest to rest and :math:`s_j = (1 + \|y_j\|_p^p)^{-1/p} < 1 / \max y_j`, where
    :math:`y_j` are the utilisations of all limits on a grid.  So every limit is kept, small
    variables mean small motions and large ones motions up to the limits.

    Between the points of the grid, a trigonometric polynomial of degree M on K equal steps of its
    period exceeds its largest value on the grid by at most :math:`1 / \cos(\pi M / K)` (Ehlich and
    Zeller 1964); the limits are taken smaller by that, so they hold at all times.
    """

    limits: Limits
    start: np.ndarray
    duration: float
    frequency: float
    harmonics: int
    _basis: np.ndarray = field(init=False, repr=False, compare=False)
    _grid: np.ndarray = field(init=False, repr=False, compare=False)
    _rooms: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n_grid = POINTS_PER_PERIOD * self.harmonics
        time = np.arange(n_grid) / n_grid / self.frequency
        basis = rest_to_rest(self.duration, self.frequency, self.harmonics)
        position, velocity, acceleration = (
            matrix @ basis for matrix in fourier_basis(time, self.frequency, self.harmonics)
        )
        grid = [position, -position, velocity, acceleration]
        if np.isfinite(self.limits.jerk).any():
            grid.append(jerk_basis(time, self.frequency, self.harmonics) @ basis)
        object.__setattr__(self, '_basis', basis)
        object.__setattr__(self, '_grid', np.stack(grid))
        object.__setattr__(self, '_rooms', self._room(np.cos(np.pi / POINTS_PER_PERIOD)))

    def _room(self, tightness: float) -> np.ndarray:
        """Return (k, n_joints): room above and below the start, then what `_grid` has besides."""
        above, below = self.limits.upper - self.start, self.start - self.limits.lower
        width = above + below
        for i, joint in enumerate(self.limits.joints):
            if min(above[i], below[i]) < LEAST_ROOM * width[i]:
                raise ExcitationError(
                    f"start of joint '{joint}', {self.start[i]:.6g} {self.limits.units[i]}, is at "
                    'its position limit, which leaves it no room to move',
                    joint=joint,
                    key='start',
                    value=float(self.start[i]),
                    remedy='start further inside the range',
                )
        lost = 0.5 * width * (1.0 / tightness - 1.0)
        sizes = (self.limits.velocity, self.limits.acceleration, self.limits.jerk)
        others = [tightness * size for size in sizes[: len(self._grid) - 2]]
        return np.stack([above - lost, below - lost, *others])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the variables, (n_free, n_joints)."""
        return self._basis.shape[1], len(self.limits.joints)

    def _utilisation(self, x: np.ndarray) -> np.ndarray:
        """(k, n_grid, n_joints), at least 0."""
        y = (self._grid @ x) / self._rooms[:, None, :]
        y[2:] = np.abs(y[2:])
        return np.maximum(y, 0.0)

    def _scale(self, y: np.ndarray) -> np.ndarray:
        largest = np.maximum(1.0, y.max(axis=(0, 1)))
        total = largest**-SHARPNESS + ((y / largest) ** SHARPNESS).sum(axis=(0, 1))
        return total ** (-1.0 / SHARPNESS) / largest

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Return random variables whose motion reaches one limit of each joint."""
        x = rng.standard_normal(self.shape)
        return x / self._utilisation(x).max(axis=(0, 1))

    def saturated(self, x: np.ndarray) -> np.ndarray:
        """Return variables of about the same motion whose size is not beyond the limits."""
        return self._scale(self._utilisation(x)) * x

    def coefficients(self, x: np.ndarray) -> np.ndarray:
        """Return the series' coefficients (2 harmonics, n_joints) for variables of `shape`."""
        return self._basis @ self.saturated(x)

    def pull_back(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Turn a gradient with respect to the coefficients into one with respect to ``x``."""
        y = self._utilisation(x)
        scale = self._scale(y)
        direct = self._basis.T @ gradient
        # d scale / d x = -scale^2 sum (scale y)^(p-1) dy/dx
        weight = (scale * y) ** (SHARPNESS - 1) / self._rooms[:, None, :]
        weight[2:] *= np.sign(self._grid[2:] @ x)
        slope = -(scale**2) * np.einsum('gkd,gkj->dj', self._grid, weight)
        return scale * direct + (direct * x).sum(axis=0) * slope

    def trajectory(self, x: np.ndarray) -> FourierTrajectory:
        """Return the trajectory for variables of `shape`."""
        return FourierTrajectory(
            self.limits.joints, self.duration, self.frequency, self.start, self.coefficients(x)
        )


@dataclass(frozen=True)
class Value:
    """
    Value of the objective.

    Attributes
    ----------
    total:
        What is minimised.
    criterion:
        Without the penalties, as a user knows it (a condition number, not its logarithm).
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
    series:
        What motions there are.
    regressor, structure, prior:
        The model, its base parameters, and the parameters that predict efforts.
    criterion, measure:
        Function of the normal matrix that is minimised, and its translation for users.
    collisions:
        The robot's collision model; None leaves distances aside.
    buffer:
        Distance from which on links count as close [m].
    time:
        (n_samples,) when the motion is looked at [s].
    weight:
        Factor of the penalties.

    """

    series: FeasibleSeries
    regressor: Regressor
    structure: BaseStructure
    prior: ParameterSet
    criterion: Criterion
    measure: str
    collisions: CollisionModel | None
    buffer: float
    time: np.ndarray
    weight: float = 1.0
    _bases: tuple = field(init=False, repr=False, compare=False)
    _coulomb: tuple = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        s = self.series
        object.__setattr__(self, '_bases', fourier_basis(self.time, s.frequency, s.harmonics))
        names = {name: i for i, name in enumerate(self.regressor.layout.names)}
        places = [(j, names.get(f'{joint}.fc')) for j, joint in enumerate(s.limits.joints)]
        object.__setattr__(self, '_coulomb', tuple(p for p in places if p[1] is not None))

    def motion(self, x: np.ndarray) -> Motion:
        """Return the motion at `time` for variables x."""
        c = self.series.coefficients(x)
        q, v, a = (basis @ c for basis in self._bases)
        return Motion(self.series.start + q, v, a)

    def rows(self, motion: Motion) -> np.ndarray:
        """
        Return the regressor as (n_samples, n_joints, n_parameters).

        Coulomb friction's jump is smoothed over a twentieth of the velocity limit: a criterion
        that jumps has no useful gradient, and a drive that hardly moves says little about it.
        """
        rows = self.regressor.rows(motion)
        rows = rows.reshape(len(motion), -1, len(self.regressor.layout))
        for joint, column in self._coulomb:
            width = 0.05 * self.series.limits.velocity[joint]
            rows[:, joint, column] = np.tanh(motion.velocity[:, joint] / width)
        return rows

    def value(self, x: np.ndarray) -> Value:
        """Return the value for variables x."""
        motion = self.motion(x)
        rows = self.rows(motion)
        base = rows[:, :, self.structure.independent].reshape(-1, self.structure.n_base)
        criterion, _ = self.criterion(base.T @ base)
        effort, _ = self._effort_penalty(rows)
        distance, _ = self._distance_penalty(motion)
        return self._value(criterion, base, self.weight * (effort + distance))

    def gradient(self, x: np.ndarray) -> tuple[Value, np.ndarray]:
        """Return the value and its gradient, of the shape of x."""
        motion = self.motion(x)
        rows = self.rows(motion)
        base = rows[:, :, self.structure.independent]
        flat = base.reshape(-1, self.structure.n_base)
        criterion, by_gram = self.criterion(flat.T @ flat)
        effort, by_effort = self._effort_penalty(rows)
        distance, by_position = self._distance_penalty(motion)
        by_rows = self.weight * by_effort[:, :, None] * self.prior.values
        by_rows[:, :, self.structure.independent] += 2.0 * (flat @ by_gram).reshape(base.shape)
        slopes = self._through_motion(motion, rows, by_rows)
        slopes[0] += self.weight * by_position
        by_coefficients = sum(b.T @ s for b, s in zip(self._bases, slopes, strict=True))
        value = self._value(criterion, flat, self.weight * (effort + distance))
        return value, self.series.pull_back(x, by_coefficients)

    def _value(self, criterion: float, base: np.ndarray, penalty: float) -> Value:
        shown = criterion
        if self.measure == 'frobenius':
            shown = float(np.exp(criterion))
        if self.measure == 'condition_number':
            length = np.sqrt(np.maximum((base**2).sum(axis=0), 1e-300))
            values = np.linalg.eigvalsh(base.T @ base / np.outer(length, length))
            shown = float(np.sqrt(values[-1] / max(values[0], 1e-15)))
        return Value(criterion + penalty, shown, penalty)

    def _effort_penalty(self, rows: np.ndarray) -> tuple[float, np.ndarray]:
        return effort_penalty(rows @ self.prior.values, self.series.limits.effort)

    def _distance_penalty(self, motion: Motion) -> tuple[float, np.ndarray]:
        return distance_penalty(self.collisions, motion, self.buffer)

    def _through_motion(self, motion: Motion, rows: np.ndarray, by_rows: np.ndarray) -> list:
        """Turn a gradient with respect to the rows into ones with respect to q, v and a."""
        return through_motion(self.rows, motion, rows, by_rows)


def effort_penalty(effort: np.ndarray, limit: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean squared excess over 97 % of the limits, and its gradient (n_samples, n_joints)."""
    excess = np.maximum(np.abs(effort) / limit - 0.97, 0.0)
    factor = 100.0 / len(effort)
    gradient = np.where(excess > 0.0, 2.0 * factor * excess * np.sign(effort) / limit, 0.0)
    return float(factor * (excess**2).sum()), gradient


def distance_penalty(
    collisions: CollisionModel | None, motion: Motion, buffer: float
) -> tuple[float, np.ndarray]:
    """Mean penalty of links that are close, and its gradient by the position."""
    if collisions is None:
        return 0.0, np.zeros_like(motion.position)
    value, gradient = collisions.penalty(motion.position, buffer)
    factor = 10.0 / len(motion)
    return factor * value, factor * gradient


def through_motion(
    function: Callable[[Motion], np.ndarray],
    motion: Motion,
    values: np.ndarray,
    by_values: np.ndarray,
) -> list[np.ndarray]:
    """
    Turn a gradient by what a function makes of a motion into ones by q, v and a.

    Each joint's state is moved a little for all samples at once: a sample's values depend on that
    sample's state alone, so 3 n_joints evaluations give the derivatives of all of them.

    Parameters
    ----------
    function:
        Takes a motion to (n_samples, ...) values, such as efforts or regressor rows.
    motion, values:
        Where, and the values there.
    by_values:
        Gradient by the values, of their shape.

    Returns
    -------
    list of np.ndarray
        (n_samples, n_joints) by position, velocity and acceleration.

    """
    slopes = []
    arrays = [motion.position, motion.velocity, motion.acceleration]
    by_values = by_values.reshape(len(motion), -1)
    # rows are linear in the acceleration and quadratic in the velocity
    for kind, step in enumerate((1e-6, 1e-5, 1.0)):
        slope = np.empty_like(motion.position)
        for joint in range(slope.shape[1]):
            moved = [array.copy() if i == kind else array for i, array in enumerate(arrays)]
            moved[kind][:, joint] += step
            change = (function(Motion(*moved)) - values).reshape(len(motion), -1)
            slope[:, joint] = np.einsum('sp,sp->s', change, by_values) / step
        slopes.append(slope)
    return slopes
