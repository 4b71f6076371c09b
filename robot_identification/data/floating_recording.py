# SPDX-License-Identifier: Apache-2.0
"""Recordings of robots whose base is free: joints, IMU, and which contacts hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .parts import KeptRecording
from .recording import Recording, recording_error

LEAST_NORM = 0.5
"""Norm of a quaternion below which it is none; those of orientations have 1."""


@dataclass(frozen=True, kw_only=True)
class FloatingRecording(KeptRecording):
    """
    A recording of a robot with a floating base, in memory.

    The first columns of positions and efforts are those of the joints of its base, which are 0,
    see `robot_identification.model.floating_base`.

    Attributes
    ----------
    gyroscope, accelerometer:
        (n_samples, 3) as the IMU reads them, in its own frame [rad/s, m/s^2].
    orientation:
        (n_samples, 4) quaternion x, y, z, w of the IMU's frame in the world, whose z points up;
        None where it is not recorded.
    stance:
        (n_samples, c) bool, which of the robot's contacts hold.
    wrench:
        (n_samples, k) measured components of the contacts' wrenches, in their frames; NaN where a
        contact is not measured, None where none is [N, N m].

    Raises
    ------
    RecordingError
        as `Recording`, and for shapes or values of these that do not fit.

    """

    gyroscope: np.ndarray
    accelerometer: np.ndarray
    stance: np.ndarray
    orientation: np.ndarray | None = None
    wrench: np.ndarray | None = None

    continuous: ClassVar[tuple[str, ...]] = (
        *Recording.continuous,
        'gyroscope',
        'accelerometer',
        'orientation',
        'wrench',
    )
    stepwise: ClassVar[tuple[str, ...]] = ('stance',)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, width in (('gyroscope', 3), ('accelerometer', 3), ('orientation', 4)):
            if getattr(self, name) is not None:
                self._freeze(name, width)
        if self.orientation is not None:
            small = np.flatnonzero(np.linalg.norm(self.orientation, axis=1) < LEAST_NORM)
            if small.size:
                text = f'orientation in row {small[0]} is no quaternion: its entries are 0'
                remedy = 'leave orientation out where the IMU does not estimate it'
                raise recording_error(self.source, text, remedy, value=float(small[0]))
        for name in ('stance', 'wrench'):
            if (values := getattr(self, name)) is not None:
                kind = bool if name == 'stance' else float
                array = np.asarray(values, dtype=kind).reshape(len(self), -1).view()
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    def _freeze(self, name: str, width: int) -> None:
        array = np.asarray(getattr(self, name), dtype=float).view()
        if array.shape != (len(self), width):
            text = f'{name} has shape {array.shape}, expected {(len(self), width)}'
            raise recording_error(self.source, text, 'give one row a sample')
        if not np.isfinite(array).all():
            row, column = np.argwhere(~np.isfinite(array))[0]
            text = f'{name} is {array[row, column]} in row {row}'
            raise recording_error(self.source, text, 'repair or cut these rows', value=float(row))
        array.setflags(write=False)
        object.__setattr__(self, name, array)
