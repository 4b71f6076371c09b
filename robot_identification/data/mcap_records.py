# SPDX-License-Identifier: Apache-2.0
"""
Records of mcap files (https://mcap.dev/spec), and the messages of a chunk as arrays.

The `mcap` library parses single records, each from its own bytes: lengths in an untrusted file may
be wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from io import BytesIO
import struct
from typing import BinaryIO, NamedTuple
from zlib import crc32

from mcap.exceptions import EndOfFile, McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, McapRecord, Schema
from mcap.stream_reader import StreamReader
import numpy as np

from ..untrusted.compressed import decompress
from .messages import Messages

MAGIC = b'\x89MCAP0\r\n'
HEAD = struct.Struct('<BQ')
"""Opcode and length of a record."""

IN_CHUNKS = (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE)
"""Records that chunks consist of."""

_MESSAGE_FIELDS = 22
"""Bytes of a message record before its data."""

ERRORS = (ValueError, OverflowError, struct.error, McapError)
"""Raised for a record that cannot be parsed."""


class Part(NamedTuple):
    """Place of a record in a file, or of several consecutive ones outside of chunks."""

    start: int
    length: int
    opcode: int

    @property
    def end(self) -> int:
        """Place after the last byte."""
        return self.start + self.length


def parts_of(stream: BinaryIO, begin: int, end: int) -> Iterator[Part]:
    """Iterate over the records between two places; the last one may be cut."""
    place = begin
    while place + HEAD.size <= end:
        stream.seek(place)
        opcode, length = HEAD.unpack(stream.read(HEAD.size))
        yield Part(place, HEAD.size + length, opcode)
        place += HEAD.size + length


def bytes_of(stream: BinaryIO, part: Part) -> bytes:
    """Return the bytes of a part; raises ValueError if they are not inside the file."""
    if part.end > stream.seek(0, 2):
        raise ValueError(f'{part.length} bytes from byte {part.start} on are not in the file')
    stream.seek(part.start)
    return stream.read(part.length)


def records_in(data: bytes) -> Iterator[McapRecord]:
    """Parse consecutive complete records; chunks stay compressed, whose size has no limit."""
    try:
        yield from StreamReader(BytesIO(data), skip_magic=True, emit_chunks=True).records
    except EndOfFile:
        return


def type_of(channel: Channel, schemas: Mapping[int, Schema]) -> str:
    """Return the type of a channel's messages, and their encoding if that is not CDR."""
    schema = schemas.get(channel.schema_id)
    kind = '' if schema is None else schema.name
    return kind if channel.message_encoding == 'cdr' else f'{kind} in {channel.message_encoding}'


def parsed(stream: BinaryIO, part: Part) -> McapRecord:
    """Parse a record; raises ValueError if it is not of that kind and length."""
    data = bytes_of(stream, part)
    if len(data) < HEAD.size or HEAD.unpack_from(data) != (part.opcode, len(data) - HEAD.size):
        raise ValueError(f'the record at byte {part.start} is not the one that is expected')
    return next(iter(StreamReader(BytesIO(data), skip_magic=True, emit_chunks=True).records))


def chunk_at(stream: BinaryIO, part: Part) -> Chunk:
    """Parse a chunk; raises as `parsed`."""
    chunk = parsed(stream, part)
    assert isinstance(chunk, Chunk)
    return chunk


def records_of(chunk: Chunk) -> bytes:
    """Return the records of a chunk; raises ValueError if they are not what was written."""
    size = chunk.uncompressed_size
    data = decompress(chunk.compression, memoryview(chunk.data), size)
    if len(data) != size or (chunk.uncompressed_crc and crc32(data) != chunk.uncompressed_crc):
        raise ValueError('the checksum of a chunk is wrong')
    return data if isinstance(data, bytes) else chunk.data


class Places(NamedTuple):
    """(n,) first bytes of the messages in a chunk, and (first, last + 1) of other records."""

    messages: np.ndarray
    others: list[tuple[int, int]]


def places_of(records: bytes) -> Places:
    """Find the records of a chunk; raises ValueError if one is cut or too short."""
    messages, others = array('q'), []
    place, end = 0, len(records)
    unpack, head, message = HEAD.unpack_from, HEAD.size, int(Opcode.MESSAGE)
    while place + head <= end:
        opcode, length = unpack(records, place)
        following = place + head + length
        if opcode == message:
            if length < _MESSAGE_FIELDS:
                raise ValueError(f'a message record has {length} bytes')
            messages.append(place)
        elif opcode in IN_CHUNKS:
            others.append((place, following))
        place = following
    if place != end:
        raise ValueError('a record does not end in its chunk')
    return Places(np.frombuffer(messages, dtype=np.int64), others)


def messages_of(records: bytes, places: np.ndarray, channels: set[int]) -> Messages:
    """Return the messages of some channels, of those that begin at (n,) places."""
    data = np.frombuffer(records, dtype=np.uint8)
    wanted = np.isin(_numbers(data, '<u2')[places + HEAD.size], list(channels))
    if not wanted.all():
        places = places[wanted]
    lengths = _numbers(data, '<i8')[places + 1] - _MESSAGE_FIELDS
    times = _numbers(data, '<i8')[places + HEAD.size + 6]
    return Messages(data, places + HEAD.size + _MESSAGE_FIELDS, lengths, times)


def _numbers(data: np.ndarray, kind: str) -> np.ndarray:
    """Return a view of the numbers of a kind that begin at each of the bytes."""
    count = max(0, len(data) - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, data, 0, (1,))
