# SPDX-License-Identifier: Apache-2.0
"""
R of a QR factorisation that grows row by row, in constant memory, as a whole or joint by joint.

Blocks of rows are appended to R by Householder reflections on the triangle on top of the block
(LAPACK's ``tpqrt``).  R holds all that least squares needs of the rows, and, other than the normal
equations, at the accuracy of a factorisation of all rows at once.

LAPACK takes a block column by column.  So rows wait as columns, (k, m) with samples last, which is
also how regressors give their entries.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from ..regressor.inverse_dynamics import RowPattern

BLOCK_ROWS = 512
"""Rows that are folded into R at a time: enough to be fast, few enough to stay in cache."""

_PANELS = ((8, 150), (16, np.inf))
"""Reflections that are applied at once, up to a number of columns; as measured."""


def append_rows(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """
    Return R of the matrix whose R was ``factor`` with ``rows`` below it.

    Parameters
    ----------
    factor:
        (k, k) upper triangular.
    rows:
        (m, k).

    Returns
    -------
    np.ndarray
        (k, k) upper triangular; ``R.T @ R == factor.T @ factor + rows.T @ rows``.

    """
    if rows.shape[0] == 0:
        return factor
    return np.triu(_folded(np.array(factor, order='F'), np.array(rows, dtype=float, order='F')))


def _folded(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Fold (m, k) rows into (k, k) R, both in Fortran order; neither survives."""
    width = factor.shape[0]
    # LAPACK's leading dimensions are at least 1, and so is the panel's width
    panel = max(1, min(width, next(size for size, most in _PANELS if width <= most)))
    grown, _, _, info = lapack.dtpqrt(0, panel, factor, rows, overwrite_a=1, overwrite_b=1)
    if info != 0:
        raise ValueError(f'LAPACK tpqrt refused its argument {-info}')
    return np.asarray(grown)


class GrowingTriangle:
    """
    R of all rows that were pushed, (k, k) upper triangular.

    Parameters
    ----------
    columns:
        Number of columns k.
    block:
        Rows to collect before they are folded in.

    """

    def __init__(self, columns: int, block: int = BLOCK_ROWS) -> None:
        # nothing ever writes below the diagonal
        self._factor = np.zeros((columns, columns), order='F')
        self._waiting = np.empty((columns, block))
        self._count = 0
        self.rows = 0

    def push(self, rows: np.ndarray) -> None:
        """Append ``rows``, (m, k)."""
        self.push_columns(rows.T)

    def push_columns(self, *columns: np.ndarray) -> None:
        """Append rows that are given as columns, one below another: (w, m) arrays, k in all."""
        total = columns[0].shape[1]
        self.rows += total
        start = 0
        while start < total:
            stop = min(total, start + self._waiting.shape[1] - self._count)
            place = slice(self._count, self._count + stop - start)
            first = 0
            for part in columns:
                self._waiting[first : first + len(part), place] = part[:, start:stop]
                first += len(part)
            self._count, start = place.stop, stop
            if self._count == self._waiting.shape[1]:
                self._fold()

    def result(self) -> np.ndarray:
        """Return R of everything pushed so far."""
        self._fold()
        return np.array(self._factor, order='C')

    def _fold(self) -> None:
        if self._count:
            waiting = np.asfortranarray(self._waiting[:, : self._count].T)
            self._factor = _folded(self._factor, waiting)
            self._count = 0


class JointTriangles:
    """
    R of [W_j | tau_j] of every joint j, growing row by row.

    Parameters
    ----------
    pattern:
        Which of the b columns each of the n joints sees.

    """

    def __init__(self, pattern: RowPattern) -> None:
        self.pattern = pattern
        self._triangles = [GrowingTriangle(places.size + 1) for places in pattern.columns]

    @property
    def rows(self) -> np.ndarray:
        """(n,) int, rows that were pushed."""
        return np.array([triangle.rows for triangle in self._triangles], dtype=int)

    def push(self, joint: int, entries: np.ndarray, effort: np.ndarray) -> None:
        """Append m rows of a joint: (w, m) entries of its columns and (m,) efforts."""
        self._triangles[joint].push_columns(entries, effort[None])

    def result(self, joint: int) -> np.ndarray:
        """Return R of a joint's rows, (w + 1, w + 1)."""
        return self._triangles[joint].result()

    def whole(self) -> np.ndarray:
        """Return R of each joint with all columns, (n, b + 1, b + 1)."""
        return whole_squares(self.pattern, [triangle.result() for triangle in self._triangles])

    def stacked(self) -> np.ndarray:
        """Return R of the rows of all joints together, (b + 1, b + 1)."""
        factor = np.zeros((self.pattern.size + 1,) * 2)
        for places, triangle in zip(self.pattern.columns, self._triangles, strict=True):
            rows = np.zeros((places.size + 1, self.pattern.size + 1))
            rows[:, np.append(places, self.pattern.size)] = triangle.result()
            factor = append_rows(factor, rows)
        return factor


def whole_squares(pattern: RowPattern, squares: list[np.ndarray]) -> np.ndarray:
    """Spread (w + 1, w + 1) matrices of the joints' columns and effort to (n, b + 1, b + 1)."""
    b = pattern.size
    whole = np.zeros((len(squares), b + 1, b + 1))
    for out, places, square in zip(whole, pattern.columns, squares, strict=True):
        seen = np.append(places, b)
        out[np.ix_(seen, seen)] = square
    return whole
