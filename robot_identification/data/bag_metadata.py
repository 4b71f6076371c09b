# SPDX-License-Identifier: Apache-2.0
"""
Description of a rosbag2 recording: ``metadata.yaml`` in version 9, that of ROS 2 Jazzy.

The mcap file has the same in a metadata record and in its channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import contextlib
from dataclasses import dataclass
from functools import cache
import os
from pathlib import Path
from typing import Any

from rosbags.typesys import get_typestore, Stores
import yaml

from ..untrusted.files import read_text
from ..untrusted.yaml_loader import load_yaml

METADATA_NAME = 'metadata.yaml'
KEY = 'rosbag2_bagfile_information'
RECORD = 'rosbag2'
"""Name of the metadata record with the description."""

RECORD_KEY = 'serialized_metadata'
MARK = 'mark'
"""Key in the custom data for the reason of an early end, or any remark of the recorder."""

DISTRO = 'jazzy'
"""ROS distribution of files that are written here, and of files that name none."""

FOREVER = 9223372036854775807
"""RMW_DURATION_INFINITE [ns]."""


@dataclass(frozen=True)
class Qos:
    """Quality of service that a topic's publisher offers, in rosbag2's words; times in ns."""

    history: str = 'keep_last'
    depth: int = 10
    reliability: str = 'reliable'
    durability: str = 'volatile'
    liveliness: str = 'automatic'
    deadline: int = FOREVER
    lifespan: int = FOREVER
    liveliness_lease_duration: int = FOREVER

    def as_dict(self) -> dict[str, Any]:
        """Return the mapping that rosbag2 writes."""
        return {
            'history': self.history,
            'depth': self.depth,
            'reliability': self.reliability,
            'durability': self.durability,
            'deadline': _duration(self.deadline),
            'lifespan': _duration(self.lifespan),
            'liveliness': self.liveliness,
            'liveliness_lease_duration': _duration(self.liveliness_lease_duration),
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


def describe(
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


def read_metadata(folder: Path) -> Mapping[str, Any]:
    """Read ``metadata.yaml``; raises OSError, and errors as `description_in`."""
    return description_in(read_text(folder / METADATA_NAME))


def description_in(text: str) -> Mapping[str, Any]:
    """Return the description in a text; raises ValueError or yaml.YAMLError if it has none."""
    document = load_yaml(text)
    if isinstance(document, Mapping):
        document = document.get(KEY, document)
    if not isinstance(document, Mapping):
        raise ValueError('it has no description of a bag')
    return document


def custom_data_in(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the custom data in a description."""
    custom = description.get('custom_data')
    custom = custom if isinstance(custom, Mapping) else {}
    return {str(key): str(value) for key, value in custom.items()}


def as_yaml(content: Any) -> str:
    """Return YAML that keeps the order."""
    return yaml.safe_dump(content, sort_keys=False)


def write_metadata(folder: Path, description: Mapping[str, Any]) -> None:
    """Write ``metadata.yaml`` to the disk, as a whole or not at all; raises OSError."""
    path = folder / METADATA_NAME
    beside = folder / f'.{METADATA_NAME}.{os.getpid()}'
    try:
        with beside.open('x', encoding='utf-8') as stream:
            stream.write(as_yaml({KEY: dict(description)}))
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, if the system can do that."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@cache
def message_definition(kind: str) -> str:
    """Return the definition of a message type and its parts, as ``sensor_msgs/msg/JointState``."""
    return get_typestore(Stores.ROS2_JAZZY).generate_msgdef(kind, ros_version=2)[0]


@cache
def type_hash(kind: str) -> str:
    """Return the hash of a message type (REP 2016, ``RIHS01_...``)."""
    return get_typestore(Stores.ROS2_JAZZY).hash_rihs01(kind)


def _duration(nanoseconds: int) -> dict[str, int]:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return {'sec': seconds, 'nsec': rest}
