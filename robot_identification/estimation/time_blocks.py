# SPDX-License-Identifier: Apache-2.0
"""
R factors of short stretches of a recording, one after the other, in bounded memory.

What resamples a recording in time needs its parts: every part holds, for each joint, R of the rows
[W_j | tau_j] that fall into the same stretch of time, in the columns that the joint sees.  There
are never more than a bounded number of parts; where another one would be too many, neighbours are
merged, so that all last twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

import numpy as np

from ..regressor.inverse_dynamics import RowPattern
from .row_block import RowBlock


@dataclass(frozen=True)
class TimeBlockConstants:
    """Constants of the parts."""

    first_duration: float = 0.1
    """Duration of a part before neighbours are merged [s]."""
    merged_parts: int = 512
    """Parts at which neighbours are merged."""
    memory: int = 64_000_000
    """Bytes that parts may take before neighbours are merged, if enough of them remain."""
    least_parts: int = 64
    """Parts that are kept whatever memory they take."""
    rounding: float = 1e-6
    """Share of a part's length by which rounding may put a row on the wrong side of its bound."""


BLOCKS = TimeBlockConstants()


PARTS = 128
"""
Parts that the bootstrap takes and a factor's file has at most: enough for some tens of blocks.

They are as many in both, so that standard deviations do not depend on where the rows come from.
"""


@dataclass(frozen=True)
class JointRows:
    """
    Rows of one joint, or R of them: least squares does not see the difference.

    Attributes
    ----------
    columns:
        (w,) ascending columns of the regressor that the joint sees.
    rows:
        (m, w + 1) these columns and the effort; m is at most w + 1.

    """

    columns: np.ndarray
    rows: np.ndarray

    def all_columns(self, b: int) -> np.ndarray:
        """Return the rows with all columns, (m, b + 1)."""
        rows = np.zeros((len(self.rows), b + 1))
        rows[:, np.append(self.columns, b)] = self.rows
        return rows

    def merged(self, other: JointRows) -> JointRows:
        """Return both below one another."""
        columns, parts = self.columns, [self.rows, other.rows]
        if not np.array_equal(columns, other.columns):
            columns = np.union1d(columns, other.columns)
            size = int(columns[-1]) + 1
            seen = np.append(columns, size)
            parts = [each.all_columns(size)[:, seen] for each in (self, other)]
        return JointRows(columns, _reduced(np.vstack(parts)))


Part = tuple[JointRows, ...]
"""The rows of all joints in the same stretch of time."""


@dataclass(frozen=True)
class TimeBlocks:
    """
    Parts of one or several recordings, in the order of time.

    Attributes
    ----------
    duration:
        What each lasts [s]; the last of a recording may be shorter.
    parts:
        One `JointRows` a joint, each.
    recordings:
        Number of parts of each recording, in their order; of one alone where none is given.

    """

    duration: float
    parts: tuple[Part, ...]
    recordings: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.recordings:
            object.__setattr__(self, 'recordings', (len(self.parts),))

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def nbytes(self) -> int:
        """Memory that the rows take."""
        return sum(joint.rows.nbytes for part in self.parts for joint in part)

    def coarsened(self) -> TimeBlocks:
        """
        Merge every second part of a recording into the one before it.

        So parts do not depend on when recordings were joined.  Those of different recordings are
        merged only where each has one part alone.
        """
        counts = self.recordings
        if max(counts) == 1:
            counts = (len(self.parts),)
        ends = list(accumulate(counts, initial=0))
        merged = [tuple(_pairs(self.parts[a:b])) for a, b in pairwise(ends)]
        parts = tuple(chain.from_iterable(merged))
        return TimeBlocks(2.0 * self.duration, parts, tuple(map(len, merged)))

    def at_most(self, parts: int) -> TimeBlocks:
        """Coarsen until there are no more parts than that, 1 at least."""
        blocks = self
        while len(blocks) > max(1, parts):
            blocks = blocks.coarsened()
        return blocks

    def followed_by(self, other: TimeBlocks) -> TimeBlocks:
        """Return the parts of both, as long as those of the one with the longer parts."""
        first, second = self, other
        while first.duration < 0.75 * second.duration:
            first = first.coarsened()
        while second.duration < 0.75 * first.duration:
            second = second.coarsened()
        counts = first.recordings + second.recordings
        both = TimeBlocks(first.duration, first.parts + second.parts, counts)
        while _too_much(len(both), both.nbytes):
            both = both.coarsened()
        return both

    @classmethod
    def concatenate(cls, several: Sequence[TimeBlocks | None]) -> TimeBlocks | None:
        """Return the parts of several recordings; None where those of one are not known."""
        total = several[0]
        for blocks in several[1:]:
            total = None if total is None or blocks is None else total.followed_by(blocks)
        return total


