# SPDX-License-Identifier: Apache-2.0
"""
One array in a file of ``numpy.save``.

Column 3 is named ``[:, 3]``, the fields of a structured array by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

from ...untrusted.compressed import array_of, DAMAGED
from ...untrusted.files import read_bytes
from ..recording import damage_named
from .arrays import ALL, column_name, of_arrays, Storage
from .format import first_bytes, Format

_MAGIC = b'\x93NUMPY'

MAX_COLUMNS = 10_000
"""Columns of an array, or fields."""


class _Array:
    """The array of a file, or its fields; it is in memory as a whole."""

    others: Mapping[str, str] = {}

    def __init__(self, array: np.ndarray) -> None:
        fields = array.dtype.names
        width = len(fields or ()) or (array.shape[1] if array.ndim == 2 else 1)
        if width > MAX_COLUMNS:
            raise ValueError(f'it has {width} columns')
        self._arrays = {ALL: array} if fields is None else {name: array[name] for name in fields}
        self.names = tuple(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._arrays[name].shape

    def array(self, name: str) -> np.ndarray:
        return self._arrays[name]


@contextmanager
def _opened(file: Path) -> Iterator[_Array]:
    yield _Array(array_of(read_bytes(file), file.name, fields=True))


def _named(file: Path) -> AbstractContextManager[None]:
    remedy = 'write it with numpy.save, numbers only'
    return damage_named(file, 'cannot be read as npy', remedy, DAMAGED)


def _columns(archive: _Array) -> tuple[np.ndarray | None, tuple[str, ...]]:
    shape = archive.shape(ALL) if ALL in archive.names else ()
    if len(shape) != 2:
        return None, ()
    return archive.array(ALL), tuple(column_name(ALL, k) for k in range(shape[1]))


FORMAT = Format(
    'npy',
    'an array of numpy.save',
    ('.npy',),
    lambda path: first_bytes(path, len(_MAGIC)) == _MAGIC,
    {_MAGIC: ('an array of numpy.save', 'rename it to {stem}.npy')},
    common=('.npy',),  # programs write single arrays of anything
    **of_arrays(Storage(_opened, _named, _columns)),
)
