# SPDX-License-Identifier: Apache-2.0
r"""
Sequences of points (q, dq) whose energy differences tell the base parameters well apart.

Gautier and Khalil (1992), section 4.  A sequence of r + 1 points gives r equations
``W_i = h(point i + 1) - h(point i)``, so every point but the ends is used twice.  Limits are kept
by a change of variables, ``q = q_I + (q_F - q_I) sin^2 x`` and ``dq = dq_M sin x``; what is left
is descents without constraints from normal random numbers, along the exact gradient (`descent`).

The cost of a sequence is :math:`f = \lambda_1 \mathrm{Cond}(W) + \lambda_2 S`, where S is the
ratio of the largest to the smallest entry of W, and the condition number is one of three measures.
The logarithm of f, which has the same minimum, is what a descent copes with from starts of any
condition.  Largest and smallest value of a set change hands as the points move, and where they do,
the cost has kinks, which is where its minimum tends to be: power means smooth it (`log_spread`).
For the singular values of W and p = 2 that is half the logarithm of the Frobenius condition number
of W^T W.  The gradient by W is U diag(dF/ds) V^T with its singular vectors.

References
----------
Gautier, Khalil, "Exciting trajectories for the identification of base inertial parameters of
robots", Int. J. Robotics Research 11(4), 1992.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from ..errors import one_of, SettingsError
from ..regressor.energy import EnergyRegressor
from .criteria import log_spread

Measure = Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]
"""Turns W (..., r, b) and a power p into logarithms of condition numbers and their gradients."""

FROBENIUS_POWER = 2.0
"""The p that gives the Frobenius condition number of W^T W."""

_LEAST = 1e-14
"""Relative size below which a singular value is rounding."""


def spectral(matrix: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the 2-norm condition number by singular values, eq. (16)."""
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    value, slope = log_spread(np.maximum(sizes, _LEAST * sizes[..., :1]), power)
    return value, (left * slope[..., None, :]) @ right


