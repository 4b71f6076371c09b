# SPDX-License-Identifier: Apache-2.0
"""
Checks of the machine by set-up, with messages on missing parts.

Kept apart from ``set_up.py``, which changes things: nothing here does.  As there, the standard
library alone in the syntax of Python 3.6.
"""

import json
import os
import re
import shutil
import subprocess
import sys

OLDEST, NEWEST = (3, 10), (3, 13)
"""The Python versions that the ROS wheels exist for."""

OLDEST_CMAKE = (3, 20)
"""What ``robot_identification_msgs/CMakeLists.txt`` asks for."""

_ASK = (
    'import importlib.util as u, json, platform, sys, sysconfig;'
    'print(json.dumps({"version": sys.version_info[:3],'
    '"executable": getattr(sys, "_base_executable", None) or sys.executable,'
    '"include": sysconfig.get_path("include"), "machine": platform.machine(),'
    '"venv": bool(u.find_spec("venv") and u.find_spec("ensurepip"))}))'
)

_NETWORK = re.compile(
    r'name resolution|Name or service not known|Network is unreachable|Connection refused'
    r'|Connection aborted|ConnectTimeout|ReadTimeout|Max retries exceeded|No route to host'
    r'|NewConnectionError|ConnectionResetError|ProxyError|SSLError|NameResolutionError'
)
_NO_WHEEL = re.compile(r'No matching distribution found for (\S+)|Cannot install (\S+)')
_DISK = re.compile(r'No space left on device')


class Trouble(Exception):
    """
    Set-up can't go on.

    Attributes
    ----------
    remedy : str
        What to do about it, in one or a few lines.
    """

    def __init__(self, message, remedy):
        super().__init__(message)
        self.remedy = remedy


def clean_environment(environment):
    """Leave out what a sourced ROS, another environment or a Conda would bring along."""
    foreign = (
        'AMENT_PREFIX_PATH',
        'CMAKE_PREFIX_PATH',
        'COLCON_PREFIX_PATH',
        'PYTHONHOME',
        'PYTHONPATH',
        'VIRTUAL_ENV',
        '_ROS_WHEELS_BOOTSTRAP_COMPLETE',
    )
    return {key: value for key, value in environment.items() if key not in foreign}


# --- the Python to use ----------------------------------------------------------------------


def ask_python(executable):
    """
    Ask a Python what it is.

    Parameters
    ----------
    executable : str
        A path, or a command to look for.

    Returns
    -------
    dict or None
        ``version`` (three ints), ``executable`` (the interpreter that a virtual environment
        would be made from), ``include`` (folder of ``Python.h``), ``machine``, ``venv`` (whether
        it can make virtual environments); None where there is no such Python.
    """
    try:
        # The guard keeps ROS wheels in that Python from starting it a second time.
        answer = subprocess.run(
            [executable, '-c', _ASK],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(clean_environment(os.environ), _ROS_WHEELS_BOOTSTRAP_COMPLETE='1'),
            timeout=30,
        )
        return json.loads(answer.stdout.decode()) if answer.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def fits(version):
    """Return whether ROS wheels exist for this Python version."""
    return OLDEST <= tuple(version[:2]) <= NEWEST


def choose_python(requested, ask=ask_python, own=sys.executable):
    """
    Find a Python to make the environment from.

    Parameters
    ----------
    requested : str or None
        What the user asked for; None takes the running Python, or else the first on PATH that
        fits.
    ask : callable
        ``ask_python``, or a test's stand-in.
    own : str
        The running Python.

    Returns
    -------
    dict
        As ``ask_python``.

    Raises
    ------
    Trouble
        naming the Python that was asked for, or those that were found.
    """
    wanted = 'Python {}.{} to {}.{}'.format(*(OLDEST + NEWEST))
    if requested:
        found = ask(requested)
        if found is None:
            raise Trouble(
                f"'{requested}' is not a Python that runs",
                f'Name one that is installed: make setup PYTHON=python3.12 ({wanted})',
            )
        if not fits(found['version']):
            raise Trouble(
                f"'{requested}' is Python {dotted(found['version'])}; {wanted} is needed",
                'There are ROS 2 Jazzy wheels for those only. Name another Python, for example\n'
                '  make setup PYTHON=python3.12',
            )
        return found
    seen = []
    # 3.12 first: it is what Ubuntu 24.04, and so ROS 2 Jazzy, comes with.
    for name in (own, 'python3', 'python3.12', 'python3.11', 'python3.13', 'python3.10'):
        found = ask(name)
        if found is None:
            continue
        if fits(found['version']):
            return found
        seen.append(f'{name} is {dotted(found["version"])}')
    raise Trouble(
        f'No {wanted} was found' + (f' ({"; ".join(seen)})' if seen else ''),
        'Install one, and name it where it is not on PATH:\n'
        '  sudo apt install python3.12 python3.12-venv python3.12-dev\n'
        '  make setup PYTHON=/path/to/python3.12',
    )


