# SPDX-License-Identifier: Apache-2.0
"""What the player refuses before anything is published, and where it publishes."""

import sys

import pytest

pytest.importorskip('rclpy')

from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_identification.errors import RecordingError
from robot_identification.nodes.player import play
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState


def test_a_recording_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(RecordingError, match='does not exist: correct the path') as caught:
        play(tmp_path / 'nothing')
    assert caught.value.file == str(tmp_path / 'nothing')


def test_states_and_clock_go_where_they_are_wanted(ros, bags):
    """As `replay.launch.py` does for a robot in a namespace: nothing is played outside of it."""
    sure = QoSProfile(depth=5000)
    states = ros.subscribe(JointState, '/left/joint_states', sure)
    unsure = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
    clock = ros.subscribe(Clock, '/left/clock', unsure)
    command = [sys.executable, '-m', 'robot_identification.cli', 'play', str(bags['short'])]
    command += ['--to', '/left/joint_states', '--clock-topic', '/left/clock', '--rate', '5']
    player = ros.start_command('player', command, wait=False)
    ros.wait_until(lambda: states and clock, 30.0, 'joint states and clock')
    topics = {name for name, _ in ros.node.get_topic_names_and_types()}
    assert not topics & {'/clock', '/joint_states'}
    ros.wait_until(lambda: len(states) == 1500, 30.0, 'all joint states')
    assert player.wait(15.0) == 0
