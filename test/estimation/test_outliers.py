# SPDX-License-Identifier: Apache-2.0
"""Samples that are far off, found and replaced before the decimation."""

from functools import partial

import numpy as np
import pytest
from robot_identification.estimation import outliers
from robot_identification.estimation.irls import Magnitudes, SpikeRepair


def test_scale_of_normal_residuals_is_their_standard_deviation():
    magnitudes = Magnitudes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        magnitudes.push(np.abs(0.7 * rng.normal(size=1000)))
    assert magnitudes.scale() == pytest.approx(0.7, rel=0.01)
    assert Magnitudes().scale() == 0.0


@pytest.mark.parametrize('size', [1, 7, 64, 1000])
def test_thinning_keeps_an_even_grid_whatever_the_blocks(monkeypatch, size):
    monkeypatch.setattr(outliers, '_HELD', 100)
    magnitudes = Magnitudes()
    numbers = np.arange(1000.0)
    for start in range(0, 1000, size):
        magnitudes.push(numbers[start : start + size])
    held = np.concatenate(magnitudes._parts)
    assert 50 < held.size <= 100
    np.testing.assert_array_equal(held, np.arange(0.0, 1000.0, held[1]))


def test_spikes_of_moving_joints_become_what_the_model_predicts():
    rng = np.random.default_rng(1)
    matrix, base = rng.normal(size=(50, 2, 3)), np.array([1.0, -2.0, 0.5])
    effort = matrix @ base + 0.1 * rng.normal(size=(50, 2))
    spoilt = effort.copy()
    spoilt[[3, 20], [0, 1]] += [9.0, -4.0]
    spoilt[30, 0] += 9.0
    moving = np.ones((50, 2), dtype=bool)
    moving[30, 0] = False
    repair = SpikeRepair(base, np.array([1.0, 1.0]))
    done = repair(partial(np.matmul, matrix), spoilt, moving)
    expected = spoilt.copy()
    expected[[3, 20], [0, 1]] = (matrix @ base)[[3, 20], [0, 1]]
    np.testing.assert_array_equal(done, expected)
    assert repair.replaced.tolist() == [1, 1] and repair.samples.tolist() == [49, 50]
    np.testing.assert_allclose(repair.measured(), 0.1, rtol=0.4)
    # once measured, further passes do not count again
    repair(partial(np.matmul, matrix), spoilt, moving)
    assert repair.replaced.tolist() == [1, 1]
