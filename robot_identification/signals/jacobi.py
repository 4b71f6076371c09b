# SPDX-License-Identifier: Apache-2.0
"""
Orthonormal Jacobi polynomials, and derivatives of series in them times their weight.

A series ``f(s) = sum_m r_m P_m(s)`` stands for a kernel ``f(s) w(s)`` with the weight
``w(s) = (1 - s)^alpha (1 + s)^beta`` on [-1, 1].  By Rodrigues' formula a derivative of
``P_m w`` is a single polynomial of the parameters alpha - 1, beta - 1 times its own weight, so
derivatives of kernels are found without cancellation.  Szego, Orthogonal Polynomials, section 4.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln, eval_jacobi, gammaln, poch, roots_jacobi


def orthonormal(count: int, alpha: float, beta: float, s: np.ndarray | float) -> np.ndarray:
    """
    Values of the first orthonormal Jacobi polynomials.

    Parameters
    ----------
    count:
        How many, from degree 0 on.
    alpha, beta:
        Exponents of the weight, above -1.
    s:
        (...) places.

    Returns
    -------
    np.ndarray
        (count, ...) values.

    """
    norms = _norms(count, alpha, beta)
    return np.array([eval_jacobi(m, alpha, beta, s) / norms[m] for m in range(count)])


def zeros(degree: int, alpha: float, beta: float) -> np.ndarray:
    """Return the (degree,) zeros of the polynomial of this degree, descending."""
    if degree < 1:
        return np.empty(0)
    return roots_jacobi(degree, alpha, beta)[0][::-1]


def product_series(first: np.ndarray, second: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """
    Series of the product of two series.

    Parameters
    ----------
    first, second:
        (a,) and (b,) coefficients.
    alpha, beta:
        Exponents of the weight.

    Returns
    -------
    np.ndarray
        (a + b - 1,) coefficients, exact up to rounding.

    """
    count = len(first) + len(second) - 1
    nodes, weights = roots_jacobi(count, alpha, beta)
    basis = orthonormal(count, alpha, beta, nodes)
    values = (first @ basis[: len(first)]) * (second @ basis[: len(second)])
    return basis @ (weights * values)


def weighted(
    series: np.ndarray,
    derivative: int,
    alpha: float,
    beta: float,
    s: np.ndarray,
) -> np.ndarray:
    """
    Values of the polynomial part of a derivative of ``f w``.

    Parameters
    ----------
    series:
        (m,) coefficients of f.
    derivative:
        Its order k, not above alpha and beta.
    alpha, beta:
        Exponents of the weight.
    s:
        (...) places.

    Returns
    -------
    np.ndarray
        (...) values g with ``(f w)^(k)(s) = (1 - s)^(alpha - k) (1 + s)^(beta - k) g(s)``.

    """
    k, norms = derivative, _norms(len(series), alpha, beta)
    total = np.zeros(np.shape(s))
    for m, coefficient in enumerate(series):
        factor = (-2.0) ** k * poch(m + 1, k) * coefficient / norms[m]
        total += factor * eval_jacobi(m + k, alpha - k, beta - k, s)
    return total


def _norms(count: int, alpha: float, beta: float) -> np.ndarray:
    """Norms of the first Jacobi polynomials in their usual scaling, (count,)."""
    total = alpha + beta + 1.0
    squares = [total * math.log(2.0) + betaln(alpha + 1.0, beta + 1.0)]
    for m in range(1, count):
        squares.append(
            total * math.log(2.0)
            - math.log(2.0 * m + total)
            + gammaln(m + alpha + 1.0)
            + gammaln(m + beta + 1.0)
            - gammaln(m + total)
            - gammaln(m + 1.0)
        )
    return np.exp(0.5 * np.array(squares[:count]))
