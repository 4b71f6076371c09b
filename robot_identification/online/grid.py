# SPDX-License-Identifier: Apache-2.0
"""
Stamped samples onto a uniform time grid, one by one, as `signals.sampling` does it offline.

A sample on the grid passes unchanged; elsewhere, because stamps jitter, a sample was lost or the
clock drifts, the cubic through its neighbours is evaluated.  A row of the grid is settled once
there are two samples after it, which is all that the cubic looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
import math

import numpy as np

from ..signals.sampling import GAP, interpolated, ON_GRID

_KEPT = 5
"""Samples that the cubic and the test for jitter look at."""


@dataclass
class StreamCounts:
    """
    What has become of the samples of a stream.

    Attributes
    ----------
    samples:
        That were pushed.
    rows:
        Of the uniform grid that came of them.
    interpolated:
        Of these, the ones between samples.
    stretches:
        Without gap, the present one included.
    late:
        Samples left out because their stamp was not after the one before.
    invalid:
        Samples left out because a number was not finite.

    """

    samples: int = 0
    rows: int = 0
    interpolated: int = 0
    stretches: int = 0
    late: int = 0
    invalid: int = 0


class OnlineGrid:
    """
    Puts a stream on a uniform grid.

    Parameters
    ----------
    width:
        Numbers in a sample.
    period:
        Usual time between samples [s].
    step:
        Step of the grid [s].

    """

    def __init__(self, width: int, period: float, step: float) -> None:
        self._longest = GAP * period
        self._step, self._tolerance = step, ON_GRID * step
        self._values = np.zeros((_KEPT, width))
        self._time: list[float] = []
        self._start, self._next = 0.0, 0
        self.counts = StreamCounts()

    @property
    def step(self) -> float:
        """Step of the grid [s]."""
        return self._step

    def restart(self) -> None:
        """Begin a new stretch with the next sample."""
        self._time.clear()

    def push(self, stamp: float, sample: np.ndarray) -> Iterator[tuple[float, np.ndarray, bool]]:
        """
        Take a sample.

        Parameters
        ----------
        stamp:
            [s]; one that is before the last one by less than a gap is left out, an earlier one
            starts a new stretch.
        sample:
            (width,) copied.

        Yields
        ------
        Stamp [s] and (width,) values of each row of the grid that is settled now, and whether it
        is the first of a stretch.  The values may change with the next push.

        """
        counts, time = self.counts, self._time
        counts.samples += 1
        if not math.isfinite(stamp) or not np.isfinite(sample).all():
            counts.invalid += 1
            return
        if time:
            passed = stamp - time[-1]
            if -self._longest <= passed <= 0.0:
                counts.late += 1
                return
            if not 0.0 < passed <= self._longest:
                time.clear()
        if not time:
            self._start, self._next = stamp, 0
            counts.stretches += 1
        if len(time) == _KEPT:
            time.pop(0)
            self._values[:-1] = self._values[1:]
        self._values[len(time)] = sample
        time.append(stamp)
        yield from self._settled()

    def _settled(self) -> Iterator[tuple[float, np.ndarray, bool]]:
        time, step = self._time, self._step
        if len(time) < 3:
            return
        # the cubic before the last but one sample takes the last one too
        stop = math.floor((time[-3] - self._start) / step + ON_GRID) + 1
        while self._next < stop:
            wanted = self._start + self._next * step
            first = self._next == 0
            self._next += 1
            self.counts.rows += 1
            yield wanted, self._at(wanted), first

    def _at(self, wanted: float) -> np.ndarray:
        time, tolerance = self._time, self._tolerance
        found = 0
        while time[found] < wanted - tolerance:
            found += 1
        if abs(time[found] - wanted) <= tolerance and not (
            (found > 0 and self._jitters(found - 1)) or self._jitters(found)
        ):
            return np.asarray(self._values[found])
        self.counts.interpolated += 1
        n = len(time)
        return interpolated(np.array(time), self._values[:n], np.array([wanted]))[0]

    def _jitters(self, i: int) -> bool:
        """Whether the step after sample i is no whole number of the grid's."""
        passed = self._time[i + 1] - self._time[i]
        whole = max(1.0, round(passed / self._step)) * self._step
        return abs(passed - whole) > 2.0 * self._tolerance
