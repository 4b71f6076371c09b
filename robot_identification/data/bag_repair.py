# SPDX-License-Identifier: Apache-2.0
"""
Completion of recordings whose recorder was killed, lost its power or found the disk full.

An mcap file without its end is rewritten, and the old one is kept beside it as
``unfinished/<name>.mcap.unfinished``, which ``ros2 bag info`` does not count; ``metadata.yaml`` is
made from the files.  The recorder may have been ours or ``ros2 bag record``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import fcntl
from itertools import count
import os
from pathlib import Path, PurePath
import shutil
import time
from typing import Any, BinaryIO, NamedTuple

from mcap.opcode import Opcode
from mcap.records import Channel, Header, Message, Metadata, Schema
from mcap.writer import CompressionType, Writer
import yaml

from ..errors import RecordingError
from ..untrusted.files import load_yaml, open_regular
from ..untrusted.writing import remove_leftovers, whole_file
from .bag import (
    custom_data_in,
    description_in,
    METADATA_NAME,
    read_metadata,
    renamed_files,
    storage_files,
)
from .bag_writer import (
    bag_description,
    DISTRO,
    FileSpan,
    LIBRARY,
    topic_entry,
    write_metadata,
)
from .recording import recording_error
from .storage import (
    description_text,
    ERRORS,
    has_end,
    MAGIC,
    mcap_summary,
    McapScan,
    parsed,
    parts_of,
    scan_mcap,
)

UNFINISHED = '.unfinished'
KEPT = 'unfinished'
"""Name of the folder for what a repair has replaced."""

QUIET = 5.0
"""Time without a change after which an unlocked file counts as left [s]."""

_SPARE = 1 << 20


def recordings_in(folder: Path) -> list[Path]:
    """Return a file or bag itself, or the bags in a folder of bags."""
    if not folder.is_dir() or storage_files(folder):
        return [folder]
    found = [p for p in sorted(folder.iterdir()) if p.is_dir() and _files(p)]
    return found or [folder]


def is_complete(bag: Path) -> bool:
    """Return true if nothing is missing in a recording, without reading its messages."""
    files = _files(bag)
    if not files or not all(has_end(file) for file in files):
        return False
    old = {} if bag.is_file() else _readable_metadata(bag)
    return old is not None and not _renamed(bag, old)


def repair_bag(bag: Path, *, quiet: float = QUIET, reserve: int = 0) -> tuple[str, ...]:
    """
    Complete a recording; one that is complete stays as it is.

    What was there is kept under another name, and what is new takes its place at once or not at
    all.

    Parameters
    ----------
    bag:
        A bag's folder, or an ``.mcap`` file.
    quiet:
        Time for which files of other recorders must not have changed [s].
    reserve:
        Room to be left on the disk [bytes].

    Returns
    -------
    Lines of text on what was done; empty for a complete recording.

    Raises
    ------
    RecordingError
        for a path that is no bag, a bag that is being recorded or damaged, and lack of room.

    """
    try:
        done = []
        files = _files(bag)
        if not files:
            raise _no_bag(bag)
        for file in files:
            if file_info(file) is None:
                done.append(_completed(file, quiet, reserve))
        if done and bag.is_dir():
            remove_leftovers(bag)
        old = _readable_metadata(bag) if bag.is_dir() else {}
        if bag.is_dir() and (done or old is None or _renamed(bag, old)):
            done += _write_metadata(bag, files, old or {})
        return tuple(done)
    except OSError as error:
        raise RecordingError(
            f'cannot repair {bag}: {error.strerror or error}',
            file=str(bag),
            remedy='choose a place that may be written and has room for another copy',
        ) from error


def _completed(file: Path, quiet: float, reserve: int) -> str:
    """Replace a file by a complete one; return a line of text on it."""
    with open_regular(file) as held:
        _require_left(file, held.fileno(), quiet)
        if not MAGIC.startswith(held.read(len(MAGIC))):
            raise _damaged(file, 'it does not begin as an mcap file')
        before = file.stat()
        if shutil.disk_usage(file.parent).free < before.st_size + reserve + _SPARE:
            text = (
                f'is not complete, and there is no room for another copy of '
                f'{1e-6 * before.st_size:.0f} MB beside it'
            )
            remedy = 'make room, or copy it to another disk and repair it there'
            raise recording_error(file, text, remedy)
        try:
            scan = scan_mcap(file)
            with whole_file(file, sync=True) as target:
                rewrite(scan, target)
                target.flush()
                after = file.stat()
                if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                    raise _in_use(file, 'has changed meanwhile')
                info = file_info(Path(target.name))
                if info is None:
                    raise _damaged(file, 'the rewritten file cannot be read')
                kept = _keep(file)
        except (OSError, RecordingError):
            raise
        except Exception as error:  # of mcap, lz4 and zstd, each its own
            raise _damaged(file, error) from error
    return (
        f'{file.name}: {scan.remark}; written anew with {info.span.count} messages, index and '
        f"end; the old one is '{KEPT}/{kept.name}'"
    )


def rewrite(scan: McapScan, target: BinaryIO) -> None:
    """
    Write the complete records of a file as a finished one, with the same compression.

    Raises
    ------
    ValueError
        for a damaged file.  What cannot be decompressed or parsed raises errors of lz4, zstd and
        mcap.

    """
    header = header_of(scan.path)
    compressions = {'lz4': CompressionType.LZ4, 'zstd': CompressionType.ZSTD}
    with open_regular(scan.path) as stream:
        chunks = (parsed(stream, part) for part in scan.parts if part.opcode == Opcode.CHUNK)
        used = next((chunk.compression for chunk in chunks), '')
    writer = Writer(target, compression=compressions.get(used, CompressionType.NONE))
    writer.start(header.profile, header.library)
    schemas: dict[int, int] = {0: 0}  # 0 stands for none
    channels: dict[int, int] = {}
    for record in scan.records():
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


def header_of(path: Path) -> Header:
    """Return the header, that of ROS 2 if it is cut off."""
    with open_regular(path) as stream:
        try:
            record = parsed(stream, next(parts_of(stream, len(MAGIC), stream.seek(0, 2))))
        except (StopIteration, *ERRORS):
            record = None
    return record if isinstance(record, Header) else Header('ros2', '')


class FileInfo(NamedTuple):
    """Times, topics' entries, custom data and ROS distribution of a finished mcap file."""

    span: FileSpan
    topics: tuple[dict[str, Any], ...]
    custom_data: Mapping[str, str]
    distro: str


