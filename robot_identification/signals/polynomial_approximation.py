# SPDX-License-Identifier: Apache-2.0
"""
The polynomial approximation operator as FIR filters (Lomakin and Deutscher).

"Identification of Dynamic Parameters for Rigid Robots based on Polynomial Approximation", section
III.  Over a window of length T that ends at t, a signal is approximated by a polynomial of degree
N, optimal for the weight ``w(s) = (1 - s)^alpha (1 + s)^beta`` with s from -1 at t - T to 1 at t;
its value at t - t_d is ``P{x}(t)`` (16).  A derivative moves from the signal to the kernel (19),
coefficients of the polynomial are integrals too (26), and so are products with one factor expanded
(22).

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

from ..errors import SettingsError
from .jacobi import orthonormal, product_series, SampledWindow, zeros

KEY = 'signals.polynomial_approximation'
"""Where the parameters stand in the experiment file; named in errors."""

INTERPOLATION = 5
"""Degree of the polynomials through the samples, if the kernel does not ask for more; odd."""

_WHOLE = 1e-6  # periods: a window nearer than this to a whole number of them has that number
_BAND = 64  # windows whose weights are in one matrix, at least


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
                raise _wrong(name, getattr(self, name), 'the weight has no integral: raise it')
        shortest = self.interpolation * self.period
        if self.window < shortest * (1.0 - 1e-9):
            raise _wrong(
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
            raise _wrong(
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
        Kernel of ``P{x}`` (18).

        Parameters
        ----------
        hold:
            Whether the signal keeps the value of a sample until the next one, as a commanded
            effort does.

        Returns
        -------
        np.ndarray
            (taps,).

        """
        return self._kernel(self._series, 0, hold)

    def derivative(self, order: int) -> np.ndarray:
        """
        Kernel of ``P{x^(k)}`` (20).

        Parameters
        ----------
        order:
            k; 0 is the value.

        Returns
        -------
        np.ndarray
            (taps,) [1/s^k].

        Raises
        ------
        SettingsError
            where alpha or beta is below k: the kernel would not end in 0.

        """
        return self._kernel(self._series, order, False)

    def coefficient(self, index: int, order: int = 0) -> np.ndarray:
        """
        Kernel of the coefficient ``c_i{x^(k)}`` (27) of the orthonormal polynomials.

        Parameters
        ----------
        index:
            i, from 0; may exceed the operator's degree.
        order:
            k.

        Returns
        -------
        np.ndarray
            (taps,) [1/s^k].

        """
        return self._kernel(_unit(index), order, False)

    def modified(self, *indices: int, order: int = 0) -> np.ndarray:
        """
        Kernel of ``P{P_i P_j ... x^(k)}`` (25), the signal times polynomials of the window.

        Parameters
        ----------
        indices:
            i, j, ...: none is `derivative`, one is for products, two are for triple products.
        order:
            k.

        Returns
        -------
        np.ndarray
            (taps,) [1/s^k].

        """
        series = self._series
        for index in indices:
            series = product_series(series, _unit(index), self.alpha, self.beta)
        return self._kernel(series, order, False)

    def _kernel(self, series: np.ndarray, order: int, hold: bool) -> np.ndarray:
        """Integrate a kernel, given by its series, over what each sample contributes."""
        for name in ('alpha', 'beta'):
            if order > 0 and getattr(self, name) < order:
                raise _wrong(
                    name,
                    getattr(self, name),
                    f'derivatives of order {order} take {order} or more',
                )
        window = SampledWindow(
            step=2.0 * self.period / self.window,
            taps=self.taps,
            alpha=self.alpha,
            beta=self.beta,
            degree=self.interpolation,
        )
        return (-2.0 / self.window) ** order * window.integrals(series, order, hold=hold)


def admissible_delays(
    degree: int, window: float, alpha: float = 3.0, beta: float = 3.0
) -> np.ndarray:
    """
    Delays that raise the order of the approximation by one: the zeros of P_(N+1).

    Parameters
    ----------
    degree:
        N.
    window:
        T [s].
    alpha, beta:
        Exponents of the weight.

    Returns
    -------
    np.ndarray
        (N + 1,) ascending [s].

    """
    return 0.5 * window * (1.0 - zeros(degree + 1, alpha, beta))


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
    size = max(_BAND, math.ceil(taps / stride))
    band = banded(weights, min(size, rows), stride) if rows else np.empty(0)
    for start in range(0, rows, size):
        count = min(size, rows - start)
        reach = (count - 1) * stride + taps
        part = columns[start * stride : start * stride + reach]
        out[:, start : start + count] = band[:, :count, :reach] @ part
    out = out[:, :, 0] if flat else out
    return out[0] if single else out


def banded(kernels: np.ndarray, rows: int, stride: int = 1) -> np.ndarray:
    """
    Matrices whose row j has a kernel from column ``j stride`` on.

    Parameters
    ----------
    kernels:
        (k, taps).
    rows:
        Rows of each matrix.
    stride:
        Columns from one row's kernel to the next.

    Returns
    -------
    np.ndarray
        (k, rows, (rows - 1) stride + taps).

    """
    k, taps = kernels.shape
    band = np.zeros((k, rows, (rows - 1) * stride + taps))
    for j in range(rows):
        band[:, j, j * stride : j * stride + taps] = kernels
    return band


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
    kernels = np.array([operator.modified(i, order=orders[1]) for i in range(degree + 1)])
    coefficients = _expanded(operator, first, degree, orders[0], stride)
    return np.sum(coefficients * apply(kernels, second, stride=stride), axis=0)


def _expanded(
    operator: PolynomialOperator, signal: np.ndarray, degree: int, order: int, stride: int
) -> np.ndarray:
    """(degree + 1, rows, ...) coefficients of a signal's derivative in each window."""
    kernels = [operator.coefficient(i, order) for i in range(degree + 1)]
    return apply(np.array(kernels), signal, stride=stride)


def _unit(index: int) -> np.ndarray:
    """Series of the orthonormal polynomial of degree ``index``."""
    return np.eye(index + 1)[index]


def _wrong(name: str, value: float | None, remedy: str, unit: str = '') -> SettingsError:
    shown = f'{value:.6g} {unit}'.strip()
    return SettingsError(
        f"'{KEY}.{name}' is {shown}", key=f'{KEY}.{name}', value=value, remedy=remedy
    )
