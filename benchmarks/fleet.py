# SPDX-License-Identifier: Apache-2.0
"""
Time fleets: what two cores give, what a recording costs beside its own work, and how all grows.

    .venv/bin/python -m benchmarks fleet
    .venv/bin/python -m benchmarks.fleet 2000       # so many recordings, into fleet_run.json
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
import json
import os
from pathlib import Path
import signal
import statistics
import sys
import tempfile
import time

import numpy as np
from robot_identification.config.experiment import FleetSettings
from robot_identification.config.problem import IdentificationProblem
from robot_identification.config.sources import open_recording
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.estimation.factor_file import merge_stored, pack, unpack
from robot_identification.fleet.executor import Executor, open_executor
from robot_identification.fleet.store import open_store
from robot_identification.fleet.tasks import (
    merge_robots,
    reduce_all,
    reduce_recording,
    ReductionPlan,
    unpacked,
)
from robot_identification.regressor.base_search import structure
from robot_identification.support.progress import no_progress

from .document import machine
from .fleet_growth import by_joints, by_recordings, by_samples, million, SECONDS, SIGNALS
from .harness import Figure, Section, Table
from .recorded import serialised, write_mcap
from .synthetic import MODEL, PANDA, panda, recording

RATE = 1000.0
"""Of the recordings [Hz]."""

DISTINCT = 6
"""Recordings that are written; all others are links to them under names of their own."""

ROBOTS = 5
ROUND, WARM, TURNS = 80, 20, 3
"""Recordings of a round, of one that does not count, and how many rounds there are."""

RUN = Path(__file__).resolve().parent / 'fleet_run.json'
EFFICIENCY, OVERHEAD, EQUAL = 0.85, 0.4, 0.0
MEMORY_GROWTH = 1.1

TEXT = """\
Recordings of {seconds:g} s of a seven-joint Panda at 1 kHz in mcap files of {size:.1f} MB, reduced
to factors of {factor:.0f} kB and merged by robot. `alone` is a plain loop in one process, without
scheduler, store or journal; one and two workers do the same recordings turn by turn with it.
[Fleets](../how_to/fleet.md) says what follows.
"""


@dataclass(frozen=True)
class Fleet:
    """A folder with recordings, and how they are reduced."""

    folder: Path
    plan: ReductionPlan
    paths: tuple[str, ...]

    @property
    def payload(self) -> bytes:
        """Input of the workers."""
        return self.plan.payload()

    def source(self, number: int):
        """Open a recording."""
        entry = RecordingEntry(file=self.paths[number], format='rosbag2')
        return open_recording(entry, PANDA)


def section() -> Section:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        fleet = make_fleet(Path(name), 2 * ROUND)
        _, factor = reduce_recording(fleet.payload, fleet.paths[0])
        size = os.path.getsize(fleet.paths[0])
        tables, figures, costs = by_workers(fleet)
        equality, killed = after_kill(fleet)
        growth = [by_samples(), by_joints(), by_recordings(fleet.plan.structure, factor)]
    tables += [killed, *(table for table, _ in growth)]
    merge_time = growth[2][1]
    tables.append(million(costs, size, len(factor), merge_time))
    figures.append(equality)
    together = figures[1].value + 1e3 * merge_time
    name = 'overhead with merging and comparing'
    figures.append(Figure(name, together, 'ms'))
    share = together / (1e3 * costs['alone'])
    figures.append(Figure(f'{name}, by a recording alone', share, at_most=OVERHEAD))
    if RUN.is_file():
        table, more = long_run(json.loads(RUN.read_text()))
        tables.append(table)
        figures += more
    text = TEXT.format(seconds=SECONDS, size=size / 1e6, factor=len(factor) / 1e3)
    return Section('Fleets', text, tables, figures)


def make_fleet(folder: Path, recordings: int) -> Fleet:
    """Write a few recordings, and link to them from robots' folders."""
    robot = panda()
    for number in range(DISTINCT):
        made = recording(robot, SECONDS, rate=RATE, seed=number)
        velocity = np.zeros_like(made.position)
        messages = serialised(np.stack([made.position, velocity, made.effort]))
        write_mcap(folder / f'{number}.mcap', messages, 'none')
    paths = []
    for number in range(recordings):
        path = folder / f'robot {number % ROBOTS}' / f'run {number:05d}.mcap'
        path.parent.mkdir(exist_ok=True)
        os.link(folder / f'{number % DISTINCT}.mcap', path)
        paths.append(str(path))
    problem = IdentificationProblem(robot, MODEL, SIGNALS, name='panda')
    base = structure(problem.regressor(), robot)
    return Fleet(
        folder, ReductionPlan(problem, base, RecordingEntry(format='rosbag2')), tuple(paths)
    )


