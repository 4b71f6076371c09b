# SPDX-License-Identifier: Apache-2.0
"""Kinds of files by their first bytes, for files whose names say something else."""

from __future__ import annotations

from pathlib import Path

_HEADS = {
    b'\x89MCAP0\r\n': ('an MCAP file', 'rename it to {stem}.mcap'),
    b'SQLite format 3\0': ('an SQLite bag', 'rename it to {stem}.db3'),
    b'PAR1': ('a Parquet file', 'rename it to {stem}.parquet'),
    b'#ROSBAG V2': ('a ROS 1 bag', 'convert it with rosbags-convert (pip install rosbags)'),
    b'MATLAB 5.0': ('a MATLAB file', 'write columns as CSV, or arrays with numpy.savez'),
    b'\x89HDF\r\n': ('an HDF5 file', 'write columns as CSV, or arrays with numpy.savez'),
    b'PK\x03\x04': ('a zip archive, such as a spreadsheet', 'save it as CSV, or rename an npz'),
    b'\xff\xfe': ('text in UTF-16', 'save it as CSV in UTF-8'),
    b'\xfe\xff': ('text in UTF-16', 'save it as CSV in UTF-8'),
}


def kind_by_content(file: Path) -> tuple[str, str] | None:
    """Return what a file is by its first bytes, and a remedy; None where they are not known."""
    try:
        with file.open('rb') as stream:
            head = stream.read(max(map(len, _HEADS)))
    except OSError:
        return None
    found = next((each for start, each in _HEADS.items() if head.startswith(start)), None)
    return None if found is None else (found[0], found[1].format(stem=file.stem))
