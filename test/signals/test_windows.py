# SPDX-License-Identifier: Apache-2.0
"""
The method polynomial_approximation: alignment, trim, holds, and the online filter.

The live motion against parabolas, sines and its own noise.
"""

from __future__ import annotations

import warnings

from hypothesis import given, settings, strategies
import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.errors import (
    IdentificationWarning,
    RecordingError,
    SettingsError,
)
from robot_identification.options.fields import from_mapping
from robot_identification.signals import (
    process,
    SignalSettings,
    stretches,
)
from robot_identification.signals.polynomial_approximation import apply, PolynomialOperator
from robot_identification.signals.settings import PolynomialApproximation
from robot_identification.signals.windows import LocalFit, OnlineFilter

RATE = 250.0


def signals(trim=0.0, **parameters):
    return SignalSettings(
        method='polynomial_approximation',
        trim=trim,
        polynomial_approximation=PolynomialApproximation(**parameters),
    )


def random_recording(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    time = np.arange(n_rows) / RATE
    position = np.cumsum(rng.normal(size=(n_rows, 2)), axis=0) / RATE
    return Recording(time, position, rng.normal(size=(n_rows, 2)), ('a', 'b'))


def oscillation(frequency=1.0, duration=8.0):
    """Record a sine as position of one joint, and as its effort the acceleration."""
    time = np.arange(round(duration * RATE)) / RATE
    omega = 2 * np.pi * frequency
    position = np.sin(omega * time)[:, None]
    return Recording(time, position, -(omega**2) * position, ('a',)), omega


def test_all_signals_belong_to_the_moment_of_the_stamp():
    recording, omega = oscillation()
    samples = process(recording, signals())
    t = samples.time
    # the approximation's error is (omega T)^3 times less than 0.002 of each
    for name, wanted in (
        ('position', np.sin(omega * t)),
        ('velocity', omega * np.cos(omega * t)),
        ('acceleration', -(omega**2) * np.sin(omega * t)),
        ('effort', -(omega**2) * np.sin(omega * t)),
        ('measured_effort', -(omega**2) * np.sin(omega * t)),
    ):
        found = getattr(samples, name)[:, 0]
        np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())
    np.testing.assert_allclose(np.diff(t), 1 / RATE)


def test_effort_and_acceleration_are_filtered_by_one_operator():
    recording, _ = oscillation(frequency=8.0)
    samples = process(recording, signals(degree=0, window=0.08))
    # both are off by much at this frequency, and equally
    difference = samples.acceleration - samples.effort
    assert np.abs(difference).max() < 1e-4 * np.abs(samples.effort).max()
    error = np.abs(samples.effort - samples.measured_effort).max()
    assert error > 0.1 * np.abs(samples.effort).max()


def test_the_motion_beside_the_windows_has_no_phase_shift():
    recording, omega = oscillation(frequency=2.0)
    (samples,) = stretches(recording, signals(window=0.05, stride=3))
    operator = samples.operator
    count = (len(samples) - 1) * 3 + operator.taps
    first = samples.time[0] + operator.instant - (operator.taps - 1) / RATE
    t = first + np.arange(count) / RATE
    np.testing.assert_allclose(samples.raw.position[:, 0], np.sin(omega * t), atol=1e-12)
    velocity, acceleration = omega * np.cos(omega * t), -(omega**2) * np.sin(omega * t)
    gain = samples.raw.velocity[:, 0] @ velocity / (velocity @ velocity)
    # of the fourth order in the window, and no more than a gain
    assert gain == pytest.approx(1.0, abs=2e-3)
    np.testing.assert_allclose(samples.raw.velocity[:, 0], gain * velocity, atol=1e-4 * omega)
    acceleration *= gain
    np.testing.assert_allclose(samples.raw.acceleration[:, 0], acceleration, atol=3e-4 * omega**2)


@pytest.mark.parametrize('stride', [1, 7, 30])
def test_rows_of_windows_have_their_samples(stride):
    (whole,) = stretches(random_recording(400), signals(window=0.05, stride=stride))
    cut = whole.rows(1, 3)
    assert len(cut) == 2
    assert len(cut.raw) == stride + cut.operator.taps
    np.testing.assert_array_equal(cut.raw.position[0], whole.raw.position[stride])


@pytest.mark.parametrize('stride', [1, 4])
def test_windows_reach_as_far_as_the_recording(stride):
    recording = random_recording(200)
    samples = process(recording, signals(stride=stride))
    taps, margin = 12, 9  # the window, and half of the longer one without phase shift
    assert len(samples) == (200 - 2 * margin - taps) // stride + 1
    assert samples.time[0] == pytest.approx((margin + taps - 1) / RATE - 0.044 / 3)


