# SPDX-License-Identifier: Apache-2.0
"""
Make ``.venv``: a Python environment in which the whole suite runs, ROS included.

Five steps, each done once and again only when what it is made from has changed:

1. ``environment``: an empty ``.venv`` with a Python that the ROS wheels exist for;
2. ``packages``: the pinned wheels of ``requirements/``, and the repair of their CMake files;
3. ``messages``: ``robot_identification_msgs``, built by colcon into ``.venv`` itself, so that
   nothing has to be sourced;
4. ``package``: ``robot_identification``, installed so that edits to the sources take effect;
5. ``interfaces``, with ``--tests`` alone: what tests need of ROS packages that have no wheels, in
   a folder of its own that only tests look into.

What was done is noted in ``.venv/set-up.json``, step by step.  A step that was cut short (by a
signal, or a power cut) is seen there at the next run: an environment that pip was changing at
that moment is made anew, the other steps are repeated.  Two runs at once wait for each other.

Uses the standard library alone, in the syntax of Python 3.6, so that an old Python can tell
that it is too old.
"""

import argparse
from contextlib import contextmanager, suppress
import fcntl
import hashlib
import json
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import time

from set_up_checks import (
    ask_python,
    check_tools,
    choose_python,
    clean_environment,
    dotted,
    explain,
    fits,
    Trouble,
)
from set_up_links import files_in, link_programs, link_shared_files, shared_files
from set_up_messages import (
    build_messages,
    build_test_interfaces,
    CONSTRAINTS,
    MESSAGES,
    pip_install,
    TEST_INTERFACES,
)

STEPS = ('environment', 'packages', 'messages', 'package', 'interfaces')
FOR_TESTS = ('interfaces',)
REQUIREMENTS = ('runtime.txt', 'ros-jazzy-wheels.txt', 'dev.txt')
STAMP = 'set-up.json'


# --- what was done, and from what -----------------------------------------------------------


def fingerprints(root, python):
    """
    Condense what each step is made from.

    Parameters
    ----------
    root : Path
        The repository.
    python : dict
        As from ``ask_python``.

    Returns
    -------
    dict
        A short text for each of ``STEPS``; it changes when the step has to be done again.
    """
    pins = [root / 'requirements' / name for name in REQUIREMENTS + (CONSTRAINTS,)]
    ros = [root / 'requirements' / name for name in ('ros-jazzy-wheels.txt', 'cmake.txt')]
    scripts = [root / 'scripts' / name for name in ('set_up.py', 'repair_wheel_paths.py')]
    linking = [root / 'scripts' / name for name in ('set_up.py', 'set_up_links.py')]
    building = ros + scripts + [root / 'scripts' / 'set_up_messages.py']
    package = [root / 'setup.py', root / 'setup.cfg']
    package.append(root / 'robot_identification' / '__init__.py')
    shared = hashlib.sha256(repr(shared_files(root)).encode()).hexdigest()[:16]
    # A moved tree is another environment: the scripts in .venv/bin hold their own path.
    environment = '{}.{} {} {}'.format(*python['version'][:2], python['machine'], root)
    # What the messages are built from includes the ROS wheels.
    return {
        'environment': environment,
        'packages': _digest(root, pins + scripts),
        'messages': _digest(root, building + files_in(root / MESSAGES)),
        'package': _digest(root, package + linking) + ' ' + shared,
        'interfaces': _digest(root, building + files_in(root / TEST_INTERFACES)),
    }


def _digest(root, paths):
    whole = hashlib.sha256()
    for path in paths:
        content = path.read_bytes() if path.exists() else b''
        whole.update(f'{path.relative_to(root)} {len(content)}\n'.encode())
        whole.update(content)
    return whole.hexdigest()[:16]


def read_stamp(venv):
    """Read what was done in an environment; an empty dict where nothing (readable) was."""
    try:
        stamp = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv, stamp):
    """Replace the stamp in one go, so that it is never half written."""
    fresh = venv / (STAMP + '.new')
    fresh.write_text(json.dumps(stamp, indent=2) + '\n')
    os.replace(str(fresh), str(venv / STAMP))


