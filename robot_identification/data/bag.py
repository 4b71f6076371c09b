# SPDX-License-Identifier: Apache-2.0
"""
Rosbag2 recordings, mcap or sqlite3: serialised messages of one topic, times and custom data.

Finished mcap files are read by their index, others from their start to their last complete chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

from ..errors import IdentificationWarning, one_of, RecordingError
from ..untrusted.compressed import decompress_file, decompress_message, MAX_BLOCK
from ..untrusted.files import load_yaml, read_text, require_regular
from .joint_state import from_json, JOINT_STATE, JSON_KINDS
from .mcap_file import (
    begins_as_mcap,
    ERRORS,
    has_end,
    Messages,
    open_mcap,
    require_all,
    scan_mcap,
    Select,
)
from .recording import damage_named, recording_error
from .recording_config import unusable

METADATA_NAME = 'metadata.yaml'
METADATA_KEY = 'rosbag2_bagfile_information'
RECORD, RECORD_KEY = 'rosbag2', 'serialized_metadata'
"""Name and key of the metadata record of an mcap file with the same as ``metadata.yaml``."""

MARK = 'mark'
"""Key in the custom data for the reason of an early end, or any remark of the recorder."""

_JOINT_STATES = (JOINT_STATE, *JSON_KINDS)

_NEWEST = 9  # version of metadata.yaml
_ROWS = 4096  # of a database that are read together


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
            duration = content['duration']['nanoseconds']
            return _info(first if content['message_count'] else None, duration, content)
        first = last = None
        text = ''
        if bag.suffix == '.mcap' and (summary := open_mcap(bag)) is not None:
            statistics = summary.statistics
            if statistics.message_count:
                first, last = statistics.message_start_time, statistics.message_end_time
            text = summary.notes(RECORD).get(RECORD_KEY, '')
        elif bag.suffix == '.db3':
            first, last, text = _sqlite_info(bag)
        duration = 0 if first is None or last is None else last - first
        return _info(first, duration, description_in(text) if text else {})
    except (OSError, LookupError, TypeError, sqlite3.Error, yaml.YAMLError, *ERRORS):
        return BagInfo()


def _info(first: Any, duration: Any, description: Mapping[str, Any]) -> BagInfo:
    start = 1e-9 * first if isinstance(first, int) else None
    return BagInfo(start, 1e-9 * max(0, int(duration)), custom_data_in(description))


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


def joint_state_topics(bag: Path) -> tuple[str, ...]:
    """
    Return the topics with joint states in a bag.

    Raises
    ------
    RecordingError
        as `joint_state_messages`.

    """
    topics: dict[str, str] = {}
    with _damage_named(bag):
        recording = _recording(bag)
        topics.update(dict(recording.counts.keys()))
        for file in recording.files[:1]:
            for _ in _messages(file, recording.compression, lambda *_: False, topics):
                pass
    return tuple(name for name, kind in topics.items() if kind in _JOINT_STATES)


def joint_state_messages(bag: Path, topic: str) -> Iterator[Messages]:
    """
    Iterate over the serialised joint states of a bag by receive time, some thousand at a time.

    Those in JSON, as Foxglove writes them, are converted.

    Parameters
    ----------
    bag:
        A bag's folder, with or without ``metadata.yaml``, or an ``.mcap`` or ``.db3`` file.
    topic:
        Name of the topic, with or without its first slash.

    Raises
    ------
    RecordingError
        for a damaged bag, or one without such a topic, naming those that it has.

    """

    def select(name: str, kind: str) -> bool:
        return kind in _JOINT_STATES and name.lstrip('/') == topic.lstrip('/')

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
        raise _no_topic(bag, topic, topics)


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
    names = [PurePath(str(path)).name for path in content['relative_file_paths']]
    if not names:
        raise ValueError('metadata.yaml names no files')
    counts = {}
    for entry in content['topics_with_message_count']:
        about = entry['topic_metadata']
        counts[str(about['name']), str(about['type'])] = int(entry['message_count'])
    return _Recording([bag / name for name in names], compression, counts)


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
            yield Messages.of([decompress_message(data) for data in messages], messages.times)
    elif file.suffix == '.mcap':
        yield from _mcap_messages(file, select, topics)
    elif file.suffix == '.db3':
        yield from _sqlite_messages(file, select, topics)
    else:
        raise ValueError('its name ends neither in .mcap nor in .db3')


def _mcap_messages(file: Path, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
    if not begins_as_mcap(file):
        raise ValueError('it does not begin as an mcap file')
    finished = has_end(file)
    summary = open_mcap(file) if finished else None
    if summary is None or not summary.is_indexed:
        scan = scan_mcap(file)
        if not finished:
            warnings.warn(
                IdentificationWarning(
                    f'{file}: has no end, because its recorder was killed or the file was cut, or '
                    f'because it is still being recorded; {scan.remark}; `robot-identification '
                    'repair` completes it for other readers'
                ),
                stacklevel=2,
            )
        yield from scan.messages(select, topics)
    else:
        yield from summary.messages(select, topics)


# ---------------------------------------------------------------------------------- sqlite3


def _sqlite_messages(file: Path, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
    """Iterate over messages by receive time, then as written, some thousand at a time."""
    with contextlib.closing(_open_database(file)) as connection:
        wanted = []
        for number, *texts in connection.execute(
            'SELECT id, name, type, serialization_format FROM topics ORDER BY id'
        ):
            if not isinstance(number, int) or not all(isinstance(text, str) for text in texts):
                raise ValueError('its topics have no number, name or type')
            name, kind, form = texts
            topics[name] = kind = kind if form == 'cdr' else f'{kind} in {form}'
            if select(name, kind):
                wanted.append(number)
        if not wanted:
            return
        places = ','.join('?' for _ in wanted)
        rows = connection.execute(
            f'SELECT timestamp, data FROM messages WHERE topic_id IN ({places}) '
            'ORDER BY timestamp, id',
            wanted,
        )
        while batch := rows.fetchmany(_ROWS):
            yield Messages.of([data for _, data in batch], [time for time, _ in batch])


def _sqlite_info(path: Path) -> tuple[int, int, str]:
    """Read the first and last time of any message [ns], and rosbag2's description as text."""
    with contextlib.closing(_open_database(path)) as connection:
        first, last = connection.execute(
            'SELECT (SELECT MIN(timestamp) FROM messages), (SELECT MAX(timestamp) FROM messages)'
        ).fetchone()
        try:
            row = connection.execute('SELECT metadata FROM metadata').fetchone()
        except sqlite3.Error:  # written before ROS 2 Iron
            row = None
    return first, last, row[0] if row is not None and isinstance(row[0], str) else ''


