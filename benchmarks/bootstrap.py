# SPDX-License-Identifier: Apache-2.0
"""Honest standard deviations: what the block bootstrap takes, and how often it is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from robot_identification.estimation.bootstrap import bootstrap, BootstrapSettings
from robot_identification.estimation.estimate import Estimate
from robot_identification.estimation.least_squares import wls
from robot_identification.estimation.system import LinearSystem, system_of
from robot_identification.regressor import build
from robot_identification.regressor.base_search import structure
from robot_identification.signals import SignalSettings
from scipy.signal import lfilter

from .harness import Figure, interleaved, ratio, Section, Table
from .synthetic import MODEL, panda, recording, truth

SECONDS = 60.0
SIGNALS = SignalSettings(decimate_to=100.0)
TIME_CONSTANTS = (0.0, 0.02, 0.1, 0.5)
"""How long errors of the effort stay alike [s]; 0 for white noise."""

RECORDINGS = 12
ERROR = 1.0
"""Standard deviation of the efforts' errors [N m]."""


class Robot:
    """A Panda, its known parameters, and a motion to disturb again."""

    def __init__(self, seconds: float) -> None:
        self.robot = panda()
        self.regressor = build(self.robot, MODEL)
        self.structure = structure(self.regressor, self.robot)
        self.known = self.structure.project(truth(self.robot)).values
        self.clean = recording(self.robot, seconds)

    def system(self, time_constant: float, seed: int, *, timed: bool = True) -> LinearSystem:
        """Fold the motion with errors of the efforts, by parts where ``timed``."""
        rate = 1.0 / (self.clean.time[1] - self.clean.time[0])
        memory = np.exp(-1.0 / (time_constant * rate)) if time_constant > 0.0 else 0.0
        white = np.random.default_rng(seed).normal(size=self.clean.effort.shape)
        errors = lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], white, axis=0)
        source = replace(self.clean, effort=self.clean.effort + ERROR * errors)
        return system_of(source, self.regressor, self.structure, SIGNALS, timed=timed)


def times(robot: Robot) -> tuple[Table, list[Figure]]:
    """Time the replicates, and what collecting the parts adds to the pass."""
    system = robot.system(0.1, 0)
    estimate = wls(system)
    works: dict[str, Callable[[], object]] = {
        'one pass over the recording': lambda: robot.system(0.1, 0, timed=False),
        'the same, with its parts': lambda: robot.system(0.1, 0),
        'weighted least squares of the factors': lambda: wls(system),
        '1000 replicates': lambda: bootstrap(system, estimate),
    }
    timings = interleaved(works, repeats=5)
    rows = [[name, f'{1e3 * timing.median:.1f}'] for name, timing in timings.items()]
    assert system.blocks is not None
    title = (
        f'Seven joints, {system.factor.n_base} parameters, {system.factor.n_rows:,} rows in '
        f'{len(system.blocks)} parts of {system.blocks.duration:g} s '
        f'({1e-6 * system.blocks.nbytes:.0f} MB)'
    )
    replicates, whole = timings['1000 replicates'], timings['one pass over the recording']
    figures = [
        Figure('1000 replicates', replicates.median, 's'),
        Figure('1000 replicates by one pass', ratio(replicates, whole), at_most=2.0),
    ]
    return Table(['step', 'ms'], rows, title), figures


def coverage(robot: Robot) -> tuple[Table, list[Figure]]:
    """Count true parameters within intervals."""
    rows, figures = [], []
    for constant in TIME_CONSTANTS:
        found = np.array([_case(robot, constant, seed) for seed in range(RECORDINGS)])
        drawn, classical, growth, block = found.mean(axis=0).tolist()
        name = f'{1e3 * constant:.0f} ms' if constant else 'white'
        rows.append([name, f'{drawn:.1f}', f'{classical:.1f}', f'{growth:.2f}', f'{block:.2f}'])
        figures.append(
            Figure(f'intervals that hold, errors {name}', drawn, '%', at_least=90.0, at_most=99.0)
        )
    heads = ['errors alike for', 'bootstrap holds %', 'classical holds %']
    heads += ['bootstrap by classical std', 'stretches s']
    text = (
        f'Share of the true parameters within 95 % intervals over {RECORDINGS} simulated '
        f'recordings. Errors of the effort have a standard deviation of {ERROR:g} N m, and are '
        'filtered to stay alike for the time given.'
    )
    return Table(heads, rows, 'Intervals that hold', text), figures


def _case(robot: Robot, constant: float, seed: int) -> tuple[float, float, float, float]:
    system = robot.system(constant, seed)
    estimate: Estimate = wls(system)
    drawn = bootstrap(system, estimate, BootstrapSettings(replicates=400, seed=seed))
    off = np.abs(estimate.base.values - robot.known)
    within = (drawn.low < robot.known) & (robot.known < drawn.high)
    return (
        100.0 * float(np.mean(within)),
        100.0 * float(np.mean(off < 1.96 * estimate.std)),
        float(np.median(drawn.std / estimate.std)),
        drawn.block,
    )


def section() -> Section:
    """Time and check the bootstrap."""
    robot = Robot(SECONDS)
    first, figures = times(robot)
    second, more = coverage(robot)
    return Section(
        'Block bootstrap',
        f'A simulated Panda moves for {SECONDS:.0f} s at 1 kHz; stretches of its recording are '
        'drawn again.',
        [first, second],
        [*figures, *more],
    )
