# SPDX-License-Identifier: Apache-2.0
"""
Signals of a table's columns by their names or content.

Names are split into words: ``actual_q_0``, ``/joint_states/position[0]``, ``elbow_joint.effort``
and ``tau3`` have a word for the signal and one for the joint.  Columns with other names are
distinguished by their content: velocities are the derivative of positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
import re

import numpy as np

from .columns import Column
from .recording import SIGNALS

_EFFORT = ('torque', 'current')

_WORDS = {
    'position': 'q pos position positions angle angles theta qpos',
    'velocity': 'v dq qd vel velocity velocities speed speeds qdot qvel omega',
    'acceleration': 'a ddq qdd acc acceleration accelerations qddot',
    'torque': 'tau torque torques trq effort efforts moment moments',
    'current': 'i cur curr current currents amp amps',
    'time': 't time times timestamp timestamps stamp sec secs seconds clock',
}
_SECONDS = [(word,) for word in ['sec', 'secs', 'seconds', 's']]
_NANOSECONDS = [(word,) for word in ['nanosec', 'nanosecs', 'nanoseconds', 'nsec', 'nsecs', 'ns']]
"""Last words of the columns of a stamp in two parts."""

_KIND = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_OTHER = {
    *('tcp', 'pose', 'cartesian', 'ee', 'tool', 'force', 'wrench', 'ft', 'ext', 'external'),
    *('temperature', 'temperatures', 'temp', 'voltage', 'mode', 'window', 'error'),
}
"""Words of signals that are none of the joints."""

_COMMANDED = {
    *('target', 'cmd', 'command', 'commanded', 'desired', 'des', 'd', 'ref', 'reference'),
    *('setpoint', 'goal'),
}
_MEASURED = {'actual', 'measured', 'meas', 'msr', 'act', 'feedback', 'state', 'states'}
_MOTOR = {'motor', 'motors', 'drive'}
_SPLIT = re.compile(r'[A-Z]?[a-z]+|[A-Z]+|\d+')
_LIKE = 0.9
"""Correlation above which a column is taken for the derivative of another one."""


@dataclass(frozen=True)
class ColumnGuess:
    """
    Columns of a table by signal, in the order of the joints.

    Attributes
    ----------
    time:
        Column of the time stamps, or those of seconds and nanoseconds; None if there is none.
    columns:
        Columns of ``position``, ``velocity`` and ``effort``, as far as they were found.
    joints:
        Names of the joints that the columns are of.
    effort_name:
        ``torque`` or ``current`` by the names of the efforts; else empty.
    by_content:
        True if the signals were found by content, not by name.
    given:
        True if they were given by hand.
    time_unit:
        Unit of the stamps that was given by hand; empty for the likely one.

    """

    time: Column | tuple[Column, Column] | None = None
    columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    joints: tuple[str, ...] = ()
    effort_name: str = ''
    by_content: bool = False
    given: bool = False
    time_unit: str = ''

    @classmethod
    def given_by_hand(
        cls,
        joints: Sequence[str],
        columns: Mapping[str, Mapping[str, Column | None]],
        time: Column | tuple[Column, Column] | None = None,
        time_unit: str = '',
    ) -> ColumnGuess:
        """Return columns by signal and joint, of the joints that have all signals of any joint."""
        found = {
            signal: {joint: c for joint, c in each.items() if c is not None}
            for signal, each in columns.items()
        }
        found = {signal: each for signal, each in found.items() if each}
        if not found:
            joints = ()
        whole = tuple(joint for joint in joints if all(joint in e for e in found.values()))
        of = {signal: tuple(each[joint] for joint in whole) for signal, each in found.items()}
        return cls(time, of if whole else {}, whole, given=True, time_unit=time_unit)

    @property
    def complete(self) -> bool:
        """True if positions and efforts were found."""
        return {'position', 'effort'} <= set(self.columns)


@dataclass(frozen=True)
class _Group:
    """Columns that differ in their joint alone."""

    kind: str
    merit: int
    joints: tuple[str, ...]
    columns: tuple[Column, ...]


def guess_by_name(names: Sequence[str], joints: Sequence[str], stem: str = '') -> ColumnGuess:
    """
    Guess columns by their names.

    Parameters
    ----------
    names:
        Of the columns, in their order.
    joints:
        Of the robot; columns that count joints from 0 or 1 are those of the first ones.
    stem:
        Name of the file, which gives the signal where the columns name joints alone.

    """
    time = _time(names)
    groups = [
        group for group in _groups(names, joints, stem) if group.kind in (*SIGNALS, *_EFFORT)
    ]
    places = [group for group in groups if group.kind == 'position'] or groups
    if not places:
        return ColumnGuess(time)
    of = max(places, key=lambda group: (len(group.joints), group.merit)).joints
    efforts = [group for group in groups if group.kind in _EFFORT]
    if efforts and not any(group.joints == of for group in efforts):
        # a gripper may have a position, and no effort
        common = [tuple(joint for joint in of if joint in group.joints) for group in efforts]
        of = max(common, key=len) or of
    guess = ColumnGuess(time, joints=of)
    for signal in SIGNALS:
        kinds = _EFFORT if signal == 'effort' else (signal,)
        fitting = [g for g in groups if g.kind in kinds and set(of) <= set(g.joints)]
        if fitting:
            best = max(
                fitting,
                key=lambda group: (group.joints == of, group.merit, group.kind == 'torque'),
            )
            chosen = dict(zip(best.joints, best.columns, strict=True))
            columns = tuple(chosen[joint] for joint in of)
            guess = replace(guess, columns={**guess.columns, signal: columns})
            if signal == 'effort':
                guess = replace(guess, effort_name=best.kind)
    return guess


def counted_joints(names: Iterable[str]) -> int:
    """Return how many joints are counted by the names of columns with positions."""
    words = [_words(name) for name in names]
    return len({each[-1] for each in words if _kind(each) == 'position' and each[-1].isdigit()})


def position_columns(
    names: Sequence[str], joints: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """Return columns of measured positions by joint, and those that neither name nor count one."""
    spelled = sorted(((_words(joint), joint) for joint in joints), key=lambda item: -len(item[0]))
    found: dict[str, str] = {}
    others = []
    for name in names:
        words = _words(name)
        if _kind(words) != 'position' or (_COMMANDED | _MOTOR) & set(words):
            continue
        joint = _without(words, spelled)[0]
        if joint:
            found.setdefault(joint, name)
        elif not any(word.isdigit() for word in words):
            others.append(name)
    return found, others


def named_by_cells(names: Sequence[str], cells: Sequence[str]) -> list[str]:
    """
    Return column names with joints in place of their numbers.

    In what ``rostopic echo -p`` writes, columns ``field.name0``, ``field.name1`` and so on have in
    their first row, ``cells``, the joints of the columns ``field.position0``, ``field.position1``.
    """
    words = [_words(name) for name in names]
    joints = {
        each[-1]: cell
        for each, cell in zip(words, cells, strict=True)
        if each[-2:-1] == ('name',) and each[-1].isdigit()
    }
    return [
        f'{joints[each[-1]]}.{_kind(each)}' if _kind(each) and each[-1] in joints else name
        for name, each in zip(names, words, strict=True)
    ]


def guess_by_content(
    table: np.ndarray, labels: Sequence[Column], joints: Sequence[str]
) -> ColumnGuess:
    """
    Guess columns by their content.

    Parameters
    ----------
    table:
        (n_samples, n_columns) the first rows.
    labels:
        Of the columns.
    joints:
        Of the robot; there is one column of each in blocks of positions, velocities, efforts.

    """
    step = np.diff(table, axis=0)
    even = [j for j in range(table.shape[1]) if (step[:, j] > 0.0).all()]
    time = min(even, key=lambda j: step[:, j].std() / step[:, j].mean(), default=None)
    rest = [j for j in range(table.shape[1]) if j != time]
    n = len(joints)
    guess = ColumnGuess(None if time is None else labels[time], by_content=True)
    if not rest or len(rest) % n or not 2 <= len(rest) // n <= 4:
        return guess
    blocks = [rest[k : k + n] for k in range(0, len(rest), n)]
    clock = table[:, time] if time is not None else np.arange(len(table), dtype=float)
    pairs = [(a, b) for a in range(len(blocks)) for b in range(len(blocks)) if a != b]
    likeness = {(a, b): _likeness(table, clock, blocks[a], blocks[b]) for a, b in pairs}
    places: dict[str, int] = {'position': 0, 'effort': len(blocks) - 1}
    moved = [pair for pair, value in likeness.items() if value > _LIKE]
    if moved:
        # an acceleration is the derivative of a velocity, which is that of a position
        position = next((a for a, b in moved if a not in {d for _, d in moved}), moved[0][0])
        velocity = next(b for a, b in moved if a == position)
        derived = {position, velocity, *(b for a, b in moved if a == velocity)}
        left = [block for block in range(len(blocks)) if block not in derived]
        if not left:
            return guess
        places = {'position': position, 'velocity': velocity, 'effort': left[-1]}
    columns = {signal: tuple(labels[j] for j in blocks[block]) for signal, block in places.items()}
    return replace(guess, columns=columns, joints=tuple(joints))


def _likeness(table: np.ndarray, clock: np.ndarray, first: list[int], second: list[int]) -> float:
    """Return the correlation of one block's derivative with another block."""
    slope = np.gradient(table[:, first], clock, axis=0).ravel()
    other = table[:, second].ravel()
    scale = np.linalg.norm(slope) * np.linalg.norm(other)
    return float(slope @ other / scale) if scale > 0.0 else 0.0


