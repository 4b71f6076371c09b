# SPDX-License-Identifier: Apache-2.0
"""Recordings in files, read in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..drives import Drives
from ..errors import RecordingError
from ..recording import Recording
from ..signals import sample_rate
from .bag import bag_duration
from .csv import estimated_rows, read_csv
from .entry import RecordingEntry
from .npz import read_npz
from .rosbag import read_rosbag
from .table import Table

READERS: dict[str, Callable[..., Iterator[Table]]] = {
    'csv': read_csv,
    'npz': read_npz,
    'rosbag2': read_rosbag,
}


@dataclass(frozen=True)
class FileSource:
    """
    A recording in files; see `robot_identification.signals.source.RecordingSource`.

    Attributes
    ----------
    entry:
        Where the recording is and how its columns are to be read.
    joints:
        Names of the joints, in the order of the columns.
    drives:
        How the recorded signals become those at the joints.
    base:
        Folder at which relative paths start.

    """

    entry: RecordingEntry
    joints: tuple[str, ...]
    drives: Drives
    base: Path

    @property
    def name(self) -> str:
        """The file's name as the entry gives it."""
        return self.entry.name

    @property
    def source(self) -> str:
        """The file's name, as `Recording.source`."""
        return self.entry.name

    @property
    def duration(self) -> float:
        """Length of the recording [s] for telling progress: about right, 0 where not known."""
        kind = self.entry.kind(self.base)
        file = self.entry.files(self.base)['position']
        if kind == 'rosbag2':
            duration = bag_duration(file)
        elif kind == 'csv':
            duration = estimated_rows(file) / (self.entry.rate or sample_rate(self))
        else:
            return 0.0
        begin, end = self.entry.time_range or (None, None)
        return duration if end is None else min(duration, end - (begin or 0.0))

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """
        Read the recording in parts of at most ``size`` rows.

        Parameters
        ----------
        size:
            Rows of a part.

        Yields
        ------
        The parts, at the joints.

        Raises
        ------
        RecordingError
            naming file, row, column or joint that cannot be used.

        """
        reader = READERS[self.entry.kind(self.base)]
        last: float | None = None
        tables = reader(self.entry, self.joints, self.drives, self.base, size)
        for table in _cut(tables, self.entry):
            table.check(self.name, last)
            last = float(table.time[-1])
            yield Recording(
                time=table.time,
                position=self.drives.joint_position(table.position),
                velocity=self.drives.joint_velocity(table.velocity),
                effort=self.drives.joint_effort(table.effort),
                joints=self.joints,
                source=self.name,
            )
        if last is None:
            cut = self.entry.rows is not None or self.entry.time_range is not None
            raise RecordingError(
                f'{self.name}: there are no samples',
                file=self.name,
                remedy='widen rows and time_range' if cut else 'record it again',
            )


def open_recording(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    drives: Drives | None = None,
    base: Path = Path('.'),
    path: str = '',
) -> FileSource:
    """
    Prepare to read a recording; nothing but its existence is looked at yet.

    Parameters
    ----------
    entry:
        Where the recording is and how its columns are to be read.
    joints:
        Names of the joints, in the order wanted.
    drives:
        How the recorded signals become those at the joints; None where they are recorded there.
    base:
        Folder at which relative paths start.
    path:
        Key path of the entry for messages, for example ``data.identification[0]``.

    Returns
    -------
    A source that can be read in blocks, as often as wanted.

    Raises
    ------
    SettingsError
        naming a key that is missing or has the wrong number of columns.
    RecordingError
        naming a file that does not exist.

    """
    joints, base = tuple(joints), Path(base)
    drives = Drives() if drives is None else drives
    drives.check(len(joints))
    entry.check(joints, drives, base, path)
    return FileSource(entry, joints, drives, base)


def _cut(tables: Iterator[Table], entry: RecordingEntry) -> Iterator[Table]:
    """Keep the rows that ``rows`` and ``time_range`` ask for, and stop reading behind them."""
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
