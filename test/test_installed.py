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
import os
from pathlib import Path
import re
import shlex
import shutil
import subprocess
import sys

from page_blocks import blocks, GUIDES, PAGES, ROOT, script
import pytest
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
        'docs/reference/experiment.md',
        'examples/demo_arm/README.md',
        'examples/tx40/README.md',
    )
}
"""Pages that run further identifications of the same recordings."""

FOREIGN = ('AMENT_', 'CMAKE_PREFIX', 'COLCON_', 'PYTHON', 'ROS_', 'VIRTUAL_ENV', '_ROS_')
"""Beginnings of variables that bring in other packages."""

BARE = ('dask', 'h5py', 'mujoco', 'numba', 'pandas', 'pyarrow', 'rclpy')
"""Libraries that the package alone does not bring."""


def shell(folder: Path, text: str) -> subprocess.CompletedProcess:
    """Run lines in a folder up to the first that fails, as where the environment is activated."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    path = os.pathsep.join([str(ENVIRONMENT / 'bin'), kept['PATH']])
    return subprocess.run(
        ['sh', '-ec', text], cwd=folder, env={**kept, 'PATH': path, 'PIP_RETRIES': '1'},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
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


RECORDINGS = 'examples/demo_arm/recordings'
RUN = (
    'diagnose experiment.yaml',
    f'reduce experiment.yaml {RECORDINGS}/validation --out factors',
    f'validate results/result.yaml {RECORDINGS}/validation',
    f'compare results/result.yaml results/result.yaml --on {RECORDINGS}/validation',
    'plot results/result.yaml --out efforts.html',
    'check results/result.yaml',
    'limits results/result.yaml --out joint_limits.yaml',
    'structure experiment.yaml',
    'filters experiment.yaml --out filters.html',
    'plan urdf/demo_arm.urdf --duration 4 --time-budget 1 --set planner.floor=0.0',
    'preview plan/plan.yaml --urdf urdf/demo_arm.urdf',
    'feedforward results/result.yaml plan/trajectory.yaml --out with_efforts.yaml',
    f'fleet {RECORDINGS} --experiment experiment.yaml --out fleet',
    'schema',
    'export results/result.yaml --out robot.urdf',
)
"""Command lines in the folder of `workplace`; later ones read what earlier ones wrote."""

SIM = "'mujoco' is not installed: pip install 'robot-identification[sim]' brings it"
LACKING = {
    'tool experiment.yaml': "key 'data.tool' is missing",
    'replay results/result.yaml experiment.yaml': SIM,
    'calibrate urdf/demo_arm.urdf --simulation': SIM,
    'export results/result.yaml --out robot.xml': SIM,
    'node plan': 'needs ROS 2',
    f'play {RECORDINGS}/validation': 'needs ROS 2',
    'wait /identification': 'needs ROS 2',
    'demo': 'needs ROS 2 and MuJoCo',
    'window urdf/demo_arm.urdf': (
        "'nicegui' is not installed, which is for the window: "
        "pip install 'robot-identification[window]' brings it"
    ),
}
"""Command lines that lack a library, ROS or what they are to read, and what they answer."""


IN_ONE = """
import shlex, sys, traceback
from robot_identification.cli.main import main
for line in sys.argv[1:]:
    print('$', line, flush=True)
    print('$', line, file=sys.stderr, flush=True)
    try:
        code = main(shlex.split(line))
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 'traceback'
    print('= ', code, flush=True)
"""
"""Program of many command lines: a start of Python takes longer than most of them."""


def run_lines(lines, folder):
    """Run command lines in one process; return for each its exit code, output and errors."""
    done = shell(folder, shlex.join(['python', '-c', IN_ONE, *lines]))
    outputs, errors = (dict(_by_line(text)) for text in (done.stdout, done.stderr))
    assert list(outputs) == list(lines), done.stderr
    return {
        line: (outputs[line].rpartition('= ')[2].strip(), outputs[line], errors[line])
        for line in lines
    }


def _by_line(text):
    return [tuple(part.split('\n', 1)) for part in re.split(r'^\$ ', text, flags=re.M)[1:]]


@pytest.fixture(scope='module')
def ran(workplace):
    """Run all of `RUN` and `LACKING` in their order."""
    return run_lines([*RUN, *LACKING], workplace)


@pytest.mark.parametrize('line', RUN)
def test_a_command_runs_on_the_examples(line, ran):
    code, _, errors = ran[line]
    assert code in ('0', 'None'), errors


@pytest.mark.parametrize('line', LACKING)
def test_a_command_says_in_one_line_what_it_lacks(line, ran):
    code, _, errors = ran[line]
    said = [line for line in errors.splitlines() if not line.startswith('warning: ')]
    assert code == '2' and len(said) == 1 and said[0].startswith('error: '), errors
    assert LACKING[line] in said[0]


def test_each_command_and_each_format_is_run(tmp_path):
    text = shell(tmp_path, 'robot-identification --help').stdout
    listed = re.findall(r'^    (\w+) ', text, re.MULTILINE)
    lines = [*RUN, *LACKING, *(' '.join(w[1:]) for b in blocks(README) for w in b.commands)]
    assert set(listed) <= {line.split()[0] for line in lines if line}


def test_each_format_is_written_or_says_what_it_lacks(workplace):
    (workplace / 'a').mkdir()
    line = 'export results/result.yaml --format {0} --out a/{0}'.format
    ends = run_lines([line(name) for name in FORMATS], workplace)
    written = {name for name in FORMATS if ends[line(name)][0] == '0'}
    assert written == {name for name, each in FORMATS.items() if each.write} - {'mjcf'}
    for name in set(FORMATS) - written:
        _, _, errors = ends[line(name)]
        said = [each for each in errors.splitlines() if each.startswith('error: ')]
        assert len(said) == 1 and 'Traceback' not in errors, errors
    assert SIM in ends[line('mjcf')][2]
