# SPDX-License-Identifier: Apache-2.0
"""Tests of many robots at once, against distributions drawn at random."""

import numpy as np
import pytest
from robot_identification.fleet.comparison import (
    compare,
    differences,
    scatter,
    Series,
    significant,
    trend,
)

SIGNIFICANCE = 0.05


def draw(rng, robots=8, recordings=6, parameters=5, scatter=1.0, shift=None, drift=None):
    """Draw a fleet whose values scatter by ``scatter`` times their standard deviations."""
    std = rng.uniform(0.5, 2.0, (robots, recordings, parameters))
    # what scatters beyond the standard deviations does so by parameter, not by recording
    values = 3.0 + scatter * std * rng.standard_normal(std.shape)
    stamps = 86400.0 * np.arange(recordings)
    series = []
    for r in range(robots):
        if shift is not None and r == 0:
            values[r, :, 0] += shift
        if drift is not None and r == 1:
            values[r, :, 1] += drift * np.arange(recordings)
        weights = 1.0 / std[r] ** 2
        mean = (weights * values[r]).sum(axis=0) / weights.sum(axis=0)
        series.append(Series(stamps, values[r], std[r], mean, weights.sum(axis=0) ** -0.5))
    return series


@pytest.mark.parametrize('ratio', [pytest.param(1.0, marks=pytest.mark.soak), 4.0])
def test_equal_robots_are_told_apart_no_more_often_than_stated(ratio):
    rng = np.random.default_rng(1)
    fleets = 400
    told_apart = drifting = 0
    for _ in range(fleets):
        tests = compare(draw(rng, scatter=ratio))
        told_apart += bool(significant(tests.difference_probability, SIGNIFICANCE))
        drifting += bool(significant(tests.slope_probability, SIGNIFICANCE))
    # three standard deviations of the count above what is allowed
    limit = SIGNIFICANCE * fleets + 3.0 * np.sqrt(SIGNIFICANCE * fleets)
    assert told_apart <= limit
    assert drifting <= limit


def test_the_tests_of_drift_use_up_what_they_are_allowed():
    rng = np.random.default_rng(2)
    drifting = sum(
        bool(significant(compare(draw(rng)).slope_probability, SIGNIFICANCE)) for _ in range(400)
    )
    assert drifting >= 0.3 * SIGNIFICANCE * 400


def test_one_robot_apart_and_one_that_drifts_are_found_and_no_other():
    rng = np.random.default_rng(3)
    for _ in range(20):
        tests = compare(draw(rng, recordings=12, shift=5.0, drift=2.0))
        apart = significant(tests.difference_probability, 1e-3)
        # what drifts by 24 is also off by half of that
        assert {r: list(p) for r, p in apart.items()} == {0: [0], 1: [1]}
        assert {r: list(p) for r, p in significant(tests.slope_probability, 1e-3).items()} == {
            1: [1]
        }


def test_an_erratic_robot_does_not_hide_the_others():
    rng = np.random.default_rng(4)
    series = draw(rng, robots=10, recordings=12, shift=5.0)
    wild = series[5]
    values = wild.values + 40.0 * rng.standard_normal(wild.values.shape)
    series[5] = Series(wild.stamps, values, wild.std, values.mean(axis=0), wild.value_std)
    tests = compare(series)
    assert set(significant(tests.difference_probability, 1e-3)) == {0}
    assert not significant(tests.slope_probability, 1e-3)


def test_a_change_of_one_parameter_does_not_show_in_others():
    series = draw(np.random.default_rng(9), recordings=12, drift=2.0)
    worn = series[1]
    # what an estimate from all recordings together makes of parameters that change
    together = worn.value + 30.0 * worn.value_std * np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    series[1] = Series(worn.stamps, worn.values, worn.std, together, worn.value_std)
    tests = compare(series, 1e-3)
    assert {r: list(p) for r, p in significant(tests.difference_probability, 1e-3).items()} == {
        1: [1]
    }
    # of a steady robot it counts
    series[4] = Series(
        series[4].stamps, series[4].values, series[4].std, together, series[4].value_std
    )
    assert 4 in significant(compare(series, 1e-3).difference_probability, 1e-3)


