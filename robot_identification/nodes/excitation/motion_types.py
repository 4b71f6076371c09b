# SPDX-License-Identifier: Apache-2.0
"""Types that the parts of a motion share: errors with their codes, the report, the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
import time

import numpy as np
from robot_identification_msgs.action import Excite

Tick = Callable[[], Awaitable[None]]
"""Awaited to wait for the next look at the robot, some 10 ms; other callbacks run meanwhile."""

Code = Excite.Result
"""Has the codes as its constants."""


def code_name(code: int) -> str:
    """Return the name of a code of the action's result."""
    names = (name for name in dir(Code) if name.isupper() and getattr(Code, name) == code)
    return next(names, str(code))


class MotionError(Exception):
    """A motion that does not begin or ends early: a code of Excite's result, and words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class OffPathError(MotionError):
    """A robot that is off its path or not free: a stop along the path would press."""


class NoMoreCommandsError(MotionError):
    """
    A motion to which nothing may be added: the controller ends the horizon that it has.

    The next command could be a leap, since the horizon is about to end, or since it is not known
    whether the robot still follows.
    """


@dataclass
class Report:
    """Feedback and result of a motion, for its client."""

    feedback: Excite.Feedback = field(
        default_factory=lambda: Excite.Feedback(
            phase='checking', effort_share=np.nan, speed_scaling=1.0
        )
    )
    result: Excite.Result = field(default_factory=lambda: Excite.Result(max_effort_share=np.nan))


# ------------------------------------------------------------------------------------------ time

HELD_UP = 0.1
"""Time between two looks after which this process has been held up [s]."""

UNSURE_SECONDS = 0.5
"""Longest time for a joint state that was published after that to arrive [s]."""

SLOWEST = 0.1
"""Rate of a simulation's time, relative to the wall's, down to which it is waited for."""


class PathClock:
    """
    The time of a path, which passes as fast as the controller lets it.

    Attributes
    ----------
    start:
        When the path would have begun, in the clock of the joint states, had its time always
        passed as that clock [ns].
    now:
        Present time in that clock, at the latest look [ns].
    speed:
        Rate of the path's time; 1 is real time.

    """

    def __init__(self, start: int, now: int) -> None:
        self.start, self.now, self.speed = start, now, 1.0
        self._began = start
        self._wall = time.monotonic()
        self._resumed = -np.inf
        self._published = np.inf

    def look(self, now: int, speed: float, published: float) -> None:
        """
        Update the clock.

        The present time is that by the latest joint state [ns]; ``published`` is when that was
        published, by this machine's steady clock [s].
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

        What held this process up may have held up a simulation and its time, too: the first joint
        state that is published afterwards decides.
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


class Patience:
    """
    Bound on a wait for a robot whose clock may be slower than the wall's, or stand still.

    It is over after ``seconds`` by that clock from ``now`` [ns] on, after 1 / `SLOWEST` as long by
    the wall's, or where the clock has stood still for ``still`` seconds.
    """

    def __init__(self, now: int, seconds: float, still: float) -> None:
        self._until, self._still = now + round(1e9 * seconds), still
        self._seen, self._since = now, time.monotonic()
        self._latest = self._since + seconds / SLOWEST

    def over(self, now: int) -> bool:
        """Return whether the wait is over at a time in the clock of the joint states [ns]."""
        wall = time.monotonic()
        if now != self._seen:
            self._seen, self._since = now, wall
        return now >= self._until or wall > min(self._latest, self._since + self._still)
