# SPDX-License-Identifier: Apache-2.0
"""
Write an mcap file that has no end anew, with everything that the old one still holds.

Whole chunks and metadata are copied byte by byte; messages outside of chunks, and those that are
whole in the chunk that was being written, get chunks of their own.  All get an index, and the file
its summary (https://mcap.dev/spec).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
import struct
from typing import Any, BinaryIO

import numpy as np
import yaml

from ..untrusted.files import open_regular
from ..untrusted.yaml_loader import load_yaml
from .bag_metadata import (
    as_yaml,
    describe,
    DISTRO,
    FileSpan,
    KEY,
    RECORD,
    RECORD_KEY,
    topic_entry,
)
from .mcap_chunks import (
    channels_and_times,
    Chunk,
    index_of,
    places_of,
)
from .mcap_records import (
    CHANNEL,
    chunk_record,
    ChunkIndex,
    HEADER,
    MAGIC,
    MESSAGE_INDEX,
    METADATA,
    METADATA_INDEX,
    read_string,
    read_string_map,
    read_summary,
    read_within,
    record_of,
    records_of,
    SCHEMA,
    STATISTICS,
    string,
)
from .mcap_recovery import remains_of
from .mcap_summary import Summary

_HEAD = struct.Struct('<BQ')


@dataclass(frozen=True)
class McapAbout:
    """
    Description of a finished mcap file from its metadata.

    Attributes
    ----------
    span:
        Its name, times and number of messages.
    topics:
        Entries for ``metadata.yaml``, with the messages in this file.
    custom_data:
        Notes by key.
    distro:
        Name of the ROS distribution; empty where it is not known.

    """

    span: FileSpan
    topics: tuple[dict[str, Any], ...]
    custom_data: Mapping[str, str]
    distro: str


def about_mcap(path: Path) -> McapAbout | None:
    """Read what a file says of itself; None for one without summary or with anything wrong."""
    try:
        with open_regular(path) as stream:
            data = read_summary(stream)
            return None if data is None else _about(path, stream, data)
    except (struct.error, ValueError, LookupError, yaml.YAMLError):
        return None


def library_of(path: Path) -> str:
    """Return who wrote an mcap file, in its own words; empty where it does not tell."""
    with open_regular(path) as stream:
        header = _header(stream)
    try:
        _, place = read_string(header, len(MAGIC) + _HEAD.size)
        return read_string(header, place)[0]
    except (struct.error, ValueError):
        return ''


def rewrite(source: Path, target: BinaryIO, name: str) -> str:
    """
    Write a file anew that has no end.

    Parameters
    ----------
    source:
        The file.
    target:
        What to write to.
    name:
        File name that it will have.

    Returns
    -------
    In words, how far the old one could be read and what is missing.

    Raises
    ------
    ValueError
        where it is damaged, not only unfinished.  What cannot be decompressed raises errors of
        lz4 and zstd, each its own.

    """
    remains = remains_of(source)
    out = _Rewriter(target)
    with open_regular(source) as stream:
        header = _header(stream)
        out.put(header or MAGIC + record_of(HEADER, string('ros2') + string('')))
        for part in remains.parts:
            stream.seek(part.start)
            data = memoryview(stream.read(part.length + part.index_length))
            if part.kind == METADATA:
                out.metadata(data)
            elif part.is_chunk:
                out.chunk(data[: part.length], index_of(data[part.length :]))
            else:
                out.loose(np.frombuffer(data, dtype=np.uint8))
    out.loose(remains.cut)
    out.finish(name)
    return remains.told


@dataclass
class _Rewriter:
    """The new file, as it grows."""

    target: BinaryIO
    size: int = 0
    summary: Summary = field(default_factory=Summary)
    noted: Mapping[str, Any] = field(default_factory=dict)

    def put(self, data: bytes | bytearray | memoryview) -> None:
        self.target.write(data)
        self.size += len(data)

    def metadata(self, record: memoryview) -> None:
        """Copy a metadata record; keep what rosbag2 notes in it."""
        name, place = read_string(record, _HEAD.size)
        self.summary.metadata.append((self.size, len(record), name))
        if name == RECORD:
            self.noted = _noted(read_string_map(record, place)) or self.noted
        self.put(record)

    def loose(self, records: np.ndarray) -> None:
        """Take records outside of chunks; messages get a chunk."""
        places = places_of(records, np.empty(0, dtype=np.int64))
        if len(places.messages) == 0:
            self._declare(records, places.others)
            self.put(records.data)
            return
        _, times = channels_and_times(records, places.messages)
        data = chunk_record(int(times.min()), int(times.max()), records.tobytes())
        self.chunk(memoryview(data), places.messages)

    def chunk(self, record: memoryview, index: np.ndarray) -> None:
        """Copy a chunk, and write its index anew."""
        chunk = Chunk.of(record[_HEAD.size :])
        records = chunk.records()
        places = places_of(records, index)
        self._declare(records, places.others)
        numbers, times = channels_and_times(records, places.messages)
        start, offsets, counts, indices = self.size, [], {}, bytearray()
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            pairs = np.stack([times[mine], places.messages[mine]], axis=1).astype('<i8').tobytes()
            offsets.append((number, start + len(record) + len(indices)))
            indices += record_of(MESSAGE_INDEX, struct.pack('<HI', number, len(pairs)) + pairs)
            counts[number] = int(mine.sum())
        self.put(record)
        self.put(indices)
        self.summary.add(
            ChunkIndex(
                chunk.first,
                chunk.last,
                start,
                len(record),
                offsets,
                len(indices),
                chunk.size,
                len(chunk.data),
                chunk.compression,
            ),
            counts,
        )

    def finish(self, name: str) -> None:
        """Write the end."""
        summary = self.summary
        span = FileSpan(name, summary.first, summary.last, summary.messages)
        topics = _topics(summary)
        custom, distro = _custom(self.noted)
        description = describe([span], topics, custom, distro or DISTRO)
        self.put(summary.end(self.size, as_yaml(description)))

    def _declare(self, records: np.ndarray, places: tuple[int, ...]) -> None:
        data = records.data
        for place in places:
            opcode, length = _HEAD.unpack_from(data, place)
            body = data[place + _HEAD.size : place + _HEAD.size + length]
            if opcode in (SCHEMA, CHANNEL):
                kept = self.summary.schemas if opcode == SCHEMA else self.summary.channels
                (number,) = struct.unpack_from('<H', body)
                kept.setdefault(number, record_of(opcode, bytes(body)))
                if opcode == CHANNEL:
                    self.summary.counts.setdefault(number, 0)


def _header(stream: BinaryIO) -> bytes:
    """Return the magic and the header record; empty where they are cut."""
    stream.seek(0)
    start = stream.read(len(MAGIC) + _HEAD.size)
    if len(start) < len(MAGIC) + _HEAD.size or start[len(MAGIC)] != HEADER:
        return b''
    (length,) = struct.unpack_from('<Q', start, len(MAGIC) + 1)
    rest = stream.read(min(length, 1 << 16))
    return start + rest if len(rest) == length else b''


def _about(path: Path, stream: BinaryIO, data: memoryview) -> McapAbout | None:
    summary, statistics, place = Summary(), None, None
    for opcode, body in records_of(data):
        if opcode in (SCHEMA, CHANNEL):
            kept = summary.schemas if opcode == SCHEMA else summary.channels
            kept[struct.unpack_from('<H', body)[0]] = record_of(opcode, bytes(body))
        elif opcode == STATISTICS:
            statistics = body
        elif opcode == METADATA_INDEX and read_string(body, 16)[0] == RECORD:
            place = struct.unpack_from('<QQ', body)
    if statistics is None:
        return None
    first, last, size = struct.unpack_from('<QQI', statistics, 26)
    summary.counts = dict(struct.iter_unpack('<HQ', statistics[46 : 46 + size]))
    noted: Mapping[str, Any] = {}
    if place is not None:
        record = read_within(stream, *place)
        noted = _noted(read_string_map(record, read_string(record, _HEAD.size)[1]))
    span = FileSpan(path.name, first, last, struct.unpack_from('<Q', statistics)[0])
    return McapAbout(span, tuple(_topics(summary)), *_custom(noted))


def _topics(summary: Summary) -> list[dict[str, Any]]:
    """Return entries of all channels for the metadata."""
    kinds = {n: read_string(r, _HEAD.size + 2)[0] for n, r in summary.schemas.items()}
    entries = []
    for number, record in summary.channels.items():
        (schema,) = struct.unpack_from('<H', record, _HEAD.size + 2)
        topic, place = read_string(record, _HEAD.size + 4)
        encoding, place = read_string(record, place)
        told = read_string_map(record, place)
        entries.append(
            topic_entry(
                topic,
                kinds[schema],
                load_yaml(told.get('offered_qos_profiles', '')) or [],
                told.get('topic_type_hash', ''),
                summary.counts.get(number, 0),
                encoding,
            )
        )
    return entries


def _noted(record: Mapping[str, str]) -> Mapping[str, Any]:
    """Read rosbag2's description in a metadata record."""
    document = load_yaml(record.get(RECORD_KEY, ''))
    if isinstance(document, Mapping):
        document = document.get(KEY, document)
    return document if isinstance(document, Mapping) else {}


def _custom(noted: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    custom = noted.get('custom_data')
    custom = custom if isinstance(custom, Mapping) else {}
    return {str(k): str(v) for k, v in custom.items()}, str(noted.get('ros_distro') or '')
