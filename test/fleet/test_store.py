# SPDX-License-Identifier: Apache-2.0
"""Recordings of a fleet: paths, robots, times; its folder, after crashes and in other hands."""

import os
from pathlib import Path
import subprocess
import sys

import pytest
from robot_identification.config.experiment import FleetSettings
from robot_identification.errors import IdentificationError, RecordingError, SettingsError
from robot_identification.fleet.store import (
    find_recordings,
    FleetRecording,
    key_of,
    open_store,
    serial_of,
    stamp_of,
)
from robot_identification.untrusted.files import load_yaml

ROOT = Path(__file__).resolve().parents[2]
ENTRY = FleetRecording('/data/Ärm 1/run.csv', 1.5, 10.0, {'a': 'b'}, 7, 0.1, ('odd',))


def test_what_is_kept_is_known_to_the_next_run(tmp_path):
    with open_store(tmp_path) as store:
        assert store.finished('key') is None
        kept = store.keep('key', ENTRY, b'factor')
        assert store.finished('key') == kept
    with open_store(tmp_path) as store:
        assert store.finished('key') == kept
        assert store.factor_file('key').read_bytes() == b'factor'


def test_a_line_cut_short_is_as_if_it_were_not_there(tmp_path):
    with open_store(tmp_path) as store:
        store.keep('key', ENTRY, b'one')
        store.keep('other', FleetRecording('/x'), b'two')
    journal = tmp_path / 'journal.jsonl'
    journal.write_bytes(journal.read_bytes()[:-20])
    with open_store(tmp_path) as store:
        assert store.finished('key') is not None
        assert store.finished('other') is None
        store.keep('third', FleetRecording('/y'), b'three')
    with open_store(tmp_path) as store:
        assert store.finished('key') is not None
        assert store.finished('third') is not None


def test_damaged_and_missing_factors_are_not_finished(tmp_path):
    with open_store(tmp_path) as store:
        store.keep('key', ENTRY, b'factor')
        store.factor_file('key').write_bytes(b'facto')
        assert store.finished('key') is None
        store.factor_file('key').unlink()
        assert store.finished('key') is None


def test_foreign_lines_in_the_journal_are_passed_over(tmp_path):
    tmp_path.joinpath('journal.jsonl').write_bytes(b'\xff\n{}\n[1]\n{"key": 1}\n"x"\n')
    with open_store(tmp_path) as store:
        assert store.finished('key') is None


def test_two_runs_at_once_in_one_folder_are_refused(tmp_path):
    with (
        open_store(tmp_path),
        pytest.raises(IdentificationError, match=f'another fleet is at work.*{os.getpid()}'),
        open_store(tmp_path),
    ):
        pass
    with open_store(tmp_path):
        pass


