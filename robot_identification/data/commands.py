# SPDX-License-Identifier: Apache-2.0
"""Recordings of position servos: commands and positions, without efforts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from ..errors import RecordingError
from .recording import Recording, recording_error

GAP = 3.5
"""Median periods between two stamps beyond which a recording has a gap."""

SLOPE_TIME = 0.03
"""Time of the parabola that gives the velocity of the first sample, if none was measured [s]."""


WARM_UP = 0.5
"""Time after which a servo has forgotten how a recording began [s]."""


HELD_OUT_TIME = 2.0
"""Length of the blocks of which every second one is held out [s]."""


@dataclass(frozen=True)
class CommandRecording:
    """
    Commanded and measured positions of servos, possibly at uneven times.

    A command is that which the servo holds from its stamp to the next one.

    Attributes
    ----------
    time:
        (n_samples,) strictly increasing time stamps [s].
    position:
        (n_samples, n_joints) measured [rad or m].
    command:
        (n_samples, n_joints) commanded position [rad or m].
    joints:
        Names, in the order of the columns.
    velocity:
        (n_samples, n_joints) measured velocity [rad/s or m/s]; None if there is none.
    command_velocity:
        (n_samples, n_joints) commanded velocity [rad/s or m/s]; None for 0.
    feedforward:
        (n_samples, n_joints) commanded effort that the servo adds [N m or N]; None for 0.
    held_out:
        (n_samples,) True for samples whose positions an identification leaves out, to validate on
        them; None for no sample.
    source:
        Name of its file, for errors.

    Raises
    ------
    RecordingError
        on wrong shapes, NaN or infinite values, stamps that do not increase, or fewer than two
        samples.

    """

    time: np.ndarray
    position: np.ndarray
    command: np.ndarray
    joints: tuple[str, ...]
    velocity: np.ndarray | None = None
    command_velocity: np.ndarray | None = None
    feedforward: np.ndarray | None = None
    held_out: np.ndarray | None = None
    source: str = 'recording'

    def __post_init__(self) -> None:
        # a recording checks its arrays; the three signals of commands are checked likewise
        checked = Recording(
            self.time, self.position, self.command, self.joints, self.velocity, self.source
        )
        for name, value in (
            ('joints', checked.joints),
            ('time', checked.time),
            ('position', checked.position),
            ('command', checked.effort),
            ('velocity', checked.velocity),
        ):
            object.__setattr__(self, name, value)
        for name in ('command_velocity', 'feedforward'):
            array = getattr(self, name)
            if array is not None:
                again = replace(checked, effort=array)
                object.__setattr__(self, name, again.effort)
        if len(self.time) < 2:
            raise recording_error(self.source, 'it has fewer than two samples', 'record longer')

    def __len__(self) -> int:
        return self.time.size

    @property
    def period(self) -> float:
        """Median time between stamps [s]."""
        return float(np.median(np.diff(self.time)))

    def counted(self, held_out: bool = False) -> np.ndarray:
        """
        Return (n_samples,) True for samples that count, or for those that are held out.

        Neither counts while the unknown past acts: commands before the first stamp and the exact
        first velocity are not known; the servo forgets them within `WARM_UP`, of which short
        recordings have less.
        """
        begin = self.time[0] + min(WARM_UP, 0.2 * (self.time[-1] - self.time[0]))
        out = np.zeros(len(self), bool) if self.held_out is None else self.held_out
        return np.asarray((self.time >= begin) & (out == held_out))

    def with_blocks_held_out(self, length: float = HELD_OUT_TIME) -> CommandRecording:
        """Return it with every second block of a length [s] held out, the second one first."""
        block = np.floor((self.time - self.time[0]) / length).astype(int)
        return replace(self, held_out=block % 2 == 1)

    @property
    def initial_velocity(self) -> np.ndarray:
        """(n_joints,) velocity of the first sample [rad/s or m/s]."""
        if self.velocity is not None:
            return np.asarray(self.velocity[0])
        since = self.time - self.time[0]
        rows = max(int((since <= SLOPE_TIME).sum()), min(5, len(self)))
        degree = min(2, rows - 1)
        return np.asarray(np.polyfit(since[:rows], self.position[:rows], degree)[degree - 1])

    def rows(self, start: int, stop: int) -> CommandRecording:
        """Return the part from row ``start`` to before row ``stop``."""
        parts = {
            f.name: getattr(self, f.name)[start:stop]
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray)
        }
        return replace(self, **parts)

    def stretches(self) -> Iterator[CommandRecording]:
        """Iterate over the parts between gaps; parts of fewer than ten samples are left out."""
        breaks = np.flatnonzero(np.diff(self.time) > GAP * self.period) + 1
        edges = [0, *breaks.tolist(), len(self)]
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            if stop - start >= 10:
                yield self.rows(start, stop)


def stretches_of(recordings: Iterable[CommandRecording]) -> tuple[CommandRecording, ...]:
    """
    Return the parts between gaps of all recordings.

    Raises RecordingError if none of them has ten samples without a gap.
    """
    recordings = tuple(recordings)
    parts = tuple(part for recording in recordings for part in recording.stretches())
    if not parts:
        names = ', '.join(recording.source for recording in recordings) or 'nothing'
        raise RecordingError(
            f'{names}: there are no ten samples without a gap',
            file=names,
            remedy='record commands and positions at a steady rate',
        )
    return parts
