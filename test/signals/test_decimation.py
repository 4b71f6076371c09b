# SPDX-License-Identifier: Apache-2.0
"""
The parallel decimation is one linear filter, whatever the blocks and the columns.

Channel of recorded efforts: against its frequency response, whatever the blocks.

Recordings in memory: sines at a lower rate against their closed form.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.signals import (
    channel_kernel,
    EffortChannel,
    independence,
    ParallelDecimator,
)
from robot_identification.signals.decimation import thinned
from scipy.signal import firwin, freqz


def decimate(rows, factor, sizes=()):
    decimator = ParallelDecimator(factor)
    samples = rows.reshape(len(rows), -1).T
    parts, start = [], 0
    for size in (*sizes, len(rows)):
        parts.append(decimator.push(samples[:, start : start + size]))
        start += size
    parts.append(decimator.finish())
    return np.concatenate(parts, axis=1).T.reshape(-1, *rows.shape[1:])


def explicit(rows, factor):
    """Write the weighted means down one by one."""
    taps = firwin(24 * factor + 1, 0.8 / factor, window=('kaiser', 6))
    means = []
    for centre in range(0, len(rows), factor):
        at = centre - 12 * factor + np.arange(taps.size)
        inside = (at >= 0) & (at < len(rows))
        weights = taps[inside] / taps[inside].sum()
        means.append(np.tensordot(weights, rows[at[inside]], axes=1))
    return np.array(means)


@pytest.mark.parametrize('factor', [2, 3, 20, 100])
@pytest.mark.parametrize('n_rows', [1, 5, 99, 300, 2001])
def test_equals_explicit_convolution(factor, n_rows):
    rows = np.random.default_rng(1).normal(size=(n_rows, 2, 3))
    got = decimate(rows, factor)
    expected = explicit(rows, factor)
    assert got.shape == expected.shape == (-(-n_rows // factor), 2, 3)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13)


@settings(max_examples=40)
@given(
    factor=st.integers(1, 60),
    n_rows=st.integers(1, 1500),
    sizes=st.lists(st.integers(0, 700), max_size=8),
)
def test_blocks_make_no_difference(factor, n_rows, sizes):
    rows = np.random.default_rng(2).normal(size=(n_rows, 3))
    whole, parts = decimate(rows, factor), decimate(rows, factor, sizes)
    assert parts.shape == whole.shape
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-13)


def test_is_linear_and_the_same_for_every_column():
    rng = np.random.default_rng(3)
    columns, weights = rng.normal(size=(3000, 7)), rng.normal(size=7)
    np.testing.assert_allclose(
        decimate(columns, 10) @ weights,
        decimate((columns @ weights)[:, None], 10)[:, 0],
        atol=1e-12,
    )


@pytest.mark.parametrize('factor', [1, 2, 7, 100])
@pytest.mark.parametrize('n_rows', [1, 50, 3333])
def test_passes_a_constant_unchanged(factor, n_rows):
    np.testing.assert_allclose(decimate(np.full((n_rows, 1), 3.0), factor), 3.0, rtol=1e-14)


def test_passes_slow_and_stops_fast_oscillations_without_delay():
    factor, rate = 20, 1000.0
    time = np.arange(8000) / rate
    nyquist = 0.5 * rate / factor
    slow, fast = np.sin(2 * np.pi * 0.4 * nyquist * time), np.sin(2 * np.pi * 1.2 * nyquist * time)
    inside = slice(20, -20)
    np.testing.assert_allclose(
        decimate(slow[:, None], factor)[inside, 0], slow[::factor][inside], atol=2e-3
    )
    assert np.abs(decimate(fast[:, None], factor)[inside]).max() < 2e-3


def test_kernel_keeps_the_pass_band_and_stops_aliases():
    factor = 50
    taps = firwin(24 * factor + 1, 0.8 / factor, window=('kaiser', 6))
    frequency, gain = freqz(taps, worN=20000, fs=2.0 * factor)  # in new Nyquist frequencies
    assert np.abs(np.abs(gain[frequency < 0.6]) - 1.0).max() < 2e-3
    assert np.abs(gain[frequency > 1.0]).max() < 2e-3


def test_a_row_in_so_many_comes_out():
    decimator = ParallelDecimator(10)
    samples = np.zeros((1, 995))
    count = 0
    for start in range(0, 995, 100):
        count += decimator.push(samples[:, start : start + 100]).shape[1]
    count += decimator.finish().shape[1]
    assert count == 100


def test_nothing_comes_of_nothing():
    assert ParallelDecimator(5).finish().shape == (0, 0)
    decimator = ParallelDecimator(5)
    assert decimator.push(np.empty((2, 0))).shape == (2, 0)
    assert decimator.finish().shape == (2, 0)


def test_outputs_come_as_soon_as_their_window_is_full():
    decimator = ParallelDecimator(7)
    samples = np.random.default_rng(4).normal(size=(2, 400))
    for count, sample in enumerate(samples.T, 1):
        # output m reaches to sample (m + 12) 7
        assert decimator.push(sample[:, None]).shape[1] == (count > 84 and (count - 1) % 7 == 0)


def test_refuses_another_shape_and_a_factor_below_one():
    with pytest.raises(ValueError, match='factor'):
        ParallelDecimator(0)
    decimator = ParallelDecimator(2)
    decimator.push(np.zeros((2, 5)))
    with pytest.raises(ValueError, match='shape'):
        decimator.push(np.zeros((3, 5)))


@pytest.mark.parametrize(
    ('length', 'stride', 'rows'), [(8, 1, 1 / 8), (8, 4, 1 / 2), (8, 8, 1.0), (8, 30, 1.0)]
)
def test_means_that_overlap_are_less_independent(length, stride, rows):
    mean = np.full(length, 1 / length)
    assert independence(1, mean, stride) == pytest.approx(rows)


def test_a_filter_before_decimation_counts_where_it_is_the_narrower_one():
    assert independence(5, np.ones(1)) == pytest.approx(independence(5), rel=1e-3)
    assert independence(1, np.ones(1)) == 1.0
    narrow = firwin(801, 0.02)
    # variance and density both are those of the filter before
    assert independence(5, narrow) == pytest.approx(5 * np.sum(narrow**2), rel=1e-3)


RATE = 50.0


@pytest.mark.parametrize('delay', [0.0, 0.005, 0.013, 0.09])
@pytest.mark.parametrize('low_pass', [0.0, 8.0, 4.0, 1.0])
def test_kernel_has_the_response_of_the_equation(delay, low_pass):
    taps = channel_kernel(delay, low_pass, RATE)
    places = np.arange(taps.size) - taps.size // 2
    for frequency in (0.0, 0.5, 2.0, 8.0, 15.0, 19.0):
        found = taps @ np.exp(-2j * np.pi * frequency * places / RATE)
        wanted = np.exp(-2j * np.pi * frequency * delay)
        if low_pass:
            wanted /= 1.0 + (frequency / low_pass) ** 2
        assert abs(found - wanted) < 2e-3


def test_no_delay_and_no_filter_is_one_tap():
    np.testing.assert_array_equal(channel_kernel(0.0, 0.0, RATE), [1.0])


def _passed(signals, sizes):
    kernels = [channel_kernel(0.013, 4.0, RATE), np.ones(1), channel_kernel(0.09, 1.0, RATE)]
    channel = EffortChannel(kernels, np.array([0, 1, 2, 2, -1]))
    bounds = np.cumsum([0, *sizes])
    parts = [channel.push(signals[:, a:b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    return np.hstack([*parts, channel.finish()])


@pytest.mark.parametrize('sizes', [[400], [1] * 400, [7] * 57 + [1], [0, 3, 397], [120, 280]])
def test_outputs_do_not_depend_on_the_blocks(sizes):
    signals = np.random.default_rng(0).standard_normal((5, 400))
    found = _passed(signals, sizes)
    assert found.shape == signals.shape
    np.testing.assert_allclose(found, _passed(signals, [400]), atol=1e-13)
    # groups without a channel stay as they are, in step with the others
    np.testing.assert_array_equal(found[[1, 4]], signals[[1, 4]])


def test_a_sine_comes_out_late_and_smaller():
    time = np.arange(1000) / RATE
    signals = np.tile(np.sin(2 * np.pi * 2.0 * time), (5, 1))
    found = _passed(signals, [1000])[0, 200:-200]
    wanted = np.sin(2 * np.pi * 2.0 * (time - 0.013)) / (1.0 + (2.0 / 4.0) ** 2)
    np.testing.assert_allclose(found, wanted[200:-200], atol=2e-3)


def test_a_constant_stays_up_to_both_ends():
    np.testing.assert_allclose(_passed(np.full((5, 300), 3.0), [300]), 3.0, rtol=1e-12)


@pytest.mark.parametrize('delay', [0.02, 0.4])
def test_the_first_row_stands_for_those_before_the_stretch(delay):
    """A whole number of rows late, few or more than the kernel's reach."""
    signal = np.random.default_rng(1).standard_normal(60)
    channel = EffortChannel([channel_kernel(delay, 0.0, RATE)], np.array([0]))
    found = np.hstack([channel.push(signal[None]), channel.finish()])[0]
    late = round(delay * RATE)
    wanted = np.concatenate([np.full(late, signal[0]), signal[:-late]])
    np.testing.assert_allclose(found, wanted, atol=1e-13)


