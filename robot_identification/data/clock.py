# SPDX-License-Identifier: Apache-2.0
"""
Clock of a recording by its time stamps: rate, jitter, gaps, late samples.

The period is the median of the first steps.  Each step is compared with the nearest number of
whole periods: samples that come in a burst after a pause are late, and none of them is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import asdict, dataclass
import math
from typing import Any

import numpy as np

from .recording import Recording, source_name
from .recording_config import TIME_UNITS

GAP_FACTOR = 1.5
"""A step longer than this many periods skips a sample."""

LATE = 0.1
"""Share of a period by which a late sample exceeds one period after the last one."""

_SLOWEST = 2.0
"""Rate below which time stamps are hardly in the unit that they are taken to be in [Hz]."""

_ENOUGH = 1000
"""Steps from which the period is found."""


@dataclass(frozen=True)
class Clock:
    """
    Quality of the stamps of a recording.

    Attributes
    ----------
    source:
        Name of the recording.
    samples:
        Number of samples.
    duration:
        Time from the first to the last sample [s].
    rate:
        Whole periods a second, those of missing samples included [Hz]; NaN below two samples.
    jitter:
        RMS deviation of steps from whole periods [s].
    late:
        Share of samples that are late (see `LATE`).
    gaps, missing:
        Steps that skip samples, and samples that were skipped.
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
    """Estimator of the clock of a named recording from its stamps, in constant memory."""

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
            self._first = self._last = float(time[0])
            self._samples = 1
            time = time[1:]
        self.add_steps(np.diff(time, prepend=self._last))
        self._last = float(time[-1]) if len(time) else self._last

    def add_steps(self, steps: np.ndarray) -> None:
        """Take (n,) positive steps [s] without the stamps, which may jump in between."""
        if self._samples == 0:
            self._first, self._last, self._samples = 0.0, 0.0, 1
        self._samples += len(steps)
        self._last += float(steps.sum())
        self._waiting.append(steps)
        if not math.isnan(self._period) or sum(map(len, self._waiting)) >= _ENOUGH:
            self._settle()

    def clock(self) -> Clock:
        """Return the clock by the stamps so far."""
        watch = copy(self)
        watch._settle()
        steps = watch._steps
        duration = watch._last - watch._first if watch._samples else 0.0
        return Clock(
            source=watch._source,
            samples=watch._samples,
            duration=duration,
            rate=watch._periods / duration if watch._periods else math.nan,
            jitter=math.sqrt(watch._squares / steps) if steps else math.nan,
            late=watch._late / steps if steps else 0.0,
            gaps=watch._gaps,
            missing=max(0, watch._periods - steps),
            longest=watch._longest,
        )

    def _settle(self) -> None:
        """Count the steps that wait, by the period of the first ones."""
        steps = np.concatenate([np.empty(0), *self._waiting])
        self._waiting = []
        if len(steps) == 0:
            return
        if math.isnan(self._period):
            self._period = float(np.median(steps[:_ENOUGH]))
        relative = steps / self._period
        whole = np.rint(relative)
        off = relative - whole
        self._steps += len(steps)
        self._periods += int(whole.sum())
        self._squares += float(off @ off) * self._period**2
        self._late += int(np.count_nonzero(relative > 1.0 + LATE))
        self._gaps += int(np.count_nonzero(relative > GAP_FACTOR))
        self._longest = max(self._longest, float(steps.max()))


def likely_unit(step: float) -> str:
    """Return the largest of `TIME_UNITS` in which steps come at a likely rate; ``s`` for none."""
    return next((name for name, unit in TIME_UNITS.items() if step * unit < 1.0 / _SLOWEST), 's')


def clock_of(stamps: Iterable[np.ndarray], source: str = 'recording') -> Clock:
    """Return the clock of a named recording by consecutive parts of (n,) increasing stamps [s]."""
    watch = ClockWatch(source)
    for part in stamps:
        watch.add(part)
    return watch.clock()


class WatchedSource:
    """
    A recording source whose clock is found when it is read to its end for the first time.

    Parameters
    ----------
    source:
        The source.
    keep:
        Rows that are kept of its beginning, for those who would read it again.

    Attributes
    ----------
    clock:
        The clock; None before.
    beginning:
        The first ``keep`` rows, or all if there are no more, in blocks; empty before.

    """

    def __init__(self, source: Any, keep: int = 0) -> None:
        self._source, self._keep = source, keep
        self.clock: Clock | None = None
        self.beginning: tuple[Recording, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def blocks(self, size: int) -> Iterator[Recording]:
        """Read the source."""
        if self.clock is not None:
            yield from self._source.blocks(size)
            return
        watch = ClockWatch(source_name(self._source))
        kept: list[Recording] = []
        left = self._keep
        for block in self._source.blocks(size):
            watch.add(block.time)
            if left:
                kept.append(block.rows(0, left))
                left -= len(kept[-1])
            yield block
        self.clock, self.beginning = watch.clock(), tuple(kept)


_STEPS_AT_ONCE = 256

_CLOCK_SET = -1_000_000_000
"""Step back from which on a clock was set, or a simulation restarted [ns]."""


class StampStatistics:
    """
    Statistics of stamps in any order and in constant memory; jitter and gaps as in `Clock`.

    Attributes
    ----------
    count:
        Number of stamps.
    first, last:
        First and last stamp [ns].
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
        """Time that the stamps cover [s], without steps back of a clock that was set."""
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
