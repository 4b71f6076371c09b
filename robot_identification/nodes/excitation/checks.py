# SPDX-License-Identifier: Apache-2.0
"""Checks before a trajectory is executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
import warnings

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from ...errors import ExcitationError, IdentificationWarning
from ...excitation.collision_check import CollisionError
from ...excitation.collisions import collision_model, CollisionModel
from ...excitation.constraints import (
    check_trajectory,
    Findings,
    LimitViolation,
)
from ...excitation.limits import Limits, motion_limits
from ...excitation.points import point_to_point, PointTrajectory
from ...excitation.settings import MOST_INSTANTS, PlannerSettings
from ...model.robot import Robot
from ..common.motion_messages import trajectory_points
from .motion_errors import Code, MotionError
from .options import ExecutionOptions

LONGEST = 3600.0
"""Longest motion [s]: a check looks at it some hundred times a second, all at once."""

MOST_POINTS = 200_000
"""Points of a trajectory, as it is received and as it is sent."""


class MotionChecks:
    """
    Checks trajectories, and keeps the robot's collision model from one to the next.

    Parameters
    ----------
    warn:
        Told what the collision model could not read.

    """

    def __init__(self, warn: Callable[[str], Any]) -> None:
        self._warn = warn
        self._collisions: tuple[tuple, CollisionModel] | None = None

    def check(
        self,
        robot: Robot,
        trajectory: PointTrajectory,
        settings: PlannerSettings,
        options: ExecutionOptions,
        where: str,
    ) -> tuple[Limits, Findings]:
        """
        Check a trajectory against the limits themselves, without a planner's margin.

        Parameters
        ----------
        robot, trajectory, settings:
            What is checked, and where the limits come from.
        options:
            Say what margin has to be left all the same.
        where:
            Put before the message.

        Returns
        -------
        tuple of Limits and Findings
            Limits that it keeps, and how much of them it uses.

        Raises
        ------
        MotionError
            naming the joint and limit, or the links.

        """
        instants = trajectory.duration * settings.check_rate
        if instants > MOST_INSTANTS:
            raise MotionError(
                Code.INVALID_TRAJECTORY,
                f'{where}a motion of {trajectory.duration:.6g} s has {instants:.3g} instants to '
                f'check, {MOST_INSTANTS} are the most: play it faster, or lower check_rate',
            )
        try:
            limits = motion_limits(robot, settings, margin=options.check_margin)
            collisions = self._collision_model(robot, settings)
            rate = settings.check_rate
            found = check_trajectory(robot, trajectory, limits, rate=rate, collisions=collisions)
        except ExcitationError as error:
            raise MotionError(_check_code(error), f'{where}{error}') from error
        return limits, found

    def _collision_model(self, robot: Robot, settings: PlannerSettings) -> CollisionModel | None:
        if not settings.check_collisions:
            return None
        key = (robot.urdf, robot.joints, settings.clearance, settings.all_obstacles)
        if self._collisions is None or self._collisions[0] != key:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore', IdentificationWarning)
                model = collision_model(robot, settings.clearance, settings.all_obstacles)
            for warning in model.warnings:
                self._warn(warning)
            self._collisions = key, model
        return self._collisions[1]


def received(message: JointTrajectory, robot: Robot) -> PointTrajectory:
    """Return the trajectory of a goal; raise `ExcitationError` where it is none of the robot's."""
    if not message.points:
        raise ExcitationError(
            'the goal has neither a plan_id nor a trajectory with points',
            remedy='give one of them',
        )
    if len(message.points) > MOST_POINTS:
        raise ExcitationError(
            f'the trajectory has {len(message.points)} points',
            value=len(message.points),
            remedy=f'send at most {MOST_POINTS}; the controller interpolates',
        )
    points = trajectory_points(message, robot.joints)
    if points.velocity is None:
        raise ExcitationError(
            'the trajectory has no velocities, so its accelerations would be infinite',
            remedy='give every point velocities, and accelerations best',
        )
    if points.time[-1] - points.time[0] > LONGEST:
        raise ExcitationError(
            f'the trajectory takes {points.time[-1] - points.time[0]:.6g} s',
            value=float(points.time[-1]),
            remedy=f'send one of {LONGEST:g} s at most',
        )
    return PointTrajectory(
        robot.joints, points.time, points.position, points.velocity, points.acceleration
    )


def approach_to(
    position: np.ndarray, trajectory: PointTrajectory, limits: Limits, options: ExecutionOptions
) -> PointTrajectory | None:
    """Return the way from ``position`` to the trajectory's start; None where that is here."""
    start = trajectory.sample(np.zeros(1)).position[0]
    away = np.abs(position - start)
    if away.max() <= options.start_tolerance:
        return None
    if not options.move_to_start:
        joint = trajectory.joints[int(away.argmax())]
        raise MotionError(
            Code.NOT_AT_START,
            f"joint '{joint}' is {away.max():.4g} away from the start of the trajectory: move the "
            'robot there, or set move_to_start to true',
        )
    speed = options.move_speed
    way = point_to_point(
        trajectory.joints,
        position,
        start,
        speed * limits.velocity,
        speed * limits.acceleration,
        jerk=speed * limits.jerk,
    )
    if way.duration > LONGEST:
        joint = trajectory.joints[int(away.argmax())]
        raise MotionError(
            Code.NOT_AT_START,
            f"the way to the start takes {way.duration:.3g} s, since joint '{joint}' is "
            f'{away.max():.4g} away: see whether its joint states are true, or move it nearer',
        )
    return way


def _check_code(error: ExcitationError) -> int:
    if isinstance(error, CollisionError):
        return Code.COLLISION
    return Code.LIMITS_VIOLATED if isinstance(error, LimitViolation) else Code.INVALID_TRAJECTORY
