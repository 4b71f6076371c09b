# SPDX-License-Identifier: Apache-2.0
"""
Rows of files (`Table`), recordings at the joints, and input of the regressors (`Motion`).

Recordings and motions are checked once, when they are made, and their arrays are read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import IdentificationError, one_of, RecordingError

SIGNALS = ('position', 'velocity', 'effort')

AnyRows = TypeVar('AnyRows')

READ_ROWS = 65536
"""Rows that are read from a file at a time, for the sake of memory."""

_LARGEST = 1e12
"""Largest absolute value of a recorded sample; with larger ones, parameters overflow."""


def recording_error(
    file: object, text: str, remedy: str | None = None, **about: Any
) -> RecordingError:
    """Return an error whose message is the name of a file or recording and a text."""
    return RecordingError(f'{file}: {text}', file=str(file), remedy=remedy, **about)


@contextmanager
def damage_named(
    file: object, what: str, remedy: str, errors: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Turn errors of libraries and the system into one of a file: what it is, and the reason."""
    try:
        yield
    except IdentificationError:
        raise
    except errors as error:
        reason = getattr(error, 'strerror', None) or ' '.join(str(error).split())[:300]
        raise recording_error(
            file, f'{what} ({reason or type(error).__name__})', remedy
        ) from error


def _frozen(values: ArrayLike) -> np.ndarray:
    """Return a read-only view (or converted copy) of ``values``."""
    array = np.asarray(values, dtype=float).view()
    array.setflags(write=False)
    return array


def _rows(data: AnyRows, rows: slice | np.ndarray) -> AnyRows:
    """Return rows of all arrays."""
    new = copy(data)
    for name, value in vars(data).items():
        if isinstance(value, np.ndarray):
            taken = value[rows]
            taken.setflags(write=False)
            object.__setattr__(new, name, taken)
    return new


def within(time: np.ndarray, times: Iterable[tuple[float, float]]) -> np.ndarray:
    """Return (n,) whether stamps are within one of some times, [first, last] each [s]."""
    found = np.zeros(len(time), dtype=bool)
    for first, last in times:
        found |= (time >= first) & (time <= last)
    return found


