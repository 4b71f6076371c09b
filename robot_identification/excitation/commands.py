# SPDX-License-Identifier: Apache-2.0
"""
Turn a motion into single commands, for robots that take positions or velocities.

The time of the motion is that of the stamps on the robot's states, which may be simulated.
"""

from __future__ import annotations

import numpy as np

from .points import PointTrajectory

LARGEST_ERROR = 0.1
"""Difference of positions beyond which feedback does not grow [rad or m]."""

SHORTEST = 1e-3
"""Shortest way to a path that is still to begin [s]."""


class StampedClock:
    """
    A clock that runs evenly and keeps to stamps that arrive now and then, a little late each time.

    Without stamps it goes on as fast as before.

    Parameters
    ----------
    stamp:
        The first one [s].
    wall:
        Time on this machine's clock at its arrival [s].
    ahead:
        How far it goes beyond the latest stamp within `PAUSE` [s]: what makes the stamps, a
        simulation, may stand still.

    """

    PULL = 10.0
    """Share of the difference that is made up for in a second [1/s]."""

    LEAP = 0.5
    """Difference that is made up for at once [s]."""

    PAUSE = 0.3
    """Time without stamps after which they are missing, whatever makes them [s]."""

    def __init__(self, stamp: float, wall: float, ahead: float = np.inf) -> None:
        self._ahead = ahead
        self._set(stamp, wall)

    def _set(self, stamp: float, wall: float) -> None:
        self._time, self._wall, self._rate = stamp, wall, 1.0
        self._stamp, self._seen = stamp, wall

    def at(self, wall: float) -> float:
        """Return its time at a moment of this machine's clock [s]."""
        more = max(wall - self._seen - self.PAUSE, 0.0)
        return min(self._free(wall), self._stamp + self._ahead + more)

    def _free(self, wall: float) -> float:
        return self._time + self._rate * (wall - self._wall)

    def correct(self, stamp: float, wall: float) -> None:
        """Take note of a ``stamp`` that arrived at ``wall`` [s]."""
        error = stamp - self._free(wall)
        if abs(error) > self.LEAP:
            self._set(stamp, wall)
            return
        step = max(wall - self._seen, 0.0)
        share = 1.0 - np.exp(-self.PULL * step)
        self._time, self._wall = self._free(wall) + share * error, wall
        # a simulation's time passes faster or slower than this machine's
        self._rate = max(self._rate + 0.25 * self.PULL * share * error, 0.0)
        self._stamp, self._seen = stamp, wall


class CommandStream:
    """
    What a robot is to be told, moment by moment.

    Parameters
    ----------
    velocity:
        Whether it takes velocities rather than positions.
    gain:
        Velocity per difference of positions [1/s].

    """

    def __init__(self, velocity: bool, gain: float) -> None:
        self._velocity, self._gain = velocity, gain
        self._path: PointTrajectory | None = None
        self._time = self._now = 0.0

    def replace(
        self,
        path: PointTrajectory,
        start: float,
        now: float,
        position: np.ndarray,
        velocity: np.ndarray | None = None,
    ) -> None:
        """
        Follow another path from now on.

        Parameters
        ----------
        path:
            Ends at rest; has accelerations.
        start:
            When it began or will begin [s].
        now:
            Present time [s].
        position, velocity:
            (n_joints,) measured; from there the robot moves to a path that is still to begin.

        """
        if start - now > SHORTEST:
            path = _joined(path, start - now, position, velocity)
            start = now
        if self._path is not None and now >= self._now - StampedClock.LEAP:
            # a clock that went back a little: what was commanded is not taken back
            now = max(now, self._now)
        self._path, self._time, self._now = path, now - start, now

    def stop(self) -> None:
        """Forget the path."""
        self._path = None

    @property
    def running(self) -> bool:
        """Whether there is a path, be it over."""
        return self._path is not None

    @property
    def over(self) -> bool:
        """Whether the robot has been told to rest at the path's end."""
        return self._path is None or self._time >= self._path.duration

    def command(
        self, now: float, speed: float, stamp: float = np.nan, measured: np.ndarray | None = None
    ) -> np.ndarray:
        """
        Return the command of this moment.

        Parameters
        ----------
        now:
            Present time [s].
        speed:
            How fast the path's time passes.
        stamp, measured:
            Time and positions (n_joints,) of the latest state; None where it is too old to count.

        Returns
        -------
        np.ndarray
            (n_joints,) positions, or velocities [rad, m, rad/s or m/s].

        """
        assert self._path is not None
        self._time += speed * self._passed(now)
        now = self._now
        if not self._velocity:
            return self._path.sample(np.array([self._time])).position[0]
        then = self._time if measured is None else self._time - speed * (now - stamp)
        motion = self._path.sample(np.array([self._time, then]))
        if measured is None:
            return motion.velocity[0]
        error = np.clip(motion.position[1] - measured, -LARGEST_ERROR, LARGEST_ERROR)
        return motion.velocity[0] + self._gain * error

    def _passed(self, now: float) -> float:
        """
        Return the time that has passed since the latest moment.

        The clock goes back a little where the stamps say so: the path waits until that time has
        come again, which would pass twice otherwise.
        """
        before = self._now
        if not before - StampedClock.LEAP <= now <= before:
            self._now = now
        return max(now - before, 0.0)


def _joined(
    path: PointTrajectory, lead: float, position: np.ndarray, velocity: np.ndarray | None
) -> PointTrajectory:
    """Return the path with the way to it from a state, which takes ``lead`` [s]."""
    if velocity is None or not np.isfinite(velocity).all():
        velocity = path.velocity[0]
    assert path.acceleration is not None
    return PointTrajectory(
        path.joints,
        np.concatenate([[0.0], lead + path.time]),
        np.vstack([position, path.position]),
        np.vstack([velocity, path.velocity]),
        np.vstack([np.zeros_like(position), path.acceleration]),
    )
