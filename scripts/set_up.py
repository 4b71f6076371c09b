# SPDX-License-Identifier: Apache-2.0
"""
Make ``.venv``: a Python environment in which the whole suite runs, ROS included.

With ``--ros kilted`` it is ``.venv-kilted``, with ROS 2 Kilted in place of Jazzy.

Each step is repeated only if its inputs have changed or it was interrupted: an empty environment;
the pinned wheels of ``requirements/``; ``robot_identification_msgs`` and the ROS interfaces that
have no wheels, built by colcon into the environment; this package in editable form.  Digests of
the inputs are in ``.venv/set-up.json``, the output of all commands is in ``log/set-up.log``.

The script needs the standard library alone, in the syntax of Python 3.6, so that an old Python can
report that it is too old.
"""

import argparse
from configparser import ConfigParser
import fcntl
import hashlib
import json
import os
from pathlib import Path
import re
import shutil
import signal
import subprocess
import sys

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 10), (3, 13)  # Python versions with ROS wheels
OLDEST_CMAKE = (3, 20)
WHEELS = (
    'runtime.txt',
    'fast.txt',
    'sim.txt',
    'fleet.txt',
    'notebook.txt',
    'parquet.txt',
    'hdf5.txt',
    'window.txt',
    'dev.txt',
)
DISTRIBUTIONS = ('jazzy', 'kilted')
"""Of ROS 2; the first is the default, whose environment is ``.venv``."""

MESSAGES = ('robot_identification_msgs', 'interfaces')
SHARED = ('config', 'examples', 'launch', 'package.xml', 'urdf')
FOREIGN = (
    'AMENT_PREFIX_PATH',
    'CMAKE_PREFIX_PATH',
    'COLCON_PREFIX_PATH',
    'PYTHONHOME',
    'PYTHONPATH',
    'VIRTUAL_ENV',
    '_ROS_WHEELS_BOOTSTRAP_COMPLETE',
)
"""Variables of a sourced ROS or of another environment."""

ASK = (
    'import importlib.util as u, json, platform, sys, sysconfig;'
    'print(json.dumps({"version": "%d.%d" % sys.version_info[:2],'
    '"executable": getattr(sys, "_base_executable", None) or sys.executable,'
    '"header": sysconfig.get_path("include") + "/Python.h", "machine": platform.machine(),'
    '"venv": bool(u.find_spec("venv") and u.find_spec("ensurepip"))}))'
)


class SetUpError(Exception):
    """Failure of the set-up, with a remedy."""


def clean_environment():
    """Return the environment variables without those of other installations."""
    return {key: value for key, value in os.environ.items() if key not in FOREIGN}


# --- Python and tools -----------------------------------------------------------------------


def describe_python(executable):
    """Return version, base executable, header, machine and venv of a Python; None for none."""
    # the variable keeps ROS wheels in that Python from restarting it
    environment = dict(clean_environment(), _ROS_WHEELS_BOOTSTRAP_COMPLETE='1')
    try:
        answer = subprocess.run(
            [str(executable), '-c', ASK],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=30,
        )
        return json.loads(answer.stdout.decode()) if answer.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def fits(python):
    """Return true for a Python that the ROS wheels exist for."""
    return python is not None and OLDEST <= version_in(python['version']) <= NEWEST


def version_in(text):
    """Return the first version in a text as two integers, (0, 0) without one."""
    found = re.search(r'(\d+)\.(\d+)', text)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def choose_python(requested):
    """Return the requested Python, or else the first one that fits."""
    names = (sys.executable, 'python3', 'python3.12', 'python3.11', 'python3.13', 'python3.10')
    for name in (requested,) if requested else names:
        python = describe_python(name)
        if fits(python):
            return python
    wanted = 'Python {}.{} to {}.{}'.format(*(OLDEST + NEWEST))
    raise SetUpError(
        (f"'{requested}' is no {wanted}" if requested else f'No {wanted} was found')
        + ', for which ROS 2 has wheels. Install one, and name it if it is not on PATH:\n'
        '  sudo apt install python3.12 python3.12-venv python3.12-dev\n'
        '  make setup PYTHON=python3.12'
    )


