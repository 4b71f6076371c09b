# SPDX-License-Identifier: Apache-2.0
"""Frequency responses, held against what the methods make of recorded sines and noise."""

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.signals import process, SignalSettings
from robot_identification.signals.responses import (
    decimated_nyquist,
    frequency_response,
    SIGNALS,
)
from robot_identification.signals.settings import METHODS, PolynomialApproximation

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
