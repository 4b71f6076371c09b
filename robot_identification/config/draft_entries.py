# SPDX-License-Identifier: Apache-2.0
"""Entries of recordings for a draft of an experiment file: where each signal is in the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.csv import read_head
from ..data.drives import Drives
from ..data.readers import array_shapes, read_parquet_head
from ..data.recognition import ColumnGuess, guess_by_content, guess_by_name
from ..data.recording import recording_error, SIGNALS
from ..data.recording_config import FACTOR, RecordingEntry, SignalColumns
from ..data.sampling import likely_unit
from ..errors import one_of, SettingsError
from ..estimation.recording_faults import beginnings
from .sources import open_recording

_HEAD = 2000
"""Rows by which columns without meaningful names are distinguished."""

_BY_HAND = (
    'name the columns after signal and joint, or write the entry (docs/reference/experiment.md)'
)


def described(
    file: Path, joints: tuple[str, ...], rate: float | None
) -> tuple[RecordingEntry, ColumnGuess]:
    """
    Return the entry of a file and the guess of its columns, which may lack a signal.

    Parameters
    ----------
    file, joints:
        A recording, and names of the robot's joints.
    rate:
        Sampling rate, for tables without a time column [Hz].

    Raises
    ------
    IdentificationError
        naming the file and the part that cannot be read or guessed.

    """
    entry = RecordingEntry(file=str(file))
    kind = entry.kind()
    if kind == 'rosbag2':
        topic, guess = _of_bag(file, joints)
        return replace(entry, topic=topic), guess
    if kind == 'npz':
        names, whole = _of_arrays(file, joints)
        guess = guess_by_name(names, joints, file.name)
        columns: dict[str, Any] = {**guess.columns, **whole.columns}
        guess = replace(whole if whole.columns else guess, time=guess.time, columns=columns)
        signals = {s: c[0] if s in whole.columns else c for s, c in columns.items()}
    elif kind == 'csv':
        labels, head = read_head(file, _HEAD)
        guess = guess_by_name([str(label) for label in labels], joints, file.name)
        if isinstance(labels[0], int):
            guess = ColumnGuess()
        if not guess.columns and head is not None:
            guess = guess_by_content(head, labels, joints)
        signals = dict(guess.columns)
    elif kind == 'parquet':
        guess = _of_parquet(file, joints)
        signals = dict(guess.columns)
    else:
        raise SettingsError(
            f"'{file}' is a {kind}", file=str(file), remedy='give the recording that it is made of'
        )
    if not guess.columns:
        text = f'its columns cannot be assigned to the {len(joints)} joints {one_of(joints)}'
        remedy = _BY_HAND
        raise recording_error(file, text, remedy)
    if guess.time is not None:
        rate = None
    elif rate is None:
        raise SettingsError(
            f'{file}: has no time column',
            file=str(file),
            remedy='give its sampling rate with --rate',
        )
    return replace(entry, time=guess.time, rate=rate, **signals), guess


def is_bare(entry: RecordingEntry) -> bool:
    """Return whether an entry is a table without any columns named, which are to be guessed."""
    named = (entry.time, entry.position, entry.velocity, entry.effort, entry.motor)
    return (
        entry.file is not None
        and all(columns is None for columns in named)
        and entry.kind() not in ('rosbag2', FACTOR)
    )


def completed(
    entry: RecordingEntry, joints: tuple[str, ...], drives: Drives | None
) -> tuple[RecordingEntry, ColumnGuess]:
    """
    Return an entry that `is_bare` with the columns that are guessed, and the guess.

    ``joints`` are the robot's; ``drives`` map recorded positions to those of the joints.  Raises
    IdentificationError as `described`, and if positions or efforts are not found.
    """
    assert entry.file is not None
    ((found, guess),) = joined([described(Path(entry.file), joints, entry.rate)])
    signals = {name: getattr(found, name) for name in ('time', 'rate', *SIGNALS)}
    return timed(replace(entry, **signals), guess.joints, drives), guess


def guessed_columns(entry: RecordingEntry, guess: ColumnGuess) -> str:
    """Return what was guessed, in a sentence."""
    signals = [
        f'{s} {", ".join(map(str, guess.columns[s]))}' for s in SIGNALS if s in guess.columns
    ]
    if entry.time is not None:
        signals.append(f'time {entry.time} in {entry.time_unit}')
    told = 'their content, check them' if guess.by_content else 'their names'
    joints = ', '.join(guess.joints)
    return f'{entry.name}: columns guessed by {told}: {"; ".join(signals)}; of joints {joints}'


def _of_bag(file: Path, joints: tuple[str, ...]) -> tuple[str, ColumnGuess]:
    """Return the topic that has most of the joints, and these."""
    # with mcap and sqlite3, which take time to import
    from ..data.bag import joint_state_messages, joint_state_topics
    from ..data.joint_state import shape_of

    best: tuple[str, tuple[str, ...]] = ('', ())
    topics = joint_state_topics(file)
    for topic in topics:
        messages = next(joint_state_messages(file, topic), None)
        names = set(shape_of(bytes(messages[0])).names) if messages is not None else set()
        found = tuple(joint for joint in joints if joint in names)
        if len(found) > len(best[1]):
            best = topic, found
    if not best[1]:
        remedy = f'its topics with joint states are {one_of(topics) or "none"}'
        raise recording_error(file, f'has none of the joints {one_of(joints)}', remedy)
    return best[0], ColumnGuess(joints=best[1])


def _of_arrays(file: Path, joints: tuple[str, ...]) -> tuple[list[str], ColumnGuess]:
    """Return the names of arrays of one column, and the signals that are whole arrays."""
    single, columns = [], {}
    for name, shape in array_shapes(file).items():
        if len(shape) == 1:
            single.append(name)
        elif len(shape) == 2 and shape[1] == len(joints):
            one = guess_by_name([f'{name}_{k}' for k in range(shape[1])], joints)
            columns.update(dict.fromkeys(one.columns, (name,) * len(joints)))
    return single, ColumnGuess(columns=columns, joints=joints if columns else ())


def _of_parquet(file: Path, joints: tuple[str, ...]) -> ColumnGuess:
    """
    Return the columns, with LeRobot's ``observation.state`` for the positions.

    A list may have a gripper behind the joints.
    """
    head = read_parquet_head(file, _HEAD)
    episodes = np.unique(head.get('episode_index', ()))
    if len(episodes) > 1:
        remedy = "write an entry for each, with its 'rows' (docs/reference/experiment.md)"
        raise recording_error(file, 'has several episodes', remedy)
    gripper = f'[{len(joints)}]'
    plain = {
        name.replace('observation.state', 'position'): name
        for name in head
        if not name.endswith(gripper)
    }
    guess = guess_by_name(list(plain), joints, file.name)
    columns = {s: tuple(plain[str(c)] for c in found) for s, found in guess.columns.items()}
    return replace(guess, columns=columns)


def joined(
    found: list[tuple[RecordingEntry, ColumnGuess]],
) -> list[tuple[RecordingEntry, ColumnGuess]]:
    """
    Make one recording of tables with different signals of one motion.

    Raises
    ------
    RecordingError
        naming a table whose positions or efforts are nowhere.

    """
    alone = [(e, g) for e, g in found if g.complete or e.kind() == 'rosbag2']
    parts = [(e, g) for e, g in found if not (g.complete or e.kind() == 'rosbag2')]
    if not parts:
        return alone
    signals = [signal for _, guess in parts for signal in guess.columns]
    if len(set(signals)) < len(signals) or not {'position', 'effort'} <= set(signals):
        entry, guess = parts[0]
        missing = [signal for signal in ('position', 'effort') if signal not in guess.columns]
        text = f'has no columns of {one_of(missing)} that can be recognised'
        remedy = _BY_HAND
        raise recording_error(entry.name, text, remedy)
    first, guess = parts[0]
    one = RecordingEntry(format=first.kind(), time=None, rate=first.rate)
    for entry, each in parts:
        for signal, columns in each.columns.items():
            part: dict[str, Any] = {signal: SignalColumns(entry.file, columns)}
            one = replace(one, **part)
            guess = replace(guess, columns={**guess.columns, signal: columns})
        guess = replace(guess, effort_name=guess.effort_name or each.effort_name)
        if each.time is not None and 'position' in each.columns:
            one = replace(one, time=each.time, rate=None)
    return [(one, guess), *alone]


def timed(entry: RecordingEntry, joints: tuple[str, ...], drives: Drives | None) -> RecordingEntry:
    """Return the entry with the unit of its stamps, by the rate that is likely."""
    if entry.time is None:
        return entry
    recording = beginnings([open_recording(entry, joints, drives)])[0]
    step = float(np.median(np.diff(recording.time))) if len(recording) > 1 else 0.0
    return replace(entry, time_unit=likely_unit(step))
