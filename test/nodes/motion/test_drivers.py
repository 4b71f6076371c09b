# SPDX-License-Identifier: Apache-2.0
"""A motion under a driver of joint states that fails."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from robot_identification_msgs.action import Excite
from sensor_msgs.msg import JointState


@pytest.fixture
def cell(driven_cell):
    """Give the node and an arm at rest at zero, on a clock that the test drives."""
    return driven_cell()


def test_a_driver_that_dies_ends_the_motion(cell, move):
    cell.set(stale_timeout=0.4)
    request = cell.begin(trajectory=move(np.full(2, 2.0), speed=0.4))
    cell.wait_until(lambda: request.progress > 0.1, 'the motion')
    cell.world.spoil = lambda message: []
    died = cell.world.now
    status, result, _ = cell.finish(request)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Excite.Result.STALE_STATE)
    # the stop was sent all the same: a controller may live where its state publisher does not
    ends = [message.points[-1].positions[0] for message in cell.sent]
    assert ends[-1] < max(ends) < 2.0
    assert cell.at_rest()
    # noticed within the timeout, and answered once the robot has to rest
    assert 0.4 < cell.world.now - died < 5.0


@pytest.mark.parametrize(
    ('words', 'fields'),
    [
        ("'joint_2' is not in the joint states", {'name': ['joint_1'], 'position': [0.0]}),
        ('no finite positions', {'name': ['joint_1', 'joint_2'], 'position': [0.0, np.nan]}),
    ],
)
def test_joint_states_that_tell_nothing_count_as_none(driven_cell, move, words, fields):
    cell = driven_cell(silent=True)
    cell.world.spoil = lambda message: [(JointState(header=message.header, **fields), 0)]
    _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3)))
    assert result.error_code == Excite.Result.STALE_STATE
    assert words in result.error_msg
    assert not cell.sent


def test_a_robot_that_is_outside_its_limits_is_not_moved(cell, move):
    """As of a driver that counts something else: no motion of days, and no check of it."""

    def far(message):
        return [(JointState(header=message.header, name=message.name, position=[1e9, 0.0]), 0)]

    cell.world.spoil = far
    _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3)))
    assert result.error_code == Excite.Result.UNTRUSTED_STATE
    assert "joint 'joint_1' is at 1e+09, outside its position limits" in result.error_msg
    assert not cell.sent


def test_the_clock_of_the_driver_is_set_back(cell, move):
    def set_back(message):
        message.header.stamp.sec -= 500 if cell.sent else 0
        return [(message, 0)]

    cell.world.spoil = set_back
    _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3)))
    assert result.error_code == Excite.Result.STALE_STATE
    assert 'jump by -' in result.error_msg
    # what the new time would make of a stop is not known: nothing is sent in it
    assert cell.sent and all(message.header.stamp.sec >= 900 for message in cell.sent)
