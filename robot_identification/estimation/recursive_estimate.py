# SPDX-License-Identifier: Apache-2.0
"""Estimate and state of the recursive estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


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
