# SPDX-License-Identifier: Apache-2.0
"""
Serialised ``sensor_msgs/msg/JointState`` messages to arrays, many at a time or as they arrive.

A publisher nearly always sends the same names in the same order, so that its messages differ in
the stamp and in the numbers only.  One message is taken apart; all others that have the same
header, frame, names and numbers of values are then read as columns of one array: every message is
held against it, as rows of bytes.  CDR aligns numbers to their own size, counted from the end of
the four-byte header; strings carry their length and a closing zero (OMG DDS-XTypes).  What fills
the gaps of the alignment means nothing and may differ.

A message that has all but its stamp and its numbers in common with the one before it is read from
the same places; any other one is taken apart anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
import struct
from typing import Any, NamedTuple

import numpy as np

from ..errors import one_of, RecordingError
from .messages import Messages

SIGNALS = ('position', 'velocity', 'effort')

_LITTLE_ENDIAN = b'\x00\x01'
_STAMP = slice(4, 12)
_SHAPES = 16  # so many shapes of messages are looked for at a time
_ALIGNMENT = 8  # gaps shorter than a number are left by the alignment


@dataclass(frozen=True)
class JointStates:
    """
    Messages as rows; NaN and False where a message has no such value.

    Attributes
    ----------
    stamp:
        (n,) header stamps [ns].
    values, present:
        (n, k) numbers by signal, one column for each wanted name, and whether a message has them.
    names:
        All names that occur.

    """

    stamp: np.ndarray
    values: dict[str, np.ndarray]
    present: dict[str, np.ndarray]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """
    Offsets of the numbers in a message.

    Attributes
    ----------
    names:
        Names in the message's order.
    places:
        (offset in bytes, number of float64) by signal; an empty signal has none.
    fixed:
        (first, last + 1) bytes that messages of the same shape have in common.

    """

    names: tuple[str, ...]
    places: dict[str, tuple[int, int]]
    fixed: tuple[tuple[int, int], ...]


def decode(messages: Messages, wanted: dict[str, tuple[str, ...]], number: int = 0) -> JointStates:
    """
    Read serialised joint states.

    Parameters
    ----------
    messages:
        In CDR.
    wanted:
        Names of the columns by signal (`SIGNALS`).
    number:
        How many messages there were before, for errors.

    Returns
    -------
    One row a message, in order.

    Raises
    ------
    ValueError
        where a message is not a joint state; tells which one and when it was received.

    """
    n_rows = len(messages)
    stamp = np.zeros(n_rows, dtype=np.int64)
    values = {name: np.full((n_rows, len(wanted[name])), np.nan) for name in SIGNALS}
    present = {name: np.zeros((n_rows, len(wanted[name])), dtype=bool) for name in SIGNALS}
    seen: dict[str, None] = {}
    try:
        for rows, block, shape in _alike(messages, np.arange(n_rows)):
            numbers = block[:, _STAMP].view('<u4')
            seconds = numbers[:, 0].view('<i4')
            stamp[rows] = seconds.astype(np.int64) * 1_000_000_000 + numbers[:, 1]
            seen.update(dict.fromkeys(shape.names))
            for name, (offset, count) in shape.places.items():
                data = block[:, offset : offset + 8 * count].view('<f8')
                _fill(values[name], present[name], rows, data, wanted[name], shape.names[:count])
    except NotJointState as error:
        time = messages.times[error.place] * 1e-9
        raise ValueError(
            f'message {number + error.place}, received at {time:.9f} s, is not a joint state '
            f'({error.reason})'
        ) from error
    return JointStates(stamp, values, present, tuple(seen))


def _fill(
    values: np.ndarray,
    present: np.ndarray,
    rows: np.ndarray | slice,
    data: np.ndarray,
    wanted: tuple[str, ...],
    names: tuple[str, ...],
) -> None:
    """Take the columns that are wanted; where a name occurs twice, the first one counts."""
    pairs = [(at, names.index(joint)) for at, joint in enumerate(wanted) if joint in names]
    columns, sources = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if len(columns) == len(wanted):
        values[rows] = data[:, sources]
        present[rows] = True
        return
    for column, source in pairs:
        values[rows, column] = data[:, source]
        present[rows, column] = True


class NotJointState(Exception):
    """A message that cannot be taken apart: its place among those given, and why."""

    def __init__(self, place: int, reason: object) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


_Group = tuple[np.ndarray | slice, np.ndarray, Shape]


def _alike(messages: Messages, places: np.ndarray) -> Iterator[_Group]:
    """Iterate over (rows, their bytes as (n, length) array, shape) of messages alike."""
    lengths = messages.lengths
    if len(lengths) and (lengths == lengths[0]).all():
        yield from _of_one_length(messages.rows(), slice(None), places)
        return
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        yield from _of_one_length(messages.rows(rows), rows, places[rows])


def _of_one_length(
    block: np.ndarray, rows: np.ndarray | slice, places: np.ndarray
) -> Iterator[_Group]:
    for _ in range(_SHAPES):
        if len(block) == 0:
            return
        if block[0, :2].tobytes() != _LITTLE_ENDIAN:
            same = (block[:, :2] == block[0, :2]).all(axis=1)
            yield from _converted(block[same], _some(rows, same), places[same])
        else:
            shape = shape_of(block[0].tobytes(), int(places[0]))
            if _all_same(block, shape):
                yield rows, block, shape
                return
            same = _same(block, shape)
            yield _some(rows, same), block[same], shape
        rows, block, places = _some(rows, ~same), block[~same], places[~same]
    for i, row in enumerate(_some(rows, np.ones(len(block), dtype=bool))):
        yield from _of_one_length(block[i : i + 1], np.array([row]), places[i : i + 1])


def _some(rows: np.ndarray | slice, which: np.ndarray) -> np.ndarray:
    return np.flatnonzero(which) if isinstance(rows, slice) else rows[which]


def _all_same(block: np.ndarray, shape: Shape) -> bool:
    """
    Tell whether all rows have the bytes in common that the shape asks for.

    What fills the gaps of the alignment is the same in most recordings, and then fewer and longer
    runs are compared.
    """
    runs = [shape.fixed[0]]
    for begin, end in shape.fixed[1:]:
        if begin - runs[-1][1] < _ALIGNMENT:
            begin = runs.pop()[0]
        runs.append((begin, end))
    return all(_is_constant(block[:, begin:end]) for begin, end in runs) or bool(
        _same(block, shape).all()
    )


def _is_constant(part: np.ndarray) -> bool:
    width = part.shape[1]
    if width in (2, 4, 8):
        part = part.view(f'u{width}')
    return bool((part == part[0]).all())


def _same(block: np.ndarray, shape: Shape) -> np.ndarray:
    """Tell for each row whether it has these bytes in common with the first one."""
    fixed = np.concatenate([np.arange(begin, end) for begin, end in shape.fixed])
    return (block == block[0])[:, fixed].all(axis=1)


class _Walk:
    """Goes through a message, and notes the bytes that messages of its shape share."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.place = 12
        self.fixed = [(0, 2)]

    def count(self) -> int:
        """Read a length."""
        self.place = _aligned(self.place, 4)
        (count,) = struct.unpack_from('<I', self.message, self.place)
        self._note(4)
        return int(count)

    def text(self) -> str:
        """Read a string."""
        length = self.count()
        if self.place + length > len(self.message):
            raise ValueError(f'text of {length} bytes')
        text = self.message[self.place : self.place + length]
        if text[-1:] not in (b'\x00', b''):
            raise ValueError('text without its closing zero')
        self._note(length)
        return text[:-1].decode()

    def numbers(self, count: int) -> int:
        """Pass over float64 and return where they begin."""
        begin = _aligned(self.place, 8)
        self.place = begin + 8 * count
        return begin

    def _note(self, length: int) -> None:
        begin, self.place = self.place, self.place + length
        if length and self.fixed[-1][1] == begin:
            begin = self.fixed.pop()[0]
        if length:
            self.fixed.append((begin, self.place))


