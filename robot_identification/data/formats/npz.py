# SPDX-License-Identifier: Apache-2.0
"""Arrays by name in files of ``numpy.savez``, and tensors in those of ``torch.save`` (``.pt``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
import zipfile

import numpy as np

from ...untrusted.compressed import ArrayArchive, DAMAGED
from ...untrusted.files import open_regular
from ...untrusted.tensors import TensorArchive
from ..recording import damage_named
from .arrays import of_arrays, Storage
from .format import Format

_TENSORS = '.pt'


class _Archive:
    """Arrays of a file, which cannot be read in parts and stay in memory while they are used."""

    others: Mapping[str, str] = {}

    def __init__(self, file: Path, archive: ArrayArchive | TensorArchive) -> None:
        self._file, self._archive = file, archive
        self.names = archive.arrays

    def shape(self, name: str) -> tuple[int, ...]:
        return self._archive.array(name).shape

    def array(self, name: str) -> np.ndarray:
        with _stored(self._file) as archive:  # its limit on expansion is that of one array
            array = archive.array(name)
        if array.dtype.kind == 'U':
            raise ValueError(f"'{name}' is text")
        return array


@contextmanager
def _stored(file: Path) -> Iterator[ArrayArchive | TensorArchive]:
    with open_regular(file) as stream:
        yield TensorArchive(stream) if file.suffix == _TENSORS else ArrayArchive(stream)


@contextmanager
def _opened(file: Path) -> Iterator[_Archive]:
    with _stored(file) as archive:
        yield _Archive(file, archive)


def _named(file: Path) -> AbstractContextManager[None]:
    kind, remedy = 'npz', 'write it with numpy.savez, numbers only'
    if file.suffix == _TENSORS:
        kind = 'tensors'
        remedy = f'save a mapping of names to tensors with torch.save, or {remedy}'
    return damage_named(file, f'cannot be read as {kind}', remedy, DAMAGED)


def is_archive(path: Path, members: tuple[str, ...] = ('.npy',)) -> bool:
    """Return true for a zip archive of arrays, or of members whose names end otherwise."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(members) for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return False


FORMAT = Format(
    'npz',
    'a file of numpy.savez',
    ('.npz', _TENSORS),
    partial(is_archive, members=('.npy', '/data.pkl')),
    {b'PK\x03\x04': ('a zip archive, such as a spreadsheet', 'save it as CSV, or rename an npz')},
    common=(_TENSORS,),
    **of_arrays(Storage(_opened, _named)),
)