def _open_database(path: Path) -> sqlite3.Connection:
    """
    Open a file with plain tables; a view or a computed column could run anything, without end.

    Raises
    ------
    OSError, sqlite3.Error
        if it cannot be read, or a table is not plain.

    """
    require_regular(path)
    # immutable: no locks and no journal, as on a disk that may only be read
    connection = sqlite3.connect(f'{path.absolute().as_uri()}?mode=ro&immutable=1', uri=True)
    try:
        connection.execute('PRAGMA trusted_schema = OFF')
        if hasattr(connection, 'setlimit'):  # since Python 3.11
            limit = getattr(sqlite3, 'SQLITE_LIMIT_LENGTH')  # noqa: B009
            connection.setlimit(limit, MAX_BLOCK)
        for table in ('topics', 'messages', 'metadata', 'schema'):
            _require_plain(connection, table)
    except BaseException:
        connection.close()
        raise
    return connection


def _require_plain(connection: sqlite3.Connection, name: str) -> None:
    for kind, sql in connection.execute(
        'SELECT type, sql FROM sqlite_master WHERE lower(name) = ?', (name,)
    ):
        virtual = 'virtual' in str(sql).lower().split('(')[0].split()
        columns = connection.execute(f'PRAGMA table_xinfo({name})').fetchall()
        if kind != 'table' or virtual or any(column[6] for column in columns):
            raise sqlite3.DatabaseError(f"'{name}' is not a plain table")


# ---------------------------------------------------------------------------------- errors


def _damage_named(file: Path) -> contextlib.AbstractContextManager[None]:
    """Name the file in errors of the system, sqlite, YAML, zstd, lz4 and mcap, each its own."""
    return damage_named(
        file,
        'is damaged, not a rosbag2 recording or not readable',
        'copy it again, or cut what can be read with `ros2 bag convert` or `mcap recover`',
    )


def _no_topic(bag: Path, topic: str, topics: Mapping[str, str]) -> RecordingError:
    if not topics:
        return recording_error(
            bag,
            'has no topics; it is empty or ends before its first complete chunk',
            remedy='record it again',
        )
    others = [name for name, kind in topics.items() if kind in _JOINT_STATES]
    same = [kind for name, kind in topics.items() if name.lstrip('/') == topic.lstrip('/')]
    what = f'is of type {same[0]}' if same else 'is not in it'
    remedy = (
        f'topics with joint states are {one_of(others)}'
        if others
        else f'it has no topic of type {JOINT_STATE}; its topics are {one_of(topics)}'
    )
    return recording_error(bag, f"topic '{topic}' {what}", remedy, value=topic)
