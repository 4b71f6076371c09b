# SPDX-License-Identifier: Apache-2.0
"""Columns of signals in recording files, and blocks of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..errors import RecordingError
from ..options.fields import option

FORMATS = ('csv', 'npz', 'parquet', 'rosbag2')
"""Kinds of recording files."""

TIME_UNITS = {'s': 1.0, 'ms': 1e-3, 'us': 1e-6, 'ns': 1e-9}
"""Units of time stamps in tables [s]."""

FACTOR = 'factor'
"""Kind of files with a QR factor (`results.factor_file`)."""

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


@dataclass(frozen=True)
class MotorSide:
    """Location of the motors' side of a recording of a robot with elastic joints."""

    file: str | None = option(
        None,
        doc="File or rosbag2 folder with stamps of its own; null for the recording's own file",
    )
    format: str | None = option(
        None, doc='Kind of that file; null for the one by its name', choices=FORMATS
    )
    topic: str | None = option(
        None,
        doc="Topic with the motors' joint states (rosbag2); null for the recording's own topic",
    )
    time: Column | None = option(
        None, doc='Column or array with the time stamps of that file in seconds (csv, npz)'
    )
    rate: float | None = option(
        None, doc='Sampling rate where that file has no time column', unit='Hz', minimum=1e-3
    )
    position: Signal = option(
        None,
        doc="Columns, array or (rosbag2) names of the motors' positions, in the order of the "
        'joints; null in a bag for the names of robot.elastic.motors',
    )
    velocity: Signal = option(
        None, doc='Likewise for measured velocities; null where there are none'
    )
    effort: Signal = option(
        None,
        doc="Likewise for efforts; null where they are in the recording's own effort; in a bag "
        "that has none either, the motors' efforts",
    )


Counts = Mapping[str, int]
"""Number of columns by signal (``position``, ``velocity``, ``effort``)."""

LARGEST = 1e12
"""Largest absolute value of a sample; with larger ones, parameters overflow."""


@dataclass(frozen=True)
class Table:
    """
    Consecutive rows of a file.

    Attributes
    ----------
    rows:
        (n,) 0-based numbers of the rows (or messages) in the file; a header does not count.
    time:
        (n,) time stamps [s].
    position, velocity, effort:
        (n, k) signals as recorded; ``velocity`` may be None.
    labels:
        Column names of each signal, for messages.
    origin:
        Stamp that ``time`` is counted from [ns]; 0 where the file's own times are taken.

    """

    rows: np.ndarray
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray | None
    effort: np.ndarray
    labels: dict[str, tuple[str, ...]]
    origin: int = 0

    def __len__(self) -> int:
        return self.time.size

    def select(self, keep: np.ndarray) -> Table:
        """Return the rows with the indices ``keep``."""
        return replace(
            self,
            rows=self.rows[keep],
            time=self.time[keep],
            position=self.position[keep],
            velocity=None if self.velocity is None else self.velocity[keep],
            effort=self.effort[keep],
        )

    def check(self, source: str, previous: float | None) -> None:
        """
        Require finite values and increasing stamps.

        Parameters
        ----------
        source:
            Name of the file, for the message.
        previous:
            Time stamp of the row before the first one, or None [s].

        Raises
        ------
        RecordingError
            naming file, row and column.

        """
        self.check_finite(source)
        self.check_order(source, previous)

    def check_order(self, source: str, previous: float | None) -> None:
        """Require increasing stamps, as `check` does."""
        time = self.time if previous is None else np.concatenate(([previous], self.time))
        step = np.diff(time)
        if (step > 0.0).all():
            return
        place = int(np.flatnonzero(step <= 0.0)[0])
        row = place + 1 if previous is None else place
        kind = 'occurs twice' if step[place] == 0.0 else 'goes back in time'
        raise RecordingError(
            f'{source}: time stamp {self.time[row]:.9g} s in row {self.rows[row]} {kind}',
            file=source,
            value=float(self.time[row]),
            remedy='sort the rows by time and keep one row a stamp',
        )

    def check_finite(self, source: str) -> None:
        """Require finite values below `LARGEST`, as `check` does."""
        for name in ('time', 'position', 'velocity', 'effort'):
            array = getattr(self, name)
            # comparisons with NaN are false
            if (
                array is None
                or not array.size
                or -LARGEST <= array.min() <= array.max() <= LARGEST
            ):
                continue
            bad = ~(np.abs(array.reshape(len(array), -1)) <= LARGEST)
            row, column = np.argwhere(bad)[0]
            value = float(array.reshape(len(array), -1)[row, column])
            label = self.labels[name][column]
            remedy = 'repair or cut these rows (rows, time_range)'
            if name == 'effort' and bad[:, column].all():
                remedy = 'the driver does not report it: record a robot state that has efforts'
            when = f', at {self.time[row]:.9g} s' if np.isfinite(self.time[row]) else ''
            raise RecordingError(
                f"{source}: {name} '{label}' is {value} in row {self.rows[row]}{when}",
                file=source,
                joint=None if name == 'time' else label,
                value=value,
                remedy=remedy,
            )
