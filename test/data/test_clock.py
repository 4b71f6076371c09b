# SPDX-License-Identifier: Apache-2.0
"""Quality of clocks whose faults are known, of recordings and of streams of stamps."""

from __future__ import annotations

import math
import tracemalloc

from hypothesis import given, settings, strategies
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.data.clock import clock_of, StampStatistics, WatchedSource
from robot_identification.data.recording import Recording


def test_an_even_clock():
    clock = clock_of([np.arange(5000) / 400.0], 'run.mcap')
    assert (clock.source, clock.samples, clock.gaps, clock.missing) == ('run.mcap', 5000, 0, 0)
    assert clock.rate == pytest.approx(400.0, rel=1e-12)
    assert clock.duration == pytest.approx(4999 / 400.0)
    assert clock.jitter < 1e-12
    assert clock.late == 0.0
    assert clock.longest == pytest.approx(1 / 400.0)


def test_jitter_is_that_of_the_steps():
    """Stamps that are off by noise of 20 us have steps off by sqrt(2) times as much."""
    noise = np.random.default_rng(0).normal(0.0, 20e-6, 200_000)
    clock = clock_of(np.array_split(np.arange(200_000) * 1e-3 + noise, 7))
    assert clock.jitter == pytest.approx(math.sqrt(2.0) * 20e-6, rel=0.01)
    assert clock.rate == pytest.approx(1000.0, rel=1e-6)
    # a step is late beyond 100 us, which is 3.54 of its standard deviations
    assert clock.late == pytest.approx(0.5 * math.erfc(100 / 20 / 2.0), rel=0.3)


def test_missing_samples_are_counted_and_leave_the_rate_as_it_is():
    kept = np.delete(np.arange(10_000), [1500, 1501, 1502, 4000, 9000])
    clock = clock_of([kept * 1e-3])
    assert (clock.gaps, clock.missing) == (3, 5)
    assert clock.rate == pytest.approx(1000.0, rel=1e-9)
    assert clock.longest == pytest.approx(4e-3)
    assert clock.late == pytest.approx(3 / (len(kept) - 1))


def test_samples_in_a_burst_are_late_but_not_missing():
    time = np.arange(3000) * 1e-3
    time[2000] += 0.8e-3  # and the next one comes in time
    clock = clock_of([time])
    assert (clock.gaps, clock.missing) == (1, 0)
    assert clock.rate == pytest.approx(1000.0, rel=1e-9)


def test_few_samples():
    assert math.isnan(clock_of([]).rate)
    assert math.isnan(clock_of([np.array([3.0])]).jitter)
    clock = clock_of([np.array([3.0]), np.array([3.5])])
    assert (clock.samples, clock.rate, clock.duration) == (2, 2.0, 0.5)


@given(st.lists(st.integers(0, 400), max_size=12), st.integers(0, 2**32 - 1))
def test_how_the_stamps_are_parted_makes_no_difference(cuts, seed):
    rng = np.random.default_rng(seed)
    time = np.cumsum(1e-3 * rng.choice([1.0, 1.0, 1.0, 0.9, 1.3, 4.0], size=2500))
    whole = clock_of([time]).to_dict()
    parts = clock_of(np.split(time, np.cumsum(cuts))).to_dict()
    assert parts.pop('source') == whole.pop('source')
    assert parts == pytest.approx(whole, rel=1e-9)


def test_memory_does_not_grow_with_the_recording():
    def stamps(parts):
        return (np.arange(i * 1000, (i + 1) * 1000) * 1e-3 for i in range(parts))

    peaks = []
    for parts in (20, 400):
        tracemalloc.start()
        clock_of(stamps(parts))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 10_000


def test_a_source_is_watched_once_it_is_read_to_its_end():
    time = np.arange(300) * 0.01
    source = WatchedSource(Recording(time, *np.zeros((2, 300, 1)), ('a',), source='run.csv'))
    assert source.joints == ('a',)
    next(source.blocks(100))
    assert source.clock is None
    for _ in range(2):
        assert sum(map(len, source.blocks(100))) == 300
        assert (source.clock.source, source.clock.samples) == ('run.csv', 300)


@pytest.mark.parametrize('keep', [0, 130, 300, 1000])
def test_the_beginning_is_kept_once_the_source_was_read_to_its_end(keep):
    time = np.arange(300) / 100.0
    plain = Recording(time, time[:, None], time[:, None] + 1.0, ('a',), source='run.csv')
    source = WatchedSource(plain, keep)
    next(source.blocks(100))
    assert source.beginning == ()
    list(source.blocks(100))
    kept = source.beginning
    assert sum(map(len, kept)) == min(keep, 300)
    if keep:
        rows = np.concatenate([part.position for part in kept])
        np.testing.assert_array_equal(rows, plain.position[:keep])


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
