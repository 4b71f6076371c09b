# SPDX-License-Identifier: Apache-2.0
"""Paths made ready to be followed, and the way to their start."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.data.recording import Motion
from robot_identification.excitation.extremes import nominal_effort
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import (
    concatenate,
    point_to_point,
    PointTrajectory,
)
from robot_identification.model.robot import Robot
from robot_identification.nodes.excitation.motion_checks import (
    at_speed,
    CheckedMotion,
    predicted_effort,
    THERE,
    way_to_start,
)
from robot_identification.nodes.excitation.options import Code, ExecutionOptions, MotionError

URDF = Path(__file__).resolve().parents[3] / 'urdf' / 'zollo_planar_2r.urdf'
OPTIONS = ExecutionOptions()


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


@pytest.fixture(scope='module')
def limits(robot):
    return motion_limits(robot, PlannerSettings(), margin=0.0)


@pytest.fixture(scope='module')
def way(limits):
    goal = np.array([1.5, -1.0])
    return point_to_point(limits.joints, np.zeros(2), goal, np.full(2, 1.0), np.full(2, 3.0))


@pytest.mark.parametrize('speed', [-0.5, 1.01, 2.0, np.nan, np.inf, 1e-4])
def test_a_speed_is_a_share_and_no_motion_is_endless(way, speed):
    with pytest.raises(MotionError, match='speed') as caught:
        at_speed(way, speed, OPTIONS)
    assert caught.value.code == Code.INVALID_TRAJECTORY


def test_what_is_sent_is_the_same_path_slower(way):
    np.testing.assert_array_equal(
        at_speed(way, 0.0, OPTIONS).time, at_speed(way, 1.0, OPTIONS).time
    )
    slow = at_speed(way, 0.25, OPTIONS)
    assert np.diff(slow.time).max() <= 1.0 / OPTIONS.publish_rate + 1e-9
    time = np.linspace(0.0, way.duration, 301)
    quick, later = way.sample(time), slow.sample(4.0 * time)
    np.testing.assert_allclose(later.position, quick.position, atol=1e-9)
    np.testing.assert_allclose(later.velocity, quick.velocity / 4.0, atol=1e-9)


def test_the_range_of_efforts_holds_all_between_two_times(robot, way, limits):
    predicted = predicted_effort(robot, way)
    ready = CheckedMotion(way, 0.0, np.ones(2), 0.0, limits, robot.limits.effort, predicted)
    random, effort = np.random.default_rng(0), nominal_effort(robot)
    for begin in random.uniform(0.05, way.duration - 0.1, 40):
        end = begin + random.uniform(0.0, 0.05)
        low, high = ready.effort_range(begin, end)
        exact = effort(way.sample(np.linspace(begin, end, 50)))
        # what a straight line between two predictions leaves out
        assert (exact >= low - 0.05).all() and (exact <= high + 0.05).all()
        near = effort(way.sample(np.linspace(begin - 0.011, end + 0.011, 50)))
        assert (low >= near.min(axis=0) - 0.05).all() and (high <= near.max(axis=0) + 0.05).all()
    # before the beginning and after the end the robot rests
    for time, place in ((-3.0, 0), (way.duration + 3.0, -1)):
        rest = ready.effort[0][[place, place]]
        np.testing.assert_allclose(ready.effort_range(time, time), rest)
    # of a slower motion there is less, down to gravity and dry friction
    for share in (0.01, 0.3, 0.7):
        there = way.sample(np.array([0.4]))
        slow = Motion(there.position, share * there.velocity, share**2 * there.acceleration)
        low, high = ready.effort_range(0.4, 0.4, slower=True)
        assert (effort(slow) >= low - 0.05).all() and (effort(slow) <= high + 0.05).all()


START = np.array([0.5, -0.4])


@pytest.fixture(scope='module')
def trajectory(limits):
    return point_to_point(limits.joints, START, np.zeros(2), np.ones(2), np.ones(2))


def test_a_robot_that_is_there_has_no_way_to_go(limits, trajectory):
    assert way_to_start(START + 0.9 * THERE, trajectory, limits, OPTIONS) is None
    # what a controller would leap is gone slowly, whatever is allowed
    still = replace(OPTIONS, move_to_start=False)
    near = START + [0.99 * OPTIONS.start_tolerance, 0.0]
    assert way_to_start(near, trajectory, limits, still).duration >= 0.1
    far = START - [0.0, 1.01 * OPTIONS.start_tolerance]
    assert way_to_start(far, trajectory, limits, OPTIONS) is not None
    with pytest.raises(MotionError, match=r"'joint_2' is 0\.0202 away.*move_to_start") as caught:
        way_to_start(far, trajectory, limits, still)
    assert caught.value.code == Code.NOT_AT_START


def state(trajectory, time):
    motion = trajectory.sample(np.asarray(time))
    return np.array([motion.position, motion.velocity, motion.acceleration])


def test_way_and_trajectory_are_one_without_a_step(limits):
    """Also where what was asked for begins with an acceleration."""
    time = np.array([0.0, 0.5, 1.0])
    position = START + np.array([[0.0, 0.0], [0.2, -0.1], [0.3, 0.0]])
    velocity = np.array([[0.0, 0.0], [0.4, 0.1], [0.0, 0.0]])
    acceleration = np.array([[1.5, -1.0], [0.0, 0.0], [-1.0, 0.5]])
    then = PointTrajectory(limits.joints, time, position, velocity, acceleration)
    way = way_to_start(START - 0.3, then, limits, OPTIONS)
    whole = concatenate([way, then])
    assert whole.duration == pytest.approx(way.duration + then.duration)
    seam = way.duration + np.array([-1e-9, 1e-9])
    before, after = (state(whole, [t])[:, 0] for t in seam)
    np.testing.assert_allclose(before, after, atol=1e-6)
    # each part is what was checked
    for part, begin in ((way, 0.0), (then, way.duration)):
        looks = np.linspace(1e-6, part.duration - 1e-6, 200)
        np.testing.assert_allclose(state(whole, begin + looks), state(part, looks), atol=1e-9)


@pytest.mark.parametrize('tight', ['velocity', 'acceleration', 'jerk'])
def test_the_way_keeps_the_share_of_all_limits_and_comes_to_rest_at_the_start(
    limits, trajectory, tight
):
    limits = replace(limits, **{tight: np.array([0.9, 0.5])})
    way = way_to_start(np.array([-1.0, 0.8]), trajectory, limits, OPTIONS)
    motion = way.sample(np.linspace(0.0, way.duration, 4001))
    np.testing.assert_allclose(motion.position[-1], START, atol=1e-12)
    np.testing.assert_allclose(motion.velocity[[0, -1]], 0.0, atol=1e-12)
    share = OPTIONS.move_speed
    jerk = np.diff(motion.acceleration, axis=0) / (way.duration / 4000)
    uses = {
        name: (np.abs(values) / (share * getattr(limits, name))).max()
        for name, values in (
            ('velocity', motion.velocity),
            ('acceleration', motion.acceleration),
            ('jerk', jerk),
        )
    }
    # ... and takes no longer than that
    assert max(uses.values()) == uses[tight] == pytest.approx(1.0, abs=2e-3)


def test_a_way_without_end_is_none(limits, trajectory):
    with pytest.raises(MotionError, match="'joint_1' is 1e") as caught:
        way_to_start(START + [1e6, 0.0], trajectory, limits, OPTIONS)
    assert caught.value.code == Code.NOT_AT_START
