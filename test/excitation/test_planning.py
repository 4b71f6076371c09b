# SPDX-License-Identifier: Apache-2.0
"""Settings of plans: keys of their own, or a parameter file of the excitation node."""

from pathlib import Path

import pytest
from robot_identification.config.problem import planned_robot
from robot_identification.errors import SettingsError
from robot_identification.excitation.planning_settings import load_planning, PlanningSettings

ROOT = Path(__file__).resolve().parents[2]

PARAMETERS = """\
/**:
  ros__parameters:
    joints: [joint_1, joint_2]
/**/excitation:
  ros__parameters:
    controller_topic: somewhere
    planner:
      duration: 12.0
      jerk_time: .nan
      obstacles:
        names: [table]
        table: {kind: box, size: [0.8, 1.2, 0.04]}
        chair: {kind: rocket}
    robot:
      friction: [viscous]
/**/recorder:
  ros__parameters:
    joints: [none]
"""


def written(tmp_path, text):
    path = tmp_path / 'planner.yaml'
    path.write_text(text)
    return path


def test_a_parameter_file_gives_what_the_node_would_read(tmp_path):
    settings = load_planning(written(tmp_path, PARAMETERS))
    assert settings.joints == ('joint_1', 'joint_2')
    assert settings.planner.duration == 12.0 and settings.planner.jerk_time is None
    assert [o.name for o in settings.planner.obstacles] == ['table']
    assert settings.robot.friction == ('viscous',)


@pytest.mark.parametrize('path', sorted((ROOT / 'examples').glob('*/nodes.yaml')))
def test_the_examples_parameter_files_serve(path):
    assert load_planning(path).joints


def test_plain_keys_and_overrides(tmp_path):
    path = written(tmp_path, 'planner: {seed: 3, floor: 0.0}\n')
    settings = load_planning(path, {'planner.floor': '-1', 'planner.duration': 8.0})
    assert (settings.planner.seed, settings.planner.floor, settings.planner.duration) == (3, -1, 8)
    assert load_planning() == PlanningSettings()


@pytest.mark.parametrize(
    ('text', 'where', 'named'),
    [
        ('planer: {}\n', ':1', 'planer'),
        ('joints: [a]\nplanner:\n  margin: 2.0\n', ':3', 'planner.margin'),
        ('[1]\n', '', 'planner and robot'),
        ('planner: {duration: 3600.0, check_rate: 10000.0}\n', '', 'duration'),
    ],
)
def test_a_wrong_key_is_named_with_its_place(tmp_path, text, where, named):
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as refused:
        load_planning(path)
    assert f'{path}{where}' in str(refused.value) and named in str(refused.value)


def test_the_robot_of_an_experiment_file(tmp_path):
    path = tmp_path / 'experiment.yaml'
    path.write_text(
        f'robot: {{urdf: {ROOT}/urdf/szabo_3r.urdf, effort_kind: joint_torque, '
        'joints: [joint_2, joint_1], locked: {joint_3: 0.2}, friction: [coulomb]}\n'
    )
    robot, model = planned_robot(path, PlanningSettings())
    assert robot.joints == ('joint_2', 'joint_1') and robot.locked == {'joint_3': 0.2}
    assert model.friction == ('coulomb',)
    robot, model = planned_robot(
        ROOT / 'urdf' / 'szabo_3r.urdf',
        PlanningSettings(joints=('joint_1', 'joint_2'), locked={'joint_3': 0.1}),
    )
    assert robot.locked == {'joint_3': 0.1}


LINK = (
    '<link name="{0}"><inertial><mass value="1"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = (
    '<joint name="{0}" type="{3}"><parent link="{1}"/><child link="{2}"/><axis xyz="0 0 1"/>'
    '<limit lower="{4}" upper="1" velocity="1" effort="10"/>{5}</joint>'
)


def urdf(tmp_path, joints):
    """Write a robot of joints (name, parent, type, lower limit, joint that it mimics)."""
    links = {'base', *(f'of_{name}' for name, *_ in joints)}
    text = ''.join(LINK.format(link) for link in sorted(links))
    for name, parent, kind, lower, mimicked in joints:
        mimic = f'<mimic joint="{mimicked}" multiplier="2.0"/>' if mimicked else ''
        text += JOINT.format(name, parent, f'of_{name}', kind, lower, mimic)
    path = tmp_path / 'robot.urdf'
    path.write_text(f'<robot name="r">{text}</robot>')
    return path


ARM = [('a', 'base', 'revolute', -1, ''), ('b', 'of_a', 'revolute', -1, '')]


@pytest.mark.parametrize(
    ('hand', 'held'),
    [
        # two fingers, of which one follows the other
        (
            [('f', 'of_b', 'prismatic', 0.1, ''), ('g', 'of_b', 'prismatic', 0, 'f')],
            {'f': 0.1, 'g': 0.2},
        ),
        # two with a drive each
        (
            [('f', 'of_b', 'prismatic', 0, ''), ('g', 'of_b', 'prismatic', 0, '')],
            {'f': 0.0, 'g': 0.0},
        ),
        # a parallelogram: the joint that is followed carries the rest of the arm
        ([('c', 'of_b', 'revolute', -1, ''), ('d', 'of_b', 'revolute', -1, 'b')], {}),
        ([('c', 'of_b', 'revolute', -1, '')], {}),
    ],
    ids=['mimic', 'drives', 'parallelogram', 'none'],
)
def test_fingers_are_held_and_said(tmp_path, recwarn, hand, held):
    path = urdf(tmp_path, [*ARM, *hand])
    robot, _ = planned_robot(path, PlanningSettings())
    names = [name for name, *_, mimicked in [*ARM, *hand] if name not in held and not mimicked]
    assert (list(robot.joints), robot.locked) == (names, held)
    assert [name for name, *_, mimicked in hand if mimicked and name not in held] == [
        *robot.mimics.names
    ]
    said = [str(w.message) for w in recwarn if 'held while planning' in str(w.message)]
    assert len(said) == bool(held)
    assert all(name in said[0] for name, *_, mimicked in hand if name in held and not mimicked)


def test_joints_that_are_named_move(tmp_path):
    path = urdf(
        tmp_path, [*ARM, ('f', 'of_b', 'prismatic', 0, ''), ('g', 'of_b', 'prismatic', 0, 'f')]
    )
    robot, _ = planned_robot(path, PlanningSettings(joints=('a', 'b', 'f'), locked={'g': 0.5}))
    assert robot.joints == ('a', 'b', 'f') and robot.locked == {'g': 0.5}
