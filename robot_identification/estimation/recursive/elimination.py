# SPDX-License-Identifier: Apache-2.0
"""
Conditional least squares that decides column by column what the rows determine.

Lomakin and Deutscher, "Identification of dynamic parameters for rigid robots based on polynomial
approximation" (IROS 2020), section V.  Columns are taken in order; one is accepted where the part
of it that is orthogonal to the columns accepted before it, eq. (43), is longer than a threshold.
`gauss_jordan` is the paper's way, on the Gram matrix, whose pivots are the squared lengths;
`triangular` finds the same lengths on the R factor, without squaring the condition number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from scipy.linalg import cholesky, solve_triangular

from ..estimate import nan_padded

ACCEPTED, WEAK, DEPENDENT = 1, 0, -1
"""
Flags of a column: determined; too short by itself; too short beside the columns before it.
"""


@dataclass(frozen=True)
class GramElimination:
    """
    The paper's way: lines 8 to 37 of Fig. 1.

    Attributes
    ----------
    gram, right, square:
        (b, b) K = Y^T Y, (b,) Y^T tau and tau^T tau.
    initial:
        (b,) values at which rejected parameters are held.
    zeroed:
        (b, b) inverse of K, zero in rows and columns of rejected parameters.
    flags:
        (b,) `ACCEPTED`, `WEAK` or `DEPENDENT`.

    """

    gram: np.ndarray
    right: np.ndarray
    square: float
    initial: np.ndarray
    zeroed: np.ndarray
    flags: np.ndarray

    @property
    def accepted(self) -> np.ndarray:
        """(b,) bool."""
        return self.flags == ACCEPTED

    @cached_property
    def values(self) -> np.ndarray:
        """(b,) parameters, line 37 with accumulated sums."""
        return self.initial + self.zeroed @ (self.right - self.gram @ self.initial)

    @property
    def rest(self) -> float:
        """Square of the residual's norm; small ones are lost in rounding."""
        values = self.values
        return max(0.0, self.square - 2.0 * values @ self.right + values @ self.gram @ values)

    @property
    def inverse(self) -> np.ndarray:
        """(b, b) inverse of the accepted columns' Gram matrix; NaN in the others' rows."""
        accepted = self.accepted
        return np.where(accepted[:, None] & accepted, self.zeroed, np.nan)

    @property
    def triangle(self) -> tuple[np.ndarray, np.ndarray]:
        """(k, k) upper triangular R and (k,) c: the k accepted parameters minimise |R x - c|."""
        accepted = self.accepted
        triangle = cholesky(self.gram[np.ix_(accepted, accepted)])
        return triangle, triangle @ self.values[accepted]

    def coefficients(self, column: int) -> np.ndarray:
        """(k,) combination of the accepted columns that is nearest to a rejected one."""
        return (self.zeroed @ self.gram[:, column])[self.accepted]


@dataclass(frozen=True)
class FactorElimination:
    """
    The same on the R factor.

    Attributes
    ----------
    factor:
        (k, b) columns of the factor of Y, turned so that the k accepted ones are triangular.
    right:
        (k,) right-hand side, less what the rejected parameters explain.
    rest:
        Square of the residual's norm at `values`.
    flags:
        (b,) `ACCEPTED`, `WEAK` or `DEPENDENT`.
    initial:
        (b,) values at which rejected parameters are held.

    """

    factor: np.ndarray
    right: np.ndarray
    rest: float
    initial: np.ndarray
    flags: np.ndarray

    @property
    def accepted(self) -> np.ndarray:
        """(b,) bool."""
        return self.flags == ACCEPTED

    @property
    def values(self) -> np.ndarray:
        """(b,) parameters, by back substitution."""
        values = self.initial.copy()
        values[self.accepted] = _back(*self.triangle)
        return values

    @property
    def inverse(self) -> np.ndarray:
        """(b, b) inverse of the accepted columns' Gram matrix; NaN in the others' rows."""
        accepted = self.accepted
        half = _back(self.triangle[0], np.eye(self.right.size))
        inverse = np.full((accepted.size, accepted.size), np.nan)
        inverse[np.ix_(accepted, accepted)] = half @ half.T
        return inverse

    @property
    def triangle(self) -> tuple[np.ndarray, np.ndarray]:
        """(k, k) upper triangular R and (k,) c: the k accepted parameters minimise |R x - c|."""
        return self.factor[:, self.accepted], self.right

    def coefficients(self, column: int) -> np.ndarray:
        """(k,) combination of the accepted columns that is nearest to a rejected one."""
        return _back(self.triangle[0], self.factor[:, column])


