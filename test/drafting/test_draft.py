# SPDX-License-Identifier: Apache-2.0
"""Drafts of experiment files: what is read by them is what was recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gripper_arm import gripper
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.sources import open_recording
from robot_identification.data.bag_writer import BagWriter, Qos, Topic
from robot_identification.diagnosis.recording_faults import read_first_rows
from robot_identification.drafting.draft import draft, evidence_of_gravity
from robot_identification.drafting.entry_guess import guess_entry
from robot_identification.drafting.settings import DraftSettings
from robot_identification.errors import RecordingError, SettingsError
from robot_identification.identification.pipeline import identify
from robot_identification.model.robot import Robot
from scipy.io import savemat
import yaml

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
KNOWN = DraftSettings(effort_kind='joint_torque')


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


@pytest.fixture(scope='module')
def motion(robot):
    """Make time, positions, velocities and joint torques of the robot as in its URDF."""
    time = np.arange(2000) / 250.0
    speed, phase = np.array([1.3, 0.9, 1.7]), np.array([0.1, 0.7, 1.9])
    angle = time[:, None] * speed + phase
    position, velocity = 0.8 * np.sin(angle), 0.8 * speed * np.cos(angle)
    data = robot.model.createData()
    rows = zip(position, velocity, -(speed**2) * position, strict=True)
    effort = np.array([pin.rnea(robot.model, data, *row) for row in rows])
    return time, position, velocity, effort + 0.3 * np.sign(velocity)


def table(path, motion, header='t,q1,q2,q3,v1,v2,v3,tau1,tau2,tau3', columns=slice(None)):
    values = np.column_stack(motion)[:, columns]
    np.savetxt(path, values, '%.12g', ',', header=header, comments='')
    return path


def written(found, folder):
    """Write the experiment file and read it and its first recording."""
    path = folder / 'experiment.yaml'
    path.write_text(found.text(URDF, folder))
    experiment = load_experiment(path)
    (block,) = read_first_rows(experiment.sources()[:1])
    return experiment, block


def check(block, motion):
    time, position, velocity, effort = motion
    np.testing.assert_allclose(block.time - block.time[0], time, atol=1e-6)
    np.testing.assert_allclose(block.position, position, atol=1e-9)
    if block.velocity is not None:
        np.testing.assert_allclose(block.velocity, velocity, atol=1e-9)
    np.testing.assert_allclose(block.effort, effort, rtol=1e-9, atol=1e-9)


def test_a_table_with_names_is_read(tmp_path, motion, robot):
    files = [table(tmp_path / name, motion) for name in ('a.csv', 'b.csv', 'c.csv')]
    found = draft(URDF, files, KNOWN)
    experiment, block = written(found, tmp_path)
    check(block, motion)
    assert len(experiment.data.identification) == 2
    assert experiment.data.validation[0].file == 'c.csv'
    assert experiment.robot.joints == robot.joints
    summary = found.summary()
    assert '250 Hz' in summary and 'suggests joint_torque' in summary
    # what is found out is told beside the key that it is for
    assert 'suggests joint_torque' in (tmp_path / 'experiment.yaml').read_text()


def test_a_table_without_names_is_told_apart_by_content(tmp_path, motion):
    path = tmp_path / 'run.txt'
    np.savetxt(path, np.column_stack(motion), '%.12g', '\t')
    found = draft(URDF, [path], KNOWN)
    check(written(found, tmp_path)[1], motion)
    assert 'by content, check them' in found.summary()


@pytest.mark.parametrize(('unit', 'scale'), [('s', 1.0), ('ms', 1e3), ('us', 1e6), ('ns', 1e9)])
@pytest.mark.parametrize('since', [0.0, 5e5, 1.7e9], ids=['start', 'boot', '1970'])
def test_the_unit_of_stamps_is_found(tmp_path, motion, unit, scale, since):
    time, *others = motion
    path = tmp_path / 'run.csv'
    stamps = np.char.mod('%.6f', scale * (since + time))
    rows = np.column_stack((stamps, *(np.char.mod('%.12g', signal) for signal in others)))
    header = 't,q1,q2,q3,v1,v2,v3,tau1,tau2,tau3'
    np.savetxt(path, rows, '%s', ',', header=header, comments='')
    found = draft(URDF, [path], KNOWN)
    assert '250 Hz' in found.summary()
    experiment, block = written(found, tmp_path)
    assert experiment.data.identification[0].time_unit == unit
    check(block, motion)


def test_a_high_rate_in_milliseconds_since_1970_is_no_low_one_in_seconds(tmp_path, motion):
    """Steps of 0.25: 4 Hz or 4 kHz."""
    stamps = 1.7e12 + 0.25 * np.arange(len(motion[0]))
    path = table(tmp_path / 'run.npz', motion)
    arrays = dict(zip(('t', 'q', 'v', 'tau'), (stamps, *motion[1:]), strict=True))
    np.savez(path, **arrays)
    experiment, _ = written(draft(URDF, [path], KNOWN), tmp_path)
    assert experiment.data.identification[0].time_unit == 'ms'


def test_a_stamp_in_two_columns_is_read(tmp_path, motion):
    time, *others = motion
    whole, rest = np.divmod(np.rint(1e9 * time), 10**9)
    header = 'sec,nanosec,q1,q2,q3,v1,v2,v3,tau1,tau2,tau3'
    path = table(tmp_path / 'run.csv', (1.7e9 + whole, rest, *others), header)
    found = draft(URDF, [path], KNOWN)
    assert 'stamps in s and ns' in found.summary()
    check(written(found, tmp_path)[1], motion)


def test_the_output_of_topic_echo_is_read(tmp_path, motion, robot):
    time, *signals = motion
    names = robot.joints[::-1]
    lines = [
        ','.join([str(1_700_000_000 + int(t)), str(round(1e9 * (t % 1.0))), '', *names, *values])
        for t, values in zip(
            time, np.char.mod('%.12g', np.hstack([s[:, ::-1] for s in signals])), strict=True
        )
    ]
    (tmp_path / 'run.csv').write_text('\n'.join(lines))
    check(written(draft(URDF, [tmp_path / 'run.csv'], KNOWN), tmp_path)[1], motion)


def test_the_joints_of_rostopic_echo_are_those_in_its_cells(tmp_path, motion, robot):
    time, *signals = motion
    names = robot.joints[::-1]
    header = ['%time', 'field.header.frame_id', *(f'field.name{k}' for k in range(3))]
    header += [f'field.{s}{k}' for s in ('position', 'velocity', 'effort') for k in range(3)]
    lines = [
        ','.join([str(17 * 10**17 + round(1e9 * t)), 'base', *names, *values])
        for t, values in zip(
            time, np.char.mod('%.12g', np.hstack([s[:, ::-1] for s in signals])), strict=True
        )
    ]
    (tmp_path / 'run.csv').write_text('\n'.join([','.join(header), *lines]))
    check(written(draft(URDF, [tmp_path / 'run.csv'], KNOWN), tmp_path)[1], motion)


def test_a_table_of_a_spreadsheet_is_read(tmp_path, motion):
    path = table(tmp_path / 'run.csv', motion)
    text = path.read_text().replace(',', ';').replace('.', ',')
    path.write_bytes(b'\xef\xbb\xbfsep=;\r\n' + text.replace('\n', '\r\n').encode())
    check(written(draft(URDF, [path], KNOWN), tmp_path)[1], motion)


def test_the_table_of_columns_is_aligned(tmp_path, motion):
    signals = ('joint_position', 'joint_velocity', 'measured_torque')
    header = ','.join(['t', *(f'{s}_{k}' for s in signals for k in (1, 2, 3))])
    found = draft(URDF, [table(tmp_path / 'run.csv', motion, header)], KNOWN)
    lines = found.summary().splitlines()
    at = next(k for k, line in enumerate(lines) if 'columns (by name)' in line)
    for signal, column in zip(('position', 'velocity', 'effort'), signals, strict=True):
        assert lines[at].index(signal) == lines[at + 1].index(f'{column}_1')


def test_degrees_are_refused_until_they_are_named(tmp_path, motion):
    time, position, velocity, effort = motion
    path = table(tmp_path / 'run.csv', (time, *np.degrees([5 * position, 5 * velocity]), effort))
    with pytest.raises(RecordingError, match='--degrees'):
        draft(URDF, [path], KNOWN)
    found = draft(URDF, [path], DraftSettings(effort_kind='joint_torque', degrees=True))
    check(written(found, tmp_path)[1], (time, 5 * position, 5 * velocity, effort))


def test_a_slide_in_mm_is_refused_with_what_makes_it_metres(tmp_path, motion, fingered):
    """Degrees beside it are named in the same breath, and are none of the slide's."""
    slide = 0.4 + 0.3 * np.sin(motion[0])
    columns, header = signals_with_finger(motion, slide)
    right = np.column_stack((motion[1], slide))
    columns[1][:, 0] *= 1000.0
    path = table(tmp_path / 'mm.csv', columns, header)
    with pytest.raises(RecordingError) as refused:
        draft(fingered, [path], KNOWN)
    text = str(refused.value)
    assert "'finger' covers 600 m, " in text and 'seems to be in mm: give --gear-ratios' in text
    assert 'rad,' not in text.partition(': give')[0] and '--degrees' not in text
    joints = Robot.from_urdf(fingered).joints
    ratios = tuple(1000.0 if joint == 'finger' else 1.0 for joint in joints)
    settings = DraftSettings(effort_kind='joint_torque', gear_ratios=ratios)
    found = draft(fingered, [path], settings)
    order = [('joint_1', 'joint_2', 'joint_3', 'finger').index(joint) for joint in joints]
    np.testing.assert_allclose(found.recordings[0].position, right[:, order], atol=1e-9)
    columns[1][:, 1:] = np.degrees(5 * columns[1][:, 1:])
    columns[2][:, 1:] = np.degrees(5 * columns[2][:, 1:])
    right[:, :3] *= 5
    path = table(tmp_path / 'both.csv', columns, header)
    with pytest.raises(RecordingError, match=r'--degrees .*and give --gear-ratios with 1000'):
        draft(fingered, [path], KNOWN)
    found = draft(fingered, [path], replace(settings, degrees=True))
    np.testing.assert_allclose(found.recordings[0].position, right[:, order], atol=1e-9)


