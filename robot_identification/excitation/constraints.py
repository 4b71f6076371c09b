# SPDX-License-Identifier: Apache-2.0
"""
The last word before a robot moves: whether a trajectory keeps all limits and is free of collision.

Nothing here trusts the planner; any trajectory can be checked, however it came about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..errors import ExcitationError
from ..model.robot import Robot
from .collisions import CollisionModel, Contact, RESOLUTION
from .extremes import (
    check_times,
    Effort,
    Extremes,
    extremes,
    largest_efforts,
    LEAST_RATE,
    nominal_effort,
    QUANTITIES,
)
from .limits import Limits
from .trajectories import Trajectory

FINEST, DIVISION = 1.0 / 16.0, 4.0
"""Share of the clearance by which points move between the closest looks; refinement to there."""

_BLOCK = 4096


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
    """
    Smallest distance of two bodies along a path.

    Attributes
    ----------
    time:
        When [s].
    position:
        (n_joints,) [rad or m].

    """

    time: float
    position: np.ndarray

    @classmethod
    def of(cls, contact: Contact, time: float, position: np.ndarray) -> Nearest:
        """Return a contact with its time and position."""
        return cls(**vars(contact), time=time, position=position)

    def summary(self) -> str:
        """Return the distance, the bodies and the time as text."""
        return f"{self.distance:.4f} m ('{self.first}' to '{self.second}' at {self.time:.2f} s)"


def sweep(trajectory: Trajectory, reach: np.ndarray, step: float) -> np.ndarray:
    r"""
    Return times between which no point of the robot moves by more than ``step``.

    A point moves at most at :math:`\sum_j |\dot q_j| r_j`, where the reach :math:`r_j` bounds its
    distance from the axis of joint j.  The integral of this bound is cut into equal parts.

    Parameters
    ----------
    trajectory:
        Any trajectory.
    reach:
        (n_joints,) [m/rad or m/m].
    step:
        [m].

    Returns
    -------
    np.ndarray
        (n_times,) increasing, from 0 to the trajectory's end [s].

    """
    grid = check_times(trajectory, LEAST_RATE)
    length = np.append(0.0, np.cumsum(_moved(trajectory, grid, reach)))
    n = max(2, int(np.ceil(length[-1] / step)) + 1)
    # where the robot rests the length does not grow; a little of the time makes it invertible
    length += 1e-9 * step * grid / max(trajectory.duration, 1e-9)
    times = np.interp(np.linspace(0.0, length[-1], n), length, grid)
    while True:
        far = _moved(trajectory, times, reach) > (1.0 + 1e-9) * step
        # times that differ by rounding alone are as close as they get
        far &= np.diff(times) > 1e-9
        if not far.any():
            return times
        # the motion between two points of the grid is not quite even
        middle = 0.5 * (times[:-1] + times[1:])[far]
        times = np.sort(np.concatenate([times, middle]))


def _positions(trajectory: Trajectory, times: np.ndarray) -> np.ndarray:
    """Return positions (n, n_joints) at times (n,), sampled in blocks for the memory."""
    blocks = range(0, times.size, _BLOCK)
    return np.concatenate([trajectory.sample(times[i : i + _BLOCK]).position for i in blocks])


def _moved(trajectory: Trajectory, times: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return by how much a point moves at most from each time (n,) to the next, (n - 1,) [m]."""
    return np.asarray(np.abs(np.diff(_positions(trajectory, times), axis=0)) @ reach)


def check_collisions(trajectory: Trajectory, collisions: CollisionModel) -> tuple[Nearest, ...]:
    """
    Check that links keep the clearance; return the closest links, and link and obstacle, if any.

    No point of the robot moves by more than the clearance between two looks, so nothing thin is
    jumped over.  Where a pair could come closer between two looks, these become denser until it
    cannot (`closer_between`).

    Raises
    ------
    CollisionError
        naming the first two links, or link and obstacle, that do not, and when.

    """
    clearance = collisions.clearance
    times = sweep(trajectory, collisions.reach, clearance)
    position = _positions(trajectory, times)
    found = tuple(
        Nearest.of(contact, float(times[contact.sample]), position[contact.sample])
        for contact in collisions.closest(position)
    )
    if found and found[0].distance < clearance:
        raise too_close(collisions, found[0])
    if found and found[0].distance < 2.0 * clearance + RESOLUTION:
        at = partial(_positions, trajectory)
        nearest = closer_between(at, collisions, times[:-1], times[1:], clearance)
        if nearest is not None:
            raise too_close(collisions, nearest)
    return found


Positions = Callable[[np.ndarray], np.ndarray]
"""Positions (n, n_joints) at times (n,), or at other places on a way."""


