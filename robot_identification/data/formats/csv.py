# SPDX-License-Identifier: Apache-2.0
"""
Recordings in text files with one sample a line.

Columns are named by the header, or counted from 0 without one.  The delimiter is detected; empty
lines and lines that start with ``#`` do not count as rows.  Files may be compressed by gzip or xz.

Spreadsheets write ``sep=;`` before the header, and decimal commas where the delimiter is another
character.  Times of day and dates in the manner of ISO 8601 are read as seconds.  ``ros2 topic
echo --csv`` writes no header: stamp, frame, names and values of a joint state are the cells of a
line, and the columns are named after these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
import csv
from dataclasses import dataclass, replace
from functools import partial
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
import re

import numpy as np

from ...errors import one_of, RecordingError
from ...untrusted.compressed import COMPRESSED_TEXT, DAMAGED_TEXT, open_text_file
from ...untrusted.names import has_control, REMEDY
from ..column_names import named_by_cells
from ..columns import Block, Column, Wanted
from ..recording import damage_named, recording_error, SIGNALS
from .clock_times import clock_seconds, is_clock, without_midnights
from .format import first_bytes, Format, Head

MAX_LINE = 1 << 20
"""Largest length of a line [characters]."""

MAX_SKIPPED = 100_000
"""Empty lines and comments that a file may have beyond one a row."""

_COMPRESSION = 4.0
"""Usual ratio of the size of a table of numbers to its compressed size."""

_BEGINNING = 1 << 16  # bytes in which the first lines are
_NUMBER = r'[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?'
_NUMERIC = re.compile(rf'{_NUMBER}|nan|inf')
_COMMENT = '#'
_BEGINNINGS = frozenset('0123456789-.')  # of lines of numbers
_QUOTE = '"'
_DATE = re.compile(r'\d{4}-\d\d-\d\d|\d:\d\d|\d/\d+/\d')
_SEPARATOR = re.compile(r'sep=([;,|\t ])')
"""First line of spreadsheets' files, without quotes."""

_ECHO_REMEDY = 'record a bag in its place, which keeps publishers apart: ros2 bag record'


@dataclass(frozen=True)
class _Layout:
    """
    Layout of the lines of a file.

    ``delimiter`` None stands for white space, ``header`` for columns that are counted; ``before``
    are the lines before the first row.  ``names`` are the texts that each row repeats behind its
    first three cells, ``clocks`` the columns with times of day.
    """

    file: Path
    delimiter: str | None
    header: tuple[str, ...] | None = None
    width: int = 0
    before: int = 0
    names: tuple[str, ...] = ()
    clocks: tuple[int, ...] = ()

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

    def with_point(self, text: str) -> str:
        """Return a text with points in place of decimal commas."""
        return text if self.delimiter == ',' else text.replace(',', '.')

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


def _read(wanted: Wanted, size: int) -> Iterator[Block]:
    """Read blocks of up to ``size`` rows from text files in parallel."""
    files, signals = wanted.files, wanted.columns
    needed = dict.fromkeys(files[name] for name in signals)
    layouts = {file: _layout(file, wanted.delimiter) for file in needed}
    columns = {
        name: _columns(layouts[files[name]], given, wanted.counts[name], name)
        for name, given in signals.items()
    }
    labels = {
        name: tuple(map(layouts[files[name]].label, indices)) for name, indices in columns.items()
    }
    used = {
        file: sorted({i for name in signals if files[name] == file for i in columns[name]})
        for file in layouts
    }
    readers = [_blocks(layouts[file], used[file], size) for file in layouts]
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
            name: parts[files[name]][:, np.searchsorted(used[files[name]], columns[name])]
            for name in signals
        }
        yield arrays, labels


def _head(file: Path, rows: int) -> Head:
    layout = _layout(file, None)
    labels = tuple(range(layout.width)) if layout.header is None else layout.header
    wanted = [index for index, label in enumerate(labels) if label != '']
    try:
        head = next(_blocks(layout, wanted, rows), None)
    except RecordingError:
        head = None
    columns = tuple(labels[index] for index in wanted)
    spelled: tuple[str, ...] = ()
    if layout.header is not None:
        with _lines(file) as found:
            first = next(islice(filter(_is_data, found), layout.before, None), '')
        cells = [*layout.split(first), *[''] * layout.width]
        spelled = tuple(named_by_cells(list(map(str, columns)), [cells[i] for i in wanted]))
    return Head(dict.fromkeys(columns), spelled, rows=head, labels=columns)


def _estimated_rows(file: Path) -> float:
    """Estimate the number of rows of a text file from its size and its first lines."""
    with _named(file), open_text_file(file) as stream:
        lines = stream.read(1 << 16).splitlines(keepends=True)[1:]
        size = file.stat().st_size * (_COMPRESSION if file.suffix in COMPRESSED_TEXT else 1.0)
    length = sum(map(len, lines)) / len(lines) if lines else 0.0
    return size / length if length else 0.0


