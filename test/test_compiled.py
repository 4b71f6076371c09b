# SPDX-License-Identifier: Apache-2.0
"""Compiling lazily: with and without Numba, with and without a place for the cache."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys
import textwrap

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip('numba')

MODULE = """
from robot_identification.compiled import compiled


@compiled
def square(x):
    return x * x


@compiled('const f8[::1]', 'f8[::1]')
def squares(values, out):
    for i in range(values.size):
        out[i] = square(values[i])
"""

CALL = """
import numpy as np, sys
import sums
from robot_identification import compiled
values, out = np.arange(4.0), np.empty(4)
values.setflags(write=False)
sums.squares(values, out)
assert out.tolist() == [0.0, 1.0, 4.0, 9.0]
"""

BLOCK_NUMBA = "import sys; sys.modules['numba'] = None\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'sums.py').write_text(MODULE)
    return tmp_path


def run(folder, code, **environment):
    """Run code in a process that finds the module ``sums`` and has a home of its own."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    inherited = {k: v for k, v in os.environ.items() if not k.startswith('NUMBA')}
    home = folder / 'home'
    home.mkdir(exist_ok=True)
    environment = {
        **inherited, 'PYTHONPATH': path, 'HOME': str(home), 'XDG_CACHE_HOME': str(home / 'cache'),
        **environment,
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(code)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output(process):
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    return text


HITS = """
from numba.core.dispatcher import Dispatcher
print(sum(sums.squares.ready().stats.cache_hits.values()))
"""

REFUSED = """
try:
    sums.squares(values.astype('f4'), out)
except TypeError:
    print('refused')
"""


def test_read_only_installs_use_the_users_cache(folder):
    # a file where the folder of the cache should be is as good as one that cannot be written
    (folder / '__pycache__').write_text('')
    assert output(run(folder, CALL + HITS)) == '0\n'
    assert list((folder / 'home').rglob('sums.squares*.nbc'))


def test_no_cache_anywhere_is_no_trouble(folder):
    (folder / '__pycache__').write_text('')
    (folder / 'home').mkdir()
    (folder / 'home' / 'cache').write_text('')
    output(run(folder, CALL, PYTHONDONTWRITEBYTECODE='1'))
    assert not list(folder.rglob('*.nbc'))


def test_a_cache_that_cannot_be_saved_is_no_trouble(folder):
    code = """
    from numba.core import caching
    def full(self, name, data):
        raise OSError(28, 'No space left on device')
    caching.IndexDataCacheFile._save_data = full
    """
    output(run(folder, textwrap.dedent(code) + CALL))
    assert not list(folder.rglob('*.nbc'))


def test_machine_code_is_kept_and_takes_its_types_alone_even_by_two_at_once(folder):
    processes = [run(folder, CALL + REFUSED) for _ in range(2)]
    for process in processes:
        assert output(process) == 'refused\n'
    assert list((folder / '__pycache__').glob('sums.squares*.nbc'))
    assert output(run(folder, CALL + HITS)) == '1\n'


def test_a_change_in_another_file_is_seen(folder):
    (folder / 'helpers.py').write_text(
        MODULE.replace('square(x)', 'power(x)').split('@compiled(')[0]
    )
    (folder / 'sums.py').write_text(
        'from helpers import power as square\n' + MODULE.replace('def square(', 'def unused(')
    )
    output(run(folder, CALL))
    helpers = (folder / 'helpers.py').read_text()
    (folder / 'helpers.py').write_text(helpers.replace('x * x', 'x * x * x'))
    code = CALL.replace('[0.0, 1.0, 4.0, 9.0]', '[0.0, 1.0, 8.0, 27.0]')
    output(run(folder, code, PYTHONDONTWRITEBYTECODE='1'))


@pytest.mark.parametrize('how', ['missing', 'switched off'])
def test_without_numba_the_function_runs_as_it_is(folder, how):
    check = 'assert not compiled.available()\nassert compiled.warm() == 0\n'
    if how == 'missing':
        output(run(folder, BLOCK_NUMBA + CALL + check))
    else:
        output(run(folder, CALL + check, NUMBA_DISABLE_JIT='1'))
    assert not list(folder.rglob('*.nbc'))


def test_import_brings_no_numba(folder):
    code = """
    import sys
    import sums, robot_identification, robot_identification.cli
    import robot_identification.regressors
    assert not [name for name in sys.modules if name.split('.')[0] in ('numba', 'llvmlite')]
    """
    output(run(folder, code))
