# SPDX-License-Identifier: Apache-2.0
"""
Rows of recordings in any format, cut to the part that their entries give.

Tables in npz are arrays by name, and so are the tensors of ``.pt``, files of ``torch.save``.
Columns of Parquet are numbers, or lists of numbers of one length, whose elements are columns of
their own: ``observation.state[0]``, as in LeRobot's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import importing, one_of, RecordingError
from ..untrusted.compressed import ArrayArchive, DAMAGED
from ..untrusted.files import open_regular, require_regular
from ..untrusted.tensors import TensorArchive
from .csv import read_csv
from .recording import damage_named, recording_error, Table
from .recording_config import (
    Block,
    Column,
    columns_of,
    Counts,
    RecordingEntry,
    Signal,
    TENSORS,
)

MAX_COLUMNS, MAX_LENGTH = 10_000, 1000
"""Columns of a Parquet file, and elements of a list."""

MAX_CHUNK = 1 << 30
"""Largest size of a column of Parquet within a group of rows, uncompressed [bytes]."""

MAX_ROW_RATIO = 10
"""Rows of a Parquet file for each of its bytes, beyond `FREE_ROWS`: efforts have noise."""

FREE_ROWS = 1_000_000
"""Rows that a small file may have."""


def read_tables(
    entry: RecordingEntry, joints: tuple[str, ...], counts: Counts, base: Path, size: int
) -> Iterator[Table]:
    """
    Read a recording block by block.

    Parameters
    ----------
    entry:
        Location of the recording and layout of its columns.
    joints:
        Names of the joints.
    counts:
        Number of columns by signal, 0 for a signal that is not wanted.
    base:
        Folder at which relative paths start.
    size:
        Rows of a block.

    Yields
    ------
    The blocks in order, cut by ``rows`` and ``time_range``, not checked yet.

    Raises
    ------
    RecordingError
        naming the file and what in it cannot be read: column, array, row or cell; for a bag,
        topic, joint, effort or stamps.
    SettingsError
        if the names of the drives' signals are needed and not given.
    IdentificationError
        if pyarrow is needed and not installed.

    """
    kind = entry.kind(base)
    if kind == 'rosbag2':
        from .bag_rows import read_rosbag  # with mcap and sqlite3, which take time to import

        tables = read_rosbag(entry, joints, counts, base, size)
    else:
        tables = _tables(entry, _READERS[kind](entry, counts, base, size))
    first, stop = entry.rows or (None, None)
    begin, end = entry.time_range or (None, None)
    for table in tables:
        keep = table.rows >= (first or 0)
        if stop is not None:
            keep &= table.rows < stop
        if begin is not None:
            keep &= table.time >= begin
        if end is not None:
            keep &= table.time <= end
        if keep.all():
            yield table
        elif keep.any():
            yield table.select(np.flatnonzero(keep))
        # nothing that follows is within the cuts
        if stop is not None and len(table) and table.rows[-1] >= stop - 1:
            return
        if end is not None and len(table) and table.time[-1] > end:
            return


def checked(tables: Iterable[Table], entry: RecordingEntry) -> Iterator[Table]:
    """
    Iterate over the blocks of an entry, every number finite and every stamp behind the last one.

    Raises RecordingError naming the sample, and if there is none.
    """
    last: float | None = None
    for table in tables:
        table.check_finite(entry.name)
        table.check_order(entry.name, last)
        last = float(table.time[-1])
        yield table
    if last is None:
        raise no_samples(entry)


def no_samples(entry: RecordingEntry) -> RecordingError:
    """Return the error for a recording that has no rows, or none within its cuts."""
    cut = entry.rows is not None or entry.time_range is not None
    remedy = 'widen rows and time_range' if cut else 'record it again'
    return recording_error(entry.name, 'there are no samples', remedy)


def _tables(entry: RecordingEntry, blocks: Iterator[Block]) -> Iterator[Table]:
    """Count the rows of blocks, and give them stamps in seconds."""
    row = 0
    for signals, labels in blocks:
        n_rows = len(signals['position'])
        rows = np.arange(row, row + n_rows)
        given = signals.get('time')
        yield Table(
            rows=rows,
            time=entry.stamps(rows) if given is None else entry.seconds(given),
            position=signals['position'],
            velocity=signals.get('velocity'),
            effort=signals.get('effort', np.empty((n_rows, 0))),
            labels={'time': ('time',), **labels},
        )
        row += n_rows


# --------------------------------------------------------------------------- npz


def _read_npz(entry: RecordingEntry, counts: Counts, base: Path, size: int) -> Iterator[Block]:
    """
    Read arrays of npz files.

    A signal is one array ``(n_samples, n_columns)``, or several arrays ``(n_samples,)``.  Arrays
    cannot be read in parts, so they stay in memory.
    """
    files = entry.files(base)
    signals: dict[str, np.ndarray] = {}
    labels: dict[str, tuple[str, ...]] = {}
    for name, signal in entry.wanted(counts).items():
        if name == 'time':
            times = [_array(files[name], key) for key in columns_of(signal) or ()]
            for time in times:
                if time.ndim != 1 or time.shape != times[0].shape:
                    raise _wrong_shape(files[name], str(signal), time.shape, '(n_samples,)')
            signals[name] = np.stack(times, axis=1)
        else:
            signals[name], labels[name] = _signal(files[name], signal, name, counts[name])
    n_samples = len(signals['position'])
    for name, array in signals.items():
        if len(array) != n_samples:
            raise _wrong_shape(files[name], name, array.shape, f'{n_samples} rows as the position')
    for start in range(0, n_samples, size):
        part = slice(start, start + size)
        yield {name: array[part] for name, array in signals.items()}, labels


@contextmanager
def _opened_archive(file: Path) -> Iterator[ArrayArchive | TensorArchive]:
    """Open an archive, and name it in errors."""
    remedy = 'write it with numpy.savez, numbers only'
    tensors = file.suffix == TENSORS
    if tensors:
        remedy = 'save a mapping of names to tensors with torch.save, or ' + remedy
    with (
        damage_named(
            file, f'cannot be read as {"tensors" if tensors else "npz"}', remedy, DAMAGED
        ),
        open_regular(file) as stream,
    ):
        yield TensorArchive(stream) if tensors else ArrayArchive(stream)


def read_arrays(file: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return arrays of numbers of a file by name; raises `RecordingError` naming it."""
    return {name: _array(file, name) for name in names}


