# SPDX-License-Identifier: Apache-2.0
"""
Resampling of stamped samples to gap-free stretches on a uniform time grid.

A grid point takes a sample unchanged that is within 0.5 % of a period (the rounding of stamps), if
its neighbours are on the grid too.  Elsewhere a cubic polynomial is evaluated: Hermite's form with
the slopes of the parabolas through three samples.  Its error is of third order in the distance of
the samples; the second-order errors of linear interpolation would be amplified by derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
import warnings

import numpy as np

from ..errors import IdentificationWarning
from .recording import Recording, recording_error, RecordingSource, source_name

GAP = 5.0
"""A step between stamps of more periods than this ends a stretch."""

ON_GRID = 0.005
"""Distance up to which a stamp counts as on a grid point [periods]."""

_FIRST_BLOCK = 16384
_ENOUGH = 1000  # stamps to find a rate


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

    That is the inverse of the median step, refined by a straight line through the stamps.

    Raises
    ------
    RecordingError
        for fewer than two samples.

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
        if sum(map(len, first)) >= _ENOUGH:
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
