# SPDX-License-Identifier: Apache-2.0
"""
Measured data (`Recording`) and input of the regressors (`Motion`, `Samples`).

They are checked once, when they are made, and their arrays are read-only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import one_of, RecordingError

AnyMotion = TypeVar('AnyMotion', bound='Motion')


def _frozen(values: ArrayLike) -> np.ndarray:
    """Return a read-only view (or converted copy) of ``values``."""
    array = np.asarray(values, dtype=float).view()
    array.setflags(write=False)
    return array


def _require_shape(name: str, array: np.ndarray, shape: tuple[int, ...], source: str) -> None:
    if array.shape != shape:
        raise RecordingError(
            f'{source}: {name} has shape {array.shape}, expected {shape}',
            file=source,
            remedy='give one column a joint and one row a sample in every signal',
        )


def _require_finite(name: str, array: np.ndarray, joints: tuple[str, ...], source: str) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise RecordingError(
            f"{source}: {name} of joint '{joints[column]}' is {array[row, column]} in row {row} "
            f'({int(bad.sum())} such values in all)',
            file=source,
            joint=joints[column],
            value=float(array[row, column]),
            remedy='repair or cut these rows (see rows and time_range in the experiment file)',
        )


@dataclass(frozen=True)
class Recording:
    """
    Positions and efforts at the joints as they were measured, possibly at uneven times.

    Attributes
    ----------
    time:
        (n_samples,) strictly increasing time stamps [s].
    position:
        (n_samples, n_joints) [rad or m].
    effort:
        (n_samples, n_joints) effort at the joint [N m or N].
    joints:
        Names, in the order of the columns.
    velocity:
        (n_samples, n_joints) measured velocity [rad/s or m/s], or None where there is none.
    source:
        Name of its file or topic, for errors.

    Raises
    ------
    RecordingError
        on wrong shapes, NaN or infinite values, or time stamps that do not increase.

    """

    time: np.ndarray
    position: np.ndarray
    effort: np.ndarray
    joints: tuple[str, ...]
    velocity: np.ndarray | None = None
    source: str = 'recording'

    def __post_init__(self) -> None:
        joints = tuple(self.joints)
        time = _frozen(self.time)
        if time.ndim != 1:
            raise RecordingError(f'{self.source}: time has shape {time.shape}, expected (n,)')
        if not np.isfinite(time).all():
            row = int(np.flatnonzero(~np.isfinite(time))[0])
            raise RecordingError(
                f'{self.source}: time stamp in row {row} is {time[row]}',
                file=self.source,
                value=float(time[row]),
                remedy='cut the rows without a time stamp',
            )
        step = np.diff(time)
        if (step <= 0.0).any():
            row = int(np.flatnonzero(step <= 0.0)[0])
            kind = 'occurs twice' if step[row] == 0.0 else 'goes back in time'
            raise RecordingError(
                f'{self.source}: time stamp {time[row + 1]:.9g} s in row {row + 1} {kind}',
                file=self.source,
                value=float(time[row + 1]),
                remedy='sort the rows by time and keep one row a stamp',
            )
        arrays = {'time': time}
        shape = (time.size, len(joints))
        for name in ('position', 'velocity', 'effort'):
            array = getattr(self, name)
            if array is None and name == 'velocity':
                continue
            array = _frozen(array)
            _require_shape(name, array, shape, self.source)
            _require_finite(name, array, joints, self.source)
            arrays[name] = array
        object.__setattr__(self, 'joints', joints)
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return self.time.size

    @property
    def duration(self) -> float:
        """Time from the first to the last sample [s]."""
        return float(self.time[-1] - self.time[0]) if len(self) else 0.0

    def rows(self, start: int | None, stop: int | None) -> Recording:
        """Return the part from row ``start`` to before row ``stop``."""
        part = slice(start, stop)
        velocity = None if self.velocity is None else self.velocity[part]
        return replace(
            self,
            time=self.time[part],
            position=self.position[part],
            velocity=velocity,
            effort=self.effort[part],
        )

    def select(self, joints: tuple[str, ...]) -> Recording:
        """Return the columns of ``joints`` in that order; raises RecordingError for others."""
        for joint in joints:
            if joint not in self.joints:
                raise RecordingError(
                    f"{self.source}: joint '{joint}' is not recorded",
                    file=self.source,
                    joint=joint,
                    remedy=f'recorded are {one_of(self.joints)}',
                )
        columns = [self.joints.index(joint) for joint in joints]
        velocity = None if self.velocity is None else self.velocity[:, columns]
        return replace(
            self,
            position=self.position[:, columns],
            velocity=velocity,
            effort=self.effort[:, columns],
            joints=tuple(joints),
        )

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Iterate over the recording in parts of ``size`` rows (the last may be shorter)."""
        for start in range(0, len(self), size):
            yield self.rows(start, start + size)


