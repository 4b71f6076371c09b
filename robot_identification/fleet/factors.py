# SPDX-License-Identifier: Apache-2.0
"""A fleet's recordings: paths, serial numbers, times, reduction to factors, and merging."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
import glob
import hashlib
from itertools import groupby
from operator import itemgetter
import os
from pathlib import Path
import re
from typing import Any

from ..config.sections import FleetSettings
from ..errors import IdentificationError, RecordingError
from ..progress import Progress, silent
from ..results.factor_file import merge_stored, StoredFactor, unpack
from .executor import Executor, Task
from .store import FleetRecording, Store
from .tasks import Group, merge_group, reduce_recording, Refused

SUFFIXES = ('.mcap', '.db3', '.csv', '.tsv', '.npz')
"""Suffixes of the recordings that are found in folders."""

_DATES = {8: '%Y%m%d', 12: '%Y%m%d%H%M', 14: '%Y%m%d%H%M%S'}


def find_recordings(arguments: Iterable[str | os.PathLike]) -> tuple[str, ...]:
    """
    Return absolute paths of recordings, sorted, each once.

    Parameters
    ----------
    arguments:
        Files, rosbag2 folders, folders that are searched for both, and patterns with ``*``.

    Raises
    ------
    RecordingError
        naming a path that does not exist, or a folder without recordings.

    """
    found: set[str] = set()
    for given in arguments:
        argument = str(given)
        matches = [argument] if os.path.lexists(argument) else glob.glob(argument, recursive=True)
        if not matches:
            raise RecordingError(
                f"there is no recording '{argument}'",
                file=argument,
                remedy='give files, bags, folders with them, or a pattern such as runs/*.mcap',
            )
        for match in matches:
            path = os.path.abspath(match)
            inside = [path] if not os.path.isdir(path) else list(_below(path))
            if not inside:
                raise RecordingError(
                    f"folder '{match}' holds no recording",
                    file=match,
                    remedy=f'recordings are bags and files that end in {", ".join(SUFFIXES)}',
                )
            found.update(inside)
    return tuple(sorted(found))


def _below(folder: str) -> Iterator[str]:
    """Iterate over the bags and files in a folder and its folders, but not inside bags."""
    if os.path.exists(os.path.join(folder, 'metadata.yaml')):
        yield folder
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith('.'):
                continue
            if entry.is_dir():
                yield from _below(entry.path)
            elif entry.name.lower().endswith(SUFFIXES):
                yield entry.path


def key_of(path: str, fingerprint: str) -> str:
    """Return a hash of path, sizes and times of change of a recording, and of ``fingerprint``."""
    digest = hashlib.sha256(fingerprint.encode())
    digest.update(os.fsencode(path))
    for file in _files(path):
        try:
            status = os.stat(file)
        except OSError:
            continue  # its reader reports it
        place = os.path.relpath(file, path)
        digest.update(os.fsencode(f'\0{place}\0{status.st_size}\0{status.st_mtime_ns}'))
    return digest.hexdigest()[:32]


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    with os.scandir(path) as entries:
        return sorted(entry.path for entry in entries if entry.is_file())


def serial_of(path: str, custom: Mapping[str, str], settings: FleetSettings) -> str:
    """
    Return the serial number of the robot of a recording with ``custom`` data.

    Raises
    ------
    RecordingError
        if the settings do not find it.

    """
    if settings.serial_key is not None:
        if custom.get(settings.serial_key):
            return custom[settings.serial_key]
        raise RecordingError(
            f"{path}: its custom data have no '{settings.serial_key}', which is to be the serial "
            'number',
            file=path,
            remedy='record with --custom-data, or set fleet.serial to find it in the path',
        )
    if settings.serial is not None:
        return _matched(settings.serial, path, 'fleet.serial')
    folder = Path(path).parent
    # a storage file lies in its bag's folder, which is named after the run and not the robot
    if (folder / 'metadata.yaml').exists():
        folder = folder.parent
    return folder.name


def stamp_of(path: str, began: float | None, settings: FleetSettings) -> float:
    """
    Return the time of a recording [s since 1970], ``began`` if the settings name no other.

    Raises
    ------
    RecordingError
        if the path has no date, but ought to.

    """
    if settings.stamp is None:
        return os.stat(path).st_mtime if began is None else began
    text = _matched(settings.stamp, path, 'fleet.stamp')
    digits = re.sub(r'\D', '', text)
    try:
        if len(digits) in _DATES:
            date = datetime.strptime(digits, _DATES[len(digits)])
            return date.replace(tzinfo=timezone.utc).timestamp()
        if 9 <= len(digits) <= 10:
            return float(digits)
    except ValueError:
        pass
    raise RecordingError(
        f"{path}: '{text}' is no date",
        file=path,
        value=text,
        remedy='let fleet.stamp match YYYYMMDD, with hhmm and ss behind it where they are there, '
        'or seconds since 1970',
    )


def _matched(pattern: str, path: str, key: str) -> str:
    match = re.search(pattern, path)
    groups = () if match is None else match.groups()
    text = '' if match is None else ''.join(g or '' for g in groups) or match.group()
    if not text:
        raise RecordingError(
            f"{path}: '{key}' ({pattern}) is not found in its path",
            file=path,
            key=key,
            remedy='change the regular expression, or leave the recording out',
        )
    return text


GROUP = 16
"""Factors that are merged by one task."""


@dataclass(frozen=True)
class Reduction:
    """
    Outcome of the reduction of the recordings.

    Attributes
    ----------
    recordings:
        Usable ones, by serial number, time and path.
    rejected:
        Reasons by path of unusable ones.
    kept:
        Number of those that were finished before.
    seconds:
        Time that the workers spent on the others, together [s].

    """

    recordings: tuple[FleetRecording, ...]
    rejected: Mapping[str, str] = field(default_factory=dict)
    kept: int = 0
    seconds: float = 0.0


def reduce_all(
    executor: Executor,
    store: Store,
    paths: Sequence[str],
    fingerprint: str,
    settings: FleetSettings,
    *,
    keep_going: bool = True,
    progress: Progress = silent,
) -> Reduction:
    """
    Reduce recordings at absolute paths to factors, except those that the store has already.

    Parameters
    ----------
    executor, store:
        Executor of the tasks and storage of the factors.
    fingerprint:
        Fingerprint of the plan.
    settings:
        Rules for serial numbers and times.
    keep_going:
        True to reject unusable recordings and go on, false to raise `RecordingError` at once.

    """
    found: list[FleetRecording] = []
    rejected: dict[str, str] = {}
    missing: dict[str, str] = {}
    for path in paths:
        key = key_of(path, fingerprint)
        known = store.finished(key)
        if known is None:
            missing[path] = key
        else:
            found.append(known)
    kept, seconds = len(found), 0.0
    for done in executor.run(reduce_recording, missing):
        count = len(found) + len(rejected) + 1
        progress(count / len(paths), f'recording {count} of {len(paths)}')
        if not done.failure and not isinstance(done.value, Refused):
            finished, factor = done.value
            seconds += finished.seconds
            found.append(store.keep(missing[done.item], finished, factor))
            continue
        why = done.failure or done.value.reason
        if not keep_going:
            raise RecordingError(why, file=done.item)
        rejected[done.item] = why
        store.write_rejected(rejected)
    recordings = _placed(found, settings, rejected, keep_going)
    store.write_rejected(rejected)
    return Reduction(recordings, rejected, kept, seconds)


def merge_robots(
    executor: Executor,
    files: Mapping[str, Sequence[Path]],
    *,
    progress: Progress = silent,
) -> Iterator[tuple[str, StoredFactor]]:
    """
    Merge the packed factors of each robot in a tree that depends on their order alone.

    Groups of `GROUP` are merged by the executor, and the groups' factors here.  Robots come in the
    order of ``files``, with the same factor for any executor.

    Raises
    ------
    IdentificationError
        if factors cannot be merged.

    """
    merged = in_groups(executor, merge_group, files, progress=progress, text='merging factors')
    for serial, groups in groupby(merged, key=itemgetter(0)):
        yield serial, merge_stored(unpack(data) for _, data in groups)


def in_groups(
    executor: Executor,
    task: Task,
    files: Mapping[str, Sequence[Path]],
    *,
    progress: Progress = silent,
    text: str = '',
    argument: Any = None,
) -> Iterator[tuple[str, Any]]:
    """
    Run a task on each robot's packed factors, `GROUP` at a time.

    Parameters
    ----------
    task:
        Called with the executor's payload and a `Group`, which has ``argument``.
    files:
        Packed factors by serial number.
    text:
        Text for the progress.

    Yields
    ------
    Serial number and result of each group, in order.

    """
    places = [
        (serial, tuple(names[start : start + GROUP]))
        for serial, names in files.items()
        for start in range(0, len(names), GROUP)
    ]
    groups = (
        Group(number, tuple(name.read_bytes() for name in names), argument)
        for number, (_, names) in enumerate(places)
    )
    early: dict[int, Any] = {}
    next_one = 0
    for done in executor.run(task, groups):
        if done.failure:
            raise IdentificationError(
                f'factors of {places[done.item.number][0]} cannot be used: {done.failure}',
                remedy='run the same command again; what is finished is kept',
            )
        early[done.item.number] = done.value
        while next_one in early:
            yield places[next_one][0], early.pop(next_one)
            next_one += 1
            progress(next_one / len(places), text)


def _placed(
    found: Sequence[FleetRecording],
    settings: FleetSettings,
    rejected: dict[str, str],
    keep_going: bool,
) -> tuple[FleetRecording, ...]:
    """Return recordings with serial number and time; reject those without."""
    placed = []
    for entry in found:
        try:
            serial = serial_of(entry.path, entry.custom, settings)
            stamp = stamp_of(entry.path, entry.began, settings)
        except RecordingError as error:
            if not keep_going:
                raise
            rejected[entry.path] = str(error)
            continue
        placed.append(replace(entry, serial=serial, stamp=stamp))
    return tuple(sorted(placed, key=lambda one: (one.serial, one.stamp, one.path)))
