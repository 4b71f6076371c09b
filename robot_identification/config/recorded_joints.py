# SPDX-License-Identifier: Apache-2.0
"""Position of joints in a recording, and names that are of no joint of the robot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..data.column_names import position_columns
from ..data.columns import columns_of
from ..data.readers import read_head, read_tables
from ..diagnosis.locked_joints import RecordedJoints
from ..errors import IdentificationError
from ..model.robot import Robot
from .sources import FileSource

_ROWS = 4096
"""Rows from the beginning of a recording that are looked at."""


def recorded_joints(source: FileSource, robot: Robot, wanted: Sequence[str]) -> RecordedJoints:
    """Return what a recording has of joints of a robot; nothing where it is unknown."""
    entry, base = source.entry, source.base
    known = robot.contents.moving
    try:
        if entry.file_format(base).topics:
            names, columns = _in_bag(source), {joint: joint for joint in wanted}
            everyone = {name: name for name in names}
            columns = {joint: name for joint, name in columns.items() if name in names}
            others = [name for name in names if name not in known]
        else:
            plain = read_head(entry.files(base)['position'], 1).by_spelling
            found, left = position_columns(list(plain), list(known))
            everyone = {joint: plain[found[joint]] for joint in found}
            columns = {joint: everyone[joint] for joint in wanted if joint in found}
            others = [plain[name] for name in left]
        positions = dict(_ranges(source, robot, columns))
        astray = dict(_astray(source, robot, everyone))
    except IdentificationError:
        return RecordedJoints(source.source, {}, ())
    signals = (entry.position, entry.velocity, entry.effort)
    used = {str(column) for signal in signals for column in columns_of(signal) or ()}
    left_over = tuple(name for name in others if name not in used)
    return RecordedJoints(source.source, positions, left_over, astray)


def _in_bag(source: FileSource) -> list[str]:
    from ..data.bag import joint_state_messages  # with mcap and sqlite3: slow to import
    from ..data.joint_state import decode
    from ..data.recording import SIGNALS

    bag = source.entry.files(source.base)['position']
    messages = next(joint_state_messages(bag, source.entry.topic), None)
    if messages is None:
        return []
    return list(decode(messages.select(slice(0, _ROWS)), dict.fromkeys(SIGNALS, ())).names)


def _ranges(
    source: FileSource, robot: Robot, columns: Mapping[str, str]
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Iterate over the lowest and highest positions of joints."""
    for joint, column in columns.items():
        position = _positions(source, robot, {joint: column})
        if position is not None:
            yield joint, (float(position.min()), float(position.max()))


def _astray(
    source: FileSource, robot: Robot, columns: Mapping[str, str]
) -> Iterator[tuple[str, float]]:
    """Iterate over how far joints that mimic others are from where these put them."""
    drive = source.drives.position
    if drive is not None and drive.offset is not None:
        return  # the offsets of joints that are not identified are not known
    for joint, mimic in robot.mimics.followed.items():
        if joint in columns and mimic.joint in columns:
            pair = {name: columns[name] for name in (joint, mimic.joint)}
            position = _positions(source, robot, pair)
            if position is not None and np.isfinite(position).all():
                follower, master = position.T
                away = follower - (mimic.multiplier * master + mimic.offset)
                yield joint, float(np.abs(away).max())


def _positions(source: FileSource, robot: Robot, columns: Mapping[str, str]) -> np.ndarray | None:
    """Return positions (n_rows, n) of joints, NaN where their unit is open; None if not finite."""
    drive, moving = source.drives.position, robot.contents.moving
    matrix = np.eye(len(source.robot_joints)) if drive is None else np.array(drive.matrix)
    # one factor, such as of degrees, holds for others of the kind; what couples joints does not
    square = matrix.shape[0] == matrix.shape[1]
    coupled = not square or bool(np.any(matrix - np.diag(np.diag(matrix))))
    factors: dict[bool, set[float]] = {True: set(), False: set()}
    for joint, factor in zip(source.robot_joints, np.diag(matrix).tolist(), strict=False):
        factors[moving[joint].type == 'prismatic'].add(factor)
    names = tuple(columns.values())
    entry = replace(source.entry, position=names, velocity=None, effort=None, motor=None)
    counts = {'position': len(names), 'velocity': 0, 'effort': 0}
    table = next(read_tables(entry, tuple(columns), counts, source.base, _ROWS), None)
    if table is None or not np.isfinite(table.position).all():
        return None
    scale = np.full(len(names), np.nan)
    for i, joint in enumerate(columns):
        known = {1.0} if drive is None else factors[moving[joint].type == 'prismatic']
        if len(known) == 1 and not coupled:
            scale[i] = next(iter(known))
    return np.asarray(scale * table.position)
