# SPDX-License-Identifier: Apache-2.0
"""
Run mutated inputs and count what becomes of them.

    .venv/bin/python -m fuzz [--inputs 20000] [--targets csv mcap] [--reproduce csv:17]

Findings are written to ``log/fuzz/``, each with its input; the exit code is 1 where there are any.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
import contextlib
from itertools import accumulate, pairwise
from pathlib import Path
import shutil
import sys
import tempfile
import time

from robot_identification.support.compiled import available, compile_all

from . import messages, workers
from .targets import TARGETS

LOG = Path('log', 'fuzz')
KINDS = ('used', 'refused', 'traceback', 'hang', 'memory', 'crash')
SEED_STEP = 1_000_000
"""Numbers between the inputs of one seed and those of the next."""


def numbers_of(inputs: int, seed: int, names: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the inputs of each target, in proportion to their shares."""
    ends = [0, *accumulate(TARGETS[name].share for name in names)]
    places = [round(inputs * end / ends[-1]) for end in ends]  # so that counts add up to inputs
    first = seed * SEED_STEP
    return {
        name: list(range(first, first + max(1, end - begin)))
        for name, (begin, end) in zip(names, pairwise(places), strict=True)
    }


def prepared(names: Sequence[str]) -> None:
    """Compile, and make the sound files here, so that the workers, which are forked, have them."""
    if available():
        compile_all()
    for name in names:
        target = TARGETS[name]
        target.seeds()
        if target.prepare is not messages.prepare:
            with tempfile.TemporaryDirectory() as folder:
                # the machine code is compiled here, too
                workers.warm_up(target, target.seeds()[-1], Path(folder))


def report(outcomes: Counter) -> str:
    """Return a table of what became of the inputs of each target."""
    lines = [f'{"target":<14}' + ''.join(f'{kind:>11}' for kind in ('inputs', *KINDS))]
    for name in (*sorted({name for name, _ in outcomes}), 'all'):
        counts = [
            sum(n for (other, k), n in outcomes.items() if k == kind and name in (other, 'all'))
            for kind in KINDS
        ]
        lines.append(f'{name:<14}' + ''.join(f'{count:>11}' for count in (sum(counts), *counts)))
    return '\n'.join(lines)


def reproduce(text: str) -> int:
    """Run one input in this process and print what becomes of it; its files are kept."""
    name, _, number = text.partition(':')
    folder = LOG / f'{name}-{number}'
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    target = TARGETS[name]
    target.prepare(folder)
    outcome = workers.run_here(target, int(number), folder)
    print(f'{outcome.kind}: {outcome.text}\nfiles in {folder}')
    return int(outcome.is_finding)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser('fuzz', description=__doc__)
    parser.add_argument('--inputs', type=int, default=20_000, help='how many, of all targets')
    parser.add_argument('--targets', nargs='+', choices=tuple(TARGETS), default=tuple(TARGETS))
    parser.add_argument('--seed', type=int, default=0, help='another one gives other inputs')
    parser.add_argument('--jobs', type=int, default=2, help='processes at a time')
    parser.add_argument('--seconds', type=float, default=7200.0, help='longest time')
    parser.add_argument('--reproduce', metavar='TARGET:NUMBER', help='run one input alone')
    options = parser.parse_args(arguments)
    if options.reproduce:
        return reproduce(options.reproduce)
    begin = time.monotonic()
    LOG.mkdir(parents=True, exist_ok=True)
    prepared(options.targets)
    counts: Counter = Counter()
    log = (LOG / 'workers.log').resolve()
    numbers = numbers_of(options.inputs, options.seed, options.targets)
    with contextlib.suppress(KeyboardInterrupt):  # the report tells how far it came
        for outcome in workers.run(numbers, options.jobs, log, begin + options.seconds):
            counts[outcome.target, outcome.kind] += 1
            if not sum(counts.values()) % 1000:
                print(f'{sum(counts.values())} inputs', flush=True)
            if outcome.is_finding:
                print(f'{outcome.kind}: {outcome.target}:{outcome.number}', flush=True)
                path = LOG / f'{outcome.target}-{outcome.number}.txt'
                words = f'{outcome.kind}\n{outcome.text}\n'
                path.write_text(words, 'utf-8', 'backslashreplace')
    print(report(counts))
    print(f'{sum(counts.values())} inputs in {time.monotonic() - begin:.0f} s')
    return int(any(kind not in ('used', 'refused') for _, kind in counts))


if __name__ == '__main__':
    sys.exit(main())
