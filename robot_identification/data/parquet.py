# SPDX-License-Identifier: Apache-2.0
"""
Recordings in Parquet files, those of LeRobot among them.

Columns are numbers, or lists of numbers of one length, whose elements are columns of their own:
``observation.state[0]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import re
from typing import Any

import numpy as np

from ..errors import missing_extra, one_of, RecordingError
from ..untrusted.files import require_regular
from .recording_config import Column, RecordingEntry
from .table import columns_of, Counts, Table

MAX_COLUMNS, MAX_LENGTH = 10_000, 1000
"""Columns of a file, and elements of a list."""

MAX_CHUNK = 1 << 30
"""Largest size of a column within a group of rows, uncompressed [bytes]."""

_ELEMENT = re.compile(r'(.+)\[(\d+)\]')


def read_parquet(
    entry: RecordingEntry, joints: tuple[str, ...], counts: Counts, base: Path, size: int
) -> Iterator[Table]:
    """
    Read a recording from a Parquet file; parameters as for `readers.read_tables`.

    Raises
    ------
    RecordingError
        naming the file and the column that is missing or holds no numbers.
    IdentificationError
        if pyarrow is not installed.

    """
    files = entry.files(base)
    if len(set(files.values())) > 1:
        raise RecordingError(
            f'{entry.name}: signals in several files are not read from Parquet',
            file=entry.name,
            remedy='write all signals into one file',
        )
    file = files['position']
    wanted: dict[str, tuple[Column, ...]] = {}
    for name, count in counts.items():
        signal = getattr(entry, name)
        if signal is not None and count:
            wanted[name] = columns_of(signal) or ()
    if entry.time is not None:
        wanted['time'] = (entry.time,)
    row = 0
    with _opened(file) as parquet:
        names = {name: _expanded(file, parquet, columns) for name, columns in wanted.items()}
        for name, columns in names.items():
            if len(columns) != counts.get(name, 1):
                raise RecordingError(
                    f'{file}: {name} has {len(columns)} columns, expected {counts[name]}',
                    file=str(file),
                    value=columns,
                    remedy='name one column a joint',
                )
        for block in _blocks(file, parquet, sorted({n for c in names.values() for n in c}), size):
            arrays = {
                name: np.stack([block[column] for column in columns], axis=1)
                for name, columns in names.items()
            }
            rows = np.arange(row, row + len(arrays['position']))
            time = arrays['time'][:, 0] if 'time' in arrays else entry.stamps(rows)
            yield Table(
                rows=rows,
                time=time,
                position=arrays['position'],
                velocity=arrays.get('velocity'),
                effort=arrays.get('effort', np.empty((len(rows), 0))),
                labels={'time': ('time',), **names},
            )
            row += len(rows)


def read_parquet_head(file: Path, rows: int) -> dict[str, np.ndarray]:
    """Return the first rows of all columns of numbers; raises as `read_parquet`."""
    with _opened(file) as parquet:
        names = [name for columns in _columns(file, parquet).values() for name in columns]
        return next(_blocks(file, parquet, names, rows), {})


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Open a file whose sizes are within limits; name it in errors of the library."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise missing_extra('pyarrow', 'parquet') from error
    try:
        require_regular(file)
        with parquet.ParquetFile(file, memory_map=False) as opened:
            metadata = opened.metadata
            if metadata.num_columns > MAX_COLUMNS:
                raise ValueError(f'it has {metadata.num_columns} columns')
            for k in range(metadata.num_row_groups):
                group = metadata.row_group(k)
                for c in range(metadata.num_columns):
                    if group.column(c).total_uncompressed_size > MAX_CHUNK:
                        raise ValueError(f'a column has more than {MAX_CHUNK >> 20} MB in a group')
            yield opened
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        reason = getattr(error, 'strerror', None) or ' '.join(str(error).split())[:200]
        raise RecordingError(
            f'{file}: cannot be read as Parquet ({reason})',
            file=str(file),
            remedy='check the file, or convert it to CSV',
        ) from error


def _columns(file: Path, parquet: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns of numbers by field: a field of lists has several."""
    from pyarrow import types

    schema = parquet.schema_arrow
    found: dict[str, tuple[str, ...]] = {}
    first: Any = None
    for field in schema:
        kind = field.type
        if _is_number(kind) or types.is_timestamp(kind):
            found[field.name] = (field.name,)
        elif types.is_fixed_size_list(kind) and _is_number(kind.value_type):
            length = kind.list_size
        elif types.is_list(kind) and _is_number(kind.value_type):
            if first is None:
                first = next(parquet.iter_batches(batch_size=1), None)
            cell = None if first is None else first.column(field.name)[0].as_py()
            length = 0 if cell is None else len(cell)
        else:
            continue
        if field.name not in found and 0 < length <= MAX_LENGTH:
            found[field.name] = tuple(f'{field.name}[{k}]' for k in range(length))
    return found


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _expanded(file: Path, parquet: Any, columns: tuple[Column, ...]) -> tuple[str, ...]:
    """Return the names of columns, with a field of lists as its elements."""
    known = _columns(file, parquet)
    elements = {name for names in known.values() for name in names}
    names: list[str] = []
    for column in columns:
        if column in elements:
            names.append(str(column))
        elif column in known:
            names.extend(known[str(column)])
        else:
            raise RecordingError(
                f"{file}: there is no column '{column}' of numbers",
                file=str(file),
                value=column,
                remedy=f'its columns are {one_of(elements)}',
            )
    return tuple(names)


def _blocks(
    file: Path, parquet: Any, names: list[str], size: int
) -> Iterator[dict[str, np.ndarray]]:
    """Iterate over blocks of rows by name of column."""
    fields = {name: _field(name, parquet) for name in names}
    for batch in parquet.iter_batches(
        batch_size=size, columns=list(dict.fromkeys(field for field, _ in fields.values()))
    ):
        block: dict[str, np.ndarray] = {}
        for name, (field, place) in fields.items():
            column = batch.column(field)
            if place is None:
                block[name] = _numbers(column)
                continue
            lengths = np.diff(np.asarray(column.value_lengths().fill_null(0)), prepend=0)
            flat = _numbers(column.flatten())
            n = len(column)
            if n == 0 or len(flat) % n or lengths[1:].any():
                raise RecordingError(
                    f"{file}: the lists of '{field}' differ in their lengths",
                    file=str(file),
                    value=field,
                    remedy='write lists of one length',
                )
            block[name] = flat.reshape(n, -1)[:, place]
        yield block


def _field(name: str, parquet: Any) -> tuple[str, int | None]:
    """Return the field of a column, and its place in the lists."""
    if name in parquet.schema_arrow.names:
        return name, None
    found = _ELEMENT.fullmatch(name)
    assert found is not None  # `_columns` has made the name
    return found[1], int(found[2])


def _numbers(column: Any) -> np.ndarray:
    """Return numbers, NaN for what is missing, and stamps in seconds."""
    from pyarrow import types

    if types.is_timestamp(column.type):
        return 1e-9 * np.asarray(column.cast('timestamp[ns]').cast('int64'), dtype=float)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=float)
