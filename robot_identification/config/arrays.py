# SPDX-License-Identifier: Apache-2.0
"""Recordings in memory: arrays, or columns of a data frame, as they were recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.drives import Drives
from ..data.recording import Recording
from ..errors import one_of, RecordingError

_SIGNALS = ('position', 'velocity', 'effort')
_KEYS = ('frame', 'time', 'rate', *_SIGNALS)


@dataclass(frozen=True)
class ArrayEntry:
    """
    A recording in memory, in place of a `RecordingEntry`.

    Attributes
    ----------
    name:
        For messages and results.
    time:
        (n_samples,) stamps [s].
    position, effort, velocity:
        (n_samples, k) as recorded, in the order of the joints or of the drives' columns; no
        velocity if None.

    """

    name: str
    time: np.ndarray
    position: np.ndarray
    effort: np.ndarray
    velocity: np.ndarray | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any], name: str) -> ArrayEntry:
        """
        Make it of arrays by name, or of the names of a data frame's columns.

        Parameters
        ----------
        data:
            ``position``, ``effort``, ``time`` or ``rate`` [Hz], and ``velocity`` if there is one.
            With ``frame``, a data frame or another mapping from names to columns, these are
            names of its columns, else arrays.
        name:
            What the recording is called.

        Raises
        ------
        RecordingError
            naming what is missing, not known or no numbers.

        """
        given = {key: value for key, value in data.items() if value is not None}
        for key in given:
            if key not in _KEYS:
                raise _wrong(name, f"has '{key}'", f'give {one_of(_KEYS)}')
        for key in ('position', 'effort'):
            if key not in given:
                raise _wrong(name, f"has no '{key}'", 'give (n_samples, n_joints) numbers')
        if ('time' in given) == ('rate' in given):
            text = "needs one of 'time' and 'rate'"
            raise _wrong(name, text, 'give the stamps, or the sampling rate')
        frame = given.get('frame')
        signals = {key: _signal(given[key], frame, name, key) for key in _SIGNALS if key in given}
        if 'time' in given:
            time = _signal(given['time'], frame, name, 'time').ravel()
        else:
            time = np.arange(len(signals['position'])) / float(given['rate'])
        return cls(name, time, **signals)

    def at_joints(self, joints: tuple[str, ...], drives: Drives | None) -> Recording:
        """
        Return the recording at the joints.

        Raises
        ------
        RecordingError
            on a wrong number of columns, and as `Recording`.

        """
        drives = drives or Drives()
        counts = drives.recorded(len(joints))
        for key in _SIGNALS:
            signal, shape = getattr(self, key), (self.time.size, counts[key])
            if signal is not None and signal.shape != shape:
                remedy = f'expected {shape}: a row a stamp, a column a joint of {one_of(joints)}'
                raise _wrong(self.name, f"has '{key}' of shape {signal.shape}", remedy)
        return Recording(
            time=self.time,
            position=drives.joint_position(self.position),
            velocity=drives.joint_velocity(self.velocity),
            effort=drives.joint_effort(self.effort),
            joints=joints,
            source=self.name,
        )


def _signal(value: Any, frame: Any, name: str, key: str) -> np.ndarray:
    """Return a signal as (n_samples, k)."""
    if frame is not None:
        columns = [value] if isinstance(value, str) else value
        value = [_column(frame, column, name) for column in columns]
    try:
        array = np.column_stack(value) if frame is not None else np.asarray(value)
        numbers = np.asarray(array, dtype=float)
    except (TypeError, ValueError) as error:
        raise _wrong(name, f"has '{key}' that is no array of numbers", str(error)) from error
    return numbers[:, None] if numbers.ndim == 1 else numbers


def _column(frame: Any, column: Any, name: str) -> Any:
    try:
        return frame[column]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise _wrong(name, f'has no column {column!r}', 'name one of its columns') from error


def _wrong(name: str, problem: str, remedy: str) -> RecordingError:
    return RecordingError(f"recording '{name}' {problem}", file=name, remedy=remedy)
