# SPDX-License-Identifier: Apache-2.0
"""
The package as its users install it: by pip, with the newest of what it needs, and nothing else.

README's ``pip install`` runs in a copy of the sources, into an environment of its own, which is
made again each day and where requirements have changed.  All other commands run in empty folders,
which have neither the sources nor what only developers install.
"""

from __future__ import annotations

from datetime import date
import hashlib
import json
import os
from pathlib import Path
import shlex
import shutil
import subprocess
import sys

from page_blocks import blocks, GUIDES, PAGES, ROOT, script
import pytest
from robot_identification.cli.main import COMMANDS
from robot_identification.errors import EXTRAS
from robot_identification.exports.formats import FORMATS

pytestmark = [
    pytest.mark.installed,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures('installed'),
]

README = ROOT / 'README.md'
ENVIRONMENT = ROOT / 'build' / 'installed'
"""A kept environment saves the installation of most of a gigabyte."""

IN_SOAK = {
    ROOT / name
    for name in (
        'docs/explanation/estimation.md',
        'docs/how_to/fleet.md',
        'docs/install.md',
        'docs/reference/experiment.md',
        'examples/demo_arm/README.md',
        'examples/tx40/README.md',
    )
}
"""
Pages that run further identifications of the same recordings, and a second installation; `CASES`
has a fleet.
"""

FOREIGN = ('AMENT_', 'CMAKE_PREFIX', 'COLCON_', 'PYTHON', 'ROS_', 'VIRTUAL_ENV', '_ROS_')
"""Beginnings of variables that bring in other packages."""

BARE = ('dask', 'h5py', 'mujoco', 'numba', 'pandas', 'pyarrow', 'rclpy')
"""Libraries that the package alone does not bring."""


def bare_variables() -> dict[str, str]:
    """Return the variables of a user who has activated the environment, and no ROS."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    path = os.pathsep.join([str(ENVIRONMENT / 'bin'), kept['PATH']])
    return {**kept, 'PATH': path, 'PIP_RETRIES': '1'}


def shell(folder: Path, text: str) -> subprocess.CompletedProcess:
    """Run lines in a folder up to the first that fails, as where the environment is activated."""
    return subprocess.run(
        ['sh', '-ec', text], cwd=folder, env=bare_variables(), capture_output=True,
        text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def inputs() -> str:
    """Return a digest of what the environment is made from: requirements, Python, this day."""
    files = [ROOT / 'setup.py', *sorted((ROOT / 'requirements').glob('*.txt'))]
    made_from = [str(date.today()), sys.version, *(file.read_text('utf-8') for file in files)]
    return hashlib.sha256('\0'.join(made_from).encode()).hexdigest()


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    """Make the environment as README says; skip where no package can be downloaded."""
    clone = copy_of_sources(tmp_path_factory.mktemp('clone'))
    stamp = ENVIRONMENT / 'inputs.txt'
    if not stamp.exists() or stamp.read_text() != inputs():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        subprocess.run([sys.executable, '-m', 'venv', str(ENVIRONMENT)], check=True)
        (ENVIRONMENT / 'COLCON_IGNORE').touch()
        download(clone)
    done = shell(clone, next(b.text for b in blocks(README) if b.needs == 'a clone'))
    if done.returncode and 'Retrying (Retry(' in done.stdout + done.stderr:
        pytest.skip('no packages can be downloaded')
    assert done.returncode == 0, done.stdout + done.stderr
    stamp.write_text(inputs())


def download(clone: Path) -> None:
    """Have uv, where set-up brought it, install what pip then finds: in a fifth of pip's time."""
    uv = Path(sys.executable).with_name('uv')
    if uv.exists():
        python = str(ENVIRONMENT / 'bin' / 'python')
        line = [str(uv), 'pip', 'install', '--quiet', '--python', python, str(clone)]
        subprocess.run(line, check=False, capture_output=True)


