# SPDX-License-Identifier: Apache-2.0
"""
Serialised ``sensor_msgs/msg/JointState`` messages to arrays, many at a time.

A publisher nearly always sends the same names in the same order, so that its messages differ in
the stamp and in the numbers only.  One message is taken apart; all others that have the same bytes
elsewhere are then read as columns of one array.  CDR aligns numbers to their own size, counted
from the end of the four-byte header; strings carry their length and a closing zero (OMG
DDS-XTypes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
import struct
from typing import Any

import numpy as np

SIGNALS = ('position', 'velocity', 'effort')

_LITTLE_ENDIAN = b'\x00\x01'
_STAMP = slice(4, 12)
_SHAPES = 16  # so many shapes of messages are looked for at a time


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
class _Shape:
    """
    Where the numbers of a message are.

    Attributes
    ----------
    names:
        Names in the message's order.
    places:
        (offset in bytes, number of float64) by signal; an empty signal has none.

    """

    names: tuple[str, ...]
    places: dict[str, tuple[int, int]]


def decode(messages: Sequence[bytes], wanted: dict[str, tuple[str, ...]]) -> JointStates:
    """
    Read serialised joint states.

    Parameters
    ----------
    messages:
        In CDR.
    wanted:
        Names of the columns by signal (`SIGNALS`).

    Returns
    -------
    One row a message, in order.

    Raises
    ------
    ValueError
        where a message is not a joint state.

    """
    n_rows = len(messages)
    stamp = np.zeros(n_rows, dtype=np.int64)
    values = {name: np.full((n_rows, len(wanted[name])), np.nan) for name in SIGNALS}
    present = {name: np.zeros((n_rows, len(wanted[name])), dtype=bool) for name in SIGNALS}
    seen: dict[str, None] = {}
    for rows, block, shape in _alike(messages):
        stamps = np.ascontiguousarray(block[:, _STAMP])
        seconds, nanoseconds = stamps.view('<i4')[:, 0], stamps.view('<u4')[:, 1]
        stamp[rows] = seconds.astype(np.int64) * 1_000_000_000 + nanoseconds
        seen.update(dict.fromkeys(shape.names))
        for name, (offset, count) in shape.places.items():
            # where a name occurs twice in a message, the first one counts
            pairs = [
                (column, shape.names.index(joint))
                for column, joint in enumerate(wanted[name])
                if joint in shape.names[:count]
            ]
            if pairs:
                data = np.ascontiguousarray(block[:, offset : offset + 8 * count]).view('<f8')
                columns, sources = (list(part) for part in zip(*pairs, strict=True))
                values[name][np.ix_(rows, columns)] = data[:, sources]
                present[name][np.ix_(rows, columns)] = True
    return JointStates(stamp, values, present, tuple(seen))


def _alike(messages: Sequence[bytes]) -> Iterator[tuple[np.ndarray, np.ndarray, _Shape]]:
    """Iterate over (rows, their bytes as (n, length) array, shape) of messages alike."""
    messages = [_little_endian(message) for message in messages]
    lengths = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        joined = b''.join([messages[row] for row in rows])
        block = np.frombuffer(joined, dtype=np.uint8).reshape(len(rows), length)
        for _ in range(_SHAPES):
            if len(rows) == 0:
                break
            shape = _shape(messages[rows[0]])
            same = (block == block[0])[:, _fixed(length, shape)].all(axis=1)
            yield rows[same], block[same], shape
            rows, block = rows[~same], block[~same]
        for row, message in zip(rows, block, strict=True):
            yield np.array([row]), message[None], _shape(messages[row])


def _fixed(length: int, shape: _Shape) -> np.ndarray:
    """Places of the bytes that two messages alike have in common."""
    fixed = np.ones(length, dtype=bool)
    fixed[_STAMP] = False
    for offset, count in shape.places.values():
        fixed[offset : offset + 8 * count] = False
    return np.flatnonzero(fixed)


def _shape(message: bytes) -> _Shape:
    """Take one message apart."""
    try:
        _, place = _string(message, 12)
        (count,), place = _unpack('<I', message, place, 4)
        if count > len(message):
            raise ValueError(f'{count} names')
        names = []
        for _ in range(count):
            name, place = _string(message, place)
            names.append(name)
        places = {}
        for signal in SIGNALS:
            (count,), place = _unpack('<I', message, place, 4)
            if count:
                place = _aligned(place, 8)
                places[signal] = (place, count)
                place += 8 * count
        if place > len(message):
            raise ValueError(f'{len(message)} bytes')
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f'a message is not a joint state ({error})') from error
    return _Shape(tuple(names), places)


def _aligned(place: int, size: int) -> int:
    return (place - 4 + size - 1) // size * size + 4


def _unpack(form: str, message: bytes, place: int, size: int) -> tuple[tuple, int]:
    place = _aligned(place, size)
    return struct.unpack_from(form, message, place), place + struct.calcsize(form)


def _string(message: bytes, place: int) -> tuple[str, int]:
    (length,), place = _unpack('<I', message, place, 4)
    if place + length > len(message):
        raise ValueError(f'text of {length} bytes')
    return message[place : place + length].rstrip(b'\x00').decode(), place + length


def _little_endian(message: bytes) -> bytes:
    """Serialise a message again that a machine with the other byte order wrote."""
    if message[:2] == _LITTLE_ENDIAN:
        return message
    kind = 'sensor_msgs/msg/JointState'
    store = _type_store()
    return bytes(store.serialize_cdr(store.deserialize_cdr(message, kind), kind))


@cache
def _type_store() -> Any:
    from rosbags.typesys import get_typestore, Stores

    return get_typestore(Stores.ROS2_JAZZY)