def array_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a file by name; raises `RecordingError` naming it."""
    with _opened_archive(file) as archive:
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
        array, labels = np.stack(arrays, axis=1), tuple(map(str, keys))
    if array.shape[1] != count:
        raise _wrong_shape(file, str(keys[0]), array.shape, f'{count} columns')
    return array, labels


def _array(file: Path, key: Any) -> np.ndarray:
    with _opened_archive(file) as archive:
        if key not in archive.arrays:
            remedy = f'its arrays are {one_of(archive.arrays)}'
            raise recording_error(file, f"there is no array '{key}'", remedy, value=key)
        array = archive.array(str(key))
        if array.dtype.kind == 'U':
            raise ValueError(f"'{key}' is text")
    return np.asarray(array, dtype=float)


def _wrong_shape(file: Path, name: str, shape: tuple[int, ...], expected: str) -> RecordingError:
    text = f"'{name}' has shape {shape}, expected {expected}"
    remedy = 'give one column a joint and one row a sample in every signal'
    return recording_error(file, text, remedy, value=shape)


# --------------------------------------------------------------------------- Parquet


def _read_parquet(entry: RecordingEntry, counts: Counts, base: Path, size: int) -> Iterator[Block]:
    files = entry.files(base)
    if len(set(files.values())) > 1:
        text = 'signals in several files are not read from Parquet'
        remedy = 'write all signals into one file'
        raise recording_error(entry.name, text, remedy)
    file = files['position']
    with _opened(file) as parquet:
        known = _fields(parquet)
        names = {
            name: _expanded(file, known, columns_of(signal) or ())
            for name, signal in entry.wanted(counts).items()
        }
        for name, columns in names.items():
            if len(columns) != entry.count_of(name, counts):
                raise recording_error(
                    file,
                    f'{name} has {len(columns)} columns, expected {entry.count_of(name, counts)}',
                    remedy='name one column a joint',
                    value=columns,
                )
        needed = {column for columns in names.values() for column in columns}
        fields = {field: every for field, every in known.items() if needed.intersection(every)}
        for block in _blocks(file, parquet, fields, size):
            yield (
                {
                    name: np.stack([block[column] for column in columns], axis=1)
                    for name, columns in names.items()
                },
                names,
            )


def read_parquet_head(file: Path, rows: int) -> dict[str, np.ndarray]:
    """Return the first rows of all columns of numbers; raises as `read_tables`."""
    with _opened(file) as parquet:
        return next(_blocks(file, parquet, _fields(parquet), rows), {})


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Open a file whose sizes are within limits; name it in errors of the library."""
    with importing('pyarrow'):
        import pyarrow
        from pyarrow import parquet
    errors, remedy = (
        (OSError, ValueError, pyarrow.ArrowException),
        'check it, or convert it to CSV',
    )
    with damage_named(file, 'cannot be read as Parquet', remedy, errors):
        require_regular(file)
        with parquet.ParquetFile(file, memory_map=False) as opened:
            metadata = opened.metadata
            if metadata.num_columns > MAX_COLUMNS:
                raise ValueError(f'it has {metadata.num_columns} columns')
            if metadata.num_rows > FREE_ROWS + MAX_ROW_RATIO * file.stat().st_size:
                raise ValueError(f'it declares {metadata.num_rows} rows, more than its bytes hold')
            for k in range(metadata.num_row_groups):
                group = metadata.row_group(k)
                for column in map(group.column, range(metadata.num_columns)):
                    # equal values are stored once, whatever their number
                    size = max(column.total_uncompressed_size, 8 * column.num_values)
                    if size > MAX_CHUNK:
                        raise ValueError(f'a column has more than {MAX_CHUNK >> 20} MB in a group')
            yield opened


