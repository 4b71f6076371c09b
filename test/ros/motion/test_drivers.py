# SPDX-License-Identifier: Apache-2.0
"""What a motion makes of a driver that fails."""

import signal
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from pathlib import Path

from action_msgs.msg import GoalStatus
from robot_identification.nodes.motion_messages import time_message
from robot_identification_msgs.action import Excite
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

pytestmark = pytest.mark.wall_clock

PLANAR = str(Path(__file__).resolve().parents[3] / 'urdf' / 'zollo_planar_2r.urdf')


def test_a_driver_that_dies_ends_the_motion(own_cell, move):
    cell = own_cell(stale_timeout=0.4)
    killed = []

    def kill(feedback):
        if not killed and feedback and feedback[-1].phase == 'exciting':
            killed.append(cell.arm.stop(signal.SIGKILL))
        return False

    status, result, _ = cell.excite(kill, trajectory=move(np.full(2, 2.0), speed=0.4))
    assert killed
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Excite.Result.STALE_STATE)
    # the stop was sent all the same: a controller may live where its state publisher does not
    ends = [message.points[-1].positions[0] for message in cell.sent]
    assert ends[-1] < max(ends) < 2.0


def test_joint_states_that_tell_nothing_count_as_none(ros, move):
    ros.start('excitation', parameters={'robot_description': PLANAR, 'execute': True})
    driver = ros.publisher(JointState, 'joint_states', wait_for_subscribers=1)
    goal = move(np.full(2, 0.3))
    stamp = ros.node.get_clock().now().to_msg()
    for words, fields in (
        ("'joint_2' is not in the joint states", {'name': ['joint_1'], 'position': [0.0]}),
        ('no finite positions', {'name': ['joint_1', 'joint_2'], 'position': [0.0, np.nan]}),
    ):
        message = JointState(**fields)
        message.header.stamp = stamp
        timer = ros.node.create_timer(0.02, lambda m=message: driver.publish(m))
        _, result, _ = ros.act(Excite, 'excitation/excite', trajectory=goal)
        assert result.error_code == Excite.Result.STALE_STATE
        assert words in result.error_msg
        ros.node.destroy_timer(timer)
    # a driver that counts something else: no motion of days, and no check of it
    far = JointState(name=['joint_1', 'joint_2'], position=[1e9, 0.0])
    ros.node.create_timer(0.02, lambda: driver.publish(far))
    _, result, _ = ros.act(Excite, 'excitation/excite', trajectory=goal)
    assert result.error_code == Excite.Result.UNTRUSTED_STATE
    assert "joint 'joint_1' is at 1e+09, outside its position limits" in result.error_msg


def test_the_clock_of_the_driver_is_set_back(ros, move):
    ros.start('excitation', parameters={'robot_description': PLANAR, 'execute': True})
    driver = ros.publisher(JointState, 'joint_states', wait_for_subscribers=1)
    sent = ros.subscribe(JointTrajectory, 'joint_trajectory')
    begin = time.monotonic()

    def publish():
        stamp = 1000.0 + time.monotonic() - begin - (500.0 if sent else 0.0)
        message = JointState(name=['joint_1', 'joint_2'], position=[0.0, 0.0])
        message.header.stamp = time_message(round(1e9 * stamp))
        driver.publish(message)

    ros.node.create_timer(0.01, publish)
    _, result, _ = ros.act(Excite, 'excitation/excite', trajectory=move(np.full(2, 0.3)))
    assert result.error_code == Excite.Result.STALE_STATE
    assert 'jump by -' in result.error_msg
    # what the new time would make of a stop is not known: nothing is sent in it
    assert all(message.header.stamp.sec >= 900 for message in sent)
