# SPDX-License-Identifier: Apache-2.0
"""
Recordings in text files with one sample a line.

Columns are named by the header, or counted from 0 without one.  The delimiter is detected; empty
lines and lines that start with ``#`` do not count as rows.  Files may be compressed by gzip or xz.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
import csv
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path

import numpy as np

from ..errors import one_of, RecordingError
from ..untrusted.compressed import COMPRESSED_TEXT, DAMAGED_TEXT, open_text_file
from .recording import damage_named, recording_error
from .recording_config import Block, Column, columns_of, Counts, RecordingEntry, Signal

MAX_LINE = 1 << 20
"""Largest length of a line [characters]."""

_COMPRESSION = 4.0
"""Usual ratio of the size of a table of numbers to its compressed size."""

_COMMENT = '#'
_BEGINNINGS = frozenset('0123456789-.')  # of lines of numbers
_QUOTE = '"'


@dataclass(frozen=True)
class _Layout:
    """Layout of the lines of a file; ``delimiter`` None stands for white space."""

    file: Path
    delimiter: str | None
    header: tuple[str, ...] | None
    width: int

    def split(self, line: str) -> list[str]:
        if self.delimiter is not None and _QUOTE in line:
            rows = csv.reader([line.strip()], delimiter=self.delimiter, skipinitialspace=True)
            try:
                cells = next(rows)
            except csv.Error as error:
                text = f'a line cannot be parted into cells ({error})'
                remedy = 'write plain numbers without quotes'
                raise recording_error(self.file, text, remedy) from error
        else:
            cells = line.strip().split(self.delimiter)
        return [cell.strip().strip(_QUOTE) for cell in cells]

    def label(self, index: int) -> str:
        return str(index) if self.header is None else self.header[index]

    def index(self, column: Column) -> int:
        """Return the index of a column; raises `RecordingError` that lists the columns."""
        if isinstance(column, str):
            if self.header is not None and self.header.count(column) > 1:
                text = f"its header has several columns '{column}'"
                remedy = 'name the column by its 0-based index'
                raise recording_error(self.file, text, remedy, value=column)
            if self.header is not None and column in self.header:
                return self.header.index(column)
        elif 0 <= column < self.width:
            return column
        known = (
            f'it has no header; columns are 0 to {self.width - 1}'
            if self.header is None
            else f'its columns are {one_of(self.header, 20)}'
        )
        raise recording_error(
            self.file, f"there is no column '{column}'", remedy=known, value=column
        )


def read_csv(entry: RecordingEntry, counts: Counts, base: Path, size: int) -> Iterator[Block]:
    """
    Read blocks of up to ``size`` rows from text files in parallel.

    Raises
    ------
    RecordingError
        naming the file and the column, row or cell that cannot be read.

    """
    files, signals = entry.files(base), entry.wanted(counts)
    layouts = {files[name]: _layout(files[name], entry.delimiter) for name in signals}
    columns = {
        name: _columns(layouts[files[name]], signal, counts.get(name, 1), name)
        for name, signal in signals.items()
    }
    labels = {
        name: tuple(map(layouts[files[name]].label, indices)) for name, indices in columns.items()
    }
    wanted = {
        file: sorted({i for name in signals if files[name] == file for i in columns[name]})
        for file in layouts
    }
    readers = [_blocks(layouts[file], wanted[file], size) for file in layouts]
    nothing = np.empty((0, 0))
    while True:
        parts = {
            file: next(reader, nothing) for file, reader in zip(layouts, readers, strict=True)
        }
        short = min(parts, key=lambda file: len(parts[file]))
        long = max(parts, key=lambda file: len(parts[file]))
        if len(parts[short]) != len(parts[long]):
            raise recording_error(
                short, f'has fewer rows than {long}', remedy='give files of the same recording'
            )
        if not len(parts[short]):
            return
        arrays = {
            name: parts[files[name]][:, np.searchsorted(wanted[files[name]], columns[name])]
            for name in signals
        }
        yield arrays, labels


def read_head(file: Path, rows: int) -> tuple[tuple[Column, ...], np.ndarray | None]:
    """
    Return the names (or indices) of all columns, and the first rows, None if any is no number.

    Raises
    ------
    RecordingError
        as `read_csv`.

    """
    layout = _layout(file, None)
    labels = tuple(range(layout.width)) if layout.header is None else layout.header
    wanted = [index for index, label in enumerate(labels) if label != '']
    try:
        head = next(_blocks(layout, wanted, rows), None)
    except RecordingError:
        head = None
    return tuple(labels[index] for index in wanted), head


def estimated_rows(file: Path) -> float:
    """Estimate the number of rows of a text file from its size and its first lines."""
    with _named(file), open_text_file(file) as stream:
        lines = stream.read(1 << 16).splitlines(keepends=True)[1:]
        size = file.stat().st_size * (_COMPRESSION if file.suffix in COMPRESSED_TEXT else 1.0)
    length = sum(map(len, lines)) / len(lines) if lines else 0.0
    return size / length if length else 0.0


def _columns(layout: _Layout, signal: Signal | Column, count: int, name: str) -> list[int]:
    columns = columns_of(signal)
    if columns is None:
        columns = tuple(range(layout.width))
    if len(columns) != count:
        text = f'{name} has {len(columns)} columns, expected {count}'
        remedy = f"name the columns with 'columns' of {name}"
        raise recording_error(layout.file, text, remedy, value=columns)
    return [layout.index(column) for column in columns]


@contextmanager
def _lines(file: Path) -> Iterator[Iterator[str]]:
    """Open a file and iterate over its lines; one longer than `MAX_LINE` is an error."""
    with (
        _named(file),
        TextIOWrapper(open_text_file(file), 'utf-8-sig', 'replace') as stream,
    ):
        yield map(partial(_checked, file), iter(partial(stream.readline, MAX_LINE), ''))


def _named(file: Path) -> AbstractContextManager[None]:
    remedy = 'check path and permissions, or compress it again'
    return damage_named(file, 'cannot be read', remedy, DAMAGED_TEXT)


def _checked(file: Path, line: str) -> str:
    if len(line) == MAX_LINE:
        text = f'has a line of more than {MAX_LINE} characters'
        remedy = 'write one sample a line'
        raise recording_error(file, text, remedy)
    return line


def _layout(file: Path, delimiter: str | None) -> _Layout:
    """Find delimiter and header in the first lines."""
    comment: str | None = None
    lines: list[str] = []
    with _lines(file) as found:
        for line in found:
            if '\0' in line:
                remedy = 'save it as CSV in UTF-8, or give its real format with the key format'
                raise recording_error(file, 'is no text in UTF-8', remedy)
            if line.lstrip().startswith(_COMMENT) and not lines:
                comment = line.lstrip().lstrip(_COMMENT)
            elif line.strip():
                lines.append(line)
            if len(lines) == 2:
                break
    if not lines:
        raise recording_error(file, 'is empty', remedy='record it again')
    delimiter = _delimiter(lines[-1]) if delimiter is None else delimiter
    layout = _Layout(
        file, None if delimiter.isspace() and delimiter != '\t' else delimiter, None, 0
    )
    first = layout.split(lines[0])
    header: tuple[str, ...] | None
    if _counts_columns(first):
        header = tuple(first)
    elif not all(_is_number(cell) for cell in first):
        # a line that has no number at all can only be a header
        header = tuple(first) if not any(_is_number(cell) for cell in first if cell) else None
    else:
        header = None if comment is None else tuple(layout.split(comment))
        header = header if header is not None and len(header) == len(first) else None
    width = len(first)
    if header is not None and len(lines) == 2:
        second = layout.split(lines[1])
        if len(second) == width + 1 and not second[-1]:
            header, width = (*header, ''), width + 1  # every row ends in a delimiter
    return _Layout(file, layout.delimiter, header, width)


def _is_data(line: str) -> bool:
    """Return true for a line that is neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith(_COMMENT)


