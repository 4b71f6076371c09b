# SPDX-License-Identifier: Apache-2.0
"""What the player refuses before anything is published, and where it publishes."""

import signal
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy')

from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_identification.errors import RecordingError, SettingsError
from robot_identification.nodes.player import play
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState


def test_a_recording_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(RecordingError, match='does not exist: correct the path') as caught:
        play(tmp_path / 'nothing')
    assert caught.value.file == str(tmp_path / 'nothing')


def test_a_start_beyond_the_end_is_refused(bags):
    with pytest.raises(SettingsError, match='no joint states 6.5 s after its first one'):
        play(bags['short'], start_offset=6.5)


def test_a_part_is_played_again_and_again_until_it_is_stopped(ros, bags):
    """From the start offset on, for the duration, and once more; Ctrl-C ends it at once."""
    states = ros.subscribe(JointState, '/part', QoSProfile(depth=5000))
    command = [sys.executable, '-m', 'robot_identification.cli', 'play', str(bags['short'])]
    command += ['--to', '/part', '--clock', '0', '--rate', '2', '--loop']
    command += ['--start-offset', '4', '--playback-duration', '0.5']
    player = ros.start_command('player', command, wait=False)
    each = round(0.5 * 250.0) + 1
    ros.wait_until(lambda: len(states) > 2 * each, 30.0, 'the part, twice')
    begin = time.monotonic()
    assert player.stop(signal.SIGTERM) != 0
    assert time.monotonic() - begin < 10.0
    stamps = [s.header.stamp.sec + 1e-9 * s.header.stamp.nanosec for s in states]
    once = 1.0 + 4.0 + np.arange(each) / 250.0
    np.testing.assert_allclose(stamps[: 2 * each], np.tile(once, 2), atol=1e-8)


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
