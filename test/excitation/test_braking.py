# SPDX-License-Identifier: Apache-2.0
"""Stops: smooth, on the path where there is one."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.braking import (
    ACCELERATION_SHARE,
    LONGEST,
    SHORTEST,
    slowed,
    to_rest,
)
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.points import point_to_point
from robot_identification.excitation.trajectories import FourierTrajectory, rest_to_rest

JOINTS = ('a', 'b')
BASIS = rest_to_rest(10.0, 0.1, 5)


def path(seed):
    rng = np.random.default_rng(seed)
    coefficients = BASIS @ rng.standard_normal((BASIS.shape[1], 2))
    return FourierTrajectory(JOINTS, 10.0, 0.1, np.zeros(2), coefficients)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), begin=st.floats(0.0, 9.5), duration=st.floats(0.2, 1.0))
def test_slowing_down_stays_on_the_path_and_begins_as_it_goes(seed, begin, duration):
    trajectory = path(seed)

    def at(time):
        return slowed(trajectory, begin, duration, time / duration)

    time = np.linspace(0.0, duration, 1000)
    motion = at(time)
    here = trajectory.sample(np.array([begin]))
    for name in ('position', 'velocity', 'acceleration'):
        np.testing.assert_allclose(getattr(motion, name)[0], getattr(here, name)[0], atol=1e-9)
    assert not motion.velocity[-1].any() and not motion.acceleration[-1].any()
    # every position is one of the path, in the part that lies ahead
    ahead = trajectory.sample(np.linspace(begin, begin + duration / 2.0, 20001)).position
    for position in motion.position[::50]:
        assert np.abs(ahead - position).max(axis=1).min() < 2e-3
    step = 1e-5
    inner = time[1:-1]
    difference = at(inner + step).position - at(inner - step).position
    np.testing.assert_allclose(at(inner).velocity, difference / (2 * step), atol=1e-5)


def test_a_way_to_where_one_is_takes_the_least_time():
    away = point_to_point(JOINTS, np.ones(2), np.ones(2), np.ones(2), np.ones(2))
    assert away.duration == pytest.approx(0.1)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), aimed=st.booleans())
def test_a_stop_off_the_path_begins_as_the_robot_is_commanded_and_keeps_the_limits(seed, aimed):
    rng = np.random.default_rng(seed)
    high, velocity, acceleration = rng.uniform(0.5, 3.0, 2), rng.uniform(0.5, 3.0, 2), 5.0
    limits = Limits(
        JOINTS, ('rad', 'rad'), -high, high, velocity, np.full(2, acceleration), np.full(2, np.inf)
    )
    moving = rng.uniform(-1.0, 1.0, (3, 2))
    state = moving * np.array([high - 0.4, 0.8 * velocity, np.full(2, acceleration)])
    place = np.clip(state[0] + rng.uniform(-0.2, 0.2, 2), -high, high) if aimed else None
    stop = to_rest(limits, state, place)
    if stop is None:  # too near a limit and too fast, or the place is where it cannot turn to
        reach = 0.5 * state[1] ** 2 / (ACCELERATION_SHARE * acceleration)
        near = (np.abs(state[0]) + reach > 0.4 * high).any()
        assert near or (aimed and to_rest(limits, state) is not None)
        return
    assert SHORTEST <= stop.duration <= LONGEST
    motion = stop.sample(np.linspace(0.0, stop.duration, 1001))
    for values, begin in zip(
        (motion.position, motion.velocity, motion.acceleration), state, strict=True
    ):
        np.testing.assert_allclose(values[0], begin, atol=1e-9)
    assert max(np.abs(motion.velocity[-1]).max(), np.abs(motion.acceleration[-1]).max()) < 1e-9
    assert (np.abs(motion.position) <= high + 1e-3).all()
    assert (np.abs(motion.velocity) <= np.maximum(velocity, np.abs(state[1])) * 1.01).all()
    most = np.maximum(ACCELERATION_SHARE * acceleration, np.abs(state[2]))
    assert (np.abs(motion.acceleration) <= 1.02 * most).all()
    if aimed:
        np.testing.assert_allclose(motion.position[-1], place, atol=1e-9)
