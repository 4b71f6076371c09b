# SPDX-License-Identifier: Apache-2.0
"""
Messages of mcap files (https://mcap.dev/spec), a chunk at a time as arrays.

`McapFile` reads a finished file by its index, `McapScan` any other from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    ChunkIndex,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
)
import numpy as np

from ..untrusted.files import open_regular
from .mcap_records import (
    bytes_of,
    chunk_at,
    ERRORS,
    IN_CHUNKS,
    MAGIC,
    messages_of,
    parsed,
    Part,
    parts_of,
    places_of,
    records_in,
    records_of,
    type_of,
)
from .messages import Messages

_FOOTER_SIZE = 29
_PIECE = 1 << 20
"""Bytes of messages outside of chunks that are read together."""

Select = Callable[[str, str], bool]
"""Return true for the topic names and types whose messages are wanted."""


@dataclass(frozen=True)
class McapFile:
    """
    Summary of a finished file.

    Attributes
    ----------
    path:
        The file.
    schemas, channels:
        Records by number.
    chunks, metadata:
        Indices of its chunks and metadata records.
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
        """True if the index has the chunks of all messages."""
        return bool(self.chunks) or not self.statistics.message_count

    @property
    def topics(self) -> dict[str, str]:
        """Types of the topics."""
        return {c.topic: type_of(c, self.schemas) for c in self.channels.values()}

    def count(self, select: Select) -> int:
        """Return the number of messages by the statistics."""
        counts = self.statistics.channel_message_counts
        return sum(counts.get(number, 0) for number in self._selected(select))

    def notes(self, name: str) -> Mapping[str, str]:
        """Return the last metadata record of a name; raises as `open_mcap`."""
        found = [index for index in self.metadata if index.name == name]
        if not found:
            return {}
        with open_regular(self.path) as stream:
            record = parsed(stream, Part(found[-1].offset, found[-1].length, Opcode.METADATA))
        return record.metadata if isinstance(record, Metadata) else {}

    def messages(self, select: Select) -> Iterator[Messages]:
        """
        Iterate over messages by receive time, then by place in the file, about a chunk at a time.

        Raises
        ------
        ValueError
            for a damaged chunk; others of `mcap_records.ERRORS` for a record that cannot be
            parsed.  Data that cannot be decompressed raises errors of lz4 and zstd.

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
    Read the summary of a file; None if it has none, or one without statistics.

    Raises
    ------
    OSError, ValueError
        for a file that cannot be read, or a wrong index; others of `mcap_records.ERRORS` for a
        record that cannot be parsed.

    """
    with open_regular(path) as stream:
        place = _summary_place(stream)
        if place is None:
            return None
        kinds = (Schema, Channel, Statistics, ChunkIndex, MetadataIndex)
        found: dict[type, list[Any]] = {kind: [] for kind in kinds}
        for part in parts_of(stream, *place):
            # chunks and message indices may be large, and do not belong here
            if part.opcode not in (Opcode.CHUNK, Opcode.MESSAGE_INDEX, Opcode.ATTACHMENT):
                for record in records_in(bytes_of(stream, part)):
                    found.get(type(record), []).append(record)
        size = stream.seek(0, 2)
    if not found[Statistics]:
        return None
    chunks = tuple(found[ChunkIndex])
    _require_apart(chunks, size)
    return McapFile(
        path,
        {record.id: record for record in found[Schema]},
        {record.id: record for record in found[Channel]},
        chunks,
        tuple(found[MetadataIndex]),
        found[Statistics][0],
    )


def begins_as_mcap(path: Path) -> bool:
    """Return true for a file that begins as mcap files do."""
    with open_regular(path) as stream:
        return stream.read(len(MAGIC)) == MAGIC


def has_end(path: Path) -> bool:
    """Return true for a file that ends as finished mcap files do."""
    with open_regular(path) as stream:
        stream.seek(0, 2)
        stream.seek(-min(len(MAGIC), stream.tell()), 2)
        return stream.tell() > 0 and stream.read() == MAGIC


def header_of(path: Path) -> Header:
    """Return the header, that of ROS 2 if it is cut off."""
    with open_regular(path) as stream:
        try:
            record = parsed(stream, next(parts_of(stream, len(MAGIC), stream.seek(0, 2))))
        except (StopIteration, *ERRORS):
            record = None
    return record if isinstance(record, Header) else Header('ros2', '')


# --------------------------------------------------------------------------- unfinished files


