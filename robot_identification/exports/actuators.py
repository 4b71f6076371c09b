# SPDX-License-Identifier: Apache-2.0
"""Python files with an actuator for each joint, for simulators that are set up in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import re
from typing import Any
import warnings

from ..errors import IdentificationWarning, one_of
from ..model.friction import friction_symbols
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..model.targets import TARGETS
from ..regressor import ModelSettings
from ..results.exported_files import ISAACLAB as ISAACLAB_FILE
from ..results.exported_files import JointDynamics
from .formats import dynamics_of, require_kind

ISAACLAB = (
    '# Fields of isaaclab.actuators of Isaac Lab 2.2 to 3 with PhysX (Isaac Sim 5 and later) or',
    '# Newton, where friction is an effort; PhysX integrates it in another way than MuJoCo.',
)
"""Comment on the fields of Isaac Lab."""

EFFORT_LIMIT = 'actuator_effort_limit'
"""Field of Isaac Lab 3, for which a file takes that of 2.2 and 2.3 where its class lacks it."""

_CHOICE = (
    '# The effort limit has another name before Isaac Lab 3.',
    'KNOWN = {{field.name for field in fields({name})}}',
    f"LIMIT = '{EFFORT_LIMIT}' if '{EFFORT_LIMIT}' in KNOWN else 'effort_limit'",
    '',
)


def actuator_file(
    title: str,
    module: str,
    name: str,
    head: Sequence[str],
    joint_field: str,
    joints: Mapping[str, Mapping[str, object]],
) -> str:
    """
    Return a Python file with a mapping from joints to actuators of a class of a module.

    Parameters
    ----------
    title:
        First line of the file.
    module, name:
        Of the class.
    head:
        Comments.
    joint_field:
        Field of the class with expressions for names of joints.
    joints:
        Values of the other fields, by joint.

    """
    limited = any(EFFORT_LIMIT in values for values in joints.values())
    lines = [f'"""{title}."""', '', *head, '']
    lines += ['from dataclasses import fields', ''] if limited else []
    lines += [f'from {module} import {name}', '']
    lines += [line.format(name=name) for line in _CHOICE] if limited else []
    lines.append('ACTUATORS = {')
    for joint, values in joints.items():
        lines.append(f'    {joint!r}: {name}(')
        all_values = {joint_field: (re.escape(joint),), **values}
        for field, value in all_values.items():
            given = f'**{{LIMIT: {value!r}}}' if field == EFFORT_LIMIT else f'{field}={value!r}'
            lines.append(f'        {given},')
        lines.append('    ),')
    return '\n'.join([*lines, '}', ''])


def result_isaaclab(result: Any) -> str:
    """Return the actuators of a result."""
    return isaaclab_efforts(
        result.robot,
        result.standard,
        result.settings.model,
        dynamics=dynamics_of(result, ISAACLAB_FILE),
    )


def isaaclab_efforts(
    robot: Robot,
    parameters: ParameterSet,
    model: ModelSettings,
    *,
    dynamics: JointDynamics | None = None,
) -> str:
    """
    Return actuators of Isaac Lab for stiff joints that are driven by efforts.

    Bodies are those of the exported URDF; ``dynamics`` has friction in place of the model's, of
    joints that it names.

    Raises
    ------
    SettingsError
        for robots of other kinds.

    Warns
    -----
    IdentificationWarning
        naming terms that Isaac Lab lacks.

    """
    require_kind('isaaclab', robot, model)
    lacking = TARGETS['isaaclab'].lacking(model.friction)
    if lacking:
        text = f'Isaac Lab has no {one_of(lacking)}: left out'
        warnings.warn(text, IdentificationWarning, stacklevel=3)

    dynamics = dynamics or JointDynamics()

    def value(joint: str, symbols: Sequence[str], fitted: Mapping[str, float]) -> float:
        own = sum(parameters.get(f'{joint}.{symbol}') for symbol in symbols)
        return max(0.0, fitted.get(joint, own))

    dry = {
        joint: value(joint, friction_symbols(mjcf='frictionloss'), dynamics.friction)
        for joint in robot.driven_joints
    }
    joints = {
        joint: {
            'stiffness': 0.0,
            'damping': 0.0,
            'armature': value(joint, ('Ia',), {}),
            'friction': dry[joint],
            'dynamic_friction': dry[joint],
            'viscous_friction': value(joint, friction_symbols(mjcf='damping'), dynamics.damping),
        }
        for joint in robot.driven_joints
    }
    head: tuple[str, ...] = (*ISAACLAB, '# Gains are 0: joints are driven by efforts.')
    if robot.mimics.followed:
        head += (f'# {robot.mimics}: without a drive; the importer has to read <mimic>.',)
    return actuator_file(
        f'Drives of {robot.name}, identified by robot_identification',
        'isaaclab.actuators',
        'ImplicitActuatorCfg',
        head,
        'joint_names_expr',
        joints,
    )
