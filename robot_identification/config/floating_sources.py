# SPDX-License-Identifier: Apache-2.0
"""
Recordings of robots with floating bases: joints, IMU and contacts of one file.

In tables, the columns of IMU, contacts and wrenches are read as the efforts are, so that all
formats and checks of tables hold for them.  In bags they have topics and stamps of their own: IMU
and wrenches are interpolated at the stamps of the joint states, and a contact is held until its
next message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
import warnings

import numpy as np

from ..data.columns import columns_of, Signal
from ..data.drives import Drives
from ..data.floating_recording import FloatingRecording, LEAST_NORM
from ..data.readers import checked, read_tables
from ..data.recording import READ_ROWS, Recording, recording_error
from ..data.recording_config import RecordingEntry
from ..data.sampling import GAP
from ..data.unwrapping import Unwrapper
from ..errors import IdentificationWarning, one_of
from ..estimation.estimated_stance import estimated_stance
from ..model.floating_base import BASE_JOINTS
from ..model.mechanisms import ContactSettings, ImuSettings
from ..model.robot import Robot
from ..options.fields import key_error, key_path
from ..regressor import build, FloatingRegressor, ModelSettings, prior
from ..servo.servo_effort import with_servo_efforts
from ..servo.settings import ServoSettings
from .commands import check_commands, COMMANDS, read_commands

if TYPE_CHECKING:
    from ..data.sensor_messages import SensorMessages

ESTIMATED = 'auto'
"""Value of ``contacts`` for a stance that is estimated from the efforts."""

_WIDTHS = {'gyroscope': 3, 'accelerometer': 3, 'orientation': 4}


@dataclass(frozen=True)
class FloatingReader:
    """
    Reader of recordings of a robot with a floating base.

    Attributes
    ----------
    joints:
        Those of the base, then the driven ones.
    contacts, imu:
        Of the robot.
    drives:
        Map to the joints' side.
    base:
        Folder at which relative paths start.
    servo:
        Gains by which commands stand for efforts; None where efforts are recorded.

    """

    joints: tuple[str, ...]
    contacts: tuple[ContactSettings, ...]
    imu: ImuSettings
    drives: Drives
    base: Path
    servo: ServoSettings | None = None

    @property
    def driven(self) -> tuple[str, ...]:
        """Names of the driven joints."""
        return self.joints[len(BASE_JOINTS) :]

    def read(self, entry: RecordingEntry, path: str) -> FloatingRecording:
        """
        Read a recording into memory; ``path`` is the key path of its entry.

        Raises
        ------
        SettingsError
            naming a key that is missing or has the wrong number of columns.
        RecordingError
            naming file, row and column, or topic that cannot be used.

        """
        if entry.imu is None:
            raise key_error(
                key_path(path, 'imu'),
                'is missing, but robot.base is floating',
                'name the columns of the gyroscope and of the accelerometer, or its topic',
            )
        self._require_known_frames(entry, path)
        motion, stamps = self._joints(entry, path)
        kept = np.ones(len(motion), dtype=bool)
        if stamps is not None:
            kept, others = _of_topics(self, entry, stamps, path)
        else:
            others = _of_columns(self, entry, len(motion), path)
        padded = np.zeros((2, len(motion), len(self.joints)))
        padded[0, :, len(BASE_JOINTS) :] = motion.position
        padded[1, :, len(BASE_JOINTS) :] = motion.effort
        return FloatingRecording(
            time=motion.time[kept],
            position=padded[0][kept],
            effort=padded[1][kept],
            joints=self.joints,
            source=entry.name,
            left_out=entry.leave_out,
            **others,
        )

    def _joints(self, entry: RecordingEntry, path: str) -> tuple[Recording, np.ndarray | None]:
        """Return positions and efforts of the joints, and the stamps of messages [ns]."""
        driven, drives = self.driven, self.drives
        topics = entry.file_format(self.base, path).topics
        if self.servo is not None:
            if topics:
                text = 'is a bag, whose commands are not read for a robot with a floating base'
                remedy = 'write commands, positions and IMU into a table or npz'
                raise key_error(key_path(path, 'file'), text, remedy)
            check_commands(entry, driven, drives, self.base, path)
            commands = read_commands(entry, driven, drives, self.base)
            return with_servo_efforts(commands, self.servo), None
        counts = drives.recorded(len(driven))
        entry.check(driven, counts, self.base, path)
        tables = list(checked(read_tables(entry, driven, counts, self.base, READ_ROWS), entry))
        unwrapper = Unwrapper()
        motion = Recording.concatenate(
            [unwrapper.take(drives.recording(table, driven, entry.name)) for table in tables]
        )
        if not topics:
            return motion, None
        stamps = [table.origin + np.rint(1e9 * table.time).astype(np.int64) for table in tables]
        return motion, np.concatenate(stamps)

    def _require_known_frames(self, entry: RecordingEntry, path: str) -> None:
        frames = [contact.frame for contact in self.contacts]
        for name in entry.wrenches or {}:
            if name not in frames:
                text = f'is no frame of robot.contacts, which are {one_of(frames) or "none"}'
                remedy = 'give the frame of the sensor as a contact'
                raise key_error(f'{key_path(path, "wrenches")}.{name}', text, remedy)

    def wrench_columns(self, frame: str) -> slice:
        """Return the place of a contact's components among those of all contacts."""
        start = 0
        for contact in self.contacts:
            if contact.frame == frame:
                return slice(start, start + contact.components)
            start += contact.components
        raise KeyError(frame)

    def no_wrenches(self, rows: int) -> np.ndarray:
        """Return (rows, k) NaN for the components of all contacts."""
        return np.full((rows, sum(contact.components for contact in self.contacts)), np.nan)


