# SPDX-License-Identifier: Apache-2.0
"""Rate, gaps and steps back of a stream of stamps, against counting by hand."""

from __future__ import annotations

import math

from hypothesis import given, settings, strategies
import numpy as np
import pytest
from robot_identification.data.clock import clock_of, StampStatistics

SECOND = 10**9
PERIOD = 1_000_000


def fed(stamps):
    statistics = StampStatistics()
    for stamp in stamps:
        statistics.add(stamp)
    return statistics


@settings(max_examples=100)
@given(
    count=strategies.integers(20, 600),
    missing=strategies.sets(strategies.integers(1, 18), max_size=6),
    start=strategies.integers(-(10**18), 10**18),
)
def test_each_run_of_missing_samples_is_one_gap(count, missing, start):
    present = [i for i in range(count) if i not in missing]
    statistics = fed([start + i * PERIOD for i in present])
    steps = [b - a for a, b in zip(present, present[1:])]
    assert statistics.gaps == sum(step > 1 for step in steps)
    assert statistics.longest == max(steps) * PERIOD
    assert statistics.count == len(present)
    assert statistics.duration == pytest.approx(1e-9 * PERIOD * (count - 1))
    assert statistics.rate == pytest.approx((len(present) - 1) / statistics.duration)


def test_gaps_after_the_first_steps_count_as_well():
    present = [i for i in range(1000) if i not in (500, 501, 900)]
    assert fed([i * PERIOD for i in present]).gaps == 2


def test_jitter_of_a_third_of_a_period_is_no_gap():
    stamps = [i * PERIOD + (PERIOD // 3 if i % 2 else 0) for i in range(500)]
    assert fed(stamps).gaps == 0


def test_stamps_that_repeat_or_go_back_are_counted():
    statistics = fed([0, PERIOD, PERIOD, 0, PERIOD])
    assert statistics.backward == 2
    assert statistics.gaps == 0


def test_a_clock_that_is_set_back_takes_no_time_away():
    statistics = StampStatistics()
    for stamp in (*range(100 * SECOND, 103 * SECOND, PERIOD), *range(0, 2 * SECOND, PERIOD)):
        statistics.add(stamp)
    assert statistics.duration == pytest.approx(5.0, abs=3e-9 * PERIOD)
    assert statistics.backward == 1


def test_messages_out_of_order_take_no_time_away_either():
    statistics = StampStatistics()
    for number in (0, 1, 3, 2, 4, 5):
        statistics.add(number * PERIOD)
    assert statistics.duration == pytest.approx(5e-9 * PERIOD)


@pytest.mark.parametrize('stamps', [[], [5]])
def test_fewer_than_two_stamps_have_no_rate(stamps):
    statistics = fed(stamps)
    assert (statistics.rate, statistics.duration, statistics.gaps) == (0.0, 0.0, 0)


def test_jitter_is_that_of_the_recordings_clock():
    """One formula for the file that is read and for the stream: steps off whole periods, RMS."""
    rng = np.random.default_rng(3)
    stamps = np.cumsum(PERIOD * rng.choice([1, 1, 2, 5], 5000) + rng.integers(-9000, 9000, 5000))
    statistics = fed(stamps.tolist())
    clock = clock_of([1e-9 * stamps])
    assert statistics.jitter == pytest.approx(clock.jitter, rel=1e-6)
    assert statistics.gaps == clock.gaps


def test_what_is_asked_early_does_not_settle_the_period():
    statistics = fed([0, 7 * PERIOD])
    assert statistics.jitter == 0.0
    for i in range(1, 2000):
        statistics.add((7 + i) * PERIOD)
    assert statistics.gaps == 1
    assert statistics.jitter < 1e-12


def test_steps_back_are_no_jitter():
    stamps = [i * PERIOD for i in range(500)]
    assert fed(stamps + stamps).jitter < 1e-12


def test_without_steps_there_is_no_jitter():
    assert math.isnan(fed([5]).jitter)
