# SPDX-License-Identifier: Apache-2.0
"""Stops: smooth, on the path where there is one."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.fourier import FourierTrajectory, rest_to_rest
from robot_identification.excitation.points import point_to_point
from robot_identification.excitation.stopping import halt, SlowedTrajectory

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
    stop = SlowedTrajectory(trajectory, begin, duration)
    time = np.linspace(0.0, stop.duration, 1000)
    motion = stop.sample(time)
    here = trajectory.sample(np.array([begin]))
    for name in ('position', 'velocity', 'acceleration'):
        np.testing.assert_allclose(getattr(motion, name)[0], getattr(here, name)[0], atol=1e-9)
    assert not motion.velocity[-1].any() and not motion.acceleration[-1].any()
    # every position is one of the path, in the part that lies ahead
    ahead = trajectory.sample(np.linspace(begin, begin + stop.duration / 2.0, 20001)).position
    for position in motion.position[::50]:
        assert np.abs(ahead - position).max(axis=1).min() < 2e-3
    step = 1e-5
    inner = time[1:-1]
    difference = stop.sample(inner + step).position - stop.sample(inner - step).position
    np.testing.assert_allclose(stop.sample(inner).velocity, difference / (2 * step), atol=1e-5)


def test_a_way_to_where_one_is_takes_the_least_time():
    away = point_to_point(JOINTS, np.ones(2), np.ones(2), np.ones(2), np.ones(2))
    assert away.duration == pytest.approx(0.1)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_halt_begins_as_the_robot_moves_and_keeps_the_acceleration_limits(seed):
    rng = np.random.default_rng(seed)
    position, velocity = rng.standard_normal((2, 2))
    limits = rng.uniform(0.5, 20.0, 2)
    stop = halt(JOINTS, position, velocity, limits)
    motion = stop.sample(np.linspace(0.0, stop.duration, 2001))
    np.testing.assert_allclose(motion.position[0], position)
    np.testing.assert_allclose(motion.velocity[0], velocity)
    assert np.abs(motion.velocity[-1]).max() < 1e-9
    assert (np.abs(motion.acceleration) <= limits * (1.0 + 1e-9)).all()
    # no joint turns round, and the quickest takes no longer than it needs
    assert (motion.velocity * np.sign(velocity) >= -1e-9).all()
    reached = (np.abs(motion.acceleration).max(axis=0) / limits).max()
    assert stop.duration == 0.2 or reached == pytest.approx(1.0, rel=1e-5)
