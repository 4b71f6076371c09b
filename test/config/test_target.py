# SPDX-License-Identifier: Apache-2.0
"""Targets of experiments: terms that they lack are left out, or refused where asked for."""

from pathlib import Path

import pytest
from robot_identification.config.experiment_file import experiment_from
from robot_identification.errors import SettingsError
from robot_identification.model.friction import FRICTION, STATIC
from robot_identification.model.targets import TARGETS, TERMS

ROOT = Path(__file__).resolve().parents[2]
EFFORTS = {'effort_kind': 'joint_torque'}
SERVOS = {'effort_kind': 'servo_command', 'servo': {'stiffness': 1.0}}
CHOSEN = {'robot.friction', 'robot.breakaway', 'robot.joint_springs'}


def experiment(robot, target, timestep=None):
    content = {
        'robot': {'urdf': str(ROOT / 'urdf' / 'szabo_3r.urdf'), **robot},
        'simulation': {'target': target, 'timestep': timestep, 'integrator': 'implicitfast'},
    }
    return experiment_from(content, check_data=False)


@pytest.mark.parametrize('target', TARGETS)
def test_auto_chooses_no_terms_that_a_target_lacks(target):
    found = experiment(EFFORTS, target)
    assert found.robot.friction == ('viscous', 'coulomb', 'offset')
    assert found.given >= CHOSEN  # what is given is not chosen
    assert 'robot.rotor_inertia' not in found.given  # masses would take its place


def test_what_is_no_target_is_named():
    with pytest.raises(SettingsError, match='simulation.target'):
        experiment(EFFORTS, ['mjcf'])


def test_without_a_target_all_are_left_to_auto():
    found = experiment(EFFORTS, None)
    assert not found.given & CHOSEN


@pytest.mark.parametrize(
    ('target', 'settings', 'message'),
    [
        ('mjcf', {'friction': ['viscous', 'load']}, "'robot.friction' asks for load, which MJCF"),
        ('isaaclab', {'breakaway': 0.01}, "'robot.breakaway' asks for breakaway, which Isaac"),
        ('mjlab', {'joint_springs': ['joint_1']}, "'robot.joint_springs' asks for joint_springs"),
        ('urdf', {'friction': ['root']}, "'robot.friction' asks for root, which URDF"),
        (
            'sdf',
            {'coupled_drives': [{'motor': 'joint_1', 'joints': ['joint_1', 'joint_2']}]},
            "'robot.coupled_drives' asks for coupled_drives, which Gazebo",
        ),
    ],
)
def test_terms_that_a_target_lacks_are_refused(target, settings, message):
    with pytest.raises(SettingsError, match=message) as refused:
        experiment(EFFORTS | settings, target)
    assert '\n' not in str(refused.value)
    assert 'leave' in refused.value.remedy


def test_the_remedy_names_targets_that_have_the_term():
    drives = [{'motor': 'joint_1', 'joints': ['joint_1', 'joint_2']}]
    with pytest.raises(SettingsError) as refused:
        experiment(EFFORTS | {'coupled_drives': drives}, 'urdf')
    assert 'set simulation.target (--for) to mjcf, mjlab' in refused.value.remedy


@pytest.mark.parametrize(
    ('target', 'servo', 'message'),
    [
        ('urdf', {}, 'servo_command, but URDF has no place for armature of servos'),
        ('sdf', {}, 'servo_command, but Gazebo .* has no place for armature'),
        ('mjcf', {'friction': 'coulomb_by_position'}, 'asks for coulomb_by_position, which MJCF'),
        ('isaaclab', {'offset': True}, "'robot.servo.offset' asks for servo_offset, which Isaac"),
    ],
)
def test_terms_of_servos_are_refused_likewise(target, servo, message):
    robot = SERVOS | {'servo': {'stiffness': 1.0, **servo}}
    with pytest.raises(SettingsError, match=message):
        experiment(robot, target, 0.005)
    assert experiment(SERVOS, 'mjcf', 0.005).simulation.target == 'mjcf'


def test_a_simulator_that_reads_no_mjcf_needs_its_step():
    with pytest.raises(SettingsError, match='simulation.timestep'):
        experiment(SERVOS, 'isaaclab')


def test_mjcf_has_the_friction_that_its_export_writes():
    """The table of terms of friction has the attributes; static ones are not exact in MuJoCo."""
    exact = {name for name, term in FRICTION.items() if term.mjcf and term.kind != STATIC}
    assert {name for name in FRICTION if name in TARGETS['mjcf'].places} == exact


def targets_table() -> str:
    """Return the places of all terms as a table in Markdown."""
    rows = [['identified', *(target.title for target in TARGETS.values())]]
    for term, title in TERMS.items():
        known = ({**target.remarks, **target.places} for target in TARGETS.values())
        rows.append([title, *(places.get(term, 'nowhere') for places in known)])
    head, *lines = (f'| {" | ".join(row)} |' for row in rows)
    return '\n'.join([head, '|---' * len(rows[0]) + '|', *lines])


def test_the_page_has_the_table():
    page = (ROOT / 'docs' / 'how_to' / 'commands.md').read_text(encoding='utf-8')
    assert targets_table() in page, targets_table()