def dotted(version):
    """Write a version as it is written: 3.12.1."""
    return '.'.join(str(number) for number in version)


# --- what the machine has to have -----------------------------------------------------------


def check_tools(python, which=shutil.which, exists=os.path.exists):
    """
    See that a compiler, make and Python's headers are there, before anything is downloaded.

    Parameters
    ----------
    python : dict
        As from ``ask_python``.
    which, exists : callable
        Look-ups, replaced in tests.

    Raises
    ------
    Trouble
        naming all that is missing, with the command that installs it.
    """
    version = '{}.{}'.format(*python['version'])
    missing, packages = [], []
    if not (os.environ.get('CXX') or which('c++') or which('g++') or which('clang++')):
        missing.append('a C++ compiler (g++)')
        packages.append('g++')
    if not (os.environ.get('CC') or which('cc') or which('gcc') or which('clang')):
        missing.append('a C compiler (gcc)')
        packages.append('gcc')
    if not (which('make') or which('gmake')):
        missing.append('make')
        packages.append('make')
    if not exists(os.path.join(python['include'], 'Python.h')):
        missing.append(f"Python {version}'s C headers (Python.h)")
        packages.append(f'python{version}-dev')
    if not python['venv']:
        missing.append(f"Python {version}'s venv and ensurepip modules")
        packages.append(f'python{version}-venv')
    if missing:
        raise Trouble(
            'This machine lacks ' + ', '.join(missing),
            'On Debian and Ubuntu:  sudo apt install ' + ' '.join(packages),
        )


def cmake_version(text):
    """Read the version out of ``cmake --version``; (0,) where there is none."""
    found = re.search(r'cmake version (\d+)\.(\d+)', text)
    return tuple(int(number) for number in found.groups()) if found else (0,)


def has_cmake(environment):
    """
    Tell whether a CMake that is new enough is to be had.

    Parameters
    ----------
    environment : dict
        The variables that the build will run with; PATH is what counts.

    Returns
    -------
    bool
        False where there is none, it is too old, or it does not run.
    """
    found = shutil.which('cmake', path=environment.get('PATH'))
    if not found:
        return False
    try:
        answer = subprocess.run([found, '--version'], stdout=subprocess.PIPE, env=environment)
    except OSError:
        return False
    return cmake_version(answer.stdout.decode(errors='replace')) >= OLDEST_CMAKE


# --- what went wrong -----------------------------------------------------------------------


def explain(what, code, output, log):
    """
    Turn a failed command's output into a message and a remedy.

    Parameters
    ----------
    what : str
        What the command was to do.
    code : int
        Its exit code.
    output : str
        What it wrote.
    log : Path
        Where all of it stands.

    Returns
    -------
    Trouble
        The error to raise.
    """
    last = '\n'.join('    ' + line for line in output.rstrip().splitlines()[-15:])
    message = f'{what} failed (exit code {code}). The last lines of {log}:\n{last}'
    no_wheel = _NO_WHEEL.search(output)
    if _DISK.search(output):
        remedy = 'The disk is full. Set-up needs about 3 GB; make room, then run make setup again.'
    elif _NETWORK.search(output):
        remedy = (
            'The package index could not be reached. Check the network (and the proxy settings),\n'
            'then run make setup again: what was downloaded is kept.'
        )
    elif no_wheel:
        name = no_wheel.group(1) or no_wheel.group(2)
        remedy = (
            f'No wheel of {name} was found that fits this Python and machine. Is the network up?\n'
            'The ROS wheels exist for Linux on x86_64 and aarch64.'
        )
    else:
        remedy = 'If these lines do not tell why, read the whole log; make setup starts again.'
    return Trouble(message, remedy)
