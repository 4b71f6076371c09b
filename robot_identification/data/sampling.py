# SPDX-License-Identifier: Apache-2.0
"""
Stamps of samples: clock of a recording, and resampling to gap-free stretches on a uniform grid.

The period of a clock is the median of the first steps.  Each step is compared with the nearest
number of whole periods: samples that come in a burst after a pause are late, and none of them is
missing.  A step that is as long as jitter makes steps skips nothing: by such stamps a late sample
and a missing one look alike.

A grid point takes a sample unchanged that is within 0.5 % of a period (the rounding of stamps), if
its neighbours are on the grid too.  Elsewhere a cubic polynomial is evaluated: Hermite's form with
the slopes of the parabolas through three samples.  Its error is of third order in the distance of
the samples; the second-order errors of linear interpolation would be amplified by derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import asdict, dataclass, replace
import math
from typing import Any
import warnings

import numpy as np

from ..errors import IdentificationWarning
from .columns import TIME_UNITS
from .parts import head
from .recording import Recording, recording_error, RecordingSource, source_name


@dataclass(frozen=True)
class ClockConstants:
    """Constants of a clock's period, and of its unit."""

    skipped_periods: float = 1.5
    """A step longer than this many periods skips a sample, where stamps do not jitter."""
    jitter_deviations: float = 3.0
    """Standard deviations of the steps by which it has to be longer where they do."""
    late_share: float = 0.1
    """Share of a period by which a late sample exceeds one period after the last one."""
    enough_steps: int = 1000
    """Steps between stamps from which a clock's period is found."""
    rate_stamps: int = 16384
    """Stamps at the beginning of a recording from which its rate is found."""
    slowest_rate: float = 2.0
    """Rate below which time stamps are hardly in the unit that they are taken to be in [Hz]."""
    latest_time: float = 1e10
    """Time since 1970 that stamps do not exceed [s]: that of the year 2286."""
    steps_at_once: int = 256
    """Steps between stamps that are looked at together."""
    set_back: int = -1_000_000_000
    """Step back above which a clock was set, or a simulation restarted [ns]."""


CLOCK = ClockConstants()


GAP = 5.0
"""A step between stamps of more periods than this ends a stretch."""

ON_GRID = 0.005
"""Distance up to which a stamp counts as on a grid point [periods]."""

_AT_ONCE = 16384  # rows that are worked on at once, for the sake of memory


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
        Time from the first to the last sample, without what was left out on purpose [s].
    rate:
        Whole periods a second, those of missing samples included [Hz]; NaN below two samples.
    jitter:
        RMS deviation of steps from whole periods [s].
    late:
        Share of samples that are late (see `CLOCK.late_share`).
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
    """
    Estimator of the clock of a named recording from its stamps, in constant memory.

    Times that were ``left_out`` on purpose, [first, last] each [s], are no gaps.
    """

    def __init__(
        self, source: str = 'recording', left_out: Iterable[tuple[float, float]] = ()
    ) -> None:
        self._source = source
        self._left_out = tuple(left_out)
        self._apart = 0.0
        self._samples = 0
        self._first = self._last = math.nan
        self._waiting: list[np.ndarray] = []
        self._period = math.nan
        self._room = math.nan  # about a step within which it is one period, with its jitter
        self._steps = self._periods = self._missing = 0
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
        steps = np.diff(time, prepend=self._last)
        across = np.zeros(len(steps), dtype=bool)
        for first, last in self._left_out:
            across |= (time - steps <= first) & (time >= last)
        self._apart += float(steps[across].sum())
        self._samples += int(np.count_nonzero(across))
        self.add_steps(steps[~across])
        self._last = float(time[-1]) if len(time) else self._last

    def add_steps(self, steps: np.ndarray) -> None:
        """Take (n,) positive steps [s] without the stamps, which may jump in between."""
        if self._samples == 0:
            self._first, self._last, self._samples = 0.0, 0.0, 1
        self._samples += len(steps)
        self._last += float(steps.sum())
        self._waiting.append(steps)
        if not math.isnan(self._period) or sum(map(len, self._waiting)) >= CLOCK.enough_steps:
            self._settle()

    def clock(self) -> Clock:
        """Return the clock by the stamps so far."""
        watch = copy(self)
        watch._settle()
        steps = watch._steps
        duration = watch._last - watch._first - watch._apart if watch._samples else 0.0
        return Clock(
            source=watch._source,
            samples=watch._samples,
            duration=duration,
            rate=watch._periods / duration if watch._periods else math.nan,
            jitter=math.sqrt(watch._squares / steps) if steps else math.nan,
            late=watch._late / steps if steps else 0.0,
            gaps=watch._gaps,
            missing=max(0, watch._missing),
            longest=watch._longest,
        )

    def _settle(self) -> None:
        """Count the steps that wait, by the period of the first ones."""
        steps = np.concatenate([np.empty(0), *self._waiting])
        self._waiting = []
        if len(steps) == 0:
            return
        first = math.isnan(self._period)
        if first:
            self._period = float(np.median(steps[: CLOCK.enough_steps]))
        relative = steps / self._period
        whole = np.rint(relative)
        off = relative - whole
        if first:
            # of a normal distribution, the median deviation is this part of the standard one
            spread = float(np.median(np.abs(off[: CLOCK.enough_steps]))) / 0.6745
            self._room = CLOCK.skipped_periods - 1.0 + CLOCK.jitter_deviations * spread
        apart = np.abs(relative - 1.0) > self._room
        self._steps += len(steps)
        self._periods += int(whole.sum())
        self._missing += int(whole[apart].sum()) - int(np.count_nonzero(apart))
        self._squares += float(off @ off) * self._period**2
        self._late += int(np.count_nonzero(relative > 1.0 + CLOCK.late_share))
        self._gaps += int(np.count_nonzero(apart & (relative > 1.0)))
        self._longest = max(self._longest, float(steps.max()))


