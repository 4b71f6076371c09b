# SPDX-License-Identifier: Apache-2.0
"""
Recordings of commands from files.

The readers know positions, velocities and efforts.  Here each signal of commands takes the place
of the efforts in turn, so that all formats and checks of tables hold for commands, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..data.commands import CommandRecording
from ..data.drives import Drives
from ..data.readers import checked, no_samples, read_tables
from ..data.recording import READ_ROWS, Table
from ..data.recording_config import RecordingEntry
from ..errors import RecordingError
from ..options.fields import key_error, key_path

COMMANDS = ('command', 'command_velocity', 'feedforward')
"""Signals of commands; the first one is needed."""

EPISODE_GAP = 10.0
"""Time between two episodes of a file [s]."""


def check_commands(
    entry: RecordingEntry, joints: tuple[str, ...], drives: Drives, base: Path, path: str
) -> None:
    """
    Check the entry of a recording with commands before anything is read.

    Raises
    ------
    SettingsError
        naming a key that is missing or has the wrong number of columns.
    RecordingError
        naming a file that does not exist.

    """
    if entry.effort is not None:
        text, remedy = "is given, but 'robot.effort_kind' is servo_command", 'leave it out'
        raise key_error(key_path(path, 'effort'), text, remedy)
    bag = entry.file_format(base, path).topics
    if entry.command is None and not bag:
        remedy = 'name the columns of the commanded positions'
        raise key_error(key_path(path, 'command'), 'is missing', remedy)
    if entry.is_factor:
        text = 'is a factor, which has no commands'
        raise key_error(key_path(path, 'format'), text, 'give the recording')
    if bag:
        counts = {'position': drives.recorded(len(joints))['position'], 'effort': 0, 'velocity': 0}
        replace(entry, effort=entry.command, command=None).check(joints, counts, base, path)
        return
    for _, part in _signals_as_efforts(entry):
        part.check(joints, drives.recorded(len(joints)), base, path)


def _signals_as_efforts(entry: RecordingEntry) -> Iterator[tuple[str, RecordingEntry]]:
    """Iterate over the signals of commands that are named, as the efforts of an entry."""
    without = replace(entry, **dict.fromkeys(COMMANDS))  # type: ignore[arg-type]
    for name in COMMANDS:
        signal = getattr(entry, name)
        if signal is not None:
            yield name, replace(without, effort=signal)


def read_commands(
    entry: RecordingEntry, joints: tuple[str, ...], drives: Drives | None, base: Path
) -> CommandRecording:
    """
    Read a recording with commands, at the joints.

    Commanded positions and velocities are mapped like measured ones.

    Raises
    ------
    RecordingError
        naming file, row, column or joint that cannot be used.

    """
    drives = drives or Drives()
    form = entry.file_format(base)
    if form.topics:
        return _from_bag(entry, joints, drives, base)
    signals: dict[str, np.ndarray] = {}
    for name, part in _signals_as_efforts(entry):
        tables = list(read_tables(part, joints, drives.recorded(len(joints)), base, READ_ROWS))
        if tables and form.episodes:
            tables = _one_after_another(tables)
        tables = list(checked(tables, entry))
        values = np.concatenate([table.effort for table in tables])
        if name == 'command':
            signals['time'] = np.concatenate([table.time for table in tables])
            position = np.concatenate([table.position for table in tables])
            signals['position'] = drives.joint_position(position)
            if tables[0].velocity is not None:
                velocity = np.concatenate([table.velocity for table in tables])
                signals['velocity'] = np.asarray(drives.joint_velocity(velocity))
            values = drives.joint_position(values)
        elif name == 'command_velocity':
            values = np.asarray(drives.joint_velocity(values))
        if name == 'command' or values.any():  # zeros command nothing
            signals[name] = values
    _require_motion(signals['command'], signals['position'], entry.name)
    return CommandRecording(joints=joints, source=entry.name, **signals)


def _one_after_another(tables: list[Table]) -> list[Table]:
    """Return tables with the stamps of episodes that each begin again one after another."""
    time = np.concatenate([table.time for table in tables])
    steps = np.diff(time, prepend=time[0])
    begins = (steps < 0.0) & (time <= time[0])
    if not begins.any():
        return tables
    # far enough apart for a gap, after which a rollout begins again
    shifts = np.where(begins, EPISODE_GAP - steps, 0.0)
    later = np.split(np.cumsum(shifts), np.cumsum([len(table) for table in tables])[:-1])
    return [replace(t, time=t.time + more) for t, more in zip(tables, later, strict=True)]


def _from_bag(
    entry: RecordingEntry, joints: tuple[str, ...], drives: Drives, base: Path
) -> CommandRecording:
    """Read the states of a trajectory controller in a bag, or two topics."""
    from ..data.command_topics import read_command_topics  # libraries of bags: slow
    from ..data.controller_states import read_controller_states

    bag = entry.files(base)['position']
    if isinstance(entry.command, str):
        named = entry.position if isinstance(entry.position, tuple) else joints
        states = read_command_topics(bag, tuple(map(str, named)), entry.command, entry.topic)
    else:
        given = entry.command if isinstance(entry.command, tuple) else joints
        topic = None if entry.topic == RecordingEntry.topic else entry.topic
        states = read_controller_states(bag, tuple(map(str, given)), topic)
    begin, end = (
        bound if bound is not None else limit
        for bound, limit in zip(entry.time_range or (None, None), (-np.inf, np.inf), strict=True)
    )
    within = (states.time >= begin) & (states.time <= end)
    kept = np.flatnonzero(within)[slice(*(entry.rows or (None, None)))]
    if len(kept) < 2:
        raise no_samples(entry)
    position, command = (
        drives.joint_position(values[kept]) for values in (states.position, states.command)
    )
    _require_motion(command, position, entry.name)

    def rates(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.asarray(drives.joint_velocity(values[kept]))

    feedforward = states.feedforward
    return CommandRecording(
        time=states.time[kept],
        position=position,
        command=command,
        joints=joints,
        velocity=rates(states.velocity),
        command_velocity=rates(states.command_velocity),
        feedforward=None if feedforward is None else feedforward[kept],
        source=entry.name,
    )


def _require_motion(command: np.ndarray, position: np.ndarray, source: str) -> None:
    """Require that some joint is commanded to move, by something else than its own position."""
    moved = np.ptp(command, axis=0).any()
    if not moved or np.array_equal(command, position):
        raise RecordingError(
            f'{source}: all commands are {"the positions themselves" if moved else "constant"}',
            file=source,
            remedy='name the columns of the commanded positions in data.identification[].command',
        )
