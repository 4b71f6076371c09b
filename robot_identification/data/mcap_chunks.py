# SPDX-License-Identifier: Apache-2.0
"""
The messages in a chunk of an mcap file, found all at once.

A chunk is a row of records of different lengths, so that where one begins is known only from all
before it.  The chunk's message index tells where the messages are; that each of these places holds
a message and ends where the next one begins is then verified for all of them together, and what
lies between them is gone through record by record.  So the index saves time and is not relied on.
"""

from __future__ import annotations

from dataclasses import dataclass
import struct
from zlib import crc32

import numpy as np

from ..untrusted.decompression import (
    decompress,
    decompressor,
    require_plausible,
)
from .mcap_records import (
    CHANNEL,
    MESSAGE,
    MESSAGE_INDEX,
    read_string,
    SCHEMA,
)
from .messages import Messages

_HEAD = 9
_FIELDS = 22
_SECTOR = 512
_PIECE = 4096
_head = struct.Struct('<BQ')


@dataclass(frozen=True)
class Chunk:
    """
    The content of a chunk record.

    Attributes
    ----------
    first, last:
        Earliest and latest time at which a message in it was received [ns].
    size:
        Bytes of its records.
    checksum:
        Theirs; 0 for none.
    compression:
        ``lz4``, ``zstd`` or empty.
    data:
        The records as they are stored, possibly fewer bytes than there should be.

    """

    first: int
    last: int
    size: int
    checksum: int
    compression: str
    data: memoryview

    @classmethod
    def of(cls, body: memoryview) -> Chunk:
        """Take the body of a chunk record apart."""
        first, last, size, checksum = struct.unpack_from('<QQQI', body)
        compression, place = read_string(body, 28)
        (stored,) = struct.unpack_from('<Q', body, place)
        return cls(first, last, size, checksum, compression, body[place + 8 : place + 8 + stored])

    def records(self) -> np.ndarray:
        """Return its records as bytes; raises ValueError where they are not what was written."""
        data = decompress(self.compression, self.data, self.size)
        if len(data) != self.size or (self.checksum and crc32(data) != self.checksum):
            raise ValueError('the checksum of a chunk is wrong')
        return np.frombuffer(data, dtype=np.uint8)


def beginning(compression: str, data: memoryview, size: int) -> np.ndarray:
    """Return what can be had of compressed bytes whose end is missing, ``size`` at most."""
    if compression not in ('lz4', 'zstd'):
        return np.frombuffer(data if compression == '' else b'', dtype=np.uint8)
    require_plausible(size, len(data))
    stream = decompressor(compression)
    parts: list[bytes] = []
    left = size
    try:
        for begin in range(0, len(data), _PIECE):
            if left <= 0:
                break
            parts.append(stream.decompress(data[begin : begin + _PIECE], left))
            left -= len(parts[-1])
    except Exception:  # of lz4 and zstd, each its own: what came before is what can be had
        pass
    return np.frombuffer(b''.join(parts), dtype=np.uint8)


