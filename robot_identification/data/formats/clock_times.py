# SPDX-License-Identifier: Apache-2.0
"""Times of day and dates in the manner of ISO 8601, as spreadsheets and loggers write stamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
import re

import numpy as np

_CLOCK = re.compile(
    r'(?:(\d{4}-\d\d-\d\d)[T ])?([01]?\d|2[0-3]):([0-5]\d):([0-5]\d(?:\.\d*)?)'
    r'(?: ?(?:Z|UTC|[-+]\d\d:?\d\d))?'
)
_DAY = 86400.0
_EPOCH = date(1970, 1, 1)


def is_clock(cell: str) -> bool:
    """Return whether a cell is a time of day, with or without a date."""
    return _CLOCK.fullmatch(cell.strip('"')) is not None


def clock_seconds(cell: str) -> float:
    """
    Return the time of a cell [s], of that day or since 1970; the time zone is passed over.

    Raises ValueError for other cells.
    """
    found = _CLOCK.fullmatch(cell.strip().strip('"'))
    if found is None:
        raise ValueError(f'{cell[:60]!r} is no time of day')
    days = 0 if found[1] is None else (date.fromisoformat(found[1]) - _EPOCH).days
    return _DAY * days + 3600.0 * int(found[2]) + 60.0 * int(found[3]) + float(found[4])


def without_midnights(
    blocks: Iterable[np.ndarray], columns: Sequence[int]
) -> Iterator[np.ndarray]:
    """Iterate over consecutive rows with the days added that passed in columns of times of day."""
    last = None
    for block in blocks:
        if last is None:
            columns = [column for column in columns if block[0, column] < _DAY]
            last = block[:1, columns]
        time = np.concatenate([last, block[:, columns]])
        block[:, columns] = np.unwrap(time, period=_DAY, axis=0)[1:]
        last = block[-1:, columns]
        yield block
