# SPDX-License-Identifier: Apache-2.0
"""
Messages of mcap files (https://mcap.dev/spec), in arrays.

Finished files are read by their index, others from their start to their last complete chunk.
The `mcap` library parses single records, each from its own bytes: lengths in an untrusted file may
be wrong.  Import this module where that library is needed: not each installation has it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
import struct
from typing import Any, BinaryIO, NamedTuple
import warnings
from zlib import crc32

from mcap.exceptions import EndOfFile
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    McapRecord,
    MetadataIndex,
    Schema,
    Statistics,
)
from mcap.stream_reader import StreamReader
from mcap.summary import Summary
import numpy as np

from ..errors import IdentificationError, IdentificationWarning
from ..untrusted.compressed import decompress, MAX_BLOCK
from ..untrusted.files import open_regular
from .delivery_order import WritingOrder
from .joint_state import Messages
from .storage_kinds import begins_as_mcap, has_end, MAGIC, RECORD, RECORD_KEY, require_all, Select

_HEAD = struct.Struct('<BQ')  # opcode and length of a record
_FOOTER_SIZE = 29
_MESSAGE_FIELDS = 22
"""Bytes of a message record before its data."""

_IN_CHUNKS = (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE)
"""Records that chunks consist of."""

_PIECE = 1 << 20
"""Bytes of messages outside of chunks that are read together."""


def mcap_messages(file: Path, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
    """Iterate over the messages of a file; parameters and errors as of `stored_messages`."""
    if not begins_as_mcap(file):
        raise ValueError('it does not begin as an mcap file')
    finished = has_end(file)
    summary = mcap_summary(file) if finished else None
    if summary is not None and summary.is_indexed:
        yield from _indexed_messages(file, summary, select, topics)
        return
    scan = scan_mcap(file)
    if not finished:
        warnings.warn(
            IdentificationWarning(
                f'{file}: has no end, because its recorder was killed or the file was cut, or '
                f'because it is still being recorded; {scan.remark}; for other readers '
                '`mcap recover` gives it an end, and `ros2 bag reindex` its bag a metadata.yaml'
            ),
            stacklevel=2,
        )
    yield from scan.messages(select, topics)


def mcap_info(file: Path) -> tuple[int | None, int | None, str]:
    """Read times and description as `storage_info`; without a summary it has none."""
    summary = mcap_summary(file)
    if summary is None:
        return None, None, ''
    statistics, text = summary.statistics, description_text(file, summary)
    if not statistics.message_count:
        return None, None, text
    return statistics.message_start_time, statistics.message_end_time, text


# --------------------------------------------------------------------------- finished files


class McapSummary(Summary):
    """Summary of a finished file, which has statistics."""

    statistics: Statistics

    @property
    def is_indexed(self) -> bool:
        """True if the index has the chunks of all messages."""
        return bool(self.chunk_indexes) or not self.statistics.message_count


def mcap_summary(path: Path) -> McapSummary | None:
    """
    Read the summary of a file; None if it has none, or one without statistics.

    Raises
    ------
    OSError, ValueError
        for a file that cannot be read, or a wrong index; others of `ERRORS` for a record that
        cannot be parsed.

    """
    summary = McapSummary()
    with open_regular(path) as stream:
        size = stream.seek(0, 2)
        end = size - len(MAGIC) - _FOOTER_SIZE
        if end < len(MAGIC):
            return None
        begin = parsed(stream, Part(end, _FOOTER_SIZE, Opcode.FOOTER)).summary_start
        if begin == 0:
            return None
        if not max(len(MAGIC), end - MAX_BLOCK) < begin <= end:
            raise ValueError('its summary is not inside the file')
        for record in _records_in(_bytes_of(stream, Part(begin, end - begin, 0))):
            if isinstance(record, Schema):
                summary.schemas[record.id] = record
            elif isinstance(record, Channel):
                summary.channels[record.id] = record
            elif isinstance(record, ChunkIndex):
                summary.chunk_indexes.append(record)
            elif isinstance(record, MetadataIndex):
                summary.metadata_indexes.append(record)
            elif isinstance(record, Statistics):
                summary.statistics = summary.statistics or record
    # a small file with overlapping chunks could stand for a very large one
    starts = [(chunk.chunk_start_offset, chunk.chunk_length) for chunk in summary.chunk_indexes]
    places = [*sorted(starts), (size, 0)]
    if any(start + length > after for (start, length), (after, _) in pairwise(places)):
        raise ValueError('its index has a chunk twice, or behind its end')
    return summary if summary.statistics else None


def description_text(path: Path, summary: McapSummary) -> str:
    """Return rosbag2's description in a file, empty if there is none; raises as `mcap_summary`."""
    found = [index for index in summary.metadata_indexes if index.name == RECORD]
    if not found:
        return ''
    with open_regular(path) as stream:
        record = parsed(stream, Part(found[-1].offset, found[-1].length, Opcode.METADATA))
    return str(record.metadata.get(RECORD_KEY, ''))