def test_signals_of_motors_become_those_of_joints(tmp_path, motion):
    ratios, offsets = (50.0, -80.0, 30.0), (0.1, -0.2, 0.3)
    time, position, velocity, effort = motion
    motor = (position - offsets) * ratios, velocity * ratios, effort / ratios
    path = table(tmp_path / 'run.csv', (time, *motor))
    settings = DraftSettings(
        effort_kind='motor_torque', gear_ratios=ratios, position_offsets=offsets
    )
    found = draft(URDF, [path], settings)
    check(written(found, tmp_path)[1], motion)
    assert 'motor_current or motor_torque' in found.summary()


def test_gains_are_written_and_left_out_where_they_are_not_known(tmp_path, motion):
    gains = (12.0, 11.0, 10.0)
    time, position, velocity, effort = motion
    path = table(tmp_path / 'run.csv', (time, position, velocity, effort / gains))
    found = draft(URDF, [path], DraftSettings(effort_kind='motor_current', gains=gains))
    check(written(found, tmp_path)[1], motion)
    found = draft(URDF, [path], DraftSettings(effort_kind='motor_current'))
    assert written(found, tmp_path)[0].robot.open_gains


def test_files_of_one_signal_each_make_one_recording(tmp_path, motion):
    time, position, velocity, effort = motion
    header = 'joint_1,joint_2,joint_3'
    files = [
        table(tmp_path / 'positions.csv', (position,), header),
        table(tmp_path / 'torques.csv', (effort,), header),
    ]
    with pytest.raises(SettingsError, match='--rate'):
        draft(URDF, files, KNOWN)
    found = draft(URDF, files, DraftSettings(effort_kind='joint_torque', rate=250.0))
    check(written(found, tmp_path)[1], motion)


