# SPDX-License-Identifier: Apache-2.0
"""Covariance of sums, against what many recordings scatter by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.estimation.bootstrap import (
    sum_covariance,
    variance_inflation,
)
from scipy.signal import lfilter

from .test_bootstrap import motion, system_of_rows


def series(memory, count=512, columns=3, seed=0):
    """Return a first-order process of unit variance."""
    noise = np.random.default_rng(seed).normal(size=(count, columns))
    return lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], noise, axis=0)


@pytest.mark.parametrize('memory', [0.0, 0.5, 0.8])
def test_the_covariance_is_that_of_sums_over_many_recordings(memory):
    sums = [series(memory, seed=seed).sum(axis=0) for seed in range(2000)]
    true = np.cov(np.array(sums).T)
    stated = np.mean([sum_covariance(series(memory, seed=seed)) for seed in range(40)], axis=0)
    assert np.diag(stated) == pytest.approx(np.diag(true), rel=0.25)
    correlation = stated / np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    assert np.abs(correlation - np.eye(3)).max() < 0.15


@pytest.mark.parametrize('memory', [0.0, 0.9])
@pytest.mark.parametrize('gain', [1.0, 3.0])
def test_inflation_is_that_of_errors_that_last(memory, gain):
    """
    Rows that hardly change, and errors with a memory m: variances grow by (1 + m) / (1 - m).

    A gain of one joint's efforts that the other's do not have makes no difference.
    """
    rows = 1.0 + 0.02 * motion(6000, 2, 1)
    found = []
    for seed in range(5):
        effort = 5.0 * rows[:, :, 0] * [1.0, gain] + series(memory, 6000, 2, seed)
        found.append(variance_inflation(system_of_rows(rows, effort)))
    expected = (1.0 + memory) / (1.0 - memory)
    assert np.mean(found) == pytest.approx(expected, rel=0.3)


def test_rows_without_their_time_count_as_independent():
    rows = motion(100, 1, 2)
    system = system_of_rows(rows, rows.sum(axis=2) + series(0.9, 100, 1))
    assert variance_inflation(system) > 1.5
    assert variance_inflation(replace(system, blocks=None)) == 1.0