def shape_of(message: bytes, place: int = 0) -> Shape:
    """
    Take one message apart.

    Parameters
    ----------
    message:
        In little-endian CDR.
    place:
        Which one it is, for the error.

    Raises
    ------
    NotJointState
        where it is not a joint state.

    """
    walk = _Walk(message)
    try:
        walk.text()
        count = walk.count()
        if count > len(message):
            raise ValueError(f'{count} names')
        names = tuple(walk.text() for _ in range(count))
        places = {}
        for signal in SIGNALS:
            count = walk.count()
            if count:
                places[signal] = (walk.numbers(count), count)
        if walk.place > len(message):
            raise ValueError(f'{len(message)} bytes')
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise NotJointState(place, error) from error
    return Shape(names, places, tuple(walk.fixed))


def _aligned(place: int, size: int) -> int:
    return (place - 4 + size - 1) // size * size + 4


def _converted(block: np.ndarray, rows: np.ndarray, places: np.ndarray) -> Iterator[_Group]:
    """Serialise messages again that a machine with the other byte order wrote."""
    kind = 'sensor_msgs/msg/JointState'
    store = _type_store()
    converted = []
    for row, place in zip(block, places, strict=True):
        try:
            message = store.deserialize_cdr(row.tobytes(), kind)
        except Exception as error:  # rosbags lets errors of struct and assertions through
            raise NotJointState(int(place), error) from error
        converted.append(bytes(store.serialize_cdr(message, kind)))
    messages = Messages.of(converted, np.zeros(len(converted), dtype=np.int64))
    for among, data, shape in _alike(messages, places):
        yield rows[among], data, shape


