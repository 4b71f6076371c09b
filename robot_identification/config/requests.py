# SPDX-License-Identifier: Apache-2.0
"""Experiments of requests: the files that they name, and recordings like those of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.formats import suffixes
from ..data.recognition import require_kind
from ..data.recording import source_name
from ..data.recording_config import RecordingEntry
from ..errors import RecordingError, SettingsError
from ..model.urdf_files import resolve_package_path
from ..options.document import read_document, set_key
from ..untrusted.directories import DataDirectories, given_path
from .experiment import Experiment
from .experiment_file import experiment_from
from .sources import Source

SETTINGS_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    'robot.urdf': ('urdf', ('',)),
    'estimation.prior': ('parameters', ('none', 'urdf')),
    'estimation.mrls.bounds_file': ('bounds', ()),
}
"""Settings that name files: the kind of file, and values that are none."""

MOST_OPTIONS, LONGEST_OPTIONS = 1000, 2_000_000
"""Options of a request, and characters of all of them: a URDF may be among them."""


def experiment_of(path: str) -> Experiment | None:
    """Read an experiment file; its recordings need not exist, since requests name their own."""
    if not path:
        return None
    file = resolve_package_path(path).absolute()
    try:
        return experiment_from(read_document(file), file.parent, path=file, check_data=False)
    except SettingsError as error:
        raise SettingsError(
            f"parameter 'experiment': {error.message}",
            remedy=error.remedy,
            key=error.key,
            file=error.file,
        ) from error


def overrides_of(options: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the options of a request by key; refuse too many, and those of other things."""
    size = sum(len(key) + len(value) for key, value in options)
    if len(options) > MOST_OPTIONS or size > LONGEST_OPTIONS:
        raise SettingsError(
            f'{len(options)} options of {size} characters are too many',
            key='options',
            remedy=f'give at most {MOST_OPTIONS} options of {LONGEST_OPTIONS} characters together',
        )
    overrides = dict(options)
    for key in overrides:
        if key.partition('.')[0].partition('[')[0] in ('data', 'output'):
            raise SettingsError(
                f"'{key}' is no option of a request",
                key=key,
                remedy='name the recording in source; output is a parameter of the node',
            )
    return overrides


def restrict_files(
    document: dict[str, Any], given: Mapping[str, Any], directories: DataDirectories, base: Path
) -> None:
    """
    Refuse files that a request may not name, and resolve the others in place, from ``base`` on.

    Those of ``given``, by key, were named at the start and need not be below the folders.
    """
    for key, value in named_files(document).items():
        kind, words = SETTINGS_FILES[key]
        if not isinstance(value, str) or value == given.get(key) or value in words:
            continue
        if kind == 'urdf' and value.lstrip().startswith('<'):
            continue
        if value.startswith('package://') and '..' not in value.split('/'):
            path = resolve_package_path(value)  # what is installed is no secret
        else:
            path = directories.resolve(given_path(value, key, base), key)
        require_kind(path, kind, key)
        set_key(document, key, str(path))


def named_files(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that name files, by key."""
    found = {}
    for key in SETTINGS_FILES:
        place: Any = document
        for name in key.split('.'):
            place = place.get(name) if isinstance(place, Mapping) else None
        found[key] = place
    return found


def entry_like(
    path: Path, known: Sequence[RecordingEntry], base: Path
) -> tuple[RecordingEntry, bool]:
    """
    Return how to read a recording: as the first known one of its kind, and whether there is one.

    Raises
    ------
    RecordingError
        where its columns are not known.

    """
    entry = RecordingEntry(file=str(path))
    form = entry.file_format()
    alike = [e for e in known if e.file is not None and e.file_format(base) is form]
    if alike:
        _require_one_file(alike[0])
        entry = replace(alike[0], file=str(path), rows=None, time_range=None)
    elif not form.topics:
        raise RecordingError(
            f"the columns of '{path}' are not given",
            file=str(path),
            remedy=f'name an experiment file with a recording of format {form.name} in the '
            'parameter experiment, or give a bag',
        )
    require_kind(path, form.name, 'source')
    return entry, bool(alike)


def _require_one_file(entry: RecordingEntry) -> None:
    """Raise where the file of an entry cannot be replaced, as its signals are in two."""
    if entry.motor is not None and entry.motor.file is not None:
        raise RecordingError(
            f"the motors' side of '{entry.name}' is in a file of its own, '{entry.motor.file}'",
            file=entry.name,
            remedy='write both sides into one file, or leave source empty to identify from the '
            "experiment file's own recordings",
        )


def result_name(source: Source, method: str) -> str:
    """Return the name of the folder for a result: that of the recording, and the method."""
    name = Path(source_name(source)).name
    name = name.removesuffix(Path(name).suffix) if Path(name).suffix in suffixes() else name
    return f'{name or "recording"}_{method}'
