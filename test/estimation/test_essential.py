# SPDX-License-Identifier: Apache-2.0
"""Essential parameters against the same procedure carried out on all rows at every step."""

import numpy as np
import pytest
from robot_identification.errors import IdentifiabilityError
from robot_identification.estimation import (
    essential,
    ols,
    wls,
)


def eliminate(W: np.ndarray, tau: np.ndarray, limit: float) -> list[int]:
    """Drop the least certain column and fit all rows again, as the papers describe it."""
    left = list(range(W.shape[1]))
    while left:
        beta, *_ = np.linalg.lstsq(W[:, left], tau, rcond=None)
        residual = tau - W[:, left] @ beta
        variance = residual @ residual / (tau.size - len(left))
        std = np.sqrt(variance * np.diag(np.linalg.inv(W[:, left].T @ W[:, left])))
        relative = 100 * std / np.abs(beta)
        if relative.max() <= limit:
            break
        del left[int(relative.argmax())]
    return left


@pytest.fixture
def weak(problem_of):
    """Half of the parameters are small, and the columns are correlated."""
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(150, 2, 12)) @ (np.eye(12) + 0.8 * np.eye(12, k=1))
    truth = rng.normal(size=12) * np.where(np.arange(12) % 2, 0.02, 1.0)
    return problem_of(matrix, truth, np.array([0.2, 0.8]))


@pytest.mark.parametrize('limit', [5.0, 10.0, 30.0, 100.0])
@pytest.mark.parametrize('method', [ols, wls])
def test_same_as_fitting_all_rows_at_every_step(weak, method, limit):
    estimate = method(weak.system)
    assert estimate.excited.all()
    W = (weak.matrix * estimate.weights[:, None]).reshape(-1, 12)
    tau = (weak.effort * estimate.weights).ravel()
    expected = eliminate(W, tau, limit)
    reduced = essential(weak.system, estimate, limit)
    assert np.flatnonzero(reduced.essential).tolist() == expected
    assert 0 < len(expected) <= 12 and (limit == 100.0 or len(expected) < 12)
    beta = np.linalg.lstsq(W[:, expected], tau, rcond=None)[0]
    assert np.allclose(reduced.base.values[expected], beta, rtol=1e-9)
    assert (reduced.base.values[~reduced.essential] == 0.0).all()
    assert (reduced.relative_std[reduced.essential] <= limit).all()
    assert np.isnan(reduced.std[~reduced.essential]).all()
    assert reduced.rank == len(expected)
    assert np.array_equal(reduced.weights, estimate.weights)
    assert reduced.residual_std >= 0.98 * estimate.residual_std


def test_certain_parameters_all_stay(problem):
    case = problem(noise=1e-6)
    estimate = wls(case.system)
    reduced = essential(case.system, estimate, 30.0)
    assert reduced.essential.all()
    assert np.allclose(reduced.base.values, estimate.base.values, rtol=1e-12)


def test_nothing_is_certain_enough(problem):
    case = problem(noise=1e3)
    with pytest.raises(IdentifiabilityError, match='below 0.1 %'):
        essential(case.system, ols(case.system), 0.1)


def test_value_of_exactly_zero_goes_first(problem_of):
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(100, 1, 3))
    # effort without noise: the last parameter comes out as 0 up to rounding
    case = problem_of(matrix, np.array([1.0, 2.0, 0.0]))
    reduced = essential(case.system, ols(case.system), 30.0)
    assert reduced.base.values[:2] == pytest.approx([1.0, 2.0])
