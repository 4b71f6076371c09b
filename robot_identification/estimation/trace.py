# SPDX-License-Identifier: Apache-2.0
"""A bounded, evenly thinned part of the rows of a recording, for plots."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .rows import RowBlock


def read_only(instance: Any) -> None:
    """Make the arrays of a frozen dataclass read-only; the arrays given to it stay as they are."""
    for f in fields(instance):
        value = getattr(instance, f.name)
        if isinstance(value, np.ndarray):
            view = value.view()
            view.setflags(write=False)
            object.__setattr__(instance, f.name, view)


@dataclass(frozen=True)
class Trace:
    """
    Rows of a recording, evenly thinned.

    Attributes
    ----------
    time:
        (m,) [s], increasing within a segment.
    segment:
        (m,) int; it changes where a recording has a gap or another one begins, so that a plot can
        interrupt its line there.
    matrix:
        (m, n, b) base columns.
    effort:
        (m, n) processed effort [N m or N].
    keep:
        (m, n) bool, False where the row is in the dead zone and so not used.

    """

    time: np.ndarray
    segment: np.ndarray
    matrix: np.ndarray
    effort: np.ndarray
    keep: np.ndarray

    def __post_init__(self) -> None:
        read_only(self)

    def __len__(self) -> int:
        return self.time.size

    def fit(self, base: np.ndarray) -> FitTrace:
        """Measured beside predicted effort for base parameter values ``base``, (b,)."""
        return FitTrace(self.time, self.segment, self.effort, self.matrix @ base, self.keep)

    def followed_by(self, other: Trace) -> Trace:
        """Return both, the segments of ``other`` numbered on."""
        if not len(other) or not len(self):
            return self if len(self) else other
        parts = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        first, second = parts['segment']
        parts['segment'] = (first, second + first[-1] + 1)
        return Trace(**{name: np.concatenate(pair) for name, pair in parts.items()})


@dataclass(frozen=True)
class FitTrace:
    """
    Measured and predicted effort over time, for plots.

    Attributes
    ----------
    time, segment, keep:
        As in `Trace`.
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


EMPTY_TRACE = Trace(
    np.empty(0),
    np.empty(0, dtype=int),
    np.empty((0, 0, 0)),
    np.empty((0, 0)),
    np.empty((0, 0), dtype=bool),
)


class TraceCollector:
    """
    Collects every s-th row; s doubles whenever there would be more than ``limit`` rows.

    Parameters
    ----------
    limit:
        Largest number of rows to hold; at the end there are more than half as many, or all.

    """

    def __init__(self, limit: int) -> None:
        self._limit = max(2, limit)
        self._stride = 1
        self._seen = 0
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._held = 0

    def push(self, block: RowBlock) -> None:
        """Take the block's share of rows."""
        samples = len(block.time)
        first = -self._seen % self._stride
        self._seen += samples
        chosen = np.arange(first, samples, self._stride)
        if chosen.size == 0:
            return
        segment = np.full(chosen.size, block.segment)
        arrays = (block.time, block.matrix, block.effort, block.keep)
        time, matrix, effort, keep = (array[chosen] for array in arrays)
        self._parts.append((time, segment, matrix, effort, keep))
        self._held += chosen.size
        while self._held > self._limit:
            self._thin()

    def trace(self) -> Trace:
        """Return what was collected."""
        self._merge()
        return Trace(*self._parts[0]) if self._parts else EMPTY_TRACE

    def _merge(self) -> None:
        if len(self._parts) > 1:
            self._parts = [
                tuple(np.concatenate(group) for group in zip(*self._parts, strict=True))
            ]

    def _thin(self) -> None:
        self._merge()
        # every second row of an even grid that starts at the first row is an even grid again
        self._parts = [tuple(np.array(array[::2]) for array in self._parts[0])]
        self._held = self._parts[0][0].size
        self._stride *= 2
