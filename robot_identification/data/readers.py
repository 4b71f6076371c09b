# SPDX-License-Identifier: Apache-2.0
"""Rows of recordings in any format, cut to the part that their entries give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import RecordingError
from .csv import read_csv
from .npz import read_npz
from .parquet import read_parquet
from .recording_config import RecordingEntry
from .rosbag import read_rosbag
from .table import Counts, Table, TIME_UNITS

READERS: dict[str, Callable[..., Iterator[Table]]] = {
    'csv': read_csv,
    'npz': read_npz,
    'parquet': read_parquet,
    'rosbag2': read_rosbag,
}


def read_tables(
    entry: RecordingEntry, joints: tuple[str, ...], counts: Counts, base: Path, size: int
) -> Iterator[Table]:
    """
    Read a recording block by block.

    Parameters
    ----------
    entry:
        Location of the recording and layout of its columns.
    joints:
        Names of the joints.
    counts:
        Number of columns by signal, 0 for a signal that is not wanted.
    base:
        Folder at which relative paths start.
    size:
        Rows of a block.

    Yields
    ------
    The blocks in order, cut by ``rows`` and ``time_range``, not checked yet.

    Raises
    ------
    RecordingError
        naming the file and what in it cannot be read.

    """
    tables = READERS[entry.kind(base)](entry, joints, counts, base, size)
    if (unit := TIME_UNITS[entry.time_unit]) != 1.0 and entry.time is not None:
        tables = (replace(table, time=table.time * unit) for table in tables)
    yield from _cut(tables, entry)


def no_samples(entry: RecordingEntry) -> RecordingError:
    """Return the error for a recording that has no rows, or none within its cuts."""
    cut = entry.rows is not None or entry.time_range is not None
    return RecordingError(
        f'{entry.name}: there are no samples',
        file=entry.name,
        remedy='widen rows and time_range' if cut else 'record it again',
    )


def _cut(tables: Iterator[Table], entry: RecordingEntry) -> Iterator[Table]:
    """Keep the rows within ``rows`` and ``time_range``, and stop reading after them."""
    first, stop = entry.rows or (None, None)
    begin, end = entry.time_range or (None, None)
    first = 0 if first is None else first
    for table in tables:
        rows = table.rows
        keep = rows >= first
        if stop is not None:
            keep &= rows < stop
        if begin is not None:
            keep &= table.time >= begin
        if end is not None:
            keep &= table.time <= end
        if keep.all():
            yield table
        elif keep.any():
            yield table.select(np.flatnonzero(keep))
        if stop is not None and len(rows) and rows[-1] >= stop - 1:
            return
        if end is not None and len(rows) and table.time[-1] > end:
            return
