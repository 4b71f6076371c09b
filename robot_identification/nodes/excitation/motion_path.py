# SPDX-License-Identifier: Apache-2.0
"""Paths made ready to be followed: with the stops on them, and the efforts they should take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...excitation.constraints import nominal_effort
from ...excitation.limits import Limits
from ...excitation.points import PointTrajectory, to_points
from ...excitation.trajectory_segments import stoppable, StoppablePath
from ...model.robot import Robot
from .checks import LONGEST, MOST_POINTS
from .motion_errors import Code, MotionError
from .options import ExecutionOptions

EFFORT_RATE = 100.0
"""How often efforts are predicted, for comparison with the measured ones [Hz]."""

STOP_LEAD = 0.05
"""How long before it begins a stop is sent, at least [s]."""

_BLOCK = 4096


@dataclass(frozen=True)
class MotionPath:
    """
    A checked path that is ready to be followed.

    Attributes
    ----------
    stops:
        The path, and the stops on it.
    limits:
        Limits in force.
    effort_limit:
        (n_joints,) the robot's own, infinite where there is none [N m or N].
    effort:
        (n, n_joints) predicted along the path, every 1 / `EFFORT_RATE` [N m or N].

    """

    stops: StoppablePath
    limits: Limits
    effort_limit: np.ndarray
    effort: np.ndarray

    @property
    def trajectory(self) -> PointTrajectory:
        """The path itself."""
        return self.stops.path

    @property
    def duration(self) -> float:
        """Length in time [s]."""
        return self.stops.path.duration

    def effort_range(self, begin: float, end: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and highest predicted efforts (n_joints,) between two times."""
        first = max(int(np.floor(begin * EFFORT_RATE)), 0)
        last = max(int(np.ceil(end * EFFORT_RATE)), 0) + 1
        rows = self.effort[min(first, len(self.effort) - 1) : last]
        return rows.min(axis=0), rows.max(axis=0)


def at_speed(
    trajectory: PointTrajectory, speed: float, options: ExecutionOptions
) -> PointTrajectory:
    """
    Return a trajectory as it is sent: at a share of its speed, by points of the rate asked for.

    Parameters
    ----------
    trajectory:
        As planned or received.
    speed:
        Above 0 up to 1; 0 counts as 1.
    options:
        Give the rate.

    Raises
    ------
    MotionError
        where the speed is none, or the motion would take too long.

    """
    speed = speed or 1.0
    if not 0.0 < speed <= 1.0:
        raise MotionError(
            Code.INVALID_TRAJECTORY,
            f'speed is {speed:g}: it is a share of the planned one, above 0 up to 1',
        )
    slower = trajectory.slower(speed)
    if slower.duration > LONGEST:
        raise MotionError(
            Code.INVALID_TRAJECTORY,
            f'at a speed of {speed:g} the trajectory takes {slower.duration:.6g} s: play it '
            f'faster, {LONGEST:g} s are the most',
        )
    points = slower.duration * options.publish_rate
    if points > MOST_POINTS:
        raise MotionError(
            Code.INVALID_TRAJECTORY,
            f'a motion of {slower.duration:.6g} s has {points:.3g} points at a publish_rate of '
            f'{options.publish_rate:g} Hz, {MOST_POINTS} are the most: play it faster',
        )
    return to_points(slower, options.publish_rate)


def motion_path(
    robot: Robot, trajectory: PointTrajectory, limits: Limits, options: ExecutionOptions
) -> MotionPath:
    """
    Make a checked trajectory ready to be followed.

    Parameters
    ----------
    robot, trajectory, limits:
        What has been checked.
    options:
        How it is to be carried out.

    Raises
    ------
    MotionError
        where the robot could not be brought to rest soon enough from everywhere on the path.

    """
    path = to_points(trajectory, options.publish_rate)
    effort = nominal_effort(robot)
    stops = stoppable(path, limits, effort, options.publish_rate)
    longest = stops.rest_within(STOP_LEAD)
    if longest > options.stop_within:
        raise MotionError(
            Code.LIMITS_VIOLATED,
            f'to come to rest along the path would take up to {longest:.3g} s, more than '
            f'stop_within ({options.stop_within:g} s), since its accelerations, jerks or efforts '
            "leave no room for a quicker stop: lower the goal's speed, or raise stop_within",
        )
    time = np.arange(0.0, path.duration + 1.0 / EFFORT_RATE, 1.0 / EFFORT_RATE)
    predicted = [
        effort(path.sample(time[first : first + _BLOCK])) for first in range(0, time.size, _BLOCK)
    ]
    return MotionPath(stops, limits, robot.limits.effort, np.concatenate(predicted))
