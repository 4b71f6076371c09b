# SPDX-License-Identifier: Apache-2.0
"""Quality of clocks whose faults are known."""

import math
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.data.clock import clock_of, WatchedSource
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
