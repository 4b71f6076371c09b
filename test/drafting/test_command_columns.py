# SPDX-License-Identifier: Apache-2.0
"""Recordings of commands: joints that they lack are locked, whatever names the columns."""

from pathlib import Path

import numpy as np
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.drafting.command_columns import commanded_joints, has_commands
from robot_identification.drafting.servo_draft import draft_servo

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
JOINTS = ('joint_1', 'joint_2', 'joint_3')


def commands(path, position, command, jaw=None):
    """Write motions of two of three joints, and the position of the third one."""
    time = np.arange(300) / 50.0
    moved = np.sin(time[:, None] * [1.3, 0.9])
    names, columns = ['t', *position, *command], [time, moved, np.roll(moved, -2, axis=0)]
    if jaw is not None:
        names.append('joint_3.position')
        columns.append(np.full(len(time), jaw))
    if path.suffix == '.npz':
        np.savez(path, **dict(zip(names, columns, strict=True)))
    else:
        rows = np.column_stack(columns)
        np.savetxt(path, rows, delimiter=',', header=','.join(names), comments='')
    return path


@pytest.mark.parametrize(
    ('name', 'position', 'command', 'joints'),
    [
        ('a.csv', ['joint_1_pos', 'joint_3_pos'], ['joint_1_cmd', 'joint_3_cmd'], JOINTS[::2]),
        ('b.csv', ['state_0', 'state_1'], ['action_0', 'action_1'], JOINTS[:2]),
        ('c.npz', ['q'], ['q_cmd'], JOINTS[:2]),
        ('d.csv', ['state_0', 'state_1'], ['action_1', 'voltage'], JOINTS),
    ],
)
def test_the_joints_of_a_recording(tmp_path, name, position, command, joints):
    path = commands(tmp_path / name, position, command)
    assert commanded_joints(path, JOINTS) == joints
    assert has_commands(path, JOINTS) == (joints != JOINTS)


@pytest.mark.parametrize('jaw', [None, 0.4])
def test_a_joint_without_commands_is_locked_where_it_stood(tmp_path, jaw):
    position, command = (['joint_1_pos', 'joint_2_pos'], ['joint_1_cmd', 'joint_2_cmd'])
    path = commands(tmp_path / 'run.csv', position, command, jaw)
    found = draft_servo(URDF, [path], JOINTS, stiffness=[18.0], damping=[0.6])
    (tmp_path / 'experiment.yaml').write_text(found.text(URDF, tmp_path))
    robot = load_experiment(tmp_path / 'experiment.yaml').robot
    assert robot.joints == JOINTS[:2] and robot.locked == {'joint_3': jaw or 0.0}
    said = "stands still: 'joint_3' at 0.4" if jaw else "do not have it: 'joint_3' at 0 rad"
    assert said in found.summary()
