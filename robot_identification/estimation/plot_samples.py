# SPDX-License-Identifier: Apache-2.0
"""A bounded, evenly thinned part of the rows of recordings, for plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..regressor.inverse_dynamics import RowPattern
from .row_block import RowBlock

TRACE_ROWS = 20_000
"""Rows of recordings that are kept for plots, as far as `TRACE_BYTES` allows."""

TRACE_BYTES = 16_000_000
"""Memory for the base columns of these rows; `ANALYSED_ROWS` are kept in any case."""

ANALYSED_ROWS = 2000
"""Rows of a recording that delays and the residuals' colour are found from, at most."""

_BY_ROW = ('time', 'segment', 'effort', 'keep')


def read_only(instance: Any) -> None:
    """Make the arrays of a frozen dataclass read-only; the arrays given to it stay as they are."""
    for f in fields(instance):
        value = getattr(instance, f.name)
        if isinstance(value, np.ndarray):
            view = value.view()
            view.setflags(write=False)
            object.__setattr__(instance, f.name, view)


@dataclass(frozen=True)
class PlotSamples:
    """
    Rows of recordings, evenly thinned.

    Attributes
    ----------
    time:
        (m,) [s], increasing within a segment.
    segment:
        (m,) int; it changes where a recording has a gap or another one begins, so that a plot can
        interrupt its line there.
    pattern:
        Which base columns each joint's rows see.
    entries:
        (K, m) these columns, samples last.
    effort:
        (m, n) processed effort [N m or N].
    keep:
        (m, n) bool, False where the row is in the dead zone and so not used.

    """

    time: np.ndarray
    segment: np.ndarray
    pattern: RowPattern
    entries: np.ndarray
    effort: np.ndarray
    keep: np.ndarray

    def __post_init__(self) -> None:
        read_only(self)

    def __len__(self) -> int:
        return self.time.size

    @cached_property
    def matrix(self) -> np.ndarray:
        """(m, n, b) base columns."""
        matrix = self.pattern.expand(self.entries)
        matrix.setflags(write=False)
        return matrix

    def fit(self, base: np.ndarray) -> FitTrace:
        """Measured beside predicted effort for base parameter values ``base``, (b,)."""
        predicted = self.pattern.product(self.entries, base)
        return FitTrace(self.time, self.segment, self.effort, predicted, self.keep)

    def thinned(self, limit: int) -> PlotSamples:
        """Return every second row, and of these again, until there are at most ``limit``."""
        stride = 1
        while -(-len(self) // stride) > limit:
            stride *= 2
        return self if stride == 1 else self.select(slice(None, None, stride))

    def select(self, rows: slice) -> PlotSamples:
        """Return some of the rows, in memory of their own."""
        own = {name: np.array(getattr(self, name)[rows]) for name in _BY_ROW}
        return PlotSamples(**own, pattern=self.pattern, entries=np.array(self.entries[:, rows]))


@dataclass(frozen=True)
class FitTrace:
    """
    Measured and predicted effort over time, for plots.

    Attributes
    ----------
    time, segment, keep:
        As in `PlotSamples`.
    measured, predicted:
        (m, n) processed effort and what the estimate predicts [N m or N].

    """

    time: np.ndarray
    segment: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray
    keep: np.ndarray

    def __len__(self) -> int:
        return self.time.size

    @property
    def residual(self) -> np.ndarray:
        """(m, n) measured minus predicted effort [N m or N]."""
        return self.measured - self.predicted


EMPTY_TRACE = PlotSamples(
    np.empty(0),
    np.empty(0, dtype=int),
    RowPattern((), 0),
    np.empty((0, 0)),
    np.empty((0, 0)),
    np.empty((0, 0), dtype=bool),
)


def _concatenated(parts: Sequence[PlotSamples]) -> PlotSamples:
    """Return all parts, one after another."""
    if len(parts) < 2:
        return parts[0] if parts else EMPTY_TRACE
    pattern = parts[0].pattern
    if all(pattern.same(part.pattern) for part in parts):
        entries = [part.entries for part in parts]
    else:
        pattern = RowPattern.full(parts[0].effort.shape[1], pattern.size)
        entries = [pattern.gather(part.matrix) for part in parts]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _BY_ROW}
    return PlotSamples(**joined, pattern=pattern, entries=np.concatenate(entries, axis=1))


class TraceCollector:
    """
    Collects every s-th row; s doubles whenever there would be more than ``limit`` rows.

    Parameters
    ----------
    limit:
        Largest number of rows to hold; at the end there are more than half as many, or all.  Of
        many columns there are fewer, within `TRACE_BYTES`.

    """

    def __init__(self, limit: int) -> None:
        self._limit = max(2, limit)
        self._stride = 1
        self._seen = 0
        self._segments = 0
        self._parts: list[PlotSamples] = []
        self._held = 0

    def push(self, block: RowBlock) -> None:
        """Take the block's share of rows."""
        segment = np.full(len(block.time), block.segment)
        keep, effort = block.keep, block.effort
        rows = PlotSamples(block.time, segment, block.pattern, block.entries, effort, keep)
        self._take(rows.select(self._share(len(rows))), len(rows))

    def follow(self, trace: PlotSamples) -> None:
        """Take the share of rows of another recording's trace, its segments numbered on."""
        if len(trace):
            segment = trace.segment + self._segments
            self._segments = int(segment[-1]) + 1
            rows, share = replace(trace, segment=segment), self._share(len(trace))
            self._take(rows if share == slice(0, None, 1) else rows.select(share), len(rows))

    def trace(self) -> PlotSamples:
        """Return what was collected."""
        return _concatenated(self._parts)

    def _share(self, rows: int) -> slice:
        """Return which of the next rows are on the grid."""
        return slice(min(rows, -self._seen % self._stride), None, self._stride)

    def _take(self, part: PlotSamples, rows: int) -> None:
        """Take in what is on the grid of so many rows."""
        self._seen += rows
        if not len(part):
            return
        room = TRACE_BYTES // (8 * max(1, len(part.entries)))
        limit = min(self._limit, max(ANALYSED_ROWS, room))
        self._parts.append(part)
        self._held += len(part)
        while self._held > limit:
            self._halve()

    def _halve(self) -> None:
        """Keep every second row: of an even grid from the first row on, that is one again."""
        thinned: list[PlotSamples] = []
        place = 0
        while self._parts:  # for the sake of memory, one is let go of after the other
            part = self._parts.pop(0)
            thinned.append(part.select(slice(place % 2, None, 2)))
            place += len(part)
        self._parts = [_concatenated(thinned)]
        self._held = len(self._parts[0])
        self._stride *= 2
