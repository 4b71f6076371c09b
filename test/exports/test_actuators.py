# SPDX-License-Identifier: Apache-2.0
"""Actuators for Isaac Lab of joints that were identified from efforts."""

import ast
from pathlib import Path

import pytest
from robot_identification.errors import IdentificationWarning
from robot_identification.exports.actuators import isaaclab_efforts
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings, prior

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


def test_armature_and_friction_of_each_joint_are_those_identified(robot):
    model = ModelSettings(friction=('viscous', 'coulomb'))
    found = {
        f'joint_{j}.{s}': j + k / 10 for j in (1, 2, 3) for k, s in enumerate(('Ia', 'fv', 'fc'))
    }
    text = isaaclab_efforts(robot, prior(robot, model).updated(found), model)
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert [call.func.id for call in calls] == ['ImplicitActuatorCfg'] * 3
    for j, call in enumerate(calls, 1):
        values = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        assert values == {
            'joint_names_expr': (f'joint_{j}',),
            'stiffness': 0.0,
            'damping': 0.0,
            'armature': found[f'joint_{j}.Ia'],
            'viscous_friction': found[f'joint_{j}.fv'],
            'friction': found[f'joint_{j}.fc'],
            'dynamic_friction': found[f'joint_{j}.fc'],
        }


def test_terms_without_a_place_are_named(robot):
    model = ModelSettings(friction=('viscous', 'coulomb', 'load'))
    with pytest.warns(IdentificationWarning, match='Isaac Lab has no load: left out'):
        isaaclab_efforts(robot, prior(robot, model), model)
