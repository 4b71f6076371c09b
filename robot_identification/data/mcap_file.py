# SPDX-License-Identifier: Apache-2.0
"""
Messages of finished mcap files (https://mcap.dev/spec), chunk by chunk as arrays.

The `mcap` library takes records apart, one at a time.  Where they begin is found here: lengths in
a file of strangers may be wrong, and the library would go through the message indices, which are
not needed, entry by entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
import struct
from typing import BinaryIO, NamedTuple
from zlib import crc32

from mcap.exceptions import EndOfFile, McapError
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
)
from mcap.stream_reader import StreamReader
import numpy as np

from ..untrusted.decompression import decompress
from ..untrusted.files import open_regular
from .messages import Messages

MAGIC = b'\x89MCAP0\r\n'
HEAD = struct.Struct('<BQ')
"""Opcode and length, with which every record begins."""

IN_CHUNKS = (int(Opcode.SCHEMA), int(Opcode.CHANNEL), int(Opcode.MESSAGE))
"""Records that chunks consist of."""

_IN_SUMMARY = {
    Opcode.SCHEMA,
    Opcode.CHANNEL,
    Opcode.STATISTICS,
    Opcode.CHUNK_INDEX,
    Opcode.METADATA_INDEX,
}
_FOOTER_SIZE = 29
_FIELDS = 22  # bytes of a message record before its data

ERRORS = (ValueError, OverflowError, struct.error, McapError)
"""Raised where a record cannot be taken apart."""

Select = Callable[[str, str], bool]
"""Tells by a topic's name and type whether its messages are wanted."""


class Part(NamedTuple):
    """Bytes of a file that are a record, or several outside of chunks, with the first opcode."""

    start: int
    length: int
    opcode: int

    @property
    def end(self) -> int:
        """Place behind it."""
        return self.start + self.length


@dataclass(frozen=True)
class McapFile:
    """
    Summary of a finished file, in the library's records.

    Attributes
    ----------
    path:
        The file.
    schemas, channels:
        By number.
    chunks:
        Index of its chunks.
    metadata:
        Index of its metadata records.
    statistics:
        Counts and times of its messages.

    """

    path: Path
    schemas: Mapping[int, Schema]
    channels: Mapping[int, Channel]
    chunks: tuple[ChunkIndex, ...]
    metadata: tuple[MetadataIndex, ...]
    statistics: Statistics

    @property
    def is_indexed(self) -> bool:
        """True if every message is in a chunk that the index names."""
        return bool(self.chunks) or not self.statistics.message_count

    @property
    def topics(self) -> dict[str, str]:
        """Types of the topics."""
        return {c.topic: type_of(c, self.schemas) for c in self.channels.values()}

    def count(self, select: Select) -> int:
        """Return how many messages there are according to the statistics."""
        counts = self.statistics.channel_message_counts
        return sum(counts.get(number, 0) for number in self._selected(select))

    def notes(self, name: str) -> Mapping[str, str]:
        """Return the last metadata record of a name; raises as `open_mcap`."""
        found = [index for index in self.metadata if index.name == name]
        if not found:
            return {}
        with open_regular(self.path) as stream:
            part = Part(found[-1].offset, found[-1].length, int(Opcode.METADATA))
            record = parsed(stream, part)
        return record.metadata if isinstance(record, Metadata) else {}

    def messages(self, select: Select) -> Iterator[Messages]:
        """
        Iterate over messages in the order in which they were received.

        Messages of the same time come in the order of the file.

        Yields
        ------
        The messages, about a chunk at a time.

        Raises
        ------
        ValueError
            where a chunk is damaged; others of `ERRORS` where a record cannot be taken apart.
            What cannot be decompressed raises errors of lz4 and zstd, each its own.

        """
        wanted = self._selected(select)
        chunks = [
            chunk
            for chunk in sorted(
                self.chunks, key=lambda chunk: (chunk.message_start_time, chunk.chunk_start_offset)
            )
            if not chunk.message_index_offsets or wanted & chunk.message_index_offsets.keys()
        ]
        with open_regular(self.path, buffering=0) as stream:
            yield from _in_order((chunk, _loaded(stream, chunk, wanted)) for chunk in chunks)

    def _selected(self, select: Select) -> set[int]:
        channels = self.channels.values()
        return {c.id for c in channels if select(c.topic, type_of(c, self.schemas))}


