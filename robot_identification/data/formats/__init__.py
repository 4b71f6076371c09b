# SPDX-License-Identifier: Apache-2.0
"""The formats of recordings, and the kinds of files that are none."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
import os
from pathlib import Path

from ...untrusted.compressed import COMPRESSED_TEXT
from . import csv, hdf5, mat, npy, npz, parquet, rosbag2
from .foreign import FOREIGN
from .format import first_bytes, Format, Head

__all__ = [
    'FACTOR',
    'FORMATS',
    'KNOWN',
    'Format',
    'Head',
    'foreign_of',
    'format_of',
    'suffixes',
    'described_by_head',
]

FORMATS: dict[str, Format] = {
    'csv': csv.FORMAT,
    'npz': npz.FORMAT,
    'npy': npy.FORMAT,
    'mat': mat.FORMAT,
    'hdf5': hdf5.FORMAT,
    'parquet': parquet.FORMAT,
    'rosbag2': rosbag2.FORMAT,
}
"""The formats of recordings by name."""

FACTOR = Format(
    'factor',
    "a factor that 'robot-identification reduce' wrote",
    ('.factor',),
    npz.is_archive,
)
"""Recordings that are reduced already: they have no samples."""

KNOWN: Mapping[str, Format] = ChainMap({FACTOR.name: FACTOR}, FORMATS)
"""The formats, and that of factors."""


def format_of(file: Path) -> Format | None:
    """Return the format of a file by its name, or of a folder; None for an unknown name."""
    if os.path.isdir(file):  # unlike Path.is_dir, it holds where one may not look
        return next(each for each in FORMATS.values() if each.topics)
    suffix = _suffix(file)
    return next((each for each in KNOWN.values() if suffix in each.suffixes), None)


def foreign_of(file: Path) -> tuple[str, str] | None:
    """Return what a file is that is not read, by the ending of its name, and a remedy."""
    suffix = _suffix(file)
    found = next((each for each in FOREIGN if suffix in each.suffixes), None)
    return None if found is None else (found.title, _filled(found.remedy, file))


def suffixes(*, common: bool = True) -> tuple[str, ...]:
    """Return the endings of recordings' names, with or without those that other files have."""
    return tuple(
        suffix
        for each in FORMATS.values()
        for suffix in each.suffixes
        if common or suffix not in each.common
    )


def described_by_head(file: Path, expected: Format | None = None) -> tuple[str, str] | None:
    """
    Return what a file is by its first bytes, and a remedy; None where they are not known.

    None, too, where it may be of the format that is expected.
    """
    heads: dict[bytes, tuple[Format | None, str, str]] = {
        head: (each, *about) for each in FORMATS.values() for head, about in each.heads.items()
    }
    heads |= {head: (None, f.title, f.remedy) for f in FOREIGN for head in f.heads}
    try:
        start = first_bytes(file, max(map(len, heads)))
        found = next((each for head, each in heads.items() if start.startswith(head)), None)
        if found is None or (expected and (found[0] is expected or expected.recognise(file))):
            return None
    except OSError:
        return None
    return found[1], _filled(found[2], file)


def _suffix(file: Path) -> str:
    suffix = file.suffix.lower()
    return file.with_suffix('').suffix.lower() if suffix in COMPRESSED_TEXT else suffix


def _filled(remedy: str, file: Path) -> str:
    return remedy.format(file=file, stem=file.stem)
