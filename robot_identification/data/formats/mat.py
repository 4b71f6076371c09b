# SPDX-License-Identifier: Apache-2.0
"""
Arrays of numbers in files of MATLAB; a field of a struct is named ``struct.field``.

Files up to version 7 are read here: ``scipy.io.loadmat`` allocates what a file declares, and a
wrong type in one ends the process (SciPy 1.15).  Their layout is in MathWorks' "MAT-File Format".
Those of version 7.3 are HDF5, with rows and columns turned round.  What has one row or one column,
``(1, n)`` or ``(n, 1)``, is ``(n,)`` here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
import math
from pathlib import Path
import struct
from typing import Any
import zlib

import numpy as np

from ...untrusted.compressed import DAMAGED, MAX_EXPANSION, MAX_MEMBER_RATIO
from ...untrusted.files import read_bytes
from ..recording import damage_named
from . import hdf5
from .arrays import of_arrays, Storage
from .format import first_bytes, Format

_MAGIC = b'MATLAB '
_HEADER = 128  # bytes
_MATRIX, _COMPRESSED = 14, 15  # types of elements
_TYPES = {1: 'i1', 2: 'u1', 3: 'i2', 4: 'u2', 5: 'i4', 6: 'u4'}
_TYPES |= {7: 'f4', 9: 'f8', 12: 'i8', 13: 'u8'}
_STRUCT, _OPAQUE = 2, 17  # classes of matrices
_OTHERS = {
    **{1: 'a cell array', 3: 'an object', 4: 'text', 5: 'sparse', 16: 'an object'},
    _OPAQUE: 'an object',
}
_NUMBERS = range(6, 16)


class _Variables:
    """Variables of a file up to version 7, which are in memory."""

    def __init__(self, data: bytes) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self.others: dict[str, str] = {}
        order = '<' if data[126:128] == b'IM' else '>'
        for element in _expanded(data, order):
            name, value = _variable(element[8:], order)
            if name:  # without one it is MATLAB's own
                self._take(name, value)
        self.names = tuple(self._arrays)

    def _take(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            self._arrays[name] = value.ravel() if 1 in value.shape else value
        elif isinstance(value, str):
            self.others[name] = value
        else:
            for field, each in value.items():
                nested = isinstance(each, dict)
                self._take(f'{name}.{field}', 'a struct in a struct' if nested else each)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._arrays[name].shape

    def array(self, name: str) -> np.ndarray:
        return self._arrays[name]


def _variable(
    data: memoryview, order: str, nested: bool = False
) -> tuple[str, np.ndarray | str | dict[str, Any]]:
    """
    Return the name of a variable, and its numbers, what else it is, or its fields by name.

    Those of a struct in a struct are not read.
    """
    if not data:
        return '', 'empty'
    parts = _parts(data, order)
    ((_, flags),) = islice(parts, 1)
    kind, is_complex = flags[:2] if order == '<' else flags[3:1:-1]
    if kind == _OPAQUE:  # without a shape
        ((_, letters),) = islice(parts, 1)
        return _text(letters), _OTHERS[kind]
    (_, extents), (_, letters) = islice(parts, 2)
    shape, name = np.frombuffer(extents, f'{order}i4').tolist(), _text(letters)
    if kind in _NUMBERS:
        ((of_type, numbers),) = islice(parts, 1)
        if of_type not in _TYPES:
            raise ValueError(f"'{name}' has numbers of the unknown type {of_type}")
        array = np.frombuffer(numbers, f'{order}{_TYPES[of_type]}')
        if min(shape, default=0) < 0 or array.size != math.prod(shape):
            raise ValueError(f"'{name}' has another size than it declares")
        return name, 'complex' if is_complex & 8 else array.reshape(shape, order='F')
    if kind != _STRUCT:
        return name, _OTHERS.get(kind, 'of an unknown class')
    if math.prod(shape) != 1:
        return name, 'an array of structs'
    if nested:
        return name, {}
    (_, length), (_, letters) = islice(parts, 2)
    width = max(int(np.frombuffer(length, f'{order}i4')[0]), 1)
    names = [_text(letters[at : at + width]) for at in range(0, len(letters), width)]
    values = [_variable(part, order, True)[1] for _, part in islice(parts, len(names))]
    return name, dict(zip(names, values, strict=True))


def _text(letters: memoryview) -> str:
    return bytes(letters).partition(b'\0')[0].decode('utf-8', 'replace')


def _parts(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Iterate over the elements in an element: type and bytes; raises ValueError at an end."""
    at = 0
    while at + 8 <= len(data):
        of_type, size = struct.unpack_from(f'{order}II', data, at)
        start = at + 8
        if of_type >> 16:  # up to four bytes are within the tag
            of_type, size, start = of_type & 0xFFFF, of_type >> 16, at + 4
        if start + size > len(data):
            raise ValueError('it is cut off')
        yield of_type, data[start : start + size]
        at = at + 8 if start == at + 4 else start + size + -size % 8
    if at < len(data):
        raise ValueError('it is cut off')


