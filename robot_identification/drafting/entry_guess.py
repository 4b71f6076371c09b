# SPDX-License-Identifier: Apache-2.0
"""Entries of an experiment file guessed from recordings: columns, joined tables, time units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.csv import read_head
from ..data.readers import array_shapes, read_parquet_head, read_tables
from ..data.recognition import (
    ColumnGuess,
    counted_joints,
    guess_by_content,
    guess_by_name,
    named_by_cells,
)
from ..data.recording import recording_error
from ..data.recording_config import RecordingEntry, SignalColumns
from ..data.sampling import likely_unit
from ..errors import one_of, SettingsError
from ..version import page

_HEAD = 2000
"""Rows by which columns without meaningful names are distinguished."""

_FIRST = 50
"""Rows that are read where names alone are asked for."""

_BY_HAND = (
    f'name the columns after signal and joint, or write the entry ({page("reference/experiment")})'
)


def guess_entry(
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
    kind, whole = entry.kind(), ColumnGuess()
    if kind == 'rosbag2':
        topic, guess = _of_bag(file, joints)
        return replace(entry, topic=topic), guess
    if kind == 'npz':
        names, whole = _of_arrays(file, joints)
        guess = guess_by_name(names, joints, file.name)
        columns: dict[str, Any] = {**guess.columns, **whole.columns}
        guess = replace(whole if whole.columns else guess, time=guess.time, columns=columns)
    elif kind == 'csv':
        guess = _of_table(file, joints)
    elif kind == 'parquet':
        guess = _of_parquet(file, joints)
    else:
        raise SettingsError(
            f"'{file}' is a {kind}", file=str(file), remedy='give the recording that it is made of'
        )
    if not guess.columns:
        count = counted_joints(signal_names(file))
        text = f'its columns cannot be assigned to the {len(joints)} joints {one_of(joints)}'
        if count > len(joints):
            text += f': its positions are numbered for {count}'
        raise recording_error(file, text, _BY_HAND)
    signals: dict[str, Any] = {
        s: columns[0] if s in whole.columns else columns for s, columns in guess.columns.items()
    }
    if guess.time is not None:
        rate = None
    elif rate is None:
        raise SettingsError(
            f'{file}: has no time column',
            file=str(file),
            remedy='give its sampling rate with --rate',
        )
    return replace(entry, time=guess.time, rate=rate, **signals), guess


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


def _of_table(file: Path, joints: tuple[str, ...]) -> ColumnGuess:
    """Return the columns by their names, or by their content where these mean nothing."""
    labels, head, cells = read_head(file, _HEAD)
    guess = ColumnGuess()
    if not isinstance(labels[0], int):
        names = [str(label) for label in labels]
        plain = dict(zip(named_by_cells(names, cells), names, strict=True))
        guess = guess_by_name(list(plain), joints, file.name)
        columns = {s: tuple(plain[str(c)] for c in found) for s, found in guess.columns.items()}
        guess = replace(guess, columns=columns)
    if guess.columns or head is None:
        return guess
    return guess_by_content(head, labels, joints)


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
        remedy = f"write an entry for each, with its 'rows' ({page('reference/experiment')})"
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


def merge_signal_tables(
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
        raise recording_error(entry.name, text, _BY_HAND)
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


def signal_names(file: Path) -> dict[str, tuple[int, ...] | None]:
    """Return the columns of a table by name, with the shapes of arrays of an npz."""
    if RecordingEntry(file=str(file)).kind() == 'npz':
        return dict(array_shapes(file))
    if file.suffix == '.parquet':
        return dict.fromkeys(read_parquet_head(file, _FIRST))
    return {str(name): None for name in read_head(file, _FIRST)[0]}


def with_time_unit(
    entry: RecordingEntry, joints: tuple[str, ...], counts: Mapping[str, int]
) -> RecordingEntry:
    """
    Return the entry with the unit of its stamps, by their size and the rate that is likely.

    ``counts`` are the numbers of recorded columns by signal.
    """
    if entry.time is None or isinstance(entry.time, tuple):
        return entry
    # unchecked: stamps in another unit may be larger than any in seconds
    tables = read_tables(entry, joints, counts, Path('.'), _HEAD)
    time = next((table.time for table in tables), np.empty(0))
    time = time[np.isfinite(time)]
    if len(time) < 2:
        return entry
    return replace(entry, time_unit=likely_unit(float(np.median(np.diff(time))), float(time[0])))