def file_info(path: Path) -> FileInfo | None:
    """Read the description in a file; None for a file without summary, or a wrong one."""
    try:
        summary = mcap_summary(path)
        if summary is None:
            return None
        text = description_text(path, summary)
        description = description_in(text) if text else {}
        statistics = summary.statistics
        topics = tuple(
            topic_entry(
                channel.topic,
                summary.schemas[channel.schema_id].name,
                load_yaml(channel.metadata.get('offered_qos_profiles', '')) or [],
                channel.metadata.get('topic_type_hash', ''),
                statistics.channel_message_counts.get(channel.id, 0),
                channel.message_encoding,
            )
            for channel in summary.channels.values()
        )
    except (LookupError, yaml.YAMLError, *ERRORS):
        return None
    first, last = statistics.message_start_time, statistics.message_end_time
    span = FileSpan(path.name, first, last, statistics.message_count)
    distro = str(description.get('ros_distro') or '')
    return FileInfo(span, topics, custom_data_in(description), distro)


def _write_metadata(bag: Path, files: Sequence[Path], old: Mapping[str, Any]) -> list[str]:
    """Write ``metadata.yaml`` from the files; custom data of an old one are taken over."""
    infos = [info for info in map(file_info, files) if info is not None]
    topics: dict[tuple[str, str], dict[str, Any]] = {}
    custom: dict[str, str] = {}
    for info in infos:
        custom.update(info.custom_data)
        for entry in info.topics:
            name = (entry['topic_metadata']['name'], entry['topic_metadata']['type'])
            count_so_far = topics[name]['message_count'] if name in topics else 0
            topics[name] = {**entry, 'message_count': entry['message_count'] + count_so_far}
    custom.update(custom_data_in(old))
    distro = str(old.get('ros_distro') or next((i.distro for i in infos if i.distro), DISTRO))
    path, done = bag / METADATA_NAME, []
    if path.exists():
        done.append(f"{METADATA_NAME}: the old one is '{KEPT}/{_keep(path).name}'")
    description = bag_description([i.span for i in infos], list(topics.values()), custom, distro)
    write_metadata(bag, description)
    return [*done, f'{METADATA_NAME}: made for {description["message_count"]} messages']


def _require_left(file: Path, number: int, quiet: float) -> None:
    """Raise if somebody still writes the file; lock it as long as ``number`` is open."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(file, 'is being recorded or repaired') from None
    except OSError:  # a file system without locks
        pass
    if header_of(file).library == LIBRARY:
        return
    age = time.time() - file.stat().st_mtime
    if 0.0 <= age < quiet <= QUIET:
        time.sleep(quiet - age)
        age = time.time() - file.stat().st_mtime
    if 0.0 <= age < quiet:
        raise _in_use(file, f'was written to {age:.0f} s ago')


def _keep(file: Path) -> Path:
    """Give a file a second name, copy it if the file system has no links; return the name."""
    folder = file.parent / KEPT
    folder.mkdir(exist_ok=True)
    for number in count():
        kept = folder / f'{file.name}{f"_{number}" if number else ""}{UNFINISHED}'
        if not os.path.lexists(kept):
            break
    try:
        os.link(file, kept)
    except OSError:
        with open_regular(file) as source, whole_file(kept) as copy:
            shutil.copyfileobj(source, copy)
    return kept


def _files(bag: Path) -> list[Path]:
    """Return the mcap files of a bag in their order, or the file itself."""
    if bag.is_dir():
        return storage_files(bag, ('.mcap',))
    return [bag] if bag.is_file() and bag.suffix == '.mcap' else []


def _readable_metadata(bag: Path) -> Mapping[str, Any] | None:
    """Return the content of ``metadata.yaml``; None if it is missing or cut."""
    try:
        content = read_metadata(bag)
        return content if content['relative_file_paths'] else None
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return None


def _renamed(bag: Path, description: Mapping[str, Any]) -> bool:
    """Tell if ``metadata.yaml`` names files that are not there."""
    names = [PurePath(str(path)).name for path in description.get('relative_file_paths', ())]
    return bool(renamed_files(bag, names))


def _no_bag(bag: Path) -> RecordingError:
    if bag.is_dir() and storage_files(bag, ('.db3',)):
        return recording_error(
            bag,
            'has its messages in sqlite3, which needs no repair of its files',
            remedy=f"'ros2 bag reindex -s sqlite3 {bag}' makes its metadata.yaml",
        )
    remedy = 'name a folder that has an .mcap file, or a folder of such folders'
    return recording_error(bag, 'is no recording in mcap', remedy)


def _in_use(file: Path, what: str) -> RecordingError:
    return recording_error(file, what, remedy='stop its recorder, or wait until it has ended')


def _damaged(file: Path, error: object) -> RecordingError:
    text = ' '.join(str(error).split()) or type(error).__name__
    remedy = 'copy it again from where it was recorded, or try `mcap recover`'
    return recording_error(file, f'is damaged ({text})', remedy)
