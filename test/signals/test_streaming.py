# SPDX-License-Identifier: Apache-2.0
"""
Samples: cut-off, alignment, parts, gaps, trim, memory, and what is refused.

Frequency responses, held against what the methods make of recorded sines and noise.
"""

from dataclasses import replace
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.errors import (
    IdentificationWarning,
    RecordingError,
    SettingsError,
)
from robot_identification.signals import (
    process,
    SignalSettings,
    stretches,
)
from robot_identification.signals.responses import decimated_nyquist, frequency_response, SIGNALS
from robot_identification.signals.settings import METHODS, PolynomialApproximation

FIELDS = ('time', 'position', 'velocity', 'acceleration', 'effort')


def sine(frequency, rate=1000.0, duration=8.0, start=0.0):
    """Record a sine as position and effort, and its derivative as velocity."""
    time = start + np.arange(round(duration * rate)) / rate
    omega = 2 * np.pi * frequency
    position = np.column_stack((np.sin(omega * time), 2.0 * np.cos(omega * time)))
    velocity = omega * np.column_stack((np.cos(omega * time), -2.0 * np.sin(omega * time)))
    return Recording(time, position, position.copy(), ('a', 'b'), velocity, source='run.csv')


def response(samples, name, frequency, rate=1000.0):
    """Gain and delay (in samples) of a sine in the first joint's signal, by least squares."""
    inside = slice(2000, -2000)
    time = samples.time[inside]
    phase = 2 * np.pi * frequency * time
    basis = np.column_stack((np.sin(phase), np.cos(phase), np.ones_like(phase)))
    s, c, _ = np.linalg.lstsq(basis, getattr(samples, name)[inside, 0], rcond=None)[0]
    return np.hypot(s, c), -np.arctan2(c, s) / (2 * np.pi * frequency) * rate


@pytest.mark.parametrize('cutoff', [5.0, 25.0, 80.0])
@pytest.mark.parametrize('order', [2, 4])
def test_each_of_the_two_passes_has_3_db_at_the_cut_off(cutoff, order):
    samples = process(sine(cutoff), SignalSettings(cutoff=cutoff, order=order))
    gain, delay = response(samples, 'position', cutoff)
    assert gain == pytest.approx(0.5, rel=1e-6)  # 1/sqrt(2) twice
    assert abs(delay) < 1e-6


def test_gain_is_that_of_butterworth_away_from_the_cut_off():
    for frequency in (10.0, 20.0, 40.0):
        samples = process(sine(frequency), SignalSettings(cutoff=25.0, order=4))
        warped = np.tan(np.pi * frequency / 1000.0) / np.tan(np.pi * 25.0 / 1000.0)
        assert response(samples, 'position', frequency)[0] == pytest.approx(
            1.0 / (1.0 + warped**8), rel=1e-6
        )


def test_savitzky_golay_has_3_db_near_the_cut_off():
    for cutoff in (10.0, 25.0, 60.0):
        samples = process(sine(cutoff), SignalSettings(method='savitzky_golay', cutoff=cutoff))
        gain, delay = response(samples, 'position', cutoff)
        assert gain == pytest.approx(np.sqrt(0.5), abs=0.04)
        assert abs(delay) < 1e-6


@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize('frequency', [0.5, 2.0])
def test_position_velocity_acceleration_and_effort_belong_to_one_instant(method, frequency):
    window = PolynomialApproximation(window=0.03)
    settings_ = SignalSettings(method=method, cutoff=25.0, polynomial_approximation=window)
    samples = process(sine(frequency), settings_)
    omega = 2 * np.pi * frequency
    quarter = 1000.0 / frequency / 4.0
    for name, amplitude, lead in (
        ('position', 1.0, 0.0),
        ('velocity', omega, quarter),
        ('acceleration', omega**2, 2 * quarter),
        ('effort', 1.0, 0.0),
    ):
        gain, delay = response(samples, name, frequency)
        assert gain == pytest.approx(amplitude, rel=2e-4)
        period = 4 * quarter
        late = (delay + lead + period / 2) % period - period / 2
        assert abs(late) < 0.01, f'{name} is late by {late} samples'


