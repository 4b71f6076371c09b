# SPDX-License-Identifier: Apache-2.0
"""The keys of a recording in the experiment file."""

import os

import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.drives import Drives
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import RecordingError, SettingsError
from robot_identification.options.fields import from_mapping

PATH = 'data.identification[0]'
JOINTS = ('a', 'b')
COUNTS = {'position': 2, 'velocity': 2, 'effort': 2}
COMPLETE = {'file': 'run.csv', 'time': 't', 'position': ['p', 'q'], 'effort': ['c', 'd']}


def check(folder, entry):
    from_mapping(RecordingEntry, entry, PATH).check(JOINTS, COUNTS, folder, PATH)


@pytest.mark.parametrize(
    ('name', 'kind'),
    [
        ('run.csv', 'csv'),
        ('run.TXT', 'csv'),
        ('run.npz', 'npz'),
        ('run.mcap', 'rosbag2'),
        ('run_0.db3', 'rosbag2'),
        ('RUN.MAT', 'mat'),
        ('run.h5', 'hdf5'),
        ('run.npy', 'npy'),
        ('folder', 'rosbag2'),
    ],
)
def test_the_format_is_told_by_the_name(tmp_path, name, kind):
    (tmp_path / 'folder').mkdir()
    assert RecordingEntry(file=name).file_format(tmp_path).name == kind


def test_a_format_that_is_given_counts():
    assert RecordingEntry(file='run.log', format='csv').file_format().name == 'csv'


def test_a_complete_entry_passes(tmp_path):
    (tmp_path / 'run.csv').write_text('')
    check(tmp_path, COMPLETE)
    check(tmp_path, {**COMPLETE, 'time': None, 'rate': 100.0})


@pytest.mark.parametrize(
    ('change', 'key'),
    [
        ({'file': 'run.log'}, 'format'),
        ({'position': None}, 'position'),
        ({'effort': None}, 'effort'),
        ({'time': None}, 'time'),
        ({'rate': 100.0}, 'time'),
        ({'position': ['p']}, 'position'),
        ({'position': 'p'}, 'position'),
        ({'velocity': ['v', 'w', 'x']}, 'velocity'),
        ({'effort': {'columns': [1, 2, 3]}}, 'effort'),
        ({'rows': [5, 5]}, 'rows'),
        ({'rows': [-5, None]}, 'rows'),
        ({'time_range': [2.0, 1.0]}, 'time_range'),
        ({'file': None, 'format': 'csv'}, 'file'),
        ({'file': None, 'format': 'rosbag2'}, 'file'),
        ({'sampling': 5}, 'sampling'),
        ({'rate': 'fast'}, 'rate'),
        ({'format': 'xls'}, 'format'),
        ({'rows': [1]}, 'rows'),
    ],
)
def test_what_does_not_make_sense_names_the_key(tmp_path, change, key):
    (tmp_path / 'run.csv').write_text('')
    with pytest.raises(SettingsError) as error:
        check(tmp_path, {**COMPLETE, **change})
    assert error.value.key == f'{PATH}.{key}'
    assert f'{PATH}.{key}' in str(error.value)
    assert '\n' not in str(error.value)


def test_names_in_a_bag_are_those_of_the_joints_unless_the_drives_are_others(tmp_path):
    (tmp_path / 'bag').mkdir()
    drives = from_mapping(Drives, {'effort': {'matrix': [[1, 0, 0], [0, 1, 0]]}})
    entry = from_mapping(RecordingEntry, {'file': 'bag'}, PATH)
    entry.check(JOINTS, COUNTS, tmp_path, PATH)
    with pytest.raises(SettingsError, match=r"effort' has 2 columns, expected 3") as error:
        entry.check(JOINTS, drives.recorded(2), tmp_path, PATH)
    assert error.value.key == f'{PATH}.effort'


def test_a_missing_file_is_named_with_the_folder_that_paths_start_at(tmp_path):
    with pytest.raises(RecordingError, match=r'run\.csv does not exist') as error:
        check(tmp_path, COMPLETE)
    assert str(tmp_path) in error.value.remedy
    assert error.value.key == f'{PATH}.file'
    (tmp_path / 'run.csv').write_text('')
    with pytest.raises(RecordingError, match=r'effort\.csv does not exist'):
        check(tmp_path, {**COMPLETE, 'effort': {'file': 'effort.csv', 'columns': ['c', 'd']}})


@pytest.mark.parametrize('name', ['run.csv', 'run.factor', 'run.mcap'])
def test_what_is_neither_a_file_nor_a_folder_is_not_opened(tmp_path, name):
    """Reading a pipe that nobody writes into would never end."""
    os.mkfifo(tmp_path / name)
    content = {'file': name} if 'csv' not in name else {**COMPLETE, 'file': name}
    entry = from_mapping(RecordingEntry, content, PATH)
    with pytest.raises(RecordingError, match='is neither a file nor a folder') as error:
        open_recording(entry, JOINTS, base=tmp_path, path=PATH)
    assert error.value.file == str(tmp_path / name)


def test_links_in_a_circle_are_told(tmp_path):
    (tmp_path / 'run.csv').symlink_to(tmp_path / 'run.csv')
    with pytest.raises(RecordingError, match=r'run\.csv cannot be opened \(Too many levels'):
        check(tmp_path, COMPLETE)


@pytest.mark.parametrize(
    ('name', 'way'),
    [
        ('run.bag', 'rosbags-convert --src run.bag --dst run'),
        ('run.xlsx', 'CSV'),
        ('RUN.ULG', 'ulog2csv RUN.ULG'),
        ('run.pkl', 'CSV'),
    ],
)
def test_what_others_write_is_named_with_the_way_out(name, way):
    with pytest.raises(RecordingError, match='is not read') as caught:
        RecordingEntry(file=name).file_format()
    assert way in caught.value.remedy
