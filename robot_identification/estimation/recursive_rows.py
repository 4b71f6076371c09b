# SPDX-License-Identifier: Apache-2.0
"""All rows so far of the recursive estimator, in constant memory: as R or as a Gram matrix."""

from __future__ import annotations

import numpy as np

from .elimination import Elimination, gauss_jordan, GramElimination, triangular
from .triangle import append_rows


class FactorRows:
    """R of [Y | tau]: rows wait until there are as many as columns, and are then folded in."""

    def __init__(self, b: int) -> None:
        self._factor = np.zeros((b + 1, b + 1))
        self._waiting = np.empty((b + 1, b + 1))
        self._count = 0

    def whole(self) -> np.ndarray:
        """R of all rows, to be changed in place."""
        self._fold()
        return self._factor

    def scale(self, share: float) -> None:
        """Multiply all rows."""
        self._fold()
        self._factor *= share

    def push(self, rows: np.ndarray) -> None:
        """Append (m, b + 1) rows of [Y | tau]."""
        if self._count + len(rows) > len(self._waiting):
            self._fold()
            self._factor[:] = append_rows(self._factor, rows)
        else:
            self._waiting[self._count : self._count + len(rows)] = rows
            self._count += len(rows)

    def norms(self) -> np.ndarray:
        """(b,) norms of the columns of Y."""
        self._fold()
        return np.asarray(np.linalg.norm(self._factor[:, :-1], axis=0))

    def eliminate(self, thresholds: np.ndarray, initial: np.ndarray) -> Elimination:
        """Decide on the columns, by (b,) thresholds of their lengths; see `elimination`."""
        self._fold()
        return triangular(self._factor, thresholds, initial)

    def _fold(self) -> None:
        if self._count:
            self._factor[:] = append_rows(self._factor, self._waiting[: self._count])
            self._count = 0


class GramRows:
    """K = Y^T Y, Y^T tau and tau^T tau, as the paper has them."""

    def __init__(self, b: int) -> None:
        self._gram = np.zeros((b + 1, b + 1))

    def whole(self) -> np.ndarray:
        """Gram matrix of all rows, to be changed in place."""
        return self._gram

    def scale(self, share: float) -> None:
        """Multiply all rows."""
        self._gram *= share**2

    def push(self, rows: np.ndarray) -> None:
        """Append (m, b + 1) rows of [Y | tau]."""
        self._gram += rows.T @ rows

    def norms(self) -> np.ndarray:
        """(b,) norms of the columns of Y."""
        return np.asarray(np.sqrt(np.diag(self._gram)[:-1]))

    def eliminate(self, thresholds: np.ndarray, initial: np.ndarray) -> Elimination:
        """Decide on the columns, by (b,) thresholds of their lengths; see `elimination`."""
        K, right = self._gram[:-1, :-1], self._gram[:-1, -1]
        inverse, flags = gauss_jordan(K, thresholds**2)
        return GramElimination(K, right, float(self._gram[-1, -1]), initial, inverse, flags)