@pytest.mark.parametrize('whole', [True, False])
def test_arrays_are_read(tmp_path, motion, whole):
    time, position, velocity, effort = motion
    arrays = {'time': time, 'q': position, 'dq': velocity, 'tau': effort}
    if not whole:
        arrays = {f'{n}{k}': a[:, k] for n, a in arrays.items() if a.ndim == 2 for k in range(3)}
        arrays['t'] = time
    np.savez(tmp_path / 'run.npz', **arrays)
    check(written(draft(URDF, [tmp_path / 'run.npz'], KNOWN), tmp_path)[1], motion)


def test_a_bag_is_read_by_the_topic_that_has_the_joints(tmp_path, motion, robot):
    from rosbags.typesys import get_typestore, Stores

    store = get_typestore(Stores.ROS2_JAZZY)
    kinds = store.types
    names = {'/gripper/joint_states': ('finger',), '/arm/joint_states': robot.joints[::-1]}
    topics = [Topic(name, 'sensor_msgs/msg/JointState', (Qos(),)) for name in names]
    with BagWriter(tmp_path / 'run', topics) as bag:
        for row in range(len(motion[0])):
            nanoseconds = int(row * 4_000_000)
            stamp = kinds['builtin_interfaces/msg/Time'](*divmod(nanoseconds, 10**9))
            header = kinds['std_msgs/msg/Header'](stamp, '')
            for number, joints in enumerate(names.values()):
                values = [np.array(a[row][::-1][: len(joints)]) for a in motion[1:]]
                message = kinds['sensor_msgs/msg/JointState'](header, list(joints), *values)
                data = bytes(store.serialize_cdr(message, 'sensor_msgs/msg/JointState'))
                bag.write(number, nanoseconds, data, publish_time=nanoseconds)
    experiment, block = written(draft(URDF, [tmp_path / 'run'], KNOWN), tmp_path)
    assert experiment.data.identification[0].topic == '/arm/joint_states'
    check(block, motion)


