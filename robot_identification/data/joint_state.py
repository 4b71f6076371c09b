# SPDX-License-Identifier: Apache-2.0
"""
Decoding of ``sensor_msgs/msg/JointState`` messages, many at once, and from JSON.

A publisher nearly always sends the same names in the same order, so that its messages differ in
stamp and numbers alone.  One message is parsed; all others whose remaining bytes are equal are
read as columns of one array.  CDR aligns numbers to their own size, counted from the end of the
four-byte header; strings have their length before and a zero after them (OMG DDS-XTypes).
Padding has no meaning and may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
import json
import math
import struct
from typing import Any

import numpy as np

from ..errors import importing
from ..untrusted.names import has_control
from .recording import SIGNALS

JOINT_STATE = 'sensor_msgs/msg/JointState'
JSON_KINDS = tuple(
    f'{kind} in json'
    for kind in (
        'foxglove.JointStates',
        'sensor_msgs/msg/JointState',
        'sensor_msgs/JointState',
        'sensor_msgs.JointState',
    )
)
"""Types of joint states with their encoding, as `storage.type_of` returns them."""

STAMP = struct.Struct('<iI')
STAMP_PLACE = 4
"""Form and place of the stamp in a serialised message."""
_SHAPES = 16
"""Shapes that are looked for among messages of one length before each is parsed by itself."""


@dataclass(frozen=True)
class Messages:
    """
    Serialised messages of one topic in one buffer, in order.

    Attributes
    ----------
    buffer:
        (m,) bytes of the messages, with anything else between them.
    starts, lengths:
        (n,) first byte and number of bytes of each.
    times:
        (n,) receive times [ns].
    senders:
        (n, 2) channel of the file and sequence number of each; None where the file has none.

    """

    buffer: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    times: np.ndarray
    senders: np.ndarray | None = None

    @classmethod
    def from_bytes(
        cls,
        messages: Sequence[bytes],
        times: Sequence[int] | np.ndarray,
        senders: np.ndarray | None = None,
    ) -> Messages:
        """Concatenate separate messages, received at ``times`` [ns]."""
        lengths = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        return cls(
            np.frombuffer(b''.join(messages), dtype=np.uint8),
            np.cumsum(lengths) - lengths,
            lengths,
            np.asarray(times, dtype=np.int64),
            senders,
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, place: int) -> bytes:
        start = int(self.starts[place])
        return self.buffer[start : start + int(self.lengths[place])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self[place] for place in range(len(self)))

    def select(self, keep: np.ndarray | slice) -> Messages:
        """Return some of them, in the order of ``keep``; the buffer stays."""
        return replace(
            self,
            starts=self.starts[keep],
            lengths=self.lengths[keep],
            times=self.times[keep],
            senders=None if self.senders is None else self.senders[keep],
        )

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return messages of one length as (n, length) bytes; a view if they are equidistant."""
        starts, length = self.starts[places], int(self.lengths[places][0])
        step = int(starts[1] - starts[0]) if len(starts) > 1 else length
        if step > 0 and (np.diff(starts) == step).all():
            return np.ndarray(
                (len(starts), length), np.uint8, self.buffer, int(starts[0]), (step, 1)
            )
        if length == 0:
            return np.empty((len(starts), 0), np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(self.buffer, length)
        return windows[starts]


@dataclass(frozen=True)
class JointStates:
    """
    Messages as rows; NaN and False for values that a message does not have.

    Attributes
    ----------
    stamp, received:
        (n,) header stamps and receive times [ns].
    values, present:
        (n, k) numbers by signal, one column for each wanted name, and their presence.
    names:
        All names that occur.

    """

    stamp: np.ndarray
    received: np.ndarray
    values: dict[str, np.ndarray]
    present: dict[str, np.ndarray]
    names: tuple[str, ...]

    def select(self, rows: np.ndarray | slice) -> JointStates:
        """Return some of the rows."""
        return JointStates(
            self.stamp[rows],
            self.received[rows],
            {name: array[rows] for name, array in self.values.items()},
            {name: array[rows] for name, array in self.present.items()},
            self.names,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[JointStates]) -> JointStates:
        """Concatenate rows."""
        return cls(
            np.concatenate([part.stamp for part in parts]),
            np.concatenate([part.received for part in parts]),
            {k: np.concatenate([part.values[k] for part in parts]) for k in SIGNALS},
            {k: np.concatenate([part.present[k] for part in parts]) for k in SIGNALS},
            parts[-1].names,
        )


@dataclass(frozen=True)
class Shape:
    """
    Offsets of the numbers in messages of one length.

    Attributes
    ----------
    names:
        Names in the message's order.
    places:
        (offset in bytes, number of float64) by signal; an empty signal has none.
    mask:
        (length,) 255 for the bytes that messages of this shape have in common, 0 for all others.

    """

    names: tuple[str, ...]
    places: dict[str, tuple[int, int]]
    mask: np.ndarray


class NotJointState(Exception):
    """A message that cannot be parsed: its index and the reason."""

    def __init__(self, place: int, reason: object) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


def decode(messages: Messages, wanted: dict[str, tuple[str, ...]], number: int = 0) -> JointStates:
    """
    Decode serialised joint states to one row each, in order.

    Parameters
    ----------
    messages:
        Serialised in CDR, with their receive times.
    wanted:
        Names of the columns by signal (`SIGNALS`); of equal names in a message, the first counts.
    number:
        Number of messages before these, for the error.

    Raises
    ------
    ValueError
        naming number and receive time of a message that is no joint state.

    """
    n_rows = len(messages)
    stamp = np.zeros(n_rows, dtype=np.int64)
    values = {name: np.full((n_rows, len(wanted[name])), np.nan) for name in SIGNALS}
    present = {name: np.zeros((n_rows, len(wanted[name])), dtype=bool) for name in SIGNALS}
    seen: dict[str, None] = {}
    try:
        for rows, block, shape in _groups(_in_little_endian(messages)):
            numbers = block[:, STAMP_PLACE : STAMP_PLACE + 8].view('<u4')
            seconds = numbers[:, 0].view('<i4').astype(np.int64)
            stamp[rows] = seconds * 1_000_000_000 + numbers[:, 1]
            seen.update(dict.fromkeys(shape.names))
            for name, (offset, count) in shape.places.items():
                data = block[:, offset : offset + 8 * count].view('<f8')
                names = shape.names[:count]
                for column, joint in enumerate(wanted[name]):
                    if joint in names:
                        values[name][rows, column] = data[:, names.index(joint)]
                        present[name][rows, column] = True
    except NotJointState as error:
        time = messages.times[error.place] * 1e-9
        raise ValueError(
            f'message {number + error.place}, received at {time:.9f} s, is not a joint state '
            f'({error.reason})'
        ) from error
    return JointStates(stamp, messages.times, values, present, tuple(seen))


def shape_of(message: bytes, place: int = 0) -> Shape:
    """Parse a message in little-endian CDR; ``place`` is its index in `NotJointState`."""
    parser = _Parser(message)
    try:
        parser.text()
        count = parser.count()
        if count > len(message):
            raise ValueError(f'{count} names')
        names = tuple(parser.text() for _ in range(count))
        if odd := next(filter(has_control, names), None):
            raise ValueError(f'the name {odd[:80]!a} has control characters')
        places = {}
        for signal in SIGNALS:
            count = parser.count()
            if count:
                places[signal] = (parser.numbers(count), count)
        if parser.place > len(message):
            raise ValueError(f'{len(message)} bytes')
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise NotJointState(place, error) from error
    return Shape(names, places, parser.mask)


class _Parser:
    """Parser of a message that marks the bytes that its shape fixes."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.place = STAMP_PLACE + STAMP.size
        self.mask = np.zeros(len(message), dtype=np.uint8)
        self.mask[:2] = 255

    def count(self) -> int:
        """Read a length."""
        (count,) = struct.unpack_from('<I', self.message, self._skip(4, 4))
        return int(count)

    def text(self) -> str:
        """Read a string."""
        length = self.count()
        begin = self._skip(length)
        if self.place > len(self.message):
            raise ValueError(f'text of {length} bytes')
        text = self.message[begin : self.place]
        if text[-1:] not in (b'\x00', b''):
            raise ValueError('text without its closing zero')
        return text[:-1].decode()

    def numbers(self, count: int) -> int:
        """Skip float64 and return their offset."""
        return self._skip(8 * count, 8, fixed=False)

    def _skip(self, length: int, alignment: int = 1, *, fixed: bool = True) -> int:
        """Align, advance by a length, and return where that began."""
        begin = self.place + (4 - self.place) % alignment
        self.place = begin + length
        if fixed:
            self.mask[begin : self.place] = 255
        return begin


def _in_little_endian(messages: Messages) -> Messages:
    """Serialise messages again that are in another encapsulation than little-endian CDR."""
    whole = np.flatnonzero(messages.lengths >= 4)
    starts = messages.starts[whole]
    other = whole[(messages.buffer[starts] != 0) | (messages.buffer[starts + 1] != 1)]
    if not len(other):
        return messages
    store = typestore()
    data = list(messages)
    for i in other.tolist():
        try:
            state = store.deserialize_cdr(data[i], JOINT_STATE)
            data[i] = bytes(store.serialize_cdr(state, JOINT_STATE))
        except Exception as error:  # rosbags lets errors of struct and assertions through
            raise NotJointState(i, error) from error
    return Messages.from_bytes(data, messages.times, messages.senders)


@cache
def typestore() -> Any:
    """Return rosbags' store of message types; raises IdentificationError without rosbags."""
    purpose = 'definitions of message types, big-endian messages and those in JSON'
    with importing('rosbags', purpose):
        from rosbags.typesys import get_typestore, Stores
    return get_typestore(Stores.ROS2_JAZZY)


def _groups(messages: Messages) -> Iterator[tuple[np.ndarray, np.ndarray, Shape]]:
    """Iterate over messages of one shape: their rows, (n, length) bytes, and the shape."""
    for length in np.unique(messages.lengths):
        rows = np.flatnonzero(messages.lengths == length)
        for _ in range(_SHAPES):
            if not len(rows):
                break
            block = messages.rows(rows)
            shape = shape_of(block[0].tobytes(), int(rows[0]))
            fixed = block & shape.mask
            equal = fixed == fixed[0]
            if equal.all():
                yield rows, block, shape
                rows = rows[:0]
                break
            same = equal.all(axis=1)
            yield rows[same], block[same], shape
            rows = rows[~same]
        for i in rows.tolist():
            row = np.array([i])
            yield row, messages.rows(row), shape_of(messages[i], i)


# --------------------------------------------------------------------------- JSON


def from_json(messages: Messages) -> Messages:
    """
    Return messages in JSON, as Foxglove writes them, as serialised joint states.

    They are those of ROS as objects, or ``foxglove.JointStates``: a ``timestamp`` and a list
    ``joints`` of name, position, velocity and effort, each of which but the name may be missing.
    A message without a stamp has the time of its receipt.  Raises ValueError for other contents.
    """
    states = [
        _from_object(json.loads(data), time)
        for data, time in zip(messages, messages.times.tolist(), strict=True)
    ]
    return Messages.from_bytes(states, messages.times, messages.senders)


def _from_object(state: Any, received: int) -> bytes:
    if not isinstance(state, Mapping):
        raise ValueError('a message is no JSON object')
    header = state.get('header')
    stamp = state.get('timestamp', header.get('stamp') if isinstance(header, Mapping) else None)
    names, signals = state.get('name', ()), [state.get(signal, ()) for signal in SIGNALS]
    if 'joints' in state:
        names = [joint['name'] for joint in state['joints']]
        signals = [[joint.get(signal) for joint in state['joints']] for signal in SIGNALS]
    store = typestore()
    time = store.types['builtin_interfaces/msg/Time'](*_json_time(stamp, received))
    message = store.types[JOINT_STATE](
        store.types['std_msgs/msg/Header'](time, ''),
        [str(name) for name in names],
        *(_json_numbers(values) for values in signals),
    )
    return bytes(store.serialize_cdr(message, JOINT_STATE))


def _json_time(stamp: Any, received: int) -> tuple[int, int]:
    """Return seconds and nanoseconds."""
    if stamp is None:
        return divmod(received, 10**9)
    if isinstance(stamp, Mapping):
        seconds = stamp.get('sec', stamp.get('secs'))
        rest = next((stamp[key] for key in ('nanosec', 'nsec', 'nsecs') if key in stamp), 0)
        whole = isinstance(seconds, int) and isinstance(rest, int)
        if whole and -(2**31) <= seconds < 2**31 and 0 <= rest < 10**9:
            return seconds, rest
    raise ValueError('a message has a stamp that is none')


def _json_numbers(values: Sequence[Any]) -> np.ndarray:
    """Return numbers, NaN for a missing one; none where all are missing."""
    if all(value is None for value in values):
        return np.empty(0)
    return np.array([math.nan if value is None else float(value) for value in values])
