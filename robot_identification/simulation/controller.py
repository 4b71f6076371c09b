# SPDX-License-Identifier: Apache-2.0
"""
Controller of trajectories, by the rules of ros2_control's joint_trajectory_controller 4.42.

One goal is executed at a time: a trajectory with tolerances.  It ends when the robot is within the
goal tolerances after the last point, when it leaves a tolerance, when it is canceled, or when
another goal takes its place.  After all but the last the controller stops the robot from where it
is measured: each joint by its own constant deceleration, or at once where none is set.  Tolerances
are looked at before anything is commanded: what is beyond them is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ..errors import ExcitationError
from ..model.robot import Robot
from ..options.fields import option
from .servo import Waypoints
from .simulator import Simulator
from .truth import per_joint

NO_TOLERANCE = -1.0
"""Value in a goal that removes a tolerance; 0 leaves the controller's own."""


STOP_TIME = 0.7
"""Time to rest from a joint's velocity limit, where no deceleration is set [s]."""


def _each(doc: str) -> Any:
    return option(
        (), doc=f'{doc}; one number a joint, or one for all', minimum=0.0, read_only=True
    )


@dataclass(frozen=True)
class Constraints:
    """
    Constraints of the controller, as the parameters ``constraints`` of the real one.

    There each joint has its own parameter, ``constraints.<joint>.goal`` for example; here a list
    has all of them.
    """

    trajectory: tuple[float, ...] = _each(
        'Largest error of position on the way; empty, or 0: any error [rad]'
    )
    goal: tuple[float, ...] = _each(
        'Largest error of position after the last point; empty, or 0: any error [rad]'
    )
    goal_time: float = option(
        0.0,
        doc='Time allowed after the last point for coming within the goal tolerance; 0: any time',
        unit='s',
        minimum=0.0,
        read_only=True,
    )
    decelerate_on_cancel: bool = option(
        True,
        doc='Whether a canceled or failed trajectory ends with a deceleration of each joint; '
        'otherwise, or where a joint has none, the measured position is held at once',
        read_only=True,
    )
    max_deceleration_on_cancel: tuple[float, ...] = _each(
        "That deceleration; empty: rest from the URDF's velocity limit in 0.7 s [rad/s^2]"
    )


@dataclass(frozen=True)
class Tolerances:
    """
    Tolerances of a goal.

    Attributes
    ----------
    path, goal:
        (n_joints,) largest errors of position on the way and at the end [rad or m]; 0 for none.
    goal_time:
        Time allowed for coming within ``goal`` [s]; 0 for any.

    """

    path: np.ndarray
    goal: np.ndarray
    goal_time: float

    def replaced(
        self,
        joints: Sequence[str],
        path: Mapping[str, float],
        goal: Mapping[str, float],
        goal_time: float,
    ) -> Tolerances:
        """
        Return the tolerances with those of a goal, by joint; 0 keeps one, -1 removes it.

        Raises ExcitationError naming an unknown joint or another negative tolerance.
        """
        return Tolerances(
            _replaced(joints, self.path, path),
            _replaced(joints, self.goal, goal),
            _of_goal('goal_time_tolerance', self.goal_time, goal_time),
        )


def _replaced(joints: Sequence[str], own: np.ndarray, given: Mapping[str, float]) -> np.ndarray:
    values = own.copy()
    for joint, value in given.items():
        if joint not in joints:
            raise ExcitationError(
                f"a tolerance is for joint '{joint}', which the robot has not",
                joint=joint,
                remedy="name its joints; the controller's own tolerances are in force now",
            )
        i = list(joints).index(joint)
        values[i] = _of_goal(f"tolerance of joint '{joint}'", own[i], value)
    return values


def _of_goal(name: str, own: float, given: float) -> float:
    if given == NO_TOLERANCE:
        return 0.0
    if given < 0.0:
        raise ExcitationError(
            f'the {name} is {given:g}',
            value=given,
            remedy="give a positive one, or -1 for none; the controller's own are in force now",
        )
    return given if given > 0.0 else own


class Outcome(Enum):
    """End of a goal, with the text of its result."""

    SUCCEEDED = 'Goal successfully reached!'
    CANCELED = ''
    REPLACED = 'Current goal preempted by new incoming action.'
    PATH_TOLERANCE_VIOLATED = 'Aborted due to path tolerance violation'
    GOAL_TOLERANCE_VIOLATED = 'Aborted due to goal_time_tolerance exceeding by {:.6f} seconds'


