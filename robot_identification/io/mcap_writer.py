# SPDX-License-Identifier: Apache-2.0
"""
Write rosbag2 directories (mcap) without ROS, for ``ros2 bag play``, ``info`` and our own readers.

A directory holds ``<name>_0.mcap`` and, once it is closed, ``metadata.yaml`` (version 9, ROS 2
Jazzy).  The file is made of the records of the MCAP specification (https://mcap.dev/spec):
messages are gathered in chunks, and each chunk goes to the operating system in one piece when
`BagWriter.flush` is called, so that a writer that is killed leaves everything up to its last flush
for readers that do without the summary at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import contextlib
from dataclasses import dataclass
import os
from pathlib import Path
import struct
from typing import Any, BinaryIO
from zlib import crc32

import yaml

from ..errors import RecordingError
from .mcap_records import (
    CHANNEL,
    Chunk,
    CHUNK_INDEX,
    ChunkIndex,
    DATA_END,
    FOOTER,
    HEADER,
    MAGIC,
    MESSAGE_INDEX,
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
from .message_definition import message_definition, type_hash

_CHUNK_BYTES = 1 << 20
_FOREVER = {'sec': 9223372036, 'nsec': 854775807}  # RMW_DURATION_INFINITE


@dataclass(frozen=True)
class Qos:
    """Quality of service that a topic's publisher offers, in rosbag2's words."""

    history: str = 'keep_last'
    depth: int = 10
    reliability: str = 'reliable'
    durability: str = 'volatile'
    liveliness: str = 'automatic'

    def as_dict(self) -> dict[str, Any]:
        """Return the mapping that rosbag2 writes."""
        return {
            'history': self.history,
            'depth': self.depth,
            'reliability': self.reliability,
            'durability': self.durability,
            'deadline': dict(_FOREVER),
            'lifespan': dict(_FOREVER),
            'liveliness': self.liveliness,
            'liveliness_lease_duration': dict(_FOREVER),
            'avoid_ros_namespace_conventions': False,
        }


@dataclass(frozen=True)
class Topic:
    """
    A topic of a bag.

    Attributes
    ----------
    name:
        Full name, ``/joint_states``.
    type:
        ``sensor_msgs/msg/JointState``.
    qos:
        What its publishers offer.

    """

    name: str
    type: str
    qos: tuple[Qos, ...] = (Qos(),)


class BagWriter:
    """
    Writes one bag; not safe to be used from several threads at once.

    Parameters
    ----------
    folder:
        The bag's directory; made here, must not exist.
    topics:
        What is written.
    custom_data:
        Kept in ``metadata.yaml``.

    Raises
    ------
    RecordingError
        where the directory exists or cannot be written.

    """

    def __init__(
        self,
        folder: str | os.PathLike,
        topics: Sequence[Topic],
        custom_data: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.topics = tuple(topics)
        self._custom_data = dict(custom_data or {})
        self._counts = [0] * len(self.topics)
        self._chunk = Chunk(len(self.topics))
        self._chunks: list[ChunkIndex] = []
        self._first, self._last = 2**63 - 1, 0
        self._definitions: dict[str, str] = {}
        for topic in self.topics:
            self._definitions.setdefault(topic.type, message_definition(topic.type))
        try:
            self.folder.mkdir(parents=True)
            self._file: BinaryIO | None = open(self.path, 'xb', buffering=0)  # noqa: SIM115
        except FileExistsError:
            raise RecordingError(
                f"'{self.folder}' exists already", file=str(self.folder), remedy='use another name'
            ) from None
        except OSError as error:
            raise self._failed(error) from error
        try:
            self._put(MAGIC + record_of(HEADER, string('ros2') + string('robot_identification')))
            self._put(self._schemas() + self._channels())
        except RecordingError:
            self.abandon()
            raise

    @property
    def path(self) -> Path:
        """The mcap file."""
        return self.folder / f'{self.folder.name}_0.mcap'

    @property
    def messages(self) -> int:
        """Number of messages written so far (what a failed `flush` lost does not count)."""
        return sum(self._counts) + sum(map(len, self._chunk.index))

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(
        self, topic: int, log_time: int, data: bytes, *, publish_time: int, sequence: int = 0
    ) -> None:
        """
        Add a message.

        Parameters
        ----------
        topic:
            Its place among the topics.
        log_time, publish_time:
            When it was received and sent [ns].
        data:
            The serialised message (CDR with its encapsulation header).
        sequence:
            The publisher's count; 0 where that is unknown, as rosbag2 does.

        """
        self._chunk.add(topic, sequence, log_time, publish_time, data)
        if len(self._chunk.records) >= _CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """
        Hand everything written so far to the operating system.

        Raises
        ------
        RecordingError
            where the disk is full or gone; the file then ends with the last complete chunk.

        """
        chunk = self._chunk
        if not chunk.records:
            return
        self._chunk = Chunk(len(self.topics))
        record = chunk.record()
        start = self._put(record)
        index_start = start + len(record)
        indices, offsets = bytearray(), []
        for number, entries in enumerate(chunk.index):
            if entries:
                offsets.append((number + 1, index_start + len(indices)))
                entry = pair_list('QQ', entries)
                indices += record_of(MESSAGE_INDEX, struct.pack('<H', number + 1) + entry)
        self._put(indices)
        self._counts = [n + len(entries) for n, entries in zip(self._counts, chunk.index)]
        size = len(chunk.records)
        index = ChunkIndex(
            chunk.first, chunk.last, start, len(record), offsets, len(indices), size
        )
        self._chunks.append(index)
        self._first, self._last = min(self._first, chunk.first), max(self._last, chunk.last)

    def close(self) -> None:
        """
        Write what is left, the summary and ``metadata.yaml``; a second call does nothing.

        Raises
        ------
        RecordingError
            where the disk is full or gone; the messages already written stay readable.

        """
        if self._file is None:
            return
        try:
            self.flush()
            self._put(self._end())
            os.fsync(self._file.fileno())
            text = yaml.safe_dump(
                {'rosbag2_bagfile_information': self._metadata()}, sort_keys=False
            )
            (self.folder / 'metadata.yaml').write_text(text, encoding='utf-8')
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    # ------------------------------------------------------------------------------- what is put

    def _put(self, data: bytes | bytearray) -> int:
        """Append ``data`` as a whole or not at all; return where it starts."""
        assert self._file is not None
        start = self._file.tell()
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(start)
                self._file.seek(start)
            raise self._failed(error) from error
        return start

    def _failed(self, error: OSError) -> RecordingError:
        return RecordingError(
            f"cannot write the bag '{self.folder}': {error.strerror or error}",
            file=str(self.folder),
            remedy='choose a folder that exists or can be made, may be written and has room',
        )

    def _schemas(self) -> bytes:
        return b''.join(
            record_of(
                SCHEMA,
                struct.pack('<H', number) + string(kind) + string('ros2msg') + string(definition),
            )
            for number, (kind, definition) in enumerate(self._definitions.items(), 1)
        )

    def _channels(self) -> bytes:
        schemas = {kind: number for number, kind in enumerate(self._definitions, 1)}
        channels = bytearray()
        for number, topic in enumerate(self.topics, 1):
            metadata = {
                'offered_qos_profiles': yaml.safe_dump(_qos(topic), sort_keys=False).strip(),
                'topic_type_hash': type_hash(topic.type),
            }
            fields = struct.pack('<HH', number, schemas[topic.type]) + string(topic.name)
            channels += record_of(CHANNEL, fields + string('cdr') + string_map(metadata))
        return bytes(channels)

    def _end(self) -> bytes:
        """Return everything after the last message: metadata, summary, footer."""
        assert self._file is not None
        start = self._file.tell()
        text = yaml.safe_dump(self._metadata(), sort_keys=False)
        metadata = record_of(
            METADATA, string('rosbag2') + string_map({'serialized_metadata': text})
        )
        data_end = record_of(DATA_END, struct.pack('<I', 0))
        place = struct.pack('<QQ', start, len(metadata)) + string('rosbag2')
        groups = (
            (SCHEMA, self._schemas()),
            (CHANNEL, self._channels()),
            (STATISTICS, self._statistics()),
            (CHUNK_INDEX, b''.join(chunk.record() for chunk in self._chunks)),
            (METADATA_INDEX, record_of(METADATA_INDEX, place)),
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
        first = self._first if self._chunks else 0
        counts = pair_list('HQ', [(n, c) for n, c in enumerate(self._counts, 1)])
        sizes = (self.messages, len(self._definitions), len(self.topics), 0, 1, len(self._chunks))
        return record_of(STATISTICS, struct.pack('<QHIIIIQQ', *sizes, first, self._last) + counts)

    def _metadata(self) -> dict[str, Any]:
        """Return rosbag2's description of the bag, as in its ``metadata.yaml``."""
        start = {'nanoseconds_since_epoch': self._first if self._chunks else 0}
        duration = {'nanoseconds': self._last - self._first if self._chunks else 0}
        topics = [
            {
                'topic_metadata': {
                    'name': topic.name,
                    'type': topic.type,
                    'serialization_format': 'cdr',
                    'offered_qos_profiles': _qos(topic),
                    'type_description_hash': type_hash(topic.type),
                },
                'message_count': count,
            }
            for topic, count in zip(self.topics, self._counts, strict=True)
        ]
        file = {
            'path': self.path.name,
            'starting_time': start,
            'duration': duration,
            'message_count': self.messages,
        }
        return {
            'version': 9,
            'storage_identifier': 'mcap',
            'duration': dict(duration),
            'starting_time': dict(start),
            'message_count': self.messages,
            'topics_with_message_count': topics,
            'compression_format': '',
            'compression_mode': '',
            'relative_file_paths': [self.path.name],
            'files': [file],
            'custom_data': self._custom_data or None,
            'ros_distro': 'jazzy',
        }


def _qos(topic: Topic) -> list[dict[str, Any]]:
    return [qos.as_dict() for qos in topic.qos]
