# SPDX-License-Identifier: Apache-2.0
"""
All checks of one motion, the way to its start included.

Executing, a dry run and the preview pass through here, so that what one of them allows the others
allow, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from robot_identification_msgs.action import Excite
from robot_identification_msgs.srv import Preview
from trajectory_msgs.msg import JointTrajectory

from ...data.recording import Motion
from ...errors import collected_warnings, ExcitationError
from ...excitation.collisions import (
    collision_settings,
    CollisionModel,
    planned_collisions,
    tracking_tolerances,
)
from ...excitation.constraints import check_trajectory, CollisionError, Findings, LimitViolation
from ...excitation.extremes import nominal_effort
from ...excitation.limits import Limits, motion_limits, stricter
from ...excitation.plans import Plan
from ...excitation.settings import MOST_INSTANTS, PlannerSettings
from ...excitation.stops import check_stops, harsh_stops
from ...excitation.trajectories import (
    concatenate,
    point_to_point,
    PointTrajectory,
    to_points,
)
from ...model.robot import Robot
from ..common.messages import trajectory_points
from .options import Code, ExecutionOptions, MotionError

LONGEST = 3600.0
"""Longest motion [s]: a check looks at it some hundred times a second, all at once."""

MOST_POINTS = 200_000
"""Points of a trajectory, as it is received and as it is sent."""

EFFORT_RATE = 100.0
"""Rate at which efforts are predicted, for comparison with the measured ones [Hz]."""

CREEP = 1e-3
"""Share of the speed of a motion at which dry friction and gravity alone are left."""

THERE = 1e-6
"""How far from the start of a trajectory the robot needs no way to it [rad or m]."""

_BLOCK = 4096  # instants whose efforts are predicted together


@dataclass(frozen=True)
class Start:
    """Place where a robot rests before a motion."""

    position: np.ndarray | None
    """(n_joints,) where the controller holds it; None where that is not known [rad or m]."""
    deceleration: np.ndarray | None
    """(n_joints,) of a stop by the controller [rad/s^2 or m/s^2]; None where that is a hold."""
    remark: str = ''
    """Why the controller holds at once, or what is not known, in words; '' for nothing."""
    period: float | None = None
    """Time between two updates of the controller; None where that is not known [s]."""
    stops_known: bool = True
    """Whether there is a controller whose stops can be checked."""


FindStart = Callable[[], Awaitable[Start]]
"""Asked for where the robot rests."""

Worker = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs what computes, while the node goes on."""


