# SPDX-License-Identifier: Apache-2.0
"""The kernels of the polynomial approximation: moments, order of the error, products, holds."""

import numpy as np
from numpy.polynomial import Polynomial
import pytest
from robot_identification.errors import SettingsError
from robot_identification.signals.polynomial_approximation import (
    admissible_delays,
    apply,
    orthonormal,
    PolynomialOperator,
    product,
    weighted,
)
from scipy.integrate import quad

PERIOD = 0.004
OPERATORS = [
    PolynomialOperator(0.044, PERIOD),
    PolynomialOperator(0.044, PERIOD, delay=0.02),
    PolynomialOperator(0.05, PERIOD, degree=2, alpha=2.0, beta=4.0),  # no whole number of periods
    PolynomialOperator(0.0616, PERIOD, degree=0, alpha=2.5, beta=3.2),
    PolynomialOperator(0.12, PERIOD, degree=3, alpha=5.0, beta=5.0),
    PolynomialOperator(0.0440001, PERIOD, alpha=2.5, beta=2.5),  # starts just before a sample
]


def times(operator):
    """Return the sampling times of the window that ends at 0."""
    return np.arange(1 - operator.taps, 1) * operator.period


def weight(operator, s):
    return (1 - s) ** operator.alpha * (1 + s) ** operator.beta


def exact(operator, function, factor=None):
    """``P{factor function}`` of continuous functions of time, by quadrature of (16) as it is."""
    count = operator.degree + 1
    at = orthonormal(
        count, operator.alpha, operator.beta, 1 - 2 * operator.instant / operator.window
    )

    def integrand(s):
        t = 0.5 * operator.window * (s - 1)
        R = at @ orthonormal(count, operator.alpha, operator.beta, s)
        return function(t) * R * (1.0 if factor is None else factor(t))

    return integral(operator, integrand)


def integral(operator, function):
    """Integrate a function of s times the weight."""
    powers = operator.beta, operator.alpha
    return quad(function, -1, 1, weight='alg', wvar=powers, epsabs=1e-12, epsrel=1e-12)[0]


@pytest.mark.parametrize(('alpha', 'beta'), [(3.0, 3.0), (0.0, 2.0), (2.5, -0.5), (-0.5, -0.5)])
def test_polynomials_are_orthonormal(alpha, beta):
    def inner(i, j):
        def f(s):
            P = orthonormal(5, alpha, beta, s)
            return P[i] * P[j]

        return quad(f, -1, 1, weight='alg', wvar=(beta, alpha))[0]

    gram = [[inner(i, j) for j in range(5)] for i in range(5)]
    np.testing.assert_allclose(gram, np.eye(5), atol=1e-12)


@pytest.mark.parametrize('operator', OPERATORS)
@pytest.mark.parametrize('order', [0, 1, 2])
def test_polynomials_up_to_the_degree_are_exact_in_every_derivative(operator, order):
    kernel = operator.derivative(order)
    for degree in range(operator.degree + order + 1):
        x = Polynomial.basis(degree, domain=[-0.1, 0], window=[-1, 1])
        wanted = x.deriv(order)(-operator.instant) if order else x(-operator.instant)
        found = kernel @ x(times(operator))
        assert found == pytest.approx(wanted, abs=1e-11 * np.abs(kernel).sum())


@pytest.mark.parametrize('operator', OPERATORS)
def test_a_constant_has_no_derivatives(operator):
    for order in (1, 2):
        kernel = operator.derivative(order)
        assert abs(kernel.sum()) < 1e-14 * np.abs(kernel).sum()


def test_sampling_the_kernel_instead_would_give_a_constant_an_acceleration():
    # the figure that the documentation quotes
    operator = PolynomialOperator(0.044, PERIOD)
    s = np.linspace(-1.0, 1.0, 12)
    at = orthonormal(2, 3.0, 3.0, 1 - 2 * operator.instant / 0.044)
    kernel = (1 - s) * (1 + s) * weighted(at, 2, 3.0, 3.0, s) * (2 / 0.044) ** 3
    assert PERIOD * kernel.sum() == pytest.approx(-593.0, abs=0.5)


