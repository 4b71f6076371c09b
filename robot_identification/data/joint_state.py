# SPDX-License-Identifier: Apache-2.0
"""
Decoding of ``sensor_msgs/msg/JointState`` messages, many at once or one by one, and from JSON.

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
from typing import Any, NamedTuple

import numpy as np

from ..errors import one_of, RecordingError
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

_LITTLE_ENDIAN = b'\x00\x01'
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
    def of(
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
    stamp:
        (n,) header stamps [ns].
    values, present:
        (n, k) numbers by signal, one column for each wanted name, and their presence.
    names:
        All names that occur.

    """

    stamp: np.ndarray
    values: dict[str, np.ndarray]
    present: dict[str, np.ndarray]
    names: tuple[str, ...]

    def select(self, rows: np.ndarray | slice) -> JointStates:
        """Return some of the rows."""
        return JointStates(
            self.stamp[rows],
            {name: array[rows] for name, array in self.values.items()},
            {name: array[rows] for name, array in self.present.items()},
            self.names,
        )

    @classmethod
    def joined(cls, parts: Sequence[JointStates]) -> JointStates:
        """Concatenate rows."""
        return cls(
            np.concatenate([part.stamp for part in parts]),
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
        In CDR.
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
    return JointStates(stamp, values, present, tuple(seen))


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
    return Messages.of(data, messages.times, messages.senders)


@cache
def typestore() -> Any:
    """Return rosbags' store of message types."""
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
    return Messages.of(states, messages.times, messages.senders)


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


# --------------------------------------------------------------------------- one by one


class ForeignStateError(RecordingError):
    """Joint state of another device: it has none of the joints."""


class MissingEffortError(RecordingError):
    """Joint state whose efforts are not one a name: none at all, mostly."""


class JointValues(NamedTuple):
    """
    One joint state: stamp [ns]; (n,) position and effort in the order that was asked for.

    The effort is empty where it is missing and that is allowed.
    """

    stamp: int
    position: np.ndarray
    effort: np.ndarray


class JointStateStream:
    """
    Decoder of the messages of one topic as they arrive.

    A message that equals the one before in all but stamp and numbers is not parsed again.

    Parameters
    ----------
    joints:
        Names of the n joints, in the order wanted.
    needs_effort:
        Whether a message without efforts is refused.

    """

    def __init__(self, joints: Sequence[str], needs_effort: bool = True) -> None:
        self._joints, self._needs_effort = tuple(joints), needs_effort
        self._shape: Shape | None = None
        self._fixed = b''
        self._order = np.arange(0)

    def read(self, message: bytes) -> JointValues:
        """
        Decode a message.

        Raises
        ------
        RecordingError
            naming the joint or signal that is missing, or for what is no joint state.
        ForeignStateError, MissingEffortError
            for a message with none of the joints, or without efforts.

        """
        shape = self._shape
        alike = shape is not None and len(message) == len(shape.mask)
        if shape is None or not alike or _fixed(message, shape) != self._fixed:
            shape = self._learn(message)
        seconds, nanoseconds = STAMP.unpack_from(message, STAMP_PLACE)
        begin, count = shape.places['position']
        position = np.frombuffer(message, '<f8', count, begin)[self._order]
        begin, count = shape.places.get('effort', (0, 0))
        effort = np.frombuffer(message, '<f8', count, begin)[self._order[:count]]
        return JointValues(seconds * 1_000_000_000 + nanoseconds, position, effort)

    def _learn(self, message: bytes) -> Shape:
        """Parse a message, and keep it to compare others with."""
        self._shape = None
        try:
            if bytes(message[:2]) != _LITTLE_ENDIAN:
                raise NotJointState(0, 'byte order')
            shape = shape_of(bytes(message))
        except NotJointState as error:
            raise RecordingError(
                f'a message of {len(message)} bytes is no joint state of this byte order '
                f'({error.reason})',
                value=len(message),
                remedy='see who publishes what on the topic',
            ) from error
        self._require_joints(shape)
        self._order = np.array([shape.names.index(joint) for joint in self._joints])
        self._shape, self._fixed = shape, _fixed(message, shape)
        return shape

    def _require_joints(self, shape: Shape) -> None:
        names, they_have = shape.names, f'they have {one_of(shape.names)}'
        if not set(names).intersection(self._joints):
            joint = self._joints[0]
            text = f"joint '{joint}' is not in the joint states, nor is any other one"
            raise ForeignStateError(text, joint=joint, remedy=they_have)
        for joint in self._joints:
            if joint not in names:
                text = f"joint '{joint}' is not in the joint states"
                raise RecordingError(text, joint=joint, remedy=they_have)
            if names.count(joint) > 1:
                text = f"joint '{joint}' is named twice in the joint states"
                remedy = 'repair the driver, or see who else publishes on the topic'
                raise RecordingError(text, joint=joint, remedy=remedy)
        for signal in ('position', 'effort'):
            count = shape.places.get(signal, (0, 0))[1]
            is_spare = signal == 'effort' and not (count or self._needs_effort)
            if count != len(names) and not is_spare:
                text = f'the joint states have {len(names)} names but {count} values of {signal}'
                remedy = 'have the driver publish one value a name'
                kind = MissingEffortError if signal == 'effort' else RecordingError
                raise kind(text, value=count, remedy=remedy)


def _fixed(message: bytes, shape: Shape) -> bytes:
    """Return the bytes that messages of a shape have in common, with zeros between them."""
    return (np.frombuffer(message, np.uint8) & shape.mask).tobytes()


def require_numbers(
    values: np.ndarray, signal: str, joints: Sequence[str], bound: float = math.inf
) -> None:
    """Raise `RecordingError` naming a joint whose value, of (n,), is not below a bound."""
    wrong = np.flatnonzero(~(np.abs(values) < bound))
    if wrong.size:
        joint, value = joints[wrong[0]], float(values[wrong[0]])
        raise RecordingError(
            f"{signal} of joint '{joint}' is {value:g} in the joint states",
            joint=joint,
            value=value,
            remedy='see what the driver reports',
        )
