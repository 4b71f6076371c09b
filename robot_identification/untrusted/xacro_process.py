# SPDX-License-Identifier: Apache-2.0
"""
Expansion of xacro files in a child process with limits on time and memory.

A xacro file is a program: ``${9**9**9}`` never ends.
"""

from __future__ import annotations

from collections.abc import Mapping
import json
import os
from pathlib import Path
import resource
import subprocess
import sys
from typing import Any

from ..errors import ModelError

TIME_LIMIT = 8.0
"""Time that an expansion may take [s]."""

MEMORY_LIMIT = 1 << 30
"""Address space that it may take [bytes]."""

PACKAGE_FOLDER = str(Path(__file__).resolve().parents[2])
"""Folder of this package, which an editable installation does not put on `sys.path`."""

_PROGRAM = """
import json, sys
request = json.load(sys.stdin)
sys.path[:] = request['sys_path']
from robot_identification.untrusted.xacro_process import main
main(request)
"""


def expand_xacro(path: Path, arguments: Mapping[str, str]) -> str:
    """
    Return the URDF that a xacro file expands to.

    Raises
    ------
    ModelError
        if xacro is missing, fails, or exceeds its time or memory.

    """
    request = {
        'path': str(path),
        'arguments': {str(name): str(value) for name, value in arguments.items()},
        'sys_path': [*sys.path, PACKAGE_FOLDER],
        'seconds': int(TIME_LIMIT) + 1,
        'bytes': MEMORY_LIMIT,
    }
    try:
        done = subprocess.run(
            # sys.path is passed on, so `site` need not make it anew
            [sys.executable, '-S', '-c', _PROGRAM],
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIME_LIMIT,
            check=False,
        )
        answer = (
            json.loads(done.stdout) if done.returncode == 0 else {'error': _end(done.returncode)}
        )
    except subprocess.TimeoutExpired:
        answer = {'error': f'it takes longer than {TIME_LIMIT:.0f} s'}
    except OSError as error:
        answer = {'error': f'its process cannot be started ({error.strerror})'}
    except ValueError:
        answer = {'error': 'its process gave no answer'}
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
            remedy='correct the file, or give the arguments that it needs',
        )
    return str(answer['text'])


def _end(code: int) -> str:
    """Return text on the end of a process without an answer."""
    return 'its process was killed' if code < 0 else f'its process ended with code {code}'


def main(request: Mapping[str, Any]) -> None:
    """Expand a file in the child process and write the answer to its standard output."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (request['seconds'], request['seconds']))
    resource.setrlimit(resource.RLIMIT_AS, (request['bytes'], request['bytes']))
    # what xacro prints must not come between
    with open(os.dup(1), 'w', encoding='ascii') as out:
        os.dup2(2, 1)
        json.dump(_answer(request), out)


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        import xacro
    except ImportError:
        return {'missing': True}
    try:
        document = xacro.process_file(request['path'], mappings=request['arguments'])
        return {'text': document.toprettyxml(indent='  ')}
    except Exception as error:  # of xacro, expat and what the file computes
        return {'error': _reason(error, request['bytes'] >> 20)}


def _reason(error: Exception, megabytes: int) -> str:
    """Return the reason of an error, with the one that xacro keeps beside its own text."""
    cause = getattr(error, 'exc', None) or error.__cause__ or error.__context__ or error
    if isinstance(cause, MemoryError):
        return f'it needs more than {megabytes} MB of memory'
    text = str(error) or type(error).__name__
    reason = str(cause)
    return text if reason in text else f'{text}: {reason}'