class BlockCollector:
    """Sorts rows into parts while they come."""

    def __init__(self) -> None:
        self._duration = BLOCKS.first_duration
        self._parts: list[Part] = []
        self._bytes = 0
        self._pattern: RowPattern | None = None
        self._open: list[list[np.ndarray]] = []
        self._segment, self._begin, self._place = -1, 0.0, 0

    def watched(self, blocks: Iterable[RowBlock]) -> Iterator[RowBlock]:
        """Pass blocks of rows on, taking in what goes by."""
        for block in blocks:
            self.push(block)
            yield block

    def push(self, block: RowBlock) -> None:
        """Take in consecutive rows."""
        time = block.time
        if not time.size:
            return
        if self._pattern is None:
            self._pattern = block.pattern
            self._open = [[] for _ in block.pattern.columns]
        if block.segment != self._segment:
            self._close()
            self._segment, self._begin, self._place = block.segment, float(time[0]), 0
        since = time - self._begin
        start = 0
        while start < time.size:
            if since[start] >= self._end:
                self._close()
                self._place = int(since[start] / self._duration + BLOCKS.rounding)
            stop = max(start + 1, int(np.searchsorted(since, self._end)))
            self._take(block, slice(start, stop))
            start = stop

    def blocks(self) -> TimeBlocks:
        """Return what has come so far."""
        self._close()
        return TimeBlocks(self._duration, tuple(self._parts))

    @property
    def _end(self) -> float:
        """End of the open part, since the begin of its segment [s]."""
        return (self._place + 1 - BLOCKS.rounding) * self._duration

    def _take(self, block: RowBlock, which: slice) -> None:
        offsets = block.pattern.offsets.tolist()
        entries, keep = block.entries[:, which], block.keep[which]
        for j, waiting in enumerate(self._open):
            part = entries[offsets[j] : offsets[j + 1]]
            rows = np.vstack([part, block.effort[which, j]])
            kept = keep[:, j]
            if kept.any():
                waiting.append(rows if kept.all() else rows[:, kept])

    def _close(self) -> None:
        """End the part that is open."""
        if self._pattern is None or not any(self._open):
            return
        columns = self._pattern.columns
        part = tuple(
            JointRows(seen, _reduced(np.hstack([np.zeros((seen.size + 1, 0)), *waiting]).T))
            for seen, waiting in zip(columns, self._open, strict=True)
        )
        self._open = [[] for _ in columns]
        self._parts.append(part)
        self._bytes += sum(joint.rows.nbytes for joint in part)
        while _too_much(len(self._parts), self._bytes):
            merged = TimeBlocks(self._duration, tuple(self._parts)).coarsened()
            self._duration, self._parts = merged.duration, list(merged.parts)
            self._bytes = merged.nbytes


def _too_much(count: int, size: int) -> bool:
    large = size > BLOCKS.memory and count > 2 * BLOCKS.least_parts
    return large or count >= BLOCKS.merged_parts


def _pairs(parts: Sequence[Part]) -> Iterator[Part]:
    for i in range(0, len(parts), 2):
        if i + 1 == len(parts):
            yield parts[i]
        else:
            yield tuple(a.merged(b) for a, b in zip(parts[i], parts[i + 1], strict=True))


def _reduced(rows: np.ndarray) -> np.ndarray:
    """R of rows, or the rows where there are few."""
    if rows.shape[0] <= rows.shape[1]:
        return np.array(rows)
    return np.asarray(np.linalg.qr(rows, mode='r'))
