# SPDX-License-Identifier: Apache-2.0
"""Criteria: values against dense algebra, gradients against finite differences."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.criteria import (
    column_scaled_condition_number,
    CRITERIA,
    frobenius_condition_number,
    log_det,
    smooth_condition_number,
)


def matrix(seed, columns=6, decades=2.0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((50, columns)) * 10.0 ** rng.uniform(-decades, decades, columns)


@pytest.mark.parametrize('name', list(CRITERIA))
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_gradients_are_those_of_the_values(name, seed):
    criterion = CRITERIA[name]
    # without a scaling, four decades of columns leave the smallest eigenvalue to rounding
    W = matrix(seed, decades=0.5 if name == 'frobenius' else 2.0)
    G = W.T @ W
    length = np.sqrt(np.diagonal(G))
    change = np.random.default_rng(seed + 1).standard_normal(G.shape)
    change = (change + change.T) * np.outer(length, length)
    step = 1e-6
    difference = (criterion(G + step * change)[0] - criterion(G - step * change)[0]) / (2 * step)
    gradient = criterion(G)[1]
    np.testing.assert_allclose(gradient, gradient.T)
    assert (gradient * change).sum() == pytest.approx(difference, rel=1e-5, abs=1e-7)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_smooth_condition_number_bounds_the_true_one_closely(seed):
    W = matrix(seed)
    true = np.log(np.linalg.cond(W / np.linalg.norm(W, axis=0)))
    smooth = smooth_condition_number(W.T @ W)[0]
    # at most (b b)^(1 / 2p) above it
    assert true <= smooth <= true + np.log(6.0) / 4.0 + 1e-9


def test_the_condition_number_does_not_depend_on_units():
    W = matrix(1)
    scale = 10.0 ** np.random.default_rng(2).uniform(-3, 3, 6)
    expected = np.linalg.cond(W / np.linalg.norm(W, axis=0))
    assert column_scaled_condition_number(W) == pytest.approx(expected, rel=1e-10)
    assert column_scaled_condition_number(W * scale) == pytest.approx(expected, rel=1e-9)
    W[:, 2] = 0.0
    assert column_scaled_condition_number(W) == np.inf


def test_log_det_is_the_determinants():
    W = matrix(3)
    assert log_det(W.T @ W)[0] == pytest.approx(-np.linalg.slogdet(W.T @ W)[1] / 6.0)
    # units add a constant
    assert log_det(4.0 * W.T @ W)[0] == pytest.approx(log_det(W.T @ W)[0] - np.log(4.0))


def test_the_frobenius_condition_number_is_the_papers():
    G = matrix(4).T @ matrix(4)
    expected = np.linalg.norm(G) * np.linalg.norm(np.linalg.inv(G))
    assert frobenius_condition_number(G)[0] == pytest.approx(np.log(expected), rel=1e-9)
    # other than the scaled one it depends on units
    units = np.diag([1e3, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert frobenius_condition_number(units @ G @ units)[0] > np.log(expected) + 1.0
