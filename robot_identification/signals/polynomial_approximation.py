# SPDX-License-Identifier: Apache-2.0
"""
The polynomial approximation operator as FIR filters (Lomakin and Deutscher).

"Identification of Dynamic Parameters for Rigid Robots based on Polynomial Approximation", section
III.  Over a window of length T that ends at t, a signal is approximated by a polynomial of degree
N, optimal for the weight ``w(s) = (1 - s)^alpha (1 + s)^beta`` with s from -1 at t - T to 1 at t;
its value at t - t_d is ``P{x}(t)`` (16).  A derivative moves from the signal to the kernel (19),
coefficients of the polynomial are integrals too (26), and so are products with one factor expanded
(22).

A kernel is ``f(s) w(s)`` with a series ``f(s) = sum_m r_m P_m(s)`` of orthonormal Jacobi
polynomials.  By Rodrigues' formula a derivative of ``P_m w`` is a single polynomial of the
parameters alpha - 1, beta - 1 times its own weight, so derivatives of kernels are found without
cancellation (Szego, Orthogonal Polynomials, section 4).

The integrals are taken exactly over a piecewise polynomial through the samples, so polynomials up
to its degree are treated without error.  Sampling the kernels instead would give a constant a
second derivative: -593 rad/s^2 for 1 rad at T = 44 ms and 4 ms between samples.

Kernels are in the order of time: ``y[j] = kernel @ x[j : j + taps]`` belongs to the window that
ends at sample ``j + taps - 1``, and approximates the signal at `delay` before that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
import math

import numpy as np
from scipy.special import betaln, eval_jacobi, gammaln, poch, roots_jacobi

from ..errors import SettingsError
from ..options.fields import key_error

KEY = 'signals.polynomial_approximation'
"""Where the parameters stand in the experiment file; named in errors."""

INTERPOLATION = 5
"""Degree of the polynomials through the samples, if the kernel does not ask for more; odd."""

_WHOLE = 1e-6  # periods: a window nearer than this to a whole number of them has that number
_BAND = 64  # windows whose weights are in one matrix, at least
_SPARE = 12  # nodes beyond those that polynomials take, for weights with broken exponents


def orthonormal(count: int, alpha: float, beta: float, s: np.ndarray | float) -> np.ndarray:
    """
    Return the first orthonormal Jacobi polynomials, from degree 0 on, at places s (...).

    They are (count, ...); ``alpha`` and ``beta`` are exponents of the weight, above -1.
    """
    norms = _norms(count, alpha, beta)
    return np.array([eval_jacobi(m, alpha, beta, s) / norms[m] for m in range(count)])


def product_series(first: np.ndarray, second: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """Return the series (a + b - 1,) of the product of two series (a,) and (b,)."""
    count = len(first) + len(second) - 1
    nodes, weights = roots_jacobi(count, alpha, beta)
    basis = orthonormal(count, alpha, beta, nodes)
    values = (first @ basis[: len(first)]) * (second @ basis[: len(second)])
    return basis @ (weights * values)


def weighted(
    series: np.ndarray, derivative: int, alpha: float, beta: float, s: np.ndarray
) -> np.ndarray:
    """
    Return the polynomial part of a derivative of ``f w``, f given by its series, at places s.

    These are values g with ``(f w)^(k)(s) = (1 - s)^(alpha - k) (1 + s)^(beta - k) g(s)``; the
    order k is not above alpha and beta.
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


