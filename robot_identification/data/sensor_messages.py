# SPDX-License-Identifier: Apache-2.0
"""Messages of sensors in a bag: wrenches, IMUs, and flags or forces of contacts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
import struct

import numpy as np

from ..errors import one_of
from .bag import bag_messages, bag_topics
from .controller_states import CdrReader
from .recording import recording_error

WRENCH_STAMPED = 'geometry_msgs/msg/WrenchStamped'
IMU = 'sensor_msgs/msg/Imu'

_UNREADABLE = (struct.error, ValueError, UnicodeDecodeError)


@dataclass(frozen=True)
class SensorMessages:
    """
    Messages of one topic in the order of their stamps; of those with one stamp, the last.

    Attributes
    ----------
    stamp, received:
        (n,) times of the headers and of the receipt [ns]; messages without a header have the time
        of their receipt for a stamp.
    values:
        (n, k) numbers.
    frame:
        ``frame_id`` of the first one; empty for none.
    stamped:
        Whether they have headers.

    """

    stamp: np.ndarray
    received: np.ndarray
    values: np.ndarray
    frame: str
    stamped: bool

    def on_clock_of(self, other: SensorMessages) -> SensorMessages:
        """Return messages without headers by the stamps that another topic had on receipt."""
        if self.stamped:
            return self
        order = np.argsort(other.received, kind='stable')
        received, zero = other.received[order], int(other.received.min())
        first = int(other.stamp.min())
        at = (self.received - zero).astype(float)
        known = (received - zero).astype(float)
        stamp = np.interp(at, known, (other.stamp[order] - first).astype(float))
        # beyond its ends the clocks run alike
        stamp += np.minimum(at - known[0], 0.0) + np.maximum(at - known[-1], 0.0)
        return replace(self, stamp=first + np.rint(stamp).astype(np.int64))


def message_frame(bag: Path, topic: str, kind: str) -> str:
    """Return ``frame_id`` of the first message of a topic; empty where there is none to read."""
    for messages in bag_messages(bag, topic, (kind,)):
        for data in messages:
            try:
                return _header(CdrReader(data))[1]
            except _UNREADABLE:
                return ''
    return ''


def read_wrenches(bag: Path, topic: str) -> SensorMessages:
    """Return forces and torques (n, 6) of a topic [N, N m]; errors as of `read_sensor`."""
    return read_sensor(bag, topic, {WRENCH_STAMPED})


def topics_of(bag: Path, kinds: Collection[str]) -> tuple[str, ...]:
    """Return the topics of a bag whose messages are of some kinds; raises as `bag_topics`."""
    return tuple(name for name, kind in bag_topics(bag).items() if kind in kinds)


def read_sensor(bag: Path, topic: str, kinds: Collection[str]) -> SensorMessages:
    """
    Read the numbers of a topic.

    Parameters
    ----------
    bag:
        A bag's folder, or a file of it.
    topic:
        Name of the topic.
    kinds:
        Types that it may have, of `SENSOR_KINDS`.

    Returns
    -------
    SensorMessages
        Of a wrench force and torque; of an IMU orientation (NaN where it has none), angular
        velocity and linear acceleration; of a flag or a number that; of an array its entries.

    Raises
    ------
    RecordingError
        for a damaged bag, a missing topic, fewer than two messages (one of those without
        headers), arrays of different sizes and a message that cannot be read.

    """
    types = {name.lstrip('/'): kind for name, kind in bag_topics(bag).items()}
    kind = types.get(topic.lstrip('/'), '')
    # of a topic that is missing, the messages' reader says which there are
    read = SENSOR_KINDS.get(kind, _wrench)
    stamps, received, rows, frame = [], [], [], ''
    for messages in bag_messages(bag, topic, tuple(kinds)):
        for data, at in zip(messages, messages.times.tolist(), strict=True):
            try:
                stamp, name, values = read(data)
            except _UNREADABLE as error:
                text = f"a message of topic '{topic}' cannot be read ({error})"
                raise recording_error(bag, text, 'record it again') from error
            frame = frame or name
            stamps.append(at if stamp is None else stamp)
            received.append(at)
            rows.append(values)
    # a flag may be published when it changes alone
    if len(rows) < (2 if kind in _WITH_HEADERS else 1):
        text = f"topic '{topic}' has {'one message' if rows else 'no messages'}"
        raise recording_error(bag, text, 'record it while the robot moves')
    if sizes := sorted({len(row) for row in rows} - {len(rows[0])}):
        text = f"topic '{topic}' has arrays of {len(rows[0])} and of {sizes[0]} values"
        raise recording_error(bag, text, 'record one value a contact')
    times = np.array(stamps)
    # the last one of a stamp
    unique, places = np.unique(times[::-1], return_index=True)
    kept = len(times) - 1 - places
    return SensorMessages(
        unique, np.array(received)[kept], np.array(rows)[kept], frame, kind in _WITH_HEADERS
    )


def only_topic(bag: Path, kind: str, key: str) -> str:
    """Return the one topic of a kind in a bag; raises RecordingError for none, or several."""
    found = topics_of(bag, {kind})
    if len(found) != 1:
        text = f'has no topic of type {kind}'
        if found:
            text = f'has {len(found)} topics of type {kind}: {one_of(found)}'
        raise recording_error(bag, text, f'record one, or name it in {key}')
    return found[0]


# ------------------------------------------------------------------------------- the messages

_Message = tuple[int | None, str, np.ndarray]
"""Stamp [ns], frame and numbers of a message."""


def _header(reader: CdrReader) -> tuple[int, str]:
    seconds, nanoseconds = reader.numbers('iI', 1)[0]
    return seconds * 1_000_000_000 + nanoseconds, reader.text()


def _wrench(data: bytes) -> _Message:
    reader = CdrReader(data)
    return (*_header(reader), reader.values(6))


def _imu(data: bytes) -> _Message:
    reader = CdrReader(data)
    stamp, frame = _header(reader)
    values = reader.values(37)
    # a first covariance of -1 says that there is no orientation
    orientation = np.full(4, np.nan) if values[4] == -1.0 else values[:4]
    return stamp, frame, np.concatenate([orientation, values[13:16], values[25:28]])


def _flag(data: bytes) -> _Message:
    if len(data) < 5 or data[0] != 0:
        raise ValueError('it is not in CDR')
    return None, '', np.array([float(data[4] != 0)])


def _double(data: bytes) -> _Message:
    return None, '', CdrReader(data).values(1)


def _single(data: bytes) -> _Message:
    return None, '', np.array(CdrReader(data).numbers('f', 1)[0], dtype=float)


def _array(single: bool) -> Callable[[bytes], _Message]:
    def read(data: bytes) -> _Message:
        reader = CdrReader(data)
        for _ in range(reader.count()):
            reader.text()
            reader.numbers('II', 1)
        reader.numbers('I', 1)
        if not single:
            return None, '', reader.doubles(1)[0]
        values = reader.numbers('f', reader.count())
        return None, '', np.array(values, dtype=float).reshape(-1)

    return read


SENSOR_KINDS: Mapping[str, Callable[[bytes], _Message]] = {
    WRENCH_STAMPED: _wrench,
    IMU: _imu,
    'std_msgs/msg/Bool': _flag,
    'std_msgs/msg/Float64': _double,
    'std_msgs/msg/Float32': _single,
    'std_msgs/msg/Float64MultiArray': _array(False),
    'std_msgs/msg/Float32MultiArray': _array(True),
}
"""Types of messages that are read, and what reads one."""

CONTACT_KINDS = tuple(kind for kind in SENSOR_KINDS if kind != IMU)
"""Types of messages that say whether contacts hold."""

_WITH_HEADERS = (WRENCH_STAMPED, IMU)