Elimination = GramElimination | FactorElimination
"""Information of the rows, column by column."""


def gauss_jordan(gram: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Invert a Gram matrix in the columns that rows determine, lines 8 to 35 of the paper's Fig. 1.

    Parameters
    ----------
    gram:
        (b, b) K = Y^T Y.
    squares:
        (b,) thresholds sigma_j^2 of the pivots.

    Returns
    -------
    tuple
        The (b, b) inverse, zero in rows and columns of rejected parameters, and the (b,) flags.

    """
    b = squares.size
    flags = np.empty(b, dtype=int)
    M = np.concatenate([gram, np.eye(b)], axis=1)
    for i in range(b):
        if M[i, i] > squares[i]:
            flags[i] = ACCEPTED
            M[i + 1 :] -= np.outer(M[i + 1 :, i] / M[i, i], M[i])
        else:
            flags[i] = DEPENDENT if gram[i, i] > squares[i] else WEAK
            M[i] = 0.0
            M[:, i] = 0.0
    for i in range(b):
        if M[i, i] > 0.0:
            M[i] /= M[i, i]
            M[:i] -= np.outer(M[:i, i], M[i])
    return M[:, b:], flags


def triangular(
    factor: np.ndarray, thresholds: np.ndarray, initial: np.ndarray
) -> FactorElimination:
    """
    Decide on the columns of an R factor, and triangularise the accepted ones.

    Parameters
    ----------
    factor:
        (b + 1, b + 1) upper triangular R of [Y | tau].
    thresholds:
        (b,) sigma_j, of the lengths.
    initial:
        (b,) values at which rejected parameters are held.

    """
    b = thresholds.size
    A = factor.copy()
    flags = np.full(b, ACCEPTED)
    short = np.abs(np.diag(A)[:b]) <= thresholds
    # up to the first short column the factor is triangular as it is
    row = first = int(np.argmax(short)) if short.any() else b
    for j in range(first, b):
        part = A[row : j + 1, j]
        length = float(np.sqrt(part @ part))
        if length > thresholds[j]:
            if row < j:
                _reflect(A[row : j + 1], part.copy(), length)
                A[row + 1 : j + 1, j] = 0.0
            row += 1
        else:
            whole = float(np.linalg.norm(A[: j + 1, j]))
            flags[j] = DEPENDENT if whole > thresholds[j] else WEAK
    rejected = flags != ACCEPTED
    effort = A[:, -1] - A[:, :b][:, rejected] @ initial[rejected]
    rest = float(effort[row:] @ effort[row:])
    return FactorElimination(A[:row, :b], effort[:row], rest, initial, flags)


def _reflect(rows: np.ndarray, vector: np.ndarray, length: float) -> None:
    """Turn ``vector``, a column of ``rows``, into its first axis by a Householder reflection."""
    vector[0] += np.copysign(length, vector[0])
    rows -= np.outer(vector, (2.0 / (vector @ vector)) * (vector @ rows))


def _back(triangle: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Back substitution, also with no column at all."""
    if triangle.size == 0:
        return np.zeros(right.shape)
    return np.asarray(solve_triangular(triangle, right, check_finite=False))


def within(
    triangle: np.ndarray, right: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """
    Return the minimiser of ``|triangle @ x - right|`` with ``lower <= x <= upper``, (k,).

    By Stark and Parker's BVLS; ``triangle`` is upper triangular, (k, k), and equal ends hold a
    parameter.
    """
    free = lower < upper
    values = np.where(free, 0.0, lower)
    if not free.any():
        return values
    norms = np.linalg.norm(triangle[:, free], axis=0)
    found = scipy.optimize.lsq_linear(
        triangle[:, free] / norms,
        right - triangle @ values,
        bounds=(lower[free] * norms, upper[free] * norms),
        method='bvls',
        tol=1e-14,
        max_iter=100 * right.size,
    )
    inside = np.clip(found.x / norms, lower[free], upper[free])
    # an end that holds is that number itself, whatever scaling there and back makes of it
    ends = np.where(found.active_mask < 0, lower[free], upper[free])
    values[free] = np.where(found.active_mask == 0, inside, ends)
    return values


def inverse_of_free(triangle: np.ndarray, free: np.ndarray) -> np.ndarray:
    """(k, k) inverse Gram matrix of the columns ``free``, (k,) bool; NaN elsewhere."""
    if not free.any():
        return np.full(triangle.shape, np.nan)
    small = np.asarray(np.linalg.qr(triangle[:, free], mode='r'))
    half = solve_triangular(small, np.eye(len(small)))
    return nan_padded(half @ half.T, free)