def copy_of_sources(clone):
    """Copy the files of the repository, and nothing that was made from them, to a folder."""
    listed = subprocess.run(
        ['git', 'ls-files', '-zco', '--exclude-standard'], cwd=ROOT,
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip('this is no clone')
    for name in filter(None, listed.stdout.split('\0')):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    return clone


@pytest.fixture(scope='module')
def workplace(installed, tmp_path_factory):
    """Give the folder in which README's commands have run."""
    folder = tmp_path_factory.mktemp('readme')
    require_run(shell(folder, script(README)))
    return folder


def require_run(done):
    """Require that all commands ran, none with a traceback; return what they printed."""
    assert done.returncode == 0, f'{done.stdout[-2000:]}\n{done.stderr}'
    assert 'Traceback' not in done.stderr, done.stderr
    return done


def test_only_the_package_and_what_it_requires_is_installed(tmp_path):
    code = (
        'import importlib.util, robot_identification; print(robot_identification.__file__);'
        f'print([name for name in {BARE} if importlib.util.find_spec(name)])'
    )
    place, others = shell(tmp_path, f'python -c {shlex.quote(code)}').stdout.splitlines()
    assert Path(place).is_relative_to(ENVIRONMENT / 'lib')
    assert others == '[]'


@pytest.mark.parametrize(
    'page',
    [
        pytest.param(page, marks=[pytest.mark.soak] if page in IN_SOAK else [])
        for page in PAGES
        if script(page)
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_of_a_page_run_in_their_order_in_an_empty_folder(page, request):
    if page == README:
        folder = request.getfixturevalue('workplace')
        assert 'Good for prediction of efforts' in (folder / 'results/verdict.json').read_text()
        return
    folder = request.getfixturevalue('tmp_path')
    # guides copy the examples themselves
    before = '' if page in GUIDES else 'robot-identification examples\n'
    require_run(shell(folder, before + script(page)))


MISSING = (*EXTRAS, 'distributed', 'fastapi', 'matplotlib', 'plotly', 'rclpy', 'threadpoolctl')
"""What some installation lacks: the environment itself, rosdep without pip, a robot's computer."""

DRIVER = """
import json, sys
folder, missing, lines = json.load(sys.stdin)
sys.path.append(folder)
for name in missing:
    sys.modules[name] = None
from command_line import run_command
from pathlib import Path
found = []
for words in lines:
    try:
        done = run_command(Path.cwd(), *words, expect=None)
        found.append([done.returncode, done.stderr])
    except BaseException as error:
        found.append([1, f'Traceback: {error!r}'])
print(json.dumps(found))
"""
"""Program of many command lines: a start of Python takes longer than most of them."""


def ends(folder, lines, missing=()):
    """Run command lines in one process of the environment; return their exit codes and errors."""
    done = subprocess.run(
        [str(ENVIRONMENT / 'bin' / 'python'), '-c', DRIVER], cwd=folder, env=bare_variables(),
        input=json.dumps([str(ROOT / 'test'), missing, [line.split() for line in lines]]),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(lines, json.loads(done.stdout.splitlines()[-1]), strict=True))


def needs(package: str, purpose: str = '') -> str:
    """Return the part of the error that names a missing package and what brings it."""
    extra = f"'robot-identification[{EXTRAS[package]}]'" if package in EXTRAS else package
    return f"'{package}' is not installed{purpose}: pip install {extra} brings it"


BAG = 'examples/demo_arm/recordings/validation'
RESULT = 'results/result.yaml'
CASES: dict[str, str | None] = {
    'tool experiment.yaml': "key 'data.tool' is missing",
    'diagnose experiment.yaml': None,
    f'reduce experiment.yaml {BAG} --out factors': None,
    f'validate {RESULT} {BAG}': None,
    f'compare {RESULT} {RESULT} --on {BAG}': None,
    f'plot {RESULT} {BAG}': needs('plotly'),
    f'check {RESULT}': None,
    f'replay {RESULT} experiment.yaml': needs('mujoco'),
    f'limits {RESULT} --out joint_limits.yaml': None,
    'structure experiment.yaml': None,
    'filters experiment.yaml': None,
    f'fleet {BAG} --experiment experiment.yaml --out fleet --workers 1': None,
    f'fleet {BAG} --experiment experiment.yaml --workers 2': needs('dask'),
    'plan urdf/demo_arm.urdf --duration 4 --time-budget 1 --out plan': None,
    'preview plan/plan.yaml --urdf urdf/demo_arm.urdf': None,
    f'feedforward {RESULT} plan/trajectory.yaml --out with_efforts.yaml': None,
    'calibrate urdf/demo_arm.urdf --simulation': needs('mujoco'),
    'node plan': 'needs ROS 2',
    f'play {BAG}': 'needs ROS 2',
    'wait /identification -- true': 'needs ROS 2',
    'window --port 0': needs('nicegui', ', which is for the window'),
    'schema': None,
    'demo': 'needs ROS 2',
    **{f'export {RESULT} --format {name}': None for name, each in FORMATS.items() if each.write},
    f'export {RESULT} --format mjcf': needs('mujoco'),
    **{
        f'export {RESULT} --format {name}': 'the result has no load'
        for name in FORMATS
        if FORMATS[name].write_load
    },
}
"""Command lines, in an order in which each finds its files, and what their error says."""

WITH_PLOTLY = (
    f'plot {RESULT} --out efforts.html',
    'preview plan/plan.yaml --urdf urdf/demo_arm.urdf',
)
"""Command lines that write pages with plotly, which pip brings."""


@pytest.fixture(scope='module')
def ended(workplace):
    """Run `CASES` without any package that an installation may lack, then `WITH_PLOTLY`."""
    return {**ends(workplace, CASES, MISSING), **ends(workplace, WITH_PLOTLY)}


@pytest.mark.parametrize('line', [*CASES, *WITH_PLOTLY])
def test_a_command_works_or_names_what_it_lacks_in_one_line(line, ended):
    code, errors = ended[line]
    expected = CASES.get(line)
    assert 'Traceback' not in errors
    if expected is None:
        assert code == 0, errors
    else:
        said = [each for each in errors.splitlines() if not each.startswith('warning: ')]
        assert code == 2 and len(said) == 1, errors
        assert said[0].startswith('error: ') and expected in said[0]


def test_each_command_and_each_format_is_run():
    lines = [*CASES, *(' '.join(w[1:]) for b in blocks(README) for w in b.commands)]
    assert {command.run.__name__ for command in COMMANDS} <= {
        line.split()[0] for line in lines if line
    }
    assert {line.split()[-1] for line in CASES if line.startswith('export')} == {
        name for name, each in FORMATS.items() if each.write or each.write_load
    }