def frobenius(matrix: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the Frobenius condition number of W^T W, eqs. (21), (22)."""
    value, gradient = spectral(matrix, FROBENIUS_POWER)
    return 2.0 * value, 2.0 * gradient


def pivoted(matrix: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the logarithm of the estimate |R_11 / R_bb| from the QR factors with column pivoting.

    |R_11| is the norm of the first pivot column, |R_bb| the distance of the last one from the span
    of the others.
    """
    value, gradient = np.empty(matrix.shape[:-2]), np.zeros_like(matrix)
    for place in np.ndindex(value.shape):
        W, slope = matrix[place], gradient[place]
        q, r, order = qr(W, mode='economic', pivoting=True)
        first, last = abs(r[0, 0]), max(abs(r[-1, -1]), _LEAST * abs(r[0, 0]))
        share = np.append(-solve_triangular(r[:-1, :-1], r[:-1, -1]), 1.0)
        slope[:, order[0]] = W[:, order[0]] / first**2
        slope[:, order] -= np.sign(r[-1, -1]) / last * np.outer(q[:, -1], share)
        value[place] = np.log(first / last)
    return value, gradient


MEASURES: dict[str, Measure] = {'spectral': spectral, 'qr': pivoted, 'frobenius': frobenius}
"""The three measures of the condition number that the paper tries, by name."""


def equilibrium(matrix: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the logarithm of S, the ratio of the largest to the smallest entry, eq. (19).

    Entries that are 0 are left out, as in the paper.
    """
    size = np.abs(matrix)
    size[size == 0.0] = np.nan
    value, slope = log_spread(size.reshape(*matrix.shape[:-2], -1), power)
    return value, slope.reshape(matrix.shape) * np.sign(matrix)


@dataclass(frozen=True)
class PointCost:
    """
    The cost of a matrix of energy equations, eq. (18).

    Attributes
    ----------
    measure:
        Name of the condition number, one of `MEASURES`.
    condition_weight, equilibrium_weight:
        lambda_1 and lambda_2.

    """

    measure: str = 'spectral'
    condition_weight: float = 1.0
    equilibrium_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise SettingsError(
                f"the measure of the condition number is '{self.measure}'",
                key='points.measure',
                value=self.measure,
                remedy=f'it has to be one of {one_of(MEASURES)}',
            )
        if self.condition_weight + self.equilibrium_weight <= 0.0:
            raise SettingsError(
                'condition_weight and equilibrium_weight are both 0',
                key='points.condition_weight',
                value=self.condition_weight,
                remedy='weigh at least one of them',
            )

    @property
    def first(self) -> PointCost:
        """
        The cost to search by before this one: of a smooth condition number alone.

        Pivots of a QR factorisation change hands all the time, and descents end at these kinks.
        From random points, the equilibrium, which is large, leads to where the condition is poor;
        from a good condition, it is had nearly for nothing.
        """
        return PointCost('spectral' if self.measure == 'qr' else self.measure)

    def value(self, matrix: np.ndarray, power: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        """
        Return the logarithms (...) of the cost and their gradients by W (..., r, b), r >= b.

        ``power`` is the p of the smoothing; infinity for none.
        """
        parts = [
            (np.log(weight), *function(matrix, power))
            for weight, function in (
                (self.condition_weight, MEASURES[self.measure]),
                (self.equilibrium_weight, equilibrium),
            )
            if weight > 0.0
        ]
        total = np.logaddexp.reduce([weight + log for weight, log, _ in parts])
        gradient = np.zeros_like(matrix)
        for weight, log, slope in parts:
            gradient += np.exp(weight + log - total)[..., None, None] * slope
        return total, gradient


NEW_POINTS = 3
"""Largest number of points that are drawn anew in a sequence."""


@dataclass(frozen=True)
class Sequence:
    """
    Points of a motion.

    Attributes
    ----------
    position, velocity:
        (..., r + 1, n_joints) [rad, rad/s; m, m/s]; axes before these two are for several
        sequences at once.

    """

    position: np.ndarray
    velocity: np.ndarray


@dataclass(frozen=True)
class EnergyEquations:
    """
    The matrix of energy differences of a sequence.

    Attributes
    ----------
    regressor:
        The robot's energies.
    columns:
        (b,) base parameters, as places in its layout.
    scale:
        (b,) what the columns are divided by, fixed beforehand; 1 leaves them in SI units.

    """

    regressor: EnergyRegressor
    columns: np.ndarray
    scale: np.ndarray

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.columns.size

    def matrix(self, sequence: Sequence) -> np.ndarray:
        """Return W, (..., r, b), of one sequence or several."""
        return self.linearised(sequence)[0]

    def linearised(
        self, sequence: Sequence
    ) -> tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]:
        """Return W and what takes a gradient by W back to positions and velocities."""
        shape = sequence.position.shape
        rows, pull_back = self.regressor.linearised(
            sequence.position.reshape(-1, shape[-1]), sequence.velocity.reshape(-1, shape[-1])
        )
        matrix = np.diff(rows[:, self.columns].reshape(*shape[:-1], -1), axis=-2) / self.scale

        def back(by_matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            by_rows = np.zeros((*shape[:-1], rows.shape[1]))
            scaled = by_matrix / self.scale
            # every point but the ends stands in two differences
            by_rows[..., 1:, self.columns] += scaled
            by_rows[..., :-1, self.columns] -= scaled
            by_position, by_velocity = pull_back(by_rows.reshape(-1, rows.shape[1]))
            return by_position.reshape(shape), by_velocity.reshape(shape)

        return matrix, back


@dataclass(frozen=True)
class PointBounds:
    """
    Limits of points, and the variables that keep them.

    Attributes
    ----------
    lower, upper:
        (n_joints,) position [rad or m].
    velocity:
        (n_joints,) largest speed [rad/s or m/s].

    """

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray

    def sequence(self, x: np.ndarray) -> Sequence:
        """Return the points of variables x, (..., 2, r + 1, n_joints)."""
        width = self.upper - self.lower
        return Sequence(
            self.lower + width * np.sin(x[..., 0, :, :]) ** 2,
            self.velocity * np.sin(x[..., 1, :, :]),
        )

    def pull_back(
        self, x: np.ndarray, by_position: np.ndarray, by_velocity: np.ndarray
    ) -> np.ndarray:
        """Turn a gradient by the points into one by the variables x."""
        width = self.upper - self.lower
        return np.stack(
            [
                by_position * width * np.sin(2.0 * x[..., 0, :, :]),
                by_velocity * self.velocity * np.cos(x[..., 1, :, :]),
            ],
            axis=-3,
        )

    def variables(self, sequence: Sequence) -> np.ndarray:
        """Return variables of points within the limits, (..., 2, r + 1, n_joints)."""
        share = (sequence.position - self.lower) / (self.upper - self.lower)
        return np.stack(
            [
                np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0))),
                np.arcsin(np.clip(sequence.velocity / self.velocity, -1.0, 1.0)),
            ],
            axis=-3,
        )

    def random(self, random: np.random.Generator, n_points: int) -> Sequence:
        """Return points that are uniform within the limits."""
        shape = (n_points, self.lower.size)
        return Sequence(
            random.uniform(self.lower, self.upper, shape),
            random.uniform(-self.velocity, self.velocity, shape),
        )


def renew_points(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """
    Draw some of the points of sequences anew, in place, and return which, (count, r + 1).

    ``x`` are variables (count, 2, r + 1, n_joints).
    """
    new = np.zeros((len(x), x.shape[2]), dtype=bool)
    for child, chosen in zip(x, new, strict=True):
        count = random.integers(1, NEW_POINTS + 1)
        chosen[random.choice(x.shape[2], count, replace=False)] = True
        child[:, chosen] = random.standard_normal((2, count, x.shape[3]))
    return new
