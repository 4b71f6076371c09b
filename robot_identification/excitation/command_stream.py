# SPDX-License-Identifier: Apache-2.0
"""
Stream of single commands along a trajectory, for robots that take positions or velocities.

The time of the trajectory is that of the joint states' stamps, which may be simulated.
"""

from __future__ import annotations

import numpy as np

from .guards import CommandLimiter, StateMonitor
from .limits import Limits
from .trajectories import PointTrajectory

LARGEST_ERROR = 0.1
"""Difference of positions beyond which feedback does not grow [rad or m]."""

FEEDBACK_TIME = 0.1
"""Time constant of the feedback, so that a false position is no sudden velocity [s]."""

FEEDBACK_SHARE = 0.05
"""Share of the way so far that feedback may correct, beyond `LARGEST_ERROR`."""

SHORTEST = 1e-3
"""Shortest time for the way to a path that is still to begin [s]."""

CATCH_UP = 1.5
"""Largest rate of a path's time for positions, after commands were late."""

CATCH_UP_TIME = 0.1
"""Time constant of making up for missed commands [s]."""

PACE_SLEW = 5.0
"""Largest change of the rate of the path's time [1/s]."""

HELD_UP = 0.1
"""Time without commands after which a robot that takes positions is left where it is [s]."""

MISSED = 3.0
"""Missing commands after which it is left, where commands are seldom."""

LATE = 0.05
"""Delay beyond which a joint state corrects no clock, but in a simulation [s]."""

REFUSED_COUNT = 3
"""Implausible joint states after which a path is followed without any."""

STALE_AGE = 0.2
"""Age at which a joint state counts no more [s]."""

SIMULATED_AHEAD = 0.05
"""How far commands go beyond the latest joint state of a simulation, which may stall [s]."""


class StampedClock:
    """
    A clock that runs evenly along stamps that arrive now and then; without any, as fast as before.

    Parameters
    ----------
    stamp:
        The first one [s].
    wall:
        Time on this machine's clock at its arrival [s].
    ahead:
        How far it goes beyond the latest stamp within `PAUSE` [s]: a simulation that makes the
        stamps may stand still.

    """

    PULL = 10.0
    """Share of the difference that is made up for in a second [1/s]."""

    LEAP = 0.5
    """Difference that is made up for at once [s]."""

    PAUSE = 0.3
    """Time without stamps after which they are missing [s]."""

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
        """Follow a ``stamp`` that arrived at ``wall`` [s]."""
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

    Positions never leap: after a late command, the following ones catch up along the path.  A
    robot that has stopped, since none came for `HELD_UP`, is left where it is; see `held_up`.  One
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
        How long a robot that was left has got no positions; 0 otherwise [s].

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
            # it begins later on the former, which is the same motion up to there
            self._next, self._left = path, -time

    def stop(self) -> None:
        """Forget the path."""
        self._path = self._next = None

    def resume(self) -> None:
        """Forget the path, the feedback, and that the robot was left."""
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

        It changes slowly, and its integral is bounded: a drift of the measured positions must not
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
        """Return how far positions go on, at most, by a pace that changes slowly."""
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

        After the clock went back a little, the path waits until that time has come again.
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


class CommandPlayer:
    """
    Commands of one motion after the other: stream, clock, joint states and limits together.

    Joint states give the time, and feedback to a robot that takes velocities, if they are
    plausible (`StateMonitor`).  Every command passes the `CommandLimiter`.

    Parameters
    ----------
    velocity, gain:
        As for `CommandStream`.
    rate:
        Commands per second [Hz].
    simulated:
        Whether the clock of the joint states is a simulation's.

    """

    def __init__(self, velocity: bool, gain: float, rate: float, simulated: bool) -> None:
        self.stream = CommandStream(velocity, gain)
        self._velocity, self._rate = velocity, rate
        self._simulated = simulated
        self._clock: StampedClock | None = None
        self._latest: tuple[float, np.ndarray] | None = None
        self._arrived = -np.inf
        self._next: tuple[PointTrajectory, float] | None = None
        self._limiter: CommandLimiter | None = None
        self._monitor: StateMonitor | None = None
        self._sent = 0.0
        self._refused = 0
        self._last: np.ndarray | None = None

    @property
    def waiting(self) -> bool:
        """True if a path waits for the first joint state."""
        return self._next is not None

    def prepare(self) -> None:
        """Begin a motion: forget the one before."""
        self.stream.resume()
        self._next = self._monitor = self._limiter = self._latest = self._clock = None
        self._refused = 0

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Begin a path of a robot that rests at ``position`` (n_joints,), within limits."""
        self._rest = np.array(position, dtype=float)
        self._limiter = CommandLimiter(limits, position)
        if self._monitor is None:
            self._monitor = StateMonitor(limits)

    def follow(self, path: PointTrajectory, start: float) -> None:
        """Follow a path, which begins at ``start`` in the clock of the joint states [s]."""
        self._next = path, start

    def note(
        self,
        stamp: float,
        arrived: float,
        position: np.ndarray,
        published: float | None = None,
    ) -> None:
        """
        Take a joint state.

        Parameters
        ----------
        stamp:
            [s]
        arrived:
            Time of its arrival on this machine's clock [s].
        position:
            (n_joints,) finite [rad or m].
        published:
            When it was published, by the clock of its publisher; None for ``arrived`` [s].

        """
        published = arrived if published is None else published
        if self._refused >= REFUSED_COUNT:
            return
        if self._monitor is not None and self._monitor.fault(stamp, published, position):
            self._refused += 1
            return
        self._latest, self._arrived = (stamp, position), arrived
        if self._clock is None:
            ahead = SIMULATED_AHEAD if self._simulated else np.inf
            self._clock = StampedClock(stamp, arrived, ahead)
        elif self._simulated or stamp > self._clock.at(arrived) - LATE:
            self._clock.correct(stamp, arrived)

    def ignore_states(self) -> None:
        """Follow what is left of the motion without joint states."""
        self._refused = REFUSED_COUNT

    def replace(self, wall: float) -> None:
        """Go over to the path that waits, at ``wall`` on this machine's clock [s]."""
        if self._next is None or self._clock is None:
            return
        path, start = self._next
        self.stream.replace(path, start, self._clock.at(wall), self._rest)
        self._next = None

    def command(self, wall: float, speed: float) -> np.ndarray:
        """
        Return the command of a moment (n_joints,).

        Parameters
        ----------
        wall:
            Time on this machine's clock [s].
        speed:
            How fast the path's time passes.

        """
        assert self._clock is not None and self._limiter is not None
        now, usual = self._clock.at(wall), self._clock.rate / self._rate
        unsure = self._latest is None or self._refused >= REFUSED_COUNT
        if self._latest is None or unsure or wall - self._arrived > STALE_AGE:
            wanted = self.stream.command(now, speed, usual=usual)
        else:
            wanted = self.stream.command(now, speed, *self._latest, usual=usual)
        limited = self._limiter.velocity if self._velocity else self._limiter.position
        # the limits are those of the robot's time
        time, period = (now, usual) if self._simulated else (wall, 1.0 / self._rate)
        passed, self._sent = time - self._sent, time
        self._last = limited(wanted, passed, period)
        return self._last

    def last(self) -> np.ndarray | None:
        """
        Return the next command of a stream that ends, for a robot that is to rest (n_joints,).

        The last position, or velocities that fall to zero; None where nothing was commanded.
        """
        if self._velocity and self._limiter is not None and self._last is not None:
            period = 1.0 / self._rate
            self._last = self._limiter.velocity(np.zeros_like(self._last), period, period)
        return self._last
