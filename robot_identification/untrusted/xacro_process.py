# SPDX-License-Identifier: Apache-2.0
"""
Conversion of files in a child process with limits on time, memory and what it may read.

A xacro file is a program: ``${9**9**9}`` never ends, and ``load_yaml`` reads any file.  It may
read what lies in its own folder or package and in the packages of the environment, links resolved,
and do nothing else with the system.  In a clone without a workspace, ``$(find package)`` finds the
package that the file is in, and those beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import all_suffixes
import json
import math
import os
from pathlib import Path
import re
import resource
import signal
import subprocess
import sys
from typing import Any

from ..errors import ModelError
from .files import open_regular

TIME_LIMIT = 8.0
"""Processor time that an expansion may take [s]."""

PATIENCE = 8.0
"""How many times longer than that a process is waited for: on a busy machine, or if it waits."""

MEMORY_LIMIT = 1 << 30
"""Address space that it may take [bytes]."""

PACKAGE_FOLDER = str(Path(__file__).resolve().parents[2])
"""Folder of this package, which an editable installation does not put on `sys.path`."""

_PROGRAM = """
import json, sys
request = json.load(sys.stdin)
sys.path[:] = request['sys_path']
from importlib import import_module
from robot_identification.untrusted.xacro_process import main
main(request, getattr(import_module(request['module']), request['function']))
"""


def expand_xacro(path: Path, arguments: Mapping[str, str], packages: Sequence[Path] = ()) -> str:
    """
    Return the URDF that a xacro file expands to.

    It may read files in its folder, or in its package if it is in one, and in the folders
    ``packages``, in which links are followed.

    Raises
    ------
    ModelError
        if xacro is missing, fails, or exceeds its time or memory.

    """
    texts = {str(name): str(value) for name, value in arguments.items()}
    beside = _packages_around(path)
    request = {
        'path': str(path),
        'arguments': texts,
        'beside': beside,
        'folders': [_home_of(path.absolute()), _home_of(path.resolve()), *beside.values()],
        'packages': [os.path.abspath(folder) for folder in packages],
    }
    answer = answer_of(xacro_to_urdf, request, seconds=TIME_LIMIT, memory=MEMORY_LIMIT)
    if answer.get('missing'):
        raise ModelError(
            f"'{path}' is a xacro file, and xacro is not installed",
            file=str(path),
            remedy='install xacro (pip install xacro, or the ROS package), or give the URDF',
        )
    if 'text' not in answer:
        raise ModelError(
            f"xacro cannot expand '{path}': {answer['error']}",
            file=str(path),
            remedy='set ROS_PACKAGE_PATH to the folder of what it may read, or correct the file'
            if _FORBIDDEN in answer['error']
            else 'set ROS_PACKAGE_PATH to the folder that the package lies in'
            if _NO_PACKAGE in answer['error']
            else 'correct the file, or give the arguments that it needs',
        )
    return str(answer['text'])


def _home_of(path: Path) -> str:
    """Return the folder of the package that a file is in, or its own folder."""
    found = (each for each in path.parents if (each / 'package.xml').is_file())
    return os.path.realpath(next(found, path.parent))


def _packages_around(path: Path) -> dict[str, str]:
    """Return the folders of the packages that a file is in, and of those beside these, by name."""
    found: dict[str, str] = {}
    for file in (path.absolute(), path.resolve()):
        for own in (each for each in file.parents if (each / 'package.xml').is_file()):
            found.setdefault(_package_name(own), os.path.realpath(own))
            with suppress(OSError):
                for other in sorted(own.parent.iterdir()):
                    if (other / 'package.xml').is_file():
                        found.setdefault(_package_name(other), os.path.realpath(other))
    return found


def _package_name(folder: Path) -> str:
    """Return the name in a package.xml; that of its folder where none can be read."""
    with suppress(OSError):
        with open_regular(folder / 'package.xml') as stream:
            text = stream.read(1 << 16).decode('utf-8', errors='replace')
        if named := _NAME.search(text):
            return named[1]
    return folder.name


def answer_of(
    convert: Callable[[Mapping[str, Any]], dict[str, Any]],
    request: Mapping[str, Any],
    *,
    seconds: float,
    memory: int,
) -> dict[str, Any]:
    """
    Return what a function of a module returns for a request, in a child process.

    Request and answer are of what JSON has.  It may take ``seconds`` of processor time [s] and
    ``memory`` of address space [bytes]; otherwise the answer is a text ``error``.
    """
    request = {
        **request,
        'module': convert.__module__,
        'function': convert.__name__,
        'sys_path': [*sys.path, PACKAGE_FOLDER],
        'seconds': math.ceil(seconds),
        'bytes': memory,
    }
    try:
        done = subprocess.run(
            # sys.path is passed on, so `site` need not make it again
            [sys.executable, '-S', '-c', _PROGRAM],
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE * seconds,
            check=False,
        )
        if done.returncode == -signal.SIGXCPU:
            return {'error': f'it takes longer than {seconds:.0f} s'}
        if done.returncode != 0:
            return {'error': _end(done.returncode)}
        return dict(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return {'error': f'it takes longer than {PATIENCE * seconds:.0f} s'}
    except OSError as error:
        return {'error': f'its process cannot be started ({error.strerror})'}
    except (ValueError, TypeError):
        return {'error': 'its process gave no answer'}


def _end(code: int) -> str:
    """Return text on the end of a process without an answer."""
    return 'its process was killed' if code < 0 else f'its process ended with code {code}'


def main(request: Mapping[str, Any], convert: Callable[[Mapping[str, Any]], Any]) -> None:
    """Convert a file in the child process and write the answer to its standard output."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # the signal of the soft limit ends it; the hard one is for who catches that
    resource.setrlimit(resource.RLIMIT_CPU, (request['seconds'], request['seconds'] + 1))
    resource.setrlimit(resource.RLIMIT_AS, (request['bytes'], request['bytes']))
    # what xacro prints must not come between
    with open(os.dup(1), 'w', encoding='ascii') as out:
        os.dup2(2, 1)
        try:
            answer = convert(request)
        except Exception as error:  # of the libraries, and what the file computes
            answer = {'error': _reason(error, request['bytes'] >> 20)}
        json.dump(answer, out)


