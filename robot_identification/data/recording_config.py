# SPDX-License-Identifier: Apache-2.0
"""Location of a recording and layout of its columns, as an entry of the experiment file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from ..errors import one_of, RecordingError, SettingsError
from ..options.fields import key_error, key_path, option
from ..untrusted.files import unusable, user_path
from .columns import Column, columns_of, Counts, Signal, SignalColumns, TIME_UNITS, Wanted
from .formats import described_by_head, FACTOR, foreign_of, Format, format_of, FORMATS, KNOWN
from .recording import SIGNALS


@dataclass(frozen=True)
class MotorSide:
    """Location of the motors' side of a recording of a robot with elastic joints."""

    file: str | None = option(
        None,
        doc="File or rosbag2 folder with stamps of its own; null for the recording's own file",
    )
    format: str | None = option(
        None, doc='Kind of that file; null for the one by its name', choices=FORMATS
    )
    topic: str | None = option(
        None,
        doc="Topic with the motors' joint states (rosbag2); null for the recording's own topic",
    )
    time: Column | None = option(
        None, doc='Column or array with the time stamps of that file in seconds (not in a bag)'
    )
    rate: float | None = option(
        None, doc='Sampling rate where that file has no time column', unit='Hz', minimum=1e-3
    )
    position: Signal = option(
        None,
        doc="Columns, array or (rosbag2) names of the motors' positions, in the order of the "
        'joints; null in a bag for the names of robot.elastic.motors',
    )
    velocity: Signal = option(
        None, doc='Likewise for measured velocities; null where there are none'
    )
    effort: Signal = option(
        None,
        doc="Likewise for efforts; null where they are in the recording's own effort; in a bag "
        "that has none either, the motors' efforts",
    )


@dataclass(frozen=True)
class ImuColumns:
    """Columns or topic of the IMU of a robot with a floating base."""

    topic: str | None = option(
        None,
        doc='Topic with sensor_msgs/msg/Imu messages (rosbag2), in place of the columns; null for '
        'the only one',
    )
    gyroscope: Signal = option(None, doc='Angular velocity x, y, z in its own frame [rad/s]')
    accelerometer: Signal = option(
        None,
        doc='What the accelerometer reads, x, y, z in its own frame: 9.81 upward at rest [m/s^2]',
    )
    orientation: Signal = option(
        None,
        doc='Its orientation in the world, quaternion x, y, z, w; null takes what the '
        'accelerometer reads for the direction upward',
    )


