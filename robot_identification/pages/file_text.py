# SPDX-License-Identifier: Apache-2.0
"""Errors of files alone, as text."""

from __future__ import annotations

from ..estimation.tables import percent, rule
from ..results.exported_files import (
    ExportedFiles,
    ISAACLAB,
    MJCF,
    MODEL,
    ORIGINAL,
    RecordingErrors,
    URDF,
    URDF_TILTED,
)

_HEADS = {
    MODEL: 'full model',
    ORIGINAL: 'came with',
    URDF: 'URDF',
    URDF_TILTED: 'tilted URDF',
    MJCF: 'MJCF',
    ISAACLAB: 'Isaac Lab',
}
_WIDTH = 13


def files_summary(files: ExportedFiles) -> str:
    """Return tables of what the model, the URDF it came from and each file alone miss."""
    return '\n\n'.join(map(file_table, files.recordings))


def file_table(recording: RecordingErrors) -> str:
    """Return a table of what each file alone misses of a recording, 100 columns wide."""
    known = [error for error in recording.errors if error.file in _HEADS]
    joints = list(known[0].joints)
    width = max([len('all joints'), *map(len, joints)])
    where = ', '.join(source.rpartition('/')[2] for source in recording.sources)
    if recording.identified:
        where += ', which it was identified from'
    lines = [
        f'Files alone on {where}',
        rule('Error of the effort [%]'),
        _row('joint', width, [_HEADS[error.file] for error in known]),
        *(_row(j, width, [percent(error.joints[j]) for error in known]) for j in joints),
        _row('all joints', width, [percent(error.relative_error) for error in known]),
    ]
    return '\n'.join(lines)


def _row(name: str, width: int, cells: list[str]) -> str:
    return (f'{name:<{width}}' + ''.join(f'{cell:>{_WIDTH}}' for cell in cells)).rstrip()