def xacro_to_urdf(request: Mapping[str, Any]) -> dict[str, Any]:
    """Expand a xacro file."""
    try:
        import xacro
    except ImportError:
        return {'missing': True}
    _confine(request['folders'], request['packages'])
    _find_packages(request['beside'], request['packages'])
    document = xacro.process_file(request['path'], mappings=request['arguments'])
    return {'text': document.toprettyxml(indent='  ')}


_NAME = re.compile(r'<name>\s*([^<\s]+)\s*</name>')
_NO_PACKAGE = 'is in no folder that is known'


def _find_packages(beside: Mapping[str, str], folders: Sequence[str]) -> None:
    """Let ``$(find package)`` find what the environment has, and the packages around the file."""
    from xacro import substitution_args, XacroException

    find = substitution_args._eval_find

    def found(package: str) -> str:
        with suppress(Exception):  # of the index of ROS, and where there is none
            return str(find(package))
        for folder in folders:
            if os.path.exists(os.path.join(folder, package, 'package.xml')):
                return os.path.join(folder, package)
        if package not in beside:
            raise XacroException(f"package '{package}' {_NO_PACKAGE}")
        return beside[package]

    substitution_args._eval_find = found
    substitution_args._eval_dict['find'] = found


_FORBIDDEN = 'which it may not read'
_CODE_SUFFIXES = tuple(all_suffixes())
_LISTINGS = ('os.listdir', 'os.scandir', 'glob.glob', 'glob.glob/2')
_ACTIONS = ('os.', 'subprocess.', 'socket.', 'shutil.', 'ctypes.', 'tempfile.', 'pty.', 'urllib.')


class _Forbidden(Exception):
    """Refusal that xacro and glob do not take for a missing file."""


def _confine(folders: Sequence[str], packages: Sequence[str]) -> None:
    """Refuse this process, from now on, everything but reading files in some folders."""
    sys.dont_write_bytecode = True
    modules = [os.path.realpath(folder) for folder in sys.path]

    def may_read(path: str, listing: bool) -> bool:
        plain = '..' not in path.split(os.sep)
        if plain and any(_is_below(os.path.abspath(path), folder) for folder in packages):
            return True  # an installed package may consist of links
        real = os.path.realpath(path)
        # modules that are imported late
        code = modules if listing or real.endswith(_CODE_SUFFIXES) else ()
        places = (*folders, *map(os.path.realpath, packages), *code)
        return any(_is_below(real, folder) for folder in places)

    def check(event: str, values: tuple[Any, ...]) -> None:
        if event == 'open' or event in _LISTINGS:
            path, flags = values[0], values[2] if event == 'open' else 0
            if isinstance(path, int):
                return
            name = os.fsdecode(path or '.')
            if not isinstance(flags, int) or flags & (os.O_WRONLY | os.O_RDWR):
                raise _Forbidden(f"it writes '{name}', {_FORBIDDEN}")
            if not event.startswith('glob') and not may_read(name, event != 'open'):
                raise _Forbidden(f"it reads '{name}', {_FORBIDDEN}")
        elif event.startswith(_ACTIONS):
            raise _Forbidden(f'it calls {event}, which it may not')

    sys.addaudithook(check)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _reason(error: Exception, megabytes: int) -> str:
    """Return the reason of an error, with the one that xacro keeps beside its own text."""
    cause = getattr(error, 'exc', None) or error.__cause__ or error.__context__ or error
    if isinstance(cause, MemoryError):
        return f'it needs more than {megabytes} MB of memory'
    text = str(error) or type(error).__name__
    reason = str(cause)
    return text if reason in text else f'{text}: {reason}'
