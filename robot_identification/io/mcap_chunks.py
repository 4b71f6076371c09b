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

from .mcap_records import MESSAGE, MESSAGE_INDEX, read_string
from .messages import Messages

_HEAD = 9
_FIELDS = 22
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
        data = decompressed(self.compression, self.data)
        if len(data) != self.size or (self.checksum and crc32(data) != self.checksum):
            raise ValueError('the checksum of a chunk is wrong')
        return np.frombuffer(data, dtype=np.uint8)


def decompressed(compression: str, data: memoryview) -> bytes | memoryview:
    """Return the bytes that were compressed; raises ValueError for an unknown compression."""
    if compression == '':
        return data
    if compression == 'lz4':
        from lz4.frame import decompress
    elif compression == 'zstd':
        try:
            from compression.zstd import decompress
        except ImportError:
            from backports.zstd import decompress
    else:
        raise ValueError(f"compression '{compression}' is not known")
    return decompress(data)


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


def messages_of(records: np.ndarray, index: np.ndarray, channels: np.ndarray) -> Messages:
    """
    Find the messages of some channels in the records of a chunk.

    Parameters
    ----------
    records:
        (m,) bytes.
    index:
        (n,) ascending places at which messages are said to begin; may be empty or wrong.
    channels:
        Numbers of the channels that are wanted.

    Returns
    -------
    Messages
        All of them, in the order of the file.

    Raises
    ------
    ValueError
        where the records are not whole.

    """
    places = _verified(records, index)
    if places is None:
        places = np.array(_walk(records, 0, len(records)), dtype=np.int64)
    lengths = _numbers(records, '<i8')[places + 1]
    if len(places) and lengths.min() < _FIELDS:
        raise ValueError(f'a message record has {lengths.min()} bytes')
    wanted = np.isin(_numbers(records, '<u2')[places + _HEAD], channels)
    if not wanted.all():
        places, lengths = places[wanted], lengths[wanted]
    times = _numbers(records, '<i8')[places + _HEAD + 6]
    return Messages(records, places + _HEAD + _FIELDS, lengths - _FIELDS, times)


def _verified(records: np.ndarray, index: np.ndarray) -> np.ndarray | None:
    """Return where all messages begin if the index is right; None where it is not."""
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
    bounds = [(0, int(index[0])), *zip(ends[gaps].tolist(), following[gaps].tolist())]
    try:
        missing = [place for begin, end in bounds for place in _walk(records, begin, end)]
    except ValueError:
        return None
    return np.union1d(index, missing).astype(np.int64) if missing else index


def _walk(records: np.ndarray, begin: int, end: int) -> list[int]:
    """Return where the message records between two places begin, one record after another."""
    places, place, data = [], begin, records.data
    while place + _HEAD <= end:
        opcode, length = _head.unpack_from(data, place)
        if opcode == MESSAGE:
            places.append(place)
        place += _HEAD + length
    if place != end:
        raise ValueError('a record does not end in its chunk')
    return places


def _numbers(records: np.ndarray, kind: str) -> np.ndarray:
    """Return the numbers of a kind that begin at each of the bytes, as a view."""
    count = max(0, len(records) - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, records, 0, (1,))