@pytest.mark.parametrize('operator', OPERATORS)
def test_kernels_are_the_integrals_of_the_operator(operator):
    # a polynomial of the interpolation's degree is integrated without error
    x = Polynomial([0.3, -1.0, 2.0, 0.5, -1.5, 1.0], domain=[-operator.window, 0])
    samples = x(times(operator))
    for order in (0, 1, 2):
        derivative = x.deriv(order) if order else x
        wanted = exact(operator, derivative)
        scale = np.abs(operator.derivative(order)).sum()
        assert operator.derivative(order) @ samples == pytest.approx(wanted, abs=1e-12 * scale)


@pytest.mark.parametrize('operator', OPERATORS)
def test_coefficients_and_modified_kernels_are_their_integrals(operator):
    x = Polynomial([0.3, -1.0, 2.0, 0.5, -1.5, 1.0], domain=[-operator.window, 0])
    samples, T = x(times(operator)), operator.window

    def P(i, t):
        return orthonormal(i + 1, operator.alpha, operator.beta, 1 + 2 * t / T)[i]

    for i in range(3):
        c = integral(operator, lambda s, i=i: x(T / 2 * (s - 1)) * P(i, T / 2 * (s - 1)))
        assert operator.coefficient(i) @ samples == pytest.approx(c, abs=1e-12)
        wanted = exact(operator, x, lambda t, i=i: P(i, t))
        assert operator.modified(i) @ samples == pytest.approx(wanted, abs=1e-10)
        wanted = exact(operator, x.deriv(2), lambda t, i=i: P(i, t) * P(1, t))
        scale = np.abs(operator.modified(i, 1, order=2)).sum()
        found = operator.modified(i, 1, order=2) @ samples
        assert found == pytest.approx(wanted, abs=1e-11 * scale)


def test_the_paper_s_delay_is_that_of_exponents_three():
    np.testing.assert_allclose(admissible_delays(1, 0.044), [0.0146667, 0.0293333], atol=5e-8)
    assert admissible_delays(1, 0.044, 2, 2)[0] == pytest.approx(0.013685, abs=5e-7)
    assert admissible_delays(1, 0.044, 4, 4)[0] == pytest.approx(0.015367, abs=5e-7)


def oscillation(t, order=0, z=7.0j):
    """Give a complex oscillation: the error of its derivative has no zeros."""
    return z**order * np.exp(z * t)


def order_of(error, windows):
    """Exponent of the window's length in an error."""
    values = [abs(error(T)) for T in windows]
    return np.polyfit(np.log(windows), np.log(values), 1)[0]


WINDOWS = (0.06, 0.04, 0.03)
FINE = 0.001


@pytest.mark.parametrize('degree', [0, 1, 2])
@pytest.mark.parametrize('order', [0, 1, 2])
def test_the_error_of_a_derivative_has_the_order_n_plus_2(degree, order):
    def error(T):
        operator = PolynomialOperator(T, FINE, degree)
        found = operator.derivative(order) @ oscillation(times(operator))
        return found - oscillation(-operator.instant, order)

    assert order_of(error, WINDOWS) == pytest.approx(degree + 2, abs=0.03)


def test_a_delay_that_is_no_zero_loses_one_order():
    def error(T):
        operator = PolynomialOperator(T, FINE, 1, delay=0.2 * T)
        return operator.value() @ oscillation(times(operator)) - oscillation(-operator.instant)

    assert order_of(error, WINDOWS) == pytest.approx(2.0, abs=0.03)