def open_mcap(path: Path) -> McapFile | None:
    """
    Read the summary of a file.

    Returns
    -------
    McapFile
        None where there is no summary, or one without statistics.

    Raises
    ------
    OSError, ValueError
        where it cannot be read, or the index is wrong; others of `ERRORS` where a record cannot be
        taken apart.

    """
    with open_regular(path) as stream:
        place = _summary_place(stream)
        if place is None:
            return None
        parts = [part for part in parts_of(stream, *place) if part.opcode in _IN_SUMMARY]
        records = [parsed(stream, part) for part in parts]
        size = stream.seek(0, 2)
    statistics = next((r for r in records if isinstance(r, Statistics)), None)
    chunks = tuple(record for record in records if isinstance(record, ChunkIndex))
    if statistics is None:
        return None
    _require_apart(chunks, size)
    return McapFile(
        path,
        {record.id: record for record in records if isinstance(record, Schema)},
        {record.id: record for record in records if isinstance(record, Channel)},
        chunks,
        tuple(record for record in records if isinstance(record, MetadataIndex)),
        statistics,
    )


def has_end(path: Path) -> bool:
    """Tell whether a file ends as a finished mcap file does."""
    with open_regular(path) as stream:
        stream.seek(0, 2)
        stream.seek(-min(len(MAGIC), stream.tell()), 2)
        return stream.tell() > 0 and stream.read() == MAGIC


def header_of(path: Path) -> Header:
    """Return who wrote a file for which profile; that of ROS 2 where the header is cut off."""
    record: McapRecord | None = None
    with open_regular(path) as stream:
        try:
            part = next(parts_of(stream, len(MAGIC), stream.seek(0, 2)))
            record = parsed(stream, part) if part.opcode == Opcode.HEADER else None
        except (StopIteration, *ERRORS):
            pass
    return record if isinstance(record, Header) else Header('ros2', '')


# ------------------------------------------------------------------------------------ records


def parts_of(stream: BinaryIO, begin: int, end: int) -> Iterator[Part]:
    """Iterate over the records between two places by their heads; the last one may be cut."""
    place = begin
    while place + HEAD.size <= end:
        stream.seek(place)
        opcode, length = HEAD.unpack(stream.read(HEAD.size))
        yield Part(place, HEAD.size + length, opcode)
        place += HEAD.size + length


def bytes_of(stream: BinaryIO, part: Part) -> bytes:
    """Return the bytes of a part; raises ValueError where they are not inside the file."""
    if part.end > stream.seek(0, 2):
        raise ValueError(f'{part.length} bytes from byte {part.start} on are not in the file')
    stream.seek(part.start)
    return stream.read(part.length)


def parsed(stream: BinaryIO, part: Part) -> McapRecord:
    """Take a record apart; raises ValueError where it is not of that kind and length."""
    data = bytes_of(stream, part)
    if len(data) < HEAD.size or HEAD.unpack_from(data) != (part.opcode, len(data) - HEAD.size):
        raise ValueError(f'the record at byte {part.start} is not the one that is expected')
    return next(_records(data))


def all_parsed(data: bytes) -> Iterator[McapRecord]:
    """Take whole records apart that stand behind one another."""
    try:
        yield from _records(data)
    except EndOfFile:
        return


def _records(data: bytes) -> Iterator[McapRecord]:
    # chunks in it stay compressed: the library would expand them without limit
    return iter(StreamReader(BytesIO(data), skip_magic=True, emit_chunks=True).records)


def type_of(channel: Channel, schemas: Mapping[int, Schema]) -> str:
    """Return the type of a channel's messages, with their encoding where that is not CDR."""
    schema = schemas.get(channel.schema_id)
    kind = '' if schema is None else schema.name
    return kind if channel.message_encoding == 'cdr' else f'{kind} in {channel.message_encoding}'


def _summary_place(stream: BinaryIO) -> tuple[int, int] | None:
    """Return where the summary of a finished file begins and ends; None where there is none."""
    end = stream.seek(0, 2) - len(MAGIC) - _FOOTER_SIZE
    if end < len(MAGIC):
        return None
    footer = parsed(stream, Part(end, _FOOTER_SIZE, int(Opcode.FOOTER)))
    if not isinstance(footer, Footer) or footer.summary_start == 0:
        return None
    if not len(MAGIC) < footer.summary_start <= end:
        raise ValueError('its summary is not inside the file')
    return footer.summary_start, end


