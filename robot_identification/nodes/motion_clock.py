# SPDX-License-Identifier: Apache-2.0
"""How far along its path a robot should be."""

from __future__ import annotations

import time

HELD_UP = 0.1
"""Time between two looks after which this process has been held up [s]."""

CATCH_UP_SECONDS = 2.0
"""How long the joint states may take to catch up after that [s]."""

CAUGHT_UP = 50_000_000
"""How near to the time expected the joint states are then [ns]."""


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
        # time by both clocks before this process was held up, and when that was over
        self._before: tuple[int, float] | None = None
        self._resumed = self._wall
        self._told = now

    def look(self, now: int, speed: float) -> None:
        """
        Take note of the present.

        Parameters
        ----------
        now:
            Present time as the latest joint state tells it [ns].  After this process has been
            held up, that may be an old one, while the middleware repeats what was missed: until
            the joint states have caught up, what has passed on this machine counts.  The clock
            of a simulation on a busy machine, which never catches up, is believed after a while.
        speed:
            See `speed`.

        """
        wall, told = time.monotonic(), now
        if wall - self._wall > HELD_UP and self._before is None:
            self._before, self._resumed = (self._told, self._wall), wall
        if self._before is not None:
            now = max(told, self._before[0] + int(1e9 * (wall - self._before[1])))
            if told > now - CAUGHT_UP or wall - self._resumed > CATCH_UP_SECONDS:
                self._before = None
        if self.speed != 1.0:
            self.start += round((1.0 - self.speed) * (now - self.now))
        self.now, self.speed, self._wall, self._told = now, speed, wall, told

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