def test_differences_attenuate_next_to_nothing():
    frequency = 50.0
    omega = 2 * np.pi * frequency
    samples = process(sine(frequency), SignalSettings(cutoff=300.0))
    position, _ = response(samples, 'position', frequency)
    velocity, _ = response(samples, 'velocity', frequency)
    acceleration, _ = response(samples, 'acceleration', frequency)
    # of fourth order: (omega T)^4 / 30 and / 90; of second order it would be (omega T)^2 / 6
    assert velocity / position / omega == pytest.approx(1 - (omega / 1000.0) ** 4 / 30, abs=1e-5)
    assert acceleration / position / omega**2 == pytest.approx(
        1 - (omega / 1000.0) ** 4 / 90, abs=1e-5
    )


@pytest.mark.parametrize('method', METHODS)
def test_alignment_holds_at_the_trimmed_ends(method):
    recording = sine(1.0)
    settings_ = SignalSettings(method=method, cutoff=50.0, trim=0.1)
    samples = process(recording, settings_)
    omega = 2 * np.pi
    expected = -(omega**2) * np.sin(omega * samples.time)
    # a shift by a hundredth of a sample would show as omega^3 1e-5 = 2.5e-3
    np.testing.assert_allclose(samples.acceleration[:, 0], expected, atol=0.02 * omega**2)
    np.testing.assert_allclose(samples.position[:, 0], np.sin(omega * samples.time), atol=1e-3)


def noisy(n_rows, rate=1000.0, seed=0):
    rng = np.random.default_rng(seed)
    time = np.arange(n_rows) / rate
    position = np.cumsum(np.cumsum(rng.normal(size=(n_rows, 2)), axis=0), axis=0) / rate
    return Recording(time, position, rng.normal(size=(n_rows, 2)), ('a', 'b'), position)


