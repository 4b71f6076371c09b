# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed or full, folders that are gone, paths that are no text."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest
from robot_identification.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
NAMES = [command.run.__name__ for command in COMMANDS]
DAILY = ('identify', 'plan')
NOT_TEXT = os.fsdecode(b'run\xff')
OLS = ('--set', 'estimation.method=ols')

REDIRECTIONS = {
    'full': '>/dev/full',
    'closed': '>&-',
    'all closed': '<&- >&- 2>&-',
    'errors full': '>/dev/full 2>/dev/full',
}


def run(folder, *arguments, how=''):
    """Run the command by a shell, which redirects its streams; return code and lines of error."""
    words = [sys.executable, '-m', 'robot_identification.cli', *map(str, arguments)]
    done = subprocess.run(
        ['sh', '-c', f'{how} "$@"' if how.endswith(';') else f'"$@" {how}', 'sh', *words],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        check=False,
    )
    error = done.stderr.decode()
    assert 'Traceback' not in error and 'Exception ignored' not in error
    return done.returncode, error.splitlines()


@pytest.mark.parametrize(
    'name',
    [pytest.param(n, marks=[] if n in DAILY else [pytest.mark.soak]) for n in NAMES],
)
def test_no_command_fails_silently_where_its_output_is_full(tmp_path, name):
    code, error = run(tmp_path, name, '--help', how='>/dev/full')
    reason = 'cannot write to standard output: No space left on device'
    assert (code, error) == (1, [f'error: {reason}'])


@pytest.mark.parametrize(
    'how',
    [
        pytest.param(how, marks=[] if how in ('full', 'all closed') else [pytest.mark.soak])
        for how in REDIRECTIONS
    ],
)
def test_an_identification_writes_its_results_and_says_that_its_output_is_lost(workspace, how):
    code, error = run(workspace.folder, 'identify', 'experiment.yaml', *OLS, how=REDIRECTIONS[how])
    assert code == 1
    told = [line.startswith('error: cannot write to standard output') for line in error]
    assert told == ([True] if how in ('full', 'closed') else [])
    # no file has taken a closed stream's place: what is printed is in none
    for path in (workspace.folder / 'results').iterdir():
        assert b'wrote result.yaml, ' not in path.read_bytes()


def test_closed_input_and_errors_do_not_matter(workspace):
    arguments = ('identify', 'experiment.yaml', *OLS)
    assert run(workspace.folder, *arguments, how='<&- 2>&-') == (0, [])


def test_warnings_that_nobody_can_see_do_not_matter(tmp_path):
    text = (
        'import sys; from robot_identification.untrusted.streams import open_streams; '
        'open_streams(); print("warning", file=sys.stderr)'
    )
    done = subprocess.run(
        ['sh', '-c', '"$@" <&- 2>&-', 'sh', sys.executable, '-c', text],
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize('name', ['identify', 'structure', 'check', 'export', 'plan', 'node'])
def test_a_deleted_working_directory_is_named(tmp_path, name):
    words = {'node': ('stop',)}.get(name, ('file.yaml',))
    gone = f'mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone;'
    code, error = run(tmp_path, name, *words, how=gone)
    line = 'error: the working directory was deleted: change to another one (cd)'
    assert (code, error) == (2, [line])


def test_bytes_of_a_path_that_are_no_text_are_shown_as_escapes(workspace):
    folder = workspace.folder / NOT_TEXT
    folder.mkdir()
    for name in ('experiment.yaml', 'first.csv', 'second.csv'):
        (workspace.folder / name).rename(folder / name)
    code, error = run(workspace.folder, 'identify', f'{NOT_TEXT}/none.yaml')
    assert code == 2
    assert len(error) == 1 and 'run\\udcff/none.yaml' in error[0]
    urdf = ROOT / 'urdf' / 'szabo_3r.urdf'
    code, error = run(workspace.folder, 'init', urdf, folder / 'first.csv', '--out', 'new.yaml')
    assert code == 2
    assert len(error) == 1 and 'no experiment file can name it: rename it' in error[0]
    code, error = run(workspace.folder, 'identify', folder / 'experiment.yaml', *OLS)
    assert (code, error) == (0, [])
    assert 'run\\udcff' in (folder / 'results' / 'result.yaml').read_text()
