# SPDX-License-Identifier: Apache-2.0
"""The parallel decimation is one linear filter, whatever the blocks and the columns."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.signals import independence, ParallelDecimator
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


@settings(deadline=None, max_examples=40)
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
