# SPDX-License-Identifier: Apache-2.0
"""
Recordings of robots with elastic joints: the links' side and the motors' side, brought together.

The motors' positions may be in the same rows as the links', or in another file or topic with
stamps of its own.  Then they are interpolated at the links' stamps, and rows at whose time they
are not known are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
import warnings

import numpy as np

from ..errors import (
    IdentificationWarning,
    RecordingError,
    SettingsError,
)
from ..model.mechanisms import ElasticJoints
from .drives import Drives
from .readers import no_samples, read_tables
from .recording import Recording
from .recording_config import RecordingEntry
from .sampling import (
    GAP,
    interpolated,
    ON_GRID,
    rate_of,
)
from .table import (
    Counts,
    MotorSide,
    Table,
)

_ENOUGH = 1000
"""Stamps to find a rate."""

_REACH = 3
"""Samples beyond a time that its interpolation may look at."""


@dataclass(frozen=True)
class Side:
    """
    One side of a recording, as an entry of its own.

    Attributes
    ----------
    entry:
        Where it is.
    joints:
        Names of its columns.
    counts:
        How many columns each signal has; no effort where it is on the other side.
    path:
        Key path for messages.

    """

    entry: RecordingEntry
    joints: tuple[str, ...]
    counts: Counts
    path: str

    def tables(self, base: Path, size: int) -> Iterator[Table]:
        """Read it; stamps are checked to increase, values are not."""
        last: float | None = None
        for table in read_tables(self.entry, self.joints, self.counts, base, size):
            table.check_order(self.entry.name, last)
            last = float(table.time[-1])
            yield table


def check_sides(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    drives: Drives,
    elastic: ElasticJoints,
    base: Path = Path('.'),
    path: str = '',
) -> None:
    """
    Raise where an entry does not have both sides of a robot with elastic joints.

    The parameters and errors are those of `RecordingEntry.check`.
    """
    for side in sides_of(entry, joints, drives, elastic, base, path):
        side.entry.check_columns(side.joints, side.counts, base, side.path)


def sides_of(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    drives: Drives,
    elastic: ElasticJoints,
    base: Path = Path('.'),
    path: str = '',
) -> tuple[Side, Side]:
    """
    Part the recording of a robot with elastic joints into the links' and the motors' side.

    The effort is on one of them only: the motors'.

    Raises
    ------
    SettingsError
        where both sides give an effort.

    """
    motor, recorded = entry.motor or MotorSide(), drives.recorded(len(joints))
    motors = elastic.motor_names(joints)
    in_bag = entry.kind(base, path) == 'rosbag2'
    key = f'{path}.motor' if path else 'motor'
    if entry.effort is not None and motor.effort is not None:
        raise SettingsError(
            f"'{key}.effort' is given, and the recording's own effort, too",
            key=f'{key}.effort',
            remedy="give the motors' effort once",
        )
    of_motors = motor.effort is not None or (in_bag and entry.effort is None)
    own_file = motor.file is not None
    own_time = own_file or motor.time is not None or motor.rate is not None
    of_side = replace(
        entry,
        file=motor.file if own_file else entry.file,
        format=motor.format if own_file else entry.format,
        topic=entry.topic if motor.topic is None else motor.topic,
        time=motor.time if own_time else entry.time,
        rate=motor.rate if own_time else entry.rate,
        position=motors if in_bag and motor.position is None else motor.position,
        velocity=motor.velocity,
        effort=motors if of_motors and motor.effort is None else motor.effort,
        motor=None,
        # cuts are made in the links' rows and times; what is not beside them is not used
        rows=None if own_file or motor.topic is not None else entry.rows,
        time_range=None,
    )
    links = replace(entry, motor=None)
    n, efforts = len(joints), recorded['effort']
    return (
        Side(links, joints, {**recorded, 'effort': 0 if of_motors else efforts}, path),
        Side(
            of_side,
            motors,
            {'position': n, 'velocity': n, 'effort': efforts if of_motors else 0},
            key,
        ),
    )


class TwoSides:
    """
    Reads both sides of a recording once.

    Parameters
    ----------
    entry, joints, drives, elastic, base:
        As for `sides_of`.

    """

    def __init__(
        self,
        entry: RecordingEntry,
        joints: tuple[str, ...],
        drives: Drives,
        elastic: ElasticJoints,
        base: Path,
    ) -> None:
        self._entry, self._base, self._drives = entry, base, drives
        self._links, self._motors = sides_of(entry, joints, drives, elastic, base)
        self._scale = elastic.position_scale(joints)
        self._joints = elastic.columns(joints)
        self._left_out = 0

    def blocks(self, size: int) -> Iterator[Recording]:
        """Yield what `sources.ElasticSource.blocks` says."""
        motors = _Motors(self._motors, self._base, size)
        any_links = any_rows = False
        for links in self._links.tables(self._base, size):
            any_links = True
            links.check_finite(self._entry.name)
            start = 0
            while start < len(links):
                stop = start + motors.advance(links.time[start:], links.origin)
                at, known, in_gap = motors.at(links.time[start:stop], links.origin)
                self._left_out += in_gap
                part = links.select(start + np.flatnonzero(known))
                start = stop
                if len(part):
                    any_rows = True
                    yield self._recording(part, replace(at, rows=part.rows, time=part.time))
        if not any_links:
            raise no_samples(self._entry)
        if not any_rows:
            raise RecordingError(
                f"{self._entry.name}: its motors' side has no stamp in common with the links'",
                file=self._entry.name,
                key=self._motors.path,
                remedy='record both at the same time, with stamps of one clock',
            )
        if self._left_out:
            warnings.warn(
                IdentificationWarning(
                    f'{self._entry.name}: {self._left_out} rows are left out, in gaps of the '
                    "motors' side"
                ),
                stacklevel=2,
            )

    def _recording(self, links: Table, motors: Table) -> Recording:
        motors.check_finite(self._motors.entry.name)
        efforts = links.effort if links.effort.shape[1] else motors.effort
        effort = self._drives.joint_effort(efforts)
        velocity = self._drives.joint_velocity(links.velocity)
        if velocity is not None and motors.velocity is not None:
            velocity = np.hstack([velocity, motors.velocity * self._scale])
        else:
            velocity = None
        position = self._drives.joint_position(links.position)
        return Recording(
            time=links.time,
            position=np.hstack([position, motors.position * self._scale]),
            velocity=velocity,
            effort=np.hstack([np.zeros_like(effort), effort]),
            joints=self._joints,
            source=self._entry.name,
        )


class _Motors:
    """The motors' side on its way: the samples around the present time."""

    def __init__(self, side: Side, base: Path, size: int) -> None:
        self._tables = side.tables(base, size)
        self._held: Table | None = None
        self._period: float
        self._first: float
        self._ended = False
        while not self._ended and (self._held is None or len(self._held) < _ENOUGH):
            self._pull()
        if self._held is None or len(self._held) < 2:
            raise RecordingError(
                f"{side.entry.name}: its motors' side has fewer than two samples",
                file=side.entry.name,
                key=side.path,
                remedy='record it again',
            )
        self._period = 1.0 / rate_of(self._held.time[:_ENOUGH])
        self._first = float(self._held.time[0])

    def advance(self, time: np.ndarray, origin: int) -> int:
        """
        Go on to the times ``time``, and tell how many of them `at` can be asked for now.

        The samples that are held are then those around these times, however long a part of the
        motors' side lies beside them.

        Parameters
        ----------
        time:
            (n,) increasing, and later than all asked for before [s].
        origin:
            Stamp that ``time`` is counted from [ns].

        """
        assert self._held is not None
        wanted = time + 1e-9 * (origin - self._held.origin)
        while not self._ended and self._settled <= wanted[0]:
            self._drop_before(wanted[0])
            self._pull()
        if self._ended:
            return len(time)
        return int(np.searchsorted(wanted, self._settled))

    @property
    def _settled(self) -> float:
        """Time up to which samples still to come change nothing [s]."""
        assert self._held is not None
        return float(self._held.time[-_REACH]) if len(self._held) >= _REACH else -np.inf

    def at(self, time: np.ndarray, origin: int) -> tuple[Table, np.ndarray, int]:
        """
        Interpolate.

        Parameters
        ----------
        time, origin:
            As for `advance`, which was asked before.

        Returns
        -------
        tuple
            The samples at those of the times at which they are known; (n,) bool, which these are;
            how many are not because they lie in a gap.

        """
        assert self._held is not None
        held, slack = self._held, ON_GRID * self._period
        wanted = time + 1e-9 * (origin - held.origin)
        within = (wanted >= held.time[0] - slack) & (wanted <= held.time[-1] + slack)
        wanted = np.clip(wanted, held.time[0], held.time[-1])
        left = np.clip(np.searchsorted(held.time, wanted + slack, side='right') - 1, 0, None)
        right = np.minimum(left + 1, len(held.time) - 1)
        at_stamp = np.abs(wanted - held.time[left]) <= slack
        known = within & (at_stamp | (held.time[right] - held.time[left] <= GAP * self._period))
        in_gap = int((within & ~known & (wanted > self._first)).sum())
        sampled = _interpolated(held, wanted[known])
        return sampled, known, in_gap

    def _pull(self) -> None:
        table = next(self._tables, None)
        if table is None:
            self._ended = True
        else:
            self._held = table if self._held is None else _joined(self._held, table)

    def _drop_before(self, time: float) -> None:
        assert self._held is not None
        keep = max(0, int(np.searchsorted(self._held.time, time)) - _REACH)
        if keep and len(self._held) - keep >= 2:
            self._held = self._held.select(np.arange(keep, len(self._held)))


def _interpolated(table: Table, time: np.ndarray) -> Table:
    """Return the values at ``time``; the labels and the origin stay."""
    signals = [table.position, table.effort]
    if table.velocity is not None:
        signals.append(table.velocity)
    widths = np.cumsum([signal.shape[1] for signal in signals])[:-1]
    values = interpolated(table.time, np.hstack(signals), time)
    position, effort, *velocity = np.split(values, widths, axis=1)
    return Table(
        rows=np.arange(len(time)),
        time=time,
        position=position,
        velocity=velocity[0] if velocity else None,
        effort=effort,
        labels=table.labels,
        origin=table.origin,
    )


def _joined(first: Table, second: Table) -> Table:
    velocity = None
    if first.velocity is not None and second.velocity is not None:
        velocity = np.concatenate([first.velocity, second.velocity])
    return Table(
        rows=np.concatenate([first.rows, second.rows]),
        time=np.concatenate([first.time, second.time]),
        position=np.concatenate([first.position, second.position]),
        velocity=velocity,
        effort=np.concatenate([first.effort, second.effort]),
        labels=first.labels,
        origin=first.origin,
    )
