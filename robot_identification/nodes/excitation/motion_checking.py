# SPDX-License-Identifier: Apache-2.0
"""
All checks of one motion, the way to its start included.

Executing, a dry run and the preview pass through here, so that what one of them allows the others
allow, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import numpy as np
from rclpy.node import Node
from robot_identification_msgs.action import Excite
from robot_identification_msgs.srv import Preview

from ...errors import ExcitationError
from ...excitation.constraints import Findings
from ...excitation.plans import Plan
from ...excitation.points import PointTrajectory, to_points
from ...excitation.settings import PlannerSettings
from ...excitation.trajectories import concatenate, Trajectory
from ...model.robot import Robot
from .checks import (
    approach_to,
    MotionChecks,
    received,
)
from .joint_state_watch import require_state, StateWatch
from .motion_errors import Code, MotionError
from .motion_path import (
    at_speed,
    motion_path,
    MotionPath,
)
from .motion_sender import Tick
from .options import ExecutionOptions

Position = Callable[[], Awaitable[np.ndarray | None]]
"""Asked for where the robot rests, (n_joints,); None where that is not known."""

Worker = Callable[[Callable[[], MotionPath]], Awaitable[MotionPath]]
"""Runs what computes, while the node goes on."""


@dataclass
class MotionCheck:
    """
    A motion on its way through the checks.

    Attributes
    ----------
    robot, settings, options:
        Whose motion, and where limits, obstacles and tolerances come from.
    trajectory:
        As it is sent.
    way:
        From where the robot is to its start; None where it is there, or not known.
    path, approach:
        Both ready to be followed, once checked.
    findings:
        What the checks have found on both.

    """

    robot: Robot
    settings: PlannerSettings
    options: ExecutionOptions
    trajectory: PointTrajectory
    way: PointTrajectory | None = None
    path: MotionPath | None = None
    approach: MotionPath | None = None
    findings: Findings | None = None

    @property
    def parts(self) -> tuple[PointTrajectory, ...]:
        """The way to the start, as far as it is known, and the trajectory."""
        return (self.trajectory,) if self.way is None else (self.way, self.trajectory)

    @property
    def whole(self) -> Trajectory:
        """The parts one after the other."""
        return concatenate(self.parts)

    async def carry_out(
        self, checks: MotionChecks, position: Position, in_worker: Worker
    ) -> MotionPath:
        """
        Carry out all checks; return the trajectory's path, ready to be followed.

        Parameters
        ----------
        checks:
            What checks.
        position:
            Asked once the trajectory itself has passed; None leaves the way to its start aside.
        in_worker:
            Runs the checks.

        Raises
        ------
        MotionError
            naming what does not hold.

        """
        path = await in_worker(lambda: self._checked(checks, self.trajectory, ''))
        self.path = path
        here = await position()
        if here is None:
            return path
        way = approach_to(here, self.trajectory, path.limits, self.options)
        if way is not None:
            self.way = way
            self.approach = await in_worker(
                lambda: self._checked(checks, way, 'on the way to the start: ')
            )
        return path

    def _checked(
        self, checks: MotionChecks, trajectory: PointTrajectory, where: str
    ) -> MotionPath:
        limits, found = checks.check(self.robot, trajectory, self.settings, self.options, where)
        path = motion_path(self.robot, trajectory, limits, self.options)
        # the way comes first in time, though it is checked last
        self.findings = (
            found if self.findings is None else found.joined(self.findings, trajectory.duration)
        )
        return path


def wanted(
    request: Excite.Goal | Preview.Request,
    plans: Mapping[str, Plan],
    robot: Robot,
    settings: PlannerSettings,
    options: ExecutionOptions,
) -> MotionCheck:
    """
    Return the motion that is asked for, as it is sent, before its checks.

    Parameters
    ----------
    request:
        Names a plan or brings a trajectory, and says at what speed.
    plans:
        Those that are kept.
    robot, settings, options:
        As they are now; the settings are those of a trajectory.

    Raises
    ------
    MotionError
        where there is no such plan, or the trajectory or the speed is none.

    """
    kept = plans.get(request.plan_id)
    if request.plan_id and kept is None:
        known = ', '.join(plans) or 'none'
        raise MotionError(
            Code.UNKNOWN_PLAN,
            f"no plan is called '{request.plan_id}': plan anew; known are {known}",
        )
    if kept is None:
        try:
            trajectory = received(request.trajectory, robot)
        except ExcitationError as error:
            raise MotionError(Code.INVALID_TRAJECTORY, str(error)) from error
    else:
        trajectory, settings = to_points(kept.trajectory, options.publish_rate), kept.settings
    return MotionCheck(robot, settings, options, at_speed(trajectory, request.speed, options))


async def place_of_rest(
    node: Node, states: StateWatch, options: ExecutionOptions, tick: Tick
) -> np.ndarray | None:
    """Return where the robot rests (n_joints,), or None, and a line in the log, where unknown."""
    try:
        return await require_state(states, options, tick)
    except MotionError as error:
        node.get_logger().info(f'without the way to the start: {error.message}')
        return None
