# SPDX-License-Identifier: Apache-2.0
"""
Time fleets: what two cores give, what a recording costs beside its own work, and how all grows.

    .venv/bin/python -m benchmarks fleet
    .venv/bin/python -m benchmarks.fleet 2000       # so many recordings, into fleet_run.json
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
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
from robot_identification.base_parameters import structure
from robot_identification.fleet.crews import Crew, open_crew
from robot_identification.fleet.essentials import estimate_group, Question
from robot_identification.fleet.factors import GROUP, merge_robots, reduce_all
from robot_identification.fleet.store import open_store
from robot_identification.fleet.work import Group, Plan, reduce_recording, unpacked
from robot_identification.io.entry import RecordingEntry
from robot_identification.io.factors import merge_stored, pack, unpack
from robot_identification.io.fleet import FleetSettings
from robot_identification.io.sources import open_recording
from robot_identification.problem import Problem
from robot_identification.progress import silent
from robot_identification.reduction import Reducer
from robot_identification.robot import Robot
from robot_identification.signals import SignalSettings

from .document import machine
from .harness import Figure, interleaved, Section, Table
from .recorded import serialised, write_mcap
from .synthetic import MODEL, PANDA, panda, recording, robots_folder

SECONDS, RATE = 10.0, 1000.0
"""Of each recording [s], [Hz]."""

DISTINCT = 6
"""Recordings that are written; all others are links to them under names of their own."""

ROBOTS = 5
ROUND = 40
"""Recordings of a round."""

RUN = Path(__file__).resolve().parent / 'fleet_run.json'
SIGNALS = SignalSettings(decimate_to=100.0, cutoff=20.0, dead_zone=0.02)
PRICE = 0.05
"""Assumed price of a core for an hour, in any currency."""

EFFICIENCY, OVERHEAD, EQUAL = 0.85, 20.0, 1e-12
MEMORY_GROWTH = 1.1

TEXT = """\
Recordings of {seconds:g} s of a seven-joint Panda at 1 kHz in mcap files of {size:.1f} MB, reduced
to factors of {factor:.0f} kB and merged by robot. `alone` is a plain loop in one process, without
scheduler, store or journal; one and two workers do the same recordings turn by turn with it.
[Scaling](scaling.md) says what follows.
"""


@dataclass(frozen=True)
class Fleet:
    """A folder with recordings, and how they are reduced."""

    folder: Path
    plan: Plan
    paths: tuple[str, ...]

    @property
    def payload(self) -> bytes:
        """What workers are given."""
        return self.plan.payload()

    def source(self, number: int):
        """Open a recording."""
        entry = RecordingEntry(file=self.paths[number], format='rosbag2')
        return open_recording(entry, PANDA)


def section() -> Section:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        fleet = make_fleet(Path(name), 4 * ROUND)
        factor = reduce_recording(fleet.payload, fleet.paths[0]).factor
        size = os.path.getsize(fleet.paths[0])
        tables, figures, costs = by_workers(fleet)
        equality, killed = after_kill(fleet)
        growth = [by_samples(), by_joints(), by_recordings(fleet, factor)]
    tables += [killed, *(table for table, _ in growth)]
    merge_time = growth[2][1]
    tables.append(million(costs, size, len(factor), merge_time))
    figures.append(equality)
    together = figures[1].value + 1e3 * merge_time
    name = 'processes, overhead with merging and comparing'
    figures.append(Figure(name, together, 'ms', at_most=OVERHEAD))
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
    problem = Problem(robot, MODEL, SIGNALS, name='panda')
    base = structure(problem.regressor(), robot)
    return Fleet(folder, Plan(problem, base, RecordingEntry(format='rosbag2')), tuple(paths))


# ---------------------------------------------------------------------------- workers


def by_workers(fleet: Fleet) -> tuple[list[Table], list[Figure], dict[str, float]]:
    """Time a round by one and two workers of each kind, and alone."""
    paths = fleet.paths[:ROUND]
    numbers = count()
    seconds: dict[str, list[float]] = {}
    parents: dict[str, list[float]] = {}
    with ExitStack() as stack:
        crews = {
            (scheduler, workers): stack.enter_context(open_crew(scheduler, workers, fleet.payload))
            for scheduler in schedulers()
            for workers in (1, 2)
        }

        def through(crew: Crew, scheduler: str) -> None:
            with open_store(fleet.folder / f'out{next(numbers)}') as store:
                own = time.process_time()
                reduce_all(crew, store, paths, 'benchmark', FleetSettings())
                own = time.process_time() - own
                parents.setdefault(scheduler, []).append(own / len(paths))

        works = {'alone': lambda: alone(fleet, ROUND // 2)}
        for (scheduler, workers), crew in crews.items():
            works[f'{scheduler} {workers}'] = lambda crew=crew, kind=scheduler: through(crew, kind)
        timings = interleaved(works, repeats=3)
        seconds = {name: list(timing.seconds) for name, timing in timings.items()}
        ceiling = machine_efficiency(crews[('processes', 1)], crews[('processes', 2)], paths)
    single = [each / (ROUND // 2) for each in seconds['alone']]
    rows, figures = [['alone', '1', f'{1e3 * statistics.median(single):.1f}', '', '', '']], []
    for scheduler in schedulers():
        one, two = ([t / ROUND for t in seconds[f'{scheduler} {k}']] for k in (1, 2))
        efficiency = statistics.median(a / (2.0 * b) for a, b in zip(one, two, strict=True))
        overhead = 1e3 * statistics.median(a - b for a, b in zip(one, single, strict=True))
        cells = [f'{1e3 * statistics.median(one):.1f}', f'{overhead:.1f}', '', '']
        rows.append([scheduler, '1', *cells])
        parent = f'{1e3 * statistics.median(parents[scheduler]):.1f}'
        cells = [f'{1e3 * statistics.median(two):.1f}', '', f'{100 * efficiency:.0f} %', parent]
        rows.append([scheduler, '2', *cells])
        name = f'{scheduler}, efficiency of two workers'
        figures.append(Figure(name, efficiency, at_least=EFFICIENCY))
        name = f'{scheduler}, overhead a recording'
        figures.append(Figure(name, overhead, 'ms', at_most=OVERHEAD))
    rows.append(['the machine itself', '2', '', '', f'{100 * ceiling:.0f} %', ''])
    figures.append(Figure('efficiency of two processes that share nothing', ceiling))
    costs = {
        'recording': statistics.median(t / ROUND for t in seconds['processes 1']),
        'parent': statistics.median(parents['processes']),
        'efficiency': figures[0].value,
    }
    columns = ['by', 'workers', 'ms a recording', 'overhead, ms', 'efficiency', 'parent, ms']
    told = (
        f'Rounds of {ROUND} recordings with the workers started before. Overhead is what a '
        'recording takes beyond `alone`, with store and journal. The machine itself: how much '
        'faster two processes are that each loop over recordings of their own, against one alone. '
        'Parent: processor time of the process that hands out recordings and keeps factors.'
    )
    return [Table(columns, rows, 'Workers', told)], figures, costs


def schedulers() -> tuple[str, ...]:
    """Return the kinds of workers of this machine that there are."""
    from robot_identification.fleet.crews import dask_is_installed

    return ('processes', 'dask') if dask_is_installed() else ('processes',)


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


def machine_efficiency(one: Crew, two: Crew, paths: Sequence[str]) -> float:
    """Compare a process that has the machine for itself with two that share it."""
    paths = paths[: ROUND // 2]
    ratios = []
    for _ in range(2):
        single = one.submit(loop, paths).result()
        both = [two.submit(loop, paths) for _ in range(2)]
        ratios.append(single / statistics.mean(each.result() for each in both))
    return statistics.median(ratios)


# ------------------------------------------------------------------------------ kills


def after_kill(fleet: Fleet) -> tuple[Figure, Table]:
    """Kill a worker half-way, and compare what comes out with an undisturbed run."""
    paths = fleet.paths[: ROUND // 2]

    def merged(name: str, kill: bool) -> bytes:
        with (
            open_store(fleet.folder / name) as store,
            open_crew('processes', 2, fleet.payload) as crew,
        ):
            left = [kill]

            def watch(fraction: float, text: str) -> None:
                if fraction > 0.5 and left[0]:
                    left[0] = False
                    os.kill(pids(crew)[0], signal.SIGKILL)

            found = reduce_all(
                crew, store, paths, 'kill', FleetSettings(), progress=watch if kill else silent
            )
            files: dict[str, list[Path]] = {}
            for one in found.recordings:
                files.setdefault(one.serial, []).append(store.factor_file(one.finished.key))
            return pack(merge_stored(stored for _, stored in merge_robots(crew, files)))

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


def pids(crew: Crew) -> list[int]:
    """Return the worker processes of a crew of processes."""
    return list(crew._pool._processes)


# ----------------------------------------------------------------------------- growth


def by_samples() -> tuple[Table, None]:
    """Reduce recordings of different lengths, from memory."""
    robot = panda()
    reducer = Reducer.of(Problem(robot, MODEL, SIGNALS))
    lengths = (10.0, 20.0, 40.0)
    made = {f'{length:g}': recording(robot, length) for length in lengths}
    timings = interleaved(
        {name: lambda r=each: reducer.reduce(r) for name, each in made.items()}, repeats=3
    )
    rows = [
        [name, f'{len(made[name]):,}', f'{1e3 * t.median:.1f}', micro(t.median, len(made[name]))]
        for name, t in timings.items()
    ]
    return Table(['s', 'samples', 'ms', 'us a sample'], rows, 'Growth with samples'), None


def by_joints() -> tuple[Table, None]:
    """Reduce and merge for robots of different sizes."""
    urdf = robots_folder() / 'panda_description/urdf/panda.urdf'
    robots = [Robot.from_urdf(urdf, PANDA[:k], locked=_held(k)) for k in (2, 4)] + [panda()]
    works, about = {}, {}
    for robot in robots:
        reducer = Reducer.of(Problem(robot, MODEL, SIGNALS))
        made = recording(robot, SECONDS)
        stored = reducer.reduce(made)
        data, n = pack(stored), robot.n_joints
        about[n] = (stored.factor.n_base, len(data), len(made))
        works[f'reduce {n}'] = lambda reducer=reducer, made=made: reducer.reduce(made)
        works[f'merge {n}'] = lambda data=data: merge_stored(unpack(data) for _ in range(8))
    timings = interleaved(works, repeats=3)
    rows = []
    for n, (b, size, samples) in about.items():
        reduce, merge = timings[f'reduce {n}'].median, timings[f'merge {n}'].median / 8
        cells = [f'{1e3 * reduce:.1f}', micro(reduce, samples), f'{1e3 * merge:.2f}']
        rows.append([str(n), str(b), *cells, f'{size / 1e3:.1f}'])
    columns = [
        'joints',
        'base parameters',
        'ms',
        'us a sample',
        'merge, ms a factor',
        'factor, kB',
    ]
    told = (
        f'A Panda of which so many joints move, {SECONDS:g} s in memory; merging reads the '
        "factors' bytes."
    )
    return Table(columns, rows, 'Growth with joints', told), None


def _held(moving: int) -> dict[str, float]:
    return {**dict.fromkeys(PANDA[moving:], 0.0), 'panda_finger_joint1': 0.0}


def by_recordings(fleet: Fleet, factor: bytes) -> tuple[Table, float]:
    """Merge and compare different numbers of factors."""
    numbers = (16, 64, 256)
    b = fleet.plan.structure.n_base
    everything = np.ones(b, dtype=bool)
    layout = fleet.plan.structure.base_layout
    question = Question(layout, np.ones(len(PANDA)), everything, np.zeros(b))
    works = {
        f'merge {n}': lambda n=n: merge_stored(unpack(factor) for _ in range(n)) for n in numbers
    }
    works['compare'] = lambda: estimate_group(b'', Group(0, (factor,) * GROUP, question))
    timings = interleaved(works, repeats=3)
    compare = timings['compare'].median / GROUP
    rows = []
    for n in numbers:
        merge = timings[f'merge {n}'].median
        rows.append([str(n), f'{merge:.3f}', f'{1e3 * merge / n:.2f}', f'{1e3 * compare:.2f}'])
    text = (
        'In one process, from the bytes of factors: to merge them in a tree, and to estimate the '
        'parameters of each for the comparison.'
    )
    columns = ['factors', 'merging, s', 'ms a factor', 'comparing, ms a factor']
    table = Table(columns, rows, 'Growth with recordings', text)
    return table, timings['merge 256'].median / 256 + compare


def micro(seconds: float, samples: int) -> str:
    """Return microseconds a sample."""
    return f'{1e6 * seconds / samples:.2f}'


# ---------------------------------------------------------------------------- a million


def million(costs: dict[str, float], size: int, factor: int, merge: float) -> Table:
    """Work out on paper what 10^6 such recordings take."""
    many, cores = 1e6, 1000
    work = many * costs['recording'] / 3600.0
    wall = work / (cores * costs['efficiency'])
    rows = [
        ['recordings, TB', f'10^6 x {size / 1e6:.2f} MB', f'{many * size / 1e12:.2f}'],
        ['work, core hours', f'10^6 x {1e3 * costs["recording"]:.1f} ms', f'{work:.0f}'],
        [
            'two cores, days',
            f'{work:.0f} h / (2 x {costs["efficiency"]:.2f})',
            f'{work / (2.0 * costs["efficiency"]) / 24.0:.1f}',
        ],
        [
            f'{cores} cores, hours',
            f'{work:.0f} h / ({cores} x {costs["efficiency"]:.2f})',
            f'{wall:.2f}',
        ],
        [
            'which read, GB/s',
            f'{many * size / 1e12:.2f} TB / {wall:.2f} h',
            f'{many * size / 1e9 / (wall * 3600.0):.1f}',
        ],
        ['factors, GB', f'10^6 x {factor / 1e3:.1f} kB', f'{many * factor / 1e9:.1f}'],
        [
            'one parent keeps busy, cores',
            f'{1e3 * costs["recording"]:.1f} ms / {1e3 * costs["parent"]:.2f} ms',
            f'{costs["recording"] / costs["parent"]:.0f}',
        ],
        [
            'merging and comparing, core hours',
            f'10^6 x {1e3 * merge:.2f} ms',
            f'{many * merge / 3600.0:.2f}',
        ],
        [f'cost at {PRICE:g} a core hour', f'{work:.0f} h x {PRICE:g}', f'{work * PRICE:.1f}'],
    ]
    told = (
        f'Ten-second recordings as above. `{cores} cores` assumes that storage and network '
        'deliver and that the efficiency of two workers holds; the row `one parent keeps busy` is '
        'where it ends: what hands out recordings and keeps factors takes its own time.'
    )
    return Table(['what', 'how', 'result'], rows, '10^6 recordings, on paper', told)


# ------------------------------------------------------------------------- the long run


def long_run(found: dict) -> tuple[Table, list[Figure]]:
    """Return what a long run found, which is made apart."""
    rows = [
        [f'{point["recordings"]:,}', f'{point["seconds"]:.0f}', f'{point["parent_mb"]:.0f}',
         f'{point["worker_mb"]:.0f}']
        for point in found['points']
    ]  # fmt: skip
    told = (
        f'{found["recordings"]:,} recordings of {found["length"]:g} s by two processes, made by '
        f'`.venv/bin/python -m benchmarks.fleet {found["recordings"]}` on '
        f'{found["machine"]["processor"]}; memory of the parent, and the most that a worker had.'
    )
    points = found['points']
    growth = points[-1]['worker_mb'] / points[0]['worker_mb']
    figures = [
        Figure('long run, set aside', found['set_aside'], at_most=0),
        Figure('long run, growth of workers', growth, at_most=MEMORY_GROWTH),
        Figure(
            'long run, growth of the parent',
            points[-1]['parent_mb'] / points[0]['parent_mb'],
            at_most=MEMORY_GROWTH,
        ),
    ]
    columns = ['recordings', 's', 'parent, MB', 'worker, MB']
    return Table(columns, rows, 'A long run', told), figures


def make_long_run(recordings: int) -> dict:
    """Reduce and merge so many recordings, and watch the memory."""
    points: list[dict] = []
    with tempfile.TemporaryDirectory() as name:
        fleet = make_fleet(Path(name), recordings)
        with (
            open_store(fleet.folder / 'out') as store,
            open_crew('processes', 2, fleet.payload) as crew,
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
                            'worker_mb': max(memory(pid, 'VmHWM') for pid in pids(crew)),
                        }
                    )
                    print(points[-1], flush=True)

            found = reduce_all(crew, store, fleet.paths, 'long', FleetSettings(), progress=watch)
            files: dict[str, list[Path]] = {}
            for one in found.recordings:
                files.setdefault(one.serial, []).append(store.factor_file(one.finished.key))
            reduced = time.perf_counter()
            samples = sum(stored.factor.raw_rows for _, stored in merge_robots(crew, files))
            merging = time.perf_counter() - reduced
    return {
        'recordings': recordings,
        'length': SECONDS,
        'set_aside': len(found.set_aside),
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
    RUN.write_text(json.dumps(make_long_run(int(sys.argv[1])), indent=1) + '\n')
