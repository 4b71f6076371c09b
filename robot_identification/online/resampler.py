# SPDX-License-Identifier: Apache-2.0
"""
Stamped samples onto a uniform time grid, one by one, as `data.sampling` does it offline.

A sample on the grid passes unchanged; elsewhere, because stamps jitter, a sample was lost or the
clock drifts, the cubic through its neighbours is evaluated.  A row of the grid is settled once
there are two samples after it, which the cubic depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np

from ..data.sampling import (
    GAP,
    interpolated,
    ON_GRID,
)

_KEPT = 5
"""Samples that the cubic and the test for jitter depend on."""

BEYOND = 1e9
"""A position or an effort that no robot has; its square would drown all that was learned."""

_AHEAD = 2
"""Samples after a row that they depend on."""


@dataclass
class StreamCounts:
    """
    Counts of the samples of a stream.

    Attributes
    ----------
    samples, rows, interpolated:
        Samples pushed, rows of the uniform grid, and those of the rows between samples.
    stretches:
        Without gap, the present one included.
    late:
        Samples left out because their stamp was not after the one before.
    invalid:
        Samples left out because a number was not finite, or beyond any robot's.

    """

    samples: int = 0
    rows: int = 0
    interpolated: int = 0
    stretches: int = 0
    late: int = 0
    invalid: int = 0


class GridRow(NamedTuple):
    """A row of the grid: stamp [s], (width,) values, whether it is the first of a stretch."""

    stamp: float
    values: np.ndarray
    first: bool


class OnlineGrid:
    """
    Uniform grid of a stream of (width,) samples.

    Parameters
    ----------
    period, step:
        Usual time between samples, and step of the grid [s].

    Attributes
    ----------
    delay:
        Waiting time of a row for the samples after it, at an even rate [s].
    counts:
        Counts of the samples so far.

    """

    def __init__(self, width: int, period: float, step: float) -> None:
        self.delay = _AHEAD * period
        self._longest = GAP * period
        self._step, self._tolerance = step, ON_GRID * step
        # of the last samples, oldest first; whether the step before each was off the grid
        self._values = [np.zeros(width) for _ in range(_KEPT)]
        self._time: list[float] = []
        self._jitter: list[bool] = []
        self._start, self._next = 0.0, 0
        self.counts = StreamCounts()

    def restart(self) -> None:
        """Begin a new stretch with the next sample."""
        self._time.clear()
        self._jitter.clear()

    def push(self, stamp: float, sample: np.ndarray) -> list[GridRow]:
        """
        Add a (width,) sample; return the rows that are settled now, valid until the next push.

        A stamp [s] before the last one by less than a gap is left out, an earlier one starts a new
        stretch.
        """
        counts, time = self.counts, self._time
        counts.samples += 1
        # what is not finite is not below any bound
        if not (math.isfinite(stamp) and np.abs(sample).max() < BEYOND):
            counts.invalid += 1
            return []
        off = False
        if time:
            passed = stamp - time[-1]
            if -self._longest <= passed <= 0.0:
                counts.late += 1
                return []
            if 0.0 < passed <= self._longest:
                whole = max(1.0, round(passed / self._step)) * self._step
                off = abs(passed - whole) > 2.0 * self._tolerance
            else:
                self.restart()
        if not time:
            self._start, self._next = stamp, 0
            counts.stretches += 1
        if len(time) == _KEPT:
            del time[0], self._jitter[0]
            self._values.append(self._values.pop(0))
        self._values[len(time)][:] = sample
        time.append(stamp)
        self._jitter.append(off)
        return self._settled() if len(time) > _AHEAD else []

    def _settled(self) -> list[GridRow]:
        # the cubic before the last but one sample takes the last one too
        settled = self._time[-1 - _AHEAD]
        stop = math.floor((settled - self._start) / self._step + ON_GRID) + 1
        rows = []
        for index in range(self._next, stop):
            wanted = self._start + index * self._step
            rows.append(GridRow(wanted, self._at(wanted), index == 0))
        self.counts.rows += len(rows)
        self._next = max(self._next, stop)
        return rows

    def _at(self, wanted: float) -> np.ndarray:
        time, jitter = self._time, self._jitter
        found = 0
        while time[found] < wanted - self._tolerance:
            found += 1
        jitters = jitter[found] or jitter[found + 1]
        if not jitters and abs(time[found] - wanted) <= self._tolerance:
            return self._values[found]
        self.counts.interpolated += 1
        held = np.array(self._values[: len(time)])
        return np.asarray(interpolated(np.array(time), held, np.array([wanted]))[0])
