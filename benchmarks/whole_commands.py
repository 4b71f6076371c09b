# SPDX-License-Identifier: Apache-2.0
"""Whole commands: processor time from the start of Python to its end, libraries included."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path
import resource
import subprocess
import sys
from tempfile import TemporaryDirectory

from .harness import Figure, interleaved, ratio, Section, Table

EXAMPLE = Path(__file__).resolve().parents[1] / 'examples' / 'tx40' / 'experiment.yaml'

_ADDITIONS = 'total = 0\nfor number in range(10_000_000):\n    total += number'
_IMPORTS = {
    'Python': 'pass',
    'the package': 'import robot_identification',
    'its libraries': 'import numpy, scipy.linalg, scipy.ndimage, pinocchio, numba, jinja2, yaml',
    'ten million additions': _ADDITIONS,
}


def section() -> Section:
    """Time `identify` on the recording in the examples, and what Python takes by itself."""
    with TemporaryDirectory() as folder:
        identify = ['-m', 'robot_identification.cli', 'identify', str(EXAMPLE), '--quiet']
        works = {'identify, TX-40': _process([*identify, '--out', folder])}
        works |= {name: _process(['-c', text]) for name, text in _IMPORTS.items()}
        found = interleaved(works, repeats=11, clock=_of_children)
    whole, python = found['identify, TX-40'], found['Python']
    package = found['the package'].median - python.median
    libraries = found['its libraries'].median - python.median
    rows = [[name, f'{timing.median:.2f} s', f'{timing.best:.2f} s', f'{ratio(timing, whole):.2f}']
            for name, timing in found.items()]  # fmt: skip
    additions = ratio(whole, found['ten million additions'])
    figures = [
        Figure('identify, TX-40, processor time', whole.median, 's'),
        Figure('identify, TX-40, shortest', whole.best, 's'),
        Figure('identify, TX-40, ratio to ten million additions in Python', additions),
        Figure('import of the package', package, 's'),
        Figure('import of the package by that of its libraries', package / libraries, at_most=0.2),
    ]
    text = (
        'Processor time of processes, from the start of Python to its end, turn by turn: nine '
        'seconds of six joints at 5 kHz, read from CSV, identified, diagnosed, and reported with '
        'figures. *Its libraries* are what `identify` imports and does not make itself. The '
        'additions tell how fast the machine was.'
    )
    table = Table(['process', 'median', 'shortest', 'by identify'], rows)
    return Section('Whole commands', text, [table], figures)


def _process(arguments: list[str]) -> Callable[[], object]:
    """Return what runs Python with arguments, as users do: with compiled files kept."""
    environment = {**os.environ, 'PYTHONDONTWRITEBYTECODE': ''}
    command = [sys.executable, *arguments]

    def run() -> object:
        return subprocess.run(command, env=environment, check=True, capture_output=True)

    return run


def _of_children() -> float:
    """Return the processor time of all processes that were started and have ended [s]."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