def with_estimated_stance(
    recording: FloatingRecording, robot: Robot, model: ModelSettings
) -> FloatingRecording:
    """
    Return a recording with the stance that its efforts and the URDF's bodies speak for.

    Raises RecordingError where no contact ever carries anything.
    """
    regressor = build(robot, model)
    assert isinstance(regressor, FloatingRegressor)
    values = prior(robot, model).values
    stance = estimated_stance(recording, regressor, values)
    if not stance.any():
        raise recording_error(
            recording.source,
            'by its efforts no contact ever carries the robot',
            'see the signs of efforts and accelerometer, or name flags in contacts',
        )
    shares = ', '.join(
        f'{contact.frame} for {100.0 * share:.0f} %'
        for contact, share in zip(model.contacts, stance.mean(axis=0), strict=True)
    )
    warnings.warn(
        f"{recording.source}: stance is estimated from efforts and the URDF's masses, since "
        f'contacts is auto: {shares} of the time',
        IdentificationWarning,
        stacklevel=2,
    )
    return replace(recording, stance=stance)


# ---------------------------------------------------------------------------------- in tables


def _of_columns(
    reader: FloatingReader, entry: RecordingEntry, rows: int, path: str
) -> dict[str, np.ndarray]:
    """Return the arrays of a `FloatingRecording` beside the joints', from columns."""
    imu = entry.imu
    assert imu is not None
    if imu.topic is not None:
        key = key_path(path, 'imu.topic')
        raise key_error(key, 'is given for a table', 'name the columns, gyroscope first')
    others = {
        name: _columns(reader, entry, getattr(imu, name), width, f'{path}.imu.{name}')
        for name, width in _WIDTHS.items()
        if getattr(imu, name) is not None or name != 'orientation'
    }
    others['stance'] = np.zeros((rows, len(reader.contacts)), dtype=bool)
    if reader.contacts and entry.contacts != ESTIMATED:
        count, key = len(reader.contacts), f'{path}.contacts'
        values = _columns(reader, entry, entry.contacts, count, key)
        others['stance'] = values > entry.contact_threshold
    if entry.wrenches:
        others['wrench'] = reader.no_wrenches(rows)
        for frame, signal in entry.wrenches.items():
            place = reader.wrench_columns(frame)
            count, key = place.stop - place.start, f'{path}.wrenches.{frame}'
            others['wrench'][:, place] = _columns(reader, entry, signal, count, key)
    return others


def _columns(
    reader: FloatingReader, entry: RecordingEntry, signal: Signal, width: int, key: str
) -> np.ndarray:
    """Return (n_samples, width) columns of an entry."""
    names = columns_of(signal)
    if names is None:
        raise key_error(key, 'is missing', f'name its {width} columns')
    remedy = 'name one column for each axis or contact'
    if len(names) not in (1, width):
        text = f'has {len(names)} columns, expected {width}'
        raise key_error(key, text, remedy, value=names)
    counts = {'position': len(reader.driven), 'velocity': 0, 'effort': width}
    alone = replace(entry, effort=signal, velocity=None, **dict.fromkeys(COMMANDS))  # type: ignore[arg-type]
    tables = checked(read_tables(alone, reader.driven, counts, reader.base, READ_ROWS), alone)
    values = np.concatenate([table.effort for table in tables])
    if values.shape[1] != width:
        text = f'has {values.shape[1]} columns, expected {width}'
        raise key_error(key, text, remedy, value=names)
    return values


# ------------------------------------------------------------------------------------ in bags