@dataclass(frozen=True)
class Motion:
    """
    States at which a regressor is evaluated.

    Attributes
    ----------
    position, velocity, acceleration:
        (n_samples, n_joints) [rad, rad/s, rad/s^2; m, m/s, m/s^2 for prismatic joints].
    friction_state:
        (n_samples, n_joints) direction of dry friction, from -1 to 1; None for the sign of the
        velocity.

    """

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    friction_state: np.ndarray | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        shape = np.shape(self.position)
        if len(shape) != 2:
            raise ValueError(f'position has shape {shape}, expected (n_samples, n_joints)')
        for name in ('position', 'velocity', 'acceleration', 'friction_state'):
            if getattr(self, name) is None:
                continue
            array = _frozen(getattr(self, name))
            if array.shape != shape:
                raise ValueError(f'{name} has shape {array.shape}, expected {shape}')
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return self.position.shape[0]

    def where(self, row: int, first: int = 0) -> str:
        """Return text on the place of a sample, with ``first`` samples before this part."""
        return f'sample {first + row}'

    def rows(self: AnyMotion, start: int | None, stop: int | None) -> AnyMotion:
        """Return the part from row ``start`` to before row ``stop``, of the same type."""
        part = slice(start, stop)
        changes = {
            f.name: getattr(self, f.name)[part]
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray)
        }
        return replace(self, **changes)


@dataclass(frozen=True)
class Samples(Motion):
    """
    A stretch of a recording on a uniform time grid, with the derivatives that were computed.

    Attributes
    ----------
    time:
        (n_samples,) uniform [s].
    effort:
        (n_samples, n_joints) effort as the estimator sees it [N m or N].
    measured_effort:
        (n_samples, n_joints) effort before any filtering [N m or N].
    joints:
        Names, in the order of the columns.

    """

    time: np.ndarray
    effort: np.ndarray
    measured_effort: np.ndarray
    joints: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ('time', 'effort', 'measured_effort'):
            array = _frozen(getattr(self, name))
            expected = self.position.shape[:1] if name == 'time' else self.position.shape
            if array.shape != expected:
                raise ValueError(f'{name} has shape {array.shape}, expected {expected}')
            object.__setattr__(self, name, array)
        object.__setattr__(self, 'joints', tuple(self.joints))

    def where(self, row: int, first: int = 0) -> str:
        """Return text on the time of a sample."""
        return f'{self.time[row]:.6g} s'


class RecordingSource(Protocol):
    """A recording that is read in blocks, as often as wanted: in memory or in files."""

    @property
    def joints(self) -> tuple[str, ...]:
        """Names, in the order of the columns."""
        ...

    def blocks(self, size: int) -> Iterator[Recording]:
        """Iterate over the recording in parts of at most ``size`` rows, from its start."""
        ...


def source_name(source: Any) -> str:
    """Return the name of a recording."""
    return str(getattr(source, 'source', 'recording'))