def test_a_line_is_that_of_weighted_least_squares():
    rng = np.random.default_rng(5)
    t, y, std = rng.uniform(0.0, 9.0, 9), rng.standard_normal(9), rng.uniform(0.5, 2.0, 9)
    y[3], std[[5, 6]] = np.nan, (0.0, np.nan)  # what is not known is left out
    slope, slope_std, squares, freedom = trend(t, y, std)
    known = np.isfinite(y) & (std > 0.0)
    coefficients, covariance = np.polyfit(
        t[known], y[known], 1, w=1.0 / std[known], cov='unscaled'
    )
    assert slope == pytest.approx(coefficients[0], rel=1e-10)
    assert slope_std == pytest.approx(np.sqrt(covariance[0, 0]), rel=1e-10)
    rest = (y - np.polyval(coefficients, t))[known] / std[known]
    assert squares == pytest.approx(rest @ rest, rel=1e-10)
    assert freedom == 4


def test_two_values_and_values_of_one_time_have_no_slope():
    slope, _, squares, freedom = trend(np.array([0.0, 5.0]), np.array([1.0, 3.0]), np.ones(2))
    assert np.isnan(slope) and freedom == 1 and squares == pytest.approx(2.0)
    slope, _, squares, freedom = trend(np.zeros(4), np.array([1.0, 2.0, 3.0, 2.0]), np.ones(4))
    assert np.isnan(slope) and freedom == 3 and squares == pytest.approx(2.0)
    assert trend(np.zeros(1), np.ones(1), np.ones(1))[-1] == 0


def test_scatter_is_at_least_one_and_of_each_parameter():
    squares = np.array([[2.0, 400.0], [3.0, 380.0], [1.0, 420.0]])
    ratio, known_by = scatter(squares, np.full((3, 2), 4))
    assert ratio[:, 0] == pytest.approx(1.0)
    assert ratio[:, 1] == pytest.approx(10.0)
    assert (known_by == 12).all()


def test_an_erratic_robot_has_a_scatter_of_its_own():
    squares, freedom = np.array([[4.0], [5.0], [3.0], [900.0]]), np.array([[4], [4], [4], [9]])
    ratio, known_by = scatter(squares, freedom)
    assert ratio.ravel().tolist() == [1.0, 1.0, 1.0, 10.0]
    assert known_by.ravel().tolist() == [12.0, 12.0, 12.0, 9.0]


def test_an_erratic_robot_scatters_no_less_than_the_others():
    """Known by many more values, it is erratic at a ratio that few values of others reach."""
    squares = np.array([[8.0], [9.0], [0.5], [0.5], [0.5], [2000.0]])
    freedom = np.array([[1], [1], [1], [1], [1], [1000]])
    ratio, _ = scatter(squares, freedom)
    common = np.sqrt(squares[:5].sum() / 5)
    assert common > np.sqrt(2.0)  # what the last one's own would be
    assert ratio.ravel() == pytest.approx(common)


def test_two_robots_are_held_against_each_other():
    reference, difference, std = differences(np.array([[1.0], [4.0]]), np.array([[0.3], [0.4]]))
    assert reference == pytest.approx([2.5])
    assert difference[:, 0] == pytest.approx([-3.0, 3.0])
    assert std[:, 0] == pytest.approx([0.5, 0.5])


def test_one_robot_is_held_against_nothing():
    tests = compare(draw(np.random.default_rng(6), robots=1))
    assert np.isnan(tests.difference_probability).all()
    assert np.isfinite(tests.slope_probability).all()


def test_the_standard_deviation_of_a_median():
    rng = np.random.default_rng(7)
    std = np.repeat([[0.5], [1.0], [2.0]], 7, axis=0)
    medians = [differences(std * rng.standard_normal(std.shape), std)[0][0] for _ in range(4000)]
    _, _, together = differences(np.zeros(std.shape), std)
    assert np.sqrt(together[0, 0] ** 2 - 0.25) == pytest.approx(np.std(medians), rel=0.1)
