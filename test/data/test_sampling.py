# SPDX-License-Identifier: Apache-2.0
"""Clocks whose faults are known, of recordings and of streams of stamps; uniform grid."""

from __future__ import annotations

import math
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.data.parts import read_parts
from robot_identification.data.recording import Recording
from robot_identification.data.sampling import (
    clock_of,
    GAP,
    interpolated,
    on_grid,
    sample_rate,
    StampStatistics,
)
from robot_identification.errors import RecordingError


def record(time, position=None, **more):
    time = np.asarray(time, dtype=float)
    position = np.sin(time) if position is None else position
    return Recording(
        time=time,
        position=position[:, None],
        effort=np.cos(time)[:, None],
        joints=('joint',),
        source='run.csv',
        **more,
    )


def gridded(recording, rate):
    """Return the stretches on their grids."""
    return [on_grid(part, rate) for part in recording.split(GAP / sample_rate(recording))]


@pytest.mark.parametrize('rate', [10.0, 100.0, 333.0, 1000.0, 5000.0])
def test_rate_of_uniform_stamps_is_exact(rate):
    assert sample_rate(record(7.0 + np.arange(3000) / rate)) == pytest.approx(rate, rel=1e-12)


def test_rate_of_rounded_stamps():
    stamps = np.round(np.arange(20000) / 300.0, 3)  # in whole milliseconds: steps of 3, 3 and 4
    assert sample_rate(record(stamps)) == 300.0


def test_rate_that_is_no_whole_number_is_kept():
    assert sample_rate(record(np.arange(5000) / 124.9876)) == pytest.approx(124.9876, rel=1e-9)


def test_rate_of_jittering_stamps_with_holes_and_gaps():
    rng = np.random.default_rng(0)
    index = np.delete(np.arange(10000), rng.choice(10000, 300, replace=False))
    stamps = (index + 0.1 * rng.uniform(-1, 1, index.size)) / 1000.0
    stamps[6000:] += 2.0
    assert sample_rate(record(stamps)) == pytest.approx(1000.0, rel=1e-5)


def test_a_rate_takes_two_samples():
    with pytest.raises(RecordingError, match=r'run\.csv: has 1 samples') as error:
        sample_rate(record([0.0]))
    assert error.value.file == 'run.csv'


@pytest.mark.parametrize('origin', [0.0, 1.7e9])
def test_uniform_stamps_pass_unchanged(origin):
    rng = np.random.default_rng(1)
    noise = rng.normal(size=4000)
    recording = record(np.round(origin + np.arange(4000) / 1000.0, 6), noise)
    (whole,) = gridded(recording, sample_rate(recording))
    assert whole.time[0] == recording.time[0]
    np.testing.assert_allclose(np.diff(whole.time), 1e-3, atol=1e-6)
    np.testing.assert_array_equal(whole.position[:, 0], noise)
    np.testing.assert_array_equal(whole.effort, recording.effort)


def test_jittering_stamps_are_interpolated():
    rng = np.random.default_rng(2)
    stamps = (np.arange(5000) + 0.3 * rng.uniform(-1, 1, 5000)) / 1000.0
    stamps[0] = 0.0
    recording = record(stamps, np.sin(2 * np.pi * 5.0 * stamps))
    (whole,) = gridded(recording, 1000.0)
    np.testing.assert_allclose(whole.time, stamps[0] + np.arange(len(whole)) / 1000.0, atol=1e-12)
    # a straight line would be wrong by (2 pi 5)^2 / 8e6 = 1.2e-4
    expected = np.sin(2 * np.pi * 5.0 * whole.time)
    np.testing.assert_allclose(whole.position[:, 0], expected, atol=5e-6)


def test_parabolas_are_met_across_missing_samples():
    time = np.delete(np.arange(1000) / 100.0, [300, 301, 500, 640, 641, 642])
    recording = record(time, 3.0 - 2.0 * time + 0.7 * time**2)
    (whole,) = gridded(recording, 100.0)
    grid = np.arange(1000) / 100.0
    np.testing.assert_allclose(whole.time, grid, atol=1e-12)
    expected = 3.0 - 2.0 * grid + 0.7 * grid**2
    np.testing.assert_allclose(whole.position[:, 0], expected, atol=1e-12)


@settings(max_examples=30)
@given(size=st.integers(2, 900), seed=st.integers(0, 100))
def test_how_many_points_are_interpolated_at_once_makes_no_difference(size, seed):
    rng = np.random.default_rng(seed)
    steps = rng.choice([0.5, 1.0, 1.001, 1.2, 3.0], size=1500, p=[0.2, 0.4, 0.2, 0.1, 0.1])
    time = np.cumsum(steps) / 100.0
    recording = record(time, rng.normal(size=1500))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('robot_identification.data.sampling._AT_ONCE', size)
        found = on_grid(recording, 110.0)
    on_stamp = np.abs(found.time[:, None] - time).min(axis=1) < 1e-4
    expected = interpolated(time, recording.position, found.time)
    np.testing.assert_allclose(found.position[~on_stamp], expected[~on_stamp], atol=1e-12)


def test_a_gap_starts_a_new_stretch():
    time = np.concatenate((np.arange(500), np.arange(506, 900), [902, 903])) / 100.0
    first, second = gridded(record(time), 100.0)
    assert (first.time[0], len(first)) == (0.0, 500)
    assert (second.time[0], len(second)) == (5.06, 398)


class Unsorted:
    joints = ('joint',)

    def blocks(self, size):
        yield record(np.arange(100) / 100.0)
        yield record(0.99 + np.arange(100) / 100.0)


def test_stamps_that_go_back_between_blocks_are_refused():
    with pytest.raises(RecordingError, match=r'time stamp 0\.99 s does not follow 0\.99 s'):
        list(read_parts(Unsorted()))


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


def test_steps_of_a_loop_without_a_fixed_period_skip_nothing():
    rng = np.random.default_rng(3)
    steps = 1e-3 * np.maximum(0.5, 1.0 + 0.2 * rng.standard_normal(20000))
    clock = clock_of([np.cumsum(steps)])
    assert clock.missing < 0.001 * clock.samples
    steps[::500] += 5e-3
    assert clock_of([np.cumsum(steps)]).missing == pytest.approx(5 * 40, rel=0.1)


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
    def stamps(count):
        return (np.arange(i * 1000, (i + 1) * 1000) * 1e-3 for i in range(count))

    peaks = []
    for count in (20, 400):
        tracemalloc.start()
        clock_of(stamps(count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 10_000


SECOND = 10**9
PERIOD = 1_000_000


def fed(stamps):
    statistics = StampStatistics()
    for stamp in stamps:
        statistics.add(stamp)
    return statistics


@settings(max_examples=100)
@given(
    count=st.integers(20, 600),
    missing=st.sets(st.integers(1, 18), max_size=6),
    start=st.integers(-(10**18), 10**18),
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
