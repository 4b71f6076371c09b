# SPDX-License-Identifier: Apache-2.0
"""Smoothing in blocks is SciPy's filtering of the whole stretch."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.signals.methods import (
    Butterworth,
    MARGIN,
    smooth,
    window_products,
)
from scipy import signal


def walk(n_rows, n_columns, seed=0, start=40.0):
    rng = np.random.default_rng(seed)
    return start + np.cumsum(rng.normal(size=(n_rows, n_columns)), axis=0)


def cut(rows, sizes):
    """Cut rows into blocks of the sizes given, over and over."""
    blocks, start, turn = [], 0, 0
    while start < len(rows):
        size = sizes[turn % len(sizes)]
        blocks.append(rows[start : start + size])
        start, turn = start + size, turn + 1
    return iter(blocks)


def smoothed(rows, n_smoothed, design, sizes):
    """Join what `smooth` yields, without its margins."""
    pairs = list(smooth(cut(rows, sizes), n_smoothed, design))
    return (
        np.concatenate([filtered[MARGIN:-MARGIN] for filtered, _ in pairs]),
        np.concatenate([others for _, others in pairs]),
    )


@pytest.mark.parametrize('cutoff', [5.0, 25.0, 100.0])
@pytest.mark.parametrize('order', [1, 2, 4, 5])
def test_equals_scipy_on_the_whole_stretch(cutoff, order):
    rows = walk(6000, 3)
    design = Butterworth.design(cutoff, order, 1000.0)
    expected = signal.sosfiltfilt(
        signal.butter(order, cutoff, fs=1000.0, output='sos'), rows, axis=0, padlen=design.pad
    )
    got, others = smoothed(rows, 2, design, [700])
    np.testing.assert_array_equal(others, rows[:, 2:])
    np.testing.assert_allclose(
        np.asarray(got, dtype=float), expected[:, :2], rtol=0, atol=1e-10 * np.abs(rows).max()
    )


def test_default_padding_of_scipy_differs_at_the_ends_only():
    rows = walk(4000, 1)
    design = Butterworth.design(25.0, 4, 1000.0)
    expected = signal.sosfiltfilt(signal.butter(4, 25.0, fs=1000.0, output='sos'), rows, axis=0)
    difference = np.abs(smoothed(rows, 1, design, [4000])[0] - expected)
    inside = slice(design.halo, -design.halo)
    assert difference[inside].max() < 1e-10 * np.abs(rows).max()


@settings(deadline=None, max_examples=12)
@given(
    n_rows=st.integers(200, 9000),
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=5),
    cutoff=st.sampled_from([20.0, 60.0, 200.0]),
)
def test_blocks_make_no_difference(n_rows, sizes, cutoff):
    rows = walk(n_rows, 2, seed=n_rows)
    design = Butterworth.design(cutoff, 4, 1000.0)
    whole, _ = smoothed(rows, 1, design, [n_rows])
    parts, others = smoothed(rows, 1, design, sizes)
    assert parts.shape == whole.shape == (n_rows, 1)
    np.testing.assert_array_equal(others, rows[:, 1:])
    np.testing.assert_allclose(
        np.asarray(parts - whole, dtype=float), 0.0, atol=1e-14 * np.abs(rows).max()
    )


def test_margins_join_the_blocks():
    rows = walk(5000, 1)
    design = Butterworth.design(50.0, 4, 1000.0)
    pairs = [filtered for filtered, _ in smooth(cut(rows, [800]), 1, design)]
    assert len(pairs) > 2
    for first, second in zip(pairs[:-1], pairs[1:], strict=True):
        np.testing.assert_array_equal(first[-2 * MARGIN :], second[: 2 * MARGIN])


def test_a_stretch_that_is_too_short_gives_nothing():
    design = Butterworth.design(25.0, 4, 1000.0)
    assert list(smooth(cut(walk(design.shortest - 1, 1), [10]), 1, design)) == []
    assert len(smoothed(walk(design.shortest, 1), 1, design, [10])[0]) == design.shortest


@settings(deadline=None, max_examples=10)
@given(n_rows=st.integers(30, 2000), sizes=st.lists(st.integers(1, 900), min_size=1, max_size=4))
def test_window_products_equal_savitzky_golay(n_rows, sizes):
    rows = walk(n_rows, 2, seed=n_rows)
    kernels = np.array(
        [signal.savgol_coeffs(21, 4, deriv, delta=0.01, use='dot') for deriv in range(3)]
    )
    pairs = list(window_products(cut(rows, sizes), 1, kernels))
    for deriv in range(3):
        got = np.concatenate([products[deriv] for products, _ in pairs])
        assert got.shape == (n_rows, 1)
        extended = np.concatenate(
            (2 * rows[0] - rows[10:0:-1], rows, 2 * rows[-1] - rows[-2:-12:-1])
        )
        expected = signal.savgol_filter(extended, 21, 4, deriv, delta=0.01, axis=0)[10:-10, :1]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_array_equal(np.concatenate([o for _, o in pairs]), rows[:, 1:])
