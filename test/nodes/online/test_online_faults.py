# SPDX-License-Identifier: Apache-2.0
"""Faults of the joint states are reported, and the online estimate goes on."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip('rclpy')

from robot_identification_msgs.msg import OnlineStatus
from sensor_msgs.msg import JointState

from benchmarks.load import busy_processes


def test_states_that_stop(live):
    live.play(live.states(seconds=1.0))
    live.told('no joint states for')
    assert live.status.state == OnlineStatus.WAITING
    rows = live.status.rows
    live.play(live.shifted(live.states(2, 1.0), 3.0))
    assert live.status.gaps == 1
    assert live.status.rows > rows


def test_states_at_half_the_rate(live):
    live.play(live.states(seconds=1.0))
    slow = live.shifted(live.states(2, 2.0), 1.0)[::2]
    live.play(slow, 1.0)
    live.told('joint states come at 125 Hz, at the start it was 250 Hz')
    assert live.status.gaps == 0


def test_a_joint_that_is_lost(live):
    messages = live.states(seconds=2.0)
    for message in messages[300:400]:
        message.name = message.name[:2]
        for field in ('position', 'velocity', 'effort'):
            setattr(message, field, getattr(message, field)[:2])
    status = live.play(messages, 1.0)
    live.told("joint 'joint_3' is not in the joint states")
    assert status.refused == 100
    assert status.gaps == 1


def test_other_joints(live):
    messages = live.states(seconds=1.0)
    for message in messages:
        message.name = ['a', 'b', 'c']
    status = live.play(messages, 1.0)
    live.told("joint 'joint_1' is not in the joint states")
    assert status.state == OnlineStatus.WAITING
    assert (status.updates, status.refused) == (0, len(messages))


def test_a_gripper_on_the_same_topic(live):
    """Its states, which have none of the joints, are no trouble."""
    messages = live.states(seconds=1.2)
    expected = live.expected(messages).rows
    both = []
    for message in messages:
        gripper = JointState(header=message.header, name=['finger'], position=[0.0])
        both += [message, gripper]
    live.statuses.clear()
    live.wait(lambda s: True, 'a status')
    status = live.play(both, 1.0)
    assert status.rows == expected
    assert status.refused == len(messages)
    assert {s.message for s in live.statuses if s.updates} == {''}


def test_effort_that_is_missing_or_not_finite(live):
    messages = live.states(seconds=3.0)
    for message in messages[300:310]:
        message.effort = []
    for message in messages[600:620]:
        message.effort[1] = np.nan
    status = live.play(messages, 1.0)
    live.told('3 names but 0 values of effort')
    live.told("effort of joint 'joint_2' is nan")
    assert status.refused == 30


def test_time_that_goes_back(live):
    messages = live.states(seconds=1.2)
    live.play(messages, 2.0)
    live.play(messages, 2.0)
    live.told('the stamps went back by 1.2 s')
    assert (live.status.gaps, live.status.refused) == (1, 0)
    assert live.status.state == OnlineStatus.LEARNING


def test_stamps_not_in_order(live):
    messages = live.states(seconds=1.5)
    messages[300:302] = messages[301], messages[300]
    status = live.play(messages, 1.0)
    assert status.disordered == 1
    assert status.gaps == 0


def test_nothing_is_lost_beside_busy_processes(live):
    """At 1 kHz, and without the real-time priority that the process asks for."""
    pid = live.follower_pid()
    policy, parameters = os.sched_getscheduler(pid), os.sched_getparam(pid)
    _schedule(pid, os.SCHED_OTHER, os.sched_param(0))
    try:
        with busy_processes():
            status = live.play(live.states(), speed=4.0)
    finally:
        _schedule(pid, policy, parameters)
    assert (status.messages, status.lost, status.disordered) == (1000, 0, 0)
    status = live.wait(lambda s: s.updates == 1000 - 200, 'all updates')
    live.ros.wait_until(
        lambda: values_of(live)['updates'] == '800', 5.0, 'the diagnostic of all updates'
    )
    values = values_of(live)
    assert (values['lost'], values['late updates']) == ('0', str(status.late_updates))


def values_of(live):
    return {pair.key: pair.value for pair in live.report('online').values}


def _schedule(pid, policy, parameters):
    for thread in os.listdir(f'/proc/{pid}/task'):
        os.sched_setscheduler(int(thread), policy, parameters)
