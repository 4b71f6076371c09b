# SPDX-License-Identifier: Apache-2.0
"""
Kind of a file by its content.

Readers quote names and cells of a file in their messages.  A file that is named in a request is
checked to be of the right kind before, so that no content of any other file is published.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import re
import stat
import zipfile

from ..errors import SettingsError
from ..model.urdf import is_urdf_file
from .mcap_file import MAGIC
from .recording_config import FACTOR

_STORAGE = {
    '.mcap': (MAGIC,),
    '.db3': (b'SQLite format 3\0',),
    '.zstd': (b'\x28\xb5\x2f\xfd',),
}
"""First bytes of the files of a bag, by the ending of the name."""

_HEAD = 1 << 16
_LARGEST_YAML = 1 << 26

_SYMBOLS = 'm|m[xyz]|I[xyz]{2}|Iam?|fvm?|fcm?|ts|tsc|off|fr|fl|k[cs]?|d'
_NUMBER = r'[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?'
_END = rf'(?:null|~|{_NUMBER})'
_PARAMETERS = re.compile(
    rf'^standard_parameters:|\S\.(?:{_SYMBOLS})["\']?\s*:\s*{_NUMBER}\s*(?:[,}}#]|$)', re.MULTILINE
)
_BOUNDS = re.compile(rf'\S:\s+\[\s*{_END}\s*,\s*{_END}\s*\]')


def require_kind(path: Path, kind: str, key: str) -> None:
    """
    Require that a file or a bag's folder is of a kind.

    Parameters
    ----------
    kind:
        ``urdf`` (xacro included), ``parameters`` (a prior), ``bounds``, ``rosbag2``, ``csv``,
        ``npz``, ``parquet`` or ``factor``.
    key:
        Name of the request's field or setting, for the message.

    Raises
    ------
    SettingsError
        naming the path, and no content of the file.

    """
    title, is_one = _KINDS[kind]
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode) and kind != 'rosbag2':
            why = 'is a folder'
        elif not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            why = 'is neither a file nor a folder'
        else:
            why = '' if is_one(path) else f'is not {title}'
    except FileNotFoundError:
        why = 'does not exist'
    except (OSError, ValueError) as error:
        why = f'cannot be read ({getattr(error, "strerror", None) or "its name is no path"})'
    if why:
        raise SettingsError(
            f"'{key}': '{path}' {why}", key=key, file=str(path), remedy=f'give the path of {title}'
        )


def _text_with(pattern: re.Pattern[str]) -> Callable[[Path], bool]:
    """Return a test for a text in which a pattern occurs."""

    def test(path: Path) -> bool:
        with path.open('rb') as stream:
            text = stream.read(_LARGEST_YAML).decode('utf-8', errors='replace')
        return pattern.search(text) is not None

    return test


def _is_bag(path: Path) -> bool:
    files = [path]
    if path.is_dir():
        files = [file for file in path.iterdir() if file.suffix in _STORAGE]
    return any(_is_storage(file) for file in files)


def _is_storage(file: Path) -> bool:
    if file.suffix not in _STORAGE or not file.is_file():
        return False
    with file.open('rb') as stream:
        head = stream.read(16)
    # a recorder that was killed may leave an empty file
    return not head or head.startswith(_STORAGE[file.suffix])


def _is_table(path: Path) -> bool:
    """Return true if one of the first lines has several cells, all numbers."""
    with path.open('rb') as stream:
        lines = stream.read(_HEAD).decode('utf-8-sig', errors='replace').splitlines()
    rows = [line for line in lines if line.strip() and not line.lstrip().startswith('#')]
    return any(
        len(cells := [cell for cell in re.split(r'[\s,;]+', row) if cell]) > 1
        and all(re.fullmatch(rf'{_NUMBER}|nan|inf', cell.strip('"')) for cell in cells)
        for row in rows[:3]
    )


def _is_archive(path: Path) -> bool:
    """Return true for a zip archive of arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith('.npy') for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return False


def _is_parquet(path: Path) -> bool:
    with path.open('rb') as stream:
        return stream.read(4) == b'PAR1'


_KINDS: dict[str, tuple[str, Callable[[Path], bool]]] = {
    'urdf': ('a URDF or xacro file', is_urdf_file),
    'parameters': ('a YAML file of parameters', _text_with(_PARAMETERS)),
    'bounds': ('a YAML file of names and [lowest, highest]', _text_with(_BOUNDS)),
    'rosbag2': ('a rosbag2 recording', _is_bag),
    'csv': ('a table of numbers', _is_table),
    'npz': ('a file of numpy.savez', _is_archive),
    'parquet': ('a Parquet file', _is_parquet),
    FACTOR: ("a factor that 'robot-identification reduce' wrote", _is_archive),
}
