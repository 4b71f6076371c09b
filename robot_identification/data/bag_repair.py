# SPDX-License-Identifier: Apache-2.0
"""
Complete recordings whose recorder was killed, lost its power or found the disk full.

An mcap file without its end is written anew, and the old one is kept as
``unfinished/<name>.mcap.unfinished`` beside it, where ``ros2 bag info`` does not count it;
``metadata.yaml`` is made from the files.  Then ``ros2 bag`` and every other reader takes the
recording.  It makes no difference whether our recorder wrote it or ``ros2 bag record``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import contextlib
from dataclasses import dataclass
import fcntl
from itertools import count
import os
from pathlib import Path
import shutil
import time
from typing import Any

import yaml

from ..errors import RecordingError
from ..untrusted.files import open_regular
from ..untrusted.yaml_loader import load_yaml
from .bag import storage_files
from .bag_metadata import (
    custom_data_in,
    describe,
    description_in,
    DISTRO,
    FileSpan,
    METADATA_NAME,
    read_metadata,
    RECORD,
    RECORD_KEY,
    sync_folder,
    topic_entry,
    write_metadata,
)
from .bag_writer import LIBRARY
from .mcap_file import (
    ERRORS,
    has_end,
    header_of,
    MAGIC,
    open_mcap,
)
from .mcap_recovery import rewrite

UNFINISHED = '.unfinished'
KEPT = 'unfinished'
"""Name of the folder for what a repair has replaced."""

QUIET = 5.0
"""Time without a change after which a file that nobody has locked is taken to be left [s]."""

_SPARE = 1 << 20


@dataclass(frozen=True)
class Repair:
    """
    Outcome of a repair.

    Attributes
    ----------
    bag:
        The recording.
    done:
        In words, a line each; nothing where it was complete.

    """

    bag: Path
    done: tuple[str, ...]


def recordings_in(folder: Path) -> list[Path]:
    """Return the recordings to look at: a file or bag itself, or the bags in a folder of bags."""
    if not folder.is_dir() or storage_files(folder) or _left(folder):
        return [folder]
    found = [p for p in sorted(folder.iterdir()) if p.is_dir() and (_files(p) or _left(p))]
    return found or [folder]


def is_complete(bag: Path) -> bool:
    """Tell whether nothing is missing in a recording, without reading its messages."""
    files = [bag] if bag.is_file() else _files(bag)
    if _left(bag) or not files or not all(has_end(file) for file in files):
        return False
    return bag.is_file() or _readable_metadata(bag) is not None


def repair_bag(bag: Path, *, quiet: float = QUIET, reserve: int = 0) -> Repair:
    """
    Complete a recording; one that is complete stays as it is.

    Nothing is taken away: what was there is kept under another name, and what is new takes its
    place at once or not at all.

    Parameters
    ----------
    bag:
        A bag's folder, or an ``.mcap`` file.
    quiet:
        Time since which files of other recorders have to be unchanged [s].
    reserve:
        Room that has to be left on the disk [bytes].

    Raises
    ------
    RecordingError
        where it is no bag, is being recorded, is damaged, or there is no room.

    """
    try:
        return _repair(bag, quiet, reserve)
    except OSError as error:
        raise RecordingError(
            f'cannot repair {bag}: {error.strerror or error}',
            file=str(bag),
            remedy='choose a place that may be written and has room for another copy',
        ) from error


def _repair(bag: Path, quiet: float, reserve: int) -> Repair:
    done = []
    for file in _left(bag):
        file.rename(bag / file.name.removesuffix(UNFINISHED))
    files = [bag] if bag.is_file() and bag.suffix == '.mcap' else _files(bag)
    if not files:
        raise _no_bag(bag)
    abouts = []
    for file in files:
        about = about_file(file)
        if about is None:
            done.append(_completed(file, quiet, reserve))
            about = about_file(file)
        if about is None:
            raise _damaged(file, 'what was written anew cannot be read')
        abouts.append(about)
    if bag.is_dir():
        told = _readable_metadata(bag)
        if done or told is None:
            done += _described(bag, abouts, told or {})
    return Repair(bag, tuple(done))


def _completed(file: Path, quiet: float, reserve: int) -> str:
    """Write a file anew; return what is to say about it."""
    with open_regular(file) as held:
        _require_left(file, held.fileno(), quiet)
        _require_mcap(file)
        before = file.stat()
        free = shutil.disk_usage(file.parent).free
        if free < before.st_size + reserve + _SPARE:
            raise RecordingError(
                f'{file}: is not complete, and there is no room for another copy of '
                f'{1e-6 * before.st_size:.0f} MB beside it',
                file=str(file),
                remedy='make room, or copy it to another disk and repair it there',
            )
        beside = file.with_name(f'.{file.name}.repairing')
        try:
            with beside.open('wb') as target:
                told = rewrite(file, target)
                target.flush()
                os.fsync(target.fileno())
            after = file.stat()
            if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                raise _in_use(file, 'has changed meanwhile')
            kept = _exchange(file, beside)
        except (OSError, RecordingError):
            raise
        except Exception as error:  # of mcap, lz4 and zstd, each its own
            raise _damaged(file, error) from error
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
    about = about_file(file)
    messages = 0 if about is None else about.span.count
    return (
        f'{file.name}: {told}; written anew with {messages} messages, index and end; '
        f"the old one is '{KEPT}/{kept.name}'"
    )


@dataclass(frozen=True)
class FileAbout:
    """
    Description of a finished mcap file for ``metadata.yaml``.

    Attributes
    ----------
    span:
        Its name, times and number of messages.
    topics:
        Entries of its topics, with the messages in this file.
    custom_data:
        Notes by key.
    distro:
        Name of the ROS distribution; empty where it is not known.

    """

    span: FileSpan
    topics: tuple[dict[str, Any], ...]
    custom_data: Mapping[str, str]
    distro: str


def about_file(path: Path) -> FileAbout | None:
    """Read what a file says of itself; None for one without summary or with anything wrong."""
    try:
        summary = open_mcap(path)
        if summary is None:
            return None
        text = summary.notes(RECORD).get(RECORD_KEY, '')
        noted = description_in(text) if text else {}
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
    return FileAbout(span, topics, custom_data_in(noted), str(noted.get('ros_distro') or ''))


def _described(bag: Path, abouts: Sequence[FileAbout], told: Mapping[str, Any]) -> list[str]:
    """Write ``metadata.yaml`` from the files; an old one's notes are taken over."""
    topics: dict[tuple[str, str], dict[str, Any]] = {}
    custom: dict[str, str] = {}
    for about in abouts:
        custom.update(about.custom_data)
        for entry in about.topics:
            name = (entry['topic_metadata']['name'], entry['topic_metadata']['type'])
            count_so_far = topics[name]['message_count'] if name in topics else 0
            topics[name] = {**entry, 'message_count': entry['message_count'] + count_so_far}
    custom.update(custom_data_in(told))
    distro = str(told.get('ros_distro') or next((a.distro for a in abouts if a.distro), DISTRO))
    path, done = bag / METADATA_NAME, []
    if path.exists():
        kept = _kept(path)
        done.append(f"{METADATA_NAME}: the old one is '{KEPT}/{kept.name}'")
    description = describe([a.span for a in abouts], list(topics.values()), custom, distro)
    write_metadata(bag, description)
    return [*done, f'{METADATA_NAME}: made for {description["message_count"]} messages']