def test_what_cannot_be_told_is_refused_by_name(tmp_path, motion):
    path = table(tmp_path / 'run.csv', motion, 't,a,b,c,d,e,f,g,h,i')
    # by content
    draft(URDF, [path], KNOWN)
    short = table(tmp_path / 'short.csv', motion, 't,a,b,c,d', slice(0, 5))
    with pytest.raises(RecordingError, match=r'short\.csv: its columns cannot be assigned'):
        draft(URDF, [short], KNOWN)
    names = 't,q0,q1,q2,q3,tau0,tau1,tau2,tau3'
    wide = table(tmp_path / 'wide.csv', motion, names, [0, 1, 2, 3, 3, 4, 5, 6, 6])
    with pytest.raises(RecordingError, match='3 joints .*: its positions are numbered for 4'):
        draft(URDF, [wide], KNOWN)
    dated = tmp_path / 'dated.csv'
    dated.write_text('t,q1,q2,q3,tau1,tau2,tau3\n1/1/2026 10:00:00.5 PM,0,0,0,0,0,0\n')
    with pytest.raises(RecordingError, match='is not a number: write stamps in seconds'):
        draft(URDF, [dated], KNOWN)
    path = table(tmp_path / 'no_effort.csv', motion, 't,q1,q2,q3', slice(0, 4))
    with pytest.raises(RecordingError, match=r'no_effort\.csv: has no columns of effort'):
        draft(URDF, [path], KNOWN)
    good = table(tmp_path / 'good.csv', motion)
    with pytest.raises(SettingsError, match="'--gains' has 2 numbers for 3 joints"):
        draft(URDF, [good], DraftSettings(effort_kind='motor_current', gains=(1.0, 2.0)))
    with pytest.raises(SettingsError, match='needs the gear ratios'):
        draft(URDF, [good], DraftSettings(effort_kind='motor_torque'))


def test_names_that_yaml_would_read_as_something_else_stay_names(tmp_path, motion):
    header = 't,q: 1,q: 2,q: 3,v1,v2,v3,[tau1],[tau2],[tau3]'
    found = draft(URDF, [table(tmp_path / 'run: #1.csv', motion, header)], KNOWN)
    content = yaml.safe_load(found.text(URDF, tmp_path))
    assert content['data']['identification'][0]['file'] == 'run: #1.csv'
    check(written(found, tmp_path)[1], motion)


def with_finger(text, kind='prismatic'):
    """Return a URDF with a finger at the last link."""
    return text.replace(
        '</robot>',
        '<link name="finger"><inertial><mass value="0.1"/><inertia ixx="1e-4" iyy="2e-4" '
        'izz="2e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        f'<joint name="finger" type="{kind}">'
        '<parent link="link_3"/><child link="finger"/><axis xyz="1 0 0"/>'
        '<limit lower="0" upper="1" effort="9" velocity="9"/></joint></robot>',
    )


@pytest.fixture
def fingered(tmp_path):
    path = tmp_path / 'fingered.urdf'
    path.write_text(with_finger(URDF.read_text()))
    return path