def due(stamp, wanted, healthy=True):
    """
    Tell which steps have to be done.

    Parameters
    ----------
    stamp : dict
        What ``read_stamp`` found: a fingerprint for each finished step, and under ``running``
        the step that was under way when the stamp was last written.
    wanted : dict
        As from ``fingerprints``.
    healthy : bool
        Whether the environment's Python runs.

    Returns
    -------
    tuple of str
        The steps, in their order.
    """
    running = stamp.get('running')
    if not healthy or running in ('environment', 'packages'):
        return STEPS
    if stamp.get('environment') != wanted['environment']:
        return STEPS
    return tuple(step for step in STEPS if step == running or stamp.get(step) != wanted[step])


# --- running things -------------------------------------------------------------------------


class Runner:
    """
    Runs commands with their output in a log file, and shows that something is happening.

    Parameters
    ----------
    log : Path
        The file to write to; begun anew.
    lock : int
        A file descriptor that commands inherit, so that the lock it stands for outlives this
        process if that is killed while a command runs.
    """

    def __init__(self, log, lock):
        log.parent.mkdir(parents=True, exist_ok=True)
        self.path = log
        self.lock = lock
        self.log = log.open('wb')

    def __call__(self, command, what, cwd, environment=None):
        """
        Run a command to its end.

        Parameters
        ----------
        command : list of str
            What to run.
        what : str
            What it does, for the error.
        cwd : Path
            Where.
        environment : dict, optional
            Its variables.

        Raises
        ------
        Trouble
            where it fails, with the last lines of its output.
        """
        command = [str(part) for part in command]
        self.log.write(('$ ' + ' '.join(command) + '\n').encode())
        self.log.flush()
        start = self.log.tell()
        began = time.monotonic()
        with subprocess.Popen(
            command,
            cwd=str(cwd),
            env=clean_environment(os.environ) if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            pass_fds=(self.lock,),
        ) as process:
            try:
                while True:
                    try:
                        code = process.wait(timeout=1.0)
                        break
                    except subprocess.TimeoutExpired:
                        _tick(time.monotonic() - began)
            except BaseException:
                process.terminate()
                raise
        _tick(None)
        if code != 0:
            output = self.path.read_bytes()[start:].decode(errors='replace')
            raise explain(what, code, output, self.path)


def _tick(seconds):
    """Show the time that a command takes, on a terminal; None wipes it."""
    if sys.stdout.isatty():
        text = '' if seconds is None else f'      {seconds:.0f} s'
        print(f'\r{text:<20}\r', end='', flush=True)


# --- the steps ------------------------------------------------------------------------------


def make_environment(root, venv, python, run):
    """Make an empty virtual environment in place of whatever is there."""
    if venv.is_symlink() or venv.is_file():
        venv.unlink()
    elif venv.is_dir():
        # Before anything goes: half removed, it must not pass for whole.
        write_stamp(venv, {'running': 'environment'})
        shutil.rmtree(str(venv))
    venv.mkdir()
    write_stamp(venv, {'running': 'environment'})
    run([python['executable'], '-m', 'venv', venv], 'Making the Python environment', root)


def install_packages(root, venv, python, run):
    """Install the pinned wheels and repair the CMake files that came with them."""
    command = pip_install(root, venv)
    for name in REQUIREMENTS:
        command += ['-r', root / 'requirements' / name]
    run(command, 'Installing the packages', root)
    repair = [venv / 'bin' / 'python', root / 'scripts' / 'repair_wheel_paths.py']
    run(repair, "Repairing the wheels' CMake files", root)


def install_package(root, venv, python, run):
    """Install ``robot_identification`` from its sources, and link its shared files."""
    version = 'python{}.{}'.format(*python['version'][:2])
    # Not left to pip: an installation that was cut short has no list of its files.
    site_packages = venv / 'lib' / version / 'site-packages'
    for old in site_packages.glob('robot_identification-*-info'):
        shutil.rmtree(str(old))
    for old in site_packages.glob('__editable__*robot_identification[-_][0-9]*'):
        old.unlink()
    share = venv / 'share' / 'robot_identification'
    options = ['--no-deps', '--no-build-isolation', '--ignore-installed', '--editable', root]
    run(pip_install(root, venv) + options, 'Installing robot_identification', root)
    link_shared_files(root, share)
    link_programs(venv, site_packages)
    compile_loops(root, venv, run)