def test_a_killed_process_leaves_no_lock(tmp_path):
    code = (
        'import os, signal, sys\n'
        'from robot_identification.fleet.store import open_store\n'
        'store = open_store(sys.argv[1]).__enter__()\n'
        'os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    subprocess.run([sys.executable, '-c', code, tmp_path], cwd=ROOT, check=False)
    assert (tmp_path / 'lock').read_text().startswith('process')
    with open_store(tmp_path):
        pass


def test_files_of_robots_have_names_of_their_own(tmp_path):
    with open_store(tmp_path) as store:
        names = [
            store.robot_file(serial).name
            for serial in ('A-7', 'a/b', 'a_b', '..', '', 'Ärm', 'x' * 300, '.A-7', '-rf')
        ]
    assert names[0] == 'A-7.factor'
    assert names[2] == 'a_b.factor'
    assert names[5] == 'Ärm.factor'
    assert len(set(names)) == len(names)
    assert all('/' not in name and len(name.encode()) < 120 for name in names)


def test_reasons_are_written_and_taken_back(tmp_path):
    with open_store(tmp_path) as store:
        path = tmp_path / 'rejected.yaml'
        store.write_rejected({'/b': 'two: lines\n', '/a "x"': "it's cut"})
        assert load_yaml(path.read_text()) == {
            'rejected': [
                {'recording': '/a "x"', 'reason': "it's cut"},
                {'recording': '/b', 'reason': 'two: lines\n'},
            ]
        }
        store.write_rejected({})
        assert not path.exists()


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(IdentificationError, match='cannot write results to .* is kept: choose'):
        open_store(tmp_path / 'file').__enter__()


def touch(path: Path, text: str = '') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_bags_folders_and_patterns_are_found_once(tmp_path, monkeypatch):
    file = touch(tmp_path / 'a b' / 'Ärm 1' / 'run.csv')
    bag = touch(tmp_path / 'a b' / 'bag' / 'metadata.yaml').parent
    touch(bag / 'bag_0.mcap')
    loose = touch(tmp_path / 'c' / 'cut_0.mcap')
    touch(tmp_path / 'c' / 'notes.txt')
    touch(tmp_path / 'c' / '.hidden.csv')
    monkeypatch.chdir(tmp_path)
    expected = tuple(sorted(map(str, (file, bag, loose))))
    assert find_recordings(['.']) == expected
    assert find_recordings([tmp_path, './a b/*/*.csv', bag, str(loose)]) == expected
    assert find_recordings(['c/notes.txt']) == (str(tmp_path / 'c' / 'notes.txt'),)


def test_a_name_with_a_star_in_it_is_a_name_first(tmp_path):
    file = touch(tmp_path / 'run[1]*.csv')
    touch(tmp_path / 'run1x.csv')
    assert find_recordings([file]) == (str(file),)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(RecordingError, match='there is no recording .*nothing'):
        find_recordings([tmp_path / 'nothing*'])
    (tmp_path / 'empty').mkdir()
    with pytest.raises(RecordingError, match='holds no recording'):
        find_recordings([tmp_path / 'empty'])


def test_a_key_changes_with_path_content_time_and_problem(tmp_path):
    file = touch(tmp_path / 'run.csv', 'one')
    key = key_of(str(file), 'p')
    assert key_of(str(file), 'p') == key
    keys = {key, key_of(str(file), 'q')}
    os.utime(file, (1.0, 1.0))
    keys.add(key_of(str(file), 'p'))
    os.utime(touch(file, 'three'), (1.0, 1.0))
    keys.add(key_of(str(file), 'p'))
    os.utime(touch(tmp_path / 'other.csv', 'three'), (1.0, 1.0))
    keys.add(key_of(str(tmp_path / 'other.csv'), 'p'))
    assert len(keys) == 5


def test_a_bags_key_changes_with_its_files(tmp_path):
    bag = touch(tmp_path / 'bag' / 'metadata.yaml').parent
    storage = touch(bag / 'bag_0.mcap', 'one')
    key = key_of(str(bag), 'p')
    touch(storage, 'longer')
    assert key_of(str(bag), 'p') != key


def test_serial_numbers_come_from_the_folder_the_path_or_the_bag(tmp_path):
    path = '/data/robot 7/2025/run.mcap'
    assert serial_of('/data/robot 7/run.mcap', {}, FleetSettings()) == 'robot 7'
    assert serial_of(path, {}, FleetSettings(serial='/data/([^/]+)/')) == 'robot 7'
    assert serial_of(path, {}, FleetSettings(serial='robot .')) == 'robot 7'
    assert serial_of(path, {'serial': 'ü'}, FleetSettings(serial_key='serial')) == 'ü'
    # a file in its bag's folder belongs to the folder above
    touch(tmp_path / 'A7' / 'run1' / 'metadata.yaml')
    assert serial_of(str(tmp_path / 'A7' / 'run1' / 'run1_0.mcap'), {}, FleetSettings()) == 'A7'


def test_a_serial_number_that_is_not_there():
    with pytest.raises(RecordingError, match="'fleet.serial'.*is not found"):
        serial_of('/data/run.mcap', {}, FleetSettings(serial='robot(.)'))
    for serial in ('a\nb', '\x1b[2J'):
        with pytest.raises(RecordingError, match='has control characters: rename it'):
            serial_of(f'/data/{serial}/run.mcap', {}, FleetSettings())
    with pytest.raises(RecordingError, match="no 'serial'"):
        serial_of('/data/run.mcap', {}, FleetSettings(serial_key='serial'))


@pytest.mark.parametrize(
    ('path', 'stamp'),
    [
        ('/d/2025-10-09/run.csv', 1759968000.0),
        ('/d/run_20251009_1230.csv', 1760013000.0),
        ('/d/run_2025-10-09T12-30-05.csv', 1760013005.0),
        ('/d/run_1760013005.csv', 1760013005.0),
    ],
)
def test_dates_in_paths(path, stamp):
    pattern = r'\d{10}|\d{4}-?\d\d-?\d\d(?:[T_]\d\d-?\d\d(?:-?\d\d)?)?'
    assert stamp_of(path, None, FleetSettings(stamp=pattern)) == stamp


def test_times_of_bags_and_files(tmp_path):
    file = touch(tmp_path / 'run.csv')
    os.utime(file, (12345.0, 12345.0))
    assert stamp_of(str(file), None, FleetSettings()) == 12345.0
    assert stamp_of(str(file), 99.5, FleetSettings()) == 99.5
    with pytest.raises(RecordingError, match="'9999' is no date"):
        stamp_of('/d/9999', None, FleetSettings(stamp=r'\d+'))
    with pytest.raises(RecordingError, match="'20251399' is no date"):
        stamp_of('/d/20251399', None, FleetSettings(stamp=r'\d+'))


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(SettingsError, match='no regular expression'):
        FleetSettings(serial='(')
    with pytest.raises(SettingsError, match='leave one of them out'):
        FleetSettings(serial='a', serial_key='b')
