# SPDX-License-Identifier: Apache-2.0
"""
Messages of an mcap file that has no end: its recorder was killed, or the power failed.

There is no summary then, so the file is gone through from its start (https://mcap.dev/spec).  Of
the chunk that was being written, the messages that are whole are taken; what is missing is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
import struct
from typing import BinaryIO

import numpy as np

from ..untrusted.files import open_regular
from .mcap_chunks import (
    beginning,
    Chunk,
    index_of,
    messages_of,
    places_of,
    unwritten,
    whole_records,
)
from .mcap_records import (
    CHANNEL,
    CHUNK,
    DATA_END,
    FOOTER,
    MAGIC,
    MESSAGE,
    MESSAGE_INDEX,
    METADATA,
    read_string,
    SCHEMA,
)
from .messages import Messages

_HEAD = struct.Struct('<BQ')
_LOOSE = 1 << 20
"""Bytes of messages outside of chunks that are taken together."""


@dataclass(frozen=True)
class Part:
    """Bytes of the file: a chunk with its index, metadata, or other records outside of chunks."""

    start: int
    length: int
    kind: int
    index_length: int = 0

    @property
    def is_chunk(self) -> bool:
        """True if the record is a chunk."""
        return self.kind == CHUNK


@dataclass(frozen=True)
class Remains:
    """
    Recoverable part of a file.

    Attributes
    ----------
    path:
        The file.
    parts:
        What is whole.
    cut:
        Records of the chunk that was being written.
    told:
        In words, how far it can be read and what is missing.

    """

    path: Path
    parts: tuple[Part, ...]
    cut: np.ndarray
    told: str


def has_end(path: Path) -> bool:
    """Tell whether a file ends as a finished mcap file does."""
    with open_regular(path) as stream:
        stream.seek(0, 2)
        stream.seek(-min(len(MAGIC), stream.tell()), 2)
        return stream.tell() > 0 and stream.read() == MAGIC


def remains_of(path: Path) -> Remains:
    """Go through an unfinished file, without reading its messages."""
    with open_regular(path) as stream:
        size = stream.seek(0, 2)
        if size < len(MAGIC):
            told = f'has only {size} of its first {len(MAGIC)} bytes' if size else 'is empty'
            return Remains(path, (), np.empty(0, dtype=np.uint8), told)
        parts, end = _parts(stream, size)
        told = 'only its index is missing'
        if end < size:
            told = f'{size - end} bytes follow that are no whole record'
        cut = np.empty(0, dtype=np.uint8)
        chunk = _last_chunk(stream, parts, end, size)
        if chunk is not None:
            start, content = chunk
            if start < end:
                parts, end = parts[:-1], start
            cut = _rescued(content)
            told = (
                f'of {content.size} bytes of messages that were being written, received until '
                f'{1e-9 * content.last:.3f} s, {content.size - len(cut)} are missing'
            )
    kind = 'message' if len(cut) else 'chunk'
    told = f'read up to its last complete {kind} ({end} of {size} bytes are whole); {told}'
    return Remains(path, tuple(parts), cut, told)


@dataclass
class _Channels:
    """The channels that were declared so far, and which of them are wanted."""

    is_wanted: Callable[[str, str], bool]
    found: dict[str, str]
    types: dict[int, str] = field(default_factory=dict)
    wanted: list[int] = field(default_factory=list)

    def declare(self, records: np.ndarray, places: tuple[int, ...]) -> None:
        data = records.data
        for place in places:
            opcode, length = _HEAD.unpack_from(data, place)
            body = data[place + _HEAD.size : place + _HEAD.size + length]
            if opcode == SCHEMA:
                (number,) = struct.unpack_from('<H', body)
                self.types[number] = read_string(body, 2)[0]
            elif opcode == CHANNEL:
                number, schema = struct.unpack_from('<HH', body)
                topic, _ = read_string(body, 4)
                self.found[topic] = self.types.get(schema, '')
                if self.is_wanted(topic, self.found[topic]) and number not in self.wanted:
                    self.wanted.append(number)


def recovered_messages(
    remains: Remains, is_wanted: Callable[[str, str], bool], found: dict[str, str]
) -> Iterator[Messages]:
    """
    Iterate over the messages of an unfinished file in the order of the file.

    Parameters
    ----------
    remains:
        From `remains_of`.
    is_wanted:
        Tells whether a topic of a type is wanted.
    found:
        Gets the topics that are met, and their types.

    Yields
    ------
    The messages, about a chunk at a time.

    Raises
    ------
    ValueError
        where a chunk is damaged.

    """
    channels = _Channels(is_wanted, found)
    with open_regular(remains.path) as stream:
        for part in remains.parts:
            if part.kind == METADATA:
                continue
            stream.seek(part.start)
            data = memoryview(stream.read(part.length + part.index_length))
            if part.is_chunk:
                records = Chunk.of(data[_HEAD.size : part.length]).records()
                index = index_of(data[part.length :])
            else:
                records, index = np.frombuffer(data, dtype=np.uint8), np.empty(0, dtype=np.int64)
            yield from _wanted(records, index, channels)
    yield from _wanted(remains.cut, np.empty(0, dtype=np.int64), channels)


def _wanted(records: np.ndarray, index: np.ndarray, channels: _Channels) -> Iterator[Messages]:
    places = places_of(records, index)
    channels.declare(records, places.others)
    messages = messages_of(records, places.messages, np.array(channels.wanted))
    if len(messages):
        yield messages


def _parts(stream: BinaryIO, size: int) -> tuple[list[Part], int]:
    """Return the parts that are whole and where the last whole record ends."""
    parts: list[Part] = []
    place = stream.seek(len(MAGIC))
    while place + _HEAD.size <= size:
        opcode, length = _HEAD.unpack(stream.read(_HEAD.size))
        end = place + _HEAD.size + length
        if opcode in (DATA_END, FOOTER) or end > size or not 0 < opcode <= DATA_END:
            if not 0 < opcode <= DATA_END:
                _require_zeros(stream, place)
            break
        last = parts[-1] if parts else None
        if opcode in (CHUNK, METADATA):
            parts.append(Part(place, end - place, opcode))
        elif opcode == MESSAGE_INDEX and last is not None and last.is_chunk:
            parts[-1] = replace(last, index_length=end - last.start - last.length)
        elif opcode in (SCHEMA, CHANNEL, MESSAGE):
            if last is None or last.kind != MESSAGE or last.start + last.length != place:
                last = None
            if last is not None and last.length < _LOOSE:
                parts[-1] = replace(last, length=end - last.start)
            else:
                parts.append(Part(place, end - place, MESSAGE))
        place = stream.seek(end)
    return parts, place


def _require_zeros(stream: BinaryIO, place: int) -> None:
    """Raise where there is anything but zeros from here on, which no power loss leaves."""
    stream.seek(place)
    while data := stream.read(_LOOSE):
        if data.strip(b'\x00'):
            raise ValueError(f'there is no record at byte {place}')


def _last_chunk(
    stream: BinaryIO, parts: list[Part], end: int, size: int
) -> tuple[int, Chunk] | None:
    """
    Return where the chunk begins that was being written, and the chunk; None where there is none.

    That is the one behind the whole records, or the last one if its checksum tells that not all of
    its bytes reached the disk.
    """
    stream.seek(end)
    data = memoryview(stream.read(max(0, size - end)))
    if len(data) > _HEAD.size and data[0] == CHUNK:
        try:
            return end, Chunk.of(data[_HEAD.size :])
        except (struct.error, ValueError):
            return None
    if not parts or not parts[-1].is_chunk:
        return None
    stream.seek(parts[-1].start)
    chunk = Chunk.of(memoryview(stream.read(parts[-1].length))[_HEAD.size :])
    try:
        chunk.records()
    except Exception:  # of lz4 and zstd, each its own
        return parts[-1].start, chunk
    return None


def _rescued(chunk: Chunk) -> np.ndarray:
    """Return the records that are whole in a chunk of which something is missing."""
    records = beginning(chunk.compression, chunk.data, chunk.size)
    if len(records) == chunk.size and unwritten(records) is None:
        return records[:0]  # some byte is wrong, and nothing tells which
    return whole_records(records)