@pytest.mark.parametrize(
    ('degree', 'product_degree', 'order'), [(1, 2, 5), (1, 1, 3), (2, 2, 4), (0, 2, 6)]
)
def test_the_error_of_a_product_has_the_order_2_ns_minus_n_plus_2(degree, product_degree, order):
    def error(T):
        operator = PolynomialOperator(T, FINE, degree)
        t = times(operator)
        first, second = oscillation(t), oscillation(t, 0, 5.0j)
        # the product of the complex signals, from those of their real and imaginary parts
        parts = [
            product(operator, a, b, product_degree, orders=(0, 2))
            for a in (first.real, first.imag)
            for b in (second.real, second.imag)
        ]
        found = np.array([1.0, 1.0j, 1.0j, -1.0]) @ parts
        return (found - operator.value() @ (first * oscillation(t, 2, 5.0j))).item()

    assert order_of(error, WINDOWS) == pytest.approx(order, abs=0.05)


def test_products_are_exact_where_the_expanded_factors_are_polynomials():
    operator = PolynomialOperator(0.044, PERIOD)
    t = np.arange(40) * PERIOD
    a, b = 1.0 - 3.0 * t + 40.0 * t**2, t + 20.0 * t**2
    wanted = apply(operator.value(), a * 40.0)
    np.testing.assert_allclose(product(operator, a, b, 2, orders=(0, 2)), wanted, atol=1e-8)


@pytest.mark.parametrize('window', [0.044, 0.05])
def test_a_held_signal_is_integrated_over_the_hold(window):
    operator = PolynomialOperator(window, PERIOD)
    held = np.random.default_rng(3).normal(size=operator.taps)
    start = times(operator)

    def function(t):
        return held[np.searchsorted(start, t, side='right') - 1]

    fine = np.linspace(-window, 0.0, 400001)
    middle = 0.5 * (fine[1:] + fine[:-1])
    s = 1 + 2 * middle / window
    count = operator.degree + 1
    at = orthonormal(count, 3.0, 3.0, 1 - 2 * operator.instant / window)
    R = at @ orthonormal(count, 3.0, 3.0, s)
    kernel = 2 / window * R * weight(operator, s)
    wanted = np.sum(function(middle) * kernel) * (fine[1] - fine[0])
    assert operator.value(hold=True) @ held == pytest.approx(wanted, abs=1e-5)
    assert operator.value(hold=True).sum() == pytest.approx(1.0, abs=1e-13)
    assert operator.value(hold=True)[-1] == 0.0


def test_windows_are_those_of_a_plain_sliding_sum():
    rng = np.random.default_rng(0)
    kernels, x = rng.normal(size=(2, 12)), rng.normal(size=(1000, 3))
    plain = [[k @ x[j : j + 12] for j in range(989)] for k in kernels]
    np.testing.assert_allclose(apply(kernels, x), plain, atol=1e-12)
    np.testing.assert_allclose(apply(kernels, x, stride=7), np.array(plain)[:, ::7], atol=1e-12)
    np.testing.assert_allclose(apply(kernels[1], x[:, 2]), np.array(plain)[1, :, 2], atol=1e-12)
    assert apply(kernels, x[:11]).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ('arguments', 'name'),
    [
        ({'window': 0.016}, 'window'),
        ({'alpha': -1.0}, 'alpha'),
        ({'delay': 0.05}, 'delay'),
        ({'delay': -0.001}, 'delay'),
    ],
)
def test_an_operator_that_cannot_be_is_refused(arguments, name):
    with pytest.raises(SettingsError) as error:
        PolynomialOperator(**{'window': 0.044, 'period': PERIOD, **arguments})
    assert error.value.key == f'signals.polynomial_approximation.{name}'


def test_derivatives_take_exponents_of_their_order():
    operator = PolynomialOperator(0.044, PERIOD, alpha=3.0, beta=1.5)
    operator.derivative(1)
    with pytest.raises(SettingsError, match=r'beta.*1\.5'):
        operator.derivative(2)
