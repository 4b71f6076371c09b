# SPDX-License-Identifier: Apache-2.0
"""Smoothing in blocks is SciPy's filtering of the whole stretch."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.signals.butterworth import Butterworth, MARGIN, smooth
from robot_identification.signals.methods import LowPass, METHODS, window_products
from robot_identification.signals.settings import SignalSettings
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
    """Join the filtered rows and the others that `smooth` yields."""
    parts = list(smooth(cut(rows, sizes), n_smoothed, design))
    return (
        np.concatenate([filtered for filtered, _, _ in parts]),
        np.concatenate([others for _, _, others in parts]),
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
    np.testing.assert_allclose(got, expected[:, :2], rtol=0, atol=1e-10 * np.abs(rows).max())


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
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-14 * np.abs(rows).max())


@pytest.mark.parametrize('sizes', [[800], [5000], [1, 33, 700]])
def test_steps_are_those_of_the_filtered_rows(sizes):
    rows = walk(5000, 1)
    design = Butterworth.design(50.0, 4, 1000.0)
    parts = list(smooth(cut(rows, sizes), 1, design))
    steps = [step for _, step, _ in parts]
    for first, second in zip(steps[:-1], steps[1:], strict=True):
        np.testing.assert_array_equal(first[-2 * MARGIN + 1 :], second[: 2 * MARGIN - 1])
    inner = np.concatenate([step[MARGIN : 1 - MARGIN] for step in steps])
    filtered = np.concatenate([filtered for filtered, _, _ in parts])
    np.testing.assert_allclose(inner[:-1], np.diff(filtered, axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize('order', [1, 2, 4, 7, 10])
@pytest.mark.parametrize('cutoff', [2.0, 20.0, 250.0, 450.0])
def test_response_is_scipys(order, cutoff):
    frequency = np.geomspace(0.1, 490.0, 40)
    sections = signal.butter(order, cutoff, fs=1000.0, output='sos')
    _, expected = signal.sosfreqz(sections, frequency, fs=1000.0)
    got = Butterworth.design(cutoff, order, 1000.0).response(frequency, 1000.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)


def test_derivatives_at_a_high_rate_are_exact_to_eleven_digits():
    # 5 Hz at 5 kHz: rounding of a radian, differentiated twice, would be 1e-8 rad/s^2
    rate, speed = 5000.0, 2.0 * np.pi
    time = np.arange(40_000) / rate
    rows = 1.0 + np.column_stack([np.sin(speed * time), np.zeros_like(time)])
    method = LowPass.of(SignalSettings(cutoff=5.0), rate)
    position, velocity, acceleration, _ = np.concatenate(list(method.rows(cut(rows, [900]), 1))).T
    both = float(np.abs(method.design.response(np.array([1.0]), rate)[0]) ** 2)
    x = speed / rate  # responses of central differences, without differences of near numbers
    first = both * rate * (8.0 * np.sin(x) - np.sin(2.0 * x)) / 6.0
    second = both * rate**2 * (16.0 * np.sin(x / 2.0) ** 2 - np.sin(x) ** 2) / 3.0
    for got, expected in (
        (position - 1.0, both * np.sin(speed * time)),
        (velocity, first * np.cos(speed * time)),
        (acceleration, -second * np.sin(speed * time)),
    ):
        assert np.abs(got - expected)[12_000:-12_000].max() < 1e-11 * np.abs(expected).max()


@pytest.mark.parametrize('name', ['butterworth', 'savitzky_golay'])
def test_a_joint_at_rest_has_no_velocity(name):
    # what is left of its motion has a sign, which Coulomb friction would take
    moved = 2.0 + np.cos(np.linspace(0.0, np.pi, 2000))
    rows = np.column_stack([np.append(moved, np.full(6000, moved[-1])), np.zeros(8000)])
    method = METHODS[name](SignalSettings(method=name, cutoff=20.0), 1000.0)
    parts = method.samples(cut(rows, [900]), 0.0, ('joint_1',), trim=0.0, block=1000)
    velocity = np.concatenate([part.velocity[:, 0] for part in parts])
    assert (velocity[100:1900] < 0.0).all()
    assert (velocity[3000:] == 0.0).all()


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
