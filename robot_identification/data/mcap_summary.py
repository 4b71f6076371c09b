# SPDX-License-Identifier: Apache-2.0
"""The end of an mcap file: what is in it and where (https://mcap.dev/spec)."""

from __future__ import annotations

from dataclasses import dataclass, field
import struct
from zlib import crc32

from .bag_metadata import RECORD, RECORD_KEY
from .mcap_records import (
    CHANNEL,
    CHUNK_INDEX,
    ChunkIndex,
    DATA_END,
    FOOTER,
    MAGIC,
    METADATA,
    METADATA_INDEX,
    pair_list,
    record_of,
    SCHEMA,
    STATISTICS,
    string,
    string_map,
    SUMMARY_OFFSET,
)

NEVER = (2**63 - 1, 0)
"""First and last time of no messages [ns]."""


@dataclass
class Summary:
    """
    Collects what a file holds, and makes its end.

    Attributes
    ----------
    schemas, channels:
        Their records, by number.
    counts:
        Messages by channel.
    chunks:
        The index.
    metadata:
        Metadata records: where each starts, its length, and its name.
    first, last:
        Times of the first and last message [ns].

    """

    schemas: dict[int, bytes] = field(default_factory=dict)
    channels: dict[int, bytes] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    chunks: list[ChunkIndex] = field(default_factory=list)
    metadata: list[tuple[int, int, str]] = field(default_factory=list)
    first: int = NEVER[0]
    last: int = NEVER[1]

    @property
    def messages(self) -> int:
        """Number of messages."""
        return sum(self.counts.values())

    def add(self, chunk: ChunkIndex, counts: dict[int, int]) -> None:
        """Take a chunk that is in the file, and its messages by channel."""
        self.chunks.append(chunk)
        for channel, count in counts.items():
            self.counts[channel] = self.counts.get(channel, 0) + count
        if any(counts.values()):
            self.first = min(self.first, chunk.first)
            self.last = max(self.last, chunk.last)

    def end(self, start: int, description: str) -> bytes:
        """
        Return everything after the last message: metadata, summary, footer.

        Parameters
        ----------
        start:
            Where it will be in the file.
        description:
            rosbag2's description of the bag, for a metadata record.

        """
        metadata = record_of(METADATA, string(RECORD) + string_map({RECORD_KEY: description}))
        self.metadata.append((start, len(metadata), RECORD))
        data_end = record_of(DATA_END, struct.pack('<I', 0))
        places = (
            record_of(METADATA_INDEX, struct.pack('<QQ', place, length) + string(name))
            for place, length, name in self.metadata
        )
        groups = (
            (SCHEMA, b''.join(self.schemas.values())),
            (CHANNEL, b''.join(self.channels.values())),
            (STATISTICS, self._statistics()),
            (CHUNK_INDEX, b''.join(chunk.record() for chunk in self.chunks)),
            (METADATA_INDEX, b''.join(places)),
        )
        summary_start = position = start + len(metadata) + len(data_end)
        offsets = bytearray()
        for code, records in groups:
            if records:
                offset = struct.pack('<BQQ', code, position, len(records))
                offsets += record_of(SUMMARY_OFFSET, offset)
                position += len(records)
        summary = b''.join(records for _, records in groups) + offsets
        # the footer's checksum covers the summary and the footer up to itself
        footer = struct.pack('<BQQQ', FOOTER, 20, summary_start, position)
        footer += struct.pack('<I', crc32(summary + footer))
        return metadata + data_end + summary + footer + MAGIC

    def _statistics(self) -> bytes:
        messages = self.messages
        first, last = (self.first, self.last) if messages else (0, 0)
        sizes = (len(self.schemas), len(self.channels), 0, len(self.metadata), len(self.chunks))
        counts = pair_list('HQ', sorted(self.counts.items()))
        return record_of(
            STATISTICS, struct.pack('<QHIIIIQQ', messages, *sizes, first, last) + counts
        )
