# SPDX-License-Identifier: Apache-2.0
"""Growth of a fleet's work with samples, joints and recordings; a part of `fleet`."""

from __future__ import annotations

import warnings

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.estimation.factor_file import merge_stored, pack, unpack
from robot_identification.fleet.tasks import estimate_group, GROUP, Group, Question
from robot_identification.identification.reduction import FactorBuilder
from robot_identification.model.robot import Robot
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.signals import SignalSettings

from .harness import interleaved, Table
from .synthetic import MODEL, PANDA, panda, recording, robots_folder

SECONDS = 10.0
"""Of each recording [s]."""

SIGNALS = SignalSettings(decimate_to=100.0, cutoff=20.0, dead_zone=0.02)
PRICE = 0.05
"""Assumed price of a core for an hour, in any currency."""


def by_samples() -> tuple[Table, None]:
    """Reduce recordings of different lengths, from memory."""
    robot = panda()
    reducer = FactorBuilder.from_problem(IdentificationProblem(robot, MODEL, SIGNALS))
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
        reducer = FactorBuilder.from_problem(IdentificationProblem(robot, MODEL, SIGNALS))
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
    words = (
        f'A Panda of which so many joints move, {SECONDS:g} s in memory; merging reads the '
        "factors' bytes."
    )
    return Table(columns, rows, 'Growth with joints', words), None


def _held(moving: int) -> dict[str, float]:
    return {**dict.fromkeys(PANDA[moving:], 0.0), 'panda_finger_joint1': 0.0}


def by_recordings(base: BaseStructure, factor: bytes) -> tuple[Table, float]:
    """Merge and compare different numbers of factors."""
    numbers = (16, 64, 256)
    b = base.n_base
    everything = np.ones(b, dtype=bool)
    layout = base.base_layout
    question = Question(layout, np.ones(len(PANDA)), everything, np.zeros(b))
    works = {
        f'merge {n}': lambda n=n: merge_stored(unpack(factor) for _ in range(n)) for n in numbers
    }
    works['compare'] = lambda: estimate_group(b'', Group(0, (factor,) * GROUP, question))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # that it is the same recording each time
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
    words = (
        f'Ten-second recordings as above. `{cores} cores` assumes that storage and network '
        'deliver and that the efficiency of two workers holds; the row `one parent keeps busy` is '
        'where it ends: what hands out recordings and keeps factors takes its own time.'
    )
    return Table(['what', 'how', 'result'], rows, '10^6 recordings, on paper', words)
