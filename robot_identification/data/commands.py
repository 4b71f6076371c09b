# SPDX-License-Identifier: Apache-2.0
"""Recordings of position servos: commands and positions, without efforts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


@dataclass(frozen=True)
class WholeMotion:
    """
    Motion of which the commands are known throughout, of one recording or of parts of several.

    Attributes
    ----------
    recording:
        Its samples, in which ``held_out`` marks those that are unseen.
    counted:
        (n_samples,) True for unseen samples that count.

    """

    recording: CommandRecording
    counted: np.ndarray


def whole_motions(
    unseen: Sequence[CommandRecording], others: Sequence[CommandRecording] = ()
) -> tuple[WholeMotion, ...]:
    """
    Return the longest motions in which the samples that are held out lie.

    Stretches whose stamps, commands and positions continue those of another recording, as where
    periods of one motion are in two files, are put together.  After a gap, in which commands are
    unknown, all samples count: what a robot does there is part of its motion.

    Parameters
    ----------
    unseen:
        Recordings with samples that are held out.
    others:
        Recordings of which no sample is held out.

    """
    chains: list[list[tuple[CommandRecording, bool]]] = []
    stretches = [
        (stretch, k == 0)
        for recording in (*unseen, *others)
        for k, stretch in enumerate(recording.stretches())
    ]
    for stretch, first in sorted(stretches, key=lambda each: float(each[0].time[0])):
        chain = next((c for c in chains if _continues(c[-1][0], stretch)), None)
        if chain is None:
            chains.append([(stretch, first)])
        else:
            chain.append((stretch, first))
    motions = (_joined(chain) for chain in chains)
    return tuple(motion for motion in motions if motion.counted.any())


def _continues(one: CommandRecording, other: CommandRecording) -> bool:
    """Return whether a stretch begins where another ends, with no larger step than within them."""
    pause = other.time[0] - one.time[-1]
    if one.joints != other.joints or not 0.0 < pause < GAP * min(one.period, other.period):
        return False
    for name in ('position', 'command'):
        ahead, behind = getattr(one, name), getattr(other, name)
        steps = np.abs(np.concatenate((np.diff(ahead, axis=0), np.diff(behind, axis=0))))
        if (np.abs(behind[0] - ahead[-1]) > GAP * steps.max(axis=0)).any():
            return False
    return True


def _joined(chain: Sequence[tuple[CommandRecording, bool]]) -> WholeMotion:
    """Return stretches that continue one another as one motion; True marks begins of files."""
    parts = [part for part, _ in chain]
    shape = parts[0].position.shape[1:]

    def together(name: str, width: tuple[int, ...], needed: bool) -> np.ndarray | None:
        values = [getattr(part, name) for part in parts]
        missing = [value is None for value in values]
        if all(missing) or (needed and any(missing)):
            return None
        return np.concatenate(
            [
                np.zeros((len(part), *width)) if value is None else value
                for part, value in zip(parts, values, strict=True)
            ]
        )

    out = together('held_out', (), False)
    whole = replace(
        parts[0],
        time=np.concatenate([part.time for part in parts]),
        position=np.concatenate([part.position for part in parts]),
        command=np.concatenate([part.command for part in parts]),
        velocity=together('velocity', shape, True),
        command_velocity=together('command_velocity', shape, False),
        feedforward=together('feedforward', shape, False),
        held_out=None if out is None else out.astype(bool),
    )
    counted = whole.held_out if whole.held_out is not None else np.zeros(len(whole), bool)
    if chain[0][1]:  # not after a gap
        counted = whole.counted(held_out=True)
    return WholeMotion(whole, np.asarray(counted))
