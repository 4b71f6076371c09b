# SPDX-License-Identifier: Apache-2.0
"""Columns of signals in recording files, and of the motor side of elastic joints."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import option

FORMATS = ('csv', 'npz', 'rosbag2')
"""The kinds of files that can be read."""

FACTOR = 'factor'
"""The kind of files that `robot_identification.io.factors` writes, of rows folded already."""

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
"""Where a signal is: one column or array, several columns, or columns of another file."""


@dataclass(frozen=True)
class MotorSide:
    """
    Location of the motor side of a recording of a robot with elastic joints.

    It is in the recording's own file (or topic), or in another one with stamps of its own.
    """

    file: str | None = option(
        None,
        doc="File or rosbag2 folder with stamps of its own; null for the recording's own file",
    )
    format: str | None = option(
        None, doc='Kind of that file; null for what its name says', choices=FORMATS
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