@dataclass(frozen=True)
class McapScan:
    """
    Complete records of a file without index, in its order.

    Attributes
    ----------
    path:
        The file.
    parts:
        Chunks, metadata, and records outside of chunks.
    remark:
        Text on how far the file can be read and what is missing.

    """

    path: Path
    parts: tuple[Part, ...]
    remark: str

    @property
    def compression(self) -> str:
        """Compression of the first chunk: ``lz4``, ``zstd`` or empty."""
        with open_regular(self.path) as stream:
            chunks = (part for part in self.parts if part.opcode == Opcode.CHUNK)
            return next((chunk_at(stream, part).compression for part in chunks), '')

    def messages(self, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
        """
        Iterate over messages, about a chunk at a time; raises as `McapFile.messages`.

        Parameters
        ----------
        select:
            Topics that are wanted.
        topics:
            Is given the topics and their types.

        """
        schemas: dict[int, Schema] = {}
        wanted: set[int] = set()
        for records in self._chunks():
            places = places_of(records)
            for record in records_in(b''.join(records[a:b] for a, b in places.others)):
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    topics[record.topic] = kind = type_of(record, schemas)
                    if select(record.topic, kind):
                        wanted.add(record.id)
            found = messages_of(records, places.messages, wanted)
            if len(found):
                yield found

    def records(self) -> Iterator[McapRecord]:
        """Iterate over metadata, then schemas, channels and messages; raises as `messages`."""
        with open_regular(self.path) as stream:
            for part in self.parts:
                if part.opcode == Opcode.METADATA:
                    yield parsed(stream, part)
        for records in self._chunks():
            places_of(records)  # raises for records that are cut
            yield from records_in(records)

    def _chunks(self) -> Iterator[bytes]:
        """Iterate over the records of chunks, and those outside of chunks."""
        with open_regular(self.path) as stream:
            for part in self.parts:
                if part.opcode == Opcode.CHUNK:
                    yield records_of(chunk_at(stream, part))
                elif part.opcode in IN_CHUNKS:
                    yield bytes_of(stream, part)


def scan_mcap(path: Path) -> McapScan:
    """
    Find the complete records of a file from its start.

    The last chunk is left out if its checksum is wrong: after a power loss, blocks of it may be
    missing.

    Raises
    ------
    ValueError
        for bytes after the last record that are neither a record nor zeros.

    """
    with open_regular(path) as stream:
        size = stream.seek(0, 2)
        if size < len(MAGIC):
            text = f'has only {size} of its first {len(MAGIC)} bytes' if size else 'is empty'
            return McapScan(path, (), text)
        parts, end = _whole_parts(stream, size)
        if parts and parts[-1].opcode == Opcode.CHUNK:
            try:
                records_of(chunk_at(stream, parts[-1]))
            except Exception:  # of lz4 and zstd, each its own
                end = parts.pop().start
    missing = f'{size - end} bytes follow that are no whole record'
    text = f'read up to its last complete chunk ({end} of {size} bytes are whole); '
    return McapScan(path, tuple(parts), text + (missing if end < size else 'its index is missing'))


def _whole_parts(stream: BinaryIO, size: int) -> tuple[list[Part], int]:
    """Return the complete parts and the end of the last complete record."""
    parts: list[Part] = []
    end = len(MAGIC)
    for part in parts_of(stream, end, size):
        if not 0 < part.opcode <= Opcode.DATA_END:
            _require_zeros(stream, part.start)
            break
        if part.opcode in (Opcode.DATA_END, Opcode.FOOTER) or part.end > size:
            break
        end = part.end
        last = parts[-1] if parts else part
        follows = last.opcode in IN_CHUNKS and last.end == part.start and last.length < _PIECE
        if part.opcode in IN_CHUNKS and follows:
            parts[-1] = last._replace(length=end - last.start)
        elif part.opcode in (*IN_CHUNKS, Opcode.CHUNK, Opcode.METADATA):
            parts.append(part)
    return parts, end


def _require_zeros(stream: BinaryIO, place: int) -> None:
    """Raise if there is anything but the zeros that a power loss leaves from a place on."""
    stream.seek(place)
    while data := stream.read(_PIECE):
        if data.strip(b'\x00'):
            raise ValueError(f'there is no record at byte {place}')


def _summary_place(stream: BinaryIO) -> tuple[int, int] | None:
    """Return begin and end of the summary, None if there is none."""
    end = stream.seek(0, 2) - len(MAGIC) - _FOOTER_SIZE
    if end < len(MAGIC):
        return None
    footer = parsed(stream, Part(end, _FOOTER_SIZE, Opcode.FOOTER))
    if not isinstance(footer, Footer) or footer.summary_start == 0:
        return None
    if not len(MAGIC) < footer.summary_start <= end:
        raise ValueError('its summary is not inside the file')
    return footer.summary_start, end


def _require_apart(chunks: tuple[ChunkIndex, ...], size: int) -> None:
    """Raise if chunks overlap: a small file could stand for a very large one."""
    places = sorted((c.chunk_start_offset, c.chunk_start_offset + c.chunk_length) for c in chunks)
    if any(end > start for (_, end), (start, _) in pairwise([*places, (size, size)])):
        raise ValueError('its index has a chunk twice, or behind its end')


def _loaded(stream: BinaryIO, index: ChunkIndex, channels: set[int]) -> Messages:
    """Read the messages of a chunk in the order of their times."""
    part = Part(index.chunk_start_offset, index.chunk_length, Opcode.CHUNK)
    records = records_of(chunk_at(stream, part))
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