def _time(names: Sequence[str]) -> Column | tuple[Column, Column] | None:
    """Return the column of the stamps, or those of seconds and nanoseconds."""
    times = [name for name in names if _kind(_words(name)) == 'time']
    parts = {
        what: next((name for name in names if _words(name)[-1:] in words), None)
        for what, words in (('whole', _SECONDS), ('rest', _NANOSECONDS))
    }
    if parts['whole'] is not None and parts['rest'] is not None:
        return parts['whole'], parts['rest']
    return times[0] if times else None


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _SPLIT.findall(name))


def _kind(words: Sequence[str]) -> str:
    """Return the signal that the words name; the last word with a meaning counts."""
    if _OTHER & set(words):
        return ''
    if 'dot' in words and 'q' in words:
        return 'velocity'
    found = [_KIND[word] for word in words if word in _KIND and word not in _MEASURED]
    # `pos [rad]` has a unit, `tau_a` a name: one letter counts if there is nothing else
    clear = [_KIND[word] for word in words if word in _KIND and len(word) > 1]
    return (clear or found or [''])[-1]


def _groups(names: Sequence[str], joints: Sequence[str], stem: str) -> Iterator[_Group]:
    """Iterate over columns that belong together and have one column a joint."""
    spelled = sorted(((_words(joint), joint) for joint in joints), key=lambda item: -len(item[0]))
    named: dict[tuple[str, ...], dict[str, str]] = {}
    counted: dict[tuple[str, ...], dict[int, str]] = {}
    for name in names:
        words = _words(name)
        joint, rest = _without(words, spelled)
        if joint:
            named.setdefault(rest, {}).setdefault(joint, name)
            continue
        numbers = [place for place, word in enumerate(words) if word.isdigit()]
        if numbers:
            at = numbers[-1]
            rest = (*words[:at], *words[at + 1 :])
            counted.setdefault(rest, {}).setdefault(int(words[at]), name)
    for rest, by_joint in named.items():
        of = tuple(joint for joint in joints if joint in by_joint)
        yield _group(rest, stem, of, tuple(by_joint[joint] for joint in of))
    for rest, by_number in counted.items():
        order = sorted(by_number)
        first = order[0]
        if first in (0, 1) and order == list(range(first, first + len(order))):
            of = tuple(joints[: len(order)])
            if 1 < len(order) <= len(joints) or len(joints) == 1:
                yield _group(rest, stem, of, tuple(by_number[k] for k in order[: len(of)]))


def _group(
    rest: tuple[str, ...], stem: str, joints: tuple[str, ...], columns: tuple[Column, ...]
) -> _Group:
    kind, words = _kind(rest), set(rest)
    if not kind and not _OTHER & words:
        kind = _kind(_words(stem))
    merit = 4 * (not _COMMANDED & words) + 2 * bool(_MEASURED & words) + (not _MOTOR & words)
    return _Group(kind, merit, joints, columns)


def _without(
    words: tuple[str, ...], spelled: Sequence[tuple[tuple[str, ...], str]]
) -> tuple[str, tuple[str, ...]]:
    """Return the joint that a column names, and its other words."""
    for name, joint in spelled:
        for at in range(len(words) - len(name) + 1):
            if words[at : at + len(name)] == name:
                return joint, (*words[:at], *words[at + len(name) :])
    return '', words