def signals_with_finger(motion, place, effort=True):
    """Return arrays and header with a finger in front of the joints."""
    time, *signals = motion
    values = (np.full(len(time), place), np.zeros(len(time)), np.full(len(time), -0.3))
    names = ('finger', 'joint_1', 'joint_2', 'joint_3')
    columns, header = [time], ['t']
    for kind, array, own in zip(('position', 'velocity', 'effort'), signals, values, strict=True):
        with_it = effort or kind != 'effort'
        columns.append(np.column_stack((own, array)) if with_it else array)
        header += [f'{name}_{kind}' for name in names[0 if with_it else 1 :]]
    return columns, ','.join(header)


@pytest.mark.parametrize('effort', [True, False], ids=['with effort', 'without effort'])
def test_a_joint_that_stands_still_is_locked_where_it_stood(tmp_path, motion, fingered, effort):
    columns, header = signals_with_finger(motion, 0.035, effort)
    path = table(tmp_path / 'run.csv', columns, header)
    found = draft(fingered, [path], KNOWN)
    assert dict(found.robot.locked) == {'finger': 0.035}
    assert found.robot.joints == ('joint_1', 'joint_2', 'joint_3')
    assert "stands still: 'finger' at 0.035 m" in found.summary()
    (tmp_path / 'experiment.yaml').write_text(text := found.text(fingered, tmp_path))
    experiment = load_experiment(tmp_path / 'experiment.yaml')
    assert experiment.robot.locked == {'finger': 0.035} and 'stands still' in text
    check(read_first_rows(experiment.sources())[0], motion)


def test_what_identify_takes_for_still_is_locked(tmp_path, motion, fingered):
    """Motion counts within the recordings to identify from, not between them."""
    paths = []
    for name, place in (('first', 0.03), ('second', 0.03), ('third', 0.4)):
        columns, header = signals_with_finger(motion, place)
        paths.append(table(tmp_path / f'{name}.csv', columns, header))
    columns, header = signals_with_finger(motion, 0.4 + 0.3 * np.sin(motion[0]))
    moving = table(tmp_path / 'moving.csv', columns, header)
    for files in ([paths[0], paths[2]], paths, [paths[0], moving], [paths[0], paths[2], paths[0]]):
        found = draft(fingered, files, KNOWN)
        assert dict(found.robot.locked) == {'finger': 0.03}
        assert "'finger' is locked at 0.03 m and " in found.summary()
    assert 'stands at 0.4 m in' in found.summary() and 'record it at one place' in found.summary()
    # what shows the joint is identified, wherever it stands in the others
    assert not draft(fingered, [paths[0], moving, paths[2]], KNOWN).robot.locked
    (tmp_path / 'experiment.yaml').write_text(
        draft(fingered, [paths[0], paths[2]], KNOWN).text(fingered, tmp_path)
    )
    result = identify(load_experiment(tmp_path / 'experiment.yaml', {'auto': False}))
    (fault,) = [each for each in result.recorded.diagnosis if each.code == 'locked_joint']
    assert fault.joints == ('finger',) and 'stands at 0.4 m in' in fault.evidence


def test_factors_by_joint_are_those_of_the_joints_that_move(tmp_path, motion, fingered, robot):
    ratios = (7.0, 50.0, -80.0, 30.0)
    columns, header = signals_with_finger(motion, 0.035 * ratios[0])
    for signal in columns[1:3]:
        signal[:, 1:] *= ratios[1:]
    columns[3][:, 1:] /= ratios[1:]
    path = table(tmp_path / 'run.csv', columns, header)
    joints = Robot.from_urdf(fingered).joints
    given = tuple(ratios[('finger', *robot.joints).index(joint)] for joint in joints)
    settings = DraftSettings(effort_kind='motor_torque', gear_ratios=given)
    found = draft(fingered, [path], settings)
    assert dict(found.robot.locked) == {'finger': pytest.approx(0.035)}
    (tmp_path / 'experiment.yaml').write_text(found.text(fingered, tmp_path))
    check(read_first_rows(load_experiment(tmp_path / 'experiment.yaml').sources())[0], motion)


