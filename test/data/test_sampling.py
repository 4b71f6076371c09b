# SPDX-License-Identifier: Apache-2.0
"""Stamps, rates, gaps and the uniform grid."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.data.sampling import grid_blocks
from robot_identification.errors import RecordingError
from robot_identification.signals import sample_rate


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


def on_grid(recording, rate, block=16384, velocity=False):
    """Return (start, values) of each stretch."""
    stretches = {}
    recorded = sample_rate(recording)
    for part in grid_blocks(recording, rate, recorded, velocity=velocity, block=block):
        stretches.setdefault(part.stretch, (part.start, []))[1].append(part.values)
    return [(start, np.concatenate(values)) for start, values in stretches.values()]


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
    [(start, values)] = on_grid(recording, sample_rate(recording), block=300)
    assert start == recording.time[0]
    np.testing.assert_array_equal(values[:, 0], noise)
    np.testing.assert_array_equal(values[:, 1:], recording.effort)


def test_jittering_stamps_are_interpolated():
    rng = np.random.default_rng(2)
    stamps = (np.arange(5000) + 0.3 * rng.uniform(-1, 1, 5000)) / 1000.0
    stamps[0] = 0.0
    recording = record(stamps, np.sin(2 * np.pi * 5.0 * stamps))
    [(start, values)] = on_grid(recording, 1000.0)
    grid = start + np.arange(len(values)) / 1000.0
    # a straight line would be wrong by (2 pi 5)^2 / 8e6 = 1.2e-4
    np.testing.assert_allclose(values[:, 0], np.sin(2 * np.pi * 5.0 * grid), atol=5e-6)


def test_parabolas_are_met_across_missing_samples():
    time = np.delete(np.arange(1000) / 100.0, [300, 301, 500, 640, 641, 642])
    recording = record(time, 3.0 - 2.0 * time + 0.7 * time**2)
    [(_, values)] = on_grid(recording, 100.0)
    grid = np.arange(1000) / 100.0
    np.testing.assert_allclose(values[:, 0], 3.0 - 2.0 * grid + 0.7 * grid**2, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(block=st.integers(1, 900), seed=st.integers(0, 100))
def test_blocks_make_no_difference(block, seed):
    rng = np.random.default_rng(seed)
    steps = rng.choice(
        [0.5, 1.0, 1.001, 1.2, 3.0, 40.0], size=1500, p=[0.2, 0.4, 0.2, 0.1, 0.09, 0.01]
    )
    recording = record(np.cumsum(steps) / 100.0, rng.normal(size=1500))
    rate = 110.0
    whole, parts = on_grid(recording, rate), on_grid(recording, rate, block)
    assert len(whole) > 1
    assert len(whole) == len(parts)
    for (start, values), (start_of_parts, values_of_parts) in zip(whole, parts, strict=True):
        assert start == start_of_parts
        np.testing.assert_array_equal(values, values_of_parts)


def test_a_gap_starts_a_new_stretch():
    time = np.concatenate((np.arange(500), np.arange(506, 900), [902, 903])) / 100.0
    first, second = on_grid(record(time), 100.0)
    assert (first[0], len(first[1])) == (0.0, 500)
    assert (second[0], len(second[1])) == (5.06, 398)


@pytest.mark.parametrize('block', [50, 16384])
def test_a_gap_between_blocks_starts_a_new_stretch(block):
    time = np.concatenate((np.arange(100), 1000 + np.arange(100))) / 100.0
    assert [len(values) for _, values in on_grid(record(time), 100.0, block)] == [100, 100]


class Unsorted:
    joints = ('joint',)

    def blocks(self, size):
        yield record(np.arange(100) / 100.0)
        yield record(0.99 + np.arange(100) / 100.0)


def test_stamps_that_go_back_between_blocks_are_refused():
    with pytest.raises(RecordingError, match=r'time stamp 0\.99 s does not follow 0\.99 s'):
        list(grid_blocks(Unsorted(), 100.0, 100.0, velocity=False, block=64))


def test_missing_velocity_is_refused():
    with pytest.raises(RecordingError, match='no measured velocity.*signals.method'):
        on_grid(record(np.arange(100) / 100.0), 100.0, velocity=True)
