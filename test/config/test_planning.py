# SPDX-License-Identifier: Apache-2.0
"""Settings of plans: keys of their own, or a parameter file of the excitation node."""

from pathlib import Path

import pytest
from robot_identification.config.problem import load_planning, planned_robot, PlanningSettings
from robot_identification.errors import SettingsError

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