def _expanded(data: bytes, order: str) -> Iterator[memoryview]:
    """Iterate over the elements of a file, with their tags, decompressed within limits."""
    view, at, left = memoryview(data), _HEADER, MAX_EXPANSION
    while at + 8 <= len(view):
        of_type, size = struct.unpack_from(f'{order}II', view, at)
        element = view[at : at + 8 + size]
        at += 8 + size
        if of_type == _COMPRESSED:
            stream = zlib.decompressobj()
            limit = min(left, MAX_MEMBER_RATIO * size + 1024)
            element = memoryview(stream.decompress(element[8:], limit))
            left -= len(element)
            if not stream.eof:
                raise ValueError(f'a variable is cut off, or expands to more than {limit} bytes')
            of_type = struct.unpack_from(f'{order}I', element)[0]
        if of_type != _MATRIX or at > len(view):
            raise ValueError('it is cut off, or is no list of variables')
        yield element


class _Turned:
    """A dataset of version 7.3, whose rows are columns, read by slices."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.shape = tuple(reversed(dataset.shape))
        if len(self.shape) == 2 and 1 in self.shape:
            self.shape = (math.prod(self.shape),)

    def __getitem__(self, at: Any) -> np.ndarray:
        rows, columns = at if isinstance(at, tuple) else (at, slice(None))
        rows = slice(None) if rows is Ellipsis else rows
        if len(self.shape) == 1 and len(self._dataset.shape) == 2:
            row = self._dataset.shape[0] == 1
            return np.asarray(self._dataset[(0, rows) if row else (rows, 0)])
        return np.asarray(self._dataset[columns, rows]).T


class _Datasets:
    """Variables of version 7.3."""

    def __init__(self, datasets: hdf5.Datasets) -> None:
        self.others = {name.replace('/', '.'): what for name, what in datasets.others.items()}
        self._arrays: dict[str, _Turned] = {}
        for path, dataset in datasets.members.items():
            name = path.replace('/', '.')
            of_class = bytes(dataset.attrs.get('MATLAB_class', b''))
            if path.count('/') > 1 or path.startswith('#'):
                self.others[name] = 'in a struct of a struct, or in a cell array'
            elif of_class == b'char' or 'MATLAB_empty' in dataset.attrs:
                self.others[name] = 'text or empty'
            else:
                self._arrays[name] = _Turned(dataset)
        self.names = tuple(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._arrays[name].shape

    def array(self, name: str) -> _Turned:
        return self._arrays[name]


@contextmanager
def _opened(file: Path) -> Iterator[_Variables | _Datasets]:
    start = first_bytes(file, _HEADER)
    if start.startswith(_MAGIC) and hdf5.is_hdf5(file):
        with hdf5.opened(file) as datasets:
            yield _Datasets(datasets)
    elif start.startswith(_MAGIC) and len(start) == _HEADER:
        yield _Variables(read_bytes(file))
    else:
        raise ValueError('it does not begin as files of version 5 to 7.3 do')


def _named(file: Path) -> AbstractContextManager[None]:
    remedy = 'save it with -v7, numbers only'
    return damage_named(file, 'cannot be read as a file of MATLAB', remedy, _ERRORS)


_ERRORS = (*DAMAGED, struct.error, IndexError)

FORMAT = Format(
    'mat',
    'a file of MATLAB',
    ('.mat',),
    lambda path: first_bytes(path, len(_MAGIC)) == _MAGIC,
    {_MAGIC: ('a file of MATLAB', 'rename it to {stem}.mat')},
    **of_arrays(Storage(_opened, _named)),
)
