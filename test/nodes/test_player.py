# SPDX-License-Identifier: Apache-2.0
"""The player: what it refuses, where it publishes, and for whom it waits."""

import os
from pathlib import Path
import signal
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy')

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robot_identification.cli import main
from robot_identification.errors import RecordingError, SettingsError
from robot_identification.nodes.player import play
from robot_identification_msgs.msg import OnlineStatus
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState


def test_a_recording_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(RecordingError, match='does not exist: correct the path') as caught:
        play(tmp_path / 'nothing')
    assert caught.value.file == str(tmp_path / 'nothing')


def test_a_start_beyond_the_end_is_refused(bags):
    with pytest.raises(SettingsError, match='no joint states 6.5 s after its first one'):
        play(bags['short'], start_offset=6.5)


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_part_is_played_again_and_again_until_it_is_stopped(ros, bags, number):
    """From the start offset on, for the duration, and once more; Ctrl-C ends it at once."""
    states = ros.subscribe(JointState, '/part', QoSProfile(depth=5000))
    command = [sys.executable, '-m', 'robot_identification.cli', 'play', str(bags['short'])]
    command += ['--to', '/part', '--clock', '0', '--rate', '2', '--loop']
    command += ['--start-offset', '4', '--playback-duration', '0.5']
    player = ros.start_command('player', command, wait=False)
    each = round(0.5 * 250.0) + 1
    ros.wait_until(lambda: len(states) > 2 * each, what='the part, twice')
    begin = time.monotonic()
    assert player.stop(number) == 0
    assert time.monotonic() - begin < 10.0
    assert player.lines[-1].startswith('played ')
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
    ros.wait_until(lambda: states and clock, what='joint states and clock')
    topics = {name for name, _ in ros.node.get_topic_names_and_types()}
    assert not topics & {'/clock', '/joint_states'}
    ros.wait_until(lambda: len(states) == 1500, what='all joint states')
    assert player.wait(15.0) == 0
    ticks = np.array([tick.clock.sec + 1e-9 * tick.clock.nanosec for tick in clock])
    assert (np.diff(ticks) > 0.0).all() and ticks[-1] - ticks[0] < 7.0


SLOW = """
import sys, time
if any('online_process' in word for word in sys.orig_argv):
    time.sleep(1.5)
"""
LATCHED = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
CLI = [sys.executable, '-m', 'robot_identification.cli']


def test_a_follower_that_starts_slowly_gets_the_recording_from_its_start(ros, arm, tmp_path):
    """Somebody else listens long before the process that follows the robot is there."""
    (tmp_path / 'sitecustomize.py').write_text(SLOW)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    states = ros.subscribe(JointState, '/joint_states', QoSProfile(depth=5000))
    statuses = ros.subscribe(OnlineStatus, '/identification/online/status', LATCHED)
    command = [*CLI, 'play', str(arm.bags['short']), '--rate', '2', '--follower', 'identification']
    player = ros.start_command('player', command, wait=False)
    ros.start(
        'identification',
        parameters={**arm.parameters, 'output': str(tmp_path), 'online.enabled': True},
        wait=False,
        PYTHONPATH=path,
    )
    ros.wait_until(lambda: statuses, 60.0, 'the first status')
    assert statuses[0].state == OnlineStatus.STARTING
    ros.wait_until(lambda: player.returncode is not None, 60.0, 'the end of the recording')
    assert player.returncode == 0, player.output
    ros.wait_until(lambda: len(states) >= 1500, what='what this process has not yet taken')
    assert len(states) == 1500
    ros.wait_until(lambda: statuses[-1].messages >= 1500, what='all joint states')
    assert statuses[-1].messages == 1500
    assert statuses[-1].lost == 0


def test_without_a_follower_nothing_is_played(ros, bags):
    states = ros.subscribe(JointState, '/joint_states', QoSProfile(depth=5000))
    command = [*CLI, 'play', str(bags['short']), '--follower', '/nobody', '--wait', '1']
    player = ros.start_command('player', command, wait=False)
    ros.wait_until(lambda: player.returncode is not None, what='the refusal')
    assert player.returncode == 2
    assert player.lines[-1] == (
        "error: '/nobody' is not ready for joint states after 1 s: it has not published its "
        'status: look at /nobody/online/status and at the log of the node, or wait longer'
    )
    assert not states


