# SPDX-License-Identifier: Apache-2.0
"""Recordings in files, read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ..data.bag import bag_duration
from ..data.csv import estimated_rows
from ..data.drives import Drives
from ..data.motor_side import check_sides, elastic_blocks
from ..data.readers import no_samples, read_tables
from ..data.recording import Recording
from ..data.recording_config import RecordingEntry
from ..errors import RecordingError
from ..model.mechanisms import ElasticJoints
from ..results.factor_file import read_factor, StoredFactor
from ..signals import RecordingSource, sample_rate


class _Entry:
    """Description of the file of a source, the same for all kinds."""

    entry: RecordingEntry
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
            duration = estimated_rows(file) / (
                self.entry.rate or sample_rate(cast(RecordingSource, self))
            )
        else:
            return 0.0
        begin, end = self.entry.time_range or (None, None)
        return duration if end is None else min(duration, end - (begin or 0.0))


@dataclass(frozen=True)
class FileSource(_Entry):
    """
    A recording in files; see `robot_identification.data.recording.RecordingSource`.

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
        last: float | None = None
        counts = self.drives.recorded(len(self.joints))
        for table in read_tables(self.entry, self.joints, counts, self.base, size):
            table.check_finite(self.name)
            table.check_order(self.name, last)
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
            raise no_samples(self.entry)


@dataclass(frozen=True)
class ElasticSource(_Entry):
    """
    A recording of a robot with elastic joints: the links' columns, then the motors'.

    The motors' side is brought to the stamps of the links'; efforts are 0 at the links and the
    motors' at the motors.  See `robot_identification.data.recording.RecordingSource`.

    Attributes
    ----------
    entry, drives, base:
        As in `FileSource`; efforts are the motors', reduced to the joints by ``drives``.
    robot_joints:
        Names of the n joints.
    elastic:
        The motors.

    """

    entry: RecordingEntry
    robot_joints: tuple[str, ...]
    drives: Drives
    base: Path
    elastic: ElasticJoints

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the 2n columns."""
        return self.elastic.columns(self.robot_joints)

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """
        Read the recording in parts of at most ``size`` rows.

        Parameters
        ----------
        size:
            Rows of a part.

        Yields
        ------
        The parts, with 2n columns.  Rows at whose time the motors' side is not known are left
        out: before its first stamp, after its last one and in its gaps.

        Raises
        ------
        RecordingError
            naming file, row, column or joint that cannot be used, or where the two sides have no
            time in common.

        """
        yield from elastic_blocks(
            self.entry, self.robot_joints, self.drives, self.elastic, self.base, size
        )


@dataclass(frozen=True)
class FactorSource(_Entry):
    """
    A file in which a recording's rows are folded already.

    Attributes
    ----------
    entry:
        Where it is.
    joints:
        Names of the robot's joints.
    base:
        Folder at which relative paths start.

    """

    entry: RecordingEntry
    joints: tuple[str, ...]
    base: Path

    def read(self) -> StoredFactor:
        """
        Read the factor.

        Raises
        ------
        IdentificationError
            naming the file where it holds no factor, or is damaged.

        """
        return read_factor(self.entry.files(self.base)['position'])

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Raise `RecordingError`: a factor has no samples."""
        raise RecordingError(
            f"'{self.name}' is a factor, which has no samples",
            file=self.name,
            remedy='give the recording that it was made of',
        )


def open_recording(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    drives: Drives | None = None,
    base: Path = Path('.'),
    path: str = '',
    elastic: ElasticJoints | None = None,
) -> FileSource | ElasticSource | FactorSource:
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
    elastic:
        The motors of a robot with elastic joints; None where they are stiff.

    Returns
    -------
    A source that can be read in blocks, as often as wanted; a factor as a whole.

    Raises
    ------
    SettingsError
        naming a key that is missing or has the wrong number of columns.
    RecordingError
        naming a file that does not exist.

    """
    joints, base = tuple(joints), Path(base)
    if entry.is_factor:
        entry.check_factor(base, path)
        return FactorSource(entry, joints, base)
    drives = Drives() if drives is None else drives
    drives.check(len(joints))
    if elastic is not None:
        check_sides(entry, joints, drives, elastic, base, path)
        return ElasticSource(entry, joints, drives, base, elastic)
    entry.check(joints, drives, base, path)
    return FileSource(entry, joints, drives, base)
