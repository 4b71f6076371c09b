# SPDX-License-Identifier: Apache-2.0
"""Rosbag2 recordings: metadata, and joint states in messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
import contextlib
from dataclasses import dataclass, field
from pathlib import Path, PurePath
import re
import sqlite3
import tempfile
from types import MappingProxyType
from typing import Any, NamedTuple
import warnings

import yaml

from ..errors import IdentificationWarning, Omission, one_of, RecordingError
from ..untrusted.compressed import decompress_file, decompress_message
from ..untrusted.files import load_yaml, read_text, require_regular, unusable
from ..untrusted.names import has_control
from .joint_state import from_json, JOINT_STATE, JSON_KINDS, Messages
from .recording import damage_named, recording_error
from .storage import channel_publishers, storage_info, stored_messages
from .storage_kinds import begins_as_mcap, has_end, parse_errors, require_all, Select

METADATA_NAME = 'metadata.yaml'
METADATA_KEY = 'rosbag2_bagfile_information'
MARK = 'mark'
"""Key in the custom data for the reason of an early end, or any remark of the recorder."""

_JOINT_STATES = (JOINT_STATE, *JSON_KINDS)

_NEWEST = 9  # version of metadata.yaml


@dataclass(frozen=True)
class BagInfo:
    """
    Description of a bag from its metadata.

    Attributes
    ----------
    start:
        Time of its first message [s since 1970]; None if unknown.
    duration:
        Time from the first to the last message of any topic [s]; 0 if unknown.
    custom:
        Custom data, as of ``ros2 bag record --custom-data KEY=VALUE``.

    """

    start: float | None = None
    duration: float = 0.0
    custom: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """Reason of an early end, as given to the recorder; '' without one."""
        return self.custom.get(MARK, '')


def read_metadata(folder: Path) -> Mapping[str, Any]:
    """Read ``metadata.yaml``; raises OSError, and errors as `description_in`."""
    return description_in(read_text(folder / METADATA_NAME))


def description_in(text: str) -> Mapping[str, Any]:
    """Return the description in a text; raises ValueError or yaml.YAMLError if it has none."""
    document = load_yaml(text)
    if isinstance(document, Mapping):
        document = document.get(METADATA_KEY, document)
    if not isinstance(document, Mapping):
        raise ValueError('it has no description of a bag')
    return document


def custom_data_in(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the custom data in a description."""
    custom = description.get('custom_data')
    custom = custom if isinstance(custom, Mapping) else {}
    return {str(key): str(value) for key, value in custom.items()}


def bag_info(bag: Path) -> BagInfo:
    """
    Read the description of a bag's folder, or of an ``.mcap`` or ``.db3`` file.

    It is empty for a damaged or unfinished file and for what is no bag; reading the messages
    raises the error.
    """
    try:
        if bag.is_dir():
            content = read_metadata(bag)
            first = content['starting_time']['nanoseconds_since_epoch']
            first = first if content['message_count'] else None
            duration = content['duration']['nanoseconds']
        else:
            first, last, text = storage_info(bag)
            duration = 0 if first is None or last is None else last - first
            content = description_in(text) if text else {}
        start = 1e-9 * first if isinstance(first, int) else None
        return BagInfo(start, 1e-9 * max(0, int(duration)), custom_data_in(content))
    except (OSError, LookupError, TypeError, sqlite3.Error, yaml.YAMLError, *parse_errors()):
        return BagInfo()


def bag_duration(bag: Path) -> float:
    """Return the time from the first to the last message [s]; 0 if unknown or not complete."""
    try:
        files = storage_files(bag) if bag.is_dir() else [bag]
        whole = all(has_end(file) for file in files if file.suffix == '.mcap')
        if bag.is_dir() and not (bag / METADATA_NAME).exists() and len(files) == 1:
            bag = files[0]
        return bag_info(bag).duration if whole else 0.0
    except OSError:
        return 0.0


def bag_topics(bag: Path) -> dict[str, str]:
    """
    Return the topics of a bag and their types.

    Raises
    ------
    RecordingError
        for a damaged bag.

    """
    topics: dict[str, str] = {}
    with _damage_named(bag):
        recording = _recording(bag)
        topics.update(dict(recording.counts.keys()))
        for file in recording.files[:1]:
            for _ in _messages(file, recording.compression, lambda *_: False, topics):
                pass
    return topics


