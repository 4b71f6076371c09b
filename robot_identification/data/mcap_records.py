# SPDX-License-Identifier: Apache-2.0
"""Records of the MCAP format (https://mcap.dev/spec), as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
import struct
from typing import BinaryIO
from zlib import crc32

MAGIC = b'\x89MCAP0\r\n'
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
MESSAGE_INDEX, CHUNK_INDEX, STATISTICS = 0x07, 0x08, 0x0B
METADATA, METADATA_INDEX, SUMMARY_OFFSET, DATA_END = 0x0C, 0x0D, 0x0E, 0x0F

_head = struct.Struct('<BQ')
_footer = struct.Struct('<BQQQI')
_message_start = struct.Struct('<BQHIQQ')
_BYTES_OF_MESSAGE_FIELDS = 22


@dataclass
class Chunk:
    """Messages on their way to the file."""

    topics: int
    records: bytearray = field(default_factory=bytearray)
    index: list[list[tuple[int, int]]] = field(default_factory=list)
    first: int = 2**63 - 1
    last: int = 0

    def __post_init__(self) -> None:
        self.index = [[] for _ in range(self.topics)]

    def add(self, topic: int, sequence: int, log: int, publish: int, data: bytes) -> None:
        """Append a message of a topic, by its number, received and sent at these times [ns]."""
        self.index[topic].append((log, len(self.records)))
        length = _BYTES_OF_MESSAGE_FIELDS + len(data)
        self.records += _message_start.pack(MESSAGE, length, topic + 1, sequence, log, publish)
        self.records += data
        self.first = min(self.first, log)
        self.last = max(self.last, log)

    def record(self) -> bytes:
        """Return the whole chunk, uncompressed."""
        return chunk_record(self.first, self.last, self.records)


@dataclass(frozen=True)
class ChunkIndex:
    """
    Place of a chunk and of the indices of its messages in the file; times in ns.

    Its records have ``size`` bytes, and ``stored`` with their compression.
    """

    first: int
    last: int
    start: int
    length: int
    offsets: list[tuple[int, int]]
    index_length: int
    size: int
    stored: int
    compression: str = ''

    def record(self) -> bytes:
        """Return the entry of the summary."""
        fields = struct.pack('<QQQQ', self.first, self.last, self.start, self.length)
        fields += pair_list('HQ', self.offsets) + struct.pack('<Q', self.index_length)
        fields += string(self.compression) + struct.pack('<QQ', self.stored, self.size)
        return record_of(CHUNK_INDEX, fields)


def chunk_record(first: int, last: int, records: bytes | bytearray) -> bytes:
    """Return a chunk, uncompressed, with messages that were received from first to last [ns]."""
    size = len(records)
    fields = struct.pack('<QQQI', first, last, size, crc32(records))
    return record_of(CHUNK, fields + string('') + struct.pack('<Q', size) + records)


def record_of(code: int, content: bytes | bytearray) -> bytes:
    """Return a record: opcode, length, content."""
    return _head.pack(code, len(content)) + content


def records_of(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Iterate over records, one behind the other: opcode and content."""
    place = 0
    while place < len(data):
        code, length = _head.unpack_from(data, place)
        place += _head.size
        yield code, data[place : place + length]
        place += length


def read_within(stream: BinaryIO, start: int, length: int) -> memoryview:
    """
    Return the bytes of a part of a file, as its index names it.

    Raises
    ------
    ValueError
        where the part is not inside the file.

    """
    if start + length > stream.seek(0, 2):
        raise ValueError(f'{length} bytes from byte {start} on are not in the file')
    stream.seek(start)
    return memoryview(stream.read(length))


def read_summary(stream: BinaryIO) -> memoryview | None:
    """Return the records between a finished file's data and its footer; None for any other."""
    end = stream.seek(0, 2) - len(MAGIC) - _footer.size
    stream.seek(max(0, end))
    tail = stream.read()
    code, length, start, _, _ = _footer.unpack_from(tail)
    if code != FOOTER or length != _footer.size - _head.size or not tail.endswith(MAGIC):
        return None
    if not len(MAGIC) < start < end:
        return None
    stream.seek(start)
    return memoryview(stream.read(end - start))


def string(text: str) -> bytes:
    """Return a string behind its length."""
    data = text.encode()
    return struct.pack('<I', len(data)) + data


def read_string(data: bytes | memoryview, place: int) -> tuple[str, int]:
    """Return the string whose length stands at ``place``, and the place behind it."""
    (length,) = struct.unpack_from('<I', data, place)
    end = place + 4 + length
    if end > len(data):
        raise ValueError(f'a text of {length} bytes does not end in its record')
    return bytes(data[place + 4 : end]).decode(), end


def read_string_map(data: bytes | memoryview, place: int) -> dict[str, str]:
    """Return the pairs of strings whose length in bytes stands at ``place``."""
    (length,) = struct.unpack_from('<I', data, place)
    found, place, end = {}, place + 4, place + 4 + length
    while place < end:
        key, place = read_string(data, place)
        found[key], place = read_string(data, place)
    return found


def string_map(mapping: Mapping[str, str]) -> bytes:
    """Return pairs of strings behind the length of all of them."""
    content = b''.join(string(key) + string(value) for key, value in mapping.items())
    return struct.pack('<I', len(content)) + content


def pair_list(form: str, pairs: Sequence[tuple[int, int]]) -> bytes:
    """Return pairs of integers of `struct`'s format ``form`` behind the length of all of them."""
    pair = struct.Struct(f'<{form}')
    content = b''.join(pair.pack(*values) for values in pairs)
    return struct.pack('<I', len(content)) + content
