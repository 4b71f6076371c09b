# SPDX-License-Identifier: Apache-2.0
"""
Writing of rosbag2 recordings (mcap) without ROS, for ``ros2 bag`` and our own readers.

A folder has ``<name>_0.mcap`` and, once it is closed, ``metadata.yaml``.  Each chunk goes to the
operating system in one piece at `BagWriter.flush`, so that a killed writer loses only what came
after its last flush; what was written before `BagWriter.sync` survives a power loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import contextlib
from dataclasses import asdict, dataclass, replace
from functools import cache
import os
from pathlib import Path
import sys
from typing import Any, BinaryIO, cast

from mcap.writer import CompressionType, Writer
import yaml

from ..errors import RecordingError
from ..untrusted.writing import open_new, sync_folder, write_whole
from .bag import METADATA_KEY, METADATA_NAME
from .joint_state import typestore
from .storage_kinds import RECORD, RECORD_KEY

LIBRARY = 'robot_identification'
"""Name of the writer in the files."""

DISTRO = 'jazzy'
"""ROS distribution of files that are written here, and of files that name none."""

FOREVER = 9223372036854775807
"""RMW_DURATION_INFINITE [ns]."""

_CHUNK_BYTES = 1 << 20  # of messages, above which a chunk is written


@dataclass(frozen=True)
class Qos:
    """Quality of service that a topic's publisher offers, in rosbag2's words; times in ns."""

    history: str = 'keep_last'
    depth: int = 10
    reliability: str = 'reliable'
    durability: str = 'volatile'
    deadline: int = FOREVER
    lifespan: int = FOREVER
    liveliness: str = 'automatic'
    liveliness_lease_duration: int = FOREVER

    def as_dict(self) -> dict[str, Any]:
        """Return the mapping that rosbag2 writes."""
        values = asdict(self)
        for name in ('deadline', 'lifespan', 'liveliness_lease_duration'):
            seconds, rest = divmod(values[name], 1_000_000_000)
            values[name] = {'sec': seconds, 'nsec': rest}
        return {**values, 'avoid_ros_namespace_conventions': False}


@dataclass(frozen=True)
class Topic:
    """A topic of a bag: full name, type as ``sensor_msgs/msg/JointState``, publishers' QoS."""

    name: str
    type: str
    qos: tuple[Qos, ...] = (Qos(),)

    def channel_metadata(self) -> dict[str, str]:
        """Return the metadata of the topic's channel in an mcap file."""
        profiles = as_yaml([qos.as_dict() for qos in self.qos]).strip()
        return {'offered_qos_profiles': profiles, 'topic_type_hash': type_hash(self.type)}

    def entry(self, count: int) -> dict[str, Any]:
        """Return the topic's entry in the metadata."""
        profiles = [qos.as_dict() for qos in self.qos]
        return topic_entry(self.name, self.type, profiles, type_hash(self.type), count)


@dataclass(frozen=True)
class FileSpan:
    """A storage file's name, the times of its first and last message [ns], and their number."""

    name: str
    first: int
    last: int
    count: int


def topic_entry(
    name: str, kind: str, profiles: Any, hashed: str, count: int, encoding: str = 'cdr'
) -> dict[str, Any]:
    """Return a topic's entry in the metadata."""
    return {
        'topic_metadata': {
            'name': name,
            'type': kind,
            'serialization_format': encoding,
            'offered_qos_profiles': profiles,
            'type_description_hash': hashed,
        },
        'message_count': count,
    }