def _columns(
    layout: _Layout, columns: tuple[Column, ...] | None, count: int, name: str
) -> list[int]:
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
    before = 0
    with _lines(file) as found:
        for number, line in enumerate(found):
            _require_rows(file, number)
            if '\0' in line:
                remedy = 'save it as CSV in UTF-8, or give its real format with the key format'
                raise recording_error(file, 'is no text in UTF-8', remedy)
            if line.lstrip().startswith(_COMMENT) and not lines:
                comment = line.lstrip().lstrip(_COMMENT)
            elif not lines and (separator := _SEPARATOR.fullmatch(line.strip(' "\r\n'))):
                delimiter = delimiter or separator[1]
                before = 1
            elif line.strip():
                lines.append(line)
            if len(lines) == 2:
                break
    if not lines:
        raise recording_error(file, 'is empty', remedy='record it again')
    if lines[0].strip() == 'header:':
        text = 'is the output of `ros2 topic echo` for people'
        remedy = 'record a bag (ros2 bag record /joint_states), or write it with --csv'
        raise recording_error(file, text, remedy)
    delimiter = _delimiter(lines[-1]) if delimiter is None else delimiter
    layout = _Layout(file, None if delimiter.isspace() and delimiter != '\t' else delimiter)
    first = layout.split(lines[0])
    if (names := _echoed_names(first)) is not None:
        stamped = ('sec', 'nanosec', 'frame_id', *(f'name[{k}]' for k in range(len(names))))
        signals = (len(first) - len(stamped)) // len(names)
        values = tuple(f'{name}.{signal}' for signal in SIGNALS[:signals] for name in names)
        return _Layout(file, ',', (*stamped, *values), len(first), before, names)
    header, of_comment = _header(layout, first, comment)
    width = len(first)
    if header is not None and len(lines) == 2:
        second = layout.split(lines[1])
        if len(second) == width + 1 and not second[-1]:
            header, width = (*header, ''), width + 1  # every row ends in a delimiter
    before += header is not None and not of_comment
    if odd := next(filter(has_control, header or ()), None):
        text = f'the name {odd[:80]!a} of a column has control characters'
        raise recording_error(file, text, REMEDY, value=odd)
    last = map(layout.with_point, layout.split(lines[-1]))
    clocks = tuple(i for i, cell in enumerate(last) if is_clock(cell))
    return replace(layout, header=header, width=width, before=before, clocks=clocks)


def _header(
    layout: _Layout, first: list[str], comment: str | None
) -> tuple[tuple[str, ...] | None, bool]:
    """Return the names in the first line or in a comment, and if it was the comment."""
    numbers = [_is_number(layout.with_point(cell)) for cell in first]
    if _counts_columns(first):
        return tuple(first), False
    if not all(numbers):
        # a line that has no number at all can only be a header
        none = not any(number for cell, number in zip(first, numbers, strict=True) if cell)
        return (tuple(first) if none else None), False
    named = () if comment is None else tuple(layout.split(comment))
    return (named, True) if named and len(named) == len(first) else (None, False)


def _echoed_names(cells: list[str]) -> tuple[str, ...] | None:
    """Return the names in a row of `ros2 topic echo --csv` with a joint state; None for others."""
    if not all(cell.isdecimal() for cell in cells[:2]):
        return None
    numbers = [_is_number(cell) for cell in cells[3:]]
    count = numbers.index(True) if True in numbers else 0
    values = len(numbers) - count
    if not count or not all(numbers[count:]) or values not in (count, 2 * count, 3 * count):
        return None
    return tuple(cells[3 : 3 + count])


def _data_lines(file: Path, lines: Iterator[str]) -> Iterator[str]:
    """Iterate over the lines that are neither empty nor comments."""
    skipped = 0
    for line in lines:
        # the first character shows it for nearly all lines
        if line[0] in _BEGINNINGS or _is_data(line):
            skipped = max(skipped - 1, 0)
            yield line
        else:
            skipped += 1
            _require_rows(file, skipped)


def _require_rows(file: Path, skipped: int) -> None:
    """Raise RecordingError for too many lines that are no rows."""
    if skipped > MAX_SKIPPED:
        text = f'has more than {MAX_SKIPPED} lines that are empty or comments'
        raise recording_error(file, text, remedy='remove them, or record it again')


