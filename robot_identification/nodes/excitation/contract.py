# SPDX-License-Identifier: Apache-2.0
"""
Contract with a trajectory controller: what it declares, and what a motion may count on.

The parameters are those of joint_trajectory_controller; without an answer nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rcl_interfaces.srv import GetParameters
from rclpy.parameter import parameter_value_to_python

from ...errors import ModelError
from ...excitation.limits import joint_units
from ...model.robot import Robot
from ...model.urdf import parse_urdf, UrdfJoint
from .options import Code, MotionError, Tick
from .remote_nodes import call_again

DECELERATES = 'constraints.decelerate_on_cancel'
DECELERATION = 'constraints.{}.max_deceleration_on_cancel'

VERSION = 'speed_scaling.initial_scaling_factor'
"""
Parameter of the versions that decelerate on a cancel, 4.39 and later in Jazzy, and of no earlier.

A controller that does not know a parameter has it all the same if its parameter file has.
"""

SCALING = ('speed_scaling_interface_name', 'speed_scaling.state_interface')
"""Interfaces by which a robot, as by its slider, has a controller let time pass slower."""

REQUIRED = ('joints', 'command_interfaces', 'state_interfaces', 'interpolation_method')
ASKED = (
    *REQUIRED,
    'command_joints',
    'allow_partial_joints_goal',
    'use_sim_time',
    'update_rate',
    'cmd_timeout',
    *SCALING,
    VERSION,
    DECELERATES,
)


@dataclass(frozen=True)
class Contract:
    """Properties of a controller that a motion may count on."""

    deceleration: np.ndarray | None
    """
    (n_joints,) of each joint of the robot on a cancel [rad/s^2 or m/s^2]; None where the
    controller holds its position at once.
    """
    hold: str
    """Why it holds at once, in words; '' where it decelerates."""
    uses_sim_time: bool
    """The controller's parameter."""
    summary: str
    """What was found and what follows, in a line."""
    period: float | None = None
    """Time between two updates, by which a stop may be late; None where it is not known [s]."""
    shows_speed: bool = False
    """Whether its state has the rate at which it lets time pass."""
    remark: str = ''
    """What its URDF has otherwise than the node's, in words; '' for nothing."""


async def ask_contract(
    name: str, client: Any, robot: Robot, tick: Tick, description: str
) -> Contract:
    """
    Ask a controller for its parameters, by a client of its ``get_parameters``.

    The description is the URDF that is published in its namespace; '' for none.

    Raises `MotionError`: ``NO_CONTROLLER`` for one that does not answer, or does not interpolate;
    ``JOINTS_DIFFER`` where its joints are not the robot's.
    """
    values = await _ask(name, client, ASKED, tick)
    each = [DECELERATION.format(joint) for joint in values['joints'] or ()]
    values |= await _ask(name, client, each, tick)
    return contract(name, robot, values, description)


async def _ask(name: str, client: Any, names: Sequence[str], tick: Tick) -> dict[str, Any]:
    """Return the parameters by name, None for one that is not declared."""
    # one by one: where one of several is not declared, none is answered
    requests = [GetParameters.Request(names=[each]) for each in names]
    missing = [f"'{name}' has not returned its parameter {each}" for each in names]
    answers = await call_again(client, requests, missing, tick)
    found = (
        parameter_value_to_python(each.values[0]) if each.values else None for each in answers
    )
    return dict(zip(names, found, strict=True))


