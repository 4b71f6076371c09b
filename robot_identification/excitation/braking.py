# SPDX-License-Identifier: Apache-2.0
"""
Stops: along the path of a trajectory, as part of its pieces, and off it.

A stop along the path keeps a robot where it was checked to be free of collision, and is never
faster than the path: only the time scaling s(t) changes, q(t) = path(s(t)).  Its accelerations,
jerks and efforts are others, and are checked here, for all stops before the first piece is sent:
of the polynomials that a controller makes of their points, since that is what moves the robot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..data.recording import Motion
from .limits import Limits
from .trajectories import PointTrajectory, spline_coefficients, to_points, Trajectory

SHORTEST = 0.2
"""Least time for a stop [s]."""

LONGEST = 5.0
"""Longest stop that is tried [s]."""

ACCELERATION_SHARE = 0.5
"""Share of the acceleration limits that a stop off the path uses: a servo overshoots."""

STEP = 0.05
"""Time from one stop that is found to the next, at least; they begin at points of the path [s]."""

STOP_RATE = 50.0
"""Points per second of a stop, at least [Hz]."""

_FACTOR = 1.15
"""From one duration that is tried to the next."""

_LOOKS, _LOOKS_OFF_PATH = 5, 41
"""Samples of each polynomial, and of a stop off the path, that are held against the limits."""

_TIGHT = 0.99
_SAMPLES = 20_000
_ROUNDING = 1.0 + 1e-9


def slowed(path: Trajectory, begin: np.ndarray | float, duration: float, x: np.ndarray) -> Motion:
    r"""
    Return states of stops along a path, whose rate falls smoothly from 1 to 0.

    With :math:`x = t / T`, :math:`\dot s = 1 - 3 x^2 + 2 x^3`, whose derivative vanishes at both
    ends: velocity and acceleration join the path's and end at zero, after half of the duration in
    the path's time.

    Parameters
    ----------
    path:
        The trajectory whose path is kept.
    begin:
        Time of the path at which the stop of a sample begins, one for each or one for all [s].
    duration:
        Time T until rest [s].
    x:
        (n_samples,) share of that time that has passed, from 0 to 1.

    """
    motion = path.sample(begin + duration * (x - x**3 + 0.5 * x**4))
    rate = (1.0 - 3.0 * x**2 + 2.0 * x**3)[:, None]
    change = ((6.0 * x**2 - 6.0 * x) / duration)[:, None]
    return Motion(
        motion.position,
        motion.velocity * rate,
        motion.acceleration * rate**2 + motion.velocity * change,
    )


@dataclass(frozen=True)
class Horizon:
    """
    A piece of a path with a stop behind it.

    Attributes
    ----------
    trajectory:
        What is sent; its times as given are those of the path.
    stop:
        When the stop begins [s]; infinite where the path's own end is in the piece.

    """

    trajectory: PointTrajectory
    stop: float

    @property
    def end(self) -> float:
        """Time of the path at which the robot is at rest [s]."""
        return self.trajectory.end


@dataclass(frozen=True)
class StoppablePath:
    """
    A path, and the quickest stops on it that keep the limits.

    Attributes
    ----------
    path:
        From rest to rest, with accelerations.
    begin:
        (n_stops,) times of points of the path, increasing [s].
    duration:
        (n_stops,) how long the stops that begin there take [s].
    rate:
        Points per second of the stops [Hz].

    """

    path: PointTrajectory
    begin: np.ndarray
    duration: np.ndarray
    rate: float = STOP_RATE

    def horizon(self, since: float, until: float) -> Horizon:
        """
        Return the points from just before ``since`` on, with a stop at ``until`` or soon after.

        Both are times of the path [s], ``since`` below 0 before it begins, ``until`` infinite for
        all that is left of it.
        """
        p = self.path
        assert p.acceleration is not None
        first = max(int(np.searchsorted(p.time, since, side='right')) - 2, 0)
        k = int(np.searchsorted(self.begin, until))
        path = p.time, p.position, p.velocity, p.acceleration
        if k == self.begin.size:
            return Horizon(PointTrajectory(p.joints, *(c[first:] for c in path)), np.inf)
        begin, duration = float(self.begin[k]), float(self.duration[k])
        upto = int(np.searchsorted(p.time, begin)) + 1
        rows = slice(min(first, upto - 1), upto)
        x = _grid(duration, self.rate)
        states = _stops(p, self.begin[k : k + 1], duration, x)
        stop = (begin + duration * x, *states[:, 0])
        # the first point of the stop is the path's, as it is there
        columns = (np.concatenate([c[rows], s[1:]]) for c, s in zip(path, stop, strict=True))
        return Horizon(PointTrajectory(p.joints, *columns), begin)

    def rest_within(self, length: float) -> float:
        """Return the longest time from a last horizon of some length to rest [s]."""
        ends = np.append(self.begin + self.duration, self.path.duration)
        # the latest times at which each stop, and at last the end, is what a horizon ends with
        latest = np.append(self.begin, np.inf) - length
        earliest = np.maximum(np.concatenate([[-np.inf], latest[:-1]]), 0.0)
        return float((ends - earliest)[latest >= 0.0].max())


def stoppable(
    path: PointTrajectory,
    limits: Limits,
    effort: Callable[[Motion], np.ndarray],
    rate: float = STOP_RATE,
) -> StoppablePath:
    """
    Find the quickest stops that keep the limits of acceleration, jerk and effort.

    Moments from which no stop does, as where the path itself brakes as hard as it may, have none:
    the next one that has takes their place, at last the path's own end.

    Parameters
    ----------
    path:
        A checked path with accelerations, from rest to rest.
    limits:
        Limits in force.
    effort:
        Predicts efforts.
    rate:
        Points per second in which stops are sent [Hz].

    """
    rate = max(rate, STOP_RATE)
    wanted = np.arange(STEP, path.duration - SHORTEST, STEP)
    rows = np.unique(np.searchsorted(path.time, wanted))
    begin = path.time[rows[rows < path.time.size - 1]]
    # one that takes longer than the path itself is none
    longest = path.duration - begin
    found = np.full(begin.size, np.nan)
    duration = SHORTEST
    while duration <= LONGEST and np.isnan(found).any():
        x = _grid(duration, rate)
        open_ = np.flatnonzero(np.isnan(found) & (longest >= duration))
        count = max(_SAMPLES // (x.size * _LOOKS), 1)  # for the memory
        for first in range(0, open_.size, count):
            part = open_[first : first + count]
            kept = _kept(path, begin[part], duration, x, limits, effort)
            found[part[kept]] = duration
        duration *= _FACTOR
    good = np.isfinite(found)
    return StoppablePath(path, begin[good], found[good], rate)


def _grid(duration: float, rate: float) -> np.ndarray:
    """Places of a stop's points, from 0 to 1."""
    return np.linspace(0.0, 1.0, int(np.ceil(duration * rate)) + 1)


