# SPDX-License-Identifier: Apache-2.0
"""Rows of recordings in any format, cut to the part that their entries give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from ..errors import RecordingError
from .columns import Block, Counts
from .formats import described_by_head, Format, Head
from .recording import recording_error, Table, within
from .recording_config import RecordingEntry


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
    The blocks in order, cut by ``rows``, ``time_range`` and ``leave_out``, not checked yet.

    Raises
    ------
    RecordingError
        naming the file and what in it cannot be read: column, array, row or cell; for a bag,
        topic, joint, effort or stamps.
    SettingsError
        if the names of the drives' signals are needed and not given.
    IdentificationError
        if a library is needed and not installed.

    """
    form = entry.file_format(base)
    wanted = entry.wanted(joints, counts, base)
    for file in dict.fromkeys(wanted.files[name] for name in wanted.columns):
        _require_own(form, file)
    if form.tables is not None:
        tables = form.tables(wanted, size)
    else:
        assert form.blocks is not None, 'a factor has no samples'
        tables = _tables(entry, form.blocks(wanted, size))
    first, stop = entry.rows or (None, None)
    begin, end = entry.time_range or (None, None)
    for table in tables:
        keep = table.rows >= (first or 0)
        if stop is not None:
            keep &= table.rows < stop
        if begin is not None:
            keep &= table.time >= begin
        if end is not None:
            keep &= table.time <= end
        keep &= ~within(table.time, entry.leave_out)
        if keep.all():
            yield table
        elif keep.any():
            yield table.select(np.flatnonzero(keep))
        # nothing that follows is within the cuts
        if stop is not None and len(table) and table.rows[-1] >= stop - 1:
            return
        if end is not None and len(table) and table.time[-1] > end:
            return


def read_head(file: Path, rows: int) -> Head:
    """Return columns and first rows of a file with columns; raises as `read_tables`."""
    form = RecordingEntry(file=str(file)).file_format()
    _require_own(form, file)
    assert form.head is not None, 'messages and factors have no columns'
    return form.head(file, rows)


def _require_own(form: Format, file: Path) -> None:
    """Raise `RecordingError` for a file that is known by its first bytes to be something else."""
    if (described := described_by_head(file, form)) is not None:
        raise recording_error(file, f'is {described[0]}', described[1])


def checked(tables: Iterable[Table], entry: RecordingEntry) -> Iterator[Table]:
    """
    Iterate over the blocks of an entry, every number finite and every stamp behind the last one.

    Raises RecordingError naming the sample, and if there is none.
    """
    last: float | None = None
    for table in tables:
        table.check_finite(entry.name)
        table.check_order(entry.name, last)
        last = float(table.time[-1])
        yield table
    if last is None:
        raise no_samples(entry)


def no_samples(entry: RecordingEntry) -> RecordingError:
    """Return the error for a recording that has no rows, or none within its cuts."""
    cut = entry.rows is not None or entry.time_range is not None or entry.leave_out
    remedy = 'widen rows and time_range, or shorten leave_out' if cut else 'record it again'
    return recording_error(entry.name, 'there are no samples', remedy)


def _tables(entry: RecordingEntry, blocks: Iterator[Block]) -> Iterator[Table]:
    """Count the rows of blocks, and give them stamps in seconds."""
    row = 0
    for signals, labels in blocks:
        n_rows = len(signals['position'])
        rows = np.arange(row, row + n_rows)
        given = signals.get('time')
        yield Table(
            rows=rows,
            time=entry.stamps(rows) if given is None else entry.seconds(given),
            position=signals['position'],
            velocity=signals.get('velocity'),
            effort=signals.get('effort', np.empty((n_rows, 0))),
            labels={'time': ('time',), **labels},
        )
        row += n_rows