def closer_between(
    at: Positions, collisions: CollisionModel, begin: np.ndarray, end: np.ndarray, step: float
) -> Nearest | None:
    """
    Return where links may be closer than the clearance in intervals; None if nowhere.

    Two bodies whose points move by at most s against each other from one look to the next, at
    distances d1 and d2, are never closer than (d1 + d2) / 2 - s.  Intervals in which that is not
    enough are divided until it is (conservative advancement), or `FINEST` of the clearance is all
    by which they could be closer.

    Parameters
    ----------
    at:
        The way.
    collisions:
        The robot's collision model.
    begin, end:
        (n,) intervals, in each of which positions go on in one direction or nearly so.
    step:
        By which points move in an interval at most [m].

    """
    clearance = collisions.clearance
    pairs = np.arange(len(collisions.pairs))
    while pairs.size and begin.size:
        looks = np.unique(np.concatenate([begin, end]))
        position = at(looks)
        margins = np.full(len(collisions.pairs), -np.inf)
        margins[pairs] = clearance + _most_moved(at, begin, end, collisions.pair_reach[pairs])
        near, pairs = collisions.near(position, margins)
        ends = near[np.searchsorted(looks, begin)] | near[np.searchsorted(looks, end)]
        if not ends.any():
            return None
        if step <= FINEST * clearance:
            contact = next(collisions.contacts(position[near]), None)
            if contact is None:
                return None
            row = np.flatnonzero(near)[contact.sample]
            return Nearest.of(contact, float(looks[row]), position[row])
        step /= DIVISION
        # of the pairs that are near alone
        reach = collisions.pair_reach[pairs].max(axis=0)
        begin, end = divided(at, begin[ends], end[ends], reach, step)
    return None


