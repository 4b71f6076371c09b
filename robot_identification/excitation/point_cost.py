# SPDX-License-Identifier: Apache-2.0
r"""
Cost of a sequence of points: condition numbers of its energy equations, with exact gradients.

Gautier and Khalil (1992), section 4.1: the cost of a sequence of points is
:math:`f = \lambda_1 \mathrm{Cond}(W) + \lambda_2 S`, where S is the ratio of the largest to the
smallest entry of W, and the condition number is one of three measures.  The logarithm of f, which
has the same minimum, is what a descent copes with from starts of any condition.

Largest and smallest value of a set change hands as the points move, and where they do, the cost
has kinks, which is where its minimum tends to be.  Power means put that right:

.. math:: \frac{1}{2p} \log \Big( \sum_i s_i^{2p} \sum_i s_i^{-2p} \Big)

is above the logarithm of the ratio of the extremes, and comes down to it as p grows.  For the
singular values of W and p = 2 it is half the logarithm of the Frobenius condition number of
W^T W.  The gradient by W is U diag(dF/ds) V^T with its singular vectors.

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

Measure = Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]
"""Turns W (..., r, b) and a power p into logarithms of condition numbers and their gradients."""

FROBENIUS_POWER = 2.0
"""The p that gives the Frobenius condition number of W^T W."""

_LEAST = 1e-14
"""Relative size below which a singular value is rounding."""


def log_spread(sizes: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the logarithm of the ratio of the largest to the smallest size, smoothed from above.

    Parameters
    ----------
    sizes:
        (..., k) positive, or NaN for what does not count.
    power:
        p of the module's head; infinity takes the extremes themselves.

    Returns
    -------
    tuple of np.ndarray
        Values (...) and gradients (..., k).

    """
    largest = np.nanmax(sizes, axis=-1, keepdims=True)
    smallest = np.nanmin(sizes, axis=-1, keepdims=True)
    extremes = np.log(largest / smallest)[..., 0]
    if np.isinf(power):
        slope = (sizes == largest) / largest - (sizes == smallest) / smallest
        return extremes, slope
    up = np.nan_to_num((sizes / largest) ** (2.0 * power))
    down = np.nan_to_num((smallest / sizes) ** (2.0 * power))
    above, below = up.sum(axis=-1, keepdims=True), down.sum(axis=-1, keepdims=True)
    value = extremes + np.log(above * below)[..., 0] / (2.0 * power)
    return value, np.nan_to_num((up / above - down / below) / sizes)


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
        Return the logarithm of the cost and its gradient by the matrix.

        Parameters
        ----------
        matrix:
            W (..., r, b) with r >= b.
        power:
            p of the smoothing; infinity for none.

        Returns
        -------
        tuple of np.ndarray
            Values (...) and gradients (..., r, b).

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
