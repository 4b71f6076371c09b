# SPDX-License-Identifier: Apache-2.0
"""
Stamps of samples: clock of a recording, and resampling to gap-free stretches on a uniform grid.

The period of a clock is the median of the first steps.  Each step is compared with the nearest
number of whole periods: samples that come in a burst after a pause are late, and none of them is
missing.

A grid point takes a sample unchanged that is within 0.5 % of a period (the rounding of stamps), if
its neighbours are on the grid too.  Elsewhere a cubic polynomial is evaluated: Hermite's form with
the slopes of the parabolas through three samples.  Its error is of third order in the distance of
the samples; the second-order errors of linear interpolation would be amplified by derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
import math
from typing import Any
import warnings

import numpy as np

from ..errors import IdentificationWarning
from .recording import Recording, recording_error, RecordingSource, source_name
from .recording_config import TIME_UNITS

GAP_FACTOR = 1.5
"""A step longer than this many periods skips a sample."""

LATE = 0.1
"""Share of a period by which a late sample exceeds one period after the last one."""

GAP = 5.0
"""A step between stamps of more periods than this ends a stretch."""

ON_GRID = 0.005
"""Distance up to which a stamp counts as on a grid point [periods]."""

ENOUGH = 1000
"""Stamps, or steps between them, from which a period is found."""

SLOWEST = 2.0
"""Rate below which time stamps are hardly in the unit that they are taken to be in [Hz]."""

LATEST = 1e10
"""Time since 1970 that stamps do not exceed [s]: that of the year 2286."""

_FIRST_BLOCK = 16384
_STEPS_AT_ONCE = 256

_CLOCK_SET = -1_000_000_000
"""Step back from which on a clock was set, or a simulation restarted [ns]."""


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
        if not math.isnan(self._period) or sum(map(len, self._waiting)) >= ENOUGH:
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
            self._period = float(np.median(steps[:ENOUGH]))
        relative = steps / self._period
        whole = np.rint(relative)
        off = relative - whole
        self._steps += len(steps)
        self._periods += int(whole.sum())
        self._squares += float(off @ off) * self._period**2
        self._late += int(np.count_nonzero(relative > 1.0 + LATE))
        self._gaps += int(np.count_nonzero(relative > GAP_FACTOR))
        self._longest = max(self._longest, float(steps.max()))


def likely_unit(step: float, stamp: float = 0.0) -> str:
    """
    Return the largest of `TIME_UNITS` in which steps come at a likely rate; ``s`` for none.

    A stamp counts from a start or since 1970, in any case less than until `LATEST`.
    """
    for name, unit in TIME_UNITS.items():
        if step * unit < 1.0 / SLOWEST and abs(stamp) * unit < LATEST:
            return name
    return 's'


def clock_of(stamps: Iterable[np.ndarray], source: str = 'recording') -> Clock:
    """Return the clock of a named recording by consecutive parts of (n,) increasing stamps [s]."""
    watch = ClockWatch(source)
    for part in stamps:
        watch.add(part)
    return watch.clock()


class StampStatistics:
    """
    Statistics of stamps in any order and in constant memory; jitter and gaps as in `Clock`.

    Attributes
    ----------
    count:
        Number of stamps.
    last:
        Last stamp [ns].
    longest:
        Longest step forward [ns].
    backward:
        Stamps that were not later than the one before.

    """

    def __init__(self) -> None:
        self.count = 0
        self.last = 0
        self.longest = 0
        self.backward = 0
        self._covered = 0
        self._steps: list[int] = []
        self._watch = ClockWatch()

    def add(self, stamp: int) -> None:
        """Take the next stamp [ns]."""
        self.count += 1
        step, self.last = stamp - self.last, stamp
        if self.count == 1:
            return
        if step >= _CLOCK_SET:
            self._covered += step
        if step <= 0:
            self.backward += 1
            return
        self.longest = max(self.longest, step)
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


# --------------------------------------------------------------------------- uniform grid


@dataclass(frozen=True)
class GridBlock:
    """
    Consecutive rows of a stretch on the uniform grid.

    Attributes
    ----------
    stretch, start:
        Number of the gap-free stretch, from 0, and time of its first row [s].
    values:
        (n_rows, n_columns) position, measured velocity (if wanted) and effort.

    """

    stretch: int
    start: float
    values: np.ndarray


def sample_rate(source: RecordingSource) -> float:
    """
    Return the sampling rate of a recording by its first stamps [Hz].

    That is the inverse of the median step, refined by a straight line through the stamps.  Raises
    RecordingError for fewer than two samples.
    """
    with warnings.catch_warnings():
        # reading the whole recording warns again
        warnings.simplefilter('ignore', IdentificationWarning)
        return begun(source, _FIRST_BLOCK).rate


@dataclass(frozen=True)
class Begun:
    """A recording whose first blocks have been read, with its rate [Hz]; it can be read once."""

    joints: tuple[str, ...]
    source: str
    rate: float
    parts: Iterator[Recording]

    def blocks(self, size: int) -> Iterator[Recording]:
        """Return all blocks, in the size of `begun`."""
        return self.parts


def begun(source: RecordingSource, size: int) -> Begun:
    """Read blocks of ``size`` rows until the rate is known; raises as `sample_rate`."""
    name, blocks = source_name(source), iter(source.blocks(size))
    first: list[Recording] = []
    for part in blocks:
        first.append(part)
        # a block of a bag in which others are on the topic too may have a few rows only
        if sum(map(len, first)) >= ENOUGH:
            break
    time = np.concatenate([np.empty(0), *(part.time for part in first)])
    if len(time) < 2:
        remedy = 'record for longer, or widen rows and time_range'
        raise recording_error(name, f'has {len(time)} samples, a rate takes two', remedy)
    return Begun(source.joints, name, rate_of(time), chain(first, blocks))


def rate_of(time: np.ndarray) -> float:
    """Return the rate [Hz] of (n,) two or more increasing stamps [s], as in `sample_rate`."""
    step = np.diff(time)
    period = float(np.median(step))
    gaps = np.flatnonzero(step > GAP * period)
    ends = np.concatenate(([-1], gaps, [step.size]))
    longest = int(np.argmax(np.diff(ends)))
    run = slice(ends[longest] + 1, ends[longest + 1])
    # counting whole periods keeps the line straight across single missing samples
    counts = np.rint(step[run] / period)
    if counts.size < 2 or (counts < 1.0).any():
        return 1.0 / period
    index = np.concatenate(([0.0], np.cumsum(counts)))
    index -= index.mean()
    stamps = time[run.start : run.stop + 1] - time[run.start]
    stamps = stamps - stamps.mean()
    spread = float(index @ index)
    slope = float(index @ stamps) / spread
    error = np.sqrt(np.mean((stamps - slope * index) ** 2) / spread)
    rate = 1.0 / slope
    # a whole number of hertz within the stamps' resolution of the estimate is the nominal rate
    nearest = round(rate)
    uncertainty = max(2.0 * error / slope, 1e-9) * rate
    return float(nearest) if nearest and abs(rate - nearest) <= uncertainty else rate


def grid_blocks(
    source: RecordingSource,
    rate: float,
    recorded: float,
    *,
    velocity: bool,
    block: int,
    bridged: float = 0.0,
) -> Iterator[GridBlock]:
    """
    Resample a recording to a uniform grid, block by block.

    A gap of more than `GAP` recorded periods starts a new stretch, whose grid starts at its first
    stamp.

    Parameters
    ----------
    source:
        The recording.
    rate, recorded:
        Rates of the grid and of the recording [Hz].
    velocity:
        True if measured velocities are wanted.
    block:
        Rows to read at a time.
    bridged:
        Length of gaps that are interpolated however many periods they have [s].

    Raises
    ------
    RecordingError
        for missing velocities, or stamps that go back from one block to the next.

    """
    longest = max(GAP / recorded, bridged)
    stretch = -1
    grid: _UniformGrid | None = None
    last: float | None = None
    for part in source.blocks(block):
        if len(part) == 0:
            continue
        time, values = part.time, _columns(part, velocity)
        if last is not None and time[0] <= last:
            text = f'time stamp {time[0]:.9g} s does not follow {last:.9g} s'
            remedy = 'sort the rows by time and keep one row a stamp'
            raise recording_error(part.source, text, remedy, value=float(time[0]))
        cuts = np.flatnonzero(np.diff(time) > longest) + 1
        if last is not None and time[0] - last > longest:
            cuts = np.concatenate(([0], cuts))
        for begin, end in pairwise(sorted({0, *cuts.tolist(), len(time)})):
            if grid is None or begin in cuts:
                if grid is not None:
                    yield GridBlock(stretch, grid.start, grid.finish())
                grid, stretch = _UniformGrid(time[begin], 1.0 / rate), stretch + 1
            yield GridBlock(stretch, grid.start, grid.push(time[begin:end], values[begin:end]))
        last = float(time[-1])
    if grid is not None:
        yield GridBlock(stretch, grid.start, grid.finish())


def _columns(part: Recording, velocity: bool) -> np.ndarray:
    if not velocity:
        return np.hstack((part.position, part.effort))
    if part.velocity is None:
        text = 'there is no measured velocity, or there is NaN in it'
        remedy = "name its columns, or set 'signals.method' to butterworth"
        raise recording_error(part.source, text, remedy)
    return np.hstack((part.position, part.velocity, part.effort))


class _UniformGrid:
    """Resampling of one stretch; keeps the few samples that interpolation still needs."""

    def __init__(self, start: float, period: float) -> None:
        self.start = float(start)
        self._period = period
        self._next = 0
        self._time: np.ndarray = np.empty(0)
        self._values: np.ndarray = np.empty((0, 0))

    def push(self, time: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Take the next samples and return the grid rows that they settle."""
        if len(self._time) == 0:
            self._time, self._values = time, values
        else:
            self._time = np.concatenate((self._time, time))
            self._values = np.concatenate((self._values, values))
        if len(self._time) < 3:
            return self._values[:0]
        # the cubic before the last but one sample takes the last one too
        rows = self._evaluate(float(self._time[-3]))
        settled = np.searchsorted(self._time, self.start + (self._next - 1) * self._period)
        keep = max(0, int(settled) - 3)
        self._time, self._values = self._time[keep:], self._values[keep:]
        return rows

    def finish(self) -> np.ndarray:
        """Return the rows up to the last sample."""
        return self._evaluate(float(self._time[-1]))

    def _evaluate(self, until: float) -> np.ndarray:
        """Rows from the next one to the one at or before the time ``until``."""
        stop = int(np.floor((until - self.start) / self._period + ON_GRID)) + 1
        if stop <= self._next:
            return self._values[:0]
        index = np.arange(self._next, stop)
        self._next = stop
        return _at(self._time, self._values, self.start + index * self._period, self._period)


