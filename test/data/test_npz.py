# SPDX-License-Identifier: Apache-2.0
"""Recordings in npz files."""

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import RecordingError
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