def contract(name: str, robot: Robot, values: Mapping[str, Any], description: str) -> Contract:
    """Return what a controller's parameters come to; raise `MotionError` as `ask_contract`."""
    missing = [each for each in REQUIRED if not values.get(each)]
    method = values.get('interpolation_method')
    if missing or method != 'splines':
        text = f"'{name}' has no parameter {', '.join(missing)}: see the parameter controller"
        if not missing:
            text = f"interpolation_method of '{name}' is {method}, so it leaps: set it to splines"
        raise MotionError(Code.NO_CONTROLLER, text)
    _require_joints(name, robot.joints, values)
    joints, remark = _described(name, robot, description)
    hold, deceleration = _hold(joints, values), None
    how = f'holds its position at once where a goal is canceled, since {hold}'
    if not hold:
        each = [values[DECELERATION.format(joint)] for joint in robot.joints]
        deceleration = np.array(each, dtype=float)
        longest = float((robot.limits.velocity / deceleration).max())
        words = ', '.join(
            f'{value:.3g} {unit}/s^2' for value, unit in zip(each, joint_units(robot), strict=True)
        )
        how = f'stops by deceleration ({words}), {longest:.2g} s at most'
    commands = ' and '.join(values['command_interfaces'])
    summary = f"'{name}' commands {commands} by {method}, and {how}"
    rate, timeout = (values.get(each) or 0.0 for each in ('update_rate', 'cmd_timeout'))
    scaling = ', '.join(filter(None, map(values.get, SCALING)))
    unknown = '' if rate else ', update_rate'
    unknown += '' if description else ', robot_description'
    unknown += f', its speed by {scaling}' if scaling and values.get(VERSION) is None else ''
    parts = (
        summary,
        f'{rate:g} updates a second' if rate else '',
        f'a goal ends {timeout:g} s after its trajectory (cmd_timeout)' if timeout else '',
        f'not checked: {unknown[2:]}' if unknown else '',
    )
    return Contract(
        deceleration,
        hold,
        bool(values.get('use_sim_time')),
        '; '.join(filter(None, parts)),
        1.0 / rate if rate else None,
        values.get(VERSION) is not None,
        remark,
    )


def _described(name: str, robot: Robot, description: str) -> tuple[Mapping[str, UrdfJoint], str]:
    """Return the joints that a controller's URDF has, and how they differ from the robot's."""
    own = robot.contents.joints
    if description in ('', robot.urdf):
        return own, ''
    try:
        joints = parse_urdf(description).joints
    except ModelError as error:
        return own, f"the robot_description of '{name}' cannot be read: {error.message}"
    differences = [
        f"{key} of joint '{joint}' is {there} there and {here} here"
        for joint in filter(own.__contains__, robot.joints)
        for key in ('type', 'lower', 'upper', 'velocity', 'effort')
        for here, there in [(getattr(own[joint], key), getattr(joints.get(joint), key, 'missing'))]
        if here != there
    ]
    words = f"the robot_description of '{name}' is not this node's: {'; '.join(differences)}"
    return joints, words if differences else ''


def _require_joints(name: str, joints: Sequence[str], values: Mapping[str, Any]) -> None:
    """Require that the joints are the controller's, in any order."""
    theirs, partial = list(values['joints']), values.get('allow_partial_joints_goal')
    commanded = list(values.get('command_joints') or theirs)
    # those of a chain have names of their own
    if set(commanded) & set(theirs) and commanded != theirs[: len(commanded)]:
        raise MotionError(
            Code.JOINTS_DIFFER,
            f"command_joints of '{name}' are not in the order of its joints, so it would command "
            'one by another: give them in that order, or leave them empty',
        )
    missing = [f"'{joint}'" for joint in joints if joint not in theirs[: len(commanded)]]
    surplus = [f"'{joint}'" for joint in theirs if joint not in joints and not partial]
    words = [f'it does not command {", ".join(missing)}'] if missing else []
    words += [f'it has {", ".join(surplus)} too'] if surplus else []
    if words:
        raise MotionError(
            Code.JOINTS_DIFFER,
            f"the joints of the controller '{name}' are not those of the motion, "
            f'{" and ".join(words)}: see the parameters controller and joints',
        )


def _hold(joints: Mapping[str, UrdfJoint], values: Mapping[str, Any]) -> str:
    """Return why joint_trajectory_controller holds at once; '' where it decelerates."""
    if not values.get(DECELERATES):
        return f'{DECELERATES} is not true'
    if values.get(VERSION) is None:
        return f'it is of a version without {DECELERATES}, before 4.39'
    if 'velocity' not in values['state_interfaces']:
        return 'its state_interfaces have no velocity'
    for joint in values['joints']:
        name, urdf = DECELERATION.format(joint), joints.get(joint)
        if not (values.get(name) or 0.0) > 0.0:
            return f'{name} is not positive'
        if urdf is None or not np.isfinite(urdf.velocity):
            return f"the URDF has no velocity limit of joint '{joint}'"
    return ''