def _stops(path: PointTrajectory, begin: np.ndarray, duration: float, x: np.ndarray) -> np.ndarray:
    """Positions, velocities, accelerations of stops of one duration, (3, n_stops, n, n_joints)."""
    motion = slowed(path, np.repeat(begin, x.size), duration, np.tile(x, begin.size))
    states = np.stack([motion.position, motion.velocity, motion.acceleration])
    return states.reshape(3, begin.size, x.size, -1)


def _kept(
    path: PointTrajectory,
    begin: np.ndarray,
    duration: float,
    x: np.ndarray,
    limits: Limits,
    effort: Callable[[Motion], np.ndarray],
) -> np.ndarray:
    """Return whether each of the stops keeps the limits, (n_stops,)."""
    n_stops, n_joints = begin.size, len(path.joints)
    # each joint of each stop is a column of its own, so that all are joined at once
    columns = (
        array.transpose(1, 0, 2).reshape(x.size, -1) for array in _stops(path, begin, duration, x)
    )
    pieces = spline_coefficients(duration * x, *columns)
    step = duration / (x.size - 1)
    t = np.linspace(0.0, step, _LOOKS)

    def derivative(order: int) -> np.ndarray:
        """(pieces, looks, n_stops, n_joints)."""
        value = np.zeros((len(pieces), t.size, n_stops * n_joints))
        for power in range(5, order - 1, -1):
            factor = float(np.prod(np.arange(power - order + 1, power + 1)))
            value = value * t[:, None] + factor * pieces[:, power, None]
        return value.reshape(len(pieces), t.size, n_stops, n_joints)

    acceleration = derivative(2)
    kept = np.ones(n_stops, dtype=bool)
    for values, limit in ((acceleration, limits.acceleration), (derivative(3), limits.jerk)):
        kept &= (np.abs(values) <= _TIGHT * limit).all(axis=(0, 1, 3))
    if kept.any() and np.isfinite(limits.effort).any():
        states = (derivative(0), derivative(1), acceleration)
        motion = Motion(*(array[:, :, kept].reshape(-1, n_joints) for array in states))
        needed = np.abs(effort(motion)).reshape(len(pieces), t.size, -1, n_joints)
        kept[kept] = (needed <= limits.effort).all(axis=(0, 1, 3))
    return kept


