# SPDX-License-Identifier: Apache-2.0
"""
Messages of mcap files (https://mcap.dev/spec), a chunk at a time as arrays.

`McapFile` reads a finished file by its index, `McapScan` any other from its start.  The `mcap`
library parses single records, each from its own bytes: lengths in an untrusted file may be wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
import struct
from typing import Any, BinaryIO, NamedTuple
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
    MetadataIndex,
    Schema,
    Statistics,
)
from mcap.stream_reader import StreamReader
import numpy as np

from ..untrusted.compressed import decompress, MAX_BLOCK
from ..untrusted.files import open_regular

MAGIC = b'\x89MCAP0\r\n'

ERRORS = (ValueError, OverflowError, struct.error, McapError)
"""Raised for a record that cannot be parsed."""

Select = Callable[[str, str], bool]
"""Return true for the topic names and types whose messages are wanted."""

_HEAD = struct.Struct('<BQ')  # opcode and length of a record
_FOOTER_SIZE = 29
_MESSAGE_FIELDS = 22
"""Bytes of a message record before its data."""

_IN_CHUNKS = (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE)
"""Records that chunks consist of."""

_PIECE = 1 << 20
"""Bytes of messages outside of chunks that are read together."""


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

    """

    buffer: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, messages: Sequence[bytes], times: Sequence[int] | np.ndarray) -> Messages:
        """Concatenate separate messages, received at ``times`` [ns]."""
        lengths = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        return cls(
            np.frombuffer(b''.join(messages), dtype=np.uint8),
            np.cumsum(lengths) - lengths,
            lengths,
            np.asarray(times, dtype=np.int64),
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
            self, starts=self.starts[keep], lengths=self.lengths[keep], times=self.times[keep]
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

    def notes(self, name: str) -> Mapping[str, str]:
        """Return the last metadata record of a name; raises as `open_mcap`."""
        found = [index for index in self.metadata if index.name == name]
        if not found:
            return {}
        with open_regular(self.path) as stream:
            record = _parsed(stream, Part(found[-1].offset, found[-1].length, Opcode.METADATA))
        return dict(record.metadata)

    def messages(self, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
        """
        Iterate over messages by receive time, then by place in the file, about a chunk at a time.

        Parameters
        ----------
        select:
            Topics that are wanted.
        topics:
            Is given the topics and their types.

        Raises
        ------
        ValueError
            for a damaged chunk, or too few messages; others of `ERRORS` for a record that cannot
            be parsed.  Data that cannot be decompressed raises errors of lz4 and zstd.

        """
        kinds = {number: type_of(c, self.schemas) for number, c in self.channels.items()}
        topics.update({c.topic: kinds[number] for number, c in self.channels.items()})
        wanted = {number for number, c in self.channels.items() if select(c.topic, kinds[number])}
        count = 0
        held, origins = Messages.of([], []), np.empty(0, dtype=np.int64)
        with open_regular(self.path, buffering=0) as stream:
            for index in sorted(
                self.chunks, key=lambda chunk: (chunk.message_start_time, chunk.chunk_start_offset)
            ):
                if index.message_index_offsets and not wanted & index.message_index_offsets.keys():
                    continue
                # what is held from before this chunk is complete up to its first message
                first, origin = index.message_start_time, index.chunk_start_offset
                earlier = (held.times < first) | ((held.times == first) & (origins < origin))
                done = int(earlier.sum())
                if done:
                    yield held.select(slice(0, done))
                part = Part(origin, index.chunk_length, Opcode.CHUNK)
                records = records_of(_parsed(stream, part))
                loaded = _messages_of(records, _places_of(records)[0], wanted)
                count += len(loaded)
                left = held.select(slice(done, None))
                origins = np.append(origins[done:], np.full(len(loaded), origin))
                if len(left):
                    loaded = Messages.of([*left, *loaded], np.append(left.times, loaded.times))
                order = np.lexsort((origins, loaded.times))
                held, origins = loaded.select(order), origins[order]
        if len(held):
            yield held
        counts = self.statistics.channel_message_counts
        require_all(count, sum(counts.get(number, 0) for number in wanted))


def require_all(count: int, promised: int) -> None:
    """Raise if messages are missing: a damaged chunk without a checksum shows only so."""
    if count < promised:
        raise ValueError(f'it holds {count} of {promised} messages on this topic')


def open_mcap(path: Path) -> McapFile | None:
    """
    Read the summary of a file; None if it has none, or one without statistics.

    Raises
    ------
    OSError, ValueError
        for a file that cannot be read, or a wrong index; others of `ERRORS` for a record that
        cannot be parsed.

    """
    with open_regular(path) as stream:
        size = stream.seek(0, 2)
        end = size - len(MAGIC) - _FOOTER_SIZE
        if end < len(MAGIC):
            return None
        footer: Footer = _parsed(stream, Part(end, _FOOTER_SIZE, Opcode.FOOTER))
        begin = footer.summary_start
        if begin == 0:
            return None
        if not max(len(MAGIC), end - MAX_BLOCK) < begin <= end:
            raise ValueError('its summary is not inside the file')
        kinds = (Schema, Channel, Statistics, ChunkIndex, MetadataIndex)
        found: dict[type, list[Any]] = {kind: [] for kind in kinds}
        for record in _records_in(_bytes_of(stream, Part(begin, end - begin, 0))):
            found.get(type(record), []).append(record)
    if not found[Statistics]:
        return None
    chunks = tuple(found[ChunkIndex])
    # a small file with overlapping chunks could stand for a very large one
    places = sorted((c.chunk_start_offset, c.chunk_start_offset + c.chunk_length) for c in chunks)
    if any(end > start for (_, end), (start, _) in pairwise([*places, (size, size)])):
        raise ValueError('its index has a chunk twice, or behind its end')
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
        stream.seek(-min(len(MAGIC), stream.seek(0, 2)), 2)
        return stream.read() == MAGIC


def header_of(path: Path) -> Header:
    """Return the header, that of ROS 2 if it is cut off."""
    with open_regular(path) as stream:
        try:
            record = _parsed(stream, next(parts_of(stream, len(MAGIC), stream.seek(0, 2))))
        except (StopIteration, *ERRORS):
            record = None
    return record if isinstance(record, Header) else Header('ros2', '')


def type_of(channel: Channel, schemas: Mapping[int, Schema]) -> str:
    """Return the type of a channel's messages, and their encoding if that is not CDR."""
    schema = schemas.get(channel.schema_id)
    kind = '' if schema is None else schema.name
    return kind if channel.message_encoding == 'cdr' else f'{kind} in {channel.message_encoding}'


# --------------------------------------------------------------------------- unfinished files


class Part(NamedTuple):
    """Place of a record in a file, or of several consecutive ones outside of chunks."""

    start: int
    length: int
    opcode: int

    @property
    def end(self) -> int:
        """Place after the last byte."""
        return self.start + self.length


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
            return next((str(_parsed(stream, part).compression) for part in chunks), '')

    def messages(self, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
        """Iterate over messages, about a chunk at a time; as `McapFile.messages`."""
        schemas: dict[int, Schema] = {}
        wanted: set[int] = set()
        for records in self._chunks():
            places, others = _places_of(records)
            for record in _records_in(b''.join(records[a:b] for a, b in others)):
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    topics[record.topic] = kind = type_of(record, schemas)
                    if select(record.topic, kind):
                        wanted.add(record.id)
            found = _messages_of(records, places, wanted)
            if len(found):
                yield found

    def records(self) -> Iterator[McapRecord]:
        """Iterate over metadata, then schemas, channels and messages; raises as `messages`."""
        with open_regular(self.path) as stream:
            for part in self.parts:
                if part.opcode == Opcode.METADATA:
                    yield _parsed(stream, part)
        for records in self._chunks():
            _places_of(records)  # raises for records that are cut
            yield from _records_in(records)

    def _chunks(self) -> Iterator[bytes]:
        """Iterate over the records of chunks, and those outside of chunks."""
        with open_regular(self.path) as stream:
            for part in self.parts:
                if part.opcode == Opcode.CHUNK:
                    yield records_of(_parsed(stream, part))
                elif part.opcode in _IN_CHUNKS:
                    yield _bytes_of(stream, part)


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
                records_of(_parsed(stream, parts[-1]))
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
            stream.seek(part.start)
            while data := stream.read(_PIECE):
                if data.strip(b'\x00'):  # a power loss leaves zeros
                    raise ValueError(f'there is no record at byte {part.start}')
            break
        if part.opcode in (Opcode.DATA_END, Opcode.FOOTER) or part.end > size:
            break
        end = part.end
        last = parts[-1] if parts else part
        follows = last.opcode in _IN_CHUNKS and last.end == part.start and last.length < _PIECE
        if part.opcode in _IN_CHUNKS and follows:
            parts[-1] = last._replace(length=end - last.start)
        elif part.opcode in (*_IN_CHUNKS, Opcode.CHUNK, Opcode.METADATA):
            parts.append(part)
    return parts, end


# --------------------------------------------------------------------------- records


def parts_of(stream: BinaryIO, begin: int, end: int) -> Iterator[Part]:
    """Iterate over the records between two places; the last one may be cut."""
    place = begin
    while place + _HEAD.size <= end:
        stream.seek(place)
        opcode, length = _HEAD.unpack(stream.read(_HEAD.size))
        yield Part(place, _HEAD.size + length, opcode)
        place += _HEAD.size + length


def _bytes_of(stream: BinaryIO, part: Part) -> bytes:
    """Return the bytes of a part; raises ValueError if they are not inside the file."""
    if part.end > stream.seek(0, 2):
        raise ValueError(f'{part.length} bytes from byte {part.start} on are not in the file')
    stream.seek(part.start)
    return stream.read(part.length)


def _records_in(data: bytes) -> Iterator[McapRecord]:
    """Parse consecutive complete records; chunks stay compressed, whose size has no limit."""
    try:
        yield from StreamReader(BytesIO(data), skip_magic=True, emit_chunks=True).records
    except EndOfFile:
        return


def _parsed(stream: BinaryIO, part: Part) -> Any:
    """Parse a record; raises ValueError if it is not of that kind and length."""
    data = _bytes_of(stream, part)
    if len(data) < _HEAD.size or _HEAD.unpack_from(data) != (part.opcode, len(data) - _HEAD.size):
        raise ValueError(f'the record at byte {part.start} is not the one that is expected')
    return next(iter(StreamReader(BytesIO(data), skip_magic=True, emit_chunks=True).records))


def records_of(chunk: Chunk) -> bytes:
    """Return the records of a chunk; raises ValueError if they are not what was written."""
    size = chunk.uncompressed_size
    data = decompress(chunk.compression, memoryview(chunk.data), size)
    if len(data) != size or (chunk.uncompressed_crc and crc32(data) != chunk.uncompressed_crc):
        raise ValueError('the checksum of a chunk is wrong')
    return data if isinstance(data, bytes) else chunk.data


def _places_of(records: bytes) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """
    Return (n,) first bytes of the messages in a chunk, and (first, last + 1) of other records.

    Raises ValueError if one is cut or too short.
    """
    messages, others = array('q'), []
    place, end = 0, len(records)
    unpack, head, message = _HEAD.unpack_from, _HEAD.size, int(Opcode.MESSAGE)
    while place + head <= end:
        opcode, length = unpack(records, place)
        following = place + head + length
        if opcode == message:
            if length < _MESSAGE_FIELDS:
                raise ValueError(f'a message record has {length} bytes')
            messages.append(place)
        elif opcode in _IN_CHUNKS:
            others.append((place, following))
        place = following
    if place != end:
        raise ValueError('a record does not end in its chunk')
    return np.frombuffer(messages, dtype=np.int64), others


def _messages_of(records: bytes, places: np.ndarray, channels: set[int]) -> Messages:
    """Return the messages of some channels, of those that begin at (n,) places."""
    data = np.frombuffer(records, dtype=np.uint8)
    wanted = np.isin(_numbers(data, '<u2')[places + _HEAD.size], list(channels))
    if not wanted.all():
        places = places[wanted]
    lengths = _numbers(data, '<i8')[places + 1] - _MESSAGE_FIELDS
    times = _numbers(data, '<i8')[places + _HEAD.size + 6]
    return Messages(data, places + _HEAD.size + _MESSAGE_FIELDS, lengths, times)


def _numbers(data: np.ndarray, kind: str) -> np.ndarray:
    """Return a view of the numbers of a kind that begin at each of the bytes."""
    count = max(0, len(data) - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, data, 0, (1,))