@dataclass(frozen=True)
class CheckedMotion:
    """A checked motion, as it is sent."""

    trajectory: PointTrajectory
    """The way to the start, if there is one, and what was asked for, from rest to rest."""
    approach: float
    """Length of the way to the start; 0 without one [s]."""
    tolerance: np.ndarray
    """(n_joints,) largest error of each joint's position [rad or m]."""
    stop: float
    """Longest time from a cancel to rest; 0 where the controller holds at once [s]."""
    limits: Limits
    """Those that it was held to."""
    effort_limit: np.ndarray
    """(n_joints,) the robot's own, infinite where there is none [N m or N]."""
    effort: np.ndarray
    """
    (2, n, n_joints) predicted along the trajectory, every 1 / `EFFORT_RATE`: as it is planned, and
    as slowly as can be, with gravity and dry friction alone [N m or N].
    """

    def effort_range(
        self, begin: float, end: float, slower: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """
        Return the lowest and highest predicted efforts (n_joints,) between two times.

        Those of a motion that is ``slower`` than planned lie between both.
        """
        first = max(int(np.floor(begin * EFFORT_RATE)), 0)
        last = max(int(np.ceil(end * EFFORT_RATE)), 0) + 1
        rows = self.effort[: 1 + slower, min(first, self.effort.shape[1] - 1) : last]
        return rows.min(axis=(0, 1)), rows.max(axis=(0, 1))


def predicted_effort(robot: Robot, trajectory: PointTrajectory) -> np.ndarray:
    """Return the efforts (2, n, n_joints) of a trajectory by the URDF, as of `CheckedMotion`."""
    effort = nominal_effort(robot)
    time = np.arange(0.0, trajectory.duration + 1.0 / EFFORT_RATE, 1.0 / EFFORT_RATE)
    blocks = (time[first : first + _BLOCK] for first in range(0, time.size, _BLOCK))
    motions = [trajectory.sample(block) for block in blocks]
    slow = [Motion(m.position, CREEP * m.velocity, 0.0 * m.acceleration) for m in motions]
    return np.stack([np.concatenate([effort(m) for m in each]) for each in (motions, slow)])


class CollisionModelCache:
    """The latest collision model, whose warnings are passed on once, kept for the next check."""

    def __init__(self, warn: Callable[[str], Any]) -> None:
        self._warn = warn
        self._latest: tuple[tuple, CollisionModel] | None = None

    def model(self, robot: Robot, settings: PlannerSettings) -> CollisionModel | None:
        """Return the model; None where the settings leave collisions aside."""
        if not settings.check_collisions:
            return None
        locked = tuple(robot.locked.items())
        key = (robot.urdf, robot.joints, locked, collision_settings(settings))
        if self._latest is None or self._latest[0] != key:
            with collected_warnings():  # the model keeps its own
                model = planned_collisions(robot, settings)
            assert model is not None
            for warning in model.warnings:
                self._warn(warning)
            self._latest = key, model
        return self._latest[1]


@dataclass
class MotionCheck:
    """A motion on its way through the checks."""

    robot: Robot
    settings: PlannerSettings
    options: ExecutionOptions
    trajectory: PointTrajectory
    """As it is sent."""
    approach: PointTrajectory | None = None
    """From where the robot is to its start; None where it is there, or not known."""
    findings: Findings | None = None
    """Results of the checks on both."""
    remark: str = ''
    """What is to be known of start and stops beside the findings, in words; '' for nothing."""
    envelope: str = ''
    """Whose limits, distances and tolerances are in force, in words."""

    @property
    def with_approach(self) -> PointTrajectory:
        """The way to the start, as far as it is known, and the trajectory, as one."""
        way = () if self.approach is None else (self.approach,)
        return concatenate((*way, self.trajectory))

    async def carry_out(
        self, collisions: CollisionModelCache, find_start: FindStart, in_worker: Worker
    ) -> CheckedMotion:
        """
        Carry out all checks in a worker; return the motion as it is sent.

        Where the robot rests is asked for once the trajectory itself has passed; where that is not
        known, the way to the start and the stops are left aside.

        Raises `MotionError` naming what does not hold.
        """
        limits = await in_worker(lambda: self._check(collisions, self.trajectory, ''))
        start, stop = await find_start(), 0.0
        self.remark = start.remark
        if start.position is not None:
            self.approach = way_to_start(start.position, self.trajectory, limits, self.options)
        if (way := self.approach) is not None:
            await in_worker(lambda: self._check(collisions, way, 'on the way to the start: '))
        if start.stops_known:
            stop = await in_worker(lambda: self._check_stops(collisions, start, limits))
        motion, robot = self.with_approach, self.robot
        tolerance = tracking_tolerances(robot, self.settings.tracking_tolerance)
        _require_updates(motion, start.period or 0.0, tolerance)
        return CheckedMotion(
            motion,
            0.0 if self.approach is None else self.approach.duration,
            tolerance,
            stop,
            limits,
            robot.limits.effort,
            await in_worker(lambda: predicted_effort(robot, motion)),
        )

    def _check(
        self, collisions: CollisionModelCache, trajectory: PointTrajectory, where: str
    ) -> Limits:
        """Check a trajectory against the limits themselves; ``where`` begins errors' messages."""
        robot, settings, options = self.robot, self.settings, self.options
        instants = trajectory.duration * settings.check_rate
        if instants > MOST_INSTANTS:
            raise MotionError(
                Code.INVALID_TRAJECTORY,
                f'{where}a motion of {trajectory.duration:.6g} s has {instants:.3g} instants to '
                f'check, {MOST_INSTANTS} are the most: play it faster, or lower check_rate',
            )
        with _refused(where):
            limits = motion_limits(robot, settings, margin=options.check_margin)
            found = check_trajectory(
                robot,
                trajectory,
                limits,
                rate=settings.check_rate,
                collisions=collisions.model(robot, settings),
            )
        # the way comes first in time, though it is checked last
        self.findings = (
            found if self.findings is None else found.then(self.findings, trajectory.duration)
        )
        return limits

    def _check_stops(self, collisions: CollisionModelCache, start: Start, limits: Limits) -> float:
        """Check the stops of the controller if the motion is canceled; return the longest [s]."""
        robot = self.robot
        remarks = start.remark, harsh_stops(limits, start.deceleration)
        self.remark = '; '.join(filter(None, remarks))
        with _refused('if the motion were canceled: '):
            model = collisions.model(robot, self.settings)
            return check_stops(robot, self.with_approach, limits, start.deceleration, model)


def _require_updates(motion: PointTrajectory, period: float, tolerance: np.ndarray) -> None:
    """Require that a stop which begins an update later is within what distances are kept for."""
    step = period * np.abs(motion.velocity).max(axis=0)
    joint = int((step / tolerance).argmax())
    if step[joint] > tolerance[joint]:
        raise MotionError(
            Code.INVALID_TRAJECTORY,
            f"joint '{motion.joints[joint]}' moves by {step[joint]:.3g} between two updates of "
            f'the controller, whose update_rate is {1.0 / period:.4g} Hz, and '
            f'planner.tracking_tolerance is {tolerance[joint]:g}: raise the rate, or move slower',
        )


REFUSALS = (
    (CollisionError, Code.COLLISION),
    (LimitViolation, Code.LIMITS_VIOLATED),
    (ExcitationError, Code.INVALID_TRAJECTORY),
)
"""Codes by the error of a check, the first that fits."""


@contextmanager
def _refused(where: str = '') -> Iterator[None]:
    """Raise `MotionError` for an `ExcitationError`; ``where`` begins its message."""
    try:
        yield
    except ExcitationError as error:
        found = (code for kind, code in REFUSALS if isinstance(error, kind))
        raise MotionError(next(found), f'{where}{error}') from error


# ------------------------------------------------------------------------------------ the request


def requested_motion(
    request: Excite.Goal | Preview.Request,
    plans: Mapping[str, Plan],
    robot: Robot,
    settings: PlannerSettings,
    options: ExecutionOptions,
) -> MotionCheck:
    """
    Return the motion of a request before its checks.

    The request has a plan's name or a trajectory, and the speed.  The settings are the present
    ones; of a plan's own and these the stricter are in force.

    Raises `MotionError` where there is no such plan, or the trajectory or the speed is none.
    """
    kept = plans.get(request.plan_id)
    if request.plan_id and kept is None:
        known = ', '.join(plans) or 'none'
        raise MotionError(
            Code.UNKNOWN_PLAN,
            f"no plan is called '{request.plan_id}': plan again; known are {known}",
        )
    if kept is None:
        with _refused():
            trajectory = received_trajectory(request.trajectory, robot)
        envelope = 'the present settings'
    else:
        trajectory = to_points(kept.trajectory, options.publish_rate)
        with _refused():
            settings, changed = stricter(robot, kept.settings, settings)
        words = ' and the stricter present ' + ', '.join(changed) if changed else ''
        envelope = f'the settings of the plan{words}'
    trajectory = at_speed(trajectory, request.speed, options)
    return MotionCheck(robot, settings, options, trajectory, envelope=envelope)


def received_trajectory(message: JointTrajectory, robot: Robot) -> PointTrajectory:
    """Return the trajectory of a goal; raise `ExcitationError` where it does not fit the robot."""
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
    return trajectory_points(message, robot.joints)


def at_speed(
    trajectory: PointTrajectory, speed: float, options: ExecutionOptions
) -> PointTrajectory:
    """
    Return a trajectory as it is sent: at a share of its speed, by points of `publish_rate`.

    A speed of 0 counts as 1.

    Raises `MotionError` where the speed is not within 0 and 1, or the motion would take too long.
    """
    speed = speed or 1.0
    if not 0.0 < speed <= 1.0:
        raise MotionError(
            Code.INVALID_TRAJECTORY,
            f'speed is {speed:g}: it is a share of the planned one, above 0 up to 1',
        )
    slower = trajectory.slower(speed)
    points = slower.duration * options.publish_rate
    if slower.duration > LONGEST or points > MOST_POINTS:
        raise MotionError(
            Code.INVALID_TRAJECTORY,
            f'at a speed of {speed:g} the trajectory takes {slower.duration:.6g} s, which is '
            f'{points:.3g} points at a publish_rate of {options.publish_rate:g} Hz: play it '
            f'faster, {LONGEST:g} s and {MOST_POINTS} points are the most',
        )
    return to_points(slower, options.publish_rate)


def way_to_start(
    position: np.ndarray, trajectory: PointTrajectory, limits: Limits, options: ExecutionOptions
) -> PointTrajectory | None:
    """
    Return the way from ``position`` to the trajectory's start, by points as it is sent.

    None where the robot is there to the micrometre: a controller would go the least rest at once.
    """
    start = trajectory.position[0]
    away = np.abs(position - start)
    joint = trajectory.joints[int(away.argmax())]
    if away.max() <= THERE:
        return None
    if not options.move_to_start and away.max() > options.start_tolerance:
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
        raise MotionError(
            Code.NOT_AT_START,
            f"the way to the start takes {way.duration:.3g} s, since joint '{joint}' is "
            f'{away.max():.4g} away: see whether its joint states are true, or move it nearer',
        )
    points = to_points(way, options.publish_rate)
    assert points.acceleration is not None
    acceleration = points.acceleration.copy()
    if trajectory.acceleration is not None:
        # what follows begins with the acceleration that it has
        acceleration[-1] = trajectory.acceleration[0]
    return replace(points, acceleration=acceleration)
