# SPDX-License-Identifier: Apache-2.0
"""Entries of an experiment file guessed from recordings: columns, joined tables, time units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
import warnings

import numpy as np

from ..data.column_names import ColumnGuess, counted_joints, guess_by_content, guess_by_name
from ..data.columns import Column, columns_of, SignalColumns
from ..data.formats import Head
from ..data.formats.arrays import ALL, column_name
from ..data.readers import read_head, read_tables
from ..data.recording import recording_error
from ..data.recording_config import RecordingEntry
from ..data.sampling import likely_unit
from ..data.velocity_ratio import velocity_ratio
from ..errors import Omission, one_of, RecordingError, SettingsError
from ..version import page

_HEAD = 2000
"""Rows by which columns without meaningful names are distinguished."""

_FIRST = 50
"""Rows that are read where names alone are asked for."""

_BY_HAND = (
    f'name the columns after signal and joint, or write the entry ({page("reference/experiment")})'
)


def guess_entry(
    file: Path, joints: tuple[str, ...], rate: float | None, given: ColumnGuess | None = None
) -> tuple[RecordingEntry, ColumnGuess]:
    """
    Return the entry of a file and the guess of its columns, which may lack a signal.

    Parameters
    ----------
    file, joints:
        A recording, and names of the robot's joints.
    rate:
        Sampling rate, for tables without a time column [Hz].
    given:
        Columns of a table in place of a guess; None for none.

    Raises
    ------
    IdentificationError
        naming the file and the part that cannot be read or guessed.

    """
    entry = RecordingEntry(file=str(file))
    form = entry.file_format()
    if form.topics:
        topic, guess = _of_bag(file, joints)
        return replace(entry, topic=topic), guess
    if form.head is None:
        remedy = 'give the recording that it is made of'
        raise SettingsError(f"'{file}' is {form.title}", file=str(file), remedy=remedy)
    whole: set[str] = set()
    guess = given or ColumnGuess()
    if given is None:
        guess, whole = _of_columns(read_head(file, _HEAD), file, joints)
    if not guess.columns:
        count = counted_joints(signal_names(file))
        text = f'its columns cannot be assigned to the {len(joints)} joints {one_of(joints)}'
        if count > len(joints):
            text += f': its positions are numbered for {count}'
        raise recording_error(file, text, _BY_HAND)
    signals: dict[str, Any] = {
        s: columns[0] if s in whole else columns for s, columns in guess.columns.items()
    }
    if guess.time is not None:
        rate = None
    elif rate is None:
        rate = _rate_by_velocities(replace(entry, time=None, rate=1.0, **signals), guess.joints)
    return replace(entry, time=guess.time, rate=rate, **signals), guess


def file_columns(file: Path, joints: tuple[str, ...]) -> tuple[tuple[Column, ...], ColumnGuess]:
    """
    Return all columns of a table, and what is recognised of them.

    Columns of arrays are named one by one.  Raises IdentificationError for a file that has no
    columns, or cannot be read.
    """
    if RecordingEntry(file=str(file)).file_format().head is None:
        raise recording_error(file, 'has no columns', 'its joints have names')
    choices: list[Column] = []
    for name, shape in read_head(file, _FIRST).shapes.items():
        if shape is None or len(shape) == 1:
            choices.append(name)
        elif len(shape) == 2:
            choices += [column_name(str(name), k) for k in range(shape[1])]
    try:
        guess, whole = _of_columns(read_head(file, _HEAD), file, joints)
    except RecordingError:
        return tuple(choices), ColumnGuess()
    columns = {
        signal: tuple(column_name(str(c), k) for k, c in enumerate(found))
        for signal, found in guess.columns.items()
        if signal in whole
    }
    return tuple(choices), replace(guess, columns={**guess.columns, **columns})


def _rate_by_velocities(entry: RecordingEntry, joints: tuple[str, ...]) -> float:
    """
    Return the rate at which recorded velocities are those of the positions [Hz].

    Raises SettingsError where there is none that all joints have.
    """
    if entry.position is not None and entry.velocity is not None:
        counts = {'position': len(joints), 'velocity': len(joints), 'effort': 0}
        states = replace(entry, effort=None)
        table = next(read_tables(states, joints, counts, Path('.'), _HEAD), None)
        if table is not None and table.velocity is not None:
            moved = np.isfinite(table.position).all() and np.isfinite(table.velocity).all()
            ratio = velocity_ratio(table.time, table.position, table.velocity) if moved else None
            if ratio is not None:
                rate = float(f'{ratio:.3g}')
                text = f'{entry.name}: {rate:g} Hz by its velocities, since it has no time column'
                warnings.warn(Omission(text), stacklevel=4)
                return rate
    raise SettingsError(
        f'{entry.name}: has no time column',
        file=str(entry.file),
        remedy='give its sampling rate with --rate',
    )


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


def _of_columns(head: Head, file: Path, joints: tuple[str, ...]) -> tuple[ColumnGuess, set[str]]:
    """
    Return the columns by their names, or by their content where these mean nothing.

    The other value are the signals that are whole arrays.  A list may have a gripper behind the
    joints.
    """
    if head.several:
        remedy = f"write an entry for each, with its 'rows' ({page('reference/experiment')})"
        raise recording_error(file, 'has several episodes', remedy)
    plain, gripper = head.by_spelling, f'[{len(joints)}]'
    if head.lists:
        plain = {word: name for word, name in plain.items() if not name.endswith(gripper)}
    whole = _whole_arrays(head, file, joints)
    guess, columns = _by_name(plain, joints, file)
    if not whole and not columns:  # arrays of the first joints, as of an arm before its gripper
        guess, columns = _by_name(
            {**plain, **_array_columns(head, file, len(joints))}, joints, file
        )
    if whole:
        columns.update({signal: (name,) * len(joints) for signal, name in whole.items()})
        guess = replace(guess, joints=joints, effort_name='', by_content=False)
    if head.environments > 1:
        read = next((name for name in whole.values() if name.endswith(', :]')), None)
        if read is not None:
            text = f'{file}: of {head.environments} environments the first one is read, as {read}'
            warnings.warn(Omission(text), stacklevel=4)
    guess = replace(guess, columns=columns)
    if not columns and head.rows is not None:
        guess = guess_by_content(head.rows, head.labels, joints)
    return guess, set(whole)


def _by_name(
    plain: Mapping[str, str], joints: tuple[str, ...], file: Path
) -> tuple[ColumnGuess, dict[str, tuple[Column, ...]]]:
    """Return a guess by the names of columns, and the columns in it by signal."""
    guess = guess_by_name(list(plain), joints, file.name)
    columns = guess.columns.items()
    return guess, {signal: tuple(plain[str(c)] for c in found) for signal, found in columns}


def _array_columns(head: Head, file: Path, most: int) -> dict[str, str]:
    """Return the columns of arrays that have at most some, by names to guess by."""
    widths = {
        str(name): shape[1]
        for name, shape in head.shapes.items()
        if shape is not None and len(shape) == 2 and shape[1] <= most
    }
    found: dict[str, str] = {}
    for name in widths:
        other = found.setdefault(name.rpartition('/')[2], name)
        if other != name:
            text = f"has several recordings, '{other}' and '{name}'"
            raise recording_error(file, text, _BY_HAND)
    return {
        f'{name.removesuffix(ALL)}_{k}': column_name(name, k)
        for name, width in widths.items()
        for k in range(width)
    }


def _whole_arrays(head: Head, file: Path, joints: tuple[str, ...]) -> dict[str, str]:
    """Return the arrays of one column a joint by the signals that they are named after."""
    found: dict[str, list[str]] = {}
    for column, shape in head.shapes.items():
        if shape is None or len(shape) != 2 or shape[1] != len(joints):
            continue
        name = str(column)
        words = [f'{name.removesuffix(ALL)}_{k}' for k in range(shape[1])]
        stem = file.name if name == ALL else ''
        for signal in guess_by_name(words, joints, stem).columns:
            others = found.setdefault(signal, [])
            if others and name.rpartition('/')[0] != others[0].rpartition('/')[0]:
                text = f"has several recordings, '{others[0]}' and '{name}'"
                raise recording_error(file, text, _BY_HAND)
            others.append(name)
    return {signal: _best_array(signal, names, joints) for signal, names in found.items()}


def _best_array(signal: str, names: Sequence[str], joints: tuple[str, ...]) -> str:
    """Return the array of a signal whose name says most: not that of commands."""
    words = {f'{name.removesuffix(ALL)}_{k}': name for name in names for k in range(len(joints))}
    columns = guess_by_name(list(words), joints).columns.get(signal, ())
    return words[str(columns[0])] if columns else names[-1]


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
    whole = [guess.complete or entry.file_format().topics for entry, guess in found]
    alone = [each for each, is_whole in zip(found, whole, strict=True) if is_whole]
    parts = [each for each, is_whole in zip(found, whole, strict=True) if not is_whole]
    if not parts:
        return alone
    signals = [signal for _, guess in parts for signal in guess.columns]
    if len(set(signals)) < len(signals) or not {'position', 'effort'} <= set(signals):
        entry, guess = parts[0]
        missing = [signal for signal in ('position', 'effort') if signal not in guess.columns]
        text = f'has no columns of {one_of(missing)} that can be recognised'
        raise recording_error(entry.name, text, _BY_HAND)
    first, guess = parts[0]
    one = RecordingEntry(format=first.file_format().name, time=None, rate=first.rate)
    for entry, each in parts:
        for signal, columns in each.columns.items():
            given = columns_of(getattr(entry, signal))
            part: dict[str, Any] = {signal: SignalColumns(entry.file, given)}
            one = replace(one, **part)
            guess = replace(guess, columns={**guess.columns, signal: columns})
        guess = replace(guess, effort_name=guess.effort_name or each.effort_name)
        if each.time is not None and 'position' in each.columns:
            one = replace(one, time=each.time, rate=None)
    return [(one, guess), *alone]


def signal_names(file: Path) -> dict[str, tuple[int, ...] | None]:
    """Return the columns of a table, and the arrays with their shapes, by name."""
    return {str(name): shape for name, shape in read_head(file, _FIRST).shapes.items()}


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
