# SPDX-License-Identifier: Apache-2.0
"""Pace of a simulation in real time."""

from __future__ import annotations

import time

MOST_DELAY = 0.25
"""Delay that is made up for by running faster [s]; what is more is lost to real time."""

CATCH_UP = 1.5
"""How much faster: commands that are timed by the simulated clock have to keep up with it."""

BURST = 0.005
"""Time within which that may be exceeded, since sleeps take a little too long [s]."""


class Pace:
    """
    Real time of a loop with a period [s].

    Delays up to `MOST_DELAY` are made up for; beyond them the loop's time falls behind for good,
    so that nothing is skipped.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self._due = self._latest = time.monotonic()
        self.lost = 0.0

    def wait(self) -> None:
        """Wait until the next period is due."""
        self._due += self._period
        now = time.monotonic()
        left = self._due - now
        if left < -MOST_DELAY:
            self._due -= left
            self.lost -= left
        self._latest = max(self._due, self._latest + self._period / CATCH_UP, now - BURST)
        if self._latest > now:
            time.sleep(self._latest - now)
