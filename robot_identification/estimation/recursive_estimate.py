# SPDX-License-Identifier: Apache-2.0
"""Rows so far, estimate and state of the recursive estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .elimination import Elimination, gauss_jordan, GramElimination, triangular
from .qr import append_rows


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


@dataclass(frozen=True)
class RecursiveEstimate:
    """
    Estimate from the rows so far.

    Attributes
    ----------
    values:
        (b,) parameters.
    flags:
        (b,) int: 1 identified; 0 not excited; -1 not told from the parameters before it.
    at_bound:
        (b,) bool, whether a bound holds the parameter.
    covariance:
        (b, b) of the estimation error; NaN for what is not identified or held by a bound.
    residual_std:
        Square root of the residual variance; NaN where there are not more rows than parameters.
    rows:
        Rows so far.

    """

    values: np.ndarray
    flags: np.ndarray
    at_bound: np.ndarray
    covariance: np.ndarray
    residual_std: float
    rows: int

    @property
    def std(self) -> np.ndarray:
        """(b,) standard deviations."""
        return np.sqrt(np.diag(self.covariance))


class RecursiveSolution(NamedTuple):
    """
    The parameters that rows up to now tell, see `RecursiveEstimate`.

    Attributes
    ----------
    values:
        (b,) parameters.
    flags:
        (b,) int: 1 identified; 0 not excited; -1 not told from the parameters before it.
    at_bound:
        (b,) bool, whether a bound holds the parameter.

    """

    values: np.ndarray
    flags: np.ndarray
    at_bound: np.ndarray


class RecursiveState(NamedTuple):
    """
    State of the recursion after the rows so far.

    Attributes
    ----------
    accumulated:
        (b + 1, b + 1) R of [Y | tau], or its Gram matrix where that is the formulation.
    initial:
        (b,) values that rejected parameters keep.
    rows:
        Rows so far.
    independent:
        Independent rows that they count for.

    """

    accumulated: np.ndarray
    initial: np.ndarray
    rows: int
    independent: float
