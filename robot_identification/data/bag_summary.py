# SPDX-License-Identifier: Apache-2.0
"""
Contents of a complete rosbag2 recording of the usual structure.

That is one or several mcap or sqlite3 files, as they are or in a folder whose ``metadata.yaml``
names them, and not compressed but in the chunks of mcap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import yaml

from ..untrusted.files import read_text
from ..untrusted.yaml_loader import load_yaml
from .mcap_reader import (
    mcap_messages,
    McapFile,
    open_mcap,
)
from .messages import Messages
from .sqlite_reader import (
    open_sqlite,
    sqlite_duration,
    sqlite_messages,
    SqliteFile,
)

_OPEN = {'mcap': open_mcap, 'sqlite3': open_sqlite}
_STORAGE = {'.mcap': 'mcap', '.db3': 'sqlite3'}
_NEWEST = 9  # version of metadata.yaml


@dataclass(frozen=True)
class TopicSummary:
    """A topic, its type and how many messages it has; None where that is not known."""

    name: str
    type: str
    count: int | None


@dataclass(frozen=True)
class Contents:
    """
    A recording.

    Attributes
    ----------
    files:
        Its storage, in order.
    topics:
        All of them.
    span:
        Time from its first to its last message [s]; None where the files have to tell.

    """

    files: tuple[McapFile | SqliteFile, ...]
    topics: tuple[TopicSummary, ...]
    span: float | None

    @property
    def duration(self) -> float:
        """Time from the first to the last message of any topic [s]."""
        if self.span is not None:
            return self.span
        return sum(sqlite_duration(file) for file in self.files if isinstance(file, SqliteFile))

    def messages(self, topics: list[TopicSummary]) -> Iterator[Messages]:
        """Iterate over the messages of some topics, file after file, in the order of time."""
        wanted = {(topic.name, topic.type) for topic in topics}
        for file in self.files:
            if isinstance(file, McapFile):
                channels = tuple(c for c in file.channels if (c.topic, c.type) in wanted)
                if channels:
                    yield from mcap_messages(file, channels)
            else:
                numbers = [n for n, name, kind in file.topics if (name, kind) in wanted]
                if numbers:
                    yield from sqlite_messages(file, numbers)


def contents_of(bag: Path) -> Contents | None:
    """
    Find out what a recording holds, without its messages.

    Parameters
    ----------
    bag:
        A folder with ``metadata.yaml``, or an ``.mcap`` or ``.db3`` file.

    Returns
    -------
    Contents
        None where anything about it is unusual, or wrong.

    """
    if bag.is_dir():
        return _of_folder(bag)
    if bag.suffix not in _STORAGE:
        return None
    file = _OPEN[_STORAGE[bag.suffix]](bag)
    if file is None:
        return None
    if isinstance(file, McapFile):
        topics = tuple(TopicSummary(c.topic, c.type, c.count) for c in file.channels)
        return Contents((file,), topics, max(0, file.last - file.first) * 1e-9)
    topics = tuple(TopicSummary(name, kind, None) for _, name, kind in file.topics)
    return Contents((file,), topics, None)


def compression_of(bag: Path) -> tuple[str, list[Path]]:
    """
    Return how the files of a folder with ``metadata.yaml`` are compressed, and the files.

    Returns
    -------
    compression, files:
        ``none``, ``file`` or ``message``, and the storage files in order.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError
        where ``metadata.yaml`` does not tell.

    """
    told = load_yaml(read_text(bag / 'metadata.yaml'))['rosbag2_bagfile_information']
    if int(told['version']) > _NEWEST:
        raise ValueError(f'version {told["version"]} of metadata.yaml is not known')
    compression = str(told.get('compression_mode') or 'none').lower()
    if compression not in ('none', 'file', 'message'):
        raise ValueError(f"compression_mode '{compression}' is not known")
    if compression != 'none' and told.get('compression_format') != 'zstd':
        raise ValueError(f"compression_format '{told.get('compression_format')}' is not known")
    names = [PurePath(str(path)).name for path in told['relative_file_paths']]
    if not names:
        raise ValueError('metadata.yaml names no files')
    return compression, [bag / name for name in names]


def _of_folder(bag: Path) -> Contents | None:
    try:
        text = read_text(bag / 'metadata.yaml')
        told = load_yaml(text)['rosbag2_bagfile_information']
        compression = str(told.get('compression_mode') or 'none').lower()
        if int(told['version']) > _NEWEST or compression != 'none':
            return None
        opened = _OPEN[told['storage_identifier']]
        names = [PurePath(path).name for path in told['relative_file_paths']]
        entries = [
            (entry['topic_metadata'], int(entry['message_count']))
            for entry in told['topics_with_message_count']
        ]
        topics = tuple(TopicSummary(str(t['name']), str(t['type']), count) for t, count in entries)
        if any(topic['serialization_format'] != 'cdr' for topic, _ in entries):
            return None
        span = int(told['duration']['nanoseconds']) * 1e-9
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return None
    files = [opened(bag / name) for name in names]
    whole = tuple(file for file in files if file is not None)
    return Contents(whole, topics, span) if whole and len(whole) == len(files) else None