def _of_topics(
    reader: FloatingReader, entry: RecordingEntry, stamps: np.ndarray, path: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """
    Return which of the (n,) stamps [ns] have all signals, and these there, from topics.

    Stamps before or after the messages of the IMU or of a wrench, and in their gaps, have not.
    """
    # with mcap and sqlite3, which take time to import
    from ..data.sensor_messages import (
        CONTACT_KINDS,
        IMU,
        only_topic,
        read_sensor,
        WRENCH_STAMPED,
    )

    imu, bag = entry.imu, entry.files(reader.base)['position']
    assert imu is not None
    for name in _WIDTHS:
        if getattr(imu, name) is not None:
            key = key_path(path, f'imu.{name}')
            raise key_error(key, 'is given for a bag', 'leave it out, and name imu.topic')
    topic = imu.topic or only_topic(bag, IMU, key_path(path, 'imu.topic'))
    measured = read_sensor(bag, topic, {IMU})
    _compare_frames(entry.name, 'IMU', measured.frame, reader.imu.frame, 'robot.imu.frame')
    known = _known(stamps, measured.stamp)
    readings = [('imu', measured.stamp, _with_orientation(measured.values))]
    for frame, signal in (entry.wrenches or {}).items():
        (name,) = _topics(signal, 1, f'{path}.wrenches.{frame}')
        wrench = read_sensor(bag, name, {WRENCH_STAMPED})
        _compare_frames(
            entry.name, f"wrench of topic '{name}'", wrench.frame, frame, 'robot.contacts'
        )
        known &= _known(stamps, wrench.stamp)
        readings.append((frame, wrench.stamp, wrench.values))
    if known.sum() < 2:
        text = f"topic '{topic}' and the joint states have no time in common"
        raise recording_error(entry.name, text, 'record them with one clock')
    at = stamps[known]
    values = {name: _interpolated(at, times, columns) for name, times, columns in readings}
    others = {'gyroscope': values['imu'][:, :3], 'accelerometer': values['imu'][:, 3:6]}
    if values['imu'].shape[1] > 6:
        others['orientation'] = values['imu'][:, 6:]
    others['stance'] = np.zeros((at.size, len(reader.contacts)), dtype=bool)
    if reader.contacts and entry.contacts != ESTIMATED:
        names = _topics(entry.contacts, len(reader.contacts), f'{path}.contacts')
        held = [
            _held(at, flags.stamp, _sizes(flags))
            for name in names
            for flags in [read_sensor(bag, name, CONTACT_KINDS).on_clock_of(measured)]
        ]
        stance = np.hstack(held) > entry.contact_threshold
        if stance.shape[1] != len(reader.contacts):
            text = f"topic '{names[0]}' has {stance.shape[1]} values a message for "
            text += f'{len(reader.contacts)} contacts'
            raise recording_error(entry.name, text, 'give one value for each of robot.contacts')
        others['stance'] = stance
    if entry.wrenches:
        others['wrench'] = reader.no_wrenches(at.size)
        for frame in entry.wrenches:
            place = reader.wrench_columns(frame)
            others['wrench'][:, place] = values[frame][:, : place.stop - place.start]
    return known, others


def _topics(signal: Signal, count: int, key: str) -> Sequence[str]:
    """Return one topic for all, or one for each of a number of contacts."""
    names = columns_of(signal)
    if names is None:
        raise key_error(key, 'is missing', 'name the topics of the flags or forces of contacts')
    if len(names) not in (1, count):
        text = f'has {len(names)} topics, expected {count}'
        raise key_error(key, text, 'name one topic for each, or one for all', value=names)
    return tuple(map(str, names))


def _with_orientation(values: np.ndarray) -> np.ndarray:
    """Return (n, 6) gyroscope and accelerometer, and the orientation where there is one."""
    orientation, others = values[:, :4], values[:, 4:]
    norm = np.linalg.norm(orientation, axis=1)
    # drivers that estimate none leave it as the message has it at first
    if not (norm > LEAST_NORM).all() or not np.ptp(orientation, axis=0).any():
        return others
    # q and -q are one orientation: interpolation needs the nearer one
    turns = np.cumprod(
        np.where(np.sum(orientation[1:] * orientation[:-1], axis=1) < 0.0, -1.0, 1.0)
    )
    orientation = orientation * np.concatenate([[1.0], turns])[:, None]
    return np.hstack([others, orientation])


def _sizes(messages: SensorMessages) -> np.ndarray:
    """Return flags or forces; of wrenches, which alone have headers, the norm of the force."""
    if not messages.stamped:
        return messages.values
    return np.asarray(np.linalg.norm(messages.values[:, :3], axis=1, keepdims=True))


def _known(stamps: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return whether stamps are within the times of a sensor's messages and outside of gaps."""
    steps = np.diff(times)
    step = steps[np.clip(np.searchsorted(times, stamps) - 1, 0, steps.size - 1)]
    return np.asarray(
        (stamps >= times[0]) & (stamps <= times[-1]) & (step <= GAP * np.median(steps))
    )


def _interpolated(at: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    since, wanted = (times - times[0]).astype(float), (at - times[0]).astype(float)
    return np.column_stack([np.interp(wanted, since, column) for column in values.T])


def _held(at: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the last values before each time; before the first one, that."""
    return np.asarray(values[np.maximum(np.searchsorted(times, at, side='right') - 1, 0)])


def _compare_frames(source: str, what: str, named: str, taken: str | None, key: str) -> None:
    """Warn of messages that name another frame than the one that they are taken in."""
    if not named or named.lstrip('/') == taken:
        return
    place = f"'{taken}'" if taken else 'the root link'
    warnings.warn(
        f"{source}: the {what} names the frame '{named}', and is taken for one in {place}: see "
        f'{key}',
        IdentificationWarning,
        stacklevel=2,
    )
