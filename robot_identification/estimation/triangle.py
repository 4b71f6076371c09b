# SPDX-License-Identifier: Apache-2.0
"""
R of a QR factorisation that grows row by row, in constant memory.

Blocks of rows are appended to R by Householder reflections on the triangle on top of the block
(LAPACK's ``tpqrt``).  R holds all that least squares needs of the rows, and, other than the normal
equations, at the accuracy of a factorisation of all rows at once.

LAPACK takes a block column by column.  So rows wait as columns, (k, m) with samples last, which is
also how regressors give their entries.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

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
