# SPDX-License-Identifier: Apache-2.0
r"""
Cost of a matrix of energy equations, and the measures of its condition number.

The cost (`PointCost`) is
:math:`f = \lambda_1 \mathrm{Cond}(W) + \lambda_2 S`, where S is the ratio of the largest to the
smallest entry of W, and the condition number is one of three measures.  The logarithm of f, which
has the same minimum, is what a descent copes with from starts of any condition.  Largest and
smallest value of a set change hands as the points move, and where they do, the cost has kinks,
which is where its minimum tends to be: power means smooth it (`log_spread`).  For the singular
values of W and p = 2 that is half the logarithm of the Frobenius condition number of W^T W.  The
gradient by W is U diag(dF/ds) V^T with its singular vectors.

References
----------
Gautier, Khalil, "Exciting trajectories for the identification of base inertial parameters of
robots", Int. J. Robotics Research 11(4), 1992: the cost of energy equations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from ..errors import SettingsError
from .criteria import log_spread

# ------------------------------------------------------------------------------ energy equations


Measure = Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]
"""Turns W (..., r, b) and a power p into logarithms of condition numbers and their gradients."""

FROBENIUS_POWER = 2.0
"""The p that gives the Frobenius condition number of W^T W."""

LEAST_SINGULAR_VALUE = 1e-14
"""Relative size below which a singular value is rounding."""


def spectral_condition(matrix: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the 2-norm condition number by singular values, eq. (16)."""
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    value, slope = log_spread(np.maximum(sizes, LEAST_SINGULAR_VALUE * sizes[..., :1]), power)
    return value, (left * slope[..., None, :]) @ right


def frobenius_condition(matrix: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the Frobenius condition number of W^T W, eqs. (21), (22)."""
    value, gradient = spectral_condition(matrix, FROBENIUS_POWER)
    return 2.0 * value, 2.0 * gradient


def pivoted_condition(matrix: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the logarithm of the estimate |R_11 / R_bb| from the QR factors with column pivoting.

    |R_11| is the norm of the first pivot column, |R_bb| the distance of the last one from the span
    of the others.
    """
    value, gradient = np.empty(matrix.shape[:-2]), np.zeros_like(matrix)
    for place in np.ndindex(value.shape):
        W, slope = matrix[place], gradient[place]
        q, r, order = scipy.linalg.qr(W, mode='economic', pivoting=True)
        first, last = abs(r[0, 0]), max(abs(r[-1, -1]), LEAST_SINGULAR_VALUE * abs(r[0, 0]))
        # of one column nothing is left to solve, which SciPy before 1.14 refuses
        share = np.append(-np.linalg.solve(r[:-1, :-1], r[:-1, -1]), 1.0)
        slope[:, order[0]] = W[:, order[0]] / first**2
        slope[:, order] -= np.sign(r[-1, -1]) / last * np.outer(q[:, -1], share)
        value[place] = np.log(first / last)
    return value, gradient


MEASURES: dict[str, Measure] = {
    'spectral': spectral_condition,
    'qr': pivoted_condition,
    'frobenius': frobenius_condition,
}
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
    """The cost of a matrix of energy equations, eq. (18)."""

    measure: str = 'spectral'
    """Name of the condition number, one of `MEASURES`."""
    condition_weight: float = 1.0
    equilibrium_weight: float = 0.0
    """lambda_1 and lambda_2."""

    def __post_init__(self) -> None:
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
