# SPDX-License-Identifier: Apache-2.0
"""Regressor of a robot by its settings, and the parameters that its URDF gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from ..errors import ModelError
from ..model.friction import friction_symbols, POSITIVE
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from .closed_chain import ClosedBodies
from .delta import DeltaBodies
from .elastic import build_elastic
from .floating import floating_regressor
from .inverse_dynamics import InverseDynamicsRegressor, MechanismRegressor, Regressor
from .joint_terms import body_effort, drive_term, friction_term, spring_term, Term
from .kinds import ELASTIC, FLOATING, kind_of
from .rigid import RigidBodies, tree_of
from .settings import ModelSettings


def build(robot: Robot, settings: ModelSettings | None = None) -> Regressor:
    """
    Make the regressor of a robot, by default with default settings.

    It is an `InverseDynamicsRegressor`, a `MechanismRegressor` if the settings have closed loops
    or a delta robot, an `ElasticRegressor` if they have elastic joints, or a `FloatingRegressor`
    if the robot's base is free.

    Raises
    ------
    SettingsError
        if a coupled drive names a joint that is not identified, or the settings of elastic joints
        do not fit the robot.

    """
    settings = settings or ModelSettings()
    kind = kind_of(robot, settings)
    if kind is ELASTIC:
        return build_elastic(robot, settings)
    if kind is FLOATING:
        # what an accelerometer reads has gravity in it
        tree = _build_rigid(robot.with_gravity((0.0, 0.0, 0.0)), settings)
        return floating_regressor(robot, tree, settings.contacts, settings.imu)
    return _build_rigid(robot, settings)


def _build_rigid(robot: Robot, settings: ModelSettings) -> InverseDynamicsRegressor:
    bodies = _bodies(robot, settings)
    tree = isinstance(bodies, RigidBodies)
    joints, revolute = robot.joints, tree_of(robot.opened).revolute[: robot.n_joints]
    if settings.delta is not None:
        settings = replace(settings, rotor_inertia=False)  # it is part of J
    known = robot.opened.prior
    values = np.array([known.get(name) for name in bodies.layout])
    effort = partial(body_effort, bodies, values)
    layout = bodies.layout
    terms = [bodies, friction_term(joints, revolute, settings, len(layout), effort)]
    layout = layout + terms[-1].layout
    terms.append(spring_term(settings.joint_springs, joints, revolute, len(layout)))
    layout = layout + terms[-1].layout
    for drive in settings.coupled_drives:
        terms.append(drive_term(drive, joints, revolute, settings, layout))
        layout = layout + terms[-1].layout
    kind = InverseDynamicsRegressor if tree else MechanismRegressor
    return kind(layout, robot.n_joints, tuple(terms))


def _bodies(robot: Robot, settings: ModelSettings) -> Term:
    if settings.delta is not None:
        return DeltaBodies.from_robot(robot, settings.delta)
    if settings.loops:
        return ClosedBodies.from_robot(robot, settings)
    if robot.passive:
        raise ModelError(
            f"robot '{robot.name}' has passive joints, but no loops are declared",
            joint=robot.passive[0],
            remedy='declare them in robot.loops, or lock these joints',
        )
    return RigidBodies.from_robot(robot)


def prior(robot: Robot, settings: ModelSettings | None = None) -> ParameterSet:
    """
    Return the standard parameters of the model that the URDF gives.

    Inertial parameters come from ``<inertial>`` (fixed and locked links lumped), ``fv`` and ``fc``
    (or ``ts``) from a joint's ``<dynamics damping friction>``; all others are 0.
    """
    regressor = build(robot, settings)
    # where motors have names of their own, the joint's friction is the motor's
    motors = {joint: motor for motor, joint in getattr(regressor, 'motors', {}).items()}
    values = urdf_values(robot, motors)
    return ParameterSet(
        regressor.layout, np.array([values.get(name, 0.0) for name in regressor.layout])
    )


def urdf_values(robot: Robot, motors: Mapping[str, str] | None = None) -> dict[str, float]:
    """
    Return what a URDF gives by the names of all parameters that could have it, see `prior`.

    ``motors`` are the owners of the friction of joints that have motors with names of their own.
    """
    values = robot.opened.prior.as_dict()
    for joint in robot.opened.joints:
        owner, drawn = (motors or {}).get(joint, joint), robot.contents.joints[joint]
        values.update({f'{owner}.{s}': drawn.damping for s in friction_symbols(mjcf='damping')})
        dry = friction_symbols(mjcf='frictionloss', sign=POSITIVE)
        values.update({f'{owner}.{s}': drawn.friction for s in dry})
    for joint, mimic in robot.mimics.followed.items():
        # on the drive of the joint that is followed
        owner, ratio = (motors or {}).get(mimic.joint, mimic.joint), abs(mimic.multiplier)
        drawn = robot.contents.joints[joint]
        for s in friction_symbols(mjcf='damping'):
            values[f'{owner}.{s}'] += ratio**2 * drawn.damping
        for s in friction_symbols(mjcf='frictionloss', sign=POSITIVE):
            values[f'{owner}.{s}'] += ratio * drawn.friction
    return values