# ---------------------------------------------------------------------------- workers


def by_workers(fleet: Fleet) -> tuple[list[Table], list[Figure], dict[str, float]]:
    """Time a round by one and two workers, and alone."""
    alone, one, two, parent = turn_by_turn(fleet)
    efficiency = statistics.median(a / (2.0 * b) for a, b in zip(one, two, strict=True))
    overhead = statistics.median(a - b for a, b in zip(one, alone, strict=True))
    ceiling = machine_efficiency(fleet)
    rows = [
        ['alone', '1', f'{statistics.median(alone):.1f}', '', '', ''],
        ['Dask', '1', f'{statistics.median(one):.1f}', f'{overhead:.1f}', '', ''],
        ['Dask', '2', f'{statistics.median(two):.1f}', '', f'{100 * efficiency:.0f} %',
         f'{parent:.1f}'],
        ['the machine itself', '2', '', '', f'{100 * ceiling:.0f} %', ''],
    ]  # fmt: skip
    figures = [
        Figure('efficiency of two workers', efficiency, at_least=EFFICIENCY),
        Figure('overhead a recording', overhead, 'ms'),
        Figure('efficiency of two processes that share nothing', ceiling),
    ]
    costs = {
        'alone': 1e-3 * statistics.median(alone),
        'recording': 1e-3 * statistics.median(one),
        'parent': 1e-3 * parent,
        'efficiency': efficiency,
    }
    columns = ['by', 'workers', 'ms a recording', 'overhead, ms', 'efficiency', 'parent, ms']
    words = (
        f'Rounds of {ROUND} recordings by workers who have done some before. The others are ended '
        'meanwhile: those of Dask are busy with nothing to do, too. Overhead: what a '
        'recording takes beyond `alone`, with store and journal. The machine itself: how much '
        'faster two processes are that each loop over recordings of their own, against one alone. '
        'Parent: processor time of the process that hands out recordings and keeps factors.'
    )
    return [Table(columns, rows, 'Workers', words)], figures, costs


