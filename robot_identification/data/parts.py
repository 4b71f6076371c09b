# SPDX-License-Identifier: Apache-2.0
"""Reading of recordings in parts that are in memory as a whole, or as far as wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import numpy as np

from .recording import READ_ROWS, Recording, recording_error, RecordingSource, SIGNALS

PART_POSITIONS = 3_600_000
"""
Positions in a part of a recording, whose signals are in memory as a whole: ten minutes of six
joints at 1 kHz.  A part takes 60 MB, and what is made of it about 150 MB.
"""

_SHORTEST_PART = 0.1
"""Share of a part below which what is left of a recording belongs to the part before."""


@dataclass(frozen=True, eq=False)
class KeptRecording(Recording):
    """
    A recording in memory that keeps the samples of the filter that it was last read with.

    Attributes
    ----------
    filtered:
        Settings by which samples were made, and the samples; empty at first.

    """

    filtered: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def samples(self, key: Any, make: Callable[[], Iterator[Any]]) -> list[Any]:
        """Return samples, made anew if the key of their settings is not that of those kept."""
        if key not in self.filtered:
            found = list(make())
            self.filtered.clear()
            self.filtered[key] = found
        return list(self.filtered[key])

    def rows(self, start: int | None, stop: int | None) -> KeptRecording:
        """Return the part from row ``start`` to before row ``stop``, with samples of its own."""
        return replace(cast(KeptRecording, super().rows(start, stop)))


def read_parts(source: RecordingSource) -> Iterator[Recording]:
    """
    Read a recording in parts that are in memory as a whole, see `PART_POSITIONS`.

    Raises
    ------
    RecordingError
        as the source, and for stamps that go back from one block to the next.

    """
    size = max(1, PART_POSITIONS // max(1, len(source.joints)))
    most = size + round(_SHORTEST_PART * size)
    held: list[Recording] = []
    last = -np.inf
    for block in source.blocks(most if isinstance(source, Recording) else READ_ROWS):
        if not len(block):
            continue
        if block.time[0] <= last:
            text = f'time stamp {block.time[0]:.9g} s does not follow {last:.9g} s'
            remedy = 'sort the rows by time and keep one row a stamp'
            raise recording_error(block.source, text, remedy, value=float(block.time[0]))
        last = float(block.time[-1])
        held.append(block)
        while sum(map(len, held)) >= most:
            yield _take_rows(held, size)
    if held:
        yield Recording.concatenate(held)


def head(source: RecordingSource, rows: int) -> Recording | None:
    """Read the first rows of a recording, or all where there are fewer; None for no rows."""
    held: list[Recording] = []
    for block in source.blocks(min(rows, READ_ROWS)):
        held += [block] if len(block) else []
        if sum(map(len, held)) >= rows:
            return _take_rows(held, rows)
    return Recording.concatenate(held) if held else None


def in_memory(source: RecordingSource, room: int) -> RecordingSource:
    """Read a recording into memory if it takes at most ``room`` bytes; else return its source."""
    if isinstance(source, KeptRecording):
        return replace(source)
    held: list[Recording] = []
    for block in source.blocks(READ_ROWS):
        room -= 8 * len(block) * (1 + len(SIGNALS) * len(block.joints))
        if room < 0:
            return source
        held.append(block)
    if not held:
        return source
    whole = Recording.concatenate(held)
    return KeptRecording(**{each.name: getattr(whole, each.name) for each in fields(Recording)})


def _take_rows(held: list[Recording], rows: int) -> Recording:
    """Remove so many rows from consecutive recordings that have them, and return them as one."""
    taken: list[Recording] = []
    while rows:
        block = held.pop(0)
        taken.append(block.rows(0, rows))
        if len(block) > rows:
            held.insert(0, block.rows(rows, None))
        rows -= len(taken[-1])
    return Recording.concatenate(taken)
