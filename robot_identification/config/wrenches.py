# SPDX-License-Identifier: Apache-2.0
"""
Recordings of joint states and the wrenches of a force-torque sensor.

In tables the six columns of the wrench take the place of the efforts, so that all formats and
checks of tables hold for them, too.  In bags wrenches have a topic and stamps of their own; they
are interpolated at the stamps of the joint states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..data.drives import Drives
from ..data.readers import checked, read_tables
from ..data.recording import READ_ROWS, Recording, recording_error, Table
from ..data.recording_config import RecordingEntry
from ..data.sampling import GAP
from ..data.unwrapping import Unwrapper
from ..loads.tool import CHANNELS, with_wrench
from ..options.fields import key_error, key_path


def check_wrench(
    entry: RecordingEntry, joints: tuple[str, ...], drives: Drives, base: Path, path: str
) -> None:
    """
    Check the entry of a recording with wrenches before anything is read.

    Raises
    ------
    SettingsError
        naming a key that is missing or has the wrong number of columns.
    RecordingError
        naming a file that does not exist.

    """
    if entry.is_factor:
        text = 'is a factor, which has no wrenches'
        raise key_error(key_path(path, 'format'), text, 'give the recording')
    bag = entry.file_format(base, path).topics
    if bag and entry.effort is not None:
        remedy = 'leave it out: data.tool.topic names the wrenches'
        raise key_error(key_path(path, 'effort'), 'is given for a bag', remedy)
    entry.check(joints, _counts(drives, joints, bag), base, path)


def _counts(drives: Drives, joints: tuple[str, ...], bag: bool) -> dict[str, int]:
    return {**drives.recorded(len(joints)), 'effort': 0 if bag else len(CHANNELS)}


def read_wrench(
    entry: RecordingEntry, joints: tuple[str, ...], drives: Drives, base: Path, topic: str
) -> Recording:
    """
    Read a recording; behind the joints it has the six channels of the wrench.

    ``topic`` is that of the wrenches in a bag.  Raises RecordingError naming file, row, column or
    topic that cannot be used.
    """
    bag = entry.file_format(base).topics
    counts = _counts(drives, joints, bag)
    tables = list(checked(read_tables(entry, joints, counts, base, READ_ROWS), entry))
    if bag:
        stamps, values = _wrenches(entry.files(base)['position'], topic)
        tables = [part for table in tables for part in _with_wrenches(table, stamps, values)]
        if not tables:
            text = f"topic '{topic}' and the joint states have no time in common"
            raise recording_error(entry.name, text, 'record them with one clock')
    velocities = [table.velocity for table in tables if table.velocity is not None]
    position = drives.joint_position(np.concatenate([table.position for table in tables]))
    measured = np.concatenate(velocities) if len(velocities) == len(tables) else None
    motion = Recording(
        time=np.concatenate([table.time for table in tables]),
        position=position,
        velocity=drives.joint_velocity(measured),
        effort=np.zeros_like(position),
        joints=joints,
        source=entry.name,
    )
    wrench = np.concatenate([table.effort for table in tables])
    return with_wrench(Unwrapper().take(motion), wrench)


def _with_wrenches(table: Table, stamps: np.ndarray, values: np.ndarray) -> Iterator[Table]:
    """Yield the rows within the time of the wrenches and outside of their gaps, with efforts."""
    time = 1e-9 * (stamps - table.origin)
    steps = np.diff(time)
    step = steps[np.clip(np.searchsorted(time, table.time) - 1, 0, steps.size - 1)]
    known = (table.time >= time[0]) & (table.time <= time[-1]) & (step <= GAP * np.median(steps))
    if known.any():
        rows = table.select(np.flatnonzero(known))
        effort = np.stack([np.interp(rows.time, time, value) for value in values.T], axis=1)
        yield replace(rows, effort=effort)


def _wrenches(bag: Path, topic: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the (n,) stamps [ns], increasing, and (n, 6) wrenches of a bag."""
    from ..data.sensor_messages import read_wrenches  # libraries of bags: slow

    found = read_wrenches(bag, topic)
    return found.stamp, found.values
