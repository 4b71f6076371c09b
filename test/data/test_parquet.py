# SPDX-License-Identifier: Apache-2.0
"""Recordings in Parquet: numbers as written, columns that are lists, and what is wrong."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from robot_identification.config.draft_entries import described
from robot_identification.data import readers as module
from robot_identification.data.readers import read_parquet_head, read_tables
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import IdentificationError, RecordingError

JOINTS = ('shoulder', 'elbow')
COUNTS = {'position': 2, 'velocity': 2, 'effort': 2}
N = 250


@pytest.fixture
def write(tmp_path):
    """Give a function that writes a file as LeRobot does, with other fields if they are given."""
    arrow = pytest.importorskip('pyarrow', reason='needs the extra parquet')
    from pyarrow import parquet

    def write(**fields):
        random = np.random.default_rng(1)
        signals = {
            name: random.standard_normal((N, 3)) for name in ('state', 'velocity', 'effort')
        }
        table = {
            f'observation.{name}': arrow.FixedSizeListArray.from_arrays(values.ravel(), 3)
            for name, values in signals.items()
        }
        table |= {'timestamp': np.arange(N) / 50.0, 'episode_index': np.zeros(N, dtype=int)}
        table |= {'task': ['pick'] * N, 'action': signals['state'].tolist()} | fields
        path = tmp_path / 'episode_000000.parquet'
        parquet.write_table(arrow.table(table), path, row_group_size=100)
        return path, signals

    return write


def tables(entry, size=80):
    from pathlib import Path

    return list(read_tables(entry, JOINTS, COUNTS, Path(), size))


def test_a_recording_of_lerobot_is_described_and_read(write):
    path, signals = write()
    entry, guess = described(path, JOINTS, None)
    assert guess.joints == JOINTS and entry.time == 'timestamp'
    assert entry.position == ('observation.state[0]', 'observation.state[1]')
    found = tables(entry)
    assert [len(table) for table in found][0] == 80
    joined = {s: np.concatenate([getattr(t, s) for t in found]) for s in (*COUNTS, 'time')}
    np.testing.assert_array_equal(joined['time'], np.arange(N) / 50.0)
    np.testing.assert_array_equal(joined['position'], signals['state'][:, :2])
    np.testing.assert_array_equal(joined['velocity'], signals['velocity'][:, :2])
    np.testing.assert_array_equal(joined['effort'], signals['effort'][:, :2])


def test_columns_of_numbers_stamps_and_lists_without_a_fixed_length(write):
    stamps = np.datetime64('2026-01-01') + np.arange(N) * np.timedelta64(20_000, 'us')
    path, signals = write(stamp=stamps, q0=np.arange(N, dtype=np.float32))
    entry = RecordingEntry(
        file=str(path),
        time='stamp',
        position=('q0', 'action[2]'),
        velocity=('observation.velocity[0]', 'timestamp'),
        effort=('observation.effort[2]', 'observation.effort[0]'),
    )
    (table,) = tables(entry, 1000)
    np.testing.assert_allclose(np.diff(table.time), 0.02, atol=1e-6)
    np.testing.assert_array_equal(table.position[:, 0], np.arange(N))
    np.testing.assert_array_equal(table.position[:, 1], signals['state'][:, 2])
    np.testing.assert_array_equal(table.effort, signals['effort'][:, [2, 0]])
    assert 'task' not in read_parquet_head(path, 10)


def test_what_is_wrong_is_named(write, tmp_path, monkeypatch):
    path, _ = write()
    columns = {'position': ('x', 'y'), 'effort': 'observation.effort'}
    entry = RecordingEntry(file=str(path), rate=50.0, **columns)
    with pytest.raises(RecordingError, match=r"no column 'x' of numbers: its columns are "):
        tables(entry)
    with pytest.raises(RecordingError, match='effort has 3 columns, expected 2'):
        tables(RecordingEntry(file=str(path), rate=50.0, position=('timestamp',) * 2,
                              effort='observation.effort'))  # fmt: skip
    path, _ = write(ragged=[[0.0] * (1 + k % 2) for k in range(N)])
    ragged = RecordingEntry(file=str(path), rate=50.0, position=('ragged[0]',) * 2,
                            effort=('timestamp',) * 2)  # fmt: skip
    with pytest.raises(RecordingError, match="lists of 'ragged' differ in their lengths"):
        tables(ragged)
    path, _ = write(episode_index=np.arange(N) // 100)
    with pytest.raises(RecordingError, match='has several episodes'):
        described(path, JOINTS, None)
    broken = tmp_path / 'broken.parquet'
    broken.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RecordingError, match='broken.parquet: cannot be read as Parquet'):
        described(broken, JOINTS, None)
    monkeypatch.setattr(module, 'MAX_CHUNK', 100)
    with pytest.raises(RecordingError, match='a column has more than'):
        described(path, JOINTS, None)


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    with pytest.raises(IdentificationError, match=r"robot-identification\[parquet\]' brings it"):
        described(tmp_path / 'run.parquet', JOINTS, None)
