# SPDX-License-Identifier: Apache-2.0
"""
Efforts that a controller has commanded, recognised by its commands in the same table.

A position controller asks for ``kp (command - position) - kd velocity``.  Where recorded efforts
are just that at every joint, nothing was measured: no current or torque sensor agrees so well.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..config.sources import open_recording
from ..data.recording import Recording
from ..data.recording_config import RecordingEntry
from ..diagnosis.recording_faults import read_first_rows
from ..errors import IdentificationError
from .command_columns import commands_of


@dataclass(frozen=True)
class CommandCriteria:
    """Constants of the comparison."""

    same: float = 0.01
    """Difference, by the spread of the effort, up to which it is the command."""
    inner: float = 0.8
    """Share of samples in motion that is compared: at the limit of a drive efforts are less."""
    still: float = 0.02
    """Movement below which a joint tells nothing [rad or m]."""
    moving: float = 0.1
    """Speed, by its root mean square, above which a joint moves."""
    fewest: int = 50
    """Samples in motion below which nothing is said."""
    shifts: tuple[int, ...] = (0, 1, 2, -1)
    """Samples by which efforts may have been recorded later."""


COMMANDED = CommandCriteria()


def commanded_remark(entry: RecordingEntry, recording: Recording) -> str:
    """
    Return the remark that a table's efforts are its controller's commands; empty where not.

    Parameters
    ----------
    entry, recording:
        Of a table, and its first rows.

    """
    commands = _commands(entry, recording)
    if commands is None:
        return ''
    moved = np.flatnonzero(np.ptp(recording.position, axis=0) > COMMANDED.still)
    for shift in COMMANDED.shifts if moved.size else ():
        found = [_gains(recording, commands, int(j), shift) for j in moved]
        gains = [each for each in found if each is not None]
        if len(gains) == len(found):
            stiffness, damping = (_range(each) for each in zip(*gains, strict=True))
            return (
                f'{recording.source}: the efforts are those that a controller commands: kp '
                f'(command - position) - kd velocity with kp {stiffness} and kd {damping}; right '
                'of a simulation with such drives, on a robot record measured efforts'
            )
    return ''


def _commands(entry: RecordingEntry, recording: Recording) -> np.ndarray | None:
    """Return the (m, n) commanded positions beside a recording; None where there are none."""
    if entry.file is None or entry.file_format().topics:
        return None
    with suppress(IdentificationError, ValueError):
        columns = commands_of(Path(entry.file), recording.joints)
        if columns is None:
            return None
        # read as efforts are, which no drive maps
        as_efforts = replace(entry, effort=columns, velocity=None)
        (found,) = read_first_rows([open_recording(as_efforts, recording.joints)])
        same = len(found) >= len(recording)
        return found.effort[: len(recording)] if same else None
    return None


def _gains(
    recording: Recording, commands: np.ndarray, joint: int, shift: int
) -> tuple[float, float] | None:
    """Return kp and kd of a joint whose effort is commanded so; None where it is not."""
    position, command = recording.position[:, joint], commands[:, joint]
    effort = np.roll(recording.effort[:, joint], -shift)
    if recording.velocity is None:
        speed = np.gradient(position, recording.time)
    else:
        speed = recording.velocity[:, joint]
    moves = np.abs(speed) > COMMANDED.moving * np.sqrt((speed**2).mean())
    moves[: max(-shift, 0)] = moves[len(moves) - max(shift, 0) :] = False
    if moves.sum() < COMMANDED.fewest or not effort[moves].std():
        return None
    rows = np.stack([command, position, speed, np.ones_like(speed)], axis=1)[moves]
    target, inner = effort[moves], np.ones(moves.sum(), dtype=bool)
    for _ in range(4):  # again without those at a limit, of which the first fit is not free
        found = np.linalg.lstsq(rows[inner], target[inner], rcond=None)[0]
        off = np.abs(target - rows @ found)
        bound = np.quantile(off, COMMANDED.inner)
        inner = off <= bound
    commanded = bound < COMMANDED.same * target.std() and found[0] > 0.0 > found[1]
    return (float(found[0]), float(-found[2])) if commanded else None


def _range(values: Sequence[float]) -> str:
    """Return the range of values in words."""
    low, high = (f'{value:.3g}' for value in (min(values), max(values)))
    return low if low == high else f'{low} to {high}'
