# SPDX-License-Identifier: Apache-2.0
"""The live motion against parabolas, sines and its own noise."""

from __future__ import annotations

from hypothesis import given, settings, strategies
import numpy as np
import pytest
from robot_identification.signals.online import LocalFit

numbers = strategies.floats(-10.0, 10.0)


@settings(max_examples=50)
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
