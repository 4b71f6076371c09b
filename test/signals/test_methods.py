# SPDX-License-Identifier: Apache-2.0
"""Filters and their derivatives against closed forms: sines, cubics, a joint at rest."""

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.signals.methods import LowPass, METHODS
from robot_identification.signals.settings import SignalSettings
from scipy import signal


def walk(n_rows, seed=0, start=40.0):
    return start + np.cumsum(np.random.default_rng(seed).normal(size=n_rows))


def recorded(position, rate, velocity=None):
    time = np.arange(len(position)) / rate
    columns = (x if x is None else x[:, None] for x in (position, position, velocity))
    position, effort, velocity = columns
    return Recording(time, position, effort, ('joint',), velocity)


def low_pass(rate, **options):
    return LowPass.from_settings(SignalSettings(**options), rate)


@pytest.mark.parametrize('cutoff', [5.0, 25.0, 100.0])
@pytest.mark.parametrize('order', [1, 2, 4, 5])
def test_derivatives_are_the_differences_of_the_filtered_position(cutoff, order):
    rows = walk(6000)
    method = low_pass(1000.0, cutoff=cutoff, order=order)
    position, velocity, acceleration = method.motion(rows, None)
    sections = signal.butter(order, cutoff, fs=1000.0, output='sos')
    np.testing.assert_allclose(
        position, signal.sosfiltfilt(sections, rows, padlen=round(2000 / cutoff)), atol=1e-9
    )
    first = 1e3 * signal.correlate(position, np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / 12.0, 'valid')
    second = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / 12.0
    second = 1e6 * signal.correlate(position, second, 'valid')
    inside = slice(2500, -2500)  # where no state at the ends is left
    for found, wanted in ((velocity[2:-2], first), (acceleration[2:-2], second)):
        size = np.abs(wanted[inside]).max()
        np.testing.assert_allclose(found[inside], wanted[inside], rtol=0, atol=1e-7 * size)


def test_derivatives_at_a_high_rate_are_exact_to_eleven_digits():
    # 5 Hz at 5 kHz: rounding of a radian, differentiated twice, would be 1e-8 rad/s^2
    rate, speed = 5000.0, 2.0 * np.pi
    time = np.arange(40_000) / rate
    method = low_pass(rate, cutoff=5.0)
    position, velocity, acceleration = method.motion(1.0 + np.sin(speed * time), None)
    warped = np.tan(np.pi * 1.0 / rate) / np.tan(np.pi * 5.0 / rate)
    both = 1.0 / (1.0 + warped**8)
    x = speed / rate  # responses of central differences, without differences of near numbers
    first = both * rate * (8.0 * np.sin(x) - np.sin(2.0 * x)) / 6.0
    second = both * rate**2 * (16.0 * np.sin(x / 2.0) ** 2 - np.sin(x) ** 2) / 3.0
    for got, expected in (
        (position - 1.0, both * np.sin(speed * time)),
        (velocity, first * np.cos(speed * time)),
        (acceleration, -second * np.sin(speed * time)),
    ):
        assert np.abs(got - expected)[12_000:-12_000].max() < 1e-11 * np.abs(expected).max()


@pytest.mark.parametrize('name', ['butterworth', 'measured_velocity', 'savitzky_golay'])
def test_a_cubic_comes_out_as_it_is(name):
    """Its differences of fourth order, and a symmetric filter of it, are exact but for a shift."""
    rate = 500.0
    t = np.arange(4000) / rate - 4.0
    position, velocity, acceleration = t**3 - 5.0 * t, 3.0 * t**2 - 5.0, 6.0 * t
    method = METHODS[name](SignalSettings(method=name, cutoff=20.0), rate)
    samples = method.samples(recorded(position, rate, velocity), 1.5)
    inside = slice(750, -750)
    np.testing.assert_allclose(samples.acceleration[:, 0], acceleration[inside], atol=1e-6)
    # a low-pass adds a multiple of the second derivative, which is constant for the velocity
    shift = samples.velocity[:, 0] - velocity[inside]
    np.testing.assert_allclose(shift, shift.mean(), atol=1e-8)
    assert np.abs(shift).max() < 1e-4
    np.testing.assert_allclose(samples.position[:, 0], position[inside], atol=1e-4)


