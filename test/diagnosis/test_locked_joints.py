# SPDX-License-Identifier: Apache-2.0
"""Locked joints beside recordings: absent, still, elsewhere, moving, and names left over."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.config.experiment import DataSettings, Experiment, RobotSettings
from robot_identification.config.recorded_joints import recorded_joints
from robot_identification.config.sources import open_recording
from robot_identification.data.bag_writer import BagWriter, Topic
from robot_identification.data.drives import Drives, PositionDrive
from robot_identification.data.joint_state import typestore
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.diagnosis.locked_joints import faults_of_locked, remarks_on_locked
from robot_identification.identification.pipeline import identify
from robot_identification.model.robot import Robot
from robot_identification.verdicts.verdict import verdict

KIND = 'sensor_msgs/msg/JointState'
LINK = (
    '<link name="{child}"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.2" izz="0.2" '
    'ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="{name}" type="{kind}">'
    '<parent link="{parent}"/><child link="{child}"/><axis xyz="0 0 1"/>'
    '<limit lower="-9" upper="9" effort="9" velocity="9"/>{more}</joint>'
)
PLACE = 0.4


def robot_of(**locked):
    chain = (('arm', 'revolute'), ('wrist joint', 'revolute'), ('finger', 'prismatic'))
    links, parent = [], 'base'
    for name, kind in chain:
        more = LINK.format(name=name, kind=kind, parent=parent, child=f'l_{name}', more='')
        links.append(more)
        parent = f'l_{name}'
    follower = '<mimic joint="finger"/>'
    links.append(
        LINK.format(name='twin', kind='prismatic', parent=parent, child='l_twin', more=follower)
    )
    text = f'<robot name="r"><link name="base"/>{"".join(links)}</robot>'
    return Robot.from_urdf(text, ['arm'], locked={'wrist joint': 0.0, 'finger': 0.0, **locked})


def bag(folder, states):
    """Write states, (n,) positions by name."""
    store = typestore()
    kinds = store.types
    with BagWriter(folder, [Topic('/joint_states', KIND)]) as writer:
        for row in range(100):
            stamp = kinds['builtin_interfaces/msg/Time'](1, row * 10_000_000)
            header = kinds['std_msgs/msg/Header'](stamp, '')
            values = np.array([np.broadcast_to(v, 100)[row] for v in states.values()], dtype=float)
            message = kinds[KIND](header, list(states), values, values, values)
            data = bytes(store.serialize_cdr(message, KIND))
            writer.write(0, row, data, publish_time=row)
    return RecordingEntry(file=str(folder))


def table(folder, states):
    folder.mkdir()
    path = folder / 'run.csv'
    time = np.arange(100) / 100.0
    columns = [time, time, *(np.broadcast_to(values, 100) for values in states.values())]
    header = ','.join(['t', 'arm_effort', *(f'{name}_position' for name in states)])
    np.savetxt(path, np.column_stack(columns), delimiter=',', header=header, comments='')
    return RecordingEntry(
        file=str(path), time='t', position=('arm_position',), effort=('arm_effort',)
    )


def remarks(robot, entry):
    source = open_recording(entry, robot.joints)
    return remarks_on_locked(robot, [recorded_joints(source, robot, list(robot.locked))])


@pytest.mark.parametrize('write', [bag, table])
def test_each_locked_joint_is_told_by_what_it_does(tmp_path, write):
    ramp = np.linspace(0.0, 1.0, 100)
    still = {'arm': ramp, 'wrist joint': 0.0, 'finger': 0.0}
    (text,) = remarks(robot_of(), write(tmp_path / 'still', still))
    # what mimics a locked joint follows it, and is not told
    assert "stands still: 'wrist joint' at 0 rad, 'finger' at 0 m" in text
    moving, standing = remarks(
        robot_of(), write(tmp_path / 'moving', {**still, 'wrist joint': ramp})
    )
    assert "'wrist joint' is locked at 0 rad and moves from 0 to " in moving
    assert 'robot.joints' in moving and "'finger' at 0 m" in standing
    elsewhere, _ = remarks(robot_of(), write(tmp_path / 'elsewhere', {**still, 'finger': PLACE}))
    assert "'finger' is locked at 0 m and stands at 0.4 m" in elsewhere
    assert 'robot.locked' in elsewhere
    (text,) = remarks(robot_of(finger=PLACE), write(tmp_path / 'set', {**still, 'finger': PLACE}))
    assert 'stands still' in text


@pytest.mark.parametrize('write', [bag, table])
def test_names_that_are_alike_are_told_first(tmp_path, write):
    ramp = np.linspace(0.0, 1.0, 100)
    states = {'arm': ramp, 'wrist_joint': ramp, 'finger': 0.0, 'lamp': 0.0}
    if write is table:  # words of columns are compared without what stands between them
        states = {'arm': ramp, 'wrist': ramp, 'finger': 0.0}
    absent, still = remarks(robot_of(), write(tmp_path / 'run', states))
    assert "do not have it: 'wrist joint' at 0 rad" in absent
    assert ('wrist_joint' if write is bag else 'wrist_position') in absent
    assert 'lamp' not in absent and 'finger' in still


@pytest.mark.parametrize('write', [bag, table])
def test_a_joint_that_does_not_follow_what_it_mimics_is_told(tmp_path, write):
    ramp = np.linspace(0.0, 1.0, 100)
    robot = Robot.from_urdf(robot_of().urdf, ['arm', 'finger'], locked={'wrist joint': 0.0})
    still = {'arm': ramp, 'wrist joint': 0.0, 'finger': ramp}
    for name, twin, told in (('with', ramp, ''), ('apart', 0.4 * ramp, "'twin' is up to 0.")):
        entry = write(tmp_path / name, {**still, 'twin': twin})
        source = open_recording(entry, ('arm',))
        seen = recorded_joints(source, robot, [*robot.locked])
        faults, _ = faults_of_locked(robot, [seen])
        assert [fault.joints for fault in faults] == [('twin',)] * bool(told)
        assert told in ''.join(map(str, faults))


def test_a_joint_that_is_recorded_without_what_it_mimics_is_told(tmp_path):
    ramp = np.linspace(0.0, 1.0, 100)
    entry = bag(tmp_path / 'run', {'arm': ramp, 'wrist joint': 0.0, 'twin': 0.5 * ramp})
    moving, *_ = remarks(robot_of(), entry)
    assert "joint 'twin' is locked at 0 m and moves" in moving and 'robot.joints' in moving
    # as the remedy says
    robot = Robot.from_urdf(robot_of().urdf, ['arm', 'twin'], locked={'wrist joint': 0.0})
    assert robot.mimics.names == ('finger',)


def test_names_of_no_joint_are_told(tmp_path):
    states = {'arm': 0.5, 'wrist joint': 0.0, 'finger': 0.0, 'lamp': 0.0}
    passed, _ = remarks(robot_of(), bag(tmp_path / 'run', states))
    assert 'passed over' in passed and 'lamp' in passed


def test_a_locked_joint_that_moves_lowers_the_verdict(tmp_path):
    """It is a fault of the recordings and a warning; one that stands is told as left out."""
    ramp = np.linspace(0.0, 1.0, 100)
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text(robot_of().urdf)
    levels = {}
    for what, finger in (('still', 0.0), ('moving', 0.3 * ramp), ('elsewhere', 0.2)):
        entry = long_table(tmp_path / what, finger)
        settings = RobotSettings(
            urdf=str(urdf), joints=('arm',), effort_kind='joint_torque',
            locked={'wrist joint': 0.0, 'finger': 0.0},
        )  # fmt: skip
        data = DataSettings(identification=(entry,))
        result = identify(Experiment(robot=settings, data=data, auto=False))
        found = [each for each in result.recorded.diagnosis if each.code == 'locked_joint']
        levels[what] = verdict(result).against
        warned = [text for text in result.warnings if "'finger' is locked at 0 m" in text]
        assert len(found) == len(warned) == (what != 'still'), what
        assert any('stands still' in text for text in result.omissions)
        if found:
            (reason,) = (r for r in levels[what] if 'locked_joint' in r.text)
            assert not reason.remark and reason.joints == ('finger',)
            assert reason.text not in {r.text for r in levels['still']}
            assert len(levels[what]) == len(levels['still']) + 1


def test_a_joint_with_nearly_its_name_in_the_recording_is_a_fault(tmp_path):
    ramp = np.linspace(0.0, 1.0, 100)
    states = {'arm': ramp, 'wrist_joint': ramp, 'finger': 0.0, 'lamp': 0.0}
    robot = robot_of()
    source = open_recording(bag(tmp_path / 'run', states), robot.joints)
    seen = [recorded_joints(source, robot, list(robot.locked))]
    (fault,), _ = faults_of_locked(robot, seen)
    assert (fault.code, fault.joints) == ('locked_joint', ('wrist joint',))
    assert 'the recordings have wrist_joint' in fault.evidence and 'rename' in fault.remedy
    # a name that is like none may be of anything
    source = open_recording(bag(tmp_path / 'other', {'arm': ramp, 'lamp': ramp}), robot.joints)
    faults, remarks = faults_of_locked(robot, [recorded_joints(source, robot, [*robot.locked])])
    assert not faults and 'lamp' in remarks[0]


def long_table(folder, finger):
    """Write a recording that identifies the arm, with a finger beside it."""
    folder.mkdir()
    time = np.arange(2000) / 100.0
    arm = np.sin(time) + 0.4 * np.sin(2.7 * time)
    speed = np.cos(time) + 1.08 * np.cos(2.7 * time)
    turn = -np.sin(time) - 2.916 * np.sin(2.7 * time)
    noise = 0.01 * np.random.default_rng(0).standard_normal(time.size)
    effort = 0.6 * turn + 0.3 * np.sign(speed) + 0.2 * speed + noise
    wide = np.interp(time, np.linspace(0.0, 20.0, 100), np.broadcast_to(finger, 100))
    path = folder / 'run.csv'
    columns = np.column_stack([time, arm, effort, 0.0 * time, wide])
    header = 't,arm_position,arm_effort,wrist joint_position,finger_position'
    np.savetxt(path, columns, delimiter=',', header=header, comments='')
    return RecordingEntry(
        file=str(path), time='t', position=('arm_position',), effort=('arm_effort',)
    )


@pytest.mark.parametrize(
    ('matrix', 'place'),
    [
        ([[np.pi / 180.0]], PLACE),
        (None, np.degrees(PLACE)),
        ([[np.pi / 180.0, 0.1]], np.nan),
    ],
)
def test_positions_of_locked_joints_go_through_the_drives_as_the_others_do(
    tmp_path, matrix, place
):
    time = np.arange(0.0, 2.0, 0.01)
    columns = np.column_stack([time, 30.0 * np.sin(time), np.full(time.size, np.degrees(PLACE))])
    header = 't,arm_position,wrist joint_position'
    np.savetxt(tmp_path / 'run.csv', columns, delimiter=',', header=header, comments='')
    position = ('arm_position', 't')[: 1 if matrix is None else len(matrix[0])]
    entry = RecordingEntry(file='run.csv', time='t', position=position, effort=('t',))
    drive = None if matrix is None else PositionDrive(tuple(map(tuple, matrix)))
    source = open_recording(entry, ('arm',), Drives(position=drive), tmp_path)
    robot = robot_of(**{'wrist joint': PLACE})
    seen = recorded_joints(source, robot, ['wrist joint'])
    np.testing.assert_allclose(seen.positions['wrist joint'], place)
    faults, remarks = faults_of_locked(robot, [seen])
    assert bool(faults) == (matrix is None)
    assert np.isfinite(place) or any('not compared with the recordings' in r for r in remarks)
