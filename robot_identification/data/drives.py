# SPDX-License-Identifier: Apache-2.0
"""
Signals of the drives as signals at the joints.

`Drives` has gear ratios, couplings, offsets and torque constants.  Joint positions are
``q = A p + b`` and joint efforts ``tau = T c``, with recorded positions p and efforts c (motor
torques or currents).  Velocities are multiplied by A.

Recordings of robots with elastic joints have the links' side and the motors' side.  The motors'
positions may be in the same rows as the links', or in another file or topic with stamps of its
own.  Then they are interpolated at the links' stamps; rows at other times are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
import warnings

import numpy as np

from ..errors import IdentificationWarning
from ..model.mechanisms import ElasticJoints
from ..options.fields import key_error, key_path, option
from .alignment import Follower
from .columns import Counts
from .readers import no_samples, read_tables
from .recording import Recording, recording_error, Table
from .recording_config import MotorSide, RecordingEntry

EFFORT_KINDS = ('joint_torque', 'motor_torque', 'motor_current')
"""Kinds of recorded efforts."""

GAINS = ('given', 'ratios')
"""Where gains come from: the experiment file, or the recordings."""


@dataclass(frozen=True)
class PositionDrive:
    """Joint positions from recorded ones."""

    matrix: tuple[tuple[float, ...], ...] = option(
        doc='Matrix A of q = A p + b, one row a joint and one column a recorded position',
    )
    offset: tuple[float, ...] | None = option(
        None, doc='Offset b of q = A p + b, one entry a joint; null for zero', unit='rad or m'
    )


@dataclass(frozen=True)
class EffortDrive:
    """Joint efforts from recorded ones."""

    matrix: tuple[tuple[float, ...], ...] = option(
        doc='Matrix T of tau = T c, one row a joint and one column a recorded effort',
    )
    gains: str = option(
        'given',
        doc='Whether the matrix is taken as it is (given), or the ratios of its gains are found '
        'from the recordings to identify from, with the matrix as their prior (ratios); for one '
        'drive a joint',
        choices=GAINS,
    )


@dataclass(frozen=True)
class Drives:
    """Map from drive positions and efforts to joint positions and efforts."""

    position: PositionDrive | None = option(
        None, doc='Positions: q = matrix p + offset; null where they are recorded at the joints'
    )
    effort: EffortDrive | None = option(
        None, doc='Efforts: tau = matrix c; null where they are recorded at the joints'
    )

    def check(self, n_joints: int, path: str = 'robot.drives') -> None:
        """
        Require matrices with one row a joint and rows of equal length.

        Raises
        ------
        SettingsError
            naming the key of the matrix or offset below ``path``.

        """
        if self.position is not None:
            _matrix(self.position.matrix, n_joints, f'{path}.position.matrix')
            offset = self.position.offset
            if offset is not None and len(offset) != n_joints:
                text = f'has {len(offset)} entries for {n_joints} joints'
                key, remedy = f'{path}.position.offset', 'give one entry a joint'
                raise key_error(key, text, remedy, value=offset)
        if self.effort is not None:
            _matrix(self.effort.matrix, n_joints, f'{path}.effort.matrix')

    def recorded(self, n_joints: int) -> dict[str, int]:
        """Return the number of recorded columns by signal (``position``, ...)."""
        positions = n_joints if self.position is None else len(self.position.matrix[0])
        efforts = n_joints if self.effort is None else len(self.effort.matrix[0])
        return {'position': positions, 'velocity': positions, 'effort': efforts}

    def joint_position(self, position: np.ndarray) -> np.ndarray:
        """Return (n_samples, n_joints) positions from (n_samples, k) recorded ones."""
        if self.position is None:
            return position
        joints = position @ np.array(self.position.matrix).T
        return joints if self.position.offset is None else joints + np.array(self.position.offset)

    def joint_velocity(self, velocity: np.ndarray | None) -> np.ndarray | None:
        """Return (n_samples, n_joints) velocities from (n_samples, k) recorded ones."""
        if self.position is None or velocity is None:
            return velocity
        return velocity @ np.array(self.position.matrix).T

    def joint_effort(self, effort: np.ndarray) -> np.ndarray:
        """Return (n_samples, n_joints) efforts from (n_samples, k) recorded ones."""
        return effort if self.effort is None else effort @ np.array(self.effort.matrix).T

    def recording(self, data: Any, joints: tuple[str, ...], source: str) -> Recording:
        """Return the recording at the joints of an object with time and recorded signals."""
        return Recording(
            time=data.time,
            position=self.joint_position(data.position),
            velocity=self.joint_velocity(data.velocity),
            effort=self.joint_effort(data.effort),
            joints=joints,
            source=source,
        )


def _matrix(rows: tuple[tuple[float, ...], ...], n_joints: int, key: str) -> None:
    widths = {len(row) for row in rows}
    if len(rows) != n_joints or len(widths) != 1 or not all(widths):
        shape = f'{len(rows)} rows of {", ".join(str(w) for w in sorted(widths)) or 0} entries'
        text = f'has {shape}, expected {n_joints} rows of equal length'
        remedy = 'give one row a joint and one column a recorded signal'
        raise key_error(key, text, remedy, value=rows)


# --------------------------------------------------------------------------- elastic joints


@dataclass(frozen=True)
class Side:
    """
    One side of a recording as an entry of its own.

    Attributes
    ----------
    entry:
        Location of the side.
    joints:
        Names of its columns.
    counts:
        Number of columns by signal; no effort if the other side has it.
    path:
        Key path for messages.

    """

    entry: RecordingEntry
    joints: tuple[str, ...]
    counts: Counts
    path: str

    def tables(self, base: Path, size: int) -> Iterator[Table]:
        """Read the side; stamps are checked to increase, values are not."""
        last: float | None = None
        for table in read_tables(self.entry, self.joints, self.counts, base, size):
            table.check_order(self.entry.name, last)
            last = float(table.time[-1])
            yield table


def link_and_motor_sides(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    drives: Drives,
    elastic: ElasticJoints,
    base: Path = Path('.'),
    path: str = '',
) -> tuple[Side, Side]:
    """Return the links' and the motors' side; raises SettingsError if both have an effort."""
    motor, recorded = entry.motor or MotorSide(), drives.recorded(len(joints))
    motors = elastic.motor_names(joints)
    in_bag = entry.file_format(base, path).topics
    key = key_path(path, 'motor')
    if entry.effort is not None and motor.effort is not None:
        text = "is given, and the recording's own effort, too"
        raise key_error(f'{key}.effort', text, "give the motors' effort once")
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
        leave_out=(),
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


def elastic_blocks(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    drives: Drives,
    elastic: ElasticJoints,
    base: Path,
    size: int,
) -> Iterator[Recording]:
    """
    Read both sides of a recording in blocks of at most ``size`` rows, the motors' columns last.

    Raises
    ------
    RecordingError
        naming file, row, column or joint that cannot be used, or if the sides have no common time.

    """
    of_links, of_motors = link_and_motor_sides(entry, joints, drives, elastic, base)
    scale = elastic.position_scale(joints)
    try:
        motors = Follower(of_motors.tables(base, size))
    except ValueError as error:
        text = "its motors' side has fewer than two samples"
        remedy = 'record it again'
        raise recording_error(of_motors.entry.name, text, remedy, key=of_motors.path) from error
    any_links = any_rows = False
    left_out = 0
    for links in of_links.tables(base, size):
        any_links = True
        links.check_finite(entry.name)
        start = 0
        while start < len(links):
            stop = start + motors.advance(links.time[start:], links.origin)
            at, known, in_gap = motors.interpolated(links.time[start:stop], links.origin)
            left_out += in_gap
            part = links.select(start + np.flatnonzero(known))
            start = stop
            if not len(part):
                continue
            any_rows = True
            at = replace(at, rows=part.rows, time=part.time)
            at.check_finite(of_motors.entry.name)
            effort = drives.joint_effort(part.effort if part.effort.shape[1] else at.effort)
            velocity = drives.joint_velocity(part.velocity)
            if velocity is not None:
                of_both = at.velocity is not None
                velocity = np.hstack([velocity, at.velocity * scale]) if of_both else None
            yield Recording(
                time=part.time,
                position=np.hstack([drives.joint_position(part.position), at.position * scale]),
                velocity=velocity,
                effort=np.hstack([np.zeros_like(effort), effort]),
                joints=elastic.columns(joints),
                source=entry.name,
            )
    if not any_links:
        raise no_samples(entry)
    if not any_rows:
        text = "its motors' side has no stamp in common with the links'"
        remedy = 'record both at the same time, with stamps of one clock'
        raise recording_error(entry.name, text, remedy, key=of_motors.path)
    if left_out:
        warnings.warn(
            IdentificationWarning(
                f"{entry.name}: {left_out} rows are left out, in gaps of the motors' side"
            ),
            stacklevel=2,
        )
