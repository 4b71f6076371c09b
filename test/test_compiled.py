# SPDX-License-Identifier: Apache-2.0
"""Tests of compiled functions with and without Numba, with and without a folder for the cache."""

from __future__ import annotations

import ast
import os
from pathlib import Path
import subprocess
import sys
import textwrap

import pytest
from robot_identification.support.compiled import MODULES

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip('numba')

MODULE = """
from numba import float64

from robot_identification.support.compiled import compiled, constant


@compiled()
def square(x):
    return x * x


@compiled(constant(float64, 1), float64[::1])
def squares(values, out):
    for i in range(values.size):
        out[i] = square(values[i])
"""

CALL = """
import numpy as np
import sums
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


REFUSED = """
try:
    sums.squares(values.astype('f4'), out)
except TypeError:
    print('refused')
"""


def test_cache_is_the_users_where_the_source_is_read_only(folder):
    # a file in place of the cache's folder prevents writing, for root as well
    (folder / '__pycache__').write_text('')
    output(run(folder, CALL))
    assert list((folder / 'home').rglob('sums.squares*.nbc'))


def test_cache_is_in_the_folder_that_the_environment_names(folder):
    output(run(folder, CALL, NUMBA_CACHE_DIR=str(folder / 'elsewhere')))
    assert list((folder / 'elsewhere').rglob('sums.squares*.nbc'))
    assert not list((folder / '__pycache__').glob('*.nbc'))


@pytest.mark.soak
def test_functions_are_compiled_without_any_folder_for_the_cache(folder):
    (folder / '__pycache__').write_text('')
    (folder / 'home').mkdir()
    (folder / 'home' / 'cache').write_text('')
    output(run(folder, CALL, PYTHONDONTWRITEBYTECODE='1'))
    assert not list(folder.rglob('*.nbc'))


@pytest.mark.soak
def test_functions_are_compiled_on_a_full_disk(folder):
    # no file may grow beyond a hundred bytes
    code = """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    """
    output(run(folder, textwrap.dedent(code) + CALL, PYTHONDONTWRITEBYTECODE='1'))
    assert not list(folder.rglob('*.nbc'))


def test_machine_code_is_cached_for_its_types_alone_by_two_processes_at_once(folder):
    processes = [run(folder, CALL + REFUSED) for _ in range(2)]
    for process in processes:
        assert output(process) == 'refused\n'
    assert list((folder / '__pycache__').glob('sums.squares*.nbc'))
    assert 'data loaded from' in output(run(folder, CALL, NUMBA_DEBUG_CACHE='1'))


def test_functions_are_compiled_anew_after_a_change_of_their_file(folder):
    output(run(folder, CALL))
    (folder / 'sums.py').write_text(MODULE.replace('x * x', 'x * x * x'))
    code = CALL.replace('[0.0, 1.0, 4.0, 9.0]', '[0.0, 1.0, 8.0, 27.0]')
    output(run(folder, code, PYTHONDONTWRITEBYTECODE='1'))


def test_numba_is_not_available_if_it_cannot_be_imported(folder):
    check = 'from robot_identification.support import compiled\nassert not compiled.available()\n'
    output(run(folder, BLOCK_NUMBA + check + 'compiled.compile_all()'))


def test_functions_run_in_python_if_numba_is_switched_off(folder):
    check = 'from robot_identification.support import compiled\nassert not compiled.available()\n'
    output(run(folder, CALL + check, NUMBA_DISABLE_JIT='1'))
    assert not list(folder.rglob('*.nbc'))


def test_import_of_the_package_imports_no_numba(folder):
    code = """
    import sys
    import robot_identification, robot_identification.cli, robot_identification.online
    import robot_identification.regressor, robot_identification.estimation.recursive.rls
    assert not [name for name in sys.modules if name.split('.')[0] in ('numba', 'llvmlite')]
    """
    output(run(folder, code))


def compiled_modules():
    """Return the syntax trees of the modules with compiled functions, by their names."""
    package = ROOT / 'robot_identification'
    texts = {path: path.read_text(encoding='utf-8') for path in package.rglob('*.py')}
    return {
        '.'.join(path.relative_to(package).with_suffix('').parts): ast.parse(text)
        for path, text in texts.items()
        if '\n@compiled(' in text
    }


def test_all_modules_with_compiled_functions_are_compiled_ahead():
    assert set(compiled_modules()) == set(MODULES)


def test_compiled_functions_use_nothing_of_other_files_but_constants():
    # Numba's cache does not notice changes in other files
    for tree in compiled_modules().values():
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level
            for alias in node.names
        }
        assert {name for name in names if not name.isupper()} == {'compiled', 'constant'}
