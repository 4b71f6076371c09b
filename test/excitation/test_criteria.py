# SPDX-License-Identifier: Apache-2.0
"""Criteria: values against dense algebra, gradients against finite differences."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.criteria import (
    by_information,
    column_scaled_condition_number,
    covariance,
    CRITERIA,
    deviations,
    excess,
    excess_and_deviations,
    frobenius,
    log_det,
)


def matrix(seed, columns=6, decades=2.0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((50, columns)) * 10.0 ** rng.uniform(-decades, decades, columns)


@pytest.mark.parametrize('name', [*CRITERIA, 'excess', 'both'])
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_gradients_by_the_information_are_those_of_differences(name, seed):
    others = {
        'excess': partial(excess, targets=np.array([1.0, 0.1, 0.01])),
        'both': partial(
            excess_and_deviations, places=np.array([2, 0]), targets=np.array([0.1, 0.01])
        ),
    }
    function = CRITERIA[name].function if name in CRITERIA else others[name]
    criterion = partial(by_information, places=np.array([0, 2, 5]), function=function)
    # without a scaling, four decades of columns leave the smallest eigenvalue to rounding
    W = matrix(seed, decades=0.5)
    G = W.T @ W
    length = np.sqrt(np.diagonal(G))
    change = np.random.default_rng(seed + 1).standard_normal(G.shape)
    change = (change + change.T) * np.outer(length, length)
    step = 1e-6
    difference = (criterion(G + step * change)[0] - criterion(G - step * change)[0]) / (2 * step)
    gradient = criterion(G)[1]
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-12 * np.abs(gradient).max())
    assert (gradient * change).sum() == pytest.approx(difference, rel=1e-4, abs=1e-6)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_values_are_those_of_the_inverse(seed):
    W = matrix(seed, decades=0.5)
    C = np.linalg.inv(W.T @ W)
    np.testing.assert_allclose(np.diagonal(covariance(W.T @ W)), np.diagonal(C), rtol=1e-6)
    assert deviations(C)[0] == pytest.approx(np.log(np.sqrt(np.diagonal(C))).mean())
    assert log_det(C)[0] == pytest.approx(0.5 * np.linalg.slogdet(C)[1] / 6, rel=1e-6)
    assert np.exp(2.0 * CRITERIA['trace'].function(C)[0]) == pytest.approx(np.trace(C) / 6)
    worst = np.linalg.eigvalsh(C)[-1]
    assert (
        worst
        <= np.exp(2.0 * CRITERIA['largest'].function(C)[0])
        <= 6 ** (1 / 8) * worst * (1 + 1e-9)
    )


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_units_move_the_mean_deviation_and_the_determinant_by_a_constant(seed):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-2.0, 2.0, 6)
    one, other = (np.linalg.inv(W.T @ W) for W in (matrix(seed, 6, 0.5), matrix(seed + 1, 6, 0.5)))
    for criterion in (deviations, log_det):
        plain = criterion(one)[0] - criterion(other)[0]
        units = [criterion(C * np.outer(scale, scale))[0] for C in (one, other)]
        assert units[0] - units[1] == pytest.approx(plain, abs=1e-6)


def test_what_a_motion_does_not_tell_has_a_large_variance():
    W = matrix(3)
    W[:, 4] = 0.0
    variances = np.diagonal(covariance(W.T @ W))
    assert np.isfinite(variances).all() and variances[4] > 1e190
    others = [0, 1, 2, 3, 5]
    expected = np.diagonal(np.linalg.inv(W[:, others].T @ W[:, others]))
    np.testing.assert_allclose(variances[others], expected, rtol=1e-6)


def test_the_excess_is_zero_below_the_targets():
    C = np.diag([1e-4, 4e-4])
    assert excess(C, np.array([0.1, 0.2]))[0] < 1e-9


def test_the_excess_is_the_largest():
    found = excess(np.diag([1e-4, 4e-4]), np.array([0.01, 0.002]))[0]
    assert np.log(10.0) <= found <= np.log(10.0) + np.log(2.0) / 8.0


def test_the_condition_number_does_not_depend_on_units():
    W = matrix(1)
    scale = 10.0 ** np.random.default_rng(2).uniform(-3, 3, 6)
    expected = np.linalg.cond(W / np.linalg.norm(W, axis=0))
    assert column_scaled_condition_number(W) == pytest.approx(expected, rel=1e-10)
    assert column_scaled_condition_number(W * scale) == pytest.approx(expected, rel=1e-9)
    W[:, 2] = 0.0
    assert column_scaled_condition_number(W) == np.inf


def test_the_frobenius_condition_number_is_the_papers():
    G = matrix(4).T @ matrix(4)
    expected = np.linalg.norm(G) * np.linalg.norm(np.linalg.inv(G))
    assert 2.0 * frobenius(G)[0] == pytest.approx(np.log(expected), rel=1e-9)
    # other than the scaled one it depends on units
    units = np.diag([1e3, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert 2.0 * frobenius(units @ G @ units)[0] > np.log(expected) + 1.0
