# SPDX-License-Identifier: Apache-2.0
"""
Clock of a recording by its time stamps: rate, jitter, gaps, late samples.

The period is the median of the first steps, so that neither gaps nor later faults count.  Every
step is then so many whole periods long and off by the rest; samples that come in a burst after a
pause are therefore late, but none of them is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import asdict, dataclass
import math
from typing import Any

import numpy as np

from .recording import Recording, source_name

GAP_FACTOR = 1.5
"""A step longer than this many periods skips a sample."""

LATE = 0.1
"""A sample is late that comes so much of a period later than one period after the last one."""

_ENOUGH = 1000
"""Steps to find the period."""


@dataclass(frozen=True)
class Clock:
    """
    Quality of the stamps of a recording.

    Attributes
    ----------
    source:
        The recording's name.
    samples:
        How many there are.
    duration:
        From the first to the last [s].
    rate:
        Whole periods a second, those of missing samples included [Hz]; NaN for fewer than two
        samples.
    jitter:
        Root of the mean square of what steps are longer or shorter than whole periods [s].
    late:
        Share of samples that are late (see `LATE`).
    gaps:
        Steps that skip one or more samples.
    missing:
        Samples that were skipped.
    longest:
        Longest step [s].

    """

    source: str
    samples: int
    duration: float
    rate: float
    jitter: float
    late: float
    gaps: int
    missing: int
    longest: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers."""
        return asdict(self)


class ClockWatch:
    """
    Takes the stamps of a recording as they come, in constant memory.

    Parameters
    ----------
    source:
        The recording's name.

    """

    def __init__(self, source: str = 'recording') -> None:
        self._source = source
        self._samples = 0
        self._first = self._last = math.nan
        self._waiting: list[np.ndarray] = []
        self._period = math.nan
        self._steps = self._periods = 0
        self._squares = 0.0
        self._late = self._gaps = 0
        self._longest = 0.0

    def add(self, time: np.ndarray) -> None:
        """Take the next stamps, (n,) increasing [s]."""
        if len(time) == 0:
            return
        if self._samples == 0:
            self._first = float(time[0])
            steps = np.diff(time)
        else:
            steps = np.diff(time, prepend=self._last)
        self._samples += len(time)
        self._last = float(time[-1])
        self._take(steps)

    def add_steps(self, steps: np.ndarray) -> None:
        """Take (n,) positive steps [s] without the stamps, which may jump in between."""
        if self._samples == 0:
            self._first, self._last, self._samples = 0.0, 0.0, 1
        self._samples += len(steps)
        self._last += float(steps.sum())
        self._take(steps)

    def _take(self, steps: np.ndarray) -> None:
        if not math.isnan(self._period):
            self._count(steps)
            return
        self._waiting.append(steps)
        if sum(map(len, self._waiting)) >= _ENOUGH:
            self._settle()

    def clock(self) -> Clock:
        """Say what the stamps so far tell; the ones to come may still tell another period."""
        if self._waiting:
            settled = copy(self)
            settled._settle()
            return settled.clock()
        steps = self._steps
        duration = self._last - self._first if self._samples else 0.0
        return Clock(
            source=self._source,
            samples=self._samples,
            duration=duration,
            rate=self._periods / duration if self._periods else math.nan,
            jitter=math.sqrt(self._squares / steps) if steps else math.nan,
            late=self._late / steps if steps else 0.0,
            gaps=self._gaps,
            missing=max(0, self._periods - steps),
            longest=self._longest,
        )

    def _settle(self) -> None:
        steps = np.concatenate(self._waiting)
        self._waiting = []
        if len(steps):
            self._period = float(np.median(steps[:_ENOUGH]))
            self._count(steps)

    def _count(self, steps: np.ndarray) -> None:
        if len(steps) == 0:
            return
        relative = steps / self._period
        whole = np.rint(relative)
        off = relative - whole
        self._steps += len(steps)
        self._periods += int(whole.sum())
        self._squares += float(off @ off) * self._period**2
        self._late += int(np.count_nonzero(relative > 1.0 + LATE))
        self._gaps += int(np.count_nonzero(relative > GAP_FACTOR))
        self._longest = max(self._longest, float(steps.max()))


def clock_of(stamps: Iterable[np.ndarray], source: str = 'recording') -> Clock:
    """
    Judge the stamps of a recording.

    Parameters
    ----------
    stamps:
        Parts of (n,) increasing stamps, one after another [s].
    source:
        The recording's name.

    """
    watch = ClockWatch(source)
    for part in stamps:
        watch.add(part)
    return watch.clock()


class WatchedSource:
    """
    A recording source whose stamps are watched when it is read to its end for the first time.

    Parameters
    ----------
    source:
        The source; all else is as it is there.

    Attributes
    ----------
    clock:
        None before.

    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self.clock: Clock | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def blocks(self, size: int) -> Iterator[Recording]:
        """Read the source."""
        if self.clock is not None:
            yield from self._source.blocks(size)
            return
        watch = ClockWatch(source_name(self._source))
        for block in self._source.blocks(size):
            watch.add(block.time)
            yield block
        self.clock = watch.clock()


_STEPS_AT_ONCE = 256

_CLOCK_SET = -1_000_000_000
"""A step further back is a clock that was set or a simulation begun anew, not disorder [ns]."""


class StampStatistics:
    """
    Statistics of stamps as they come, in any order and in constant memory.

    Jitter and gaps are those of `Clock`, by the steps forward.

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
