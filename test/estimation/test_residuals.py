# SPDX-License-Identifier: Apache-2.0
"""Colour of residuals whose autocorrelation is known."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.estimation.plot_samples import EMPTY_TRACE, PlotSamples
from robot_identification.estimation.residuals import residual_colour
from robot_identification.regressor.pattern import RowPattern
from scipy.signal import lfilter

STEP, ROWS = 0.02, 20_000
NAMES = ('joint_1.fv', 'joint_2.Ia')


def samples(residual, speed=None):
    """Return rows of two joints, each with one column, whose model is 2 times the column."""
    time = STEP * np.arange(len(residual))
    pattern = RowPattern((np.array([0]), np.array([1])), 2)
    speed = np.sin(time) if speed is None else speed
    entries = np.stack([speed, np.cos(time)])
    effort = 2.0 * entries.T + residual
    return PlotSamples(
        time, np.zeros(len(time), dtype=int), pattern, entries, effort, np.ones(effort.shape, bool)
    )


def colour(rows):
    return residual_colour(rows, np.array([2.0, 2.0]), ('joint_1', 'joint_2'), NAMES)


def waves(rho, seed=1):
    """Return noise with autocorrelation rho^k."""
    return lfilter([1.0], [1.0, -rho], np.random.default_rng(seed).normal(size=(ROWS, 2)), axis=0)


@pytest.mark.parametrize('rho', [0.0, 0.5, 0.9])
def test_the_correlation_time_is_the_integral_of_the_autocorrelation(rho):
    found = colour(samples(waves(rho)))
    expected = (1.0 + rho) / (1.0 - rho)
    np.testing.assert_allclose(found.correlated_rows, expected, rtol=0.15)
    np.testing.assert_allclose(found.correlation_time, STEP * found.correlated_rows)


def test_a_bias_is_no_colour():
    white = np.random.default_rng(2).normal(size=(ROWS, 2))
    assert colour(samples(white + 5.0)).correlated_rows.max() < 1.5


def test_rows_of_different_segments_are_no_neighbours():
    rows = samples(waves(0.9))
    apart = replace(rows, segment=np.arange(ROWS) // 2)
    near, far = colour(rows).correlated_rows, colour(apart).correlated_rows
    assert (far < 0.5 * near).all()


def test_rows_in_the_dead_zone_do_not_count():
    residual = np.random.default_rng(3).normal(size=(ROWS, 2))
    residual[:, 0] += 50.0 * (np.arange(ROWS) % 1000 < 500)
    rows = samples(residual)
    keep = rows.keep.copy()
    keep[np.arange(ROWS) % 1000 < 500, 0] = False
    assert colour(rows).correlated_rows[0] > 10.0
    assert colour(replace(rows, keep=keep)).correlated_rows[0] < 1.5


def test_residuals_at_reversals_are_told_where_the_speed_is_a_column():
    time = STEP * np.arange(ROWS)
    speed = np.sin(time)
    residual = np.random.default_rng(4).normal(size=(ROWS, 2))
    residual[np.abs(speed) < 0.05] *= 4.0
    found = colour(samples(residual, speed))
    assert found.reversal_ratio[0] > 2.0
    assert np.isnan(found.reversal_ratio[1])  # its column is not its speed
    even = colour(samples(np.random.default_rng(5).normal(size=(ROWS, 2)), speed))
    assert even.reversal_ratio[0] == pytest.approx(1.0, abs=0.1)


def test_few_rows_tell_nothing():
    few = samples(waves(0.5)[:20])
    assert np.isnan(colour(few).correlation_time).all()
    none = residual_colour(EMPTY_TRACE, np.zeros(2), ('joint_1',), NAMES)
    assert np.isnan(none.correlation_time).all() and np.isnan(none.correlated_rows).all()


def test_it_is_written_by_joint():
    written = colour(samples(waves(0.5))).to_dict()
    assert list(written) == ['joint_1', 'joint_2']
    assert set(written['joint_1']) == {'correlation_time', 'correlated_rows', 'reversal_ratio'}
