# SPDX-License-Identifier: Apache-2.0
"""Drafts for robots on their feet: IMU, contacts and base from recordings."""

import numpy as np
import pytest
from robot_identification.cli.main import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.drafting.any_draft import draft_of
from robot_identification.drafting.draft import Draft
from robot_identification.drafting.floating_columns import signals_by_name
from robot_identification.drafting.floating_draft import contact_of, feet_of, moved_links
from robot_identification.drafting.settings import DraftSettings
from robot_identification.excitation.standing import standing_motion, StandingSettings
from robot_identification.model.mechanisms import ContactSettings
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from walker import FEET, STANDING, URDF, walker, write_bag

LINKS = ('FL_thigh', *FEET)


@pytest.mark.parametrize(
    ('gyroscope', 'accelerometer'),
    [
        (['gyro_x', 'gyro_y', 'gyro_z'], ['acc_x', 'acc_y', 'acc_z']),
        (
            [f'imu_state.gyroscope[{k}]' for k in range(3)],
            [f'imu_state.accelerometer[{k}]' for k in range(3)],
        ),
        (
            [f'/imu/data/angular_velocity/{axis}' for axis in 'xyz'],
            [f'/imu/data/linear_acceleration/{axis}' for axis in 'xyz'],
        ),
    ],
)
def test_names_of_an_imu(gyroscope, accelerometer):
    others = [f'motor_state[{k}].q' for k in range(12)] + ['ddq_acc_joint', 'tick']
    names = dict.fromkeys([*others, *accelerometer, *gyroscope])
    found = signals_by_name(names, LINKS)
    assert found.imu.gyroscope == tuple(gyroscope)
    assert found.imu.accelerometer == tuple(accelerometer)
    assert signals_by_name(dict.fromkeys([*others, *gyroscope]), LINKS).imu is None


def test_names_of_contacts():
    counted = dict.fromkeys(f'foot_force[{k}]' for k in (1, 0, 3, 2))
    assert signals_by_name(counted, LINKS).contacts == tuple(f'foot_force[{k}]' for k in range(4))
    named = signals_by_name(dict.fromkeys(f'{f}_contact' for f in reversed(FEET)), LINKS)
    assert named.feet == FEET[::-1]
    assert named.contacts == tuple(f'{foot}_contact' for foot in FEET[::-1])
    assert signals_by_name({'stance': (50, 4)}, LINKS).contacts == 'stance'
    assert signals_by_name({'FL_thigh_force_x': None}, LINKS).contacts is None


def signals(folder, **changes):
    """Write half a second of a robot that stands, and return its signals."""
    count = 100
    random = np.random.default_rng(0)
    sway = 0.02 * np.sin(0.1 * np.arange(count))[:, None]
    made = {
        'time': np.arange(count) / 200.0,
        'q': np.array(STANDING) + sway,
        'tau': random.normal(size=(count, 12)),
        'gyro': 0.01 * random.normal(size=(count, 3)),
        'acc': [0.0, 0.0, 9.81] + 0.1 * random.normal(size=(count, 3)),
        'quaternion': np.array([1.0, 0.0, 0.0, 0.0]) + 0.001 * random.normal(size=(count, 4)),
        'foot_force': np.tile([40.0, 3.0, 40.0, 40.0], (count, 1)),
        **changes,
    }
    np.savez(folder / 'stand.npz', **made)
    return made


def drafted(folder, *more, urdf=URDF, recording='stand.npz'):
    words = ['init', urdf, folder / recording, '--effort-kind', 'joint_torque', *more]
    assert main([*map(str, words), '-o', str(folder / 'x.yaml'), '--force']) == 0
    return load_experiment(folder / 'x.yaml')


def test_a_table_is_drafted_and_read(tmp_path, capsys):
    signals(tmp_path)
    experiment = drafted(tmp_path)
    assert 'its quaternion begins with w' in capsys.readouterr().out
    assert experiment.robot.base == 'floating'
    assert [contact.frame for contact in experiment.robot.contacts] == list(FEET)
    assert experiment.robot.posture['FL_calf_joint'] == -1.55
    (recording,) = experiment.sources()
    np.testing.assert_allclose(recording.orientation[:, 3], 1.0, atol=0.01)
    np.testing.assert_array_equal(recording.stance[0], [True, False, True, True])