@dataclass(frozen=True)
class PolynomialOperator:
    """
    The operator P of a window, for signals of one sampling period.

    Attributes
    ----------
    window:
        Length T [s].
    period:
        Time between samples [s].
    degree:
        N, of the polynomial that approximates the signal.
    alpha, beta:
        Exponents of the weight at the window's end and start; derivatives up to the smaller of
        them can be had.
    delay:
        t_d [s]; None takes the smallest admissible one, see `admissible_delays`.

    Raises
    ------
    SettingsError
        naming the key, where the window has too few samples, an exponent is -1 or less, or the
        delay lies outside the window.

    """

    window: float
    period: float
    degree: int = 1
    alpha: float = 3.0
    beta: float = 3.0
    delay: float | None = None
    _series: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ('alpha', 'beta'):
            if not getattr(self, name) > -1.0:
                raise wrong_value(
                    name, getattr(self, name), 'the weight has no integral: raise it'
                )
        shortest = self.interpolation * self.period
        if self.window < shortest * (1.0 - 1e-9):
            raise wrong_value(
                'window',
                self.window,
                f'degree {self.degree} takes {shortest:.4g} s or more at '
                f'{1.0 / self.period:.6g} Hz',
                's',
            )
        if self.delay is None:
            delays = admissible_delays(self.degree, self.window, self.alpha, self.beta)
            object.__setattr__(self, 'delay', float(delays[0]))
        if not 0.0 <= self.instant <= self.window:
            raise wrong_value(
                'delay', self.delay, f'it has to lie in the window of {self.window:.4g} s', 's'
            )
        place = 1.0 - 2.0 * self.instant / self.window
        series = orthonormal(self.degree + 1, self.alpha, self.beta, place)
        object.__setattr__(self, '_series', series)

    @property
    def instant(self) -> float:
        """Time from the evaluation of the approximation to the window's end: t_d [s]."""
        assert self.delay is not None
        return self.delay

    @property
    def interpolation(self) -> int:
        """Degree of the polynomials through the samples, odd."""
        return max(INTERPOLATION, self.degree + 3 + self.degree % 2)

    @property
    def taps(self) -> int:
        """Number of samples in a window."""
        periods = self.window / self.period
        whole = round(periods)
        return 1 + (whole if abs(periods - whole) < _WHOLE else math.ceil(periods))

    def value(self, *, hold: bool = False) -> np.ndarray:
        """
        Return the kernel (taps,) of ``P{x}`` (18).

        If ``hold``, the signal keeps the value of a sample until the next one, as a commanded
        effort does.
        """
        return self._kernel(self._series, 0, hold)

    def derivative(self, order: int) -> np.ndarray:
        """
        Return the kernel (taps,) [1/s^k] of ``P{x^(k)}`` (20); order 0 is the value.

        Raises SettingsError if alpha or beta is below k: the kernel would not end in 0.
        """
        return self._kernel(self._series, order, False)

    def coefficient(self, index: int, order: int = 0) -> np.ndarray:
        """
        Return the kernel (taps,) [1/s^k] of the coefficient ``c_i{x^(k)}`` (27).

        It belongs to the orthonormal polynomials; i may exceed the operator's degree.
        """
        return self._kernel(_unit(index), order, False)

    def modified(self, *indices: int, order: int = 0) -> np.ndarray:
        """
        Return the kernel (taps,) [1/s^k] of ``P{P_i P_j ... x^(k)}`` (25).

        That is the signal times polynomials of the window: no index is `derivative`, one is for
        products, two are for triple products.
        """
        series = self._series
        for index in indices:
            series = product_series(series, _unit(index), self.alpha, self.beta)
        return self._kernel(series, order, False)

    def _kernel(self, series: np.ndarray, order: int, hold: bool) -> np.ndarray:
        """Integrate a kernel, given by its series, over what each sample contributes."""
        for name in ('alpha', 'beta'):
            if order > 0 and getattr(self, name) < order:
                raise wrong_value(
                    name,
                    getattr(self, name),
                    f'derivatives of order {order} take {order} or more',
                )
        places, weights, cells = self._nodes(len(series) + order, order)
        values = weights * weighted(series, order, self.alpha, self.beta, places)
        taps, scale = np.zeros(self.taps), (-2.0 / self.window) ** order
        if hold:
            np.add.at(taps, cells, values.sum(axis=1))
            return scale * taps
        last, degree = self.taps - 1, self.interpolation
        first = np.clip(cells - (degree - 1) // 2, 0, last - degree)
        # distance from the first of the samples that the polynomial goes through
        distance = last - (1.0 - places) / self._step - first[:, None]
        shares = np.einsum('icn,cn->ci', _cardinal(degree, distance), values)
        np.add.at(taps, first[:, None] + np.arange(degree + 1), shares)
        return scale * taps

    @property
    def _step(self) -> float:
        """Distance of the samples in s; the last one is at 1, the first not behind -1."""
        return 2.0 * self.period / self.window

    def _nodes(self, count: int, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        Nodes of quadrature between the samples.

        Places and weights are (pieces, nodes) each, beside the sample before each piece.  The
        weights have the factor ``(1 - s)^(alpha - k) (1 + s)^(beta - k)`` in them.
        """
        a, b = self.alpha - order, self.beta - order
        n = math.ceil(0.5 * (count + self.interpolation + max(a, 0.0) + max(b, 0.0))) + _SPARE
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
        taps, step = self.taps, self._step
        ends = 1.0 - np.arange(taps - 1, -1, -1) * step
        ends[0] = -1.0
        # the window may begin shortly before a sample: pieces grow with the distance from its end,
        # where a weight with a broken exponent is no polynomial
        cuts: list[float] = []
        while 3.0 * (ends[1] + 1.0) < step * 3.0 ** -len(cuts):
            cuts.append(ends[2] - step + step * 3.0 ** -(len(cuts) + 1))
        cells = np.concatenate(([0], np.full(len(cuts), 1), np.arange(1, taps - 1)))
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


def admissible_delays(
    degree: int, window: float, alpha: float = 3.0, beta: float = 3.0
) -> np.ndarray:
    """
    Return the delays (N + 1,) [s] that raise the order of the approximation by one, ascending.

    They are the zeros of P_(N+1), for a ``degree`` N, a window [s] and exponents of the weight.
    """
    zeros = roots_jacobi(degree + 1, alpha, beta)[0][::-1]
    return 0.5 * window * (1.0 - zeros)


def apply(kernels: np.ndarray, signals: np.ndarray, *, stride: int = 1) -> np.ndarray:
    """
    Run FIR kernels over signals, where the window is complete.

    The cost grows linearly with the samples: overlapping windows are products with one banded
    matrix.

    Parameters
    ----------
    kernels:
        (taps,) or (k, taps) weights in the order of time.
    signals:
        (n,) or (n, m) samples on a uniform grid.
    stride:
        Samples from one window to the next.

    Returns
    -------
    np.ndarray
        (rows,), (rows, m), (k, rows) or (k, rows, m) with ``rows = (n - taps) // stride + 1``;
        row j is of the window that ends at sample ``j stride + taps - 1``.

    """
    single, flat = np.ndim(kernels) == 1, np.ndim(signals) == 1
    weights = np.atleast_2d(np.asarray(kernels, dtype=float))
    columns = np.asarray(signals, dtype=float)
    columns = columns[:, None] if flat else columns
    k, taps = weights.shape
    rows = max(0, (len(columns) - taps) // stride + 1)
    out = np.empty((k, rows, columns.shape[1]))
    size = min(max(_BAND, math.ceil(taps / stride)), rows)
    band = np.zeros((k, size, (size - 1) * stride + taps if rows else 0))
    for j in range(size):
        band[:, j, j * stride : j * stride + taps] = weights
    for start in range(0, rows, size or 1):
        count = min(size, rows - start)
        reach = (count - 1) * stride + taps
        part = columns[start * stride : start * stride + reach]
        out[:, start : start + count] = band[:, :count, :reach] @ part
    out = out[:, :, 0] if flat else out
    return out[0] if single else out


def product(
    operator: PolynomialOperator,
    first: np.ndarray,
    second: np.ndarray,
    degree: int = 2,
    *,
    orders: tuple[int, int] = (0, 0),
    stride: int = 1,
) -> np.ndarray:
    """
    Approximate a product of two signals or derivatives of them, (22).

    Exact (as ``P`` of the product) where the first factor is a polynomial of degree N* on every
    window; otherwise the error is of order ``2 N* - N + 2`` in T.

    Parameters
    ----------
    operator:
        P.
    first, second:
        (n,) or (n, m) samples of two signals.
    degree:
        N*, to which the first factor is expanded.
    orders:
        Derivatives of the two signals that are multiplied.
    stride:
        Samples from one window to the next.

    Returns
    -------
    np.ndarray
        (rows,) or (rows, m), see `apply`.

    """
    indices = range(degree + 1)
    kernels = np.array([operator.modified(i, order=orders[1]) for i in indices])
    expanding = np.array([operator.coefficient(i, orders[0]) for i in indices])
    coefficients = apply(expanding, first, stride=stride)
    return np.sum(coefficients * apply(kernels, second, stride=stride), axis=0)


def _unit(index: int) -> np.ndarray:
    """Series of the orthonormal polynomial of degree ``index``."""
    return np.eye(index + 1)[index]


def wrong_value(name: str, value: float | None, remedy: str, unit: str = '') -> SettingsError:
    """Return the error for a parameter that cannot be."""
    shown = f'{value:.6g} {unit}'.strip()
    return key_error(f'{KEY}.{name}', f'is {shown}', remedy, value=value)