def bag_description(
    files: Sequence[FileSpan],
    topics: Sequence[Mapping[str, Any]],
    custom_data: Mapping[str, str],
    distro: str = DISTRO,
) -> dict[str, Any]:
    """Return rosbag2's description of a bag with mcap files and entries of `topic_entry`."""
    filled = [file for file in files if file.count]
    first = min((file.first for file in filled), default=0)
    last = max((file.last for file in filled), default=0)
    return {
        'version': 9,
        'storage_identifier': 'mcap',
        'duration': {'nanoseconds': last - first},
        'starting_time': {'nanoseconds_since_epoch': first},
        'message_count': sum(file.count for file in files),
        'topics_with_message_count': [dict(topic) for topic in topics],
        'compression_format': '',
        'compression_mode': '',
        'relative_file_paths': [file.name for file in files],
        'files': [
            {
                'path': file.name,
                'starting_time': {'nanoseconds_since_epoch': file.first if file.count else 0},
                'duration': {'nanoseconds': file.last - file.first if file.count else 0},
                'message_count': file.count,
            }
            for file in files
        ],
        'custom_data': dict(custom_data) or None,
        'ros_distro': distro,
    }


class BagWriter:
    """
    Writer of one bag; only `sync` may be called from another thread.

    Folder and file may be renamed meanwhile.

    Parameters
    ----------
    folder:
        The bag's folder; must not exist.
    topics:
        Topics of the bag.
    custom_data:
        Custom data of ``metadata.yaml`` and the file.

    Attributes
    ----------
    messages:
        Number of messages written so far (what `abandon` lost does not count).

    Raises
    ------
    RecordingError
        if the folder exists (its cause is a FileExistsError) or cannot be written.

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
        self._channels: dict[int, int] = {}
        self._schemas: dict[str, int] = {}
        self._counts = [0] * len(self.topics)
        self._first, self._last = 2**63 - 1, 0
        self.messages = self._pending = self._pending_bytes = self._size = 0
        self._file: _Appended | None = None
        try:
            with contextlib.suppress(FileExistsError):
                self._folder.parent.mkdir(parents=True)
            self._folder.mkdir()
            self._file = _Appended(self._place)
        except FileExistsError as error:
            raise RecordingError(
                f"'{folder}' exists already", file=str(folder), remedy='use another name'
            ) from error
        except OSError as error:
            raise self._failed(error) from error
        # chunks end where they are flushed
        self._writer = Writer(cast(BinaryIO, self._file), sys.maxsize, CompressionType.NONE)
        self._writer.start('ros2', LIBRARY)
        try:
            self._writer.flush()
        except OSError as error:
            self.abandon()
            raise self._failed(error) from error
        sync_folder(self._folder)
        sync_folder(self._folder.parent)

    @property
    def path(self) -> Path:
        """The mcap file, where it is now."""
        file = self._file  # another thread may close it
        if file is not None:
            # systems without /proc: where it was made
            with contextlib.suppress(OSError, ValueError):
                place = Path(os.readlink(f'/proc/self/fd/{file.number}'))
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
    def size(self) -> int:
        """Size of the file so far [bytes]."""
        file = self._file
        return self._size if file is None else file.size

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def offered(self, topic: int, qos: Sequence[Qos]) -> None:
        """Set the publishers' quality of service of a topic, before its first message."""
        self.topics[topic] = replace(self.topics[topic], qos=tuple(qos))

    def write(self, topic: int, log_time: int, data: bytes, *, publish_time: int) -> None:
        """
        Add a message.

        Parameters
        ----------
        topic:
            Index of the topic.
        log_time, publish_time:
            Times of reception and publication [ns].
        data:
            The message in CDR with its encapsulation header.

        """
        channel = self._channels.get(topic) or self._declare(topic)
        self._writer.add_message(channel, log_time, data, publish_time)
        self._counts[topic] += 1
        self._first, self._last = min(self._first, log_time), max(self._last, log_time)
        self.messages += 1
        self._pending += 1
        self._pending_bytes += len(data)
        if self._pending_bytes >= _CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """
        Hand all messages to the operating system.

        Raises
        ------
        RecordingError
            if the disk is full or gone, or the file was removed; the file then ends with the last
            complete chunk, and the next call tries again.

        """
        if not self._pending:
            return
        self._require_file()
        try:
            self._writer.flush()
        except OSError as error:
            raise self._failed(error) from error
        self._pending = self._pending_bytes = 0

    def sync(self) -> None:
        """Wait until the disk has what was flushed; raises OSError."""
        file = self._file
        if file is not None:
            getattr(os, 'fdatasync', os.fsync)(file.number)

    def close(self) -> None:
        """
        Write the rest, the summary and ``metadata.yaml``; a second call does nothing.

        Raises
        ------
        RecordingError
            if the disk is full or gone; messages already written stay readable.

        """
        if self._file is None:
            return
        try:
            for topic in range(len(self.topics)):
                if topic not in self._channels:
                    self._declare(topic)
            self.flush()
            self._require_file()
            place = self.path
            span = FileSpan(place.name, self._first, self._last, self.messages)
            topics = [t.entry(count) for t, count in zip(self.topics, self._counts, strict=True)]
            description = bag_description([span], topics, self.custom_data)
            if (place.parent / METADATA_NAME).exists():
                raise FileExistsError(0, f'{METADATA_NAME} is there already', str(place.parent))
            self._writer.add_metadata(RECORD, {RECORD_KEY: as_yaml(description)})
            self._writer.finish()
            self._file.flush()
            os.fsync(self._file.number)
            write_metadata(place.parent, description)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is; messages that were not flushed are lost."""
        if self._file is not None:
            _ = self.path  # kept for later
            self.messages -= self._pending
            self._pending = 0
            self._size = self._file.size
            file, self._file = self._file, None
            file.close()

    def _require_file(self) -> None:
        assert self._file is not None
        if os.fstat(self._file.number).st_nlink == 0:
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

    def _declare(self, number: int) -> int:
        """Add a topic's schema and channel; return the channel."""
        topic = self.topics[number]
        if topic.type not in self._schemas:
            definition = message_definition(topic.type).encode()
            schema = self._writer.register_schema(topic.type, 'ros2msg', definition)
            self._schemas[topic.type] = schema
        self._channels[number] = self._writer.register_channel(
            topic.name, 'cdr', self._schemas[topic.type], topic.channel_metadata()
        )
        return self._channels[number]


