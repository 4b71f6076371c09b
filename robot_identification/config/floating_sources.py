# SPDX-License-Identifier: Apache-2.0
"""
Recordings of robots with floating bases: joints, IMU and contacts of one file.

The columns of the IMU and of the contacts are read as the efforts are, so that all formats and
checks of tables hold for them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ..data.columns import columns_of, Signal
from ..data.drives import Drives
from ..data.floating_recording import FloatingRecording
from ..data.readers import checked, read_tables
from ..data.recording import READ_ROWS, Recording
from ..data.recording_config import RecordingEntry
from ..data.unwrapping import Unwrapper
from ..errors import RecordingError
from ..model.floating_base import BASE_JOINTS
from ..options.fields import key_error, key_path

_WIDTHS = {'gyroscope': 3, 'accelerometer': 3, 'orientation': 4}


def read_floating(
    entry: RecordingEntry,
    joints: tuple[str, ...],
    contacts: int,
    drives: Drives | None,
    base: Path,
    path: str,
) -> FloatingRecording:
    """
    Read a recording of a robot with a floating base into memory.

    Parameters
    ----------
    entry:
        Location and columns.
    joints:
        Those of the base, then the driven ones.
    contacts:
        Number of the robot's contacts.
    drives, base, path:
        Map to the joints' side, folder at which relative paths start, and key path of the entry.

    Raises
    ------
    SettingsError
        naming a key that is missing or has the wrong number of columns.
    RecordingError
        naming file, row and column that cannot be used.

    """
    driven, drives = joints[len(BASE_JOINTS) :], drives or Drives()
    imu = entry.imu
    if imu is None:
        raise key_error(
            key_path(path, 'imu'),
            'is missing, but robot.base is floating',
            'name the columns of the gyroscope and of the accelerometer',
        )
    if entry.file_format(base, path).topics:
        raise RecordingError(
            f"'{entry.name}' is a bag, and floating bases are read from tables so far",
            file=entry.name,
            remedy='write joints, IMU and contacts into one CSV, npz, mat, hdf5 or parquet',
        )
    counts = drives.recorded(len(driven))
    entry.check(driven, counts, base, path)
    tables = list(checked(read_tables(entry, driven, counts, base, READ_ROWS), entry))
    unwrapper = Unwrapper()
    motion = Recording.concatenate(
        [unwrapper.take(drives.recording(table, driven, entry.name)) for table in tables]
    )
    others = {
        name: _columns(entry, getattr(imu, name), width, driven, base, f'{path}.imu.{name}')
        for name, width in _WIDTHS.items()
        if getattr(imu, name) is not None or name != 'orientation'
    }
    stance = np.zeros((len(motion), 0), dtype=bool)
    if contacts:
        values = _columns(entry, entry.contacts, contacts, driven, base, f'{path}.contacts')
        stance = values > entry.contact_threshold
    padded = np.zeros((2, len(motion), len(joints)))
    padded[0, :, len(BASE_JOINTS) :] = motion.position
    padded[1, :, len(BASE_JOINTS) :] = motion.effort
    return FloatingRecording(
        time=motion.time,
        position=padded[0],
        effort=padded[1],
        joints=joints,
        source=entry.name,
        left_out=entry.leave_out,
        stance=stance,
        **others,
    )


def _columns(
    entry: RecordingEntry,
    signal: Signal,
    width: int,
    joints: tuple[str, ...],
    base: Path,
    key: str,
) -> np.ndarray:
    """Return (n_samples, width) columns of an entry."""
    names = columns_of(signal)
    if names is None:
        raise key_error(key, 'is missing', f'name its {width} columns')
    if len(names) not in (1, width):
        text = f'has {len(names)} columns, expected {width}'
        raise key_error(key, text, 'name one column for each axis or contact', value=names)
    counts = {'position': len(joints), 'velocity': 0, 'effort': width}
    alone = replace(entry, effort=signal, velocity=None)
    tables = checked(read_tables(alone, joints, counts, base, READ_ROWS), alone)
    values = np.concatenate([table.effort for table in tables])
    if values.shape[1] != width:
        text = f'has {values.shape[1]} columns, expected {width}'
        raise key_error(key, text, 'name one column for each axis or contact', value=names)
    return values
