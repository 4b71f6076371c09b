# SPDX-License-Identifier: Apache-2.0
"""
Time the regressor beside Pinocchio's, called from Python and from C++.

    .venv/bin/python -m benchmarks regressor
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import warnings

import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Motion
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, CoupledDrive, ModelSettings
from robot_identification.support.compiled import available

from . import figaroh_way, two_cores
from .harness import Figure, interleaved, ratio, Section, Table, Timing
from .pinocchio_loop import PinocchioLoop, Unavailable
from .regressor_entries import Base, base, base_entries, RIGID
from .synthetic import panda, robots_folder

SLOW = 300
"""Samples for ways that take long; times are per sample."""

LONG = 100_000
"""Samples above which fewer rounds are timed, and no new memory is asked for."""

BY_CPP = 2.5
"""How many times ours the loop in C++ takes at least, on a processor with AVX2 alone, too."""

ZERO = 'zeros'
OURS = 'ours'
NEW = 'ours, into new memory'
ZERO_ALL = 'zeros, all columns'
ALL = 'ours, all columns'
BASE = 'ours, entries of base columns'
BASE_RIGID = 'ours, entries of rigid base columns'
CPP = 'Pinocchio, loop in C++'
PYTHON = 'Pinocchio, loop in Python'
NUMPY = 'ours, NumPy alone'
FIGAROH = "figaroh's way"

TEXT = """
The rows of the inverse dynamics regressor for random states, dense, in microseconds a sample, on
one core.  *Zeros* fills the array with zeros: nothing that writes it can be faster.  All but *new
memory*, which the system has to find first, write to an array that is there.  *All columns* are
those of rotors, friction and a coupled drive beside the ten of each link.  *Entries* are what
identification asks for: base columns alone, and of these what is not zero for every motion, in
blocks of 1000 samples.  Pinocchio computes rigid bodies alone.  *Figaroh's way* is its loop
re-created in code of our own: a call of Pinocchio for each sample, and a row of all columns
written for each joint.

Held to bounds are: the loops of Pinocchio by ours (2.5 in C++, 3 in Python; for the humanoid the
one in Python alone); and what all columns cost more than rigid ones (20 %), both for entries and
dense. Dense rows of all columns are about 1.4 times as wide, and already zeros
take so much longer for them: what misses that bound is memory, not arithmetic, as the figure *each
by its zeros* tells. Entries of all columns are a sixth to a fifth more numbers than rigid ones,
which leaves little of that bound. Ours by zeros is held to nothing: it compares arithmetic with
the speed of the memory, so that it says more of the machine (1.4 to 4.1 were seen) than of the
kernel. Ratios are medians over rounds in which every way has its
turn; ways that take long have rounds of their own. Microseconds are held to nothing: they differ
from processor to processor, and so does the ratio to C++: for arms it was 4.1 to 4.5 on an idle
AMD EPYC that offers AVX2 alone (2.9 beside other work), where others had 4.2 to 4.7.

The kernel is written in Numba as documented, which has no stores past the caches and leaves the
width of vector registers to the compiler (256 bits on many processors that have 512), and a slice
of an array takes some nanoseconds. A kernel in hand-written LLVM IR, which had both, took 0.41
microseconds for the Panda's dense rows and 0.29 for their entries, where this one took 1.1 and
0.59 (Intel Xeon whose memory takes zeros in 0.45; best of ten rounds): dense rows took 2.7 times
as long, entries twice.

