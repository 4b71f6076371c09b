# SPDX-License-Identifier: Apache-2.0
"""
Run benchmarks, each in a process of its own: all of them, or those named.

    .venv/bin/python -m benchmarks [regressor streaming_qr ...] [--robots 20]

What they find goes, as tables, to ``docs/reference/performance.md`` or another page that the
section names; naming some renews their sections alone.  All numbers of this machine's runs are in
``log/benchmarks.json``.  Those that take a number of robots or cases have a default that takes
minutes.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from importlib import import_module
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import time

from .document import machine, write_pages

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER.parent / 'log' / 'benchmarks.json'
BENCHMARKS = (
    'regressor',
    'streaming_qr',
    'samples_to_parameters',
    'recording_length',
    'bootstrap',
    'physical_fit',
    'diagnosis',
    'honesty',
    'unseen',
    'floating',
    'selection',
    'online',
    'online_node',
    'recording',
    'load',
    'reading',
    'factors',
    'fleet',
    'filters',
    'excitation',
    'checked_plans',
    'all_arms',
    'calibration',
    'feedforward',
    'energy_tx40',
    'whole_commands',
    'commands',
    'real_robots',
)
"""In the order of the sections."""

SIZED = ('diagnosis', 'honesty', 'unseen', 'floating', 'selection')
"""Those that take a number of robots or cases."""


def main(names: list[str], robots: int | None = None) -> int:
    """Run the benchmarks called ``names`` or all; return how many failed or missed a bound."""
    known = [name for name in BENCHMARKS if (FOLDER / f'{name}.py').is_file()]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f'error: no benchmark {unknown[0]}: there are {", ".join(known)}', file=sys.stderr)
        return 2
    results, troubles = {}, 0
    for name in names or known:
        print(f'\n== {name}', flush=True)
        found = _run(name, robots if name in SIZED else None)
        if found is None:
            print(f'{name} failed', file=sys.stderr)
            troubles += 1
            continue
        troubles += _print_tables(found)
        results[name] = found
    kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(kept | results, indent=1) + '\n')
    write_pages(results, BENCHMARKS)
    return 1 if troubles else 0


def _run(name: str, robots: int | None) -> dict | None:
    """Run one benchmark in a fresh process, so that none inherits another's memory or threads."""
    environment = {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1', **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / 'section.json'
        command = [sys.executable, '-m', 'benchmarks', '--one', name, str(out)]
        command += [] if robots is None else [str(robots)]
        subprocess.run(command, cwd=FOLDER.parent, env=environment)
        return json.loads(out.read_text()) if out.is_file() else None


def _one(name: str, out: Path, robots: int | None = None) -> None:
    start = time.perf_counter()
    module = import_module(f'benchmarks.{name}')
    section = module.section() if robots is None else module.section(robots)
    found = asdict(section)
    for kept, figure in zip(found['figures'], section.figures, strict=True):
        kept.update(bound=figure.bound, met=figure.met)
    found.update(seconds=round(time.perf_counter() - start, 1), machine=machine())
    out.write_text(json.dumps(found))


def _print_tables(found: dict) -> int:
    """Print the tables of a section; return how many of its figures miss their bound."""
    for table in found['tables']:
        print(f'\n{table["title"]}' if table['title'] else '')
        cells = [table['columns'], *table['rows']]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            first, *others = zip(row, widths, strict=True)
            right = '  '.join(cell.rjust(width) for cell, width in others)
            print(f'{first[0].ljust(first[1])}  {right}')
    missed = [figure for figure in found['figures'] if not figure['met']]
    for figure in missed:
        unit = f' {figure["unit"]}' if figure['unit'] else ''
        print(f'MISSED {figure["name"]}: {figure["value"]:.4g}{unit}, held to {figure["bound"]}')
    print(f'({found["seconds"]:.0f} s)', flush=True)
    return len(missed)


if __name__ == '__main__':
    if sys.argv[1:2] == ['--one']:
        _one(sys.argv[2], Path(sys.argv[3]), *map(int, sys.argv[4:]))
    else:
        parser = ArgumentParser(prog='benchmarks')
        parser.add_argument('names', nargs='*', help='benchmarks; all by default')
        parser.add_argument('--robots', type=int, help=f'robots or cases of {", ".join(SIZED)}')
        arguments = parser.parse_args()
        sys.exit(main(arguments.names, arguments.robots))
