"""Costs of energy equations: the measures they stand for, and their gradients."""

import numpy as np
import pytest
from robot_identification.errors import SettingsError
from robot_identification.excitation.point_cost import (
    equilibrium,
    log_spread,
    MEASURES,
    PointCost,
)


@pytest.fixture
def matrices():
    return np.random.default_rng(0).standard_normal((3, 9, 5)) * [1.0, 3.0, 0.2, 5.0, 1.0]


def test_the_three_measures_are_those_of_the_paper(matrices):
    values = {name: np.exp(measure(matrices, np.inf)[0]) for name, measure in MEASURES.items()}
    for k, W in enumerate(matrices):
        assert values['spectral'][k] == pytest.approx(np.linalg.cond(W))
        A = W.T @ W
        frobenius = np.linalg.norm(A) * np.linalg.norm(np.linalg.inv(A))
        assert values['frobenius'][k] == pytest.approx(frobenius)
        # an estimate from below, by no more than a small factor
        assert 0.2 * np.linalg.cond(W) < values['qr'][k] <= np.linalg.cond(W)


def test_the_equilibrium_is_the_ratio_of_entries_that_are_not_zero(matrices):
    matrices[0, 2, 1] = 0.0
    sizes = np.abs(matrices)
    sizes[0, 2, 1] = np.nan
    expected = np.nanmax(sizes, axis=(1, 2)) / np.nanmin(sizes, axis=(1, 2))
    np.testing.assert_allclose(np.exp(equilibrium(matrices, np.inf)[0]), expected)
    value, gradient = equilibrium(matrices, 3.0)
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    assert gradient[0, 2, 1] == 0.0


def test_smoothing_comes_down_to_the_ratio_of_the_extremes():
    sizes = np.array([0.3, 4.0, 1.0, 0.7, 3.9])
    values = [float(log_spread(sizes, p)[0]) for p in (1.0, 2.0, 8.0, 40.0, 300.0, np.inf)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(np.log(4.0 / 0.3))
    assert values[-2] == pytest.approx(values[-1], abs=1e-3)


@pytest.mark.parametrize('power', [2.0, 40.0, np.inf])
@pytest.mark.parametrize('measure', list(MEASURES))
@pytest.mark.parametrize('weight', [0.0, 0.3])
def test_gradients_are_those_of_differences(matrices, measure, power, weight):
    cost = PointCost(measure, 0.7, weight)
    value, gradient = cost.value(matrices, power)
    change = np.random.default_rng(1).standard_normal(matrices.shape)
    step = 1e-7
    ends = [cost.value(matrices + sign * step * change, power)[0] for sign in (1.0, -1.0)]
    slope = (ends[0] - ends[1]) / (2.0 * step)
    np.testing.assert_allclose((gradient * change).sum(axis=(1, 2)), slope, rtol=2e-5)
    alone = cost.value(matrices[1], power)
    np.testing.assert_allclose(alone[0], value[1])
    np.testing.assert_allclose(alone[1], gradient[1])


def test_the_cost_is_the_weighted_sum(matrices):
    W = matrices[0]
    ratio = np.abs(W).max() / np.abs(W).min()
    value = np.exp(PointCost('spectral', 2.0, 0.5).value(W)[0])
    assert value == pytest.approx(2.0 * np.linalg.cond(W) + 0.5 * ratio)


def test_wrong_costs_are_named():
    with pytest.raises(SettingsError, match="'x'") as caught:
        PointCost('x')
    assert caught.value.key == 'points.measure'
    with pytest.raises(SettingsError, match='both 0'):
        PointCost(condition_weight=0.0)
