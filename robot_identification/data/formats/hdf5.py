# SPDX-License-Identifier: Apache-2.0
"""
Datasets of HDF5 files by their paths, ``group/dataset``.

Nothing is followed out of a file: no link but those between groups and their members, no data in
other files, and no filter that the library does not have itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
import math
from pathlib import Path
from typing import Any

from ...errors import importing
from ...untrusted.compressed import DAMAGED, MAX_BLOCK, MAX_MEMBER_RATIO
from ...untrusted.files import require_regular
from ..recording import damage_named
from .arrays import of_arrays, Storage
from .format import first_bytes, Format

MAX_OBJECTS = 10_000
"""Groups and datasets of a file."""

MAX_DEPTH = 16
"""Groups in each other."""

_FREE = 1 << 20  # bytes of a dataset to which no ratio applies
_FILTERS = {1, 2, 3, 32000}  # deflate, shuffle and checksums of HDF5, and h5py's lzf
_PLACES = (0, 512, 1024, 2048)  # of the signature, behind a block of the user
_MAGIC = b'\x89HDF\r\n\x1a\n'


class Datasets:
    """Datasets of an open file, read by slices; `members` are they by name."""

    def __init__(self, root: Any, size: int) -> None:
        self.members: dict[str, Any] = {}
        self.others: dict[str, str] = {}
        self._size, self._count = size, 0
        self._collect(root, '', 0)
        self.names = tuple(self.members)

    def _collect(self, group: Any, prefix: str, depth: int) -> None:
        from h5py import Dataset, Group, HardLink

        for name in group:
            self._count += 1
            if self._count > MAX_OBJECTS or depth > MAX_DEPTH:
                raise ValueError(f'it has more than {MAX_OBJECTS} groups and datasets, or is deep')
            path = f'{prefix}{name}'
            if not isinstance(group.get(name, getlink=True), HardLink):
                self.others[path] = 'a link'
                continue
            each = group[name]
            if isinstance(each, Group):
                self._collect(each, f'{path}/', depth + 1)
            elif isinstance(each, Dataset):
                what = _not_numbers(each) or self._unusable(each)
                if what:
                    self.others[path] = what
                else:
                    self.members[path] = each

    def _unusable(self, dataset: Any) -> str:
        """Return what keeps numbers from being read; empty for nothing."""
        if dataset.is_virtual or dataset.external:
            return 'in other files'
        plist = dataset.id.get_create_plist()
        filters = {plist.get_filter(k)[0] for k in range(plist.get_nfilters())}
        if filters - _FILTERS:
            return 'compressed by a plugin'
        # of a chunk that was never written the fill value is read
        stored = min(dataset.id.get_storage_size(), self._size)
        chunk = dataset.dtype.itemsize * math.prod(dataset.chunks or ())
        if chunk > MAX_BLOCK or dataset.nbytes > _FREE + MAX_MEMBER_RATIO * stored:
            return f'declared to have {dataset.nbytes} bytes and has {stored}'
        return ''

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a dataset."""
        return tuple(self.members[name].shape)

    def array(self, name: str) -> Any:
        """Return a dataset, which is read by slices."""
        return self.members[name]


def _not_numbers(dataset: Any) -> str:
    """Return what a dataset has that are no numbers; empty for numbers."""
    if dataset.shape is None:
        return 'empty'
    kind = dataset.dtype.kind
    if kind in 'biuf':
        return ''
    return {'c': 'complex', 'V': 'a table of records', 'S': 'text'}.get(kind, 'text or references')


@contextmanager
def opened(file: Path) -> Iterator[Datasets]:
    """Open a file; raises IdentificationError without the library, or one of `DAMAGED`."""
    with importing('h5py', f'HDF5, as {file.name} is'):
        from h5py import File
    require_regular(file)
    with File(file, 'r') as root:
        yield Datasets(root, file.stat().st_size)


def is_hdf5(path: Path) -> bool:
    """Return true for a file with the signature of HDF5."""
    start = first_bytes(path, _PLACES[-1] + len(_MAGIC))
    return any(start[place:].startswith(_MAGIC) for place in _PLACES)


def _named(file: Path) -> AbstractContextManager[None]:
    return damage_named(file, 'cannot be read as HDF5', 'check it, or write it again', DAMAGED)


FORMAT = Format(
    'hdf5',
    'an HDF5 file',
    ('.h5', '.hdf5'),
    is_hdf5,
    {_MAGIC: ('an HDF5 file', 'rename it to {stem}.h5')},
    **of_arrays(Storage(opened, _named)),
)
