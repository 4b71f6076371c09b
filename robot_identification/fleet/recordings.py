# SPDX-License-Identifier: Apache-2.0
"""Recordings of a fleet: their paths, serial numbers and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
import glob
import hashlib
import os
from pathlib import Path
import re

from ..config.fleet import FleetSettings
from ..errors import RecordingError

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
            continue  # who reads it says so
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
