# SPDX-License-Identifier: Apache-2.0
"""Locked joints held against what recordings have of them, and names left over on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
import re

import numpy as np

from ..data.column_names import position_columns
from ..data.columns import columns_of
from ..data.readers import read_head, read_tables
from ..diagnosis.recording_faults import RecordingFault
from ..errors import IdentificationError, one_of
from ..model.robot import Robot
from .sources import FileSource

_ROWS = 4096
"""Rows from the beginning of a recording that are looked at."""

_APART = {True: 0.05, False: 0.01}
"""Movement, or distance from where it is locked, of a joint that counts [rad, m]."""


@dataclass(frozen=True)
class RecordedJoints:
    """
    Position of joints in a recording.

    Attributes
    ----------
    source:
        Name of the recording.
    positions:
        Lowest and highest one by joint [rad or m]; NaN where drives leave their unit open.
    others:
        Names, or columns of positions, that are of no joint of the URDF.

    """

    source: str
    positions: Mapping[str, tuple[float, float]]
    others: tuple[str, ...]


def recorded_joints(source: FileSource, robot: Robot, wanted: Sequence[str]) -> RecordedJoints:
    """Return what a recording has of joints of a robot; nothing where it is unknown."""
    entry, base = source.entry, source.base
    known = robot.contents.moving
    try:
        if entry.file_format(base).topics:
            names, columns = _in_bag(source), {joint: joint for joint in wanted}
            columns = {joint: name for joint, name in columns.items() if name in names}
            others = [name for name in names if name not in known]
        else:
            plain = read_head(entry.files(base)['position'], 1).by_spelling
            found, left = position_columns(list(plain), list(known))
            columns = {joint: plain[found[joint]] for joint in wanted if joint in found}
            others = [plain[name] for name in left]
        positions = dict(_positions(source, robot, columns))
    except IdentificationError:
        return RecordedJoints(source.source, {}, ())
    signals = (entry.position, entry.velocity, entry.effort)
    used = {str(column) for signal in signals for column in columns_of(signal) or ()}
    return RecordedJoints(
        source.source, positions, tuple(name for name in others if name not in used)
    )


def _in_bag(source: FileSource) -> list[str]:
    from ..data.bag import joint_state_messages  # with mcap and sqlite3: slow to import
    from ..data.joint_state import decode
    from ..data.recording import SIGNALS

    bag = source.entry.files(source.base)['position']
    messages = next(joint_state_messages(bag, source.entry.topic), None)
    if messages is None:
        return []
    return list(decode(messages.select(slice(0, _ROWS)), dict.fromkeys(SIGNALS, ())).names)


def _positions(
    source: FileSource, robot: Robot, columns: Mapping[str, str]
) -> Iterator[tuple[str, tuple[float, float]]]:
    drive, moving = source.drives.position, robot.contents.moving
    matrix = np.eye(len(source.robot_joints)) if drive is None else np.array(drive.matrix)
    # one factor, such as of degrees, holds for others of the kind; what couples joints does not
    square = matrix.shape[0] == matrix.shape[1]
    coupled = not square or bool(np.any(matrix - np.diag(np.diag(matrix))))
    factors: dict[bool, set[float]] = {True: set(), False: set()}
    for joint, factor in zip(source.robot_joints, np.diag(matrix).tolist(), strict=False):
        factors[moving[joint].type == 'prismatic'].add(factor)
    for joint, column in columns.items():
        entry = replace(source.entry, position=(column,), velocity=None, effort=None, motor=None)
        counts = {'position': 1, 'velocity': 0, 'effort': 0}
        tables = read_tables(entry, (joint,), counts, source.base, _ROWS)
        table = next(tables, None)
        if table is not None and np.isfinite(table.position).all():
            known = {1.0} if drive is None else factors[moving[joint].type == 'prismatic']
            factor = next(iter(known)) if len(known) == 1 and not coupled else np.nan
            ends = factor * table.position.min(), factor * table.position.max()
            yield joint, (float(min(ends)), float(max(ends)))


def faults_of_locked(
    robot: Robot, found: Sequence[RecordedJoints]
) -> tuple[list[RecordingFault], list[str]]:
    """Return locked joints that move or stand elsewhere as faults; remarks on all others."""
    faults, remarks, still, absent, unknown = [], [], [], [], []
    for joint, place in robot.locked.items():
        moving = robot.contents.joints[joint]
        if moving.mimic is not None and moving.mimic.joint in robot.locked:
            continue
        unit = 'm' if moving.type == 'prismatic' else 'rad'
        apart = _APART[unit == 'rad']
        seen = [(each.source, *each.positions[joint]) for each in found if joint in each.positions]
        if not seen:
            absent.append(f"'{joint}' at {place:.4g} {unit}")
            continue
        if not all(np.isfinite(low) for _, low, _ in seen):
            unknown.append(f"'{joint}' at {place:.4g} {unit}")
            continue
        source, low, high = max(seen, key=lambda item: item[2] - item[1])
        if high - low > apart:
            faults.append(
                RecordingFault(
                    code='locked_joint',
                    joints=(joint,),
                    evidence=f"joint '{joint}' is locked at {place:.4g} {unit} and moves from "
                    f'{low:.4g} to {high:.4g} {unit} in {source}',
                    remedy='add it to robot.joints, with the columns of its position and effort; '
                    'it has to move in a recording to identify from',
                )
            )
            continue
        far = [max(abs(low - place), abs(high - place)) for _, low, high in seen]
        if max(far) > apart:
            places = [0.5 * (low + high) for _, low, high in seen]
            several = max(places) - min(places) > apart
            source, middle = seen[int(np.argmax(far))][0], places[int(np.argmax(far))]
            faults.append(
                RecordingFault(
                    code='locked_joint',
                    joints=(joint,),
                    evidence=f"joint '{joint}' is locked at {place:.4g} {unit} and stands at "
                    f'{middle:.4g} {unit} in {source}',
                    remedy='record it at one place in all, or in motion to identify it'
                    if several
                    else 'set robot.locked',
                )
            )
        else:
            still.append(f"'{joint}' at {place:.4g} {unit}")
    others = list(dict.fromkeys(name for each in found for name in each.others))
    alike = [name for name in others if _simplified(name) in map(_simplified, robot.locked)]
    if absent:
        text = f'locked, since the recordings do not have it: {one_of(absent)}'
        if others:
            text += (
                f'; the recordings have {one_of(alike or others)}, which the URDF does not have'
            )
        rename = (
            'rename it in the URDF, or add the joint to robot.joints and name its columns in '
            'data.*.position and data.*.effort'
        )
        if alike:
            names = tuple(j for j in robot.locked if _simplified(j) in map(_simplified, alike))
            faults.append(RecordingFault('locked_joint', text, rename, names))
        elif others:
            remarks.append(f'{text}: {rename}')
        else:
            remarks.append(
                f'{text}; where it does not move in truth, set its position in robot.locked'
            )
    elif others:
        remarks.append(
            f'passed over in the recordings, since the URDF does not have it: {one_of(others)}'
        )
    if unknown:
        remarks.append(
            f'locked, and not compared with the recordings, whose positions are those of drives '
            f'(robot.drives.position): {one_of(unknown)}'
        )
    if still:
        remarks.append(
            f'locked, since it stands still: {one_of(still)}; to identify it, record its motion'
        )
    return faults, remarks


def remarks_on_locked(robot: Robot, found: Sequence[RecordedJoints]) -> list[str]:
    """Return remarks on locked joints: absent from the recordings, still, elsewhere or moving."""
    faults, remarks = faults_of_locked(robot, found)
    return [*map(str, faults), *remarks]


def _simplified(name: str) -> str:
    return re.sub(r'[^a-z0-9]', '', name.lower())
