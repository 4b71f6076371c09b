# SPDX-License-Identifier: Apache-2.0
"""What the time stamps of a stream say about it: rate, gaps, steps back."""

from __future__ import annotations

from statistics import median

from ..signals.clock import GAP_FACTOR

_STEPS_FOR_PERIOD = 200


class StampStatistics:
    """
    Statistics of stamps as they come.

    The period is the median of the first steps, so that neither the gaps among them nor the
    stream's later faults count.

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
        self._steps: list[int] = []
        self._limit: float | None = None
        self._gaps = 0

    def add(self, stamp: int) -> None:
        """Take the next stamp [ns]."""
        if self.count == 0:
            self.first = self.last = stamp
            self.count = 1
            return
        self.count += 1
        step = stamp - self.last
        self.last = stamp
        if step <= 0:
            self.backward += 1
            return
        self.longest = max(self.longest, step)
        if self._limit is not None:
            self._gaps += step > self._limit
            return
        self._steps.append(step)
        if len(self._steps) == _STEPS_FOR_PERIOD:
            self._limit = GAP_FACTOR * median(self._steps)
            self._gaps = sum(step > self._limit for step in self._steps)
            self._steps.clear()

    @property
    def gaps(self) -> int:
        """Steps that skip one or more samples."""
        if self._limit is not None or not self._steps:
            return self._gaps
        limit = GAP_FACTOR * median(self._steps)
        return sum(step > limit for step in self._steps)

    @property
    def duration(self) -> float:
        """Time from the first to the latest stamp [s]."""
        return max(0.0, 1e-9 * (self.last - self.first))

    @property
    def rate(self) -> float:
        """Mean rate [Hz]; 0 for fewer than two stamps."""
        return (self.count - 1) / self.duration if self.duration > 0.0 else 0.0