def index_of(body: memoryview) -> np.ndarray:
    """
    Return where a chunk's messages begin, after the message index that follows it.

    Parameters
    ----------
    body:
        The message index records of all channels behind one another.

    Returns
    -------
    (n,) ascending places in the chunk's records; as far as the index can be read.

    """
    parts, place = [np.empty(0, dtype=np.int64)], 0
    while place + _HEAD + 6 <= len(body):
        opcode, length = _head.unpack_from(body, place)
        if opcode != MESSAGE_INDEX:
            break
        (size,) = struct.unpack_from('<I', body, place + _HEAD + 2)
        pairs = body[place + _HEAD + 6 : place + _HEAD + 6 + size // 16 * 16]
        parts.append(np.frombuffer(pairs[: len(pairs) // 16 * 16], '<i8').reshape(-1, 2)[:, 1])
        place += _HEAD + length
    places = np.concatenate(parts)
    return places if (np.diff(places) > 0).all() else np.unique(places)


@dataclass(frozen=True)
class Places:
    """Offsets of the messages of a chunk, ascending, and of its other records."""

    messages: np.ndarray
    others: tuple[int, ...]


def places_of(records: np.ndarray, index: np.ndarray) -> Places:
    """
    Find the records of a chunk.

    Parameters
    ----------
    records:
        (m,) bytes.
    index:
        (n,) ascending places at which messages are said to begin; may be empty or wrong.

    Raises
    ------
    ValueError
        where the last record does not end with the bytes.

    """
    places = _verified(records, index)
    if places is None:
        messages, others = _walk(records, 0, len(records))
        places = Places(np.array(messages, dtype=np.int64), tuple(others))
    return places


def messages_of(records: np.ndarray, places: np.ndarray, channels: np.ndarray) -> Messages:
    """
    Return the messages of some channels in the order of the file.

    Parameters
    ----------
    records:
        (m,) bytes.
    places:
        (n,) where message records begin in them.
    channels:
        Numbers of the channels that are wanted.

    Raises
    ------
    ValueError
        where a message record is too short to be one.

    """
    lengths = _numbers(records, '<i8')[places + 1]
    if len(places) and lengths.min() < _FIELDS:
        raise ValueError(f'a message record has {lengths.min()} bytes')
    numbers = _numbers(records, '<u2')[places + _HEAD]
    wanted = np.zeros(len(places), dtype=bool)
    for channel in channels:
        wanted |= numbers == channel
    if not wanted.all():
        places, lengths = places[wanted], lengths[wanted]
    times = _numbers(records, '<i8')[places + _HEAD + 6]
    return Messages(records, places + _HEAD + _FIELDS, lengths - _FIELDS, times)


def channels_and_times(records: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Tell of messages on which channels they came and when they were received.

    Parameters
    ----------
    records:
        (m,) bytes.
    places:
        (n,) where message records begin in them.

    Returns
    -------
    channels, times:
        (n,) numbers, and (n,) times [ns].

    """
    channels = _numbers(records, '<u2')[places + _HEAD]
    return channels, _numbers(records, '<i8')[places + _HEAD + 6]


def _verified(records: np.ndarray, index: np.ndarray) -> Places | None:
    """Return where all records begin if the index is right; None where it is not."""
    size = len(records)
    if len(index) == 0 or index[0] < 0 or index[-1] + _HEAD + _FIELDS > size:
        return None
    lengths = _numbers(records, '<i8')[index + 1]
    if (records[index] != MESSAGE).any() or lengths.min() < 0 or lengths.max() > size:
        return None
    ends = index + _HEAD + lengths
    following = np.append(index[1:], size)
    if (ends > following).any():
        return None
    gaps = np.flatnonzero(ends < following)
    missing: list[int] = []
    others: list[int] = []
    try:
        for begin, end in [
            (0, int(index[0])),
            *zip(ends[gaps].tolist(), following[gaps].tolist(), strict=True),
        ]:
            among, beside = _walk(records, begin, end)
            missing += among
            others += beside
    except ValueError:
        return None
    return Places(np.union1d(index, missing).astype(np.int64) if missing else index, tuple(others))


def _walk(records: np.ndarray, begin: int, end: int) -> tuple[list[int], list[int]]:
    """Return where messages and others begin between two places, one record after another."""
    messages: list[int] = []
    others: list[int] = []
    place, data = begin, records.data
    while place + _HEAD <= end:
        opcode, length = _head.unpack_from(data, place)
        (messages if opcode == MESSAGE else others).append(place)
        place += _HEAD + length
    if place != end:
        raise ValueError('a record does not end in its chunk')
    return messages, others


def unwritten(records: np.ndarray) -> int | None:
    """Return where the first zeros begin that fill a sector of a disk; None for none."""
    place = records.tobytes().find(bytes(_SECTOR))
    return None if place < 0 else place


def whole_records(records: np.ndarray) -> np.ndarray:
    """
    Return the part of a chunk's first bytes that is whole records.

    They cannot be held against the chunk's checksum.  From the first zeros on that fill a disk's
    sector, everything is left out: there the disk had not written yet.
    """
    place, data = 0, records.data
    end = unwritten(records)
    end = len(records) if end is None else end
    while place + _HEAD <= end:
        opcode, length = _head.unpack_from(data, place)
        if opcode not in (SCHEMA, CHANNEL, MESSAGE) or place + _HEAD + length > end:
            break
        place += _HEAD + length
    return records[:place]


def _numbers(records: np.ndarray, kind: str) -> np.ndarray:
    """Return the numbers of a kind that begin at each of the bytes, as a view."""
    count = max(0, len(records) - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, records, 0, (1,))
