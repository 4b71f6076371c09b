# SPDX-License-Identifier: Apache-2.0
"""Bags of ROS 2: folders, or single files; mcap and sqlite3 are slow to import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..columns import Wanted
from ..recording import Table
from .format import first_bytes, Format

_MCAP, _SQLITE = b'\x89MCAP0\r\n', b'SQLite format 3\0'
_STORAGE = {
    '.mcap': _MCAP,  # as `storage.MAGIC`, which brings the mcap library
    '.db3': _SQLITE,
    '.zstd': b'\x28\xb5\x2f\xfd',
}
"""First bytes of the files of a bag, by the ending of the name."""


def _read(wanted: Wanted, size: int) -> Iterator[Table]:
    from ..bag_rows import read_rosbag

    return read_rosbag(wanted, size)


def _duration(bag: Path) -> float:
    from ..bag import bag_duration

    return bag_duration(bag)


def _origin(bag: Path) -> tuple[float | None, Mapping[str, str]]:
    from ..bag import bag_info

    info = bag_info(bag)
    return info.start, info.custom


def _is_bag(path: Path) -> bool:
    files = [path]
    if path.is_dir():
        files = [file for file in path.iterdir() if file.suffix in _STORAGE]
    return any(_is_storage(file) for file in files)


def _is_storage(file: Path) -> bool:
    if file.suffix not in _STORAGE or not file.is_file():
        return False
    head = first_bytes(file, 16)
    # a recorder that was killed may leave an empty file
    return not head or head.startswith(_STORAGE[file.suffix])


FORMAT = Format(
    'rosbag2',
    'a rosbag2 recording',
    ('.mcap', '.db3'),
    _is_bag,
    {
        _MCAP: ('an MCAP file', 'rename it to {stem}.mcap'),
        _SQLITE: ('an SQLite bag', 'rename it to {stem}.db3'),
    },
    topics=True,
    tables=_read,
    duration=_duration,
    origin=_origin,
)
