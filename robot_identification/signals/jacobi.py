# SPDX-License-Identifier: Apache-2.0
"""
Orthonormal Jacobi polynomials, and exact integrals of their series between samples.

A series ``f(s) = sum_m r_m P_m(s)`` stands for a kernel ``f(s) w(s)`` with the weight
``w(s) = (1 - s)^alpha (1 + s)^beta`` on [-1, 1].  By Rodrigues' formula a derivative of
``P_m w`` is a single polynomial of the parameters alpha - 1, beta - 1 times its own weight, so
derivatives of kernels are found without cancellation.  Szego, Orthogonal Polynomials, section 4.

Between two samples a signal is a polynomial through its neighbours, or it holds the first one's
value.  The integral of the kernel ``f(s) w(s)``, or of a derivative of it, over that signal is
linear in the samples; its coefficients are the taps of an FIR filter.
"""

from __future__ import annotations

from dataclasses import dataclass
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


_SPARE = 12  # nodes beyond those that polynomials take, for weights with broken exponents


@dataclass(frozen=True)
class SampledWindow:
    """
    A window, s from -1 to 1, whose last sample stands at its end.

    Attributes
    ----------
    step:
        Distance of the samples in s.
    taps:
        Their number: the first one is the last that is not behind the window's start.
    alpha, beta:
        Exponents of the weight at 1 and at -1.
    degree:
        Of the polynomials through the samples, odd and less than ``taps``.

    """

    step: float
    taps: int
    alpha: float
    beta: float
    degree: int

    def integrals(self, series: np.ndarray, order: int, *, hold: bool) -> np.ndarray:
        """
        Integrate ``(f w)^(k)`` times the signal that each sample makes.

        Parameters
        ----------
        series:
            (m,) coefficients of f in the orthonormal polynomials.
        order:
            k.
        hold:
            Whether a sample holds until the next one.

        Returns
        -------
        np.ndarray
            (taps,).

        """
        places, weights, cells = self._nodes(len(series) + order, order)
        values = weights * weighted(series, order, self.alpha, self.beta, places)
        taps = np.zeros(self.taps)
        if hold:
            np.add.at(taps, cells, values.sum(axis=1))
            return taps
        last = self.taps - 1
        first = np.clip(cells - (self.degree - 1) // 2, 0, last - self.degree)
        # distance from the first of the samples that the polynomial goes through
        distance = last - (1.0 - places) / self.step - first[:, None]
        shares = np.einsum('icn,cn->ci', _cardinal(self.degree, distance), values)
        np.add.at(taps, first[:, None] + np.arange(self.degree + 1), shares)
        return taps

    def _nodes(self, count: int, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        Nodes of quadrature between the samples.

        Returns
        -------
        Places and weights, (pieces, nodes) each, and the sample before each piece.  The weights
        have the factor ``(1 - s)^(alpha - k) (1 + s)^(beta - k)`` in them.

        """
        a, b = self.alpha - order, self.beta - order
        n = math.ceil(0.5 * (count + self.degree + max(a, 0.0) + max(b, 0.0))) + _SPARE
        ends, cells = self._pieces()
        half, middle = 0.5 * np.diff(ends)[:, None], 0.5 * (ends[1:] + ends[:-1])[:, None]
        nodes, plain = np.polynomial.legendre.leggauss(n)
        places = middle + half * nodes
        weights = half * plain * (1.0 - places) ** a * (1.0 + places) ** b
        # where the weight ends in a power, a rule for that power
        nodes, powered = roots_jacobi(n, a, 0.0)
        places[-1] = middle[-1] + half[-1] * nodes
        weights[-1] = half[-1] ** (a + 1.0) * powered * (1.0 + places[-1]) ** b
        nodes, powered = roots_jacobi(n, 0.0, b)
        places[0] = middle[0] + half[0] * nodes
        weights[0] = half[0] ** (b + 1.0) * powered * (1.0 - places[0]) ** a
        return places, weights, cells

    def _pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the pieces, ascending, and the sample before each piece."""
        ends = 1.0 - np.arange(self.taps - 1, -1, -1) * self.step
        ends[0] = -1.0
        # the window may begin shortly before a sample: pieces grow with the distance from its end,
        # where a weight with a broken exponent is no polynomial
        cuts: list[float] = []
        while 3.0 * (ends[1] + 1.0) < self.step * 3.0 ** -len(cuts):
            cuts.append(ends[2] - self.step + self.step * 3.0 ** -(len(cuts) + 1))
        cells = np.concatenate(([0], np.full(len(cuts), 1), np.arange(1, self.taps - 1)))
        return np.concatenate((ends[:2], cuts[::-1], ends[2:])), cells


def _cardinal(degree: int, places: np.ndarray) -> np.ndarray:
    """Values of the cardinal polynomials of the samples 0 to ``degree``, (degree + 1, ...)."""
    samples = np.arange(degree + 1)
    shares = np.ones((degree + 1, *places.shape))
    for i in samples:
        for j in samples:
            if i != j:
                shares[i] *= (places - j) / (i - j)
    return shares