def likely_unit(step: float, stamp: float = 0.0) -> str:
    """
    Return the largest of `TIME_UNITS` in which steps come at a likely rate; ``s`` for none.

    A stamp counts from a start or since 1970, in any case less than until `CLOCK.latest_time`.
    """
    for name, unit in TIME_UNITS.items():
        if step * unit < 1.0 / CLOCK.slowest_rate and abs(stamp) * unit < CLOCK.latest_time:
            return name
    return 's'


def clock_of(
    stamps: Iterable[np.ndarray],
    source: str = 'recording',
    left_out: Iterable[tuple[float, float]] = (),
) -> Clock:
    """
    Return the clock of a named recording by consecutive parts of (n,) increasing stamps [s].

    Times that were ``left_out`` on purpose, [first, last] each [s], are no gaps.
    """
    watch = ClockWatch(source, left_out)
    for part in stamps:
        watch.add(part)
    return watch.clock()


def recording_clock(source: RecordingSource) -> Clock:
    """Return the clock of a recording, which is read where its source does not know it."""
    known: Clock | None = getattr(source, 'clock', None)
    left_out = getattr(source, 'left_out', ())
    return known or clock_of(
        (block.time for block in source.blocks(_AT_ONCE)), source_name(source), left_out
    )


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
        if step >= CLOCK.set_back:
            self._covered += step
        if step <= 0:
            self.backward += 1
            return
        self.longest = max(self.longest, step)
        self._steps.append(step)
        if len(self._steps) == CLOCK.steps_at_once:
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


def sample_rate(source: RecordingSource) -> float:
    """
    Return the sampling rate of a recording by its first stamps [Hz].

    That is the inverse of the median step, refined by a straight line through the stamps.  Raises
    RecordingError for fewer than two samples.
    """
    with warnings.catch_warnings():
        # reading the whole recording warns again
        warnings.simplefilter('ignore', IdentificationWarning)
        first = head(source, CLOCK.rate_stamps)
    count = 0 if first is None else len(first)
    if first is None or count < 2:
        remedy = 'record for longer, or widen rows and time_range'
        raise recording_error(
            source_name(source), f'has {count} samples, a rate takes two', remedy
        )
    return rate_of(first.time)


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


def on_grid(stretch: Recording, rate: float) -> Recording:
    """
    Return a stretch at the points of a uniform grid of a rate [Hz] that starts at its first stamp.

    The signals are those of the recording itself where all of its stamps are on the grid.
    """
    time, period = stretch.time, 1.0 / rate
    count = int(np.floor((time[-1] - time[0]) * rate + ON_GRID)) + 1
    grid = time[0] + np.arange(count) * period
    found = np.minimum(np.searchsorted(time, grid - ON_GRID * period), len(time) - 1)
    # a stamp that meets the grid by chance, amid jitter, is interpolated like its neighbours
    step = np.diff(time)
    off_grid = np.abs(step - np.maximum(1.0, np.rint(step * rate)) * period) > 2 * ON_GRID * period
    jitters = np.append(False, off_grid) | np.append(off_grid, False)
    off = np.flatnonzero(jitters[found] | (np.abs(time[found] - grid) > ON_GRID * period))
    if not off.size and count == len(time):
        return replace(stretch, time=grid)
    signals: dict[str, Any] = {}
    before = np.searchsorted(time, grid + ON_GRID * period, side='right') - 1
    for name in stretch.stepwise:
        signals[name] = getattr(stretch, name)[before]
    for name in stretch.continuous:
        if (values := getattr(stretch, name)) is None:
            continue
        rows = signals[name] = values[found]
        for some in np.split(off, range(_AT_ONCE, off.size, _AT_ONCE)) if off.size else ():
            near = slice(max(0, found[some[0]] - 3), found[some[-1]] + 4)
            rows[some] = interpolated(time[near], values[near], grid[some])
    return replace(stretch, time=grid, **signals)


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