def compile_loops(root, venv, run):
    """Have hot loops compiled into Numba's cache; what goes wrong is left to their first use."""
    command = [venv / 'bin' / 'python', '-m', 'robot_identification.compiled']
    with suppress(Trouble):
        run(command, 'Compiling hot loops', root)


WORK = {
    'environment': (make_environment, 'an empty Python {version} environment in .venv'),
    'packages': (install_packages, 'the pinned packages (0.5 GB to download the first time)'),
    'messages': (build_messages, 'the ROS messages, compiled'),
    'package': (install_package, 'robot_identification itself'),
    'interfaces': (build_test_interfaces, 'ROS interfaces without wheels, for the tests alone'),
}


def set_up(root, requested, say, tests=False):
    """
    Bring ``.venv`` up to date.

    Parameters
    ----------
    root : Path
        The repository.
    requested : str or None
        The Python that the user asked for; None keeps the environment's own where there is one.
    say : callable
        Takes a line of progress.
    tests : bool
        Whether what only tests need is wanted, too.

    Raises
    ------
    Trouble
        with what to do about it.
    """
    venv = root / '.venv'
    wanted_steps = [step for step in STEPS if tests or step not in FOR_TESTS]
    with locked(root / '.venv.lock', say) as lock:
        present = python = ask_python(str(venv / 'bin' / 'python'))
        if requested or present is None or not fits(present['version']):
            python = choose_python(requested)
        stamp, wanted = read_stamp(venv), fingerprints(root, python)
        healthy = present is not None and present['version'][:2] == python['version'][:2]
        steps = [step for step in due(stamp, wanted, healthy) if step in wanted_steps]
        if not steps:
            return
        check_tools(python)
        say(f'Setting up robot_identification ({len(steps)} of {len(wanted_steps)} steps to do)')
        run = Runner(root / 'log' / 'set-up.log', lock)
        for step in steps:
            work, text = WORK[step]
            text = text.format(version=dotted(python['version']))
            say(f'[{STEPS.index(step) + 1}/{len(wanted_steps)}] {text}')
            began = time.monotonic()
            with noted(step, venv, wanted):
                work(root, venv, python, run)
            say(f'      done in {time.monotonic() - began:.0f} s')
        say('Set up. Run: .venv/bin/robot-identification --help')


@contextmanager
def noted(step, venv, wanted):
    """
    Note in the stamp that a step is under way, and afterwards that it is done.

    Parameters
    ----------
    step : str
        One of ``STEPS``.
    venv : Path
        The environment.
    wanted : dict
        As from ``fingerprints``.
    """
    # The first step removes the stamp with the environment, and notes itself when it can.
    if step != 'environment':
        write_stamp(venv, dict(_without(read_stamp(venv), step), running=step))
    try:
        yield
    except Trouble:
        # pip and colcon end in order when they fail by themselves: nothing is half done.
        if step != 'environment':
            write_stamp(venv, _without(read_stamp(venv), 'running'))
        raise
    write_stamp(venv, dict(_without(read_stamp(venv), 'running'), **{step: wanted[step]}))


def _without(stamp, key):
    return {name: value for name, value in stamp.items() if name != key}


@contextmanager
def locked(path, say):
    """
    Hold a lock that one run at a time has, and that the system takes back when its holder ends.

    Parameters
    ----------
    path : Path
        The file to lock.
    say : callable
        Told when another run has to be waited for.

    Yields
    ------
    int
        The file descriptor; a command that inherits it keeps the lock too.
    """
    with path.open('w') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say('Another set-up of this folder is running; waiting for it to end ...')
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def main(arguments=None):
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description='Make .venv: Python, the pinned packages, the ROS messages, this package. '
        'Does only what is not done yet.'
    )
    parser.add_argument(
        '--python',
        metavar='PYTHON',
        help='make .venv from this Python (3.10 to 3.13); otherwise the one that .venv has, '
        'or the first that fits',
    )
    parser.add_argument('--tests', action='store_true', help='make what only tests need, too')
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        set_up(Path(__file__).resolve().parent.parent, options.python, _say, options.tests)
    except Trouble as trouble:
        print(f'\nset-up: {trouble}\n\n{trouble.remedy}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('\nset-up: stopped. make setup goes on from here.', file=sys.stderr)
        return 130
    return 0


def _say(text):
    print(text, flush=True)


if __name__ == '__main__':
    sys.exit(main())
