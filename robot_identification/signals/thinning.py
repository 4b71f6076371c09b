# SPDX-License-Identifier: Apache-2.0
"""Recordings in memory at a lower rate, for whoever reads them again and again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby, takewhile
from typing import Any

import numpy as np

from ..data.recording import Recording, RecordingSource, source_name
from ..data.sampling import Begun, begun, grid_blocks
from ..errors import RecordingError
from .decimation import HALF_TAPS, ParallelDecimator

KEPT_BYTES = 64_000_000
"""Samples of recordings that take less than this together are kept in memory."""

_BLOCK = 16384


class KeptSource:
    """
    A recording that is read once: its samples stay in memory, if there is room.

    Parameters
    ----------
    source:
        The recording.
    room:
        Bytes that its samples may take.

    """

    def __init__(self, source: RecordingSource, room: int) -> None:
        self._source, self._room = source, room
        self._parts: list[Recording] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Read the recording, from memory if it is there."""
        if self._parts is not None:
            for part in self._parts:
                yield from part.blocks(size)
            return
        parts: list[Recording] | None = []
        taken = 0
        for part in self._source.blocks(size):
            taken += 8 * len(part) * (1 + 3 * len(part.joints))
            parts = None if parts is None or taken > self._room else [*parts, part]
            yield part
        self._parts = parts


def thinned(source: RecordingSource, rate: float, longest: float) -> RecordingSource:
    """
    Return the beginning of a recording, in memory and at a lower rate.

    Parameters
    ----------
    source:
        The recording.
    rate:
        Lowest rate that it may have [Hz]; samples at less than twice that stay as they are.
    longest:
        Time that is kept [s].

    Returns
    -------
    RecordingSource
        Samples behind one low-pass filter for all signals, which passes 0.4 of the new rate;
        stretches between gaps lose the filter's half length at both ends.  A recording that cannot
        be used is returned itself.

    """
    try:
        first = begun(source, _BLOCK)
        factor = int(first.rate / rate)
        parts = list(_parts(first, longest) if factor < 2 else _decimated(first, factor, longest))
        measured = all(part.velocity is not None for part in parts)
        names = ('time', 'position', 'effort', *(('velocity',) if measured else ()))
        signals = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return Recording(**signals, joints=first.joints, source=source_name(source))
    except (RecordingError, ValueError):
        return source


def _parts(first: Begun, longest: float) -> Iterator[Recording]:
    """Iterate over the blocks that begin in the time that is kept."""
    head = next(first.parts)
    yield head
    yield from takewhile(lambda part: part.time[0] - head.time[0] < longest, first.parts)


def _decimated(first: Begun, factor: int, longest: float) -> Iterator[Recording]:
    """Iterate over the stretches, every ``factor``-th sample behind the filter."""
    parts = _parts(first, longest)
    head = next(parts)
    kept = Begun(first.joints, first.source, first.rate, chain((head,), parts))
    measured, n = head.velocity is not None, len(first.joints)
    grid = grid_blocks(kept, first.rate, first.rate, velocity=measured, block=_BLOCK)
    for _, blocks in groupby(grid, key=lambda block: block.stretch):
        decimator = ParallelDecimator(factor)
        rows = []
        for block in blocks:
            start = block.start
            rows.append(decimator.push(block.values.T))
        signals = np.hstack([*rows, decimator.finish()]).T
        time = start + np.arange(len(signals)) * factor / first.rate
        # where the filter is cut, it is not symmetric
        inner = slice(HALF_TAPS, -HALF_TAPS)
        position, *velocity, effort = np.split(signals[inner], signals.shape[1] // n, axis=1)
        yield Recording(
            time[inner], position, effort, first.joints, velocity[0] if velocity else None
        )
