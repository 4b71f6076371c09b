# SPDX-License-Identifier: Apache-2.0
"""
Recordings as arrays by name, in formats that differ in how arrays are stored.

A signal is one array ``(n_samples, n_columns)``, or several arrays ``(n_samples,)``.  Column k of
an array ``q`` is named ``q[:, k]``.  Of an array ``(n_samples, n_environments, n_columns)``, as
parallel simulations write, environment e is named ``q[:, e, :]``, and its column k ``q[:, e, k]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
import re
from typing import Any, Protocol

import numpy as np

from ...errors import one_of, RecordingError
from ..columns import Block, Column, Wanted
from ..recording import recording_error
from .format import Head


class Arrays(Protocol):
    """Arrays in an open file; raises the errors that `Storage.named` turns into the file's."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the arrays of numbers."""

    @property
    def others(self) -> Mapping[str, str]:
        """Other content by name: what it is, with an article."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array of `names`."""

    def array(self, name: str) -> Any:
        """Return an array of `names`, or what has its shape and gives it by slices of rows."""


@dataclass(frozen=True)
class Storage:
    """
    Access to the arrays in files of a format.

    Attributes
    ----------
    opened:
        Opens a file.
    named:
        Turns errors of opening and reading a file into `RecordingError` that names it.
    first:
        Returns the array whose columns' names mean nothing, and these; None where names tell.

    """

    opened: Callable[[Path], AbstractContextManager[Arrays]]
    named: Callable[[Path], AbstractContextManager[None]]
    first: Callable[[Any], tuple[Any, tuple[str, ...]]] | None = None


_PART = re.compile(r'(.*)\[:, (?:(\d+), )?(\d+|:)\]', re.DOTALL)
ALL = '[:, :]'
"""Name of an array that has none."""
_ENVIRONMENT = ', :]'
"""End of the name of an environment's array."""


def of_arrays(storage: Storage) -> dict[str, Any]:
    """Return those fields of a `Format` that read arrays."""
    return {
        'wide': True,
        'blocks': partial(_blocks, storage),
        'head': partial(_head, storage),
        'arrays': partial(_whole, storage),
    }


def column_name(array: str, column: int) -> str:
    """Return the name of a column of an array."""
    if array.endswith(_ENVIRONMENT):
        return f'{array.removesuffix(":]")}{column}]'
    return f'{array}[:, {column}]'


