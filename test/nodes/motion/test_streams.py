# SPDX-License-Identifier: Apache-2.0
"""Motions through controllers that interpolate, and through streams of positions or velocities."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from robot_identification.excitation.trajectories import PointTrajectory, to_points
from robot_identification.nodes.common.messages import trajectory_message
from robot_identification_msgs.action import Excite

JOINTS = ('joint_1', 'joint_2')
GOAL = (0.8, -0.3)
KINDS = ('trajectory_topic', 'position_commands', 'velocity_commands')
STREAMS = KINDS[1:]
RATE = 250.0


def motion(speed=0.5):
    """Return a motion from zero to `GOAL`, not straight, as a path and as the message."""
    shape = np.array([[0.0, 0.0], [0.4, -0.5], GOAL])
    middle = np.array([[0.0, 0.0], [0.45, 0.0], [0.0, 0.0]]) * speed / 0.5
    time = np.array([0.0, 1.5, 3.0]) * 0.5 / speed
    path = PointTrajectory(JOINTS, time, shape, middle, np.zeros((3, 2)))
    p = to_points(path, 50.0)
    return path, trajectory_message(JOINTS, p.time, p.position, p.velocity, p.acceleration)


def away(path, places):
    """Return how far from all of a path each place is."""
    track = path.sample(np.linspace(0.0, path.duration, 1000)).position
    return np.abs(track[None] - np.asarray(places)[:, None]).max(axis=2).min(axis=1)


@pytest.fixture
def cell_of(driven_cell):
    """Give a function that makes the cell of a kind of controller."""
    return lambda kind: driven_cell(kind=kind, rate=RATE)


def require_rest_on(cell, path):
    """Hold the robot to rest, on its path but at neither of its ends."""
    assert cell.at_rest()
    place = cell.positions()[-1:]
    assert away(path, place)[0] < 0.005
    assert np.abs(place - GOAL).max() > 0.05 and np.abs(place).max() > 0.05


@pytest.mark.parametrize('kind', KINDS)
def test_the_robot_moves_as_planned(cell_of, kind):
    cell = cell_of(kind)
    path, message = motion()
    status, result, _ = cell.excite(trajectory=message)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    assert cell.at_rest()
    np.testing.assert_allclose(cell.positions()[-1], GOAL, atol=3e-3)
    assert away(path, cell.positions()[::5]).max() < 5e-3
    # drives that do not know what comes are some 30 ms behind, at up to 0.5 rad/s
    assert 0.0 < result.max_tracking_error < (0.02 if kind in STREAMS else 2e-3)


def test_positions_are_commanded_on_the_path_and_in_small_steps(cell_of):
    cell = cell_of('position_commands')
    path, message = motion()
    assert cell.excite(trajectory=message)[1].error_msg == ''
    commands = np.array(cell.controller.commands)
    assert len(commands) > 0.9 * RATE * path.duration
    assert away(path, commands[::5]).max() < 1e-3
    fastest = np.abs(path.sample(np.linspace(0.0, path.duration, 1000)).velocity).max()
    assert np.abs(np.diff(commands, axis=0)).max() < 1.05 * fastest / RATE


@pytest.mark.parametrize('kind', KINDS)
def test_cancel_brings_the_robot_to_rest_on_the_path(cell_of, kind):
    cell = cell_of(kind)
    path, message = motion()
    status, result, _ = cell.excite(lambda f: f and f[-1].progress > 0.4, trajectory=message)
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Excite.Result.CANCELED)
    require_rest_on(cell, path)


@pytest.mark.parametrize('kind', KINDS)
def test_a_controller_that_slows_time_down_is_followed(cell_of, kind):
    cell = cell_of(kind)
    path, message = motion()
    request = cell.begin(trajectory=message)
    cell.wait_until(lambda: request.progress > 0.25, 'the motion')
    cell.world.scale_speed(0.3)
    cell.wait_until(lambda: request.progress > 0.6, 'the slow motion')
    cell.world.scale_speed(1.0)
    status, result, feedback = cell.finish(request)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    speeds = [f.speed_scaling for f in feedback]
    assert (min(speeds), max(speeds)) == pytest.approx((0.3, 1.0))
    # the path is the same, though not its time: a third of it took three times as long
    np.testing.assert_allclose(cell.positions()[-1], GOAL, atol=5e-3)
    assert away(path, cell.positions()[::5]).max() < 0.01
    assert result.duration > result.planned_duration + 0.4 * path.duration


@pytest.mark.parametrize('kind', STREAMS)
def test_the_node_dies_and_the_stream_leads_to_rest_on_the_path(cell_of, kind):
    cell = cell_of(kind)
    path, message = motion(speed=0.4)
    request = cell.begin(trajectory=message)
    cell.wait_until(lambda: request.progress > 0.4, 'the motion')
    since = len(cell.states)
    assert np.abs(cell.velocities()[-1]).max() > 0.05
    cell.hold_up(2.5)
    assert not request.done
    assert np.abs(cell.velocities()[since : since + 50]).max() > 0.05  # it did not stop dead
    assert np.abs(cell.velocities()[-50:]).max() < 2e-3
    require_rest_on(cell, path)


def test_a_stream_of_positions_that_was_held_up_ends_without_a_leap(cell_of):
    cell = cell_of('position_commands')
    path, message = motion()
    request = cell.begin(trajectory=message)
    cell.wait_until(lambda: request.progress > 0.4, 'the motion')
    stream, cell.world.stream = cell.world.stream, None
    cell.pass_time(0.3)
    cell.world.stream = stream
    _, result, _ = cell.finish(request)
    assert result.error_code == Excite.Result.CONTROLLER_FAILED
    assert 'held up' in result.error_msg
    # 3 mrad a command are planned at most, and half as many more are caught up
    assert np.abs(np.diff(cell.controller.commands, axis=0)).max() < 0.0045
    require_rest_on(cell, path)
    # and the next motion is one like any other
    status, result, _ = cell.excite(trajectory=message)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    np.testing.assert_allclose(cell.positions()[-1], GOAL, atol=3e-3)


def test_a_stream_that_is_late_catches_up_along_the_path(cell_of):
    cell = cell_of('position_commands')
    # a robot that gets no positions halts, and is then a little behind
    cell.set(effort_share=0.0, effort_tolerance=0.0)
    path, message = motion()
    request = cell.begin(trajectory=message)
    cell.wait_until(lambda: request.progress > 0.4, 'the motion')
    stream, cell.world.stream = cell.world.stream, None
    cell.pass_time(0.05)
    cell.world.stream = stream
    status, result, _ = cell.finish(request)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    assert np.abs(np.diff(cell.controller.commands, axis=0)).max() < 0.0045
    assert away(path, cell.positions()[::5]).max() < 0.01