def _at(time: np.ndarray, values: np.ndarray, wanted: np.ndarray, period: float) -> np.ndarray:
    """Values at the times ``wanted``, which lie within ``time`` to within the tolerance."""
    tolerance = ON_GRID * period
    found = np.minimum(np.searchsorted(time, wanted - tolerance), len(time) - 1)
    # a stamp that meets the grid by chance, amid jitter, is interpolated like its neighbours
    step = np.diff(time)
    off_grid = np.abs(step - np.maximum(1.0, np.rint(step / period)) * period) > 2.0 * tolerance
    jitters = np.zeros(len(time), dtype=bool)
    jitters[1:] |= off_grid
    jitters[:-1] |= off_grid
    off = np.flatnonzero(jitters[found] | (np.abs(time[found] - wanted) > tolerance))
    if off.size == 0 and found[-1] - found[0] + 1 == found.size:
        return values[found[0] : found[-1] + 1]
    rows = values[found]
    if off.size:
        rows[off] = interpolated(time, values, wanted[off])
    return rows


def interpolated(time: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """
    Interpolate (n, k) samples by cubic polynomials (Hermite's form with the slopes of parabolas).

    Parameters
    ----------
    time:
        (n,) increasing stamps of the samples, two or more [s].
    values:
        (n, k) samples.
    wanted:
        (m,) times within ``time`` [s].

    """
    left = np.clip(np.searchsorted(time, wanted, side='right') - 1, 0, len(time) - 2)
    step = np.diff(time)[:, None]
    secant = np.diff(values, axis=0) / step
    slope = np.empty_like(values)
    slope[0], slope[-1] = secant[0], secant[-1]
    slope[1:-1] = (step[1:] * secant[:-1] + step[:-1] * secant[1:]) / (step[1:] + step[:-1])
    h = step[left]
    u = (wanted - time[left])[:, None] / h
    from_left = values[left] + u * (1 - u) ** 2 * h * slope[left]
    rise = values[left + 1] - values[left]
    return from_left + u**2 * (3 - 2 * u) * rise - u**2 * (1 - u) * h * slope[left + 1]
