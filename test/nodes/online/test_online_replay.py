# SPDX-License-Identifier: Apache-2.0
"""A replay gives the estimates of the live run, to the last bit."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip('rclpy')

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robot_identification_msgs.msg import OnlineStatus, ParameterSet
from robot_identification_msgs.srv import StartRecording, StopRecording
from rosgraph_msgs.msg import Clock
from std_srvs.srv import Trigger

ALL = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def recorded(live, messages, folder):
    """Follow the messages live while the recorder records them; return its bag."""
    ros = live.ros
    ros.start('recorder', parameters={'output': str(folder)})
    answer = ros.call(StartRecording, '/recorder/start', name='run')
    assert answer.success, answer.message
    ros.wait_until(lambda: live.publisher.get_subscription_count() == 2, 60.0, 'both listeners')
    status = live.play(messages, 2.0)
    assert status.lost == 0
    answer = ros.call(StopRecording, '/recorder/stop')
    assert (answer.messages, answer.dropped) == (len(messages), 0), answer.message
    return answer.path


def test_what_the_recorder_recorded_gives_what_the_live_run_gave(live, tmp_path):
    """Played with /clock, at 2x and 10x, to the last bit, whenever messages come."""
    arm, ros = live.arm, live.ros
    messages = live.states(4, 3.0)
    bag = recorded(live, messages, tmp_path)
    expected = live.values()
    found = []
    ros.start(
        'identification',
        parameters={
            **arm.parameters,
            'signals.trim': 0.0,
            'online.enabled': True,
            'online.publish_rate': 20.0,
            'online.deadline': 1e-5,
            'use_sim_time': True,
        },
        namespace='/replay',
    )
    statuses = ros.subscribe(OnlineStatus, '/replay/identification/online/status', ALL)
    published = ros.latched(ParameterSet, '/replay/identification/online/parameters')
    unsure = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
    clock = ros.subscribe(Clock, '/clock', unsure)
    ros.wait_until(
        lambda: statuses and statuses[-1].state == OnlineStatus.WAITING, 60.0, 'the start'
    )
    clocks = []
    for rate in ('2.0', '10.0'):
        played = ros.start_command(
            'player',
            [sys.executable, '-m', 'robot_identification.cli', 'play', bag, '--rate', rate]
            + ['--to', '/replay/joint_states'],
            wait=False,
        )
        ros.wait_until(lambda p=played: p.returncode is not None, 60.0, 'the end')
        assert played.returncode == 0, played.output
        assert f'played {len(messages)} joint states' in played.output
        ros.wait_until(lambda: statuses[-1].updates == len(messages) - 200, 60.0, 'all updates')
        ros.spin(0.2)
        assert statuses[-1].lost == 0
        # none is done within 10 us: all of them are late, and counted
        assert statuses[-1].late_updates == statuses[-1].updates
        assert any('updates took longer than 0.010 ms' in s.message for s in statuses)
        found.append(np.array([p.value for p in published[-1].parameters]))
        clocks.append([message.clock.sec + 1e-9 * message.clock.nanosec for message in clock])
        assert ros.call(Trigger, '/replay/identification/online/reset').success
        ros.wait_until(lambda: statuses[-1].messages == 0, 60.0, 'the reset')
    ticks = np.array(clocks[0])  # sent without guarantees: at 10x, hardly long enough to be found
    assert (np.diff(ticks) > 0.0).all()
    assert 0.0 < ticks[-1] - ticks[0] < 4.0
    live.require(live.expected(messages))
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected)