def _require_left(file: Path, number: int, quiet: float) -> None:
    """Raise where somebody still writes the file; lock it as long as ``number`` is open."""
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


def _require_mcap(file: Path) -> None:
    with open_regular(file) as stream:
        begin = stream.read(len(MAGIC))
    if not MAGIC.startswith(begin):
        raise _damaged(file, 'it does not begin as an mcap file')


def _exchange(file: Path, new: Path) -> Path:
    """Put a new file in the place of another, and return under which name that is kept."""
    kept = _kept(file)
    new.replace(file)
    sync_folder(file.parent)
    return kept


def _kept(file: Path) -> Path:
    """Give a file a second name, or another where there are no second names; return it."""
    folder = file.parent / KEPT
    folder.mkdir(exist_ok=True)
    for number in count():
        kept = folder / f'{file.name}{f"_{number}" if number else ""}{UNFINISHED}'
        try:
            os.link(file, kept)
            return kept
        except FileExistsError:
            continue
        except OSError:
            if not kept.exists():
                return file.rename(kept)
    raise AssertionError


def _files(bag: Path) -> list[Path]:
    """Return the mcap files of a bag in their order."""
    return storage_files(bag, ('.mcap',)) if bag.is_dir() else []


def _left(bag: Path) -> Iterator[Path] | list[Path]:
    """Return what an interrupted repair has left without its old name."""
    if not bag.is_dir():
        return []
    kept = (bag / KEPT).glob(f'*.mcap{UNFINISHED}')
    return [p for p in kept if not (bag / p.name.removesuffix(UNFINISHED)).exists()]


def _readable_metadata(bag: Path) -> Mapping[str, Any] | None:
    """Return what ``metadata.yaml`` says; None where it is missing or cut."""
    try:
        told = read_metadata(bag)
        return told if told['relative_file_paths'] else None
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return None


def _no_bag(bag: Path) -> RecordingError:
    if bag.is_dir() and storage_files(bag, ('.db3',)):
        return RecordingError(
            f'{bag}: has its messages in sqlite3, which needs no repair of its files',
            file=str(bag),
            remedy=f"'ros2 bag reindex -s sqlite3 {bag}' makes its metadata.yaml",
        )
    return RecordingError(
        f'{bag}: is no recording in mcap',
        file=str(bag),
        remedy='name a folder that has an .mcap file, or a folder of such folders',
    )


def _in_use(file: Path, what: str) -> RecordingError:
    return RecordingError(
        f'{file}: {what}', file=str(file), remedy='stop its recorder, or wait until it has ended'
    )


def _damaged(file: Path, error: object) -> RecordingError:
    text = ' '.join(str(error).split()) or type(error).__name__
    return RecordingError(
        f'{file}: is damaged ({text})',
        file=str(file),
        remedy='copy it again from where it was recorded, or try `mcap recover`',
    )
