# SPDX-License-Identifier: Apache-2.0
"""Clock of a motion along its path, and bounds on waiting."""

from __future__ import annotations

import time

import numpy as np

HELD_UP = 0.1
"""Time between two looks after which this process has been held up [s]."""

UNSURE_SECONDS = 0.5
"""How long a joint state that was published after that may take [s]."""

SLOWEST = 0.1
"""Simulated time that passes at this share of the wall's, or faster, is waited for."""


class Patience:
    """
    A bound on a wait for a robot, which lives by a clock of its own.

    A simulation on a busy machine has its time, and one whose clock stands still keeps nobody
    waiting.

    Parameters
    ----------
    now:
        Present time in the clock of the joint states [ns].
    seconds:
        How long to wait by that clock, and up to 1 / `SLOWEST` as long by the wall's [s].
    still:
        For how long by the wall's clock the other may stand still [s].

    """

    def __init__(self, now: int, seconds: float, still: float) -> None:
        self._until, self._still = now + round(1e9 * seconds), still
        self._seen, self._since = now, time.monotonic()
        self._latest = self._since + seconds / SLOWEST

    def over(self, now: int) -> bool:
        """
        Return whether the wait is over.

        Parameters
        ----------
        now:
            Present time in the clock of the joint states [ns].

        """
        wall = time.monotonic()
        if now != self._seen:
            self._seen, self._since = now, wall
        return now >= self._until or wall > min(self._latest, self._since + self._still)


class PathClock:
    """
    The time of a path, which passes as fast as the controller lets it.

    Parameters
    ----------
    start:
        When the path begins, in the clock of the joint states [ns].
    now:
        Present time in that clock [ns].

    Attributes
    ----------
    start:
        When the path would have begun, had its time always passed as the clock [ns].
    now:
        Present time, at the latest look [ns].
    speed:
        How fast the path's time passes; 1 is real time.

    """

    def __init__(self, start: int, now: int) -> None:
        self.start, self.now, self.speed = start, now, 1.0
        self._began = start
        self._wall = time.monotonic()
        self._resumed = -np.inf
        self._published = np.inf

    def look(self, now: int, speed: float, published: float) -> None:
        """
        Take note of the present.

        Parameters
        ----------
        now:
            Present time as the latest joint state tells it [ns].
        speed:
            See `speed`.
        published:
            When that joint state was published, by this machine's steady clock [s].

        """
        wall = time.monotonic()
        if wall - self._wall > HELD_UP:
            self._resumed = wall
        if self.speed != 1.0:
            self.start += round((1.0 - self.speed) * (now - self.now))
        self.now, self.speed, self._wall, self._published = now, speed, wall, published

    @property
    def sure(self) -> bool:
        """
        True if the present time of the path is certain.

        What held this process up may have held up a simulation, too, and with it the robot's time:
        the first joint state from thereafter tells.
        """
        since = self._wall - self._resumed
        return self._published >= self._resumed or since > UNSURE_SECONDS

    @property
    def elapsed(self) -> float:
        """Present time of the path; below 0 before it begins [s]."""
        return 1e-9 * (self.now - self.start)

    def at(self, stamp: int) -> float:
        """Return the time of the path at a moment that is not long past [s]."""
        return self.elapsed - self.speed * 1e-9 * (self.now - stamp)

    @property
    def taken(self) -> float:
        """Time since the beginning in the clock of the joint states [s]."""
        return max(1e-9 * (self.now - self._began), 0.0)