@pytest.mark.parametrize('trim', [0.0, 0.02, 0.05, 0.2])
def test_trim_cuts_both_ends(trim):
    samples = process(random_recording(500), signals(trim=trim))
    assert samples.time[0] >= trim - 1e-9
    assert samples.time[-1] <= 499 / RATE - trim + 1e-9
    if trim == 0.2:
        assert samples.time[0] < trim + 1 / RATE
        assert samples.time[-1] > 499 / RATE - trim - 1 / RATE


def test_gaps_part_the_windows():
    recording = random_recording(600)
    keep = np.r_[0:250, 270:290, 300:600]
    cut = Recording(
        recording.time[keep], recording.position[keep], recording.effort[keep], recording.joints
    )
    with pytest.warns(IdentificationWarning, match='left out'):
        first, last = stretches(cut, signals())
    alone = process(recording.rows(300, None), signals())
    np.testing.assert_allclose(last.acceleration, alone.acceleration, rtol=1e-9, atol=1e-9)
    assert first.time[-1] < 250 / RATE
    with pytest.raises(RecordingError, match=r'polynomial_approximation\.window'):
        process(recording.rows(0, 23), signals())


def test_a_held_effort_is_filtered_as_what_the_robot_felt():
    recording, _ = oscillation(frequency=1.0)
    held = process(recording, signals(effort_hold=True))
    continuous = process(recording, signals())
    # the hold delays by half a period on the mean
    shift = np.interp(held.time - 0.5 / RATE, continuous.time, continuous.effort[:, 0])
    inside = slice(5, -5)
    scale = np.abs(shift).max()
    np.testing.assert_allclose(held.effort[inside, 0], shift[inside], atol=2e-4 * scale)
    place = (held.time * RATE + 1e-6).astype(int)
    np.testing.assert_array_equal(held.measured_effort, recording.effort[place])


@pytest.mark.parametrize('hold', [False, True])
@pytest.mark.parametrize('parameters', [{}, {'window': 0.05, 'degree': 2, 'alpha': 2.0}])
def test_online_gives_what_offline_gives(parameters, hold):
    recording = random_recording(300)
    samples = process(recording, signals(effort_hold=hold, **parameters))
    operator = PolynomialApproximation(**parameters).operator(RATE)
    extra = np.sign(recording.position)
    online = OnlineFilter(operator, 2, 2, effort_hold=hold)
    states = []
    rows = zip(recording.position, recording.effort, extra, strict=True)
    for i, (position, effort, more) in enumerate(rows):
        state = online.push(position, effort, more)
        assert (state is None) == (i < operator.taps - 1) == (not online.ready)
        if state is not None:
            states.append((i / RATE - online.delay, state))
    # offline keeps a margin at both ends
    skip = int(np.argmin([abs(t - samples.time[0]) for t, _ in states]))
    part = states[skip : skip + len(samples)]
    np.testing.assert_allclose([t for t, _ in part], samples.time, atol=1e-12)
    for name in ('position', 'velocity', 'acceleration', 'effort'):
        wanted = getattr(samples, name)
        found = np.array([getattr(state, name) for _, state in part])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    found = [state.extra for _, state in states]
    np.testing.assert_allclose(found, apply(operator.value(), extra), rtol=0, atol=1e-12)


def test_online_starts_anew_after_a_gap():
    operator = PolynomialOperator(0.044, 1 / RATE)
    rng = np.random.default_rng(0)
    online = OnlineFilter(operator, 1)
    for x in rng.normal(size=(30, 1)):
        online.push(x)
    online.reset()
    states = [online.push(x) for x in np.full((12, 1), 1e3)]
    assert states[:-1] == [None] * 11
    assert states[-1].position[0] == pytest.approx(1e3, rel=1e-14)
    assert states[-1].acceleration[0] == 0.0


@pytest.mark.parametrize(
    ('key', 'value', 'says'),
    [
        ('alpha', 1.9, 'acceleration'),
        ('beta', 0.0, 'acceleration'),
        ('window', 0.0, 'allowed'),
        ('degree', -1, 'allowed'),
        ('delay', 0.05, 'window'),
        ('product_degree', 2.5, 'whole number'),
        ('projection', 'product', 'one of'),
        ('stride', 0, 'allowed'),
    ],
)
def test_settings_that_make_no_sense_are_refused(key, value, says):
    with pytest.raises(SettingsError, match=says) as error:
        from_mapping(SignalSettings, {'polynomial_approximation': {key: value}}, 'signals')
    assert error.value.key == f'signals.polynomial_approximation.{key}'


