# SPDX-License-Identifier: Apache-2.0
"""Names of joints, links and columns from users' files: checked where they are read."""

from __future__ import annotations

from collections.abc import Iterable
import csv
from io import StringIO
import re
import unicodedata

_CONTROL = frozenset(('Cc', 'Cf', 'Cs', 'Zl', 'Zp'))
_FORMULA = re.compile(r'[=+@\t\r-]')

REMEDY = 'rename it: names are text on one line, without control characters'
"""What to do about a name that `has_control` is true of."""


def has_control(name: str) -> bool:
    """Return whether a name has line breaks or other control characters, which break output."""
    if name.isprintable():  # most names
        return False
    return any(unicodedata.category(character) in _CONTROL for character in name)


def csv_cell(value: object) -> object:
    """Return a cell that spreadsheets do not compute: a text like a formula is quoted by ``'``."""
    if isinstance(value, str) and _FORMULA.match(value):
        try:
            float(value)
        except ValueError:
            return f"'{value}"
    return value


def csv_line(cells: Iterable[object]) -> str:
    """Return a line of CSV with cells as `csv_cell` makes them."""
    text = StringIO()
    csv.writer(text, lineterminator='\n').writerow(map(csv_cell, cells))
    return text.getvalue()