@pytest.mark.parametrize('name', ['butterworth', 'measured_velocity', 'savitzky_golay'])
def test_a_motion_that_is_odd_about_its_ends_is_known_up_to_them(name):
    """Sines that pass zero at both ends: their odd extension is the sine itself."""
    rate, omega = 1000.0, 2.0 * np.pi
    time = np.arange(4001) / rate
    sine, cosine = np.sin(omega * time), np.cos(omega * time)
    # a measured velocity is odd where the acceleration does not vanish
    position, velocity = (1.0 - cosine) / omega, sine
    if name != 'measured_velocity':
        position, velocity = sine / omega, cosine
    method = METHODS[name](SignalSettings(method=name, cutoff=40.0), rate)
    samples = method.samples(recorded(position, rate, velocity), 0.0)
    acceleration = omega * (cosine if name == 'measured_velocity' else -sine)
    np.testing.assert_allclose(samples.velocity[:, 0], velocity, atol=2e-4)
    np.testing.assert_allclose(samples.acceleration[:, 0], acceleration, atol=2e-4 * omega)


@pytest.mark.parametrize('name', ['butterworth', 'savitzky_golay'])
def test_signals_are_smoothed_as_positions(name):
    method = METHODS[name](SignalSettings(method=name, cutoff=10.0), 500.0)
    signals = np.random.default_rng(0).normal(size=(400, 3)) + [0.0, 5.0, -2.0]
    expected = [method.motion(each, None)[0] for each in signals.T]
    np.testing.assert_array_equal(method.smoothed(signals).T, expected)


@pytest.mark.parametrize('order', [1, 2, 4, 7, 10])
@pytest.mark.parametrize('cutoff', [2.0, 20.0, 250.0, 450.0])
def test_the_response_is_that_of_two_passes(order, cutoff):
    frequency = np.geomspace(0.1, 490.0, 40)
    warped = np.tan(np.pi * frequency / 1000.0) / np.tan(np.pi * cutoff / 1000.0)
    expected = 1.0 / (1.0 + warped ** (2 * order))
    got = low_pass(1000.0, cutoff=cutoff, order=order).response(frequency)[0]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize('name', ['butterworth', 'savitzky_golay'])
def test_a_joint_at_rest_has_no_velocity(name):
    # what is left of its motion has a sign, which Coulomb friction would take
    moved = 2.0 + np.cos(np.linspace(0.0, np.pi, 2000))
    rows = np.append(moved, np.full(6000, moved[-1]))
    method = METHODS[name](SignalSettings(method=name, cutoff=20.0), 1000.0)
    velocity = method.samples(recorded(rows, 1000.0), 0.0).velocity[:, 0]
    assert (velocity[100:1900] < 0.0).all()
    assert (velocity[3000:] == 0.0).all()


def test_the_shortest_stretch_is_filtered():
    method = low_pass(1000.0, cutoff=25.0)
    assert method.needed(0.0) == method.shortest == 81
    assert len(method.samples(recorded(walk(81), 1000.0), 0.0)) == 81


def test_savitzky_golay_is_scipys():
    rows = walk(900)
    method = METHODS['savitzky_golay'](SignalSettings(method='savitzky_golay'), 100.0)
    size = method.kernels.shape[1]
    for deriv, found in enumerate(method.motion(rows, None)):
        expected = signal.savgol_filter(rows, size, 4, deriv, delta=0.01)
        inside = slice(size, -size)
        np.testing.assert_allclose(
            found[inside], expected[inside], rtol=0, atol=1e-9 * np.abs(expected).max()
        )