def _require_increasing(source: str, time: np.ndarray, rows: np.ndarray) -> None:
    """Require that each stamp is later than the one before; ``rows`` are their numbers."""
    step = np.diff(time)
    if (step > 0.0).all():
        return
    at = int(np.flatnonzero(~(step > 0.0))[0])
    kind = 'occurs twice' if step[at] == 0.0 else 'goes back in time'
    text = f'time stamp {time[at + 1]:.9g} s in row {rows[at + 1]} {kind}'
    remedy = 'sort the rows by time and keep one row a stamp'
    raise recording_error(source, text, remedy, value=float(time[at + 1]))


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
        return _rows(self, keep)

    def check_order(self, source: str, previous: float | None) -> None:
        """
        Require increasing stamps, later than that of the row before [s].

        Raises
        ------
        RecordingError
            naming file, row and stamp.

        """
        if previous is None:
            _require_increasing(source, self.time, self.rows)
        else:
            time = np.append(previous, self.time)
            _require_increasing(source, time, np.append(-1, self.rows))

    def check_finite(self, source: str) -> None:
        """
        Require finite values below `_LARGEST`.

        Raises
        ------
        RecordingError
            naming file, row and column.

        """
        for name in ('time', *SIGNALS):
            array = getattr(self, name)
            # comparisons with NaN are false
            if (
                array is None
                or not array.size
                or -_LARGEST <= array.min() <= array.max() <= _LARGEST
            ):
                continue
            array = array.reshape(len(array), -1)
            bad = ~(np.abs(array) <= _LARGEST)
            row, column = np.argwhere(bad)[0]
            value, label = float(array[row, column]), self.labels[name][column]
            remedy = 'repair or cut these rows (rows, time_range)'
            if name == 'time' and np.isfinite(value):
                remedy = 'set time_unit: ms, us or ns beside the time column'
            if name == 'effort' and bad[:, column].all():
                remedy = 'the driver does not report it: record a robot state that has efforts'
            when = f', at {self.time[row]:.9g} s' if np.isfinite(self.time[row]) else ''
            text = f"{name} '{label}' is {value} in row {self.rows[row]}{when}"
            raise recording_error(
                source, text, remedy=remedy, joint=None if name == 'time' else label, value=value
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
    left_out:
        Times that were left out on purpose, [first, last] each [s].

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
    left_out: tuple[tuple[float, float], ...] = ()

    continuous: ClassVar[tuple[str, ...]] = SIGNALS
    """Signals that are interpolated between samples."""
    stepwise: ClassVar[tuple[str, ...]] = ()
    """Signals that keep their value until the next sample."""

    def __post_init__(self) -> None:
        object.__setattr__(self, 'joints', tuple(self.joints))
        time = _frozen(self.time)
        if time.ndim != 1:
            raise RecordingError(f'{self.source}: time has shape {time.shape}, expected (n,)')
        if not np.isfinite(time).all():
            row = int(np.flatnonzero(~np.isfinite(time))[0])
            text = f'time stamp in row {row} is {time[row]}'
            remedy = 'cut the rows without a time stamp'
            raise recording_error(self.source, text, remedy, value=float(time[row]))
        _require_increasing(self.source, time, np.arange(time.size))
        object.__setattr__(self, 'time', time)
        for name in SIGNALS:
            if getattr(self, name) is not None or name != 'velocity':
                object.__setattr__(self, name, self._checked(name))

    def _checked(self, name: str) -> np.ndarray:
        array, shape = _frozen(getattr(self, name)), (self.time.size, len(self.joints))
        if array.shape != shape:
            text = f'{name} has shape {array.shape}, expected {shape}'
            remedy = 'give one column a joint and one row a sample in every signal'
            raise recording_error(self.source, text, remedy)
        bad = ~np.isfinite(array)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            joint = self.joints[column]
            raise recording_error(
                self.source,
                f"{name} of joint '{joint}' is {array[row, column]} in row {row} "
                f'({int(bad.sum())} such values in all)',
                remedy='repair or cut these rows (see rows and time_range in the experiment file)',
                joint=joint,
                value=float(array[row, column]),
            )
        return array

    def __len__(self) -> int:
        return self.time.size

    @property
    def duration(self) -> float:
        """Time from the first to the last sample [s]."""
        return float(self.time[-1] - self.time[0]) if len(self) else 0.0

    def rows(self, start: int | None, stop: int | None) -> Recording:
        """Return the part from row ``start`` to before row ``stop``."""
        return _rows(self, slice(start, stop))

    def select(self, joints: tuple[str, ...]) -> Recording:
        """Return the columns of ``joints`` in that order; raises RecordingError for others."""
        for joint in joints:
            if joint not in self.joints:
                text = f"joint '{joint}' is not recorded"
                remedy = f'recorded are {one_of(self.joints)}'
                raise recording_error(self.source, text, remedy, joint=joint)
        columns = [self.joints.index(joint) for joint in joints]
        return replace(
            self,
            position=self.position[:, columns],
            velocity=None if self.velocity is None else self.velocity[:, columns],
            effort=self.effort[:, columns],
            joints=tuple(joints),
        )

    def without(self, times: tuple[tuple[float, float], ...]) -> Recording:
        """Return the rows outside of times, [first, last] each [s]."""
        if not times:
            return self
        rows = _rows(self, ~within(self.time, times))
        return replace(rows, left_out=(*self.left_out, *times))

    def blocks(self, size: int = READ_ROWS) -> Iterator[Recording]:
        """Iterate over the recording in parts of ``size`` rows (the last may be shorter)."""
        for start in range(0, len(self), size):
            yield self.rows(start, start + size)

    def split(self, gap: float) -> Iterator[Recording]:
        """Iterate over the stretches between steps of more than ``gap`` [s]."""
        cuts = np.flatnonzero(np.diff(self.time) > gap) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(self)]):
            yield self.rows(start, stop)

    @staticmethod
    def concatenate(several: Sequence[Recording]) -> Recording:
        """Join consecutive recordings, at least one; without signals that one of them lacks."""
        first = several[0]
        if len(several) == 1:
            return first
        signals: dict[str, Any] = {}
        for name in ('time', *first.continuous, *first.stepwise):
            parts = [getattr(one, name) for one in several]
            complete = all(part is not None for part in parts)
            signals[name] = np.concatenate(parts) if complete else None
        left_out = tuple(dict.fromkeys(times for one in several for times in one.left_out))
        return replace(first, **signals, left_out=left_out)


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


AnyMotion = TypeVar('AnyMotion', bound='Motion')


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
            if getattr(self, name) is not None:
                self._freeze(name, shape)

    def _freeze(self, name: str, shape: tuple[int, ...]) -> None:
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
        return _rows(self, slice(start, stop))


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
        for name in ('effort', 'measured_effort'):
            self._freeze(name, self.position.shape)
        self._freeze('time', self.position.shape[:1])
        object.__setattr__(self, 'joints', tuple(self.joints))

    def where(self, row: int, first: int = 0) -> str:
        """Return text on the time of a sample."""
        return f'{self.time[row]:.6g} s'