@dataclass
class Goal:
    """
    A goal, and how it ended, if it has.

    Attributes
    ----------
    reason:
        Text of its result, in the words of joint_trajectory_controller.
    detail:
        Joint that is beyond a tolerance, and its error; '' otherwise.

    """

    tolerances: Tolerances
    outcome: Outcome | None = None
    reason: str = ''
    detail: str = ''


class TrajectoryController:
    """
    Controller of a simulated robot.

    Attributes
    ----------
    goal:
        The goal in execution; None while the robot rests or stops.
    tolerances:
        The controller's own.
    deceleration:
        (n_joints,) with which joints stop [rad/s^2 or m/s^2]; None: the position is held at once.

    Raises
    ------
    SettingsError
        if the constraints do not fit the robot's joints.

    """

    def __init__(self, simulator: Simulator, constraints: Constraints) -> None:
        self._simulator = simulator
        simulator.guard = self._allows
        self.goal: Goal | None = None
        robot = simulator.robot
        none, usual = np.zeros(robot.n_joints), robot.limits.velocity / STOP_TIME
        self.tolerances = Tolerances(
            _joints(constraints, robot, 'trajectory', none),
            _joints(constraints, robot, 'goal', none),
            constraints.goal_time,
        )
        self.deceleration: np.ndarray | None = None
        deceleration = _joints(constraints, robot, 'max_deceleration_on_cancel', usual)
        # without a velocity limit it holds, as the real one
        usable = (deceleration > 0.0) & np.isfinite(deceleration + robot.limits.velocity)
        if constraints.decelerate_on_cancel and usable.all():
            self.deceleration = deceleration

    def accept(
        self,
        waypoints: Waypoints,
        start: float | None = None,
        tolerances: Tolerances | None = None,
    ) -> Goal:
        """
        Execute a goal in place of the one before; see `Simulator.follow` for the first arguments.

        Raises ExcitationError if the trajectory is refused; the goal before goes on.
        """
        self._simulator.follow(waypoints, start)
        self._end(Outcome.REPLACED, Outcome.REPLACED.value)
        self.goal = Goal(tolerances or self.tolerances)
        return self.goal

    def cancel(self, goal: Goal) -> None:
        """Cancel a goal and stop the robot, if it is the one in execution."""
        if goal is self.goal:
            self._end(Outcome.CANCELED, '')
            self._stop()

    def abandon(self, reason: str) -> None:
        """End the goal in execution, if any; the robot is somebody else's."""
        self._end(Outcome.REPLACED, reason)

    def _allows(self, reference: np.ndarray) -> bool:
        """Compare a reference (3, n_joints) with the robot; return whether it is commanded."""
        goal, simulator = self.goal, self._simulator
        if goal is None:
            return True
        error = np.abs(reference[0] - simulator.plant.position)
        late = simulator.follower.late
        if late < 0.0:
            outcome, beyond = Outcome.PATH_TOLERANCE_VIOLATED, _beyond(error, goal.tolerances.path)
            over = bool(beyond.any())
        else:
            outcome, beyond = Outcome.GOAL_TOLERANCE_VIOLATED, _beyond(error, goal.tolerances.goal)
            if not beyond.any():
                self._end(Outcome.SUCCEEDED, Outcome.SUCCEEDED.value)
            over = bool(beyond.any()) and 0.0 < goal.tolerances.goal_time < late
        if over:
            worst = int(np.argmax(np.where(beyond, error, 0.0)))
            goal.detail = f"joint '{simulator.joints[worst]}' is off by {error[worst]:.4g}"
            self._end(outcome, outcome.value.format(late))
            self._stop()
        return not over

    def _stop(self) -> None:
        if self.deceleration is None:
            self._simulator.hold()
        else:
            self._simulator.brake(self.deceleration)

    def _end(self, outcome: Outcome, reason: str) -> None:
        if self.goal is not None:
            self.goal.outcome, self.goal.reason = outcome, reason
            self.goal = None


def _beyond(error: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    return (tolerance > 0.0) & (error > tolerance)


def _joints(constraints: Constraints, robot: Robot, key: str, default: np.ndarray) -> np.ndarray:
    values = per_joint(getattr(constraints, key), robot, f'constraints.{key}')
    return default if values is None else values