def test_a_joint_that_mimics_one_that_moves_is_said_and_not_locked(tmp_path):
    urdf = tmp_path / 'hand.urdf'
    urdf.write_text(gripper().urdf)
    time = np.arange(400) / 100.0
    names = ('turn', 'lift', 'grip', 'tip')
    columns = [np.sin((1.0 + k) * time) for k in range(3)]
    columns += [1.3 * columns[2] + 0.2, *columns[:3]]
    header = ','.join(
        ['t', *(f'{n}_position' for n in names), *(f'{n}_effort' for n in names[:3])]
    )
    path = tmp_path / 'run.csv'
    np.savetxt(path, np.column_stack([time, *columns]), '%.12g', ',', header=header, comments='')
    found = draft(urdf, [path], KNOWN)
    assert (found.robot.joints, found.robot.locked) == (names[:3], {})
    assert 'tip follows 1.3 grip +0.2' in found.summary()
    text = yaml.safe_load(found.text(urdf, tmp_path))
    assert text['robot']['joints'] == [*names[:3]] and 'locked' not in text['robot']


def test_names_that_are_left_over_on_both_sides_are_told(tmp_path, motion, robot):
    time, *signals = motion
    names = ('joint_1', 'joint_2', 'gripper')
    header = ['t', *(f'{n}_{s}' for s in ('position', 'velocity', 'effort') for n in names)]
    path = table(tmp_path / 'run.csv', motion, ','.join(header))
    found = draft(URDF, [path], KNOWN)
    summary = found.summary()
    assert '2 joints, 1 locked' in summary
    assert "do not have it: 'joint_3' at 0 rad" in summary
    assert 'gripper_position' in summary and 'robot.joints' in summary
    assert "'joint_3' at 0 rad" in found.text(URDF, tmp_path)


def test_remarks_of_the_urdf_are_told(tmp_path, motion):
    path = tmp_path / 'blanks.urdf'
    path.write_text(with_finger(URDF.read_text()).replace('mass value="0.1"', 'mass value="0.1 "'))
    found = draft(path, [table(tmp_path / 'run.csv', motion)], KNOWN)
    assert "blanks behind the numbers of link 'finger'" in found.summary()


@pytest.mark.parametrize('kind', ['csv', 'npz'])
def test_the_rate_of_a_table_without_stamps_is_that_of_its_velocities(tmp_path, motion, kind):
    path = tmp_path / f'run.{kind}'
    if kind == 'npz':
        np.savez(path, **dict(zip(('q', 'v', 'tau'), motion[1:], strict=True)))
    else:
        table(path, motion[1:], 'q1,q2,q3,v1,v2,v3,tau1,tau2,tau3')
    found = draft(URDF, [path], KNOWN)
    assert '250 Hz by its velocities' in found.summary()
    check(written(found, tmp_path)[1], motion)
    with pytest.raises(RecordingError, match='its rate is 250 Hz, not 1000 Hz') as caught:
        draft(URDF, [path], replace(KNOWN, rate=1000.0))
    assert '0.25 times those of the positions at all joints' in str(caught.value)
    motion = motion[0], motion[1], np.degrees(motion[2]), motion[3]
    (remark,) = draft(URDF, [table(tmp_path / 'deg.csv', motion)], KNOWN).remarks
    assert 'they are in deg/s, the positions in rad' in remark


@pytest.mark.parametrize(
    ('sizes', 'text'),
    [
        ({'a': 1.0, 'b': 0.9}, 'suggests joint_torque'),
        ({'a': 1.0 / 12.0}, 'suggests motor_current or motor_torque'),
        (
            {'a': -1.0 / 50.0, 'b': 0.0},
            'and does not show at b: suggests efforts that',
        ),
        ({'a': 1000.0}, 'another unit'),
        ({'a': 0.0, 'b': 0.0}, 'cleared of it'),
        ({}, 'say nothing'),
    ],
)
def test_sizes_of_gravity_speak_for_a_kind_of_effort(sizes, text):
    assert text in next(evidence_of_gravity(sizes))


def test_efforts_in_thousandths_are_named_with_the_way_out(tmp_path, motion):
    time, position, velocity, effort = motion
    path = table(tmp_path / 'run.csv', (time, position, velocity, 1000.0 * effort))
    found = draft(URDF, [path], KNOWN)
    assert 'as in mN m: give --effort-kind motor_torque' in found.summary()
    settings = DraftSettings(effort_kind='motor_torque', gains=(0.001,) * 3)
    check(written(draft(URDF, [path], settings), tmp_path)[1], motion)
    assert 'mN m' not in draft(URDF, [table(tmp_path / 'b.csv', motion)], KNOWN).summary()