@settings(max_examples=12)
@given(first=st.integers(300, 900), second=st.integers(300, 900), method=st.sampled_from(METHODS))
def test_parts_are_recordings_that_a_gap_joins(first, second, method):
    """A part's limit in the middle of a recording does what a gap does, and nothing else."""
    recording = noisy(first + second)
    options = SignalSettings(method=method, cutoff=40.0)
    time = recording.time + 1.0 * (np.arange(len(recording)) >= first)
    gapped = list(stretches(replace(recording, time=time), options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('robot_identification.data.parts.PART_POSITIONS', 2 * first)
        patch.setattr('robot_identification.data.parts._SHORTEST_PART', 0.0)
        parted = list(stretches(recording.rows(0, min(first + second, 2 * first)), options))
        left = recording.rows(2 * first, None)
    assert len(parted) == len(gapped) == 2
    for name in FIELDS[1:]:
        np.testing.assert_allclose(
            getattr(parted[0], name), getattr(gapped[0], name), rtol=1e-12, atol=1e-12
        )
    if not len(left):
        np.testing.assert_allclose(
            parted[1].acceleration, gapped[1].acceleration, rtol=1e-9, atol=1e-6
        )


def test_effort_is_not_filtered_and_stays_in_step():
    recording = noisy(3000)
    samples = process(recording, SignalSettings(trim=0.1))
    np.testing.assert_array_equal(samples.effort, recording.effort[100:-100])
    np.testing.assert_array_equal(samples.measured_effort, samples.effort)
    np.testing.assert_allclose(samples.time, recording.time[100:-100], rtol=0, atol=1e-12)


@pytest.mark.parametrize('trim', [0.0, 0.001, 0.05, 1.0])
def test_trim_cuts_both_ends(trim):
    samples = process(noisy(3000), SignalSettings(trim=trim))
    cut = round(1000 * trim)
    assert len(samples) == 3000 - 2 * cut
    assert samples.time[0] == pytest.approx(trim)


def test_a_gap_splits_the_recording_and_short_pieces_are_left_out():
    recording = noisy(4000)
    keep = np.r_[0:1500, 1600:1650, 1800:4000]
    cut = Recording(
        recording.time[keep], recording.position[keep], recording.effort[keep], ('a', 'b')
    )
    with pytest.warns(IdentificationWarning, match=r'0\.05 s from 1\.6 s on'):
        pieces = list(stretches(cut, SignalSettings(trim=0.1)))
    assert list(map(len, pieces)) == [1300, 2000]
    assert [piece.time[0] for piece in pieces] == pytest.approx([0.1, 1.9])
    with pytest.warns(IdentificationWarning):
        assert len(process(cut, SignalSettings(trim=0.1))) == 3300


def test_samples_of_a_piece_do_not_depend_on_the_others():
    recording = noisy(4000)
    keep = np.r_[0:1500, 1600:4000]
    cut = Recording(
        recording.time[keep], recording.position[keep], recording.effort[keep], ('a', 'b')
    )
    alone = process(recording.rows(1600, None), SignalSettings())
    both = process(cut, SignalSettings())
    np.testing.assert_allclose(both.acceleration[-len(alone) :], alone.acceleration, rtol=1e-12)


def test_resampling_to_a_higher_rate():
    samples = process(sine(2.0, rate=500.0), SignalSettings(sample_rate=1000.0))
    assert np.diff(samples.time) == pytest.approx(0.001)
    np.testing.assert_allclose(
        samples.velocity[500:-500, 0],
        4 * np.pi * np.cos(4 * np.pi * samples.time[500:-500]),
        atol=0.01,
    )


class Endless:
    """A recording that is made while it is read."""

    joints = ('a', 'b')

    def __init__(self, n_rows):
        self.n_rows = n_rows

    def blocks(self, size):
        for start in range(0, self.n_rows, 1000):
            time = np.arange(start, min(start + 1000, self.n_rows)) / 1000.0
            signal = np.column_stack((np.sin(time), np.cos(time)))
            yield Recording(time, signal, signal.copy(), self.joints)


@pytest.mark.parametrize('method', ['butterworth', 'savitzky_golay'])
def test_memory_does_not_grow_with_the_parts_of_a_recording(method, monkeypatch):
    monkeypatch.setattr('robot_identification.data.parts.PART_POSITIONS', 20_000)

    def peak(n_rows):
        tracemalloc.start()
        for _ in stretches(Endless(n_rows), SignalSettings(method=method)):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(25_000)
    assert peak(200_000) < 1.1 * peak(40_000)


def refused(kind, recording, **options):
    with pytest.raises(kind) as error:
        process(recording, SignalSettings(**options))
    assert '\n' not in str(error.value)
    return error.value


def test_too_short_a_recording_names_the_file_and_the_length_needed():
    error = refused(RecordingError, sine(1.0, duration=0.06))
    assert error.file == 'run.csv'
    assert 'run.csv' in str(error)
    assert '0.06 s' in str(error)
    assert '0.121 s' in str(error)  # two trims of 1.5 periods and a sample
    assert '3.001 s' in str(refused(RecordingError, sine(1.0, duration=1.0), cutoff=1.0))


def test_a_cut_off_above_half_the_rate_names_the_key_and_both():
    error = refused(SettingsError, sine(1.0, rate=40.0), cutoff=25.0)
    assert error.key == 'signals.cutoff'
    assert '25 Hz' in str(error)
    assert '20 Hz' in str(error)
    # resampling makes no new content
    refused(SettingsError, sine(1.0, rate=40.0), cutoff=25.0, sample_rate=400.0)


def test_a_lower_sample_rate_is_sent_to_the_decimation():
    error = refused(SettingsError, sine(1.0), sample_rate=500.0)
    assert error.key == 'signals.sample_rate'
    assert 'decimate_to' in str(error)


def test_missing_velocity_is_refused():
    recording = sine(1.0)
    without = Recording(recording.time, recording.position, recording.effort, ('a', 'b'))
    text = str(refused(RecordingError, without, method='measured_velocity'))
    assert 'no measured velocity' in text and 'signals.method' in text


@pytest.mark.parametrize('value', [0.0, 3.5])
def test_an_effort_that_never_changes_names_the_joint(value):
    recording = sine(1.0)
    effort = recording.effort.copy()
    effort[:, 1] = value
    dead = Recording(recording.time, recording.position, effort, ('a', 'b'), source='run.csv')
    error = refused(RecordingError, dead)
    assert error.joint == 'b'
    assert error.value == value
    assert "'b'" in str(error)


def test_savitzky_golay_refuses_degrees_without_acceleration_and_impossible_windows():
    assert (
        refused(SettingsError, sine(1.0), method='savitzky_golay', order=1).key == 'signals.order'
    )
    error = refused(SettingsError, sine(1.0), method='savitzky_golay', cutoff=450.0)
    assert error.key == 'signals.cutoff'


def test_stamps_that_are_not_in_seconds():
    time = 1000.0 * np.arange(2000) / 500.0
    position = np.sin(time / 1000.0)[:, None]
    recording = Recording(time, position, position, ('a',), source='run.csv')
    with pytest.raises(SettingsError, match=r'run\.csv has nothing above 0\.25 Hz.*milliseconds'):
        process(recording, SignalSettings(cutoff=20.0))


def test_rate_far_above_the_recorded_one():
    """It would fill the memory before it told anything."""
    with pytest.raises(SettingsError, match='1e.09 Hz, run.csv was recorded at 1000 Hz'):
        process(sine(1.0), SignalSettings(sample_rate=1e9))


RATE = 500.0
CASES = [
    *(SignalSettings(method=method) for method in METHODS),
    SignalSettings(
        method='polynomial_approximation',
        polynomial_approximation=PolynomialApproximation(
            window=0.0511, degree=2, alpha=2.5, delay=None, effort_hold=True
        ),
    ),
]


def record(position, velocity, effort):
    time = np.arange(len(position)) / RATE
    columns = (x[:, None] for x in (position, effort, velocity))
    position, effort, velocity = columns
    return Recording(time, position, effort, ('a',), velocity)


@pytest.mark.parametrize('frequency', [4.0, 20.0, 60.0])
@pytest.mark.parametrize('settings', CASES, ids=lambda s: s.method)
def test_the_share_is_what_the_method_makes_of_a_sine(settings, frequency):
    omega = 2 * np.pi * frequency
    t = np.arange(4000) / RATE
    samples = process(
        record(np.sin(omega * t), omega * np.cos(omega * t), np.sin(omega * t)), settings
    )
    inside = slice(500, -500)
    t = samples.time[inside]
    basis = np.exp(1j * omega * t)
    shares = frequency_response(settings, RATE, [frequency]).share[:, 0]
    for name, share, order in zip(SIGNALS, shares, (0, 1, 2, 0), strict=True):
        wanted = (share * (1j * omega) ** order * basis).imag
        found = getattr(samples, name)[inside, 0]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-7 * omega**order)


@pytest.mark.parametrize('settings', CASES, ids=lambda s: s.method)
def test_the_noise_is_what_comes_through(settings):
    random = np.random.default_rng(1)
    noise = random.normal(size=(3, 40_000))
    samples = process(record(*noise), settings)
    found = [getattr(samples, name).std() for name in SIGNALS]
    # neighbours are alike, so a few thousand independent numbers: 3 %
    assert found == pytest.approx(frequency_response(settings, RATE).noise, rel=0.03)


def test_the_polynomial_approximation_treats_all_signals_alike():
    settings = SignalSettings(method='polynomial_approximation')
    response = frequency_response(settings, RATE, [1.0, 5.0, 10.0, 20.0])
    for share in response.share[1:]:
        np.testing.assert_allclose(share, response.share[0], rtol=1e-5)
    assert response.cutoff == pytest.approx(response.cutoff[0], rel=1e-3)
    assert np.abs(frequency_response(settings, RATE, response.cutoff).share[0]) == pytest.approx(
        np.sqrt(0.5), rel=1e-4
    )


def test_savitzky_golay_does_not():
    settings = SignalSettings(method='savitzky_golay', order=2, cutoff=24.0)
    response = frequency_response(settings, 250.0, [10.0])
    losses = 100.0 * (1.0 - np.abs(response.share[:, 0]))
    # 11 samples of 4 ms at 10 Hz
    assert losses == pytest.approx([1.1, 17.5, 12.5, 0.0], abs=0.06)


def test_butterworth_has_half_its_power_where_it_should():
    settings = SignalSettings(cutoff=20.0)
    response = frequency_response(settings, RATE)
    # each of two passes has half its power at 20 Hz, and both together a quarter
    assert np.abs(frequency_response(settings, RATE, [20.0]).share[0, 0]) == pytest.approx(0.5)
    assert response.cutoff[0] < 20.0
    assert response.cutoff[3] == np.inf
    assert response.span == np.inf


def test_the_table_says_all_of_it():
    settings = SignalSettings(method='polynomial_approximation')
    text = frequency_response(settings, 250.0, [10.0]).table()
    assert 'polynomial_approximation at 250 Hz, looks at 0.044 s' in text
    assert '10 Hz      99.26 % -1.2 deg' in text
    assert '1.213e+04 /s^2' in text
    assert max(map(len, text.splitlines())) <= 100


def test_decimation_halves_what_it_leaves():
    assert decimated_nyquist(SignalSettings(decimate_to=50.0), 500.0) == 25.0
    assert decimated_nyquist(SignalSettings(decimate_to=None), 500.0) is None
