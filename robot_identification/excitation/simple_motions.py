# SPDX-License-Identifier: Apache-2.0
"""
Motions without a search: sweeps of single joints at constant speeds, and poses at rest.

Sweeps tell friction at each speed, poses gravity and offsets.  Both are quintics through points
and pass the same checks as every plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..data.recording import Motion
from ..errors import ExcitationError
from .collisions import CollisionModel
from .limits import Limits
from .objective import Wanted
from .plans import largest_motion, Plan, PlanningTask
from .settings import PlannerSettings
from .trajectories import point_to_point, PointTrajectory

SPEEDS = 0.05, 0.15, 0.35, 0.65, 1.0
"""Speeds of sweeps by the velocity limits."""

DWELL = 1.0
"""Time at rest in each pose [s]."""

CANDIDATES = 100
"""Random poses among which poses at rest are chosen."""

ENOUGH = 0.98
"""Share of the limits that is used."""

_SCAN = 60


@dataclass
class _Way:
    """Points of a motion so far; each step begins where the last one ended."""

    limits: Limits
    position: np.ndarray
    time: float = 0.0
    points: list[tuple[float, np.ndarray, np.ndarray]] = field(default_factory=list)

    def add(self, seconds: float, position: np.ndarray, velocity: np.ndarray) -> None:
        """Add a point after ``seconds``."""
        if not self.points:
            self.points.append((0.0, self.position, np.zeros_like(position)))
        self.time += seconds
        self.position = position
        self.points.append((self.time, position, velocity))

    def rest(self, seconds: float) -> None:
        """Stay at rest."""
        self.add(seconds, self.position, np.zeros_like(self.position))

    def seconds_to(self, position: np.ndarray) -> float:
        """Return the shortest time of a quintic from rest to rest [s]."""
        limits = self.limits
        return point_to_point(
            limits.joints,
            self.position,
            position,
            ENOUGH * limits.velocity,
            ENOUGH * limits.acceleration,
            jerk=ENOUGH * limits.jerk,
        ).duration

    def move(self, position: np.ndarray) -> None:
        """Move from rest to rest."""
        self.add(self.seconds_to(position), position, np.zeros_like(position))

    def trajectory(self) -> PointTrajectory:
        """Return the motion."""
        time, position, velocity = (np.array(part) for part in zip(*self.points, strict=True))
        return PointTrajectory(
            self.limits.joints, time, position, velocity, np.zeros_like(position)
        )


def plan_simple(task: PlanningTask) -> Plan:
    """
    Plan sweeps or poses (`PlannerSettings.method`), at most as long as ``duration``.

    Raises
    ------
    ExcitationError
        where there is no room for any, or the motion does not pass the checks.

    """
    settings = task.settings
    way = _Way(task.limits, task.starts[0])
    if settings.method == 'sweeps':
        _sweep(way, settings, task.collisions, task.wanted)
    else:
        _visit(way, settings, task.collisions, task.wanted)
    if not way.points:
        raise ExcitationError(
            f'there is no room or time for {settings.method}',
            key='duration',
            value=settings.duration,
            remedy='give more time, or another start',
        )
    amplitude, trajectory = largest_motion(
        way.trajectory(), task.checks, lambda: not task.watch.ended
    )
    return task.plan(trajectory, amplitude)


def _sweep(
    way: _Way,
    settings: PlannerSettings,
    collisions: CollisionModel | None,
    wanted: Wanted,
) -> None:
    """Sweep joint after joint back and forth at several speeds, the others at the start."""
    start, limits = way.position, way.limits
    # some of the time is for the ways between sweeps
    seconds = 0.7 * settings.duration / (2 * len(SPEEDS) * len(wanted.moving))
    for name in wanted.moving:
        joint = limits.joints.index(name)
        low, high = _free_range(wanted, limits, start, joint, collisions)
        for share in SPEEDS:
            speed = ENOUGH * share * limits.velocity[joint]
            travel = min(high - low, speed * seconds)
            begin = float(np.clip(start[joint] - 0.5 * travel, low, high - travel))
            blend = max(
                1.5 * speed / limits.acceleration[joint],
                float(np.sqrt(6.0 * speed / limits.jerk[joint])),
            )
            blend /= ENOUGH
            constant = (travel - speed * blend) / speed
            if constant < 0.1 * seconds:
                continue
            ends = [np.array(start), np.array(start)]
            ends[0][joint], ends[1][joint] = begin, begin + travel
            back = _Way(limits, ends[0]).seconds_to(np.array(start))
            needed = way.seconds_to(ends[0]) + 2.0 * (constant + 2.0 * blend) + back
            if way.time + needed > settings.duration:
                continue
            way.move(ends[0])
            for sign, end in ((1.0, ends[1]), (-1.0, ends[0])):
                velocity = np.zeros_like(start)
                velocity[joint] = sign * speed
                first = way.position + 0.5 * blend * velocity
                way.add(blend, first, velocity)
                way.add(constant, first + constant * velocity, velocity)
                way.add(blend, end, np.zeros_like(start))
        if way.points:
            way.move(np.array(start))


def _free_range(
    wanted: Wanted,
    limits: Limits,
    start: np.ndarray,
    joint: int,
    collisions: CollisionModel | None,
) -> tuple[float, float]:
    """Return how far a joint can go either way from the start, distances and gravity allowing."""
    ends = []
    for end in (limits.lower[joint], limits.upper[joint]):
        poses = np.repeat(start[None], _SCAN, axis=0)
        way = 0.98 * (end - start[joint])
        poses[:, joint] = start[joint] + np.linspace(0.0, way, _SCAN)
        allowed = _allowed(poses, wanted, limits, collisions)
        free = int(np.argmin(allowed)) if not allowed.all() else _SCAN
        ends.append(float(poses[max(0, free - 2), joint]))
    return ends[0], ends[1]


def _allowed(
    poses: np.ndarray, wanted: Wanted, limits: Limits, collisions: CollisionModel | None
) -> np.ndarray:
    """Return which poses (k,) can be held and touch nothing."""
    effort = (_rest_rows(wanted, poses) @ wanted.prior.values).reshape(poses.shape)
    allowed = (np.abs(effort) <= limits.effort).all(axis=1)
    if collisions is not None:
        for contact in collisions.contacts(poses):
            allowed[contact.sample] = False
    return np.asarray(allowed)


def _rest_rows(wanted: Wanted, poses: np.ndarray) -> np.ndarray:
    rest = np.zeros_like(poses)
    return wanted.regressor.rows(Motion(poses, rest, rest))


def _visit(
    way: _Way,
    settings: PlannerSettings,
    collisions: CollisionModel | None,
    wanted: Wanted,
) -> None:
    """Go from pose to pose, each time to the one that tells most for the time that it takes."""
    limits, home = way.limits, way.position
    rng = np.random.default_rng(settings.seed)
    moving = [limits.joints.index(name) for name in wanted.moving]
    poses = np.repeat(home[None], CANDIDATES, axis=0)
    share = rng.uniform(0.02, 0.98, (CANDIDATES, len(moving)))
    poses[:, moving] = limits.lower[moving] + share * (limits.upper - limits.lower)[moving]
    poses = poses[_allowed(poses, wanted, limits, collisions)]
    if not len(poses):
        return
    rows = _rest_rows(wanted, poses)[:, wanted.columns].reshape(len(poses), len(limits.joints), -1)
    rows = rows / wanted.noise[:, None]
    # what no pose tells has no part in the choice
    size = np.sqrt((rows**2).sum(axis=(0, 1)))
    told = size > 1e-9 * size.max()
    rows = rows[:, :, told] / size[told]
    information = 1e-6 * np.eye(int(told.sum()))
    left = np.ones(len(poses), dtype=bool)
    while left.any():
        covariance = np.linalg.inv(information)
        gains = np.linalg.slogdet(
            np.eye(len(limits.joints)) + rows @ covariance @ rows.transpose(0, 2, 1)
        )[1]
        seconds = np.array([way.seconds_to(pose) for pose in poses]) + DWELL
        place = int(np.argmax(np.where(left, gains / seconds, -np.inf)))
        left[place] = False
        there = _Way(limits, poses[place])
        if way.time + seconds[place] + there.seconds_to(home) > settings.duration:
            continue
        if not (
            _reachable(way, poses[place], wanted, collisions)
            and _reachable(there, home, wanted, collisions)
        ):
            continue
        way.move(poses[place])
        way.rest(DWELL)
        information = information + np.einsum('jc,jd->cd', rows[place], rows[place])
    if way.points:
        way.move(np.array(home))


def _reachable(
    way: _Way, pose: np.ndarray, wanted: Wanted, collisions: CollisionModel | None
) -> bool:
    """Tell whether the straight way to a pose is free."""
    shares = np.linspace(0.0, 1.0, _SCAN)[:, None]
    poses = way.position + shares * (pose - way.position)
    return bool(_allowed(poses, wanted, way.limits, collisions).all())
