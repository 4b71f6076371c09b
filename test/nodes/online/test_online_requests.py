# SPDX-License-Identifier: Apache-2.0
"""Requests to the live identification: freeze, save, off and on; its process, its robot."""

from __future__ import annotations

import os
from pathlib import Path
import signal

import numpy as np
import pytest

pytest.importorskip('rclpy')

from rclpy.qos import DurabilityPolicy, QoSProfile
from robot_identification_msgs.msg import OnlineStatus, ParameterSet
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

RATE = 250.0
SECONDS = 4.0
QUEUE = QoSProfile(depth=5000)
ALL = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def test_freeze_and_resume(live):
    messages = live.states()
    live.play(messages[:500])
    answer = live.call(SetBool, 'freeze', data=True)
    assert answer.success, answer.message
    before = live.values()
    rows = live.status.rows
    live.play(messages[500:700], 1.0)
    assert live.status.state == OnlineStatus.FROZEN
    np.testing.assert_array_equal(live.values(), before)
    assert live.status.rows == rows
    assert live.call(SetBool, 'freeze', data=False).success
    live.play(messages[700:])
    assert live.status.rows > rows
    assert not np.array_equal(live.values(), before)


def test_save(live):
    from robot_identification.estimation import choose_prior
    from robot_identification.model.robot import Robot
    from robot_identification.regressor import ModelSettings, prior
    import yaml

    before = set(live.output.iterdir())
    early = live.call(Trigger, 'save')
    assert not early.success
    assert 'no live estimate' in early.message
    assert set(live.output.iterdir()) == before
    live.play(live.states())
    values = live.values()
    folders = [Path(live.call(Trigger, 'save').message.rpartition(' ')[2]) for _ in range(2)]
    assert folders[0] != folders[1]
    written = yaml.safe_load((folders[0] / 'online.yaml').read_text())
    assert [p['value'] for p in written['parameters']] == values.tolist()
    assert written['joint_states']['messages'] == SECONDS * RATE
    assert (folders[0] / 'state.npz').is_file()
    b = len(values)
    assert np.array(written['covariance'], dtype=float).shape == (b, b)
    # the next one can start from it
    robot = Robot.from_urdf(folders[0] / 'identified.urdf')
    told = choose_prior(str(folders[0] / 'online.yaml'), prior(robot, ModelSettings()))
    from robot_identification.base_parameters import structure
    from robot_identification.regressor import build

    base = structure(build(live.arm.robot, ModelSettings()), live.arm.robot)
    np.testing.assert_allclose(base.project(told).values, values, rtol=1e-6, atol=1e-9)


def test_off_and_on(live):
    answer = live.call(SetBool, 'enable', data=True)
    assert answer.success and 'already' in answer.message
    assert live.call(SetBool, 'enable', data=False).success
    live.wait(lambda s: s.state == OnlineStatus.OFF, 'off')
    for kind, name in ((Trigger, 'reset'), (Trigger, 'save'), (SetBool, 'freeze')):
        answer = live.call(kind, name)
        assert not answer.success
        assert '~/online/enable' in answer.message
    assert live.call(SetBool, 'enable', data=True).success
    live.wait(lambda s: s.state == OnlineStatus.WAITING, 'on', 60.0)
    live.ros.wait_until(lambda: live.publisher.get_subscription_count() == 1)
    assert live.play(live.states(seconds=1.0)).updates == 50


def test_process_that_is_killed(live):
    """It is told, the node answers, and it can be switched on again."""
    os.kill(live.follower_pid(), signal.SIGKILL)
    status = live.wait(lambda s: s.state == OnlineStatus.OFF, 'the end')
    assert 'ended' in status.message
    answer = live.call(Trigger, 'save')
    assert not answer.success and 'ended' in answer.message
    assert live.call(SetBool, 'enable', data=True).success
    live.wait(lambda s: s.state == OnlineStatus.WAITING, 'on', 60.0)


def test_another_robot(process):
    """A description that is replaced begins a new estimate, of the new robot."""
    ros, arm = process.ros, process.arm
    urdf = arm.urdf.read_text()
    description = ros.publish_description(urdf, '/other/robot_description')
    ros.start(
        'identification',
        parameters={'online.enabled': True, 'online.publish_rate': 20.0},
        namespace='/other',
    )
    statuses = ros.subscribe(OnlineStatus, '/other/identification/online/status', ALL)
    published = ros.latched(ParameterSet, '/other/identification/online/parameters')
    publisher = ros.publisher(JointState, '/other/joint_states', QUEUE)
    ros.wait_until(lambda: publisher.get_subscription_count() == 1, 60.0, 'the start')
    messages = process.states(seconds=1.5)
    for message in messages:
        publisher.publish(message)
    ros.wait_until(lambda: published and published[-1].robot == 'szabo_3r', 20.0, 'parameters')
    description.publish(String(data=urdf.replace('szabo_3r', 'another_3r')))
    ros.wait_until(
        lambda: any(s.state == OnlineStatus.STARTING for s in statuses[-5:]), 10.0, 'the change'
    )
    statuses.clear()
    ros.wait_until(
        lambda: statuses and statuses[-1].state == OnlineStatus.WAITING, 60.0, 'the start'
    )
    ros.wait_until(lambda: publisher.get_subscription_count() == 1, 10.0, 'the other one')
    for message in messages:
        publisher.publish(message)
    ros.wait_until(lambda: published[-1].robot == 'another_3r', 20.0, 'its parameters')