def turn_by_turn(fleet: Fleet) -> tuple[list[float], list[float], list[float], float]:
    """Time no, one and two workers, and the parent of two [ms a recording]."""
    found: dict[int, list[float]] = {0: [], 1: [], 2: []}
    parents, numbers = [], count()

    def through(executor: Executor, recordings: int) -> tuple[float, float]:
        name = f'round {next(numbers)}'
        with open_store(fleet.folder / name) as store:
            began, own = time.perf_counter(), time.process_time()
            reduce_all(executor, store, fleet.paths[:recordings], 'benchmark', FleetSettings())
            took = time.perf_counter() - began, time.process_time() - own
        return 1e3 * took[0] / recordings, 1e3 * took[1] / recordings

    alone(fleet, WARM)
    for _ in range(TURNS):
        began = time.perf_counter()
        alone(fleet, ROUND // 4)
        found[0].append(1e3 * (time.perf_counter() - began) / (ROUND // 4))
        for workers in (1, 2):
            with open_executor('dask', workers, fleet.payload) as executor:
                through(executor, WARM)
                took, own = through(executor, ROUND)
            found[workers].append(took)
            if workers == 2:
                parents.append(own)
    return found[0], found[1], found[2], statistics.median(parents)


def alone(fleet: Fleet, recordings: int) -> None:
    """Reduce recordings in this process and keep nothing."""
    _, reducer = unpacked(fleet.payload)
    for number in range(recordings):
        pack(reducer.reduce(fleet.source(number)))


def loop(payload: bytes, paths: Sequence[str]) -> float:
    """Reduce recordings one after another in a worker; return the seconds."""
    began = time.perf_counter()
    for path in paths:
        reduce_recording(payload, path)
    return time.perf_counter() - began


def machine_efficiency(fleet: Fleet) -> float:
    """Compare a process that has the machine for itself with two that share it."""
    paths, ratios = fleet.paths[: ROUND // 4], []
    with open_executor('dask', 2, fleet.payload) as executor:
        for count in range(-1, 2):
            (single,) = (done.value for done in executor.run(loop, [paths]))
            shared = statistics.mean(done.value for done in executor.run(loop, [paths] * 2))
            if count >= 0:  # the first one warms the workers up
                ratios.append(single / shared)
    return statistics.median(ratios)


# ------------------------------------------------------------------------------ kills


def after_kill(fleet: Fleet) -> tuple[Figure, Table]:
    """Kill a worker half-way, and compare what comes out with an undisturbed run."""
    paths = fleet.paths[: ROUND // 4]

    def merged(name: str, kill: bool) -> bytes:
        with (
            open_store(fleet.folder / name) as store,
            open_executor('dask', 2, fleet.payload) as executor,
        ):
            left = [kill]

            def watch(fraction: float, text: str) -> None:
                if fraction > 0.5 and left[0]:
                    left[0] = False
                    os.kill(pids(executor)[0], signal.SIGKILL)

            found = reduce_all(
                executor,
                store,
                paths,
                'kill',
                FleetSettings(),
                progress=watch if kill else no_progress,
            )
            files: dict[str, list[Path]] = {}
            for one in found.recordings:
                files.setdefault(one.serial, []).append(store.factor_file(one.key))
            return pack(merge_stored(stored for _, stored in merge_robots(executor, files)))

    first, second = merged('undisturbed', False), merged('disturbed', True)
    one, two = (unpack(data).factor.triangles for data in (first, second))
    largest = float(np.abs(one - two).max() / np.abs(one).max())
    same = 'yes' if first == second else 'no'
    table = Table(
        ['recordings', 'files equal byte for byte', 'largest relative difference'],
        [[str(len(paths)), same, f'{largest:.1e}']],
        'A worker killed half-way',
        'One of two workers is killed by SIGKILL; the merged factor of all recordings beside that '
        'of a run in which nothing happens.',
    )
    return Figure('worker killed, relative difference', largest, at_most=EQUAL), table


def pids(executor: Executor) -> list[int]:
    """Return the worker processes."""
    return list(executor._client.run(os.getpid).values())


# ------------------------------------------------------------------------- the long run


def long_run(found: dict) -> tuple[Table, list[Figure]]:
    """Return what a long run found, which is made apart."""
    rows = [
        [f'{point["recordings"]:,}', f'{point["seconds"]:.0f}', f'{point["parent_mb"]:.0f}',
         f'{point["worker_mb"]:.0f}']
        for point in found['points']
    ]  # fmt: skip
    words = (
        f'{found["recordings"]:,} recordings of {found["length"]:g} s by two processes, made by '
        f'`.venv/bin/python -m benchmarks.fleet {found["recordings"]}` on '
        f'{found["machine"]["processor"]}; memory of the parent, and the most that a worker had.'
    )
    points = found['points']
    growth = points[-1]['worker_mb'] / points[0]['worker_mb']
    figures = [
        Figure('long run, rejected', found['rejected'], at_most=0),
        Figure('long run, growth of workers', growth, at_most=MEMORY_GROWTH),
        Figure(
            'long run, growth of the parent',
            points[-1]['parent_mb'] / points[0]['parent_mb'],
            at_most=MEMORY_GROWTH,
        ),
    ]
    columns = ['recordings', 's', 'parent, MB', 'worker, MB']
    return Table(columns, rows, 'A long run', words), figures


def make_long_run(recordings: int) -> dict:
    """Reduce and merge so many recordings, and watch the memory."""
    points: list[dict] = []
    with tempfile.TemporaryDirectory() as name:
        fleet = make_fleet(Path(name), recordings)
        with (
            open_store(fleet.folder / 'out') as store,
            open_executor('dask', 2, fleet.payload) as executor,
        ):
            began, step = time.perf_counter(), max(1, recordings // 10)

            def watch(fraction: float, text: str) -> None:
                done = round(fraction * recordings)
                if done % step == 0:
                    points.append(
                        {
                            'recordings': done,
                            'seconds': round(time.perf_counter() - began, 1),
                            'parent_mb': memory(os.getpid(), 'VmRSS'),
                            'worker_mb': max(memory(pid, 'VmHWM') for pid in pids(executor)),
                        }
                    )
                    print(points[-1], flush=True)

            found = reduce_all(
                executor, store, fleet.paths, 'long', FleetSettings(), progress=watch
            )
            files: dict[str, list[Path]] = {}
            for one in found.recordings:
                files.setdefault(one.serial, []).append(store.factor_file(one.key))
            reduced = time.perf_counter()
            samples = sum(stored.factor.raw_rows for _, stored in merge_robots(executor, files))
            merging = time.perf_counter() - reduced
    return {
        'recordings': recordings,
        'length': SECONDS,
        'rejected': len(found.rejected),
        'samples': samples,
        'merging_s': round(merging, 1),
        'points': points,
        'machine': machine(),
    }


def memory(pid: int, kind: str) -> float:
    """Return the memory that a process has (``VmRSS``) or at most had (``VmHWM``) [MB]."""
    with suppress(OSError):
        for line in Path(f'/proc/{pid}/status').read_text().splitlines():
            if line.startswith(kind):
                return int(line.split()[1]) / 1024.0
    return 0.0


if __name__ == '__main__':
    # for the worker processes, whose number it is that fits the cores
    os.environ.update(OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1')
    RUN.write_text(json.dumps(make_long_run(int(sys.argv[1])), indent=1) + '\n')
