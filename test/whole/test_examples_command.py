# SPDX-License-Identifier: Apache-2.0
"""The command ``examples`` copies the shipped examples and replaces nothing."""

from __future__ import annotations

from pathlib import Path

from command_line import run_command
import pytest
from robot_identification.model import urdf_files

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENT = 'examples/tx40/experiment.yaml'


def test_the_examples_are_copied_with_their_robots(tmp_path):
    run_command(tmp_path, 'examples', 'new/folder')
    for name in (EXPERIMENT, 'examples/tx40/pos_read_data.csv.gz', 'urdf/tx40.urdf'):
        assert (tmp_path / 'new/folder' / name).read_bytes() == (ROOT / name).read_bytes()


def test_files_that_exist_stay_as_they_are(tmp_path):
    (tmp_path / EXPERIMENT).parent.mkdir(parents=True)
    (tmp_path / EXPERIMENT).write_text('mine')
    assert run_command(tmp_path, 'examples').stdout.endswith(' 1 there already\n')
    assert (tmp_path / EXPERIMENT).read_text() == 'mine'
    assert ': 0 files written, ' in run_command(tmp_path, 'examples').stdout


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / 'taken').write_text('')
    refused = run_command(tmp_path, 'examples', 'taken', expect=2)
    assert refused.stderr.startswith('error: ') and 'taken' in refused.stderr


@pytest.mark.parametrize('site', ['lib/python3.12/site-packages', '.'])
def test_an_installation_has_them_below_share(tmp_path, monkeypatch, site):
    module = tmp_path / site / 'robot_identification' / 'model' / 'urdf_files.py'
    shared = tmp_path / 'share' / 'robot_identification'
    shared.mkdir(parents=True)
    (shared / 'package.xml').touch()
    monkeypatch.setattr(urdf_files, '__file__', str(module))
    assert urdf_files.shared_folder() == shared
