# SPDX-License-Identifier: Apache-2.0
"""Recordings in NumPy's npz files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..errors import one_of, RecordingError
from ..untrusted.compressed import DAMAGED, open_archive
from ..untrusted.files import open_regular
from .recording_config import Column, RecordingEntry, Signal
from .table import columns_of, Counts, Table


def read_npz(
    entry: RecordingEntry, joints: tuple[str, ...], counts: Counts, base: Path, size: int
) -> Iterator[Table]:
    """
    Read a recording from npz files; parameters as for `readers.read_tables`.

    A signal is one array ``(n_samples, n_columns)``, or several arrays ``(n_samples,)``.  Arrays
    cannot be read in parts, so they stay in memory.

    Raises
    ------
    RecordingError
        naming the file and the array that is missing or has the wrong shape.

    """
    files = entry.files(base)
    signals: dict[str, np.ndarray] = {}
    labels: dict[str, tuple[str, ...]] = {'time': ('time',)}
    for name, count in counts.items():
        signal = getattr(entry, name)
        if signal is not None and count:
            signals[name], labels[name] = _signal(files[name], signal, name, count)
    n_samples = len(signals['position'])
    signals.setdefault('effort', np.empty((n_samples, 0)))
    if entry.time is not None:
        time = _array(files['time'], entry.time)
        if time.ndim != 1:
            raise _wrong_shape(files['time'], str(entry.time), time.shape, '(n_samples,)')
    else:
        time = entry.stamps(np.arange(n_samples))
    for name, array in (('time', time), *signals.items()):
        if len(array) != n_samples:
            raise _wrong_shape(files[name], name, array.shape, f'{n_samples} rows as the position')
    for start in range(0, n_samples, size):
        part = slice(start, min(start + size, n_samples))
        velocity = signals.get('velocity')
        yield Table(
            rows=np.arange(part.start, part.stop),
            time=time[part],
            position=signals['position'][part],
            velocity=None if velocity is None else velocity[part],
            effort=signals['effort'][part],
            labels=labels,
        )


def array_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a file by name; raises `RecordingError` naming it."""
    with _damage_named(file), open_regular(file) as stream, open_archive(stream) as archive:
        return {name: archive.array(name).shape for name in archive.arrays}


def _signal(
    file: Path, signal: Signal, name: str, count: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    keys = columns_of(signal) or (name,)
    arrays = [_array(file, key) for key in keys]
    if len(arrays) == 1 and arrays[0].ndim == 2:
        array = arrays[0]
        labels = tuple(f'{keys[0]}[:, {i}]' for i in range(array.shape[1]))
    else:
        for key, array in zip(keys, arrays, strict=True):
            if array.shape != arrays[0].shape or array.ndim != 1:
                raise _wrong_shape(file, str(key), array.shape, '(n_samples,)')
        array, labels = np.stack(arrays, axis=1), tuple(str(key) for key in keys)
    if array.shape[1] != count:
        raise _wrong_shape(file, str(keys[0]), array.shape, f'{count} columns')
    return array, labels


def _array(file: Path, key: Column) -> np.ndarray:
    with _damage_named(file), open_regular(file) as stream, open_archive(stream) as archive:
        if key not in archive.arrays:
            raise RecordingError(
                f"{file}: there is no array '{key}'",
                file=str(file),
                value=key,
                remedy=f'its arrays are {one_of(archive.arrays)}',
            )
        array = archive.array(str(key))
        if array.dtype.kind == 'U':
            raise ValueError(f"'{key}' is text")
    return np.asarray(array, dtype=float)


@contextmanager
def _damage_named(file: Path) -> Iterator[None]:
    """Turn errors of a damaged archive into one that names the file."""
    try:
        yield
    except DAMAGED as error:
        raise RecordingError(
            f'{file}: cannot be read as npz ({getattr(error, "strerror", None) or error})',
            file=str(file),
            remedy='write it with numpy.savez, numbers only',
        ) from error


def _wrong_shape(file: Path, name: str, shape: tuple[int, ...], expected: str) -> RecordingError:
    return RecordingError(
        f"{file}: '{name}' has shape {shape}, expected {expected}",
        file=str(file),
        value=shape,
        remedy='give one column a joint and one row a sample in every signal',
    )