def require_tools(python):
    """Raise for missing compilers, make, headers or venv, before anything is downloaded."""
    version = python['version']
    present = {
        'g++': os.environ.get('CXX') or any(map(shutil.which, ('c++', 'g++', 'clang++'))),
        'gcc': os.environ.get('CC') or any(map(shutil.which, ('cc', 'gcc', 'clang'))),
        'make': any(map(shutil.which, ('make', 'gmake'))),
        f'python{version}-dev': os.path.exists(python['header']),
        f'python{version}-venv': python['venv'],
    }
    missing = [name for name, found in present.items() if not found]
    if missing:
        raise SetUpError(
            'This machine lacks {}. On Debian and Ubuntu:\n  sudo apt install {}'.format(
                ', '.join(missing), ' '.join(missing)
            )
        )


# --- inputs of the steps --------------------------------------------------------------------


def ros_wheels(ros):
    """Return the name of the list of a ROS distribution's wheels."""
    return f'ros-{ros}-wheels.txt'


def constraints(ros):
    """Return the name of the list of all versions with a ROS distribution."""
    return 'constraints.txt' if ros == DISTRIBUTIONS[0] else f'constraints-{ros}.txt'


def files_in(*names):
    """Return files by name or below folders, relative to the repository."""
    found = []
    for name in names:
        path = ROOT / name
        below = sorted(path.rglob('*')) if path.is_dir() else [path]
        found += [each.relative_to(ROOT).as_posix() for each in below if each.is_file()]
    return [name for name in found if not {'__pycache__', 'results'} & set(name.split('/'))]


def digest(*names, more=''):
    """Return a digest of the names and contents of files."""
    whole = hashlib.sha256(more.encode())
    for name in files_in(*names):
        content = (ROOT / name).read_bytes()
        whole.update(f'{name} {len(content)}\n'.encode() + content)
    return whole.hexdigest()[:16]


def digests(python, ros):
    """Return the steps to be done in order, and digests of their inputs."""
    wheels = [f'requirements/{name}' for name in (*WHEELS, ros_wheels(ros), constraints(ros))]
    repair = 'scripts/repair_wheel_paths.py'
    building = (f'requirements/{ros_wheels(ros)}', 'requirements/cmake.txt', repair)
    sources = ('setup.py', 'setup.cfg', 'robot_identification/version.py')
    return {
        # scripts in .venv/bin have their own path inside
        'environment': f'{python["version"]} {python["machine"]} {ROOT}',
        'packages': digest('requirements/pip.txt', *wheels, repair),
        'messages': digest(*building, *MESSAGES),
        'package': digest(*sources, more='\n'.join(files_in(*SHARED))),
    }


# --- the steps ------------------------------------------------------------------------------