def _counts_columns(cells: list[str]) -> bool:
    """Return whether the line is a header of column numbers, as data frames write for arrays."""
    numbers = cells[1:] if cells[0] == '' else cells
    return len(numbers) > 2 and numbers == [str(i) for i in range(len(numbers))]


def _delimiter(line: str) -> str:
    return next((candidate for candidate in '\t;,' if candidate in line), ' ')


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _blocks(layout: _Layout, columns: list[int], size: int) -> Iterator[np.ndarray]:
    """Iterate over the file in arrays of up to ``size`` rows and ``len(columns)`` columns."""
    with _lines(layout.file) as found:
        # the first character tells it of nearly all lines
        lines: Iterator[str] = (line for line in found if line[0] in _BEGINNINGS or _is_data(line))
        if layout.header is not None:
            first = next(lines)
            cells = layout.split(first)
            if all(_is_number(cell) for cell in cells) and not _counts_columns(cells):
                lines = chain((first,), lines)  # the header was a comment
        row = 0
        while block := list(islice(lines, size)):
            yield _parse(layout, columns, block, row)
            row += len(block)


def _parse(layout: _Layout, columns: list[int], block: list[str], row: int) -> np.ndarray:
    if layout.delimiter is None:
        widths = [len(line.split()) for line in block]
    else:
        widths = [line.count(layout.delimiter) + 1 for line in block]
    if widths.count(layout.width) != len(widths):
        at = next(i for i, width in enumerate(widths) if width != layout.width)
        many = widths[at] > layout.width
        text = f'row {row + at} has {widths[at]} columns, expected {layout.width}'
        remedy = (
            'write numbers with a decimal point, and a name for every column'
            if many and row + at == 0
            else 'repair this line'
            if many
            else 'repair this line; it may be cut off'
        )
        raise recording_error(layout.file, text, remedy, value=widths[at])
    try:
        return np.loadtxt(
            block,
            delimiter=layout.delimiter,
            usecols=columns,
            ndmin=2,
            comments=None,
            quotechar=_QUOTE if any(_QUOTE in line for line in block) else None,
        )
    except ValueError as error:
        raise _unreadable(layout, columns, block, row, error) from error


def _unreadable(
    layout: _Layout, columns: list[int], block: list[str], row: int, cause: ValueError
) -> RecordingError:
    for at, line in enumerate(block):
        cells = layout.split(line)
        for column in columns:
            # quotes may have joined cells
            cell = cells[column][:60] if column < len(cells) else ''
            if not _is_number(cell):
                comma = ',' in cell and layout.delimiter != ','
                return recording_error(
                    layout.file,
                    f"'{cell}' in row {row + at}, column '{layout.label(column)}' is not a number",
                    remedy=(
                        'write numbers with a decimal point'
                        if comma
                        else 'repair or remove this line'
                    ),
                    value=cell,
                )
    text = f'rows {row} to {row + len(block) - 1} cannot be read ({cause})'
    remedy = 'write plain numbers with one delimiter'
    return recording_error(layout.file, text, remedy)