Two threads have a table of their own, beside two processes that know nothing of each
other.  Entries are bound by arithmetic and held to 1.6 times the speed of one thread.  Dense rows
are bound by memory, which both cores share: they are held to 0.8 (1.6 of 2) of what two processes
gain.  Jobs of a few milliseconds gain less, for a second core has to wake up.
"""


@dataclass(frozen=True)
class Case:
    """A robot, the numbers of samples, and what it is held to."""

    name: str
    robot: Robot
    samples: tuple[int, ...]
    of_arm: bool = True


def section() -> Section:
    """Time all robots."""
    tables, figures, notes = [], [], []
    for case in cases():
        bases = base(case.robot, RIGID), base(case.robot, everything(case.robot))
        for samples in case.samples:
            table, found, note = measured(case, samples, bases)
            tables.append(table)
            figures += found
            notes += [note] if note and note not in notes else []
    if available():
        table, found = two_cores.measured()
        tables.append(table)
        figures += found
    text = TEXT if available() else TEXT + '\n\nNumba is not installed: ours is NumPy alone.'
    return Section('Regressor', '\n\n'.join([text, *notes]), tables, figures)


def cases() -> list[Case]:
    """Return the robots."""
    folder = robots_folder()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        ur10 = Robot.from_urdf(folder / 'ur_description/urdf/ur10_robot.urdf')
        talos = Robot.from_urdf(folder / 'talos_data/robots/talos_reduced.urdf')
    return [
        Case('Panda', panda(), (20_000, 200_000)),
        Case('UR10', ur10, (20_000, 200_000)),
        Case('Talos', talos, (2_000,), of_arm=False),
    ]


def measured(
    case: Case, samples: int, bases: tuple[Base, Base]
) -> tuple[Table, list[Figure], str]:
    """Time a robot; return the table, the figures, and what could not be done."""
    robot = case.robot
    motion = Motion(*np.random.default_rng(0).uniform(-2.0, 2.0, (3, samples, robot.n_joints)))
    # all ways write to the same place, which is found but once
    memory = np.zeros(numbers(robot, samples, everything(robot)))
    works = ways(robot, motion, memory, bases)
    note = ''
    try:
        loop = PinocchioLoop(robot)
        states, out = loop.states(motion), memory[: numbers(robot, samples, RIGID)]
        works[CPP] = samples, lambda: loop(states, out)
    except Unavailable as reason:
        note = f'Pinocchio is not timed from C++: {reason}.'
    slow = {name for name, (count, _) in works.items() if count == SLOW}
    fast = interleaved(
        {n: w for n, (_, w) in works.items() if n not in slow}, repeats=7 if samples < LONG else 4
    )
    times = fast | interleaved({n: w for n, (_, w) in works.items() if n in slow}, repeats=3)
    each = {name: 1e6 * time.median / works[name][0] for name, time in times.items()}
    rows = [[n, f'{each[n]:.2f}', f'{each[n] / each[OURS]:.2f}'] for n in works]
    heads = ['', 'us a sample', 'times ours']
    title = f'{case.name}, {robot.n_joints} joints, {samples:,} samples'
    return Table(heads, rows, title), held(case, samples, times, each), note


def ways(
    robot: Robot, motion: Motion, memory: np.ndarray, bases: tuple[Base, Base]
) -> dict[str, tuple[int, Callable[[], object]]]:
    """Return all ways but that in C++, each with its number of samples."""
    samples = len(motion)
    rigid, whole = (base.regressor for base in bases)
    out = memory[: numbers(robot, samples, RIGID)].reshape(-1, len(rigid.layout))
    out_all = memory.reshape(-1, len(whole.layout))
    few = motion.rows(0, SLOW)
    states = few.position, few.velocity, few.acceleration
    fresh = {NEW: (samples, lambda: rigid.rows(motion))} if samples < LONG else {}
    return {
        ZERO: (samples, lambda: out.fill(0.0)),
        OURS: (samples, lambda: rigid.rows(motion, out=out)),
        **fresh,
        ZERO_ALL: (samples, lambda: out_all.fill(0.0)),
        ALL: (samples, lambda: whole.rows(motion, out=out_all)),
        BASE_RIGID: (samples, base_entries(bases[0], motion)),
        BASE: (samples, base_entries(bases[1], motion)),
        NUMPY: (SLOW, lambda: by_numpy(rigid, few)),
        PYTHON: (SLOW, python_loop(robot, few)),
        FIGAROH: (SLOW, lambda: figaroh_way.regressor(robot, *states)),
    }


def numbers(robot: Robot, samples: int, settings: ModelSettings) -> int:
    """Return the number of entries of the dense rows."""
    return samples * robot.n_joints * len(build(robot, settings).layout)


def everything(robot: Robot) -> ModelSettings:
    """Return a model with rotors, friction and a coupled drive."""
    last = robot.joints[-2:]
    return ModelSettings(coupled_drives=(CoupledDrive(last[1], last, ratios=(1.0, 1.0)),))


def by_numpy(regressor, motion: Motion) -> np.ndarray:
    """Do it as it is done without Numba."""
    out = np.zeros((len(motion), regressor.n_joints, len(regressor.layout)))
    for term in regressor.terms:
        term.fill(motion, out)
    return out


def python_loop(robot: Robot, motion: Motion) -> Callable[[], object]:
    """Return a loop over samples that writes into an array that is there."""
    model, data = robot.model, robot.model.createData()
    q = robot.configuration(motion.position)
    v, a = robot.tangent(motion.velocity), robot.tangent(motion.acceleration)
    out = np.zeros((len(motion), robot.n_joints, 10 * robot.n_joints))

    def work() -> None:
        for i in range(len(out)):
            out[i] = pin.computeJointTorqueRegressor(model, data, q[i], v[i], a[i])

    return work


def held(
    case: Case, samples: int, times: dict[str, Timing], each: dict[str, float]
) -> list[Figure]:
    """Return what is held to bounds."""
    name = f'{case.name}, {samples:,} samples'
    python = each[PYTHON] / each[OURS]
    figures = [
        Figure(f'{name}: ours', each[OURS], 'us a sample'),
        Figure(f'{name}: ours by zeros', ratio(times[OURS], times[ZERO])),
        Figure(f'{name}: Pinocchio in a Python loop by ours', python, at_least=3.0),
        Figure(
            f'{name}: all columns by rigid ones, entries',
            ratio(times[BASE], times[BASE_RIGID]),
            at_most=1.2,
        ),
        Figure(
            f'{name}: all columns by rigid ones, dense',
            ratio(times[ALL], times[OURS]),
            at_most=1.2,
        ),
        Figure(
            f'{name}: all columns by rigid ones, dense, each by its zeros',
            ratio(times[ALL], times[ZERO_ALL]) / ratio(times[OURS], times[ZERO]),
        ),
    ]
    if CPP in times:
        bound = BY_CPP if case.of_arm else None
        value = ratio(times[CPP], times[OURS])
        figures.append(Figure(f'{name}: Pinocchio in a C++ loop by ours', value, at_least=bound))
    return figures