@pytest.mark.parametrize('kind', ['npz', 'mat', 'hdf5'])
def test_arrays_are_read_whole_or_by_the_columns_of_the_first_joints(tmp_path, motion, kind):
    """The first two joints of three have columns of arrays, all three have whole arrays."""
    time, *others = motion
    for count, position in ((3, 'q'), (2, ('q[:, 0]', 'q[:, 1]'))):
        arrays = dict(zip(('q', 'dq', 'tau'), (o[:, :count] for o in others), strict=True))
        path = saved(tmp_path / f'run{count}.{kind}', {'t': time, **arrays})
        entry, guess = guess_entry(path, ('a', 'b', 'c'), None)
        assert entry.position == position and entry.time == 't'
        assert guess.joints == ('a', 'b', 'c')[:count]


def test_of_several_recordings_in_a_file_none_is_guessed(tmp_path, motion):
    time, q, _, tau = motion
    for columns in (slice(None), slice(2)):
        runs = {f'{run}/q': q[:, columns] for run in ('one', 'two')}
        path = saved(tmp_path / 'run.hdf5', {'t': time, 'one/tau': tau[:, columns], **runs})
        with pytest.raises(RecordingError, match="has several recordings, 'one/q' and 'two/q'"):
            guess_entry(path, ('a', 'b', 'c'), None)


def test_one_array_without_names_is_told_apart_by_content(tmp_path, motion):
    path = tmp_path / 'run.npy'
    np.save(path, np.column_stack(motion))
    found = draft(URDF, [path], KNOWN)
    check(written(found, tmp_path)[1], motion)
    assert found.entries[0].effort == ('[:, 7]', '[:, 8]', '[:, 9]')


def test_arrays_of_one_signal_each_make_one_recording(tmp_path, motion):
    for name, values in zip(('q', 'tau'), motion[1::2], strict=True):
        np.save(tmp_path / f'{name}.npy', values)
    files = [tmp_path / 'q.npy', tmp_path / 'tau.npy']
    found = draft(URDF, files, replace(KNOWN, rate=250.0))
    _, block = written(found, tmp_path)
    np.testing.assert_array_equal(block.position, motion[1])
    np.testing.assert_array_equal(block.effort, motion[3])


@pytest.mark.parametrize('one_file', [True, False])
def test_a_joint_that_stands_still_is_left_out_of_arrays(tmp_path, motion, one_file):
    time, q, v, tau = (values.copy() for values in motion)
    q[:, 2], v[:, 2] = 0.3, 0.0
    parts = {'q': q, 'tau': tau}
    files = [tmp_path / f'{name}.npz' for name in parts]
    if one_file:
        files = [saved(tmp_path / 'run.npz', {'t': time, 'dq': v, **parts})]
    else:
        for path, name in zip(files, parts, strict=True):
            saved(path, {'t': time, name: parts[name]} if name == 'q' else {name: parts[name]})
    found = draft(URDF, files, replace(KNOWN, rate=250.0))
    experiment, block = written(found, tmp_path)
    assert len(experiment.robot.joints) == 2 and len(found.robot.locked) == 1
    np.testing.assert_array_equal(block.position, q[:, :2])
    np.testing.assert_array_equal(block.effort, tau[:, :2])


def test_currents_without_their_signs_are_named(tmp_path, motion):
    time, position, velocity, effort = motion
    counts = np.rint(10.0 * effort) % 65536.0
    path = table(tmp_path / 'run.csv', (time, position, velocity, counts))
    with pytest.raises(RecordingError, match=r"'joint_\d' has negative .* subtract 65536"):
        draft(URDF, [path], replace(KNOWN, effort_kind='motor_current'))


def test_poses_held_one_by_one_are_no_recording(tmp_path, motion):
    """Stamps two seconds apart are read as milliseconds."""
    time, *others = (values[::70] for values in motion)
    path = table(tmp_path / 'run.csv', (2.0 * np.arange(len(time)), *others))
    with pytest.raises(RecordingError, match='29 samples in 0.056 s, too few for .*: record'):
        draft(URDF, [path], KNOWN)


