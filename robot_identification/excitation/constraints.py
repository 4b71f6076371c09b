# SPDX-License-Identifier: Apache-2.0
"""
The last word before a robot moves: whether a trajectory keeps all limits and is free of collision.

Nothing here trusts the planner; any trajectory can be checked, however it came about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ExcitationError
from ..model.robot import Robot
from .collisions import CollisionModel, Contact, Coverage
from .distance_search import DistanceSearch
from .extremes import (
    check_times,
    Effort,
    EFFORTS,
    Extremes,
    extremes,
    largest_efforts,
    nominal_effort,
    QUANTITIES,
)
from .limits import Limits
from .trajectories import Trajectory

INTERVAL = 0.1
"""Length of the first intervals in which distances are looked for [s]."""

_BLOCK = 4096  # places of a search that are looked at together


class CollisionError(ExcitationError):
    """
    A trajectory on which links come too close to each other or to an obstacle.

    `links` are their names, `value` is their distance [m], `time` when [s], `nearest` where.
    """

    links: tuple[str, str]
    time: float
    nearest: Nearest


@dataclass(frozen=True, kw_only=True)
class Nearest(Contact):
    """Smallest distance of two bodies along a path."""

    time: float
    """When [s]."""
    position: np.ndarray
    """(n_joints,) [rad or m]."""

    @classmethod
    def from_contact(cls, contact: Contact, time: float, position: np.ndarray) -> Nearest:
        """Return a contact with its time and position."""
        return cls(**vars(contact), time=time, position=position)

    def summary(self) -> str:
        """Return the distance, the bodies and the time as text."""
        least = '' if self.distance == self.planned else f'{self.planned:.4f} m as planned, '
        where = f"'{self.first}' to '{self.second}' at {self.time:.2f} s"
        return f'{self.distance:.4f} m ({least}{where})'


class TrajectoryWay:
    """A trajectory as a way to search along; its places are times."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._grid = check_times(trajectory, EFFORTS.lowest_rate)
        steps = np.abs(np.diff(self.positions(self._grid), axis=0))
        self._travel = np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])

    def positions(self, place: np.ndarray) -> np.ndarray:
        """Return the positions (n, n_joints) at times (n,), sampled in blocks for the memory."""
        blocks = [place[i : i + _BLOCK] for i in range(0, max(place.size, 1), _BLOCK)]
        return np.concatenate([self._trajectory.sample(block).position for block in blocks])

    def moved(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return how far joints move, back and forth, from one time to another, (n, n_joints)."""
        direct = np.abs(self.positions(end) - self.positions(begin))
        for j, travel in enumerate(self._travel.T):
            there, back = (np.interp(place, self._grid, travel) for place in (end, begin))
            direct[:, j] = np.maximum(direct[:, j], there - back)
        return direct


def check_collisions(trajectory: Trajectory, collisions: CollisionModel) -> tuple[Nearest, ...]:
    """
    Check that bodies keep their clearances; return the closest of each of the model's groups.

    They keep it while each joint is within its tracking tolerance, and at all times, but for
    `FINEST` of the clearance (`distance_search`).

    Raises `CollisionError` naming two links, or link and obstacle, that do not, and when.
    """
    way = TrajectoryWay(trajectory)
    search = DistanceSearch(collisions, way)
    times = np.linspace(0.0, trajectory.duration, int(np.ceil(trajectory.duration / INTERVAL)) + 1)
    search.run(times[:-1], times[1:])
    search.polish(INTERVAL)
    found = [
        Nearest.from_contact(contact, place, way.positions(np.array([place]))[0])
        for place, contact in search.best.values()
    ]
    found.sort(key=lambda nearest: nearest.distance)
    for nearest in found:
        if nearest.too_close:
            raise too_close(collisions, nearest)
    return tuple(found)


def too_close(
    collisions: CollisionModel, nearest: Nearest, *, stop: bool = False
) -> CollisionError:
    """Return the error that names both bodies, and when they are too close, or a stop begins."""
    when = f'at {nearest.time:.3f} s' if nearest.time > 0.0 else 'at the start'
    remedy = 'choose another start or smaller position limits'
    if stop:
        when = f'on a stop from {nearest.time:.3f} s'
        remedy = STOP_REMEDY
    elif nearest.planned >= nearest.clearance:
        remedy += ', or a smaller tracking_tolerance if the controller keeps it'
    remedy += collisions.allowance((nearest.first, nearest.second))
    error = CollisionError(
        f'{collisions.in_words(nearest.first, nearest.second)} are '
        f'{collisions.distance_in_words(nearest)} apart {when}, closer than the clearance of '
        f'{nearest.clearance:.4g} m',
        link=nearest.first,
        key='clearance',
        value=nearest.distance,
        remedy=remedy,
    )
    error.links, error.time = (nearest.first, nearest.second), nearest.time
    error.nearest = nearest
    return error


STOP_REMEDY = (
    "raise the controller's max_deceleration_on_cancel, or plan with its decelerations in "
    "'planner.stop_deceleration'"
)

REST = 1e-6
"""Largest speed at which a motion may begin and end [rad/s or m/s]."""

JUMP_SECONDS = 1e-4
"""Jumps of the acceleration are rounding where the jerk limit makes them in this time [s]."""

LIMIT_TOLERANCE = 1e-9
"""Share of a value by which rounding may pass a limit."""

_JERK_TOLERANCE = 1e-6
"""The same of a jerk, a third derivative."""


class LimitViolation(ExcitationError):
    """
    A trajectory that leaves a limit.

    Beside `joint`, `key` is the quantity and `value` its value; `limit` and `time` [s] say more.
    """

    def __init__(self, message: str, *, limit: float, time: float, **about: Any) -> None:
        super().__init__(message, **about)
        self.limit, self.time = float(limit), float(time)


@dataclass(frozen=True)
class LimitUse:
    """Largest share of each limit that a trajectory uses, 1 being all of it."""

    joints: tuple[str, ...]
    quantities: dict[str, np.ndarray]
    """
    (n_joints,) shares by the name of the quantity, one of `QUANTITIES` or ``effort``: for
    positions the largest distance from the middle of the range, over half of the range; for
    others the largest size over the limit, 0 where there is no limit.
    """

    def summary(self) -> str:
        """Say in a line which joint uses most of each limit."""
        parts = []
        for name, shares in self.quantities.items():
            joint = int(np.argmax(shares))
            parts.append(f'{name} {100.0 * shares[joint]:.0f} % ({self.joints[joint]})')
        return f'limits used: {", ".join(parts)}'

    def maximum(self, other: LimitUse) -> LimitUse:
        """Return the larger share of both."""
        shares = self.quantities.items()
        return LimitUse(
            self.joints, {q: np.maximum(mine, other.quantities[q]) for q, mine in shares}
        )


NOT_CHECKED = 'Within all limits, collisions not checked'


@dataclass(frozen=True)
class Findings:
    """Findings of a check that a trajectory has passed."""

    use: LimitUse
    """Shares of the limits."""
    nearest: tuple[Nearest, ...] = ()
    """
    Where links came closest to each other, and where to an obstacle, the nearest first; empty
    where that was not checked.
    """
    stopping: float | None = None
    """
    Longest time from a cancel to rest of the controller's stops, which were checked; None
    where they were not [s].
    """
    coverage: Coverage | None = None
    """Pairs of shapes whose distances were checked, of how many; None where none were."""

    @property
    def level(self) -> str:
        """Level of the check: good, where collisions were checked as a whole; otherwise weak."""
        return 'good' if self.coverage is not None and self.coverage.complete else 'weak'

    @property
    def headline(self) -> str:
        """Few words on what was checked."""
        if self.coverage is None:
            return NOT_CHECKED
        if not self.coverage.complete:
            return 'Within all limits, collisions checked in part'
        return 'Within all limits and free of collision'

    def verdict(self) -> str:
        """Return the headline, with how many pairs of shapes were checked, of how many."""
        pairs = '' if self.coverage is None else f': {self.coverage.summary()}'
        return f'{self.headline}{pairs}'

    def summary(self) -> str:
        """Return a line on both."""
        near = ', '.join(nearest.summary() for nearest in self.nearest)
        text = self.use.summary() + (f'; smallest distance {near}' if near else '')
        if self.coverage is not None:
            text += f', {self.coverage.summary()}'
        if self.stopping is not None:
            text += f"; the controller's stops, of {self.stopping:.2f} s at most, are free, too"
        return text

    def then(self, later: Findings, delay: float) -> Findings:
        """Return what was found on this and then, after ``delay`` [s], on another trajectory."""
        delayed = (replace(nearest, time=nearest.time + delay) for nearest in later.nearest)
        best: dict[tuple[bool, float], Nearest] = {}
        for nearest in sorted([*self.nearest, *delayed], key=lambda nearest: nearest.distance):
            best.setdefault((nearest.obstacle, nearest.clearance), nearest)
        return replace(self, use=self.use.maximum(later.use), nearest=tuple(best.values()))


def check_trajectory(
    robot: Robot,
    trajectory: Trajectory,
    limits: Limits,
    *,
    rate: float = 500.0,
    effort: Effort | None = None,
    collisions: CollisionModel | None = None,
) -> Findings:
    """
    Check every limit and, where ``collisions`` is given, that links keep their distance.

    Positions, velocities, accelerations and jerks are checked at all times: between points, a
    motion is a polynomial, whose extremes are known (`extremes`).

    Parameters
    ----------
    robot:
        The robot.
    trajectory:
        Any trajectory of its joints, in its order; it has to begin and end at rest.
    limits:
        Limits in force.
    rate:
        Samples per second, at least 250 [Hz], at which efforts are looked at, and more densely
        where they come near their limits (`largest_efforts`); and of a trajectory that is not made
        of polynomials.
    effort:
        Predicts efforts; default by the URDF's parameters.
    collisions:
        The robot's collision model, see `check_collisions`; None leaves distances aside.

    Returns
    -------
    Findings
        Shares of the limits, and the smallest distance.

    Raises
    ------
    LimitViolation
        naming joint, quantity, value, limit and time.
    CollisionError
        naming the links and the time.
    ExcitationError
        where the joints are not the robot's, or the ends are not at rest.

    """
    if trajectory.joints != robot.joints:
        raise ExcitationError(
            f'the trajectory moves {", ".join(trajectory.joints)}',
            value=trajectory.joints,
            remedy=f'it has to move {", ".join(robot.joints)}, in this order',
        )
    _check_rest(trajectory)
    reached = extremes(trajectory, max(rate, EFFORTS.lowest_rate))
    _check_motion(reached, limits)
    efforts, times = largest_efforts(
        trajectory, effort or nominal_effort(robot), limits.effort, rate
    )
    _require('effort', efforts, times, limits.effort, limits)
    use = _limit_usage(reached, efforts, limits)
    if collisions is None:
        return Findings(use)
    nearest = check_collisions(trajectory, collisions)
    return Findings(use, nearest, coverage=collisions.coverage)


def _check_rest(trajectory: Trajectory) -> None:
    """Raise `ExcitationError` where the trajectory's first or last velocity is not zero."""
    motion = trajectory.sample(np.array([0.0, trajectory.duration]))
    for row, end in enumerate(('start', 'end')):
        speed = np.abs(motion.velocity[row])
        if speed.max() > REST:
            joint = trajectory.joints[int(speed.argmax())]
            raise ExcitationError(
                f"joint '{joint}' moves at {speed.max():.3g} at the {end} of the trajectory",
                joint=joint,
                key='velocity',
                value=float(speed.max()),
                remedy='begin and end at rest',
            )


def _check_motion(reached: Extremes, limits: Limits) -> None:
    """Check position, velocity, acceleration and jerk; raise `LimitViolation` for the worst."""
    for sign, limit, values, times in (
        (1.0, limits.upper, reached.highest[0], reached.highest_time[0]),
        (-1.0, limits.lower, reached.lowest[0], reached.lowest_time[0]),
    ):
        _require('position', values, times, limit, limits, sign * (values - limit))
    _require('velocity', *reached.largest(1), limits.velocity, limits)
    _require('acceleration', *reached.largest(2), limits.acceleration, limits)
    _check_jumps(reached, limits)
    _require('jerk', *reached.largest(3), limits.jerk, limits)


def _check_jumps(reached: Extremes, limits: Limits) -> None:
    """Refuse jumps of the acceleration, which no drive can follow, where jerks are limited."""
    with np.errstate(invalid='ignore'):
        excess = reached.jump - JUMP_SECONDS * limits.jerk
    j = int(np.argmax(excess))
    if excess[j] <= 0.0:
        return
    unit = limits.unit('acceleration', j)
    raise LimitViolation(
        f"acceleration of joint '{limits.joints[j]}' jumps by {reached.jump[j]:.6g} {unit} at "
        f'{reached.jump_time[j]:.3f} s: its jerk is infinite there, and its limit is '
        f'{limits.jerk[j]:.6g} {limits.unit("jerk", j)}',
        joint=limits.joints[j],
        key='jerk',
        value=float('inf'),
        remedy='give the points accelerations, zero at both ends, or no jerk limit '
        '(jerk_limits empty, jerk_time none)',
        limit=limits.jerk[j],
        time=reached.jump_time[j],
    )


def _require(
    quantity: str,
    values: np.ndarray,
    times: np.ndarray,
    limit: np.ndarray,
    limits: Limits,
    excess: np.ndarray | None = None,
) -> None:
    """Raise for the joint that is beyond its limit by most, if any is; sizes count by default."""
    excess = np.abs(values) - limit if excess is None else excess
    rounding = _JERK_TOLERANCE if quantity == 'jerk' else LIMIT_TOLERANCE
    excess = np.where(excess > rounding * np.maximum(1.0, np.abs(values)), excess, 0.0)
    j = int(np.argmax(excess))
    if excess[j] == 0.0:
        return
    unit = limits.unit(quantity, j)
    remedy = 'plan within the limits, or correct the limit if it is wrong'
    if quantity == 'position' and times[j] == 0.0:
        remedy = (
            'the motion begins there: bring the robot within its limits by its own means first, '
            'or correct the limit if it is wrong'
        )
    if quantity == 'effort':
        remedy = 'move slower or with less reach, or correct inertias, limit or effort_margin'
    raise LimitViolation(
        f"{quantity} of joint '{limits.joints[j]}' is {values[j]:.6g} {unit} at "
        f'{times[j]:.3f} s, beyond its limit of {limit[j]:.6g} {unit}',
        joint=limits.joints[j],
        key=quantity,
        value=float(values[j]),
        remedy=remedy,
        limit=limit[j],
        time=times[j],
    )


def _limit_usage(reached: Extremes, efforts: np.ndarray, limits: Limits) -> LimitUse:
    middle, half = limits.middle, limits.half_range
    with np.errstate(invalid='ignore'):
        away = np.maximum(reached.highest[0] - middle, middle - reached.lowest[0]) / half
    shares = {'position': np.where(np.isfinite(half), away, 0.0)}
    for order, name in enumerate(QUANTITIES[1:], 1):
        shares[name] = np.abs(reached.largest(order)[0]) / getattr(limits, name)
    shares['effort'] = np.abs(efforts) / limits.effort
    return LimitUse(limits.joints, shares)