def _indexed_messages(
    file: Path, summary: McapSummary, select: Select, topics: dict[str, str]
) -> Iterator[Messages]:
    """Iterate over messages by receive time, then by place, about a chunk at a time."""
    channels = summary.channels
    kinds = {number: type_of(c, summary.schemas) for number, c in channels.items()}
    topics.update({c.topic: kinds[number] for number, c in channels.items()})
    wanted = {number for number, c in channels.items() if select(c.topic, kinds[number])}
    count, written = 0, WritingOrder(file)
    held, origins = Messages.from_bytes([], []), np.empty(0, dtype=np.int64)
    with open_regular(file, buffering=0) as stream:
        for index in sorted(
            summary.chunk_indexes,
            key=lambda chunk: (chunk.message_start_time, chunk.chunk_start_offset),
        ):
            if index.message_index_offsets and not wanted & index.message_index_offsets.keys():
                continue
            # what is held from before this chunk is complete up to its first message
            first, origin = index.message_start_time, index.chunk_start_offset
            earlier = (held.times < first) | ((held.times == first) & (origins < origin))
            done = int(earlier.sum())
            if done:
                yield held.select(slice(0, done))
            records = records_of(parsed(stream, Part(origin, index.chunk_length, Opcode.CHUNK)))
            loaded = _messages_of(records, _places_of(records)[0], wanted)
            count += len(loaded)
            assert loaded.senders is not None
            written.take(origin, loaded.times, loaded.senders[:, 0])
            left = held.select(slice(done, None))
            origins = np.append(origins[done:], np.full(len(loaded), origin))
            if len(left):
                assert left.senders is not None
                loaded = Messages.from_bytes(
                    [*left, *loaded],
                    np.append(left.times, loaded.times),
                    np.vstack([left.senders, loaded.senders]),
                )
            order = np.lexsort((origins, loaded.times))
            held, origins = loaded.select(order), origins[order]
    if len(held):
        yield held
    written.finish()
    counts = summary.statistics.channel_message_counts
    require_all(count, sum(counts.get(number, 0) for number in wanted))


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

    def messages(self, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
        """Iterate over messages in the order of the file, as `stored_messages`."""
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
                    yield parsed(stream, part)
        for records in self._chunks():
            _places_of(records)  # raises for records that are cut
            yield from _records_in(records)

    def _chunks(self) -> Iterator[bytes]:
        """Iterate over the records of chunks, and those outside of chunks."""
        with open_regular(self.path) as stream:
            for part in self.parts:
                if part.opcode == Opcode.CHUNK:
                    yield records_of(parsed(stream, part))
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
                records_of(parsed(stream, parts[-1]))
            except IdentificationError:  # a library is missing
                raise
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
    """Return the bytes of a part; raises ValueError if it is too long or not inside the file."""
    if part.end > stream.seek(0, 2):
        raise ValueError(f'{part.length} bytes from byte {part.start} on are not in the file')
    if part.length > MAX_BLOCK + _PIECE:  # holes of a file take no room on the disk
        text = f'the record at byte {part.start} has {part.length} bytes'
        raise ValueError(f'{text}, {MAX_BLOCK} are the most')
    stream.seek(part.start)
    return stream.read(part.length)


def _records_in(data: bytes) -> Iterator[McapRecord]:
    """Parse consecutive complete records; chunks stay compressed, whose size has no limit."""
    try:
        yield from StreamReader(BytesIO(data), skip_magic=True, emit_chunks=True).records
    except EndOfFile:
        return


def parsed(stream: BinaryIO, part: Part) -> Any:
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
    channel, sequence = (
        _numbers(data, kind)[places + _HEAD.size + at] for kind, at in (('<u2', 0), ('<u4', 2))
    )
    senders = np.column_stack([channel, sequence]).astype(np.int64)
    return Messages(data, places + _HEAD.size + _MESSAGE_FIELDS, lengths, times, senders)


def _numbers(data: np.ndarray, kind: str) -> np.ndarray:
    """Return a view of the numbers of a kind that begin at each of the bytes."""
    count = max(0, len(data) - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, data, 0, (1,))