@dataclass(frozen=True)
class RecordingEntry:
    """Location of a recording and layout of its columns."""

    file: str | None = option(
        None,
        doc='File or rosbag2 folder; relative paths start at the experiment file. Null where each '
        'signal names its own',
    )
    format: str | None = option(
        None,
        doc="Kind of file; null for the one by the file's name; a factor is a recording that "
        '`robot-identification reduce` has reduced already',
        choices=KNOWN,
    )
    topic: str = option(
        '/joint_states',
        doc='Topic with sensor_msgs/msg/JointState messages (rosbag2); of commands, one with the '
        'states of a trajectory controller, and by default the only one',
    )
    time: Column | tuple[Column, Column] | None = option(
        None,
        doc='Column or array with the time stamps, or two of seconds and nanoseconds (not in a '
        'bag)',
    )
    time_unit: str = option(
        's',
        doc='Unit of the time stamps, if they are one column (not in a bag)',
        choices=tuple(TIME_UNITS),
    )
    rate: float | None = option(
        None,
        doc='Sampling rate where there is no time column (not in a bag)',
        unit='Hz',
        minimum=1e-3,
        maximum=1e7,
    )
    position: Signal = option(
        None,
        doc='Columns, array or (rosbag2) names of the positions, in the order of the joints',
    )
    velocity: Signal = option(
        None, doc='Likewise for measured velocities; null where there are none'
    )
    effort: Signal = option(
        None, doc="Likewise for efforts; with elastic joints they are the motors'"
    )
    command: Signal = option(
        None,
        doc='Likewise for commanded positions (robot.servo), in place of efforts; in a bag, the '
        'topic of commands beside joint states',
    )
    command_velocity: Signal = option(
        None, doc='Likewise for commanded velocities; null where none are commanded'
    )
    feedforward: Signal = option(
        None, doc='Likewise for commanded efforts; null where none are commanded'
    )
    motor: MotorSide | None = option(
        None, doc="The motors' side of a robot with elastic joints (robot.elastic)"
    )
    imu: ImuColumns | None = option(None, doc='Columns or topic of the IMU (robot.base floating)')
    contacts: Signal = option(
        None,
        doc='Columns that say whether each of robot.contacts holds: flags, or forces along the '
        'normal; in a bag, topics of messages of std_msgs (Bool, Float64, Float32, or one '
        'MultiArray for all) or WrenchStamped, whose force counts; auto estimates from the '
        'efforts which hold',
    )
    contact_threshold: float = option(
        0.5, doc='Value of `contacts` from which on a contact holds', minimum=-1e6, maximum=1e6
    )
    wrenches: Mapping[str, str | tuple[Column, ...]] | None = option(
        None,
        doc='By frame of robot.contacts, where they are measured: columns of the force on the '
        'robot x, y, z in the axes of that frame, and of the moment about its origin for a flat '
        'one; in a bag, a topic of WrenchStamped [N, N m]',
    )
    delimiter: str | None = option(
        None, doc='Character between the cells; null to find it out (csv)'
    )
    rows: tuple[int | None, int | None] | None = option(
        None, doc='First row and the row after the last to use, 0-based; null for an open end'
    )
    time_range: tuple[float | None, float | None] | None = option(
        None,
        doc='First and last time to use, by the stamps of the file (rosbag2: since the first '
        'message); null for an open end',
        unit='s',
    )
    leave_out: tuple[tuple[float, float], ...] = option(
        (),
        doc='Times to leave out, [first, last] each, by the same stamps: a brake, a contact, '
        'drives that are off',
        unit='s',
    )

    @property
    def name(self) -> str:
        """Name of the recording in messages and results."""
        signals = (self.position, self.effort, self.velocity)
        files = (signal.file for signal in signals if isinstance(signal, SignalColumns))
        return self.file if self.file is not None else next(filter(None, files), 'recording')

    def file_format(self, base: Path = Path('.'), path: str = '') -> Format:
        """Return the format, or that of factors; parameters and errors as of `check`."""
        if self.format is not None:
            return KNOWN[self.format]
        if (found := format_of(base / self.name)) is not None:
            return found
        if (foreign := foreign_of(Path(self.name))) is not None:
            title, remedy = foreign
            text = f"'{self.name}' is {title}, which is not read"
            raise RecordingError(text, file=self.name, remedy=remedy)
        text = f"is missing and the name of '{self.name}' does not imply it"
        remedy = f'set it to one of {one_of(KNOWN)}'
        _, remedy = described_by_head(base / self.name) or ('', remedy)
        raise key_error(key_path(path, 'format'), text, remedy, file=self.name)

    @property
    def is_factor(self) -> bool:
        """True if the file is a QR factor."""
        suffix = Path(self.name).suffix.lower()
        return suffix in FACTOR.suffixes if self.format is None else self.format == FACTOR.name

    def stamps(self, rows: np.ndarray) -> np.ndarray:
        """Return the times of (n,) 0-based rows by the sampling rate [s]."""
        if self.rate is None:
            raise _missing('', 'rate', 'give the sampling rate where there is no time column')
        return rows / self.rate

    def files(self, base: Path = Path('.')) -> dict[str, Path]:
        """
        Return the file of each signal (``time``, ``position``, ``velocity``, ``effort``).

        Signals that name none are in the recording's own file, the time in the position's.
        """
        files = {}
        for name in ('time', *SIGNALS):
            signal = getattr(self, name)
            file = signal.file if isinstance(signal, SignalColumns) else None
            file = self.file if file is None else file
            if file is not None:
                files[name] = base / user_path(file)
        if 'position' in files:
            files.setdefault('time', files['position'])
        return files

    def seconds(self, stamps: np.ndarray) -> np.ndarray:
        """Return (n,) times [s] of (n, 1) stamps, or of (n, 2) seconds and nanoseconds."""
        if stamps.shape[1] == 2:
            return np.asarray(stamps[:, 0] + 1e-9 * stamps[:, 1])
        unit = TIME_UNITS[self.time_unit]
        return np.asarray(stamps[:, 0] if unit == 1.0 else stamps[:, 0] * unit)

    def wanted(self, joints: tuple[str, ...], counts: Counts, base: Path = Path('.')) -> Wanted:
        """Return what is to be read: the signals that are named and counted, and the time."""
        signals = {name: getattr(self, name) for name in ('time', *counts)}
        times = columns_of(self.time) or ()
        return Wanted(
            self.name,
            joints,
            self.files(base),
            {n: columns_of(s) for n, s in signals.items() if s is not None and counts.get(n) != 0},
            {**counts, 'time': len(times)},
            self.topic,
            self.delimiter,
        )

    def check(
        self, joints: tuple[str, ...], counts: Counts, base: Path = Path('.'), path: str = ''
    ) -> None:
        """
        Check the entry before anything is read.

        Parameters
        ----------
        joints:
            Names of the joints.
        counts:
            Number of columns by signal, 0 for none.
        base:
            Folder at which relative paths start.
        path:
            Key path of this entry for messages, for example ``data.identification[0]``.

        Raises
        ------
        SettingsError
            naming a key that is missing or has the wrong number of columns.
        RecordingError
            naming a file that does not exist.

        """
        form = self.file_format(base, path)
        if form.topics:
            if self.file is None:
                raise _missing(path, 'file', 'name the bag')
        else:
            for name in ('position', 'effort'):
                if getattr(self, name) is None and counts[name]:
                    raise _missing(path, name, 'name its columns')
            if (self.time is None) == (self.rate is None):
                text = f"and '{key_path(path, 'rate')}': exactly one of them is needed"
                remedy = 'name the time column, or give the sampling rate if there is none'
                raise key_error(key_path(path, 'time'), text, remedy)
        for name, count in counts.items():
            signal = getattr(self, name)
            columns = columns_of(signal)
            # one array has as many columns as are in the file
            whole = form.wide and not isinstance(signal, tuple) and len(columns or ()) == 1
            if count and columns is None and form.topics and name != 'velocity':
                given = len(joints)  # the joints' own names
            elif columns is None or whole:
                continue
            else:
                given = len(columns)
            if count and given != count:
                remedy = (
                    'give one column a joint, in the order of robot.joints '
                    '(with drives: one a column of their matrix)'
                )
                text = f'has {given} columns, expected {count}'
                raise key_error(key_path(path, name), text, remedy, value=columns)
        self._check_values(path)
        files = self.files(base)
        for name in ('position', 'effort', 'velocity', 'time'):
            if getattr(self, name) is not None and name not in files:
                raise _missing(path, 'file', f'name the file of the {name}')
        for file in dict.fromkeys(files.values()):
            _require_file(file, unusable(file), base, path)

    def check_factor(self, base: Path = Path('.'), path: str = '') -> None:
        """Check the entry of a factor, which has no keys of recordings; as `check`."""
        if self.file is None:
            raise _missing(path, 'file', 'name the factor')
        for f in fields(self):
            if f.name not in ('file', 'format') and getattr(self, f.name) != f.default:
                text = f"is given, but '{self.file}' is a factor, whose rows are folded already"
                raise key_error(
                    key_path(path, f.name), text, 'leave it out, or give the recording'
                )
        file = base / user_path(self.file)
        _require_file(
            file, unusable(file) or ('is a folder' if file.is_dir() else None), base, path
        )

    def _check_values(self, path: str) -> None:
        given = self.delimiter
        if given is not None and (len(given) != 1 or given.isalnum() or given in '"#+-.\n\r\0'):
            text, key = f'is {given[:20]!r}', key_path(path, 'delimiter')
            remedy = 'give one character that is in no number, or null to find it out'
            raise key_error(key, text, remedy, value=given[:20])
        for name in ('rows', 'time_range'):
            cut, key = getattr(self, name) or (None, None), key_path(path, name)
            first, last = cut
            if first is not None and last is not None and not first < last:
                remedy = 'the first has to be below the second'
                raise key_error(key, f'is {list(cut)}', remedy, value=cut)
            if name == 'rows' and any(row is not None and row < 0 for row in cut):
                remedy = 'count the rows from 0 at the start; null leaves an end open'
                raise key_error(key, f'is {list(cut)}', remedy, value=cut)
        for i, (begin, end) in enumerate(self.leave_out):
            if not begin < end:
                key, text = key_path(path, f'leave_out[{i}]'), f'is {[begin, end]}'
                raise key_error(key, text, 'the first has to be below the second', value=begin)


def _require_file(file: Path, why: str | None, base: Path, path: str) -> None:
    """Raise for a file that cannot be used, for a reason."""
    if why is not None:
        key, remedy = key_path(path, 'file'), f'relative paths start at {base.resolve()}'
        raise RecordingError(f"'{key}': {file} {why}", file=str(file), key=key, remedy=remedy)


def _missing(path: str, name: str, remedy: str) -> SettingsError:
    key = key_path(path, name)
    return SettingsError(f"key '{key}' is missing", key=key, remedy=remedy)