def _is_data(line: str) -> bool:
    """Return true for a line that is neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith(_COMMENT)


def _counts_columns(cells: list[str]) -> bool:
    """Return whether the line is a header of column numbers, as data frames write for arrays."""
    numbers = cells[1:] if cells[0] == '' else cells
    return len(numbers) > 2 and numbers == [str(i) for i in range(len(numbers))]


def _delimiter(line: str) -> str:
    found = next((candidate for candidate in '\t;,' if candidate in line), ' ')
    if found == ',' and not all(map(_is_number, line.split(','))):
        # decimal commas between blanks
        cells = line.replace(',', '.').split()
        return ' ' if len(cells) > 1 and all(map(_is_number, cells)) else found
    return found


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _blocks(layout: _Layout, columns: list[int], size: int) -> Iterator[np.ndarray]:
    """Iterate over the file in arrays of up to ``size`` rows and ``len(columns)`` columns."""
    clocks = [columns.index(column) for column in layout.clocks if column in columns]
    blocks = _parsed(layout, columns, size)
    return without_midnights(blocks, clocks) if clocks else blocks


def _parsed(layout: _Layout, columns: list[int], size: int) -> Iterator[np.ndarray]:
    with _lines(layout.file) as found:
        lines = islice(_data_lines(layout.file, found), layout.before, None)
        row = 0
        while block := list(islice(lines, size)):
            yield _parse(layout, columns, block, row)
            row += len(block)


def _parse(layout: _Layout, columns: list[int], block: list[str], row: int) -> np.ndarray:
    if layout.delimiter is None:
        widths = [len(line.split()) for line in block]
    else:
        widths = [line.count(layout.delimiter) + 1 for line in block]
    if layout.delimiter != ',' and any(',' in line for line in block):
        block = _with_points(layout, columns, block, row)
    if layout.names:
        _require_names(layout, block, row)
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
            encoding=None,
            converters={c: clock_seconds for c in layout.clocks if c in columns} or None,
            quotechar=_QUOTE if any(_QUOTE in line for line in block) else None,
        )
    except ValueError as error:
        raise _unreadable(layout, columns, block, row, error) from error


def _with_points(layout: _Layout, columns: list[int], block: list[str], row: int) -> list[str]:
    """Return rows with points in place of decimal commas; raise where there are both."""
    if any('.' in line for line in block):
        cells = [layout.split(line) for line in block]
        wanted = [[each[c] for c in columns if c < len(each)] for each in cells]
        pointed = any('.' in cell for each in wanted for cell in each)
        for at, each in enumerate(wanted if pointed else ()):
            for cell in each:
                if ',' in cell:
                    text = f"'{cell[:60]}' in row {row + at} has a comma, other cells have points"
                    remedy = 'write numbers with a decimal point, and none between thousands'
                    raise recording_error(layout.file, text, remedy, value=cell[:60])
    return [layout.with_point(line) for line in block]


def _require_names(layout: _Layout, block: list[str], row: int) -> None:
    """Require that the rows of `ros2 topic echo` have the same names in the same order."""
    for at, line in enumerate(block):
        cells = line.strip().split(',')
        if tuple(cells[3 : 3 + len(layout.names)]) != layout.names:
            text = f'row {row + at} has other joints than the first one: there are two publishers'
            raise recording_error(layout.file, text, _ECHO_REMEDY)
        if len(cells) != layout.width:
            text = f'row {row + at} has {len(cells)} cells, expected {layout.width}'
            raise recording_error(layout.file, text, _ECHO_REMEDY, value=len(cells))


def _unreadable(
    layout: _Layout, columns: list[int], block: list[str], row: int, cause: ValueError
) -> RecordingError:
    for at, line in enumerate(block):
        cells = layout.split(line)
        for column in columns:
            # quotes may have joined cells
            cell = cells[column][:60] if column < len(cells) else ''
            if not _is_number(cell) and not (column in layout.clocks and is_clock(cell)):
                dated = _DATE.search(cell) is not None
                return recording_error(
                    layout.file,
                    f"'{cell}' in row {row + at}, column '{layout.label(column)}' is not a number",
                    remedy='write stamps in seconds' if dated else 'repair or remove this line',
                    value=cell,
                )
    text = f'rows {row} to {row + len(block) - 1} cannot be read ({cause})'
    remedy = 'write plain numbers with one delimiter'
    return recording_error(layout.file, text, remedy)


def _is_table(path: Path) -> bool:
    """Return true if one of the first lines has several cells, all numbers."""
    lines = first_bytes(path, _BEGINNING).decode('utf-8-sig', errors='replace').splitlines()
    rows = [line for line in lines if line.strip() and not line.lstrip().startswith('#')]
    return any(
        len(cells := [cell for cell in re.split(r'[\s,;]+', row) if cell]) > 1
        and all(_NUMERIC.fullmatch(cell.strip('"')) or is_clock(cell) for cell in cells)
        for row in rows[:3]
    )


FORMAT = Format(
    'csv',
    'a table of numbers',
    ('.csv', '.tsv', '.txt', '.dat'),
    _is_table,
    common=('.txt', '.dat'),
    blocks=_read,
    head=_head,
    rows=_estimated_rows,
)
