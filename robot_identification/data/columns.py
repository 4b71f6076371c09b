# SPDX-License-Identifier: Apache-2.0
"""Columns of signals in files, and what is wanted of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..options.fields import option

TIME_UNITS = {'s': 1.0, 'ms': 1e-3, 'us': 1e-6, 'ns': 1e-9}
"""Units of time stamps in tables [s]."""

Column = int | str
"""A column by its 0-based index, or by its name in the file's header."""


@dataclass(frozen=True)
class SignalColumns:
    """A signal in a file of its own."""

    file: str | None = option(
        None, doc="File that holds the signal; null for the recording's own file"
    )
    columns: tuple[Column, ...] | None = option(
        None, doc='Columns by name or 0-based index, in the order of the joints; null for all'
    )


Signal = str | tuple[Column, ...] | SignalColumns | None
"""One column or array, several columns, or columns of another file."""


def columns_of(signal: Signal | Column) -> tuple[Column, ...] | None:
    """Return the columns of a signal, None for those that the file implies."""
    columns = signal.columns if isinstance(signal, SignalColumns) else signal
    return (columns,) if isinstance(columns, (str, int)) else columns


Counts = Mapping[str, int]
"""Number of columns by signal (``position``, ``velocity``, ``effort``)."""

Block = tuple[dict[str, np.ndarray], dict[str, tuple[str, ...]]]
"""Consecutive rows of a table: (n, k) numbers and the k names of their columns, by signal."""


@dataclass(frozen=True)
class Wanted:
    """
    Signals and columns that are to be read of a recording.

    Attributes
    ----------
    source:
        Name of the recording in messages.
    joints:
        Names of the joints.
    files:
        File of each signal and of the time.
    columns:
        Columns of the signals that are named and wanted, and those of the time; None for those
        that the file implies.
    counts:
        Number of columns by signal and of the time, 0 for a signal that is not wanted.
    topic:
        Of the joint states, in formats with topics.
    delimiter:
        Character between the cells of texts; None to find it out.

    """

    source: str
    joints: tuple[str, ...]
    files: Mapping[str, Path]
    columns: Mapping[str, tuple[Column, ...] | None]
    counts: Counts
    topic: str = ''
    delimiter: str | None = None
