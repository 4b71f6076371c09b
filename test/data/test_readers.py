# SPDX-License-Identifier: Apache-2.0
"""Recordings in npz and Parquet files: numbers as written, and what is wrong."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.formats import parquet as module
from robot_identification.data.readers import read_head, read_tables
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.drafting.entry_guess import guess_entry
from robot_identification.errors import IdentificationError, RecordingError
from robot_identification.options.fields import from_mapping

JOINTS = ('a', 'b')
ENTRY = {'file': 'run.npz', 'time': 't', 'position': 'q', 'velocity': 'v', 'effort': ['c1', 'c2']}


def arrays(n_rows=100):
    rng = np.random.default_rng(0)
    c = rng.normal(size=(n_rows, 2))
    return {
        't': np.arange(n_rows) / 100.0,
        'q': rng.normal(size=(n_rows, 2)),
        'v': rng.normal(size=(n_rows, 2)).astype(np.float32),
        'c1': c[:, 0],
        'c2': c[:, 1],
    }


def load(folder, entry):
    source = open_recording(from_mapping(RecordingEntry, entry), JOINTS, base=folder)
    return list(source.blocks(30))


@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_arrays_by_key(tmp_path, save):
    data = arrays()
    save(tmp_path / 'run.npz', **data)
    blocks = load(tmp_path, ENTRY)
    assert [len(block) for block in blocks] == [30, 30, 30, 10]
    np.testing.assert_array_equal(np.concatenate([b.time for b in blocks]), data['t'])
    np.testing.assert_array_equal(np.concatenate([b.position for b in blocks]), data['q'])
    np.testing.assert_array_equal(np.concatenate([b.velocity for b in blocks]), data['v'])
    np.testing.assert_array_equal(
        np.concatenate([b.effort for b in blocks]), np.column_stack((data['c1'], data['c2']))
    )


def test_a_rate_in_place_of_stamps(tmp_path):
    np.savez(tmp_path / 'run.npz', **arrays())
    blocks = load(tmp_path, {**ENTRY, 'time': None, 'rate': 100.0, 'velocity': None})
    np.testing.assert_allclose(np.concatenate([b.time for b in blocks]), arrays()['t'])
    assert blocks[0].velocity is None


@pytest.mark.parametrize(
    ('entry', 'change', 'text'),
    [
        ({'position': 'p'}, {}, "no array 'p': its arrays are t, q, v, c1, c2"),
        ({}, {'q': np.zeros((100, 3))}, r"'q' has shape \(100, 3\), expected 2 columns"),
        ({}, {'c2': np.zeros(99)}, r"'c2' has shape \(99,\)"),
        ({}, {'t': np.zeros((100, 1))}, r"'t' has shape \(100, 1\), expected \(n_samples,\)"),
        ({}, {'v': np.zeros((90, 2))}, r"'velocity' has shape \(90, 2\), expected 100 rows"),
        ({}, {'t': np.full(100, np.nan)}, "time 'time' is nan in row 0"),
        ({}, {'t': np.zeros(100)}, 'time stamp 0 s in row 1 occurs twice'),
        ({}, {'c2': np.full(100, np.nan)}, "effort 'c2' is nan in row 0.*does not report"),
        ({}, {'q': np.array([['x', 'y']] * 100)}, 'cannot be read as npz'),
        ({}, {'q': np.array([[None, 1]] * 100)}, 'cannot be read as npz'),
        ({}, {'q': np.ones((100, 2)) * 1j}, "'q' is complex"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, entry, change, text):
    np.savez(tmp_path / 'run.npz', **{**arrays(), **change})
    with pytest.raises(RecordingError, match=text) as error:
        load(tmp_path, {**ENTRY, **entry})
    assert 'run.npz' in str(error.value)
    assert '\n' not in str(error.value)


def test_a_damaged_file_is_named(tmp_path):
    np.savez(tmp_path / 'run.npz', **arrays())
    (tmp_path / 'run.npz').write_bytes((tmp_path / 'run.npz').read_bytes()[:500])
    with pytest.raises(RecordingError, match=r'run\.npz: cannot be read as npz'):
        load(tmp_path, ENTRY)


ARM = ('shoulder', 'elbow')
COUNTS = {'position': 2, 'velocity': 2, 'effort': 2}
ROWS = 250


@pytest.fixture
def write(tmp_path):
    """Give a function that writes a file as LeRobot does, with other fields if they are given."""
    arrow = pytest.importorskip('pyarrow', reason='needs the extra parquet')
    from pyarrow import parquet

    def write(**fields):
        random = np.random.default_rng(1)
        signals = {
            name: random.standard_normal((ROWS, 3)) for name in ('state', 'velocity', 'effort')
        }
        table = {
            f'observation.{name}': arrow.FixedSizeListArray.from_arrays(values.ravel(), 3)
            for name, values in signals.items()
        }
        table |= {'timestamp': np.arange(ROWS) / 50.0, 'episode_index': np.zeros(ROWS, dtype=int)}
        table |= {'task': ['pick'] * ROWS, 'action': (signals['state'] + 1.0).tolist()} | fields
        path = tmp_path / 'episode_000000.parquet'
        parquet.write_table(arrow.table(table), path, row_group_size=100)
        return path, signals

    return write


def tables(entry, size=80):
    from pathlib import Path

    return list(read_tables(entry, ARM, COUNTS, Path(), size))


def test_a_recording_of_lerobot_is_described_and_read(write):
    path, signals = write()
    entry, guess = guess_entry(path, ARM, None)
    assert guess.joints == ARM and entry.time == 'timestamp'
    assert entry.position == ('observation.state[0]', 'observation.state[1]')
    found = tables(entry)
    assert [len(table) for table in found][0] == 80
    joined = {s: np.concatenate([getattr(t, s) for t in found]) for s in (*COUNTS, 'time')}
    np.testing.assert_array_equal(joined['time'], np.arange(ROWS) / 50.0)
    np.testing.assert_array_equal(joined['position'], signals['state'][:, :2])
    np.testing.assert_array_equal(joined['velocity'], signals['velocity'][:, :2])
    np.testing.assert_array_equal(joined['effort'], signals['effort'][:, :2])


def test_episodes_of_lerobot_are_commands_with_gaps_between_them(write):
    from pathlib import Path

    from robot_identification.config.commands import read_commands
    from robot_identification.data.commands import stretches_of

    half = ROWS // 2
    stamps = np.concatenate([np.arange(half), np.arange(ROWS - half)]) / 50.0
    path, signals = write(timestamp=stamps)
    entry = RecordingEntry(
        file=str(path), time='timestamp', position='observation.state', command='action'
    )
    found = read_commands(entry, ('a', 'b', 'c'), None, Path())
    np.testing.assert_array_equal(found.command, signals['state'] + 1.0)
    assert [len(part) for part in stretches_of([found])] == [half, ROWS - half]


def test_columns_of_numbers_stamps_and_lists_without_a_fixed_length(write):
    stamps = np.datetime64('2026-01-01') + np.arange(ROWS) * np.timedelta64(20_000, 'us')
    path, signals = write(stamp=stamps, q0=np.arange(ROWS, dtype=np.float32))
    entry = RecordingEntry(
        file=str(path),
        time='stamp',
        position=('q0', 'action[2]'),
        velocity=('observation.velocity[0]', 'timestamp'),
        effort=('observation.effort[2]', 'observation.effort[0]'),
    )
    (table,) = tables(entry, 1000)
    np.testing.assert_allclose(np.diff(table.time), 0.02, atol=1e-6)
    np.testing.assert_array_equal(table.position[:, 0], np.arange(ROWS))
    np.testing.assert_array_equal(table.position[:, 1], signals['state'][:, 2] + 1.0)
    np.testing.assert_array_equal(table.effort, signals['effort'][:, [2, 0]])
    assert 'task' not in read_head(path, 10).shapes


def test_what_is_wrong_in_parquet_is_named(write, tmp_path, monkeypatch):
    path, _ = write()
    columns = {'position': ('x', 'y'), 'effort': 'observation.effort'}
    entry = RecordingEntry(file=str(path), rate=50.0, **columns)
    with pytest.raises(RecordingError, match=r"no column 'x' of numbers: its columns are "):
        tables(entry)
    with pytest.raises(RecordingError, match='effort has 3 columns, expected 2'):
        tables(RecordingEntry(file=str(path), rate=50.0, position=('timestamp',) * 2,
                              effort='observation.effort'))  # fmt: skip
    path, _ = write(ragged=[[0.0] * (1 + k % 2) for k in range(ROWS)])
    ragged = RecordingEntry(file=str(path), rate=50.0, position=('ragged[0]',) * 2,
                            effort=('timestamp',) * 2)  # fmt: skip
    with pytest.raises(RecordingError, match="lists of 'ragged' differ in their lengths"):
        tables(ragged)
    path, _ = write(episode_index=np.arange(ROWS) // 100)
    with pytest.raises(RecordingError, match='has several episodes'):
        guess_entry(path, ARM, None)
    broken = tmp_path / 'broken.parquet'
    broken.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RecordingError, match='broken.parquet: cannot be read as Parquet'):
        guess_entry(broken, ARM, None)
    monkeypatch.setattr(module, 'MAX_CHUNK', 100)
    with pytest.raises(RecordingError, match='a column has more than'):
        guess_entry(path, ARM, None)


def test_equal_values_that_parquet_stores_once_are_counted(write, monkeypatch):
    """A kilobyte may declare gigabytes of them, in one list or in many rows."""
    path, _ = write(zeros=[[0] * 1000] * ROWS)
    with parquet_file(path) as opened:
        column = opened.metadata.row_group(0)
        stored = max(column.column(c).total_uncompressed_size for c in range(column.num_columns))
    assert stored < 8 * 100 * 1000
    monkeypatch.setattr(module, 'MAX_CHUNK', stored)
    with pytest.raises(RecordingError, match='a column has more than'):
        guess_entry(path, ARM, None)
    monkeypatch.undo()
    monkeypatch.setattr(module, 'FREE_ROWS', 0)
    monkeypatch.setattr(module, 'MAX_ROW_RATIO', 0)
    with pytest.raises(RecordingError, match=f'declares {ROWS} rows, more than its bytes hold'):
        guess_entry(path, ARM, None)


def parquet_file(path):
    from pyarrow import parquet

    return parquet.ParquetFile(path)


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    with pytest.raises(IdentificationError, match=r"robot-identification\[parquet\]' brings it"):
        guess_entry(tmp_path / 'run.parquet', ARM, None)


def test_the_libraries_of_bags_are_imported_where_a_bag_is_read():
    script = 'import robot_identification.identification.library, sys\n'
    script += 'print(*sys.modules)'
    command = [sys.executable, '-c', script]
    loaded = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    assert not {'mcap', 'sqlite3', 'robot_identification.data.joint_state'} & set(loaded)