@pytest.mark.parametrize('degrees', [True, False])
def test_positions_normalised_to_a_hundred_are_no_degrees(tmp_path, motion, degrees):
    time, position, velocity, effort = motion
    path = table(tmp_path / 'run.csv', (time, np.clip(130.0 * position, -100.0, 100.0), effort),
                 't,q1,q2,q3,tau1,tau2,tau3')  # fmt: skip
    with pytest.raises(RecordingError, match='seem to be normalised to .*: record with use_deg'):
        draft(URDF, [path], replace(KNOWN, degrees=degrees))


def test_a_joint_that_moves_without_efforts_and_carries_others_is_not_locked(tmp_path, motion):
    header = 't,joint_1_q,joint_2_q,joint_3_q,joint_1_v,joint_2_v,joint_3_v,joint_1_tau,other,'
    path = table(tmp_path / 'run.csv', motion, f'{header}joint_3_tau')
    with pytest.raises(RecordingError, match="'joint_2' moves from .* and has no efforts"):
        draft(URDF, [path], KNOWN)
    last = table(tmp_path / 'last.csv', motion, f'{header[:-6]}joint_2_tau,other')
    found = draft(URDF, [last], KNOWN)  # it carries none: named, with what it makes of it
    assert "'joint_3' is locked at" in found.summary() and 'and moves from' in found.summary()


@pytest.mark.parametrize('kind', ['npz', 'mat', 'hdf5'])
def test_the_first_of_parallel_environments_is_read(tmp_path, motion, kind):
    time, *signals = motion
    stacked = [np.stack([signal, 2.0 * signal], axis=1) for signal in signals]
    stacked[0][:, 0, 2] = 0.3  # locked
    arrays = dict(zip(('t', 'q', 'v', 'tau'), (time, *stacked), strict=True))
    found = draft(URDF, [saved(tmp_path / f'run.{kind}', arrays)], KNOWN)
    assert 'of 2 environments the first one is read, as q[:, 0, :]' in found.summary()
    experiment, block = written(found, tmp_path)
    np.testing.assert_array_equal(block.effort, signals[2][:, :2])
    entry = experiment.data.identification[0]
    entry = replace(entry, position=('q[:, 1, 0]', 'q[:, 2, 0]'))
    with pytest.raises(RecordingError, match=r"no column 'q\[:, 2, 0\]': .* to q\[:, 1, 2\]"):
        read_first_rows([open_recording(entry, ('a', 'b'), None, tmp_path)])


def saved(path, arrays):
    """Write arrays in the format of the name's ending."""
    if path.suffix == '.npz':
        np.savez(path, **arrays)
    elif path.suffix == '.mat':
        savemat(path, arrays)
    else:
        with pytest.importorskip('h5py').File(path, 'w') as file:
            for name, values in arrays.items():
                file[name] = values
    return path


def commanded(motion, noise=0.0):
    """Return positions, commands, velocities and efforts of a controller with kp 80 and kd 2."""
    time, position, velocity, effort = motion
    command = position + (effort + 2.0 * velocity) / 80.0
    limit = np.quantile(np.abs(effort), 0.95, axis=0)
    recorded = np.clip(effort, -limit, limit)
    recorded += noise * effort.std(axis=0) * np.random.default_rng(0).standard_normal(effort.shape)
    return {'t': time, 'q': position, 'q_cmd': command, 'dq': velocity, 'tau': recorded}


@pytest.mark.parametrize('late', [0, 1])
def test_efforts_that_a_controller_commands_are_named(tmp_path, motion, late):
    arrays = commanded(motion)
    arrays['tau'] = np.roll(arrays['tau'], late, axis=0)
    np.savez(tmp_path / 'run.npz', **arrays)
    found = draft(URDF, [tmp_path / 'run.npz'], KNOWN)
    # commands are not taken for positions
    assert found.entries[0].position == 'q'
    (remark,) = (text for text in found.remarks if 'controller' in text)
    assert 'with kp 80 and kd 2;' in remark


def test_measured_efforts_are_no_commands(tmp_path, motion):
    np.savez(tmp_path / 'run.npz', **commanded(motion, noise=0.02))
    found = draft(URDF, [tmp_path / 'run.npz'], KNOWN)
    assert not [text for text in found.remarks if 'controller' in text]