def _require_apart(chunks: tuple[ChunkIndex, ...], size: int) -> None:
    """Raise where chunks overlap: a small file could stand for a very large one."""
    places = sorted((c.chunk_start_offset, c.chunk_start_offset + c.chunk_length) for c in chunks)
    if any(end > start for (_, end), (start, _) in pairwise([*places, (size, size)])):
        raise ValueError('its index has a chunk twice, or behind its end')


# ------------------------------------------------------------------------------------ chunks


def records_of(chunk: Chunk) -> bytes:
    """Return the records of a chunk; raises ValueError where they are not what was written."""
    size = chunk.uncompressed_size
    data = decompress(chunk.compression, memoryview(chunk.data), size)
    if len(data) != size or (chunk.uncompressed_crc and crc32(data) != chunk.uncompressed_crc):
        raise ValueError('the checksum of a chunk is wrong')
    return data if isinstance(data, bytes) else chunk.data


@dataclass(frozen=True)
class Places:
    """(n,) first bytes of the messages in a chunk, and (first, last + 1) of other records."""

    messages: np.ndarray
    others: tuple[tuple[int, int], ...]


def places_of(records: bytes) -> Places:
    """Find the records of a chunk; raises ValueError where one is cut or too short."""
    messages, others = array('q'), []
    place, end = 0, len(records)
    unpack, head, message = HEAD.unpack_from, HEAD.size, int(Opcode.MESSAGE)
    while place + head <= end:
        opcode, length = unpack(records, place)
        following = place + head + length
        if opcode == message:
            if length < _FIELDS:
                raise ValueError(f'a message record has {length} bytes')
            messages.append(place)
        elif opcode in IN_CHUNKS:
            others.append((place, following))
        place = following
    if place != end:
        raise ValueError('a record does not end in its chunk')
    return Places(np.frombuffer(messages, dtype=np.int64), tuple(others))


def messages_of(records: bytes, places: np.ndarray, channels: set[int]) -> Messages:
    """Return the messages of some channels, of those that begin at (n,) places."""
    data = np.frombuffer(records, dtype=np.uint8)
    wanted = np.isin(_numbers(data, '<u2')[places + HEAD.size], list(channels))
    if not wanted.all():
        places = places[wanted]
    lengths = _numbers(data, '<i8')[places + 1] - _FIELDS
    times = _numbers(data, '<i8')[places + HEAD.size + 6]
    return Messages(data, places + HEAD.size + _FIELDS, lengths, times)


def _numbers(data: np.ndarray, kind: str) -> np.ndarray:
    """Return the numbers of a kind that begin at each of the bytes, as a view."""
    count = max(0, len(data) - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, data, 0, (1,))


def _loaded(stream: BinaryIO, index: ChunkIndex, channels: set[int]) -> Messages:
    """Read a chunk; return its messages in the order of their times."""
    place = Part(index.chunk_start_offset, index.chunk_length, int(Opcode.CHUNK))
    chunk = parsed(stream, place)
    assert isinstance(chunk, Chunk)
    records = records_of(chunk)
    messages = messages_of(records, places_of(records).messages, channels)
    if (np.diff(messages.times) < 0).any():
        messages = messages.select(np.argsort(messages.times, kind='stable'))
    return messages


def _in_order(chunks: Iterator[tuple[ChunkIndex, Messages]]) -> Iterator[Messages]:
    """Merge the messages of chunks that are sorted by their first time and place."""
    held = Messages.of([], [])
    origins = np.empty(0, dtype=np.int64)
    for chunk, messages in chunks:
        first, origin = chunk.message_start_time, chunk.chunk_start_offset
        earlier = (held.times < first) | ((held.times == first) & (origins < origin))
        done = int(earlier.sum())
        if done:
            yield held.select(slice(0, done))
        if done == len(held):
            held, origins = messages, np.full(len(messages), origin)
            continue
        held = Messages.joined([held.select(slice(done, None)).compact(), messages])
        origins = np.append(origins[done:], np.full(len(messages), origin))
        order = np.lexsort((origins, held.times))
        held, origins = held.select(order), origins[order]
    if len(held):
        yield held
