# SPDX-License-Identifier: Apache-2.0
"""Joint states with faults in the live identification, without a process: counts and words."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy')

from robot_identification.regressor import ModelSettings
from robot_identification_msgs.msg import OnlineStatus
from sensor_msgs.msg import JointState

RATE = 250.0


def test_a_gap(followed):
    messages = followed.states(seconds=3.0)
    status = followed.play(messages[:380] + messages[440:])
    assert status.gaps == 1
    assert status.longest_gap == pytest.approx(61.0 / RATE)
    assert status.updates == len(messages) - 60 - 200


def test_other_order_of_joints(followed):
    messages = followed.states()
    expected = followed.expected(messages)
    for message in messages[400:]:
        message.name = message.name[::-1]
        for field in ('position', 'velocity', 'effort'):
            setattr(message, field, getattr(message, field)[::-1])
    followed.play(messages)
    followed.require(expected)


def test_states_at_half_the_rate(followed):
    followed.play(followed.states(seconds=1.0))
    slow = followed.shifted(followed.states(2, 2.0), 1.0)[::2]
    followed.play(slow)
    followed.require_status('joint states come at 125 Hz, at the start it was 250 Hz')
    assert followed.status.gaps == 0


def test_a_joint_that_is_lost(followed):
    messages = followed.states(seconds=2.0)
    for message in messages[300:400]:
        message.name = message.name[:2]
        for field in ('position', 'velocity', 'effort'):
            setattr(message, field, getattr(message, field)[:2])
    status = followed.play(messages)
    followed.require_status("joint 'joint_3' is not in the joint states")
    assert status.refused == 100
    assert status.gaps == 1


def test_other_joints(followed):
    messages = followed.states(seconds=1.0)
    for message in messages:
        message.name = ['a', 'b', 'c']
    status = followed.play(messages)
    followed.require_status("joint 'joint_1' is not in the joint states")
    assert status.state == OnlineStatus.WAITING
    assert (status.updates, status.refused) == (0, len(messages))


def test_a_gripper_on_the_same_topic(followed):
    """Its states, which have none of the joints, are no trouble."""
    messages = followed.states(seconds=1.2)
    expected = followed.expected(messages).rows
    both = []
    for message in messages:
        gripper = JointState(header=message.header, name=['finger'], position=[0.0])
        both += [gripper, message]  # so that a status never ends with the gripper alone
    status = followed.play(both)
    assert status.rows == expected
    assert status.refused == len(messages)
    assert {s.message for s in followed.statuses if s.updates} == {''}


def test_effort_that_is_missing_or_not_finite(followed):
    messages = followed.states(seconds=3.0)
    for message in messages[300:310]:
        message.effort = []
    for message in messages[600:620]:
        message.effort[1] = np.nan
    status = followed.play(messages)
    followed.require_status('3 names but 0 values of effort')
    followed.require_status("effort of joint 'joint_2' is nan")
    assert status.refused == 30


def test_time_that_goes_back(followed):
    messages = followed.states(seconds=1.2)
    followed.play(messages)
    followed.play(messages)
    followed.require_status('the stamps went back by 1.2 s')
    assert (followed.status.gaps, followed.status.refused) == (1, 0)
    assert followed.status.state == OnlineStatus.LEARNING


def test_stamps_not_in_order(followed):
    messages = followed.states(seconds=1.5)
    messages[300:302] = messages[301], messages[300]
    status = followed.play(messages)
    assert status.disordered == 1
    assert status.gaps == 0


def test_estimates_with_terms_of_real_drives_are_those_of_the_core(follow):
    model = ModelSettings(breakaway=0.02, joint_springs=('joint_1',))
    channel = {'effort_delay': (0.01, 0.0, 0.02), 'effort_low_pass': 12.0}
    live = follow(model, **channel)
    messages = live.states()
    status = live.play(messages)
    assert (status.refused, status.gaps) == (0, 0)
    expected = live.expected(messages, model, **channel)
    assert expected.rows == status.rows > 0
    live.require(expected)
    assert 'joint_1.kc' in expected.layout
    # each of them changes the numbers
    plain = live.expected(messages, ModelSettings(joint_springs=('joint_1',)), **channel)
    without = live.expected(messages, model)
    for other in (plain, without):
        assert np.abs(other.values - expected.values).max() > 1e-3
