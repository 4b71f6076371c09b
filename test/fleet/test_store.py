# SPDX-License-Identifier: Apache-2.0
"""The folder of a fleet, after crashes and in other hands."""

import os
from pathlib import Path
import subprocess
import sys

import pytest
from robot_identification.errors import IdentificationError
from robot_identification.fleet.store import FleetRecording, open_store
from robot_identification.results.result_yaml import load

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
            for serial in ('A-7', 'a/b', 'a_b', '..', '', 'Ärm', 'x' * 300, '.A-7')
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
        assert load(path) == {
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