# ---------------------------------------------------------------------------------- off the path


def to_rest(
    limits: Limits,
    state: np.ndarray,
    place: np.ndarray | None = None,
    shortest: float = SHORTEST,
) -> PointTrajectory | None:
    """
    Return the quickest quintic from a state of motion to rest that keeps the limits.

    It leaves the path that was checked for collisions, so it is short.

    Parameters
    ----------
    limits:
        Limits of position, velocity and acceleration in force.
    state:
        (3, n_joints) position, velocity and acceleration at its begin.
    place:
        (n_joints,) where it ends; None for where the velocity leads while it falls evenly.
    shortest:
        Least duration [s].

    Returns
    -------
    PointTrajectory or None
        None where there is none within `LONGEST`.

    """
    position, velocity, acceleration = np.asarray(state, dtype=float)
    zero = np.zeros_like(position)
    # at its begin it may move as the motion that it ends
    fastest = np.maximum(limits.velocity, np.abs(velocity)) * _ROUNDING
    hardest = ACCELERATION_SHARE * limits.acceleration
    hardest = np.maximum(hardest, np.abs(acceleration)) * _ROUNDING
    lower, upper = np.minimum(limits.lower, position), np.maximum(limits.upper, position)
    duration = shortest
    while duration <= LONGEST:
        end = position + 0.5 * duration * velocity if place is None else place
        end = np.clip(end, limits.lower, limits.upper)
        stop = PointTrajectory(
            limits.joints,
            np.array([0.0, duration]),
            np.array([position, end]),
            np.array([velocity, zero]),
            np.array([acceleration, zero]),
        )
        motion = stop.sample(np.linspace(0.0, duration, _LOOKS_OFF_PATH))
        inside = (lower <= motion.position) & (motion.position <= upper)
        slow = np.abs(motion.velocity) <= fastest
        soft = np.abs(motion.acceleration) <= hardest
        if (inside & slow & soft).all():
            return stop
        duration *= _FACTOR
    return None


def diverted(
    former: PointTrajectory, begin: float, stop: PointTrajectory, rate: float
) -> PointTrajectory:
    """
    Return a trajectory that is left at a moment for a stop of its own.

    ``begin`` is when the stop begins, in the ``former``'s times as given [s], and ``rate`` gives
    the points per second of the stop, which begins with the state that the former has then [Hz].
    """
    time, more = former.begin + former.time, to_points(stop, rate)
    rows = slice(0, int(np.searchsorted(time, begin - 1e-9)))
    assert former.acceleration is not None and more.acceleration is not None
    position, velocity, acceleration = former.state(begin)
    return PointTrajectory(
        former.joints,
        np.concatenate([time[rows], begin + more.time]),
        np.concatenate([former.position[rows], position, more.position[1:]]),
        np.concatenate([former.velocity[rows], velocity, more.velocity[1:]]),
        np.concatenate([former.acceleration[rows], acceleration, more.acceleration[1:]]),
    )