def test_a_window_too_short_for_the_rate_is_refused():
    with pytest.raises(SettingsError, match=r'0\.02 s or more at 250 Hz') as error:
        process(random_recording(300), signals(window=0.019))
    assert error.value.key == 'signals.polynomial_approximation.window'


def test_a_delay_that_loses_an_order_is_told():
    with pytest.warns(IdentificationWarning, match=r'0\.0146667, 0\.0293333'):
        process(random_recording(300), signals(delay=0.02))
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        process(random_recording(300), signals(delay=0.0147 - 3.3e-5))
        process(random_recording(300), signals(delay=0.0293333))


def test_the_cut_off_frequency_of_other_methods_plays_no_part():
    recording = random_recording(300)
    slow = Recording(recording.time * 10.0, recording.position, recording.effort, recording.joints)
    process(slow, signals(window=0.4))


numbers = strategies.floats(-10.0, 10.0)


@settings(max_examples=20)
@given(a=numbers, b=numbers, c=numbers, seed=strategies.integers(0, 2**32 - 1))
def test_a_parabola_is_found_exactly_from_uneven_samples(a, b, c, seed):
    random = np.random.default_rng(seed)
    stamps = np.cumsum(random.integers(500_000, 1_500_000, 200)) + 10**18
    fit = LocalFit(0.05)
    for stamp in stamps.tolist():
        t = 1e-9 * (stamp - 10**18)
        position = np.array([a + b * t + 0.5 * c * t**2, -t])
        fit.push(stamp, position, 3.0 * position)
    state = fit.state()
    assert state.stamp == stamps[-1] - 25_000_000
    t = 1e-9 * (state.stamp - 10**18)
    expected = a + b * t + 0.5 * c * t**2
    assert state.position == pytest.approx([expected, -t], abs=1e-9)
    assert state.velocity == pytest.approx([b + c * t, -1.0], abs=1e-8)
    assert state.acceleration == pytest.approx([c, 0.0], abs=2e-6)
    assert state.effort == pytest.approx(3.0 * state.position, abs=1e-9)


def test_all_four_belong_to_one_moment():
    # a sine of 1 Hz at 1 kHz: amplitudes are kept to 0.2 %, and there is no phase shift
    omega, fit = 2.0 * np.pi, LocalFit(0.04)
    for i in range(500):
        t = 1e-3 * i
        fit.push(1_000_000 * i, np.sin([omega * t]), np.cos([omega * t]))
    state = fit.state()
    t = 1e-9 * state.stamp
    assert t == pytest.approx(0.499 - 0.02)
    assert state.position[0] == pytest.approx(np.sin(omega * t), abs=1e-5)
    assert state.effort[0] == pytest.approx(np.cos(omega * t), abs=1e-5)
    assert state.velocity[0] / omega == pytest.approx(np.cos(omega * t), abs=2e-3)
    assert state.acceleration[0] / omega**2 == pytest.approx(-np.sin(omega * t), abs=2e-3)


def test_it_waits_for_a_full_window():
    fit = LocalFit(0.01)
    for i in range(10):
        fit.push(i * 10**6, np.zeros(1))
        assert fit.state() is None
    fit.push(11 * 10**6, np.zeros(1))
    assert fit.state() is not None
    assert fit.state().effort is None


def test_too_slow_a_stream_has_no_motion():
    fit = LocalFit(0.01)
    for i in range(20):
        fit.push(i * 4_000_000, np.zeros(1))
    assert fit.state() is None


def test_a_stamp_that_goes_back_starts_anew():
    fit = LocalFit(0.01)
    for i in range(20):
        fit.push(i * 10**6, np.ones(1))
    fit.push(0, np.zeros(1))
    assert fit.state() is None
    for i in range(1, 20):
        fit.push(i * 10**6, np.zeros(1))
    assert fit.state().position == pytest.approx([0.0])


def test_no_parabola_reaches_over_a_gap():
    fit = LocalFit(0.01)
    for i in (*range(20), *range(100, 120)):
        fit.push(i * 10**6, np.array([1.0 if i < 100 else (1e-3 * i) ** 2]))
        state = fit.state()
        if i < 11 or 100 <= i < 111:
            assert state is None
        elif i > 100:
            assert state.acceleration[0] == pytest.approx(2.0, abs=1e-4)
