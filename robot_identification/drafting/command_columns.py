# SPDX-License-Identifier: Apache-2.0
"""
Columns of commands and states, recognised by the words of their names.

``des_dof_pos``, ``action``, ``q_cmd`` are commands, ``dof_pos``, ``observation.state``, ``q``
positions.  A recording may lack joints of the robot, such as a gripper behind an arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
import re
from typing import Any

from ..data.columns import Signal
from ..data.drives import Drives
from ..data.recording import recording_error
from ..data.recording_config import RecordingEntry
from ..errors import one_of
from ..version import page
from .entry_guess import signal_names, with_time_unit

_WORDS = {
    'command': 'des desired cmd command commanded commands target targets action actions '
    'reference ref goal setpoint',
    'velocity': 'vel velocity velocities dq qd speed',
    'effort': 'tau torque torques effort efforts current ff feedforward',
    'position': 'pos position positions q state angle angles actual measured present joint',
    'time': 'time t timestamp timestamps stamp stamps',
}
_MEANING = {word: kind for kind, words in _WORDS.items() for word in words.split()}


def has_commands(file: Path, joints: Sequence[str]) -> bool:
    """Return whether a table has commands by its names and no effort, or a bag a controller's."""
    try:
        if _is_bag(file):
            from ..data.bag import bag_topics
            from ..data.controller_states import CONTROLLER_STATE
            from ..data.joint_state import JOINT_STATE

            topics = bag_topics(file).values()
            return CONTROLLER_STATE in topics and JOINT_STATE not in topics
        found = _signals(signal_names(file), commanded_joints(file, joints))
    except Exception:  # the draft of efforts says what is wrong with the file
        return False
    return 'command' in found and 'effort' not in found


def _is_bag(file: Path) -> bool:
    return RecordingEntry(file=str(file)).file_format().topics


def _kind(words: Sequence[str]) -> str:
    """Return the signal that words name; empty for none."""
    kinds = {_MEANING[word] for word in words if word in _MEANING}
    if 'command' in kinds:
        if 'velocity' in kinds:
            return 'command_velocity'
        return 'feedforward' if 'effort' in kinds else 'command'
    return next((k for k in ('velocity', 'effort', 'position', 'time') if k in kinds), '')


@dataclass(frozen=True)
class _Group:
    """Columns of one signal; ``owners`` are the joints that they name, none where they count."""

    kind: str
    columns: Signal
    count: int
    owners: tuple[str, ...] = ()


def _groups(
    names: Mapping[str, tuple[int, ...] | None], joints: Sequence[str]
) -> Iterator[_Group]:
    """Iterate over the signals; columns are in the order of the joints, or of their numbers."""
    grouped: dict[tuple[str, str], list[tuple[int, str, str]]] = {}
    for name, shape in names.items():
        owner = None if shape else max((j for j in joints if j in name), key=len, default=None)
        stem = name
        if shape is None:
            stem = name.replace(owner, '') if owner else re.sub(r'[_.\[]?\d+\]?$', '', name)
        kind = _kind([word for word in re.split(r'[^a-z]+', stem.lower()) if word])
        if kind == 'time' and (shape is None or len(shape) == 1):
            yield _Group(kind, name, 1)
        elif shape is not None and len(shape) == 2 and kind:
            yield _Group(kind, name, shape[1])
        elif shape is None and kind and kind != 'time':
            number = re.search(r'(\d+)\]?$', name)
            place = joints.index(owner) if owner else int(number[1]) if number else len(names)
            grouped.setdefault((kind, stem), []).append((place, name, owner or ''))
    for (kind, _), group in grouped.items():
        _, columns, owners = zip(*sorted(group, key=lambda each: each[0]), strict=True)
        yield _Group(kind, columns, len(columns), owners if all(owners) else ())


def _signals(
    names: Mapping[str, tuple[int, ...] | None], joints: Sequence[str]
) -> dict[str, Signal]:
    """Return the columns by signal; of several candidates for one, the first."""
    found: dict[str, Signal] = {}
    for group in _groups(names, joints):
        if group.kind == 'time' or group.count == len(joints):
            found.setdefault(group.kind, group.columns)
    return found


def commands_of(file: Path, joints: Sequence[str]) -> Signal | None:
    """Return the columns of commands of so many joints in a table; None where there are none."""
    return _signals(signal_names(file), joints).get('command')


def commanded_joints(file: Path, joints: Sequence[str]) -> tuple[str, ...]:
    """
    Return the joints of which a recording has commands and positions.

    All of them where it is a bag, or where nothing is recognised; where columns or arrays count
    joints, they are the first ones.
    """
    if _is_bag(file):
        return tuple(joints)
    names = signal_names(file)
    found = _signals(names, joints)
    if {'command', 'position'} <= set(found):
        return tuple(joints)
    groups = list(_groups(names, joints))
    commands, places = (
        [group for group in groups if group.kind == kind] for kind in ('command', 'position')
    )
    for command in commands:
        for place in places:
            both = [joint for joint in joints if joint in command.owners and joint in place.owners]
            if both:
                return tuple(both)
            counted = not command.owners and not place.owners and command.count == place.count
            if counted and 1 < command.count < len(joints):
                return tuple(joints[: command.count])
    return tuple(joints)


def command_entry(file: Path, joints: Sequence[str], rate: float | None) -> RecordingEntry:
    """Return the entry of a recording, its columns by the words of their names."""
    if _is_bag(file):
        return _bag_entry(file, joints)
    names = signal_names(file)
    found = _signals(names, joints)
    found.pop('effort', None)
    for name in ('position', 'command'):
        if name not in found:
            raise recording_error(
                file,
                f'no {name}s of {len(joints)} joints are recognised among {one_of(names)}',
                f'name its columns in data.identification[].{name} ({page("how_to/commands")})',
            )
    time = found.pop('time', None)
    if time is None and rate is None:
        raise recording_error(file, 'no stamps are recognised', 'give its rate')
    clock: dict[str, Any] = {'time': str(time)} if rate is None else {'rate': rate}
    columns: dict[str, Any] = {**found, **clock}
    entry = RecordingEntry(file=str(file), **columns)
    as_efforts = replace(entry, effort=entry.command, command=None)
    counts = Drives().recorded(len(joints))
    return replace(entry, time_unit=with_time_unit(as_efforts, tuple(joints), counts).time_unit)


def _bag_entry(file: Path, joints: Sequence[str]) -> RecordingEntry:
    """Return the entry of a bag with a controller's states, or topics of commands and states."""
    from ..data.bag import joint_state_topics
    from ..data.command_topics import command_topics
    from ..data.controller_states import controller_state_topics, read_controller_states

    topics = controller_state_topics(file)
    commands = command_topics(file)
    if topics or not commands:
        read_controller_states(file, joints)  # the only one, with all joints
        return RecordingEntry(file=str(file), topic=topics[0])
    states = [name for name in joint_state_topics(file) if name not in commands]
    if len(commands) > 1 or len(states) != 1:
        raise recording_error(
            file,
            f'has the commands {one_of(commands)}, and states {one_of(states) or "none"}',
            'name one each in command and topic of data.identification[]',
        )
    return RecordingEntry(file=str(file), topic=states[0], command=commands[0])
