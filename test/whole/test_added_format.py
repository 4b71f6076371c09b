# SPDX-License-Identifier: Apache-2.0
"""A recording format added as CONTRIBUTING.md describes: one value, and one line of the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification import identify as identify_recordings
from robot_identification.config.experiment import Experiment
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.requests import entry_like
from robot_identification.data.formats import FORMATS
from robot_identification.data.formats.format import first_bytes, Format, Head
from robot_identification.data.recognition import file_title
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.drafting.draft import draft
from robot_identification.drafting.settings import DraftSettings
from robot_identification.errors import RecordingError, SettingsError
from robot_identification.fleet.store import find_recordings
from robot_identification.identification.pipeline import identify
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping, json_schema

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
NAMES = ('t', 'q1', 'q2', 'q3', 'v1', 'v2', 'v3', 'tau1', 'tau2', 'tau3')


def rows_of(file):
    return np.frombuffer(file.read_bytes()[4:]).reshape(-1, len(NAMES))


def blocks(wanted, size):
    rows = rows_of(wanted.files['position'])
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        signals = {s: part[:, [NAMES.index(c) for c in cs]] for s, cs in wanted.columns.items()}
        yield signals, dict(wanted.columns)


FLAT = Format(
    'flat',
    'a flat file of numbers',
    ('.flat',),
    lambda file: first_bytes(file, 4) == b'FLAT',
    {b'FLAT': ('a flat file of numbers', 'rename it to {stem}.flat')},
    blocks=blocks,
    head=lambda file, rows: Head(dict.fromkeys(NAMES)),
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write one motion as CSV and in the new format."""
    monkeypatch.setitem(FORMATS, 'flat', FLAT)
    robot = Robot.from_urdf(URDF)
    time = np.arange(2000) / 250.0
    speed, phase = np.array([1.3, 0.9, 1.7]), np.array([0.1, 0.7, 1.9])
    angle = time[:, None] * speed + phase
    q, v, a = 0.8 * np.sin(angle), 0.8 * speed * np.cos(angle), -0.8 * speed**2 * np.sin(angle)
    data = robot.model.createData()
    tau = np.array([pin.rnea(robot.model, data, *row) for row in zip(q, v, a, strict=True)])
    table = np.column_stack([time, q, v, tau])
    np.savetxt(tmp_path / 'run.csv', table, '%.17g', ',', header=','.join(NAMES), comments='')
    (tmp_path / 'run.flat').write_bytes(b'FLAT' + table.tobytes())
    return tmp_path / 'run.csv', tmp_path / 'run.flat'


def result_of(file):
    found = draft(URDF, [file], DraftSettings(effort_kind='joint_torque'))
    path = file.with_suffix('.yaml')
    path.write_text(found.text(URDF, file.parent))
    assert f'format: {file.suffix[1:]}\n' in path.read_text().replace('  # ', '\n')
    return identify(load_experiment(path))


def test_init_and_identify_read_it_as_any_other(files):
    one, other = map(result_of, files)
    np.testing.assert_array_equal(one.estimate.base.values, other.estimate.base.values)
    settings = {'robot': {'effort_kind': 'joint_torque'}}
    called = identify_recordings(URDF, files[1], settings=settings)
    np.testing.assert_array_equal(one.estimate.base.values, called.estimate.base.values)


def test_schema_settings_and_errors_name_it(files):
    definitions = json_schema(Experiment, '')['definitions']
    for name in ('RecordingEntry', 'MotorSide'):
        assert "'flat'" in str(definitions[name]['properties']['format'])
    assert from_mapping(RecordingEntry, {'file': 'x', 'format': 'flat'}).format == 'flat'
    with pytest.raises(SettingsError, match='flat'):
        from_mapping(RecordingEntry, {'file': 'x', 'format': 'flt'})
    with pytest.raises(SettingsError) as error:
        RecordingEntry(file='run.unknown').file_format()
    assert 'flat' in error.value.remedy


def test_fleets_requests_and_recognition_know_it(files):
    csv, flat = files
    assert find_recordings([flat.parent]) == (str(csv), str(flat))
    assert file_title(flat) == FLAT.title
    known = (RecordingEntry(file='other.flat', rate=250.0, position=NAMES[1:4]),)
    entry, alike = entry_like(flat, known, flat.parent)
    assert alike and entry.position == NAMES[1:4]
    with pytest.raises(RecordingError, match='columns of .* are not given.*format flat'):
        entry_like(flat, (), flat.parent)
    flat.rename(csv)
    with pytest.raises(RecordingError, match=r'is a flat file of numbers: rename it to run\.flat'):
        draft(URDF, [csv], DraftSettings(effort_kind='joint_torque'))
