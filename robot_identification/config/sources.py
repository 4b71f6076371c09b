# SPDX-License-Identifier: Apache-2.0
"""Sources of recordings: files that are read in blocks, and arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..data.columns import TIME_UNITS
from ..data.drives import Drives, elastic_blocks, link_and_motor_sides
from ..data.frozen import warn_of_frozen_efforts
from ..data.readers import checked, read_tables
from ..data.recording import READ_ROWS, Recording, SIGNALS
from ..data.recording_config import RecordingEntry
from ..data.sampling import Clock, clock_of, ClockWatch
from ..data.unwrapping import Unwrapper
from ..errors import one_of, RecordingError
from ..estimation.factor_file import read_factor, StoredFactor
from ..model.mechanisms import ElasticJoints
from ..options.fields import key_error, key_path
from ..signals import RecordingSource, sample_rate

Source = RecordingSource | StoredFactor
"""A recording, in memory or in files, or the factor of one."""

_KEYS = ('frame', 'time', 'rate', 'time_unit', *SIGNALS)


@dataclass(frozen=True)
class FileSource:
    """
    A recording in files; see `robot_identification.data.recording.RecordingSource`.

    With elastic joints it has the links' columns, then the motors'.  The motors' side is brought
    to the stamps of the links'; efforts are 0 at the links and the motors' at the motors.

    Attributes
    ----------
    entry:
        Location of the recording and layout of its columns.
    robot_joints:
        Names of the n joints, in the order of the columns.
    drives:
        Map from recorded signals to those at the joints.
    base:
        Folder at which relative paths start.
    elastic:
        The motors of a robot with elastic joints; None if they are stiff.

    """

    entry: RecordingEntry
    robot_joints: tuple[str, ...]
    drives: Drives
    base: Path
    elastic: ElasticJoints | None = None

    @property
    def source(self) -> str:
        """The file's name as the entry gives it, as `Recording.source`."""
        return self.entry.name

    @property
    def left_out(self) -> tuple[tuple[float, float], ...]:
        """Times that the entry leaves out, [first, last] each [s]."""
        return self.entry.leave_out

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the n columns, or 2n with elastic joints."""
        return self.elastic.columns(self.robot_joints) if self.elastic else self.robot_joints

    @property
    def duration(self) -> float:
        """Approximate length of the recording [s] for progress; 0 if unknown."""
        form = self.entry.file_format(self.base)
        file = self.entry.files(self.base)['position']
        if form.duration is not None:
            duration = form.duration(file)
        elif rows := form.rows(file):
            duration = rows / (self.entry.rate or sample_rate(cast(RecordingSource, self)))
        else:
            return 0.0
        begin, end = self.entry.time_range or (None, None)
        return duration if end is None else min(duration, end - (begin or 0.0))

    @cached_property
    def clock(self) -> Clock:
        """Clock of its stamps; reading the recording to its end finds it, too."""
        return clock_of((each.time for each in self.blocks()), self.source, self.left_out)

    def without(self, times: tuple[tuple[float, float], ...]) -> FileSource:
        """Return the recording outside of times, too, [first, last] each [s]."""
        leave_out = (*self.entry.leave_out, *times)
        return replace(self, entry=replace(self.entry, leave_out=leave_out))

    def blocks(self, size: int = READ_ROWS) -> Iterator[Recording]:
        """
        Read the recording in parts of at most ``size`` rows, at the joints.

        Jumps of the positions by whole turns are taken out.
        With elastic joints, rows at whose time the motors' side is not known are left out: before
        its first stamp, after its last one and in its gaps.

        Raises
        ------
        RecordingError
            naming file, row, column or joint that cannot be used, or if the two sides have no time
            in common.

        """
        watch = ClockWatch(self.source, self.left_out)
        for block in self._read(size):
            watch.add(block.time)
            yield block
        vars(self).setdefault('clock', watch.clock())

    def _read(self, size: int) -> Iterator[Recording]:
        entry, joints, drives = self.entry, self.robot_joints, self.drives
        if self.elastic is not None:
            yield from elastic_blocks(entry, joints, drives, self.elastic, self.base, size)
            return
        unwrapper = Unwrapper()
        tables = read_tables(entry, joints, drives.recorded(len(joints)), self.base, size)
        for table in checked(tables, entry):
            part = unwrapper.take(drives.recording(table, joints, entry.name))
            part = replace(part, left_out=entry.leave_out) if entry.leave_out else part
            warn_of_frozen_efforts(part)
            yield part


@dataclass(frozen=True)
class FactorSource:
    """A file in which a recording's rows are folded already; attributes as of `FileSource`."""

    entry: RecordingEntry
    joints: tuple[str, ...]
    base: Path

    @property
    def source(self) -> str:
        """The file's name as the entry gives it."""
        return self.entry.name

    @property
    def duration(self) -> float:
        """Length of the recording for progress: unknown."""
        return 0.0

    def read(self) -> StoredFactor:
        """Read the factor; raises IdentificationError naming a file that is none, or damaged."""
        return read_factor(self.entry.files(self.base)['position'])

    def blocks(self, size: int = READ_ROWS) -> Iterator[Recording]:
        """Raise `RecordingError`: a factor has no samples."""
        raise RecordingError(
            f"'{self.source}' is a factor, which has no samples",
            file=self.source,
            remedy='give the recording that it was made of',
        )