def test_legs_in_another_order_are_remarked(tmp_path, capsys):
    robot = Robot.from_urdf(walker(), floating=True)
    model = ModelSettings(contacts=tuple(ContactSettings(frame=foot) for foot in FEET))
    sway = StandingSettings(duration=4.0, rate=25.0, lift=0.0)
    motion = standing_motion(robot, build(robot, model), np.array(STANDING), sway)
    assert order_of(tmp_path, capsys, motion.position).endswith(
        'check it (motors of Unitree begin with the right leg)'
    )
    right_first = motion.position[:, [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]]
    found = order_of(tmp_path, capsys, right_first)
    assert 'legs as FR_foot, FL_foot, RR_foot, RL_foot' in found


def order_of(folder, capsys, position):
    """Return the remark on columns without names."""
    signals(folder, q=position, foot_force=np.full((len(position), 4), 40.0))
    drafted(folder)
    lines = capsys.readouterr().out.splitlines()
    return next(line for line in lines if 'its joints have no names' in line)


def test_a_bag_is_drafted_and_read(tmp_path, capsys):
    made = signals(tmp_path)
    made.update(turn=np.roll(made['quaternion'], -1, axis=1), stance=np.ones((100, 4)))
    write_bag(tmp_path / 'bag', Robot.from_urdf(walker()).joints, made)
    experiment = drafted(tmp_path, recording='bag')
    (entry,) = experiment.data.identification
    assert entry.imu.topic == '/imu/data'
    assert experiment.robot.imu.frame == 'trunk'
    assert 'check their order' not in capsys.readouterr().out
    assert experiment.sources()[0].stance.all()


def test_without_flags_stance_is_estimated_and_without_an_imu_there_is_no_base(tmp_path, capsys):
    made = signals(tmp_path)
    del made['foot_force'], made['quaternion']
    np.savez(tmp_path / 'stand.npz', **made)
    assert drafted(tmp_path).data.identification[0].contacts == 'auto'
    assert 'stance is estimated' in capsys.readouterr().out
    arm = URDF.with_name('demo_arm.urdf')
    made['q'], made['tau'] = made['q'][:, :6] * 0.1, made['tau'][:, :6]
    np.savez(tmp_path / 'stand.npz', **made)
    assert drafted(tmp_path, urdf=arm).robot.base == 'fixed'
    words = ['init', str(arm), str(tmp_path / 'stand.npz'), '--floating']
    assert main([*words, '-o', str(tmp_path / 'y.yaml')]) == 2
    assert 'no two feet are recognised' in capsys.readouterr().err


def test_an_arm_may_have_as_many_joints_as_are_allowed(tmp_path):
    n = 124  # with the six of a floating base there would be too many
    inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    body = f'<inertial><mass value="1"/>{inertia}</inertial>'
    links = ''.join(f'<link name="l{k}">{body}</link>' for k in range(n + 1))
    joints = ''.join(
        f'<joint name="j{k}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/>'
        '<axis xyz="0 1 0"/><limit lower="-1" upper="1" velocity="1" effort="1"/></joint>'
        for k in range(n)
    )
    urdf = tmp_path / 'chain.urdf'
    urdf.write_text(f'<robot name="chain">{links}{joints}</robot>')
    time = np.arange(50) / 100.0
    wave = np.sin(np.outer(time, np.linspace(1.0, 2.0, n)))
    np.savez(tmp_path / 'run.npz', time=time, q=0.5 * wave, tau=wave)
    settings = DraftSettings(effort_kind='joint_torque')
    found = draft_of(urdf, [tmp_path / 'run.npz'], settings)
    assert isinstance(found, Draft)


def test_feet_are_balls_or_soles_by_their_shapes():
    sphere = '<collision><geometry><sphere radius="0.03"/></geometry></collision>'
    box = '<collision><geometry><box size="0.2 0.1 0.02"/></geometry></collision>'
    text = walker().replace('<link name="FL_foot"/>', f'<link name="FL_foot">{sphere}</link>')
    text = text.replace('<link name="FR_foot"/>', f'<link name="FR_foot">{box}</link>')
    robot = Robot.from_urdf(text, floating=True)
    feet = feet_of(moved_links(robot))
    assert feet == FEET
    kinds = [contact_of(robot, foot) for foot in feet]
    assert [(kind.kind, kind.radius) for kind in kinds[:3]] == [
        ('sphere', 0.03),
        ('flat', 0.0),
        ('point', 0.0),
    ]
    assert kinds[1].sole == (0.1, 0.05)
