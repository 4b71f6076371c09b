# SPDX-License-Identifier: Apache-2.0
"""Time the regressor on two cores: two threads of ours beside two independent processes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
from robot_identification.data.recording import Motion

from .harness import Figure, interleaved, ratio, Table
from .regressor_entries import base, base_entries, RIGID
from .synthetic import panda

HALF = 100_000
"""Samples of each process; two threads share twice as many."""

DENSE, ENTRIES = 'dense', 'entries'

_jobs: dict[str, Callable[[], object]] = {}


def measured() -> tuple[Table, list[Figure]]:
    """Time one and two threads, and one and two processes."""
    context = get_context('spawn')
    pools = [ProcessPoolExecutor(1, context, prepare) for _ in range(2)]
    try:
        with ThreadPoolExecutor(2) as threads:
            times = interleaved(works(pools, threads), repeats=7)
    finally:
        for pool in pools:
            pool.shutdown()
    rows, figures = [], []
    for kind in (DENSE, ENTRIES):
        one, two = times[f'{kind}, one thread'], times[f'{kind}, two threads']
        alone, both = times[f'{kind}, one process'], times[f'{kind}, two processes']
        ours, machine = ratio(one, two), 2.0 * ratio(alone, both)
        rows += [[kind, f'{ours:.2f}', f'{machine:.2f}', f'{ours / machine:.2f}']]
        name = f'Panda, {2 * HALF:,} samples, {kind}'
        figures += [
            Figure(f'{name}: one thread by two', ours, at_least=1.6 if kind == ENTRIES else None),
            Figure(f'{name}: gain of two independent processes', machine),
            Figure(f'{name}: gain of two threads by that', ours / machine, at_least=0.8),
        ]
    title = f'Panda, {2 * HALF:,} samples on two cores: times as fast as on one'
    return Table(['', 'two threads', 'two processes', 'share'], rows, title), figures


def works(
    pools: list[ProcessPoolExecutor], threads: ThreadPoolExecutor
) -> dict[str, Callable[[], object]]:
    """Return what is timed: all samples by threads, and half of them by each process."""
    rigid, motion = base(panda(), RIGID), states(2 * HALF)
    model = rigid.regressor
    out = np.zeros((len(motion) * model.n_joints, len(model.layout)))
    halves = [
        base_entries(rigid, part) for part in (motion.rows(0, HALF), motion.rows(HALF, 2 * HALF))
    ]
    found: dict[str, Callable[[], object]] = {
        f'{DENSE}, one thread': lambda: model.rows(motion, out=out),
        f'{DENSE}, two threads': lambda: model.rows(motion, out=out, threads=2),
        f'{ENTRIES}, one thread': lambda: [half() for half in halves],
        f'{ENTRIES}, two threads': lambda: list(threads.map(lambda half: half(), halves)),
    }
    for kind in (DENSE, ENTRIES):
        found[f'{kind}, one process'] = lambda kind=kind: together(pools[:1], kind)
        found[f'{kind}, two processes'] = lambda kind=kind: together(pools, kind)
    return found


def states(samples: int) -> Motion:
    """Return random ones of the Panda."""
    return Motion(*np.random.default_rng(0).uniform(-2.0, 2.0, (3, samples, 7)))


def prepare() -> None:
    """Make a process ready for its half, in memory of its own."""
    rigid, motion = base(panda(), RIGID), states(HALF)
    model = rigid.regressor
    out = np.zeros((len(motion) * model.n_joints, len(model.layout)))
    _jobs[DENSE] = lambda: model.rows(motion, out=out)
    _jobs[ENTRIES] = base_entries(rigid, motion)


def do(kind: str) -> None:
    """Do a job of this process."""
    _jobs[kind]()


def together(pools: list[ProcessPoolExecutor], kind: str) -> None:
    """Let processes do their jobs at once."""
    for future in [pool.submit(do, kind) for pool in pools]:
        future.result()