def _most_moved(
    at: Positions, begin: np.ndarray, end: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Return by how much the bodies of each pair (k,) move against each other at most [m]."""
    way = np.abs(at(end) - at(begin))
    blocks = np.array_split(way, len(way) // _BLOCK + 1)
    return np.asarray(np.max([(block @ reach.T).max(axis=0) for block in blocks], axis=0))


def divided(
    at: Positions, begin: np.ndarray, end: np.ndarray, reach: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Halve intervals (n,) until no point moves by more than ``step`` in any of them."""
    while True:
        far = np.flatnonzero((np.abs(at(end) - at(begin)) @ reach > step) & (end - begin > 1e-9))
        if not far.size:
            return begin, end
        middle = 0.5 * (begin[far] + end[far])
        begin, end = np.append(begin, middle), np.append(end, end[far])
        end[far] = middle


def too_close(collisions: CollisionModel, nearest: Nearest) -> CollisionError:
    """Return the error that names both bodies, and when they are too close."""
    when = f'at {nearest.time:.3f} s' if nearest.time > 0.0 else 'at the start'
    error = CollisionError(
        f'{collisions.in_words(nearest.first, nearest.second)} are {nearest.distance:.4g} m apart '
        f'{when}, closer than the clearance of {collisions.clearance:.4g} m',
        link=nearest.first,
        key='clearance',
        value=nearest.distance,
        remedy='choose another start or smaller position limits',
    )
    error.links, error.time = (nearest.first, nearest.second), nearest.time
    error.nearest = nearest
    return error


REST = 1e-6
"""Largest speed at which a motion may begin and end [rad/s or m/s]."""

JUMP_SECONDS = 1e-4
"""Jumps of the acceleration are rounding where the jerk limit makes them in this time [s]."""

_ROUNDING = 1e-9
_JERK_ROUNDING = 1e-6


class LimitViolation(ExcitationError):
    """
    A trajectory that leaves a limit.

    Beside `joint`, `key` is the quantity and `value` its value; `limit` and `time` [s] say more.
    """

    limit: float
    time: float


@dataclass(frozen=True)
class LimitUse:
    """
    Largest share of each limit that a trajectory uses, 1 being all of it.

    Attributes
    ----------
    joints:
        Names.
    quantities:
        (n_joints,) shares by the name of the quantity, one of `QUANTITIES` or ``effort``: for
        positions the largest distance from the middle of the range, over half of the range; for
        others the largest size over the limit, 0 where there is no limit.

    """

    joints: tuple[str, ...]
    quantities: dict[str, np.ndarray]

    def summary(self) -> str:
        """Say in a line which joint uses most of each limit."""
        parts = []
        for name, shares in self.quantities.items():
            joint = int(np.argmax(shares))
            parts.append(f'{name} {100.0 * shares[joint]:.0f} % ({self.joints[joint]})')
        return f'limits used: {", ".join(parts)}'

    def joined(self, other: LimitUse) -> LimitUse:
        """Return the larger share of both."""
        shares = self.quantities.items()
        return LimitUse(
            self.joints, {q: np.maximum(mine, other.quantities[q]) for q, mine in shares}
        )


@dataclass(frozen=True)
class Findings:
    """
    Findings of a check that a trajectory has passed.

    Attributes
    ----------
    use:
        Shares of the limits.
    nearest:
        Where links came closest to each other, and where to an obstacle, the nearest first; empty
        where that was not checked.

    """

    use: LimitUse
    nearest: tuple[Nearest, ...] = ()

    def summary(self) -> str:
        """Return a line on both."""
        near = ', '.join(nearest.summary() for nearest in self.nearest)
        return self.use.summary() + (f'; smallest distance {near}' if near else '')

    def joined(self, later: Findings, delay: float) -> Findings:
        """Return what was found on this and then, after ``delay`` [s], on another trajectory."""
        delayed = (replace(nearest, time=nearest.time + delay) for nearest in later.nearest)
        best: dict[bool, Nearest] = {}
        for nearest in sorted([*self.nearest, *delayed], key=lambda nearest: nearest.distance):
            best.setdefault(nearest.obstacle, nearest)
        return Findings(self.use.joined(later.use), tuple(best.values()))


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
        The robot's collision model.  Positions are looked at so densely that no point of the robot
        moves by more than the clearance from one to the next (`sweep`), so the shapes stay clear
        of each other in between.

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
    reached = extremes(trajectory, max(rate, LEAST_RATE))
    _check_motion(reached, limits)
    efforts, times = largest_efforts(
        trajectory, effort or nominal_effort(robot), limits.effort, rate
    )
    _require('effort', efforts, times, limits.effort, limits)
    nearest = check_collisions(trajectory, collisions) if collisions is not None else ()
    return Findings(_use(reached, efforts, limits), nearest)


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
        slack = _ROUNDING * np.maximum(1.0, np.abs(values))
        over = sign * values - slack > sign * limit
        _raise_worst('position', over, values, times, limit, limits)
    _require('velocity', *reached.largest(1), limits.velocity, limits)
    _require('acceleration', *reached.largest(2), limits.acceleration, limits)
    _check_jumps(reached, limits)
    _require('jerk', *reached.largest(3), limits.jerk, limits, _JERK_ROUNDING)


def _check_jumps(reached: Extremes, limits: Limits) -> None:
    """Refuse jumps of the acceleration, which no drive can follow, where jerks are limited."""
    with np.errstate(invalid='ignore'):
        excess = reached.jump - JUMP_SECONDS * limits.jerk
    j = int(np.argmax(excess))
    if excess[j] <= 0.0:
        return
    unit = limits.unit('acceleration', j)
    error = LimitViolation(
        f"acceleration of joint '{limits.joints[j]}' jumps by {reached.jump[j]:.6g} {unit} at "
        f'{reached.jump_time[j]:.3f} s: its jerk is infinite there, and its limit is '
        f'{limits.jerk[j]:.6g} {limits.unit("jerk", j)}',
        joint=limits.joints[j],
        key='jerk',
        value=float('inf'),
        remedy='give the points accelerations, zero at both ends, or no jerk limit '
        '(jerk_limits empty, jerk_time none)',
    )
    error.limit, error.time = float(limits.jerk[j]), float(reached.jump_time[j])
    raise error


def _require(
    quantity: str,
    values: np.ndarray,
    times: np.ndarray,
    limit: np.ndarray,
    limits: Limits,
    rounding: float = _ROUNDING,
) -> None:
    over = np.abs(values) * (1.0 - rounding) > limit
    _raise_worst(quantity, over, values, times, limit, limits)


def _raise_worst(
    quantity: str,
    over: np.ndarray,
    values: np.ndarray,
    times: np.ndarray,
    limit: np.ndarray,
    limits: Limits,
) -> None:
    """Raise for the joint that is ``over`` its limit by most, if any is."""
    if not over.any():
        return
    excess = np.where(over, np.abs(np.abs(values) - np.abs(limit)), -np.inf)
    j = int(np.argmax(excess))
    unit = limits.unit(quantity, j)
    remedy = 'plan within the limits, or correct the limit if it is wrong'
    if quantity == 'effort':
        remedy = 'move slower or with less reach, or correct inertias, limit or effort_margin'
    error = LimitViolation(
        f"{quantity} of joint '{limits.joints[j]}' is {values[j]:.6g} {unit} at "
        f'{times[j]:.3f} s, beyond its limit of {limit[j]:.6g} {unit}',
        joint=limits.joints[j],
        key=quantity,
        value=float(values[j]),
        remedy=remedy,
    )
    error.limit, error.time = float(limit[j]), float(times[j])
    raise error


def _use(reached: Extremes, efforts: np.ndarray, limits: Limits) -> LimitUse:
    bounded = np.isfinite(limits.lower) & np.isfinite(limits.upper)
    with np.errstate(invalid='ignore'):
        middle, half = (limits.lower + limits.upper) / 2.0, (limits.upper - limits.lower) / 2.0
        away = np.maximum(reached.highest[0] - middle, middle - reached.lowest[0]) / half
    shares = {'position': np.where(bounded, away, 0.0)}
    for order, name in enumerate(QUANTITIES[1:], 1):
        shares[name] = np.abs(reached.largest(order)[0]) / getattr(limits, name)
    shares['effort'] = np.abs(efforts) / limits.effort
    return LimitUse(limits.joints, shares)
