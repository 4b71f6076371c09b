# SPDX-License-Identifier: Apache-2.0
"""
Single commands made of a motion, for robots that take positions or velocities.

The time of the motion is that of the stamps on the robot's states, which may be simulated.
"""

from __future__ import annotations

import numpy as np

from .points import PointTrajectory

LARGEST_ERROR = 0.1
"""Difference of positions beyond which feedback does not grow [rad or m]."""

FEEDBACK_TIME = 0.1
"""Time constant of the feedback, so that a false position is no sudden velocity [s]."""

FEEDBACK_SHARE = 0.05
"""Share of the way so far that feedback may correct, beyond `LARGEST_ERROR`."""

SHORTEST = 1e-3
"""Shortest way to a path that is still to begin [s]."""

CATCH_UP = 1.5
"""How much faster than planned a position may move along its path, after commands were late."""

CATCH_UP_TIME = 0.1
"""Time constant with which what was missed is made up for [s]."""

PACE_SLEW = 5.0
"""How fast the pace along the path may change [1/s]."""

HELD_UP = 0.1
"""Time without commands after which a robot that takes positions is left where it stopped [s]."""

MISSED = 3.0
"""How many commands that are missing it takes for that, where they come seldom."""


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

    @property
    def rate(self) -> float:
        """Rate at which the time of the path passes."""
        return self._rate

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
    Sampler of a trajectory into position or velocity commands.

    Positions never leap: where a command comes late, the following ones catch up along the path.
    A robot that has stopped since none came for `HELD_UP` is left where it is; see `held_up`.  One
    that takes velocities has moved on meanwhile.

    Parameters
    ----------
    velocity:
        Whether it takes velocities rather than positions.
    gain:
        Velocity per difference of positions [1/s].

    Attributes
    ----------
    held_up:
        How long a robot has got no positions, where it was left for that; 0 otherwise [s].

    """

    def __init__(self, velocity: bool, gain: float) -> None:
        self._velocity, self._gain = velocity, gain
        self._path: PointTrajectory | None = None
        self._next: PointTrajectory | None = None
        self._time = self._now = 0.0
        self._left = 0.0  # path time until the next one is the one
        self._owed = 0.0  # path time that has passed and was not commanded
        self._waited = 0.0  # time from the latest command to the path that came after it
        self._speed = self._pace = 1.0
        self.held_up = 0.0
        self._forget_feedback()

    def _forget_feedback(self) -> None:
        self._feedback: np.ndarray | float = 0.0
        self._corrected: np.ndarray | float = 0.0
        self._way: np.ndarray | float = 0.0

    def replace(
        self,
        path: PointTrajectory,
        start: float,
        now: float,
        position: np.ndarray,
    ) -> None:
        """
        Follow another path from now on, unless the robot was left where it is.

        Parameters
        ----------
        path:
            Ends at rest; has accelerations.
        start:
            When it began or will begin [s].
        now:
            Present time [s].
        position:
            (n_joints,) where the robot rests; from there it moves to a path that is still to
            begin.

        """
        if self.held_up:
            return
        former = self._path
        if start - now > SHORTEST:
            path = _joined(path, start - now, position)
            start, former = now, None
        if self._path is not None and now >= self._now - StampedClock.LEAP:
            # a clock that went back a little: what was commanded is not taken back
            now = max(now, self._now)
        waited = 0.0 if former is None else max(now - self._now, 0.0)
        self._owed = 0.0 if former is None else self._owed + self._speed * waited
        self._waited += waited
        time, self._now = now - start - self._owed, now
        if former is None or time >= 0.0:
            self._path, self._next, self._time = path, None, time
        else:
            # it begins where the robot has yet to get to, along the former, as far the same motion
            self._next, self._left = path, -time

    def stop(self) -> None:
        """Forget the path."""
        self._path = self._next = None

    def resume(self) -> None:
        """Forget the path, and that the robot was left where it is."""
        self.stop()
        self.held_up = 0.0
        self._forget_feedback()

    @property
    def running(self) -> bool:
        """True if there is a path, even one that is over."""
        return self._path is not None

    @property
    def over(self) -> bool:
        """True if the commanded motion rests at the end of the path."""
        if self._path is None or self.held_up:
            return True
        return self._next is None and self._time >= self._path.duration

    def command(
        self,
        now: float,
        speed: float,
        stamp: float = np.nan,
        measured: np.ndarray | None = None,
        *,
        usual: float = np.inf,
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
        usual:
            Time from one command to the next where none is late [s]; with none given, nothing
            counts as late.

        Returns
        -------
        np.ndarray
            (n_joints,) positions, or velocities [rad, m, rad/s or m/s].

        """
        assert self._path is not None
        passed = self._passed(now)
        self._owed += speed * passed
        passed, self._waited = passed + self._waited, 0.0
        self._speed, now = speed, self._now
        if self._owed > max(HELD_UP, MISSED * usual) and not self._velocity:
            self.held_up = self.held_up or self._owed
        if not self.held_up:
            self._advance(self._owed if self._velocity else self._progress(passed, usual))
        if not self._velocity:
            return self._path.sample(np.array([self._time])).position[0]
        then = self._time if measured is None else self._time - speed * (now - stamp)
        motion = self._path.sample(np.array([self._time, then]))
        error = np.zeros_like(motion.position[1])
        if measured is not None:
            error = np.clip(motion.position[1] - measured, -LARGEST_ERROR, LARGEST_ERROR)
        return motion.velocity[0] + self._corrections(error, motion.velocity[0], passed)

    def _corrections(self, error: np.ndarray, planned: np.ndarray, passed: float) -> np.ndarray:
        """
        Return the velocity that feedback adds (n_joints,).

        It changes slowly, and what it adds up to is bounded: a drift of what is measured must not
        lead the robot far from its path.
        """
        self._way = self._way + np.abs(planned) * passed
        spent = self._corrected * np.sign(error) >= LARGEST_ERROR + FEEDBACK_SHARE * self._way
        wanted = np.where(spent, 0.0, self._gain * error)
        share = 1.0 - np.exp(-passed / FEEDBACK_TIME)
        self._feedback = self._feedback + share * (wanted - self._feedback)
        self._corrected = self._corrected + self._feedback * passed
        return np.asarray(self._feedback)

    def _progress(self, passed: float, usual: float) -> float:
        """
        Return how far positions go on, at most.

        What was missed is made up for by a pace that changes slowly, so that neither velocity nor
        acceleration leap.
        """
        step = min(passed, CATCH_UP * usual)
        behind = self._owed - self._speed * step
        pace = min(1.0 + max(behind, 0.0) / CATCH_UP_TIME, CATCH_UP)
        change = PACE_SLEW * step
        self._pace = min(max(pace, self._pace - change), self._pace + change)
        return self._owed if np.isinf(usual) else self._speed * self._pace * step

    def _advance(self, most: float) -> None:
        """Go on along the path by what is owed, or less."""
        step = min(self._owed, most)
        self._owed -= step
        self._time += step
        if self._next is not None:
            self._left -= step
            if self._left <= 0.0:
                self._path, self._time, self._next = self._next, -self._left, None

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


def _joined(path: PointTrajectory, lead: float, position: np.ndarray) -> PointTrajectory:
    """Return the path with the way to it from rest, which takes ``lead`` [s]."""
    assert path.acceleration is not None
    return PointTrajectory(
        path.joints,
        np.concatenate([[0.0], lead + path.time]),
        np.vstack([position, path.position]),
        np.vstack([np.zeros_like(position), path.velocity]),
        np.vstack([np.zeros_like(position), path.acceleration]),
    )
