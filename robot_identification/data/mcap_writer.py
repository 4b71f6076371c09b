# SPDX-License-Identifier: Apache-2.0
"""
Write rosbag2 directories (mcap) without ROS, for ``ros2 bag play``, ``info`` and our own readers.

A directory holds ``<name>_0.mcap`` and, once it is closed, ``metadata.yaml``.  The file is made of
the records of the MCAP specification (https://mcap.dev/spec): messages are gathered in chunks, and
each chunk goes to the operating system in one piece when `BagWriter.flush` is called, so that a
writer that is killed leaves everything up to its last flush for readers that do without the
summary at the end; `BagWriter.sync` has it survive a power loss, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import contextlib
from dataclasses import replace
import fcntl
import os
from pathlib import Path
import struct
from typing import Any, BinaryIO

from ..errors import RecordingError
from .bag_metadata import (
    as_yaml,
    describe,
    FileSpan,
    METADATA_NAME,
    Qos,
    sync_folder,
    Topic,
    write_metadata,
)
from .mcap_records import (
    CHANNEL,
    Chunk,
    ChunkIndex,
    HEADER,
    MAGIC,
    MESSAGE_INDEX,
    pair_list,
    record_of,
    SCHEMA,
    string,
    string_map,
)
from .mcap_summary import Summary
from .message_definition import message_definition

__all__ = ['BagWriter', 'LIBRARY', 'Qos', 'Topic']

LIBRARY = 'robot_identification'
"""How the files name their writer."""

_CHUNK_BYTES = 1 << 20


class BagWriter:
    """
    Writes one bag; only `sync` may be called while another thread is in here.

    The file is locked (``flock``) as long as it is being written, so that nobody takes it for one
    that was left behind.  Folder and file may be renamed meanwhile.

    Parameters
    ----------
    folder:
        The bag's directory; made here, must not exist.
    topics:
        What is written.
    custom_data:
        Kept in ``metadata.yaml`` and in the file.

    Raises
    ------
    RecordingError
        where the directory exists (its cause is a FileExistsError) or cannot be written.

    """

    def __init__(
        self,
        folder: str | os.PathLike,
        topics: Sequence[Topic],
        custom_data: Mapping[str, str] | None = None,
    ) -> None:
        self.topics = list(topics)
        self.custom_data = dict(custom_data or {})
        self._folder = Path(folder)
        self._name = f'{self._folder.name}_0.mcap'
        self._place = self._folder / self._name
        self._chunk = Chunk(len(self.topics))
        self._summary = Summary()
        self._size = self._messages = 0
        self._schemas: dict[str, int] = {}
        self._file: BinaryIO | None = None
        try:
            _make_folder(self._folder)
            self._file = open(self._place, 'xb', buffering=0)  # noqa: SIM115
        except FileExistsError as error:
            raise RecordingError(
                f"'{folder}' exists already", file=str(folder), remedy='use another name'
            ) from error
        except OSError as error:
            raise self._failed(error) from error
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            self._put(MAGIC + record_of(HEADER, string('ros2') + string(LIBRARY)))
            self._put(self._declared_schemas())
        except RecordingError:
            self.abandon()
            raise
        sync_folder(self._folder)
        sync_folder(self._folder.parent)

    @property
    def path(self) -> Path:
        """The mcap file, where it is now."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # systems without /proc: where it was made
                place = Path(os.readlink(f'/proc/self/fd/{self._file.fileno()}'))
                if place.exists():
                    self._place = place
        return self._place

    @property
    def folder(self) -> Path:
        """The bag's directory, where it is now."""
        place = self.path
        # a relative path stays as the caller wrote it as long as it is right
        same = place.name == self._name and place.parent == self._folder.absolute()
        return self._folder if same else place.parent

    @property
    def messages(self) -> int:
        """Number of messages written so far (what a failed `flush` lost does not count)."""
        return self._messages

    @property
    def size(self) -> int:
        """Size of the file so far [bytes]."""
        return self._size

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def offered(self, topic: int, qos: Sequence[Qos]) -> None:
        """Say what the publishers of a topic offer, where its first message is not on disk yet."""
        self.topics[topic] = replace(self.topics[topic], qos=tuple(qos))

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
        self._messages += 1
        if len(self._chunk.records) >= _CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """
        Hand everything written so far to the operating system.

        Raises
        ------
        RecordingError
            where the disk is full or gone, or the file was removed; it then ends with the last
            complete chunk.

        """
        chunk = self._chunk
        if not chunk.records:
            return
        self._chunk = Chunk(len(self.topics))
        counts = {number: len(entries) for number, entries in enumerate(chunk.index, 1) if entries}
        try:
            self._append(chunk, counts)
        except RecordingError:
            self._messages -= sum(counts.values())
            raise

    def _append(self, chunk: Chunk, counts: dict[int, int]) -> None:
        self._require_file()
        self._declare(counts)
        record = chunk.record()
        start = self._size
        indices, offsets = bytearray(), []
        for number in counts:
            offsets.append((number, start + len(record) + len(indices)))
            entry = struct.pack('<H', number) + pair_list('QQ', chunk.index[number - 1])
            indices += record_of(MESSAGE_INDEX, entry)
        self._put(record + indices)
        size = len(chunk.records)
        index = ChunkIndex(
            chunk.first, chunk.last, start, len(record), offsets, len(indices), size, size
        )
        self._summary.add(index, counts)

    def sync(self) -> None:
        """Have what was flushed reach the disk; raises OSError."""
        file = self._file
        if file is not None:
            getattr(os, 'fdatasync', os.fsync)(file.fileno())

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
            self._require_file()
            self._declare(range(1, len(self.topics) + 1))
            place = self.path
            description = self._description(place.name)
            if (place.parent / METADATA_NAME).exists():
                raise FileExistsError(0, f'{METADATA_NAME} is there already', str(place.parent))
            self._put(self._summary.end(self._size, as_yaml(description)))
            os.fsync(self._file.fileno())
            write_metadata(place.parent, description)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is; what was not flushed is gone."""
        if self._file is not None:
            _ = self.path  # kept for later
            self._messages -= sum(map(len, self._chunk.index))
            self._chunk = Chunk(len(self.topics))
            file, self._file = self._file, None
            with contextlib.suppress(OSError):
                file.close()

    # ------------------------------------------------------------------------------- what is put

    def _put(self, data: bytes | bytearray) -> None:
        """Append ``data`` as a whole or not at all."""
        assert self._file is not None
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)
                self._file.seek(self._size)
            raise self._failed(error) from error
        self._size += len(data)

    def _require_file(self) -> None:
        assert self._file is not None
        if os.fstat(self._file.fileno()).st_nlink == 0:
            raise RecordingError(
                f"the bag '{self._folder}' was removed while it was recorded",
                file=str(self._folder),
                remedy='start another recording',
            )

    def _failed(self, error: OSError) -> RecordingError:
        return RecordingError(
            f"cannot write the bag '{self.folder}': {error.strerror or error}",
            file=str(self.folder),
            remedy='choose a folder that exists or can be made, may be written and has room',
        )

    def _declared_schemas(self) -> bytes:
        for topic in self.topics:
            self._schemas.setdefault(topic.type, len(self._schemas) + 1)
        for kind, number in self._schemas.items():
            definition = string('ros2msg') + string(message_definition(kind))
            content = struct.pack('<H', number) + string(kind) + definition
            self._summary.schemas[number] = record_of(SCHEMA, content)
        return b''.join(self._summary.schemas.values())

    def _declare(self, numbers: Any) -> None:
        """Write the channels with these numbers, unless that was done before."""
        for number in numbers:
            if number in self._summary.channels:
                continue
            topic = self.topics[number - 1]
            fields = struct.pack('<HH', number, self._schemas[topic.type]) + string(topic.name)
            fields += string('cdr') + string_map(topic.channel_metadata())
            record = record_of(CHANNEL, fields)
            self._put(record)
            self._summary.channels[number] = record
            self._summary.counts.setdefault(number, 0)

    def _description(self, name: str) -> dict[str, Any]:
        """Return rosbag2's description of the bag, as in its ``metadata.yaml``."""
        summary = self._summary
        span = FileSpan(name, summary.first, summary.last, summary.messages)
        topics = (
            topic.entry(summary.counts.get(number, 0))
            for number, topic in enumerate(self.topics, 1)
        )
        return describe([span], list(topics), self.custom_data)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir()
    except FileNotFoundError:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