ROSBAG2 = """
import sys
import rclpy
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

rclpy.init()
node = rclpy.create_node('rosbag2_player')
states = node.create_publisher(JointState, '/joint_states', 5000)
resumed = []
node.create_service(Trigger, '~/resume', lambda _, answer: resumed.append(1) or answer)
while not resumed or not states.get_subscription_count():  # at the latest when it is discovered
    rclpy.spin_once(node, timeout_sec=0.05)
for number in range(300):
    message = JointState(name=['a'], position=[0.0], effort=[0.0])
    message.header.stamp.nanosec = number * 1000000
    states.publish(message)
states.wait_for_all_acked()
sys.exit(3)
"""
"""In place of ``ros2 bag play --start-paused``, which is not among the wheels."""


def test_a_paused_player_is_resumed_when_the_follower_is_connected(ros, arm, tmp_path):
    (tmp_path / 'player.py').write_text(ROSBAG2)
    service = tmp_path / 'rosbag2_interfaces' / 'srv.py'
    service.parent.mkdir()
    service.write_text('from std_srvs.srv import Trigger as Resume\n')
    statuses = ros.subscribe(OnlineStatus, '/identification/online/status', LATCHED)
    ros.start(
        'identification',
        parameters={**arm.parameters, 'output': str(tmp_path), 'online.enabled': True},
    )
    words = ['wait', '/identification', '--', sys.executable, str(tmp_path / 'player.py')]
    player = ros.start_command(
        'wait',
        [*CLI, *words, '--start-paused'],
        wait=False,
        PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
    )
    assert player.wait(150.0) == 3, player.output  # the player's own
    ros.wait_until(lambda: statuses[-1].messages == 300, 60.0, 'all messages')
    assert (statuses[-1].missed, statuses[-1].lost) == (0, 0)


def test_what_was_published_before_the_follower_came_is_counted(ros, arm, tmp_path):
    states = ros.publisher(JointState, '/joint_states', QoSProfile(depth=5000))
    for _ in range(50):
        states.publish(JointState(name=['a']))
    statuses = ros.subscribe(OnlineStatus, '/identification/online/status', LATCHED)
    ros.start(
        'identification',
        parameters={**arm.parameters, 'output': str(tmp_path), 'online.enabled': True},
    )
    ros.wait_until(lambda: statuses[-1].publishers == 1, 60.0, 'the connection')
    for _ in range(20):
        states.publish(JointState(name=['a']))
    ros.wait_until(lambda: statuses[-1].messages == 20, 60.0, 'the messages')
    assert (statuses[-1].missed, statuses[-1].lost) == (50, 0)


def test_a_command_does_not_run_for_nobody(tmp_path, ros):
    command = [*CLI, 'wait', '--timeout', '0.5', '/nobody', '--', 'touch', str(tmp_path / 'ran')]
    process = ros.start_command('wait', command, wait=False)
    assert process.wait(60.0) == 2
    assert "'/nobody' is not ready for joint states after 0.5 s" in process.output
    assert not Path(tmp_path / 'ran').exists()


def test_a_signal_ends_the_command_and_the_wait_for_it_in_order(running, tmp_path):
    mark = tmp_path / 'there'
    script = f"trap 'exit 1' INT; touch {mark}; while true; do sleep 0.1; done"
    command = [*CLI, 'wait', '/identification', '--', 'bash', '-c', script]
    process = running.start_command('wait', command, wait=False)
    running.wait_until(mark.exists, 60.0, 'the command')
    assert process.stop(signal.SIGINT) == 0, process.output


def test_a_signal_ends_the_wait_for_a_follower_in_order(ros, bags):
    command = [*CLI, 'play', str(bags['short']), '--follower', '/nobody']
    process = ros.start_command('player', command, wait=False)
    ros.wait_for_node('/player')
    assert process.stop(signal.SIGINT) == 0, process.output


def test_options_of_the_wait_go_before_the_node(capsys):
    assert main(['wait', '/identification', '--timeout', '5', '--', 'echo']) == 2
    assert capsys.readouterr().err == (
        "error: '--timeout' stands behind the node: give options before the node and the command "
        'after --\n'
    )


def test_a_command_runs_when_there_is_nothing_to_wait_for(running):
    """As `replay.launch.py` starts ``ros2 bag play``; the live identification is off here."""
    words = ['wait', '--timeout', '30', '/identification', '--']
    waits = [
        running.start_command('wait', [*CLI, *words, *command], wait=False)
        for command in (['echo', '--clock', 'run'], ['no-such-program'])
    ]
    assert [process.wait(60.0) for process in waits] == [0, 2]
    assert waits[0].lines == ['--clock run']
    assert waits[1].output.startswith("error: cannot run 'no-such-program': No such file")
