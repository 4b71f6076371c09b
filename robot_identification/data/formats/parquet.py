# SPDX-License-Identifier: Apache-2.0
"""
Recordings in Parquet files.

Columns are numbers, or lists of numbers of one length, whose elements are columns of their own:
``observation.state[0]``, as in LeRobot's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import importing, one_of
from ...untrusted.files import require_regular
from ..columns import Block, Column, Wanted
from ..recording import damage_named, recording_error
from .format import first_bytes, Format, Head

_MAGIC = b'PAR1'
_EPISODES = 'episode_index'

MAX_COLUMNS, MAX_LENGTH = 10_000, 1000
"""Columns of a Parquet file, and elements of a list."""

MAX_CHUNK = 1 << 30
"""Largest size of a column of Parquet within a group of rows, uncompressed [bytes]."""

MAX_ROW_RATIO = 10
"""Rows of a Parquet file for each of its bytes, beyond `FREE_ROWS`: efforts have noise."""

FREE_ROWS = 1_000_000
"""Rows that a small file may have."""


def _read(wanted: Wanted, size: int) -> Iterator[Block]:
    if len(set(wanted.files.values())) > 1:
        text = 'signals in several files are not read from Parquet'
        remedy = 'write all signals into one file'
        raise recording_error(wanted.source, text, remedy)
    file = wanted.files['position']
    with _opened(file) as parquet:
        known = _fields(parquet)
        names = {
            name: _expanded(file, known, columns or ()) for name, columns in wanted.columns.items()
        }
        for name, columns in names.items():
            if len(columns) != wanted.counts[name]:
                raise recording_error(
                    file,
                    f'{name} has {len(columns)} columns, expected {wanted.counts[name]}',
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


def _head(file: Path, rows: int) -> Head:
    with _opened(file) as parquet:
        first = next(_blocks(file, parquet, _fields(parquet), rows), {})
    return Head(
        dict.fromkeys(first),
        # LeRobot's positions
        tuple(name.replace('observation.state', 'position') for name in first),
        lists=True,
        several=len(np.unique(first.get(_EPISODES, ()))) > 1,
    )


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


FORMAT = Format(
    'parquet',
    'a Parquet file',
    ('.parquet',),
    lambda path: first_bytes(path, len(_MAGIC)) == _MAGIC,
    {_MAGIC: ('a Parquet file', 'rename it to {stem}.parquet')},
    common=('.parquet',),  # the folders of LeRobot have others
    wide=True,
    episodes=True,
    blocks=_read,
    head=_head,
)
