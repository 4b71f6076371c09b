# SPDX-License-Identifier: Apache-2.0
"""
Map from drives to joints: gear ratios, couplings, offsets and torque constants.

Joint positions are ``q = A p + b`` and joint efforts ``tau = T c``, with recorded positions p and
efforts c (motor torques or currents).  Velocities are multiplied by A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..options.fields import key_error, option

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


def _matrix(rows: tuple[tuple[float, ...], ...], n_joints: int, key: str) -> None:
    widths = {len(row) for row in rows}
    if len(rows) != n_joints or len(widths) != 1 or not all(widths):
        shape = f'{len(rows)} rows of {", ".join(str(w) for w in sorted(widths)) or 0} entries'
        text = f'has {shape}, expected {n_joints} rows of equal length'
        remedy = 'give one row a joint and one column a recorded signal'
        raise key_error(key, text, remedy, value=rows)