def _fields(parquet: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns of numbers by field: a field of lists has several."""
    from pyarrow import types

    found: dict[str, tuple[str, ...]] = {}
    first: Any = None
    for field in parquet.schema_arrow:
        kind = field.type
        if _is_number(kind) or types.is_timestamp(kind):
            found[field.name] = (field.name,)
            continue
        if types.is_fixed_size_list(kind) and _is_number(kind.value_type):
            length = kind.list_size
        elif types.is_list(kind) and _is_number(kind.value_type):
            if first is None:
                first = next(parquet.iter_batches(batch_size=1), None)
            cell = None if first is None else first.column(field.name)[0].as_py()
            length = 0 if cell is None else len(cell)
        else:
            continue
        if 0 < length <= MAX_LENGTH:
            found[field.name] = tuple(f'{field.name}[{k}]' for k in range(length))
    return found


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _expanded(
    file: Path, known: Mapping[str, tuple[str, ...]], columns: tuple[Column, ...]
) -> tuple[str, ...]:
    """Return the names of columns, with a field of lists as its elements."""
    elements = [name for names in known.values() for name in names]
    names: list[str] = []
    for column in columns:
        if column not in elements and column not in known:
            text = f"there is no column '{column}' of numbers"
            remedy = f'its columns are {one_of(elements)}'
            raise recording_error(file, text, remedy, value=column)
        names += [str(column)] if column in elements else known[str(column)]
    return tuple(names)


def _blocks(
    file: Path, parquet: Any, fields: Mapping[str, tuple[str, ...]], size: int
) -> Iterator[dict[str, np.ndarray]]:
    """Iterate over blocks of rows by name of column; NaN for what is missing."""
    from pyarrow import types

    for batch in parquet.iter_batches(batch_size=size, columns=list(fields)):
        block: dict[str, np.ndarray] = {}
        for field, names in fields.items():
            column = batch.column(field)
            scale = 1.0
            if names != (field,):
                lengths = np.asarray(column.value_lengths().fill_null(0))
                if (lengths != len(names)).any():
                    text = f"the lists of '{field}' differ in their lengths"
                    remedy = 'write lists of one length'
                    raise recording_error(file, text, remedy, value=field)
                column = column.flatten()
            elif types.is_timestamp(column.type):
                column, scale = column.cast('timestamp[ns]').cast('int64'), 1e-9
            numbers = np.asarray(column.to_numpy(zero_copy_only=False), dtype=float) * scale
            block.update(zip(names, numbers.reshape(len(batch), len(names)).T, strict=True))
        yield block


_READERS: dict[str, Callable[[RecordingEntry, Counts, Path, int], Iterator[Block]]] = {
    'csv': read_csv,
    'npz': _read_npz,
    'parquet': _read_parquet,
}
