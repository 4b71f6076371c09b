# SPDX-License-Identifier: Apache-2.0
"""How far along its path a robot should be."""

from __future__ import annotations

import time

HELD_UP = 0.1
"""Time between two looks after which this process has been held up [s]."""

LOOKS, MOST_LOOKS = 3, 20
"""Looks until the messages of that time have been read: at least, and at most."""


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
        self._looks = MOST_LOOKS
        self._expected = now

    def look(self, now: int, speed: float) -> None:
        """
        Take note of the present.

        Parameters
        ----------
        now:
            Present time as the latest joint state tells it [ns].
        speed:
            See `speed`.

        """
        wall = time.monotonic()
        if wall - self._wall > HELD_UP:
            self._looks = 0
            self._expected = self.now + int(0.5e9 * (wall - self._wall))
        self._looks += 1
        if self.speed != 1.0:
            self.start += round((1.0 - self.speed) * (now - self.now))
        self.now, self.speed, self._wall = now, speed, wall

    @property
    def settled(self) -> bool:
        """
        Whether the present is known.

        After this process has been held up, what it takes for the latest joint state may be one of
        that time, as long as hardly any time has passed by it.
        """
        enough = LOOKS if self.now >= self._expected else MOST_LOOKS
        return self._looks >= enough

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
