# SPDX-License-Identifier: Apache-2.0
"""
Exact integrals of a kernel over what stands between the samples of a window.

Between two samples a signal is a polynomial through its neighbours, or it holds the first one's
value.  The integral of the kernel ``f(s) w(s)``, or of a derivative of it, over that signal is
linear in the samples; its coefficients are the taps of an FIR filter.
"""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
from scipy.special import roots_jacobi

from .jacobi import weighted

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