class _Appended:
    """File to which each flush appends all of what was written, or nothing."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = open_new(path)
        self._waiting = bytearray()
        self.size = 0

    @property
    def number(self) -> int:
        """Descriptor; raises ValueError when it is closed."""
        return self._file.fileno()

    def write(self, data: bytes) -> None:
        """Keep data until it is flushed."""
        self._waiting += data

    def tell(self) -> int:
        """Return the place behind everything that was written."""
        return self.size + len(self._waiting)

    def flush(self) -> None:
        """Append what was written; it is kept if that fails with an OSError."""
        try:
            with memoryview(self._waiting) as data:
                done = 0
                while done < len(data):
                    done += self._file.write(data[done:])
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self.size)
                self._file.seek(self.size)
            raise
        self.size += len(self._waiting)
        self._waiting.clear()

    def close(self) -> None:
        """Close the file as it is on the disk."""
        with contextlib.suppress(OSError):
            self._file.close()


# --------------------------------------------------------------------------- metadata


def as_yaml(content: Any) -> str:
    """Return YAML that keeps the order."""
    return yaml.safe_dump(content, sort_keys=False)


def write_metadata(folder: Path, description: Mapping[str, Any]) -> None:
    """Write ``metadata.yaml`` to the disk, as a whole or not at all; raises OSError."""
    content = as_yaml({METADATA_KEY: dict(description)})
    write_whole(folder / METADATA_NAME, content, sync=True)


@cache
def message_definition(kind: str) -> str:
    """Return the definition of a message type and its parts, as ``sensor_msgs/msg/JointState``."""
    return str(typestore().generate_msgdef(kind, ros_version=2)[0])


@cache
def type_hash(kind: str) -> str:
    """Return the hash of a message type (REP 2016, ``RIHS01_...``)."""
    return str(typestore().hash_rihs01(kind))