def joint_state_topics(bag: Path) -> tuple[str, ...]:
    """Return the topics with joint states in a bag; raises as `bag_topics`."""
    return tuple(name for name, kind in bag_topics(bag).items() if kind in _JOINT_STATES)


def publisher_names(bag: Path, channels: Collection[int]) -> tuple[str, ...]:
    """Return the nodes that channels of a bag's first file are from, where that has them."""
    names = channel_publishers(_recording(bag).files[0], channels)
    return tuple(name for name in names if name and not has_control(name))


def joint_state_messages(bag: Path, topic: str) -> Iterator[Messages]:
    """
    Iterate over the serialised joint states of a bag; parameters as of `bag_messages`.

    Those in JSON, as Foxglove writes them, are converted.

    Raises
    ------
    RecordingError
        for a damaged bag, or one without such a topic, naming those that it has.

    """
    yield from bag_messages(bag, topic, _JOINT_STATES)


def bag_messages(bag: Path, topic: str, kinds: Sequence[str]) -> Iterator[Messages]:
    """
    Iterate over the serialised messages of a topic by receive time, some thousand at a time.

    Parameters
    ----------
    bag:
        A bag's folder, with or without ``metadata.yaml``, or an ``.mcap`` or ``.db3`` file.
    topic:
        Name of the topic, with or without its first slash.
    kinds:
        Types that it may have.

    Raises
    ------
    RecordingError
        for a damaged bag, or one without such a topic, naming those that it has.

    """

    def select(name: str, kind: str) -> bool:
        return kind in kinds and name.lstrip('/') == topic.lstrip('/')

    with _damage_named(bag):
        recording = _recording(bag)
    if mark := bag_info(bag).mark:
        warnings.warn(
            IdentificationWarning(f'{bag}: was marked when it was recorded: {mark}'), stacklevel=2
        )
    topics: dict[str, str] = {}
    count = 0
    for file in recording.files:
        with _damage_named(file):
            for messages in _messages(file, recording.compression, select, topics):
                count += len(messages)
                in_json = any(select(*each) and each[1] in JSON_KINDS for each in topics.items())
                yield from_json(messages) if in_json else messages
    with _damage_named(bag):
        for (name, kind), promised in recording.counts.items():
            topics[name] = kind
            if select(name, kind):
                require_all(count, promised)
    if not any(select(*each) for each in topics.items()):
        raise _no_topic(bag, topic, topics, kinds)


# ---------------------------------------------------------------------------------- the files


class _Recording(NamedTuple):
    """Storage files in order, their compression, and counts of messages by topic and type."""

    files: list[Path]
    compression: str = 'none'
    counts: Mapping[tuple[str, str], int] = MappingProxyType({})


def _recording(bag: Path) -> _Recording:
    """Find the files of a bag; ``metadata.yaml`` counts if all of them are complete."""
    if not bag.is_dir():
        require_regular(bag)
        return _Recording([bag])
    files = storage_files(bag)
    for file in (*files, bag / METADATA_NAME):
        why = unusable(file) if file.exists() else None
        if why is not None:
            raise recording_error(file, f'{why}', remedy='copy the recording again')
    if (bag / METADATA_NAME).exists() and all(_is_whole(file) for file in files):
        return _described(bag)
    if not files:
        text = 'is not a bag, it has neither metadata.yaml nor an mcap or db3 file'
        remedy = 'name the folder that the recorder wrote'
        raise recording_error(bag, text, remedy)
    return _Recording(files)


def _described(bag: Path) -> _Recording:
    """Return the files in ``metadata.yaml``; raises LookupError, TypeError and others."""
    content = read_metadata(bag)
    if int(content['version']) > _NEWEST:
        raise ValueError(f'version {content["version"]} of metadata.yaml is not known')
    compression = str(content.get('compression_mode') or 'none').lower()
    if compression not in ('none', 'file', 'message'):
        raise ValueError(f"compression_mode '{compression}' is not known")
    if compression != 'none' and content.get('compression_format') != 'zstd':
        raise ValueError(f"compression_format '{content.get('compression_format')}' is not known")
    files = _named_files(bag, content)
    counts = {}
    for entry in content['topics_with_message_count']:
        about = entry['topic_metadata']
        counts[str(about['name']), str(about['type'])] = int(entry['message_count'])
    return _Recording(files, compression, counts)


