# SPDX-License-Identifier: Apache-2.0
"""
Recovery of mcap files that have no end: their recorder was killed, or the power failed.

There is no summary then, so a file is gone through from its start (https://mcap.dev/spec).  Of
the chunk that was being written, the messages that are whole are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, McapRecord, Message, Metadata, Schema
from mcap.writer import CompressionType, Writer

from ..untrusted.decompression import decompressor, require_plausible
from ..untrusted.files import open_regular
from .mcap_file import (
    all_parsed,
    bytes_of,
    ERRORS,
    HEAD,
    header_of,
    IN_CHUNKS,
    MAGIC,
    messages_of,
    parsed,
    Part,
    parts_of,
    places_of,
    records_of,
    Select,
    type_of,
)
from .messages import Messages

_SECTOR = 512
_PIECE = 4096
_LOOSE = 1 << 20
"""Bytes of messages outside of chunks that are taken together."""


@dataclass(frozen=True)
class Remains:
    """
    Recoverable part of a file.

    Attributes
    ----------
    path:
        The file.
    parts:
        Whole chunks, metadata, and records outside of chunks.
    cut:
        Records of the chunk that was being written.
    remark:
        How far it can be read, and what is missing.

    """

    path: Path
    parts: tuple[Part, ...]
    cut: bytes
    remark: str

    def messages(self, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
        """
        Iterate over messages in the order of the file.

        Parameters
        ----------
        select:
            Which topics are wanted.
        topics:
            Gets the topics that are met, and their types.

        Yields
        ------
        The messages, about a chunk at a time.

        Raises
        ------
        ValueError
            where a chunk is damaged; else as `McapFile.messages`.

        """
        schemas: dict[int, Schema] = {}
        wanted: set[int] = set()
        for records in self._chunks():
            places = places_of(records)
            for record in all_parsed(b''.join(records[a:b] for a, b in places.others)):
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    topics[record.topic] = kind = type_of(record, schemas)
                    if select(record.topic, kind):
                        wanted.add(record.id)
            found = messages_of(records, places.messages, wanted)
            if len(found):
                yield found

    @property
    def compression(self) -> str:
        """Compression of the first whole chunk: ``lz4``, ``zstd`` or empty."""
        first = next((part for part in self.parts if part.opcode == Opcode.CHUNK), None)
        if first is None:
            return ''
        with open_regular(self.path) as stream:
            return _chunk(stream, first).compression

    def records(self) -> Iterator[McapRecord]:
        """Iterate over metadata, schemas, channels and messages; raises as `messages`."""
        with open_regular(self.path) as stream:
            for part in self.parts:
                if part.opcode == Opcode.METADATA:
                    yield parsed(stream, part)
        for records in self._chunks():
            places_of(records)
            yield from all_parsed(records)

    def _chunks(self) -> Iterator[bytes]:
        """Iterate over the records of chunks, and those outside of chunks."""
        with open_regular(self.path) as stream:
            for part in self.parts:
                if part.opcode == Opcode.CHUNK:
                    yield records_of(_chunk(stream, part))
                elif part.opcode in IN_CHUNKS:
                    yield bytes_of(stream, part)
        yield self.cut


def remains_of(path: Path) -> Remains:
    """
    Go through a file from its start, without its messages.

    Raises
    ------
    ValueError
        where something else than a record follows the last one.

    """
    with open_regular(path) as stream:
        size = stream.seek(0, 2)
        if size < len(MAGIC):
            told = f'has only {size} of its first {len(MAGIC)} bytes' if size else 'is empty'
            return Remains(path, (), b'', told)
        parts, end = _whole_parts(stream, size)
        remark, cut = 'only its index is missing', b''
        if end < size:
            remark = f'{size - end} bytes follow that are no whole record'
        begun = _last_chunk(stream, parts, end, size)
        if begun is not None:
            start, chunk = begun
            if start < end:
                parts, end = parts[:-1], start
            cut = _rescued(chunk)
            remark = (
                f'of {chunk.uncompressed_size} bytes of messages that were being written, '
                f'received until {1e-9 * chunk.message_end_time:.3f} s, '
                f'{chunk.uncompressed_size - len(cut)} are missing'
            )
    kind = 'message' if cut else 'chunk'
    told = f'read up to its last complete {kind} ({end} of {size} bytes are whole); {remark}'
    return Remains(path, tuple(parts), cut, told)


def rewrite(source: Path, target: BinaryIO) -> str:
    """
    Write an mcap file anew that has no end.

    Parameters
    ----------
    source:
        The file.
    target:
        What to write to.

    Returns
    -------
    How far the old one could be read, and what is missing.

    Raises
    ------
    ValueError
        where it is damaged, not only unfinished.  What cannot be decompressed or taken apart
        raises errors of lz4, zstd and mcap, each its own.

    """
    remains, header = remains_of(source), header_of(source)
    compression = {
        'lz4': CompressionType.LZ4,
        'zstd': CompressionType.ZSTD,
    }.get(remains.compression, CompressionType.NONE)
    writer = Writer(target, compression=compression)
    writer.start(header.profile, header.library)
    schemas: dict[int, int] = {0: 0}  # 0 stands for none
    channels: dict[int, int] = {}
    for record in remains.records():
        if isinstance(record, Message):
            if record.channel_id not in channels:
                raise ValueError(f'channel {record.channel_id} has messages and no description')
            channel = channels[record.channel_id]
            writer.add_message(
                channel, record.log_time, record.data, record.publish_time, record.sequence
            )
        elif isinstance(record, Metadata):
            writer.add_metadata(record.name, record.metadata)
        elif isinstance(record, Schema) and record.id not in schemas:
            schemas[record.id] = writer.register_schema(record.name, record.encoding, record.data)
        elif isinstance(record, Channel) and record.id not in channels:
            channels[record.id] = writer.register_channel(
                record.topic,
                record.message_encoding,
                schemas.get(record.schema_id, 0),
                record.metadata,
            )
    writer.finish()
    return remains.remark


def _whole_parts(stream: BinaryIO, size: int) -> tuple[list[Part], int]:
    """Return the parts that are whole, and where the last whole record ends."""
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
        follows = last.opcode in IN_CHUNKS and last.end == part.start and last.length < _LOOSE
        if part.opcode in IN_CHUNKS and follows:
            parts[-1] = last._replace(length=end - last.start)
        elif part.opcode in (*IN_CHUNKS, Opcode.CHUNK, Opcode.METADATA):
            parts.append(part)
    return parts, end


def _require_zeros(stream: BinaryIO, place: int) -> None:
    """Raise where there is anything but zeros from here on, which no power loss leaves."""
    stream.seek(place)
    while data := stream.read(_LOOSE):
        if data.strip(b'\x00'):
            raise ValueError(f'there is no record at byte {place}')


def _chunk(stream: BinaryIO, part: Part) -> Chunk:
    chunk = parsed(stream, part)
    assert isinstance(chunk, Chunk)
    return chunk


def _last_chunk(
    stream: BinaryIO, parts: list[Part], end: int, size: int
) -> tuple[int, Chunk] | None:
    """
    Return where the chunk begins that was being written, and the chunk; None where there is none.

    That is the one behind the whole records, or the last one if its checksum tells that not all of
    its bytes reached the disk.
    """
    stream.seek(end)
    if stream.read(1) == bytes([Opcode.CHUNK]):
        data = bytes_of(stream, Part(end, size - end, int(Opcode.CHUNK)))
        try:
            # not the stream reader, which withholds a record whose end is missing
            return end, Chunk.read(ReadDataStream(BytesIO(data[HEAD.size :])))
        except ERRORS:
            return None
    if not parts or parts[-1].opcode != Opcode.CHUNK:
        return None
    chunk = _chunk(stream, parts[-1])
    try:
        records_of(chunk)
    except Exception:  # of lz4 and zstd, each its own
        return parts[-1].start, chunk
    return None


def _rescued(chunk: Chunk) -> bytes:
    """
    Return the records that are whole in a chunk of which something is missing.

    They cannot be held against the chunk's checksum.  From the first zeros on that fill a disk's
    sector, everything is left out: there the disk had not written yet.
    """
    records = beginning(chunk.compression, memoryview(chunk.data), chunk.uncompressed_size)
    zeros = records.find(bytes(_SECTOR))
    if len(records) == chunk.uncompressed_size and zeros < 0:
        return b''  # some byte is wrong, and nothing tells which
    end = len(records) if zeros < 0 else zeros
    place = 0
    while place + HEAD.size <= end:
        opcode, length = HEAD.unpack_from(records, place)
        if opcode not in IN_CHUNKS or place + HEAD.size + length > end:
            break
        place += HEAD.size + length
    return records[:place]


def beginning(compression: str, data: memoryview, size: int) -> bytes:
    """Return what can be had of compressed bytes whose end is missing, ``size`` at most."""
    if compression not in ('lz4', 'zstd'):
        return bytes(data) if compression == '' else b''
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
    return b''.join(parts)
