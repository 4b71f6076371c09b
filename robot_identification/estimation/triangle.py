# SPDX-License-Identifier: Apache-2.0
"""
R of a QR factorisation that grows row by row, in constant memory.

Blocks of rows are appended to R by Householder reflections on the triangle on top of the block
(LAPACK's ``tpqrt``).  R holds all that least squares needs of the rows, and, other than the normal
equations, at the accuracy of a factorisation of all rows at once.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

BLOCK_ROWS = 1024
"""Rows that are folded into R at a time: enough to be fast, few enough to stay in cache."""

_PANEL = 16


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
    # LAPACK's leading dimensions are at least 1, and so is the panel's width
    panel = max(1, min(_PANEL, factor.shape[0]))
    grown, _, _, info = lapack.dtpqrt(
        0, panel, np.asfortranarray(factor), np.array(rows, dtype=float, order='F'), overwrite_b=1
    )
    if info != 0:
        raise ValueError(f'LAPACK tpqrt refused its argument {-info}')
    return np.triu(grown)


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
        self._factor = np.zeros((columns, columns))
        self._waiting = np.empty((block, columns))
        self._count = 0
        self.rows = 0

    def push(self, rows: np.ndarray) -> None:
        """Append ``rows``, (m, k)."""
        self.rows += rows.shape[0]
        start = 0
        while start < rows.shape[0]:
            part = rows[start : start + self._waiting.shape[0] - self._count]
            self._waiting[self._count : self._count + part.shape[0]] = part
            self._count += part.shape[0]
            start += part.shape[0]
            if self._count == self._waiting.shape[0]:
                self._fold()

    def result(self) -> np.ndarray:
        """Return R of everything pushed so far."""
        self._fold()
        return self._factor.copy()

    def _fold(self) -> None:
        self._factor = append_rows(self._factor, self._waiting[: self._count])
        self._count = 0