def _named_files(bag: Path, content: Mapping[str, Any]) -> list[Path]:
    """Return the files that ``metadata.yaml`` names, or those in place of renamed ones."""
    names = [PurePath(str(path)).name for path in content['relative_file_paths']]
    if not names:
        raise ValueError('metadata.yaml names no files')
    lost = renamed_files(bag, names)
    if not lost:
        return [bag / name for name in names]
    there = [file.name for file in storage_files(bag, ('.mcap', '.db3', '.zstd'))]
    if len(there) != len(names):
        text = f'metadata.yaml names {one_of(lost)}, which is not there; there is '
        text += one_of(there) if there else 'no other file'
        raise recording_error(bag, text, 'copy the recording again, with all of its files')
    warnings.warn(
        Omission(
            f'{bag}: metadata.yaml names {one_of(names)}, and {one_of(there)} is read in place '
            'of it: `ros2 bag reindex` writes the names again'
        ),
        stacklevel=2,
    )
    return [bag / name for name in there]


def renamed_files(bag: Path, names: Sequence[str]) -> list[str]:
    """Return those of the names in ``metadata.yaml`` that no file of a bag has."""
    return [name for name in names if not (bag / name).exists()]


def storage_files(folder: Path, kinds: Sequence[str] = ('.mcap', '.db3')) -> list[Path]:
    """Return the storage files in a folder in their order."""
    files = [f for f in folder.iterdir() if f.suffix in kinds and not f.name.startswith('.')]
    return sorted(files, key=lambda file: [int(n[-18:]) for n in re.findall(r'\d+', file.stem)])


def _is_whole(file: Path) -> bool:
    """Return false for an mcap file without its end; what is no mcap file, its reader refuses."""
    return file.suffix != '.mcap' or not begins_as_mcap(file) or has_end(file)


def _messages(
    file: Path, compression: str, select: Select, topics: dict[str, str]
) -> Iterator[Messages]:
    """Iterate over the messages of a storage file, decompressed where they are compressed."""
    if compression == 'file':
        with tempfile.TemporaryDirectory(prefix='robot_identification_') as folder:
            plain = Path(folder, file.stem)  # run.mcap.zstd becomes run.mcap
            decompress_file(file, plain)
            yield from _messages(plain, 'none', select, topics)
    elif compression == 'message':
        for messages in _messages(file, 'none', select, topics):
            texts = [decompress_message(data) for data in messages]
            yield Messages.from_bytes(texts, messages.times, messages.senders)
    else:
        yield from stored_messages(file, select, topics)


# ---------------------------------------------------------------------------------- errors


def _damage_named(file: Path) -> contextlib.AbstractContextManager[None]:
    """Name the file in errors of the system, sqlite, YAML, zstd, lz4 and mcap, each its own."""
    return damage_named(
        file,
        'is damaged, not a rosbag2 recording or not readable',
        'copy it again, or cut what can be read with `ros2 bag convert` or `mcap recover`',
    )


def _no_topic(
    bag: Path, topic: str, topics: Mapping[str, str], kinds: Sequence[str]
) -> RecordingError:
    if not topics:
        return recording_error(
            bag,
            'has no topics; it is empty or ends before its first complete chunk',
            remedy='record it again',
        )
    others = [name for name, kind in topics.items() if kind in kinds]
    what_they_are = 'joint states' if kinds == _JOINT_STATES else kinds[0]
    same = [kind for name, kind in topics.items() if name.lstrip('/') == topic.lstrip('/')]
    what = f'is of type {same[0]}' if same else 'is not in it'
    remedy = (
        f'topics with {what_they_are} are {one_of(others)}'
        if others
        else f'it has no topic of type {kinds[0]}; its topics are {one_of(topics)}'
    )
    return recording_error(bag, f"topic '{topic}' {what}", remedy, value=topic)
