# SPDX-License-Identifier: Apache-2.0
"""States of a trajectory controller in bags, written by rosbags from the interface's own file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rosbags')

from robot_identification.cli import main
from robot_identification.config.commands import read_commands
from robot_identification.config.experiment_file import load_experiment
from robot_identification.data.controller_states import (
    CONTROLLER_STATE,
    controller_state_topics,
    read_controller_states,
)
from robot_identification.data.drives import Drives, PositionDrive
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import RecordingError
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import get_types_from_msg, get_typestore, Stores

ROOT = Path(__file__).resolve().parents[2]
INTERFACE = ROOT / 'interfaces' / 'control_msgs' / 'msg' / 'JointTrajectoryControllerState.msg'
URDF = ROOT / 'urdf' / 'szabo_3r.urdf'
JOINTS = ('joint_1', 'joint_2', 'joint_3')
ORDER = ('joint_3', 'joint_1', 'joint_2')
"""In the messages."""


@pytest.fixture(scope='module')
def store():
    made = get_typestore(Stores.ROS2_JAZZY)
    made.register(get_types_from_msg(INTERFACE.read_text(), CONTROLLER_STATE))
    return made


def motion(count=400):
    time = 0.005 * np.arange(count)
    command = np.column_stack([np.sin((k + 1.0) * time) for k in range(3)])
    return time, command, 0.9 * command, 0.8 * command


BACK = 100_000_000
"""Time by which a clock is set back in the middle [ns]."""


def write(
    store,
    path,
    topics=('/arm/controller_state',),
    names=ORDER,
    plugin=StoragePlugin.MCAP,
    back=0,
):
    kinds = store.types
    none = np.empty(0)
    duration = kinds['builtin_interfaces/msg/Duration'](0, 0)

    def point(positions=none, velocities=none):
        return kinds['trajectory_msgs/msg/JointTrajectoryPoint'](
            positions, velocities, none, none, duration
        )

    other = kinds['trajectory_msgs/msg/MultiDOFJointTrajectoryPoint']([], [], [], duration)
    time, *signals = motion()
    columns = [JOINTS.index(name) for name in names]
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        for topic in topics:
            connection = writer.add_connection(topic, CONTROLLER_STATE, typestore=store)
            for stamp, command, position, velocity in zip(time, *signals, strict=True):
                at = 1_700_000_000 * 10**9 + round(1e9 * stamp)
                shown = at - (back if stamp >= 1.0 else 0)
                clock = kinds['builtin_interfaces/msg/Time'](shown // 10**9, shown % 10**9)
                message = kinds[CONTROLLER_STATE](
                    kinds['std_msgs/msg/Header'](clock, 'base'),
                    list(names),
                    point(command[columns]),
                    point(position[columns], velocity[columns]),
                    point(),
                    point(command[columns]),
                    [],
                    other,
                    other,
                    other,
                    other,
                    1.0,
                )
                writer.write(connection, at, store.serialize_cdr(message, CONTROLLER_STATE))
    return path


@pytest.mark.parametrize('plugin', StoragePlugin, ids=lambda each: each.name)
def test_reference_and_feedback_come_in_the_order_of_the_joints(store, tmp_path, plugin):
    bag = write(store, tmp_path / 'run', plugin=plugin)
    assert controller_state_topics(bag) == ('/arm/controller_state',)
    states = read_controller_states(bag, JOINTS)
    time, command, position, velocity = motion()
    np.testing.assert_allclose(states.time, time, atol=1e-9)
    for found, written in zip(states[1:4], (command, position, velocity), strict=True):
        np.testing.assert_array_equal(found, written)


def test_a_bag_is_a_recording_of_commands(store, tmp_path):
    write(store, tmp_path / 'run')
    entry = RecordingEntry(file='run', time_range=(0.5, None))
    drives = Drives(position=PositionDrive(matrix=tuple(np.eye(3)), offset=(0.1, 0.0, 0.0)))
    recording = read_commands(entry, JOINTS, drives, tmp_path)
    time, command, position, _ = motion()
    kept = time >= 0.5 - 1e-12
    assert len(recording.time) == kept.sum()
    for found, written in ((recording.command, command), (recording.position, position)):
        np.testing.assert_array_equal(found, drives.joint_position(written[kept]))


def test_rows_and_times_of_an_entry_cut_it(store, tmp_path):
    write(store, tmp_path / 'run')
    entry = RecordingEntry(file='run', rows=(100, 200))
    recording = read_commands(entry, JOINTS, None, tmp_path)
    np.testing.assert_allclose(recording.time, motion()[0][100:200], atol=1e-9)
    with pytest.raises(RecordingError, match='run'):
        read_commands(replace(entry, rows=None, time_range=(99.0, None)), JOINTS, None, tmp_path)


def test_init_takes_a_controllers_bag(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(store, tmp_path / 'run')
    words = ['init', str(URDF), 'run', '--kp', '100', '--kd', '5', '--timestep', '0.002']
    assert main([*words, '--out', 'drafted.yaml']) == 0
    experiment = load_experiment('drafted.yaml')
    (entry,) = experiment.data.identification
    assert (entry.file, entry.topic) == ('run', '/arm/controller_state')
    assert experiment.robot.servo.stiffness == 100.0


def test_what_cannot_be_used_is_named(store, tmp_path):
    two = write(store, tmp_path / 'two', topics=('/left/state', '/right/state'))
    with pytest.raises(RecordingError, match='the controllers /left/state, /right/state: name'):
        read_controller_states(two, JOINTS)
    assert len(read_controller_states(two, JOINTS, '/right/state').time) == 400
    with pytest.raises(RecordingError, match="no joint 'wrist': it has joint_3, joint_1, joint_2"):
        read_controller_states(two, ('joint_1', 'wrist'), '/left/state')
    with pytest.raises(RecordingError, match="topic '/other' is not in it"):
        read_controller_states(two, JOINTS, '/other')


@pytest.mark.parametrize('length', [0, 3, 10, 40, 90])
def test_messages_that_end_early_are_refused(store, tmp_path, length):
    path = tmp_path / 'broken'
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection('/state', CONTROLLER_STATE, typestore=store)
        writer.write(connection, 1, (b'\x00\x01\x00\x00' + b'\x01' * 200)[:length])
    with pytest.raises(RecordingError, match='state of a controller cannot be read'):
        read_controller_states(path, JOINTS)


def write_topics(store, path, kind, back=0):
    """Write states at 400 Hz with stamps, and commands at 200 Hz in the joints' order."""
    kinds, none = store.types, np.empty(0)
    time, command, position, _ = motion()
    with Writer(path, version=9) as writer:
        states = writer.add_connection(
            '/joint_states', 'sensor_msgs/msg/JointState', typestore=store
        )
        sent = writer.add_connection('/arm/commands', kind, typestore=store)
        for k in range(2 * len(time) - 1):
            at = 1_700_000_000 * 10**9 + 2_500_000 * k
            shown = at - (back if k >= len(time) else 0)
            header = kinds['std_msgs/msg/Header'](
                kinds['builtin_interfaces/msg/Time'](shown // 10**9, shown % 10**9), ''
            )
            now = (
                position[k // 2] if k % 2 == 0 else 0.5 * (position[k // 2] + position[k // 2 + 1])
            )
            state = kinds['sensor_msgs/msg/JointState'](header, list(JOINTS), now, none, none)
            writer.write(states, at, store.serialize_cdr(state, 'sensor_msgs/msg/JointState'))
            if k % 2:
                continue
            if kind.startswith('sensor'):
                backwards = command[k // 2][::-1].copy()
                message = kinds[kind](header, list(JOINTS[::-1]), backwards, none, none)
            else:
                duration = kinds['builtin_interfaces/msg/Duration'](0, 0)
                message = kinds[kind](command[k // 2], command[k // 2], none, none, duration)
            writer.write(sent, at, store.serialize_cdr(message, kind))
    return path


@pytest.mark.parametrize(
    'kind', ['sensor_msgs/msg/JointState', 'trajectory_msgs/msg/JointTrajectoryPoint']
)
def test_commands_and_states_of_two_topics_are_joined(store, tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_topics(store, tmp_path / 'run', kind)
    arguments = ['--kp', '20', '--kd', '1', '--timestep', '0.002', '--out', 'e.yaml']
    assert main(['init', str(URDF), 'run', *arguments]) == 0
    (entry,) = load_experiment('e.yaml').data.identification
    assert (entry.topic, entry.command) == ('/joint_states', '/arm/commands')
    found = read_commands(entry, JOINTS, None, tmp_path)
    time, command, position, _ = motion()
    np.testing.assert_allclose(found.time, time, atol=1e-9)
    np.testing.assert_allclose(found.command, command)
    np.testing.assert_allclose(found.position, position, atol=1e-12)
    assert (found.command_velocity is not None) == ('Point' in kind)


def test_a_clock_that_was_set_back_is_named(store, tmp_path):
    write(store, tmp_path / 'controller', back=BACK)
    write_topics(store, tmp_path / 'topics', 'sensor_msgs/msg/JointState', back=BACK)
    for entry in (
        RecordingEntry(file='controller'),
        RecordingEntry(file='topics', topic='/joint_states', command='/arm/commands'),
    ):
        with pytest.raises(RecordingError, match='goes back in time: the clock was set back'):
            read_commands(entry, JOINTS, None, tmp_path)


def test_topics_of_commands_that_do_not_fit_are_named(store, tmp_path):
    bag = write_topics(store, tmp_path / 'run', 'trajectory_msgs/msg/JointTrajectoryPoint')
    entry = RecordingEntry(file=str(bag), command='/arm/commands')
    for joints, command, message in (
        (JOINTS[:2], '/arm/commands', 'points of 3 positions for 2 joints'),
        (('other',), '/arm/commands', "no joint 'other'"),
        (JOINTS, '/nothing', "'/nothing'"),
    ):
        with pytest.raises(RecordingError, match=message):
            read_commands(replace(entry, command=command), joints, None, tmp_path)
