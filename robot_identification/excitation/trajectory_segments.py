# SPDX-License-Identifier: Apache-2.0
"""
Pieces of a path, each with a stop behind it, so that whoever gets no further piece comes to rest.

The stops lie on the path (`stopping.SlowedTrajectory`), where it was checked to be free of
collision, and never faster than it.  Their accelerations, jerks and efforts are others, and are
checked here, for all stops before the first piece is sent: of the polynomials that a controller
makes of their points, since that is what moves the robot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..data.recording import Motion
from .braking import (
    LONGEST,
    SHORTEST,
    slowed,
)
from .limits import Limits
from .points import (
    PointTrajectory,
    spline_coefficients,
    to_points,
)

STEP = 0.05
"""Time from one stop that is found to the next, at least; they begin at points of the path [s]."""

STOP_RATE = 50.0
"""Points per second of a stop, at least [Hz]."""

_FACTOR = 1.15
_LOOKS = 5
_TIGHT = 0.99
_SAMPLES = 20_000


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

        Parameters
        ----------
        since:
            Time on the path that is not yet to come; below 0 before it begins [s].
        until:
            [s]; infinite for all that is left of the path.

        """
        p = self.path
        first = max(int(np.searchsorted(p.time, since, side='right')) - 2, 0)
        k = int(np.searchsorted(self.begin, until))
        if k == self.begin.size:
            return Horizon(_pieces(p, slice(first, None)), np.inf)
        begin, duration = float(self.begin[k]), float(self.duration[k])
        upto = int(np.searchsorted(p.time, begin)) + 1
        x = _grid(duration, self.rate)
        stop = Motion(*(array[0] for array in _stops(p, self.begin[k : k + 1], duration, x)))
        rows = slice(min(first, upto - 1), upto)
        return Horizon(_pieces(p, rows, begin + duration * x, stop), begin)

    def rest_within(self, length: float) -> float:
        """
        Return the longest time from the latest horizon to rest, where no other follows [s].

        Parameters
        ----------
        length:
            Of the horizons [s].

        """
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
    while duration <= LONGEST:
        x = _grid(duration, rate)
        open_ = np.flatnonzero(np.isnan(found) & (longest >= duration))
        for part in _parts(open_, x.size * _LOOKS):
            kept = _kept(path, begin[part], duration, x, limits, effort)
            found[part[kept]] = duration
        if not np.isnan(found).any():
            break
        duration *= _FACTOR
    good = np.isfinite(found)
    return StoppablePath(path, begin[good], found[good], rate)


def diverted(
    former: PointTrajectory, begin: float, stop: PointTrajectory, rate: float
) -> PointTrajectory:
    """
    Return a trajectory that is left at a moment for a stop of its own.

    Parameters
    ----------
    former:
        What a controller follows.
    begin:
        When the stop begins, in its times as given [s].
    stop:
        Begins with the state that it has then.
    rate:
        Points per second of the stop [Hz].

    """
    rows = slice(0, int(np.searchsorted(former.begin + former.time, begin - 1e-9)))
    more = to_points(stop, rate)
    assert former.acceleration is not None and more.acceleration is not None
    position, velocity, acceleration = former.state(begin)
    return PointTrajectory(
        former.joints,
        np.concatenate([(former.begin + former.time)[rows], begin + more.time]),
        np.concatenate([former.position[rows], position, more.position[1:]]),
        np.concatenate([former.velocity[rows], velocity, more.velocity[1:]]),
        np.concatenate([former.acceleration[rows], acceleration, more.acceleration[1:]]),
    )


def _pieces(
    path: PointTrajectory,
    rows: slice,
    time: np.ndarray | None = None,
    stop: Motion | None = None,
) -> PointTrajectory:
    """Return points of a path, and a stop behind them, whose first point is the path's there."""
    assert path.acceleration is not None
    columns = [path.time[rows], path.position[rows], path.velocity[rows], path.acceleration[rows]]
    if time is not None and stop is not None:
        more = (time, stop.position, stop.velocity, stop.acceleration)
        columns = [np.concatenate([a, b[1:]]) for a, b in zip(columns, more, strict=True)]
    return PointTrajectory(path.joints, *columns)


def _grid(duration: float, rate: float) -> np.ndarray:
    """Places of a stop's points, from 0 to 1."""
    return np.linspace(0.0, 1.0, int(np.ceil(duration * rate)) + 1)


def _parts(rows: np.ndarray, samples: int) -> Iterator[np.ndarray]:
    count = max(_SAMPLES // samples, 1)
    for first in range(0, rows.size, count):
        yield rows[first : first + count]


def _stops(
    path: PointTrajectory, begin: np.ndarray, duration: float, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and accelerations of stops of one duration, (n_stops, n, n_joints)."""
    motion = slowed(path, np.repeat(begin, x.size), duration, np.tile(x, begin.size))
    shape = begin.size, x.size, len(path.joints)
    return (
        motion.position.reshape(shape),
        motion.velocity.reshape(shape),
        motion.acceleration.reshape(shape),
    )


def _kept(
    path: PointTrajectory,
    begin: np.ndarray,
    duration: float,
    x: np.ndarray,
    limits: Limits,
    effort: Callable[[Motion], np.ndarray],
) -> np.ndarray:
    """Tell which of the stops keep the limits, (n_stops,)."""
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