class SetUp:
    """The environment, the log, and the lock that commands inherit."""

    def __init__(self, lock, ros=DISTRIBUTIONS[0]):
        self.ros = ros
        self.venv = ROOT / ('.venv' if ros == DISTRIBUTIONS[0] else f'.venv-{ros}')
        self.log = ROOT / 'log' / 'set-up.log'
        self.lock = lock

    def run(self, *command, environment=None):
        """Run a command with its output in the log; raise with the last lines if it fails."""
        command = [str(part) for part in command]
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open('ab') as log:
            log.write('$ {}\n'.format(' '.join(command)).encode())
            log.flush()
            start = log.tell()
            done = subprocess.run(
                command,
                cwd=str(ROOT),
                env=clean_environment() if environment is None else environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(self.lock.fileno(),),
            )
        if done.returncode:
            output = self.log.read_bytes()[start:].decode(errors='replace').rstrip()
            raise SetUpError(
                '{}\nfailed with code {}. The last lines of {}:\n{}\n'
                'Set-up needs the network and 3 GB of disk; the ROS wheels exist for Linux on '
                'x86_64 and\naarch64. make setup continues with this step.'.format(
                    ' '.join(command[:6]),
                    done.returncode,
                    self.log,
                    '\n'.join('    ' + line for line in output.splitlines()[-15:]),
                )
            )

    def pip(self, *arguments):
        """Run ``pip install`` with the pinned versions."""
        options = ('--no-input', '--disable-pip-version-check', '--progress-bar', 'off')
        pinned = ROOT / 'requirements' / constraints(self.ros)
        python = self.venv / 'bin' / 'python'
        self.run(python, '-m', 'pip', 'install', *options, '-c', pinned, *arguments)

    def uv(self, *arguments):
        """Run ``uv pip install`` with the pinned versions: the same, in a quarter of the time."""
        pinned = ROOT / 'requirements' / constraints(self.ros)
        into = ('--python', self.venv / 'bin' / 'python', '--no-progress')
        self.run(self.venv / 'bin' / 'uv', 'pip', 'install', *into, '-c', pinned, *arguments)

    def environment(self, python):
        """Make an empty environment."""
        if self.venv.is_symlink() or self.venv.is_file():
            self.venv.unlink()
        elif self.venv.is_dir():
            shutil.rmtree(str(self.venv))
        self.run(python['executable'], '-m', 'venv', self.venv)

    def packages(self, python):
        """Install the pinned wheels (0.5 GB) and repair the paths in their CMake files."""
        names = (*WHEELS, ros_wheels(self.ros))
        files = [ROOT / 'requirements' / name for name in names]
        lists = [part for file in files for part in ('-r', file)]
        self.pip('-r', ROOT / 'requirements' / 'pip.txt')
        try:
            # links to uv's cache take a fifth of the time of copies; the next step replaces the
            # files that it changes
            self.uv('--link-mode', 'hardlink', *lists)
        except SetUpError:
            # pip alone knows the mirrors in pip's configuration; most modules are never
            # imported, and Python compiles the others then
            self.pip('--no-compile', *lists)
        self.run(self.venv / 'bin' / 'python', ROOT / 'scripts' / 'repair_wheel_paths.py')

    def messages(self, python):
        """Build robot_identification_msgs, and interfaces without wheels, into the environment."""
        found = [path.parent for name in MESSAGES for path in (ROOT / name).rglob('package.xml')]
        wheels = 'lib/python*/site-packages/ros_{}-*.dist-info'
        self.build(
            [path for path in sorted(found) if not any(self.venv.glob(wheels.format(path.name)))]
        )

    def package(self, python):
        """Install robot_identification from its sources, and link what ROS looks for."""
        site_packages = self.venv / 'lib' / 'python{version}'.format(**python) / 'site-packages'
        # an interrupted installation has no list of its files for pip
        for old in site_packages.glob('robot_identification-*-info'):
            shutil.rmtree(str(old))
        options = ('--no-deps', '--no-build-isolation', '--ignore-installed')
        self.pip(*options, '--editable', ROOT)
        self.link(site_packages)
        self.compile_loops().wait()

    def compile_loops(self):
        """Begin to fill Numba's cache; return the process.  An error shows at the first use."""
        return subprocess.Popen(
            [str(self.venv / 'bin' / 'python'), '-m', 'robot_identification.support.compiled'],
            cwd=str(ROOT),
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def link(self, site_packages):
        """Link shared files and programs, which an editable installation leaves out."""
        share = self.venv / 'share' / 'robot_identification'
        programs = self.venv / 'lib' / 'robot_identification'
        for folder in (share, programs):
            shutil.rmtree(str(folder), ignore_errors=True)
            folder.mkdir(parents=True)
        for name in files_in(*SHARED):
            # real folders: `ros2 launch` does not follow links to folders
            (share / name).parent.mkdir(parents=True, exist_ok=True)
            (share / name).symlink_to(ROOT / name)
        index = self.venv / 'share' / 'ament_index' / 'resource_index' / 'packages'
        index.mkdir(parents=True, exist_ok=True)
        (index / share.name).touch()
        for listed in site_packages.glob('robot_identification-*-info/entry_points.txt'):
            entries = ConfigParser()
            entries.optionxform = str
            entries.read(str(listed))
            for name in entries['console_scripts']:
                (programs / name).symlink_to(self.venv / 'bin' / name)

    def build(self, packages):
        """Build interface packages into the environment with colcon and the ROS wheels."""
        path = os.pathsep.join([str(self.venv / 'bin'), os.environ.get('PATH', os.defpath)])
        environment = dict(
            clean_environment(),
            AMENT_PREFIX_PATH=str(self.venv),
            CMAKE_PREFIX_PATH=str(self.venv),
            LD_LIBRARY_PATH=str(self.venv / 'lib'),
            # colcon's own flags have make wait until the machine has nothing else to do
            MAKEFLAGS='-j{}'.format(os.cpu_count() or 1),
            PATH=path,
            VIRTUAL_ENV=str(self.venv),
        )
        cmake, found = shutil.which('cmake', path=path), b''
        if cmake:
            found = subprocess.run([cmake, '--version'], stdout=subprocess.PIPE).stdout
        if version_in(found.decode(errors='replace')) < OLDEST_CMAKE:
            self.pip('--ignore-installed', '-r', ROOT / 'requirements' / 'cmake.txt')
        build = ROOT / 'build' / 'messages'
        # a build folder remembers its compiler, CMake and Python
        shutil.rmtree(str(build), ignore_errors=True)
        # CMake keeps one processor busy, and the hot loops take as long
        compiling = self.compile_loops()
        self.run(
            *(self.venv / 'bin' / 'colcon', '--log-base', ROOT / 'log' / 'colcon', 'build'),
            *['--base-paths', *packages, '--build-base', build],
            *['--install-base', self.venv, '--merge-install'],
            *['--event-handlers', 'console_direct+', '--cmake-args'],
            *['-DBUILD_TESTING=OFF', '-DCMAKE_BUILD_TYPE=Release', '-DPYTHON_ALONE=ON'],
            # messages only copy their fields, and -O3 is a fifth of the time
            *['-DCMAKE_C_FLAGS_RELEASE=-O1', '-DCMAKE_CXX_FLAGS_RELEASE=-O1'],
            '-DPython3_EXECUTABLE={}'.format(self.venv / 'bin' / 'python'),
            environment=environment,
        )
        compiling.wait()

    # --- their order ------------------------------------------------------------------------

    def make(self, requested):
        """Do the steps that are due; ``requested`` is the user's Python or None."""
        present = python = describe_python(self.venv / 'bin' / 'python')
        if requested or not fits(present):
            python = choose_python(requested)
        wanted = digests(python, self.ros)
        done = self.read_stamp()
        same = present is not None and present['version'] == python['version']
        # an interrupted pip may leave half a package that passes for a whole one
        if not same or done.pop('running', '') in ('environment', 'packages'):
            done = {}
        if done.get('environment') != wanted['environment']:
            done = {}
        due = [step for step in wanted if done.get(step) != wanted[step]]
        if not due:
            return
        require_tools(python)
        if self.log.exists():
            self.log.unlink()
        for number, step in enumerate(due, 1):
            work = getattr(self, step)
            print(f'[{number}/{len(due)}] {work.__doc__}', flush=True)
            done.pop(step, None)
            self.write_stamp(dict(done, running=step))
            try:
                work(python)
            except SetUpError:
                self.write_stamp(done)
                raise
            done[step] = wanted[step]
            self.write_stamp(done)
        print(f'Set up. Run: {self.venv.name}/bin/robot-identification --help', flush=True)

    def read_stamp(self):
        """Return the digests of the finished steps, and the running one."""
        try:
            stamp = json.loads((self.venv / 'set-up.json').read_text())
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def write_stamp(self, stamp):
        """Write the stamp as a whole, if there is an environment."""
        if self.venv.is_dir() and not self.venv.is_symlink():
            fresh = self.venv / 'set-up.json.new'
            fresh.write_text(json.dumps(stamp, indent=2) + '\n')
            fresh.replace(self.venv / 'set-up.json')


def main(arguments=None):
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument(
        '--python',
        metavar='PYTHON',
        help='make .venv from this Python (3.10 to 3.13); otherwise from the one that .venv has, '
        'or the first that fits',
    )
    parser.add_argument(
        '--ros',
        default=DISTRIBUTIONS[0],
        choices=DISTRIBUTIONS,
        help='distribution of ROS 2 (default: %(default)s)',
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (ROOT / '.venv.lock').open('w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print('Another set-up of this folder is running; waiting for its end ...', flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            SetUp(lock, options.ros).make(options.python)
        except SetUpError as error:
            print(f'\nset-up: {error}', file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print('\nset-up: stopped. make setup goes on from here.', file=sys.stderr)
            return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