@dataclass(frozen=True)
class _Part:
    """A column, or one environment's columns, of an array, read by slices of rows."""

    array: Any
    chosen: tuple[int | slice, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = zip(self.array.shape[1:], self.chosen, strict=True)
        return (self.array.shape[0], *(n for n, each in sizes if isinstance(each, slice)))

    def __getitem__(self, rows: slice) -> np.ndarray:
        index = (rows, *self.chosen)
        return np.asarray(self.array[index])


def _blocks(storage: Storage, wanted: Wanted, size: int) -> Iterator[Block]:
    with ExitStack() as stack:
        archives: dict[Path, Arrays] = {}
        for file in dict.fromkeys(wanted.files[name] for name in wanted.columns):
            with storage.named(file):
                archives[file] = stack.enter_context(storage.opened(file))
        signals: dict[str, list[Any]] = {}
        labels: dict[str, tuple[str, ...]] = {}
        for name in wanted.columns:
            file = wanted.files[name]
            with storage.named(file):
                signals[name], labels[name] = _signal(file, archives[file], wanted, name)
        n_samples = signals['position'][0].shape[0]
        for name, arrays in signals.items():
            if arrays[0].shape[0] != n_samples:
                shape = (arrays[0].shape[0], len(labels[name]))
                expected = f'{n_samples} rows as the position'
                raise _wrong_shape(wanted.files[name], name, shape, expected)
        labels.pop('time', None)
        for start in range(0, n_samples, size):
            block = {}
            for name, arrays in signals.items():
                with storage.named(wanted.files[name]):
                    block[name] = _numbers(arrays, slice(start, start + size))
            yield block, labels


def _signal(
    file: Path, archive: Arrays, wanted: Wanted, name: str
) -> tuple[list[Any], tuple[str, ...]]:
    """Return the arrays of a signal and the names of its columns."""
    columns, count = wanted.columns[name], wanted.counts[name]
    keys = (name,) if columns is None else tuple(map(str, columns))
    if columns is None and len(archive.names) == 1:
        keys = tuple(archive.names)  # a file of its own
    arrays = [_array(file, archive, key) for key in keys]
    shape = arrays[0].shape
    if len(arrays) == 1 and len(shape) == 2 and name != 'time':
        labels = tuple(column_name(keys[0], i) for i in range(shape[1]))
    else:
        labels = keys
        for key, array in zip(keys, arrays, strict=True):
            if array.shape != shape or len(shape) != 1:
                shown = str(keys) if name == 'time' and len(keys) > 1 else key
                raise _wrong_shape(file, shown, array.shape, '(n_samples,)')
    if len(labels) != count:
        raise _wrong_shape(file, keys[0], (shape[0], len(labels)), f'{count} columns')
    return arrays, labels


def _numbers(arrays: Sequence[Any], part: slice) -> np.ndarray:
    """Return (n, k) numbers of one array, or of several columns."""
    found = [np.asarray(array[part], dtype=float) for array in arrays]
    return found[0] if found[0].ndim == 2 else np.stack(found, axis=1)


def _array(file: Path, archive: Arrays, key: str) -> Any:
    """Return an array, or a column of one; raises `RecordingError` that lists what there is."""
    if key in archive.names:
        return archive.array(key)
    found = _PART.fullmatch(key)
    whole = next((n for n in archive.names if found and n.removesuffix(ALL) == found[1]), None)
    if found and whole is not None:
        shape = archive.shape(whole)
        chosen = tuple(slice(None) if i == ':' else int(i) for i in found.groups()[1:] if i)
        if len(shape) == len(chosen) + 1:
            sizes = zip(chosen, shape[1:], strict=True)
            if all(isinstance(i, slice) or i < n for i, n in sizes):
                return _Part(archive.array(whole), chosen)
            ends = [''.join(f', {i}' for i in ids) for ids in ([0] * len(chosen), _last(shape))]
            remedy = f'its columns are {" to ".join(f"{found[1]}[:{end}]" for end in ends)}'
            raise recording_error(file, f"there is no column '{key}'", remedy, value=key)
    remedy = f'its arrays are {one_of(archive.names) or "none"}'
    what = archive.others.get(key)
    text = f"there is no array '{key}'" if what is None else f"'{key}' is {what}, not numbers"
    raise recording_error(file, text, remedy, value=key)


def _last(shape: tuple[int, ...]) -> list[int]:
    return [size - 1 for size in shape[1:]]


def _wrong_shape(file: Path, name: str, shape: tuple[int, ...], expected: str) -> RecordingError:
    text = f"'{name}' has shape {shape}, expected {expected}"
    remedy = 'give one column a joint and one row a sample in every signal'
    return recording_error(file, text, remedy, value=shape)


def _head(storage: Storage, file: Path, rows: int) -> Head:
    with storage.named(file), storage.opened(file) as archive:
        shapes: dict[Column, tuple[int, ...] | None] = {}
        environments = 0
        for name in archive.names:
            shape = archive.shape(name)
            if len(shape) == 3 and shape[1]:
                environments = max(environments, shape[1])
                name, shape = f'{name}[:, 0{_ENVIRONMENT}', (shape[0], shape[2])
            shapes[name] = shape
        if storage.first is None:
            return Head(shapes, environments=environments)
        table, labels = storage.first(archive)
        first = None if table is None else np.asarray(table[:rows], dtype=float)
        return Head(shapes, environments=environments, rows=first, labels=labels)


def _whole(storage: Storage, file: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return arrays of numbers of a file by name."""
    with storage.named(file), storage.opened(file) as archive:
        arrays = {name: _array(file, archive, name) for name in names}
        return {name: np.asarray(array[...], dtype=float) for name, array in arrays.items()}
