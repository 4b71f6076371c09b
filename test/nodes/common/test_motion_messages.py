# SPDX-License-Identifier: Apache-2.0
"""Times, joint states and trajectories as messages: in the order asked for, or refused."""

from __future__ import annotations

from hypothesis import given, strategies
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from builtin_interfaces.msg import Time
from robot_identification.errors import ExcitationError, RecordingError
from robot_identification.nodes.common import motion_messages
from sensor_msgs.msg import JointState

NOW = Time(sec=12, nanosec=345)


@given(strategies.integers(-(2**31) * 10**9, (2**31 - 1) * 10**9))
def test_times_go_there_and_back(value):
    assert motion_messages.nanoseconds(motion_messages.time_message(value)) == value


@given(strategies.floats(0.0, 1e5))
def test_durations_are_rounded_to_a_nanosecond(value):
    message = motion_messages.duration_message(value)
    assert abs(motion_messages.seconds(message) - value) <= 0.6e-9 + 1e-15 * value
    assert 0 <= message.nanosec < 10**9


def test_a_trajectory_comes_back_in_the_order_that_is_asked_for():
    time = np.array([0.0, 0.5, 1.25])
    rows = np.arange(9.0).reshape(3, 3)
    message = motion_messages.trajectory_message('abc', time, rows, rows + 10, rows + 20, NOW)
    assert message.header.stamp == NOW
    points = motion_messages.trajectory_points(message, ('c', 'a', 'b'))
    assert points.time.tolist() == time.tolist()
    assert points.position.tolist() == rows[:, [2, 0, 1]].tolist()
    assert points.velocity.tolist() == (rows + 10)[:, [2, 0, 1]].tolist()
    assert points.acceleration.tolist() == (rows + 20)[:, [2, 0, 1]].tolist()


def test_a_trajectory_may_have_positions_alone():
    message = motion_messages.trajectory_message('ab', [0.0, 1.0], np.zeros((2, 2)))
    assert motion_messages.nanoseconds(message.header.stamp) == 0, 'it starts when it arrives'
    points = motion_messages.trajectory_points(message, 'ab')
    assert points.velocity is None and points.acceleration is None


def spoil_empty(message):
    message.points = []


def spoil_joints(message):
    message.joint_names = ['a', 'x']


def spoil_twice(message):
    message.joint_names = ['a', 'b', 'a']


def spoil_time(message):
    message.points[1].time_from_start = motion_messages.duration_message(0.0)


def spoil_length(message):
    message.points[1].velocities = [1.0]


def spoil_value(message):
    message.points[1].positions = [0.0, float('nan')]


def spoil_positions(message):
    for point in message.points:
        point.positions = []


@pytest.mark.parametrize(
    ('spoil', 'text'),
    [
        (spoil_empty, 'has no points'),
        (spoil_joints, 'the trajectory does not have joints b: the robot has a, b'),
        (spoil_twice, 'the trajectory names twice joints a'),
        (spoil_time, 'time_from_start of point 1 is 0 s'),
        (spoil_length, 'point 1 of the trajectory has 1 velocities, expected 2'),
        (spoil_value, 'point 1 of the trajectory has positions that are not finite'),
        (spoil_positions, 'the trajectory has no positions'),
    ],
)
def test_a_wrong_trajectory_is_refused_with_the_reason(spoil, text):
    zeros = np.zeros((2, 2))
    message = motion_messages.trajectory_message('ab', [0.0, 1.0], zeros, zeros, zeros)
    spoil(message)
    with pytest.raises(ExcitationError, match=text):
        motion_messages.trajectory_points(message, ('a', 'b'))


def test_a_joint_state_is_picked_by_name():
    message = JointState(name=['b', 'x', 'a'], position=[1.0, 2.0, 3.0], effort=[4.0, 5.0, 6.0])
    message.header.stamp = NOW
    sample = motion_messages.joint_sample(message, ('a', 'b'))
    assert sample.stamp == 12_000_000_345
    assert sample.position.tolist() == [3.0, 1.0]
    assert sample.effort.tolist() == [6.0, 4.0]
    assert sample.velocity is None


@pytest.mark.parametrize(
    ('message', 'text'),
    [
        (JointState(name=['a'], position=[0.0]), "joint 'b' is not in the joint states"),
        (JointState(name=['a', 'b', 'b'], position=[0.0, 0.0]), "'b' is named twice"),
        (JointState(name=['a', 'b', 'c', 'c'], position=[0.0] * 3), '4 names but 3 values'),
        (JointState(name=['a', 'b'], effort=[0.0]), '2 names but 1 values of effort'),
        (JointState(name=['a', 'b'], effort=[0.0, 0.0]), 'have no positions'),
    ],
)
def test_a_wrong_joint_state_is_refused_with_the_reason(message, text):
    with pytest.raises(RecordingError, match=text):
        motion_messages.joint_sample(message, ('a', 'b'))
