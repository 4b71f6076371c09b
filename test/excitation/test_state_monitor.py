# SPDX-License-Identifier: Apache-2.0
"""Plausibility of joint states: every motion within the limits, and nothing else."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.state_monitor import (
    POSITION_SLACK,
    state_bounds,
    StateMonitor,
)
from robot_identification.model.robot import Robot

BOUNDS = Limits(
    ('a', 'b'),
    ('rad', 'rad'),
    np.full(2, -2.0),
    np.full(2, 2.0),
    np.array([1.0, 3.0]),
    np.array([5.0, 12.0]),
    np.full(2, np.inf),
)


def motion(seed, rate, seconds=4.0):
    """Return stamps and positions of a motion that uses its limits, from a random state."""
    random = np.random.default_rng(seed)
    step = 1.0 / rate
    q, v = random.uniform(-1.5, 1.5, 2), np.zeros(2)
    places = []
    for _ in range(round(seconds * rate)):
        a = random.choice([-1.0, 1.0], 2) * BOUNDS.acceleration
        v = np.clip(v + a * step, -BOUNDS.velocity, BOUNDS.velocity)
        v = np.where(np.abs(q + v * step) > 2.0, 0.0, v)  # it strikes its end stop
        q = q + v * step
        places.append(q)
    return 1.0 + step * np.arange(len(places)), np.array(places)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from([20.0, 100.0, 500.0]),
    st.floats(0.3, 3.0),
    st.floats(0.0, 0.02),
)
def test_a_motion_within_the_limits_is_accepted_at_any_rate_of_time(seed, rate, speed, late):
    monitor = StateMonitor(BOUNDS)
    stamps, places = motion(seed, rate)
    random = np.random.default_rng(seed)
    places = places + random.uniform(-0.005, 0.005, places.shape)
    # a simulation's time passes at another speed, and messages come late
    arrivals = 50.0 + stamps / speed + late * random.random(stamps.size)
    for stamp, arrival, place in zip(stamps, arrivals, places, strict=True):
        assert monitor.fault(stamp, arrival, place) == ''
    # and so where there are no stamps
    monitor = StateMonitor(BOUNDS)
    for stamp, place in zip(stamps, places, strict=True):
        assert monitor.fault(np.nan, stamp, place) == ''


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([100.0, 500.0]), st.floats(0.15, 3.0))
def test_a_leap_is_not(seed, rate, leap):
    monitor = StateMonitor(BOUNDS)
    stamps, places = motion(seed, rate, 1.0)
    for stamp, place in zip(stamps, places, strict=True):
        assert not monitor.fault(stamp, stamp, place)
    step = 1.0 / rate
    away = places[-1] + leap * np.array([0.0, -np.sign(places[-1, 1])])
    fault = monitor.fault(stamps[-1] + step, stamps[-1] + step, away)
    assert "joint 'b'" in fault and ('farther' in fault or 'outside' in fault)
    # the robot goes on where it was
    assert not monitor.fault(stamps[-1] + step, stamps[-1] + step, places[-1])


@pytest.mark.parametrize(
    ('stamp', 'arrival', 'words'),
    [
        (1.99, 2.01, '0.01 s before'),
        (2.3, 2.01, '0.3 s after'),
        (np.nan, 2.01, 'others have none'),
        (2.01, 2.01, ''),
        (2.01, 2.5, ''),
    ],
)
def test_stamps_that_do_not_fit_are_not_accepted(stamp, arrival, words):
    monitor = StateMonitor(BOUNDS)
    for time in np.linspace(1.0, 2.0, 101):
        assert not monitor.fault(time, time, np.zeros(2))
    fault = monitor.fault(stamp, arrival, np.zeros(2))
    assert words in fault and bool(words) == bool(fault)


@pytest.mark.parametrize('rate', [100.0, 1000.0])
def test_a_state_that_was_published_late_does_not_discredit_those_that_follow(rate):
    """A controller's thread that publishes may be held up while its stamps go on."""
    monitor = StateMonitor(BOUNDS)
    for stamp in np.arange(round(rate)) / rate:
        assert not monitor.fault(stamp, stamp, np.zeros(2))
    late = 1.0
    assert not monitor.fault(late, late + 0.3, np.zeros(2))
    for stamp in late + 0.3 + np.arange(1, 50) / rate:
        assert not monitor.fault(stamp, stamp, np.zeros(2))


@pytest.mark.parametrize('rate', [50.0, 250.0, 1000.0])
def test_a_stamp_that_is_ahead_is_not_accepted_at_any_rate(rate):
    monitor = StateMonitor(BOUNDS)
    times = np.arange(round(rate)) / rate
    for stamp in times:
        assert not monitor.fault(stamp, stamp, np.zeros(2))
    now = times[-1] + 1.0 / rate
    assert '0.3' in monitor.fault(now + 0.3, now, np.zeros(2))
    assert not monitor.fault(now, now, np.zeros(2))


def test_position_limits_hold_for_the_first_state_too():
    monitor = StateMonitor(BOUNDS)
    assert "joint 'a' is at 4.5" in monitor.fault(1.0, 1.0, np.array([4.5, 0.0]))
    assert not monitor.fault(1.0, 1.0, np.array([2.0 + 0.9 * POSITION_SLACK, 0.0]))


def test_a_robot_without_velocity_limits_is_not_bounded():
    urdf = Path(__file__).resolve().parents[2] / 'urdf' / 'delta.urdf'
    bounds = state_bounds(Robot.from_urdf(urdf), PlannerSettings())
    assert np.isinf(bounds.velocity).all()
    monitor = StateMonitor(bounds)
    zero = np.zeros(len(bounds.joints))
    assert not monitor.fault(1.0, 1.0, zero)
    assert not monitor.fault(1.01, 1.01, zero + 0.5)
