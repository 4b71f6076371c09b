# SPDX-License-Identifier: Apache-2.0
"""Commands of a stream: path, clock, feedback and limits together."""

from __future__ import annotations

import numpy as np

from .command_gate import CommandLimiter
from .commands import CommandStream, StampedClock
from .limits import Limits
from .points import PointTrajectory
from .state_monitor import StateBounds, StateMonitor

LATE = 0.05
"""Delay beyond which a joint state says nothing about the present, but in a simulation [s]."""

MISTRUST_COUNT = 3
"""So many joint states that are not plausible, and a path is followed without any."""

STALE_AGE = 0.2
"""Age at which a joint state counts no more [s]."""

SIMULATED_AHEAD = 0.05
"""How far commands go beyond the latest joint state of a simulation, which may stall [s]."""


class CommandPlayer:
    """
    Commands of one motion after the other: path, clock, feedback and limits together.

    Joint states give the time, and feedback to a robot that takes velocities.  Those that are not
    plausible (`StateMonitor`) give neither.  Every command passes the `CommandLimiter`.

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
            bounds = StateBounds(
                limits.joints, limits.lower, limits.upper, limits.velocity, limits.acceleration
            )
            self._monitor = StateMonitor(bounds)

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
        Take note of a joint state.

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
        if self._refused >= MISTRUST_COUNT:
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

    def mistrust(self) -> None:
        """Follow what is left of the motion without joint states."""
        self._refused = MISTRUST_COUNT

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
        unsure = self._latest is None or self._refused >= MISTRUST_COUNT
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