def open_recording(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    drives: Drives | None = None,
    base: Path = Path('.'),
    path: str = '',
    elastic: ElasticJoints | None = None,
) -> FileSource | FactorSource:
    """
    Prepare to read a recording; nothing but its existence is checked yet.

    Parameters
    ----------
    entry, joints, drives, base, elastic:
        As `FileSource`; no drives if the signals are recorded at the joints.
    path:
        Key path of the entry for messages, for example ``data.identification[0]``.

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
    drives = Drives() if drives is None else drives
    if not entry.is_factor:
        drives.check(len(joints))
    check_recording(entry, joints, drives, base, path, elastic)
    if entry.is_factor:
        return FactorSource(entry, joints, base)
    return FileSource(entry, joints, drives, base, elastic)


def check_recording(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    drives: Drives,
    base: Path,
    path: str,
    elastic: ElasticJoints | None,
) -> None:
    """Check an entry before anything is read; parameters and errors as of `open_recording`."""
    if entry.is_factor:
        entry.check_factor(base, path)
    elif elastic is not None:
        for side in link_and_motor_sides(entry, joints, drives, elastic, base, path):
            side.entry.check(side.joints, side.counts, base, side.path)
    elif entry.motor is not None:
        remedy = 'describe the elastic joints there, or leave the motors out here'
        raise key_error(key_path(path, 'motor'), "is given, but 'robot.elastic' is not", remedy)
    else:
        entry.check(joints, drives.recorded(len(joints)), base, path)


# --------------------------------------------------------------------------- in memory


@dataclass(frozen=True)
class ArrayEntry:
    """
    A recording in memory, in place of a `RecordingEntry`.

    Attributes
    ----------
    name:
        For messages and results.
    time:
        (n_samples,) stamps [s].
    position, effort, velocity:
        (n_samples, k) as recorded, in the order of the joints or of the drives' columns; no
        velocity if None.

    """

    name: str
    time: np.ndarray
    position: np.ndarray
    effort: np.ndarray
    velocity: np.ndarray | None = None

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], name: str) -> ArrayEntry:
        """
        Make it of arrays by name, or of the names of a data frame's columns.

        Parameters
        ----------
        data:
            ``position``, ``effort``, ``time`` or ``rate`` [Hz], and ``velocity`` if there is one.
            With ``frame``, a data frame or another mapping from names to columns, these are
            names of its columns, else arrays.  ``time_unit`` is one of `TIME_UNITS`, ``s`` if
            left out; a second column of ``time`` has nanoseconds.
        name:
            What the recording is called.

        Raises
        ------
        RecordingError
            naming what is missing, not known or no numbers.

        """
        given = {key: value for key, value in data.items() if value is not None}
        for key in given:
            if key not in _KEYS:
                raise _wrong(name, f"has '{key}'", f'give {one_of(_KEYS)}')
        for key in ('position', 'effort'):
            if key not in given:
                raise _wrong(name, f"has no '{key}'", 'give (n_samples, n_joints) numbers')
        if ('time' in given) == ('rate' in given):
            text = "needs one of 'time' and 'rate'"
            raise _wrong(name, text, 'give the stamps, or the sampling rate')
        frame = given.get('frame')
        signals = {key: _signal(given[key], frame, name, key) for key in SIGNALS if key in given}
        if 'time' in given:
            unit = given.get('time_unit', 's')
            if unit not in TIME_UNITS:
                raise _wrong(name, f"has time_unit '{unit}'", f'give {one_of(TIME_UNITS)}')
            stamps = _signal(given['time'], frame, name, 'time')
            if stamps.shape[1] > 2:
                raise _wrong(name, f"has 'time' of shape {stamps.shape}", 'give one stamp a row')
            # of two columns the second has nanoseconds
            time = stamps @ np.array([TIME_UNITS[unit], 1e-9])[: stamps.shape[1]]
        else:
            time = np.arange(len(signals['position'])) / float(given['rate'])
        return cls(name, time, **signals)

    def at_joints(self, joints: tuple[str, ...], drives: Drives | None) -> Recording:
        """Return it at the joints; raises RecordingError as `Recording`, and for the columns."""
        drives = drives or Drives()
        counts = drives.recorded(len(joints))
        for key in SIGNALS:
            signal, shape = getattr(self, key), (self.time.size, counts[key])
            if signal is not None and signal.shape != shape:
                remedy = f'expected {shape}: a row a stamp, a column a joint of {one_of(joints)}'
                raise _wrong(self.name, f"has '{key}' of shape {signal.shape}", remedy)
        recording = Unwrapper().take(drives.recording(self, joints, self.name))
        warn_of_frozen_efforts(recording)
        return recording


def _signal(value: Any, frame: Any, name: str, key: str) -> np.ndarray:
    """Return a signal as (n_samples, k)."""
    if frame is not None:
        columns = [value] if isinstance(value, str) else value
        value = [_column(frame, column, name) for column in columns]
    try:
        array = np.column_stack(value) if frame is not None else np.asarray(value)
        numbers = np.asarray(array, dtype=float)
    except (TypeError, ValueError) as error:
        raise _wrong(name, f"has '{key}' that is no array of numbers", str(error)) from error
    return numbers[:, None] if numbers.ndim == 1 else numbers


def _column(frame: Any, column: Any, name: str) -> Any:
    try:
        return frame[column]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise _wrong(name, f'has no column {column!r}', 'name one of its columns') from error


def _wrong(name: str, problem: str, remedy: str) -> RecordingError:
    return RecordingError(f"recording '{name}' {problem}", file=name, remedy=remedy)
