# SPDX-License-Identifier: Apache-2.0
"""Statistics of a stream's time stamps: rate, jitter, gaps, backward steps."""

from __future__ import annotations

import numpy as np

from ..signals.clock import Clock, ClockWatch

_STEPS_AT_ONCE = 256

_CLOCK_SET = -1_000_000_000
"""A step further back is a clock that was set or a simulation begun anew, not disorder [ns]."""


class StampStatistics:
    """
    Statistics of stamps as they come, in any order and in constant memory.

    Jitter and gaps are those of `signals.clock`, by the steps forward.

    Attributes
    ----------
    count:
        Stamps so far.
    first, last:
        The first one, and the latest one [ns].
    longest:
        Longest step forward [ns].
    backward:
        Stamps that were not later than the one before.

    """

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        self.last = 0
        self.longest = 0
        self.backward = 0
        self._covered = 0
        self._steps: list[int] = []
        self._watch = ClockWatch()

    def add(self, stamp: int) -> None:
        """Take the next stamp [ns]."""
        if self.count == 0:
            self.first = self.last = stamp
            self.count = 1
            return
        self.count += 1
        step = stamp - self.last
        self.last = stamp
        if step >= _CLOCK_SET:
            self._covered += step
        if step <= 0:
            self.backward += 1
            return
        if step > self.longest:
            self.longest = step
        self._steps.append(step)
        if len(self._steps) == _STEPS_AT_ONCE:
            self._hand_on()

    @property
    def jitter(self) -> float:
        """RMS deviation of steps from whole periods [s]; NaN without steps."""
        return self._clock().jitter

    @property
    def gaps(self) -> int:
        """Steps that skip one or more samples."""
        return self._clock().gaps

    @property
    def duration(self) -> float:
        """Time that the stamps cover [s]; what a clock was set back by does not count."""
        return max(0.0, 1e-9 * self._covered)

    @property
    def rate(self) -> float:
        """Mean rate [Hz]; 0 for fewer than two stamps."""
        return (self.count - 1) / self.duration if self.duration > 0.0 else 0.0

    def _clock(self) -> Clock:
        self._hand_on()
        return self._watch.clock()

    def _hand_on(self) -> None:
        if self._steps:
            self._watch.add_steps(1e-9 * np.array(self._steps, dtype=np.int64))
            self._steps.clear()
