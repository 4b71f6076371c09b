# SPDX-License-Identifier: Apache-2.0
"""Conclusions of `init`: kind, signs and scale of efforts, gravity, and where positions are."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.cli.main import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
NAMES = 't,q1,q2,q3,v1,v2,v3,tau1,tau2,tau3'


@pytest.fixture(scope='module')
def motion():
    """Make time, positions, velocities and joint torques with friction of the robot."""
    robot, time = Robot.from_urdf(URDF), np.arange(2000) / 250.0
    speed, phase = np.array([1.3, 0.9, 1.7]), np.array([0.1, 0.7, 1.9])
    angle = time[:, None] * speed + phase
    position, velocity = 0.8 * np.sin(angle), 0.8 * speed * np.cos(angle)
    data = robot.model.createData()
    rows = zip(position, velocity, -(speed**2) * position, strict=True)
    effort = np.array([pin.rnea(robot.model, data, *row) for row in rows])
    weight = np.array([pin.computeGeneralizedGravity(robot.model, data, q) for q in position])
    return time, position, velocity, effort + 2.0 * np.sign(velocity), weight


def init(folder, motion, effort, *options, position=None):
    time, q, v, _, _ = motion
    table = np.column_stack([time, q if position is None else position, v, effort])
    np.savetxt(folder / 'run.csv', table, delimiter=',', header=NAMES, comments='')
    words = ['init', URDF, folder / 'run.csv', '-o', folder / 'e.yaml', '--force', *options]
    return main(list(map(str, words)))


@pytest.mark.parametrize(
    ('signs', 'options'),
    [
        ((1, 1, 1), '--effort-kind joint_torque'),
        ((1, -1, 1), '--effort-kind joint_torque --gains 1 -1 1'),
        ((-1, -1, -1), '--effort-kind joint_torque --gains -1 -1 -1'),
        ((-1, 1, 1), '--effort-kind joint_torque --gains -1 1 1'),
        ((1000, 1000, 1000), '--effort-kind motor_torque --gains 0.001 0.001 0.001'),
        ((1000, -1000, 1000), '--effort-kind motor_torque --gains 0.001 -0.001 0.001'),
    ],
)
def test_the_line_that_fits_is_proposed_and_right(tmp_path, motion, capsys, signs, options):
    effort = motion[3] * signs
    assert init(tmp_path, motion, effort) == 2
    assert f'the recordings suggest {options} (' in capsys.readouterr().err
    assert init(tmp_path, motion, effort, *options.split()) == 0
    (source,) = load_experiment(tmp_path / 'e.yaml').sources()
    block = next(source.blocks(2000))
    np.testing.assert_allclose(block.effort, motion[3], rtol=1e-9)


def test_a_sign_that_two_effects_show_is_refused_unless_it_is_kept_by_name(
    tmp_path, motion, capsys
):
    effort, kind = motion[3] * (1, -1, 1), ('--effort-kind', 'joint_torque')
    assert init(tmp_path, motion, effort, *kind) == 2
    error = capsys.readouterr().err
    assert 'other sign at joint_2: give --gains 1 -1 1, or --gains of 1 each' in error
    assert init(tmp_path, motion, effort, *kind, '--gains', 1, 1, 1) == 0
    assert init(tmp_path, motion, motion[3], *kind) == 0


def test_a_robot_on_the_ceiling_has_another_gravity_not_other_signs(tmp_path, motion, capsys):
    effort = motion[3] - 2.0 * motion[4]
    assert init(tmp_path, motion, effort, '--effort-kind', 'joint_torque') == 2
    assert '--gravity 0 0 9.81' in capsys.readouterr().err
    given = ('--effort-kind', 'joint_torque', '--gravity', 0, 0, 9.81)
    assert init(tmp_path, motion, effort, *given) == 0
    assert load_experiment(tmp_path / 'e.yaml').robot.gravity == (0.0, 0.0, 9.81)


def test_a_terminal_is_asked(tmp_path, motion, capsys, monkeypatch):
    for answer, kind in (('y', 'joint_torque'), ('n', 'motor_current')):
        answers = iter([answer, '3'])
        monkeypatch.setattr('sys.stdin.isatty', lambda: True, raising=False)
        monkeypatch.setattr('sys.stdin.readline', answers.__next__, raising=False)
        assert init(tmp_path, motion, motion[3] * (1, -1, 1)) == 0
        robot = load_experiment(tmp_path / 'e.yaml').robot
        assert robot.effort_kind == kind
        assert 'Take that (y/n)?' in capsys.readouterr().out


def test_positions_at_the_joints_beside_gear_ratios_are_named(tmp_path, motion, capsys):
    ratios = (100, 120, 80)
    given = ('--effort-kind', 'motor_torque', '--gear-ratios', *ratios)
    assert init(tmp_path, motion, motion[3] / ratios, *given) == 2
    error = capsys.readouterr().err
    assert '--effort-kind motor_torque --gains 100 120 80' in error
    given = ('--effort-kind', 'motor_torque', '--gains', *ratios)
    assert init(tmp_path, motion, motion[3] / ratios, *given) == 0