def signals(time):
    return np.sin(2.0 * np.pi * 5.0 * time)[:, None], np.cos(2.0 * np.pi * 8.0 * time)[:, None]


def recording(time):
    position, effort = signals(time)
    return Recording(time, position, effort, ('a',), 2.0 * position)


def test_thinned_recordings_have_the_same_signals_at_a_lower_rate():
    time = np.arange(0.0, 3.0, 1e-3)
    time = time[(time < 1.0) | (time > 1.5)]  # two stretches
    found = thinned(recording(time), 100.0, 600.0)
    assert np.median(np.diff(found.time)) == pytest.approx(0.01)
    assert np.diff(found.time).max() > 0.5
    position, effort = signals(found.time)
    np.testing.assert_allclose(found.position, position, atol=2e-3)
    np.testing.assert_allclose(found.velocity, 2.0 * position, atol=4e-3)
    np.testing.assert_allclose(found.effort, effort, atol=2e-3)


def test_slow_recordings_stay_as_they_are():
    whole = recording(np.arange(0.0, 3.0, 0.01))
    found = thinned(whole, 100.0, 600.0)
    np.testing.assert_array_equal(found.position, whole.position)
    assert thinned(whole.rows(0, 1), 100.0, 600.0).time.size == 1  # readers tell what is wrong
