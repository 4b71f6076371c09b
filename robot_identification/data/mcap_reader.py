# SPDX-License-Identifier: Apache-2.0
"""
Messages of a finished mcap file (https://mcap.dev/spec), chunk by chunk as arrays.

What is unusual (no summary, no statistics, no chunks) is not read here but left to `rosbags`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
import struct
from typing import BinaryIO

import numpy as np

from ..untrusted.files import open_regular
from .mcap_chunks import (
    Chunk,
    index_of,
    messages_of,
    places_of,
)
from .mcap_records import (
    CHANNEL,
    CHUNK,
    CHUNK_INDEX,
    MAGIC,
    read_string,
    read_summary,
    read_within,
    records_of,
    SCHEMA,
    STATISTICS,
)
from .messages import Messages

_ENCODINGS = ('ros2msg', 'ros2idl', 'omgidl', '')


@dataclass(frozen=True)
class Channel:
    """A channel: its number, topic and type, and how many messages it has."""

    number: int
    topic: str
    type: str
    count: int


@dataclass(frozen=True)
class ChunkPlace:
    """Place, time range and channels of a chunk and its index."""

    first: int
    last: int
    start: int
    length: int
    channels: frozenset[int]
    index_length: int


@dataclass(frozen=True)
class McapFile:
    """Summary of a finished file."""

    path: Path
    channels: tuple[Channel, ...]
    chunks: tuple[ChunkPlace, ...]
    first: int
    last: int


def open_mcap(path: Path) -> McapFile | None:
    """
    Read the summary of a file.

    Parameters
    ----------
    path:
        The file.

    Returns
    -------
    What it says; None where there is none, or anything unusual in it.

    """
    try:
        with open_regular(path) as stream:
            summary = _summary(stream)
            return None if summary is None else _file(path, summary)
    except (OSError, struct.error, ValueError, LookupError):
        return None


def check_summary(path: Path) -> None:
    """
    Raise where a finished file has a summary that is wrong.

    Raises
    ------
    OSError, struct.error, ValueError, LookupError
        where it cannot be read.

    """
    with open_regular(path) as stream:
        summary = _summary(stream)
        if summary is not None:
            _file(path, summary)


def mcap_messages(file: McapFile, channels: tuple[Channel, ...]) -> Iterator[Messages]:
    """
    Iterate over the messages of some channels in the order in which they were received.

    Messages of the same time come in the order of the file.

    Parameters
    ----------
    file:
        From `open_mcap`.
    channels:
        Which of its channels.

    Yields
    ------
    The messages, about a chunk at a time.

    Raises
    ------
    ValueError
        where a chunk is damaged.

    """
    numbers = np.array([channel.number for channel in channels])
    chunks = [
        chunk
        for chunk in sorted(file.chunks, key=lambda chunk: (chunk.first, chunk.start))
        if not chunk.channels or not chunk.channels.isdisjoint(numbers.tolist())
    ]
    held = _Held()
    with open_regular(file.path, buffering=0) as stream:
        for chunk in chunks:
            yield from held.before(chunk.first, chunk.start)
            held.add(_loaded(stream, chunk, numbers), chunk.start)
    yield from held.rest()


class _Held:
    """Messages that may have others between them, of chunks that overlap in time."""

    def __init__(self) -> None:
        self._messages: Messages | None = None
        self._origins = np.empty(0, dtype=np.int64)

    def add(self, messages: Messages, origin: int) -> None:
        """Take the messages of the chunk at ``origin``, in the order of their times."""
        origins = np.full(len(messages), origin)
        if self._messages is None:
            self._messages, self._origins = messages, origins
            return
        joined = Messages.joined([self._messages.compact(), messages])
        origins = np.concatenate([self._origins, origins])
        order = np.lexsort((origins, joined.times))
        self._messages, self._origins = joined.select(order), origins[order]

    def before(self, first: int, origin: int) -> Iterator[Messages]:
        """Give the messages that come before any of the chunk at ``origin``."""
        if self._messages is None:
            return
        times = self._messages.times
        begin, end = np.searchsorted(times, first), np.searchsorted(times, first, side='right')
        stop = int(begin + np.searchsorted(self._origins[begin:end], origin))
        if stop == len(times):
            yield from self.rest()
        elif stop:
            yield self._messages.select(slice(0, stop))
            self._messages = self._messages.select(slice(stop, None))
            self._origins = self._origins[stop:]

    def rest(self) -> Iterator[Messages]:
        """Give all that are left."""
        messages, self._messages = self._messages, None
        if messages is not None and len(messages):
            yield messages


def _loaded(stream: BinaryIO, chunk: ChunkPlace, channels: np.ndarray) -> Messages:
    """Read a chunk and its index; return its messages in the order of their times."""
    data = read_within(stream, chunk.start, chunk.length + chunk.index_length)
    if not len(data) or data[0] != CHUNK:
        raise ValueError('a chunk is not where the index places it')
    content = Chunk.of(data[9 : chunk.length])
    records = content.records()
    places = places_of(records, index_of(data[chunk.length :]))
    messages = messages_of(records, places.messages, channels)
    if (np.diff(messages.times) < 0).any():
        messages = messages.select(np.argsort(messages.times, kind='stable'))
    return messages


def _summary(stream: BinaryIO) -> memoryview | None:
    """Return the summary of a file of ROS 2 messages; None where there is none."""
    head = stream.read(len(MAGIC) + 9)
    if head[: len(MAGIC) + 1] != MAGIC + b'\x01':
        return None
    (length,) = struct.unpack_from('<Q', head, len(MAGIC) + 1)
    profile, _ = read_string(memoryview(stream.read(min(length, 1 << 16))), 0)
    return read_summary(stream) if profile == 'ros2' else None


def _file(path: Path, summary: memoryview) -> McapFile | None:
    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    chunks: list[ChunkPlace] = []
    statistics: memoryview | None = None
    for opcode, body in records_of(summary):
        if opcode == SCHEMA:
            (number,) = struct.unpack_from('<H', body)
            schemas[number], at = read_string(body, 2)
            if read_string(body, at)[0] not in _ENCODINGS:
                return None
        elif opcode == CHANNEL:
            number, schema = struct.unpack_from('<HH', body)
            topic, at = read_string(body, 4)
            channels[number] = (topic, schemas[schema])
            if read_string(body, at)[0] != 'cdr':
                return None
        elif opcode == CHUNK_INDEX:
            chunks.append(_chunk_place(body))
        elif opcode == STATISTICS:
            statistics = body
    if statistics is None or not chunks or not channels:
        return None
    size = path.stat().st_size
    if any(chunk.start + chunk.length + chunk.index_length > size for chunk in chunks):
        raise ValueError('its index has a chunk behind its end')
    if len({chunk.start for chunk in chunks}) < len(chunks):
        raise ValueError('its index has a chunk twice')
    first, last, size = struct.unpack_from('<QQI', statistics, 26)
    counts = dict(struct.iter_unpack('<HQ', statistics[46 : 46 + size]))
    found = (Channel(n, *told, counts.get(n, 0)) for n, told in channels.items())
    return McapFile(path, tuple(found), tuple(chunks), first, last)


def _chunk_place(body: memoryview) -> ChunkPlace:
    first, last, start, length, size = struct.unpack_from('<QQQQI', body)
    channels = frozenset(number for number, _ in struct.iter_unpack('<HQ', body[36 : 36 + size]))
    (index_length,) = struct.unpack_from('<Q', body, 36 + size)
    return ChunkPlace(first, last, start, length, channels, index_length)