@cache
def _type_store() -> Any:
    from rosbags.typesys import get_typestore, Stores

    return get_typestore(Stores.ROS2_JAZZY)


_STAMP_PARTS = struct.Struct('<iI')
_HEAD, _LITTLE_ENDIAN = 4, b'\x00\x01'


class ForeignStateError(RecordingError):
    """A joint state of something else: it has none of the joints."""


class MissingEffortError(RecordingError):
    """A joint state whose efforts are not one for each name: none at all, mostly."""


class JointValues(NamedTuple):
    """
    One joint state.

    Attributes
    ----------
    stamp:
        [ns].
    position, effort:
        (n,) in the order that was asked for.

    """

    stamp: int
    position: np.ndarray
    effort: np.ndarray


class _Layout(NamedTuple):
    """Offsets of the numbers in a message, and the bytes that must be equal for them."""

    length: int
    fixed: tuple[tuple[slice, bytes], ...]
    position: tuple[int, int]
    effort: tuple[int, int]


class JointStateStream:
    """
    Reads the messages of one topic.

    Parameters
    ----------
    joints:
        Names of the n joints, in the order wanted.

    """

    def __init__(self, joints: Sequence[str]) -> None:
        self._joints = tuple(joints)
        self._layout: _Layout | None = None
        self._order = np.arange(0)

    def read(self, message: bytes) -> JointValues:
        """
        Read a message.

        Raises
        ------
        RecordingError
            naming the joint or the signal that is missing; saying that it is no joint state.
        ForeignStateError, MissingEffortError
            where it has none of the joints, or no efforts.

        """
        layout = self._layout
        if layout is None or not _fits(message, layout):
            layout = self._learn(message)
        sec, nanosec = _STAMP_PARTS.unpack_from(message, _HEAD)
        begin, count = layout.position
        position = np.frombuffer(message, '<f8', count, begin)[self._order]
        begin, count = layout.effort
        effort = np.frombuffer(message, '<f8', count, begin)[self._order]
        return JointValues(sec * 1_000_000_000 + nanosec, position, effort)

    def _learn(self, message: bytes) -> _Layout:
        """Take a message apart, and keep what others like it have in common with it."""
        self._layout = None
        try:
            if bytes(message[:2]) != _LITTLE_ENDIAN:
                raise ValueError('byte order')
            shape = shape_of(bytes(message), 0)
        except (NotJointState, ValueError) as error:
            raise RecordingError(
                f'a message of {len(message)} bytes is no joint state of this byte order',
                value=len(message),
                remedy='see who publishes what on the topic',
            ) from error
        names, places = shape.names, shape.places
        self._order = self._columns(names, {name: places.get(name, (0, 0))[1] for name in SIGNALS})
        # all but the stamp and the numbers
        marks = [_HEAD + _STAMP_PARTS.size]
        for begin, count in sorted(places.values()):
            marks += [begin, begin + 8 * count]
        marks.append(len(message))
        runs = [slice(0, 2)] + [slice(a, b) for a, b in zip(marks[::2], marks[1::2]) if b > a]
        self._layout = _Layout(
            len(message),
            tuple((run, bytes(message[run])) for run in runs),
            places['position'],
            places['effort'],
        )
        return self._layout

    def _columns(self, names: tuple[str, ...], counts: Mapping[str, int]) -> np.ndarray:
        if not set(names).intersection(self._joints):
            raise ForeignStateError(
                f"joint '{self._joints[0]}' is not in the joint states, nor is any other one",
                joint=self._joints[0],
                remedy=f'they have {one_of(names)}',
            )
        for joint in self._joints:
            if names.count(joint) != 1:
                twice = joint in names
                raise RecordingError(
                    f"joint '{joint}' is named twice in the joint states"
                    if twice
                    else f"joint '{joint}' is not in the joint states",
                    joint=joint,
                    remedy='repair the driver, or see who else publishes on the topic'
                    if twice
                    else f'they have {one_of(names)}',
                )
        for signal in ('position', 'effort'):
            if counts[signal] != len(names):
                raise (MissingEffortError if signal == 'effort' else RecordingError)(
                    f'the joint states have {len(names)} names but {counts[signal]} values of '
                    f'{signal}',
                    value=counts[signal],
                    remedy='have the driver publish one value a name',
                )
        return np.array([names.index(joint) for joint in self._joints])


def _fits(message: bytes, layout: _Layout) -> bool:
    return len(message) == layout.length and all(
        message[run] == same for run, same in layout.fixed
    )
