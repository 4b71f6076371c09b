# SPDX-License-Identifier: Apache-2.0
"""
Recordings of a fleet, and the folder of its results, which a run that was stopped goes on from.

    factors/<key>.factor   one a recording; the key is a hash of recording and settings
    journal.jsonl          one line a finished recording, appended as they finish
    rejected.yaml          recordings that cannot be used, and why
    robots/<serial>.factor all recordings of a robot, merged
    fleet.factor           all recordings, merged
    fleet.yaml, fleet.html what was found

A factor is whole or not there, and its line in the journal comes after it with its checksum: what
has both is finished, all else is done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
import fcntl
from functools import partial
import glob
import hashlib
import json
import os
from pathlib import Path
import re
import socket
from typing import Any, BinaryIO

from ..config.experiment import FleetSettings
from ..data.formats import suffixes
from ..data.recording import recording_error
from ..errors import IdentificationError, RecordingError
from ..estimation.factor_file import FACTOR_SIZE, SUFFIX
from ..options.document import dump, plain
from ..untrusted.files import read_bytes
from ..untrusted.names import has_control, REMEDY
from ..untrusted.writing import encoded, open_own, reported_failures, write_whole

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
                    remedy='recordings are bags and files that end in '
                    f'{", ".join(suffixes(common=False))}',
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
            elif entry.name.lower().endswith(suffixes(common=False)):
                yield entry.path


def key_of(path: str, fingerprint: str) -> str:
    """Return a hash of path, sizes and times of change of a recording, and of ``fingerprint``."""
    digest = hashlib.sha256(encoded(fingerprint))
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
        if the settings do not find it, or it has control characters.

    """
    serial = _serial_of(path, custom, settings)
    if has_control(serial):
        text = f'the serial number {serial[:80]!a} of its robot has control characters'
        raise recording_error(path, text, REMEDY, value=serial)
    return serial


def _serial_of(path: str, custom: Mapping[str, str], settings: FleetSettings) -> str:
    if settings.serial_key is not None:
        if custom.get(settings.serial_key):
            return custom[settings.serial_key]
        text = f"its custom data have no '{settings.serial_key}', which is to be the serial number"
        remedy = 'record with --custom-data, or set fleet.serial to find it in the path'
        raise recording_error(path, text, remedy)
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
    remedy = (
        'let fleet.stamp match YYYYMMDD, with hhmm and ss behind it where they are there, or '
        'seconds since 1970'
    )
    raise recording_error(path, f"'{text}' is no date", remedy, value=text)


def _matched(pattern: str, path: str, key: str) -> str:
    match = re.search(pattern, path)
    groups = () if match is None else match.groups()
    text = '' if match is None else ''.join(g or '' for g in groups) or match.group()
    if not text:
        why = f"'{key}' ({pattern}) is not found in its path"
        remedy = 'change the regular expression, or leave the recording out'
        raise recording_error(path, why, remedy, key=key)
    return text


@dataclass(frozen=True)
class FleetRecording:
    """
    A recording that is reduced.

    Attributes
    ----------
    began:
        Time of its first message [s since 1970]; None if unknown.
    duration:
        Time from the first to the last sample [s]; None if unknown.
    custom:
        The bag's custom data.
    seconds:
        Run time of its reduction [s].
    key, digest:
        Key of the recording and SHA-256 of its factor file, set by `Store.keep`.
    serial, stamp:
        Serial number of its robot and its time [s since 1970], by the settings of the run.

    """

    path: str
    began: float | None = None
    duration: float | None = None
    custom: Mapping[str, str] = field(default_factory=dict)
    samples: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    key: str = ''
    digest: str = ''
    serial: str = ''
    stamp: float = 0.0


class Store:
    """The folder of a fleet, locked for this process; made by `open_store`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / 'factors').mkdir(exist_ok=True)
        self._journal = folder / 'journal.jsonl'
        self._known = dict(self._read_journal())

    def finished(self, key: str) -> FleetRecording | None:
        """Return the entry of a recording whose factor is complete."""
        entry = self._known.get(key)
        if entry is None:
            return None
        try:
            data = read_bytes(self.factor_file(key), FACTOR_SIZE)
        except OSError:
            return None
        return entry if _digest(data) == entry.digest else None

    def keep(self, key: str, entry: FleetRecording, factor: bytes) -> FleetRecording:
        """Write a recording's factor, and return the entry with its key and checksum."""
        entry = replace(entry, key=key, digest=_digest(factor))
        write_file(self.factor_file(key), factor)
        with _failures_reported(self.folder), open_own(self._journal) as journal:
            journal.write(json.dumps(asdict(entry)).encode() + b'\n')
        self._known[key] = entry
        return entry

    def factor_file(self, key: str) -> Path:
        """Return the path of a recording's factor."""
        return self.folder / 'factors' / f'{key}{SUFFIX}'

    def robot_file(self, serial: str) -> Path:
        """Return the path of a robot's factor, named by its serial number if possible."""
        name = re.sub(r'[^\w.+-]', '_', serial).lstrip('.-') or '_'
        if name != serial or len(encoded(name)) > 100:
            name = f'{name[:24]}-{hashlib.sha256(encoded(serial)).hexdigest()[:8]}'
        return self.folder / 'robots' / f'{name}{SUFFIX}'

    def write_rejected(self, reasons: Mapping[str, str]) -> None:
        """Write the reasons against recordings by path; no file without any."""
        path = self.folder / 'rejected.yaml'
        if not reasons:
            path.unlink(missing_ok=True)
            return
        listed = [{'recording': file, 'reason': why} for file, why in sorted(reasons.items())]
        write_file(path, dump(plain({'rejected': listed})))

    def _read_journal(self) -> Iterator[tuple[str, FleetRecording]]:
        try:
            content = read_bytes(self._journal)
        except FileNotFoundError:
            return
        if content and not content.endswith(b'\n'):
            with open_own(self._journal) as journal:
                journal.write(b'\n')
        for line in content.split(b'\n'):
            # a line that was cut short is one that was never finished
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                values: dict[str, Any] = json.loads(line)
                values['warnings'] = tuple(values['warnings'])
                entry = FleetRecording(**values)
                if all(isinstance(text, str) for text in (entry.key, entry.path, entry.digest)):
                    yield entry.key, entry


@contextmanager
def open_store(folder: Path | str) -> Iterator[Store]:
    """
    Open the folder of a fleet, which is made if needed, for this process alone.

    Raises
    ------
    IdentificationError
        if another process uses it, or it cannot be written to.

    """
    folder = Path(folder)
    with _failures_reported(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = open_own(folder / 'lock')
    with lock:
        _take(lock, folder)
        # the system lets go of the lock when the process ends, however it does
        with _failures_reported(folder):
            store = Store(folder)
        yield store


def _take(lock: BinaryIO, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read(200).decode(errors='replace').strip()
        raise IdentificationError(
            f"another fleet is at work in '{folder}'{f' ({owner})' if owner else ''}",
            file=str(folder),
            remedy='wait until it is done, or give another folder',
        ) from error
    except OSError as error:
        raise IdentificationError(
            f"the folder '{folder}' cannot be locked: {error.strerror or error}",
            file=str(folder),
            remedy='give a folder on another file system',
        ) from error
    lock.seek(0)
    lock.truncate()
    lock.write(f'process {os.getpid()} on {socket.gethostname()}\n'.encode())


_failures_reported = partial(
    reported_failures, remedy='what is finished is kept: choose another folder'
)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file into the store or one of its folders, as a whole or not at all."""
    with _failures_reported(path.parent):
        path.parent.mkdir(exist_ok=True)
        write_whole(path, content)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
