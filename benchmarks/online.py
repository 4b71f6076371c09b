# SPDX-License-Identifier: Apache-2.0
"""
Time an update of the online identification: one sample in, all parameters out.

    .venv/bin/python -m benchmarks online
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
import subprocess
import sys
import time
import warnings

import numpy as np
from robot_identification.estimation import RecursiveLeastSquares
from robot_identification.estimation.stepping import SampleRows
from robot_identification.online import OnlineIdentifier
from robot_identification.online.grid import OnlineGrid
from robot_identification.online.windows import OnlineWindows
from robot_identification.problem import Problem
from robot_identification.recording import Motion, Recording
from robot_identification.regressors.pattern import entries
from robot_identification.robot import Robot
from robot_identification.signals import OnlineFilter, SignalSettings
from robot_identification.signals.windows import Windows

from .harness import Figure, Section, Table
from .synthetic import panda, recording, robots_folder

PERIOD = 1e-3
SIGNALS = SignalSettings(
    method='polynomial_approximation', decimate_to=None, dead_zone=0.01, trim=0.0
)
SECONDS = {'UR10': 20.0, 'Panda': 60.0, 'Baxter, both arms': 8.0, 'Talos': 2.0}
"""Of 1 kHz data that each robot's updates are timed over."""

PACED = 5.0
NUMPY = 1.0
LITERAL = 300
MEDIAN, RARE = 60.0, 500.0
"""Bounds for seven joints [us]."""

_SLOWER_LATER = 1.2


def robots() -> dict[str, Robot]:
    """Return robots of 6, 7, 14 and about 30 joints."""
    folder = robots_folder()
    arms = [
        f'{side}_{joint}'
        for side in ('left', 'right')
        for joint in ('s0', 's1', 'e0', 'e1', 'w0', 'w1', 'w2')
    ]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return {
            'UR10': Robot.from_urdf(folder / 'ur_description/urdf/ur10_robot.urdf'),
            'Panda': panda(),
            'Baxter, both arms': Robot.from_urdf(
                folder / 'baxter_description/urdf/baxter.urdf', arms
            ),
            'Talos': Robot.from_urdf(folder / 'talos_data/robots/talos_reduced.urdf'),
        }


def identifier(robot: Robot) -> OnlineIdentifier:
    """Return what is timed: every sample is learned from and solved for."""
    return Problem(robot, signals=SIGNALS).online(PERIOD)


def latencies(online: OnlineIdentifier, given: Recording, *, paced: bool = False) -> np.ndarray:
    """Seconds that each update took; ``paced`` waits for each sample's time to come."""
    seconds = np.empty(len(given.time))
    spent = np.zeros(len(given.time), dtype=bool)
    gc.collect()
    begin = time.perf_counter()
    samples = zip(given.time, given.position, given.effort, strict=True)
    for i, (stamp, position, effort) in enumerate(samples):
        if paced:
            time.sleep(max(0.0, begin + i * PERIOD - time.perf_counter()))
        start = time.perf_counter()
        update = online.push(stamp, position, effort)
        seconds[i] = time.perf_counter() - start
        spent[i] = update is not None
    return seconds[spent]


def section() -> Section:
    """Measure."""
    rows, figures = [], []
    told = {}
    for name, robot in robots().items():
        online = identifier(robot)
        given = recording(robot, SECONDS[name])
        latencies(identifier(robot), given.rows(0, 300))  # compiles
        seconds = latencies(online, given)
        told[name] = seconds
        b = online.structure.n_base
        rows.append(_row(f'{name} ({robot.n_joints} joints, {b} parameters)', seconds))
        if name == 'Panda':
            figures += _bounds(seconds)
            rows.append(
                _row(
                    'Panda, samples at 1 kHz by the clock',
                    latencies(identifier(robot), given.rows(0, round(PACED / PERIOD)), paced=True),
                )
            )
            stages = _stages(robot, given)
            ways = _ways(robot, given, float(np.median(seconds)))
    for name, seconds in told.items():
        figures.append(Figure(f'{name}, median', 1e6 * float(np.median(seconds)), 'us'))
    return Section(
        title='Online identification',
        text='One update: a sample goes onto the time grid, through the polynomial approximation '
        'and the regressor, its rows go into R of the modified recursive least squares, and all '
        'base parameters are solved for. Outside ROS, the garbage collector at work as usual.',
        tables=(
            Table(
                ('robot', 'updates', 'median', '99 %', '99.9 %', 'longest'),
                rows,
                title='Time of an update [us]',
            ),
            stages,
            ways,
        ),
        figures=figures,
    )


def _row(name: str, seconds: np.ndarray) -> list[str]:
    found = 1e6 * np.percentile(seconds, [50.0, 99.0, 99.9, 100.0])
    return [name, str(len(seconds)), *(f'{value:.0f}' for value in found)]


def _bounds(seconds: np.ndarray) -> list[Figure]:
    """Return the figures of seven joints, which are held to something."""
    part = len(seconds) // 6
    growth = float(np.median(seconds[-part:]) / np.median(seconds[part : 2 * part]))
    rare = float(np.percentile(seconds, 99.9))
    return [
        Figure('seven joints, median', 1e6 * float(np.median(seconds)), 'us', at_most=MEDIAN),
        Figure('seven joints, 99.9th percentile', 1e6 * rare, 'us', at_most=RARE),
        Figure('seven joints, last ten seconds to early ones', growth, at_most=_SLOWER_LATER),
    ]


def _stages(robot: Robot, given: Recording) -> Table:
    """Time the parts of an update by themselves, each with the others' results at hand."""
    problem = Problem(robot, signals=SIGNALS)
    online = identifier(robot)
    n, columns, pattern = robot.n_joints, online.structure.independent, online.pattern
    windows = Windows.design(SIGNALS.polynomial_approximation, 1.0 / PERIOD)
    grid, filters = OnlineGrid(2 * n, PERIOD, PERIOD), OnlineWindows(windows, n, n)
    learner = RecursiveLeastSquares(online.layout)
    sample, regressor, some = SampleRows.of(pattern), problem.regressor(), np.arange(n)
    solution = learner.solution()
    whole = np.ascontiguousarray(np.hstack((given.position, given.effort)))
    spent: dict[str, list[float]] = {
        name: [] for name in ('time grid', 'filters', 'regressor', 'rows into R, and solution')
    }
    every = np.ones(n, dtype=bool)
    for i in range(4000):
        marks = [time.perf_counter()]
        grid.push(given.time[i], whole[i])
        marks.append(time.perf_counter())
        state = filters.push(whole[i])
        marks.append(time.perf_counter())
        if state is None:
            continue
        found = entries(regressor, state.motion, columns, pattern)
        marks.append(time.perf_counter())
        now = filters.filtered(found, some)
        marks.append(time.perf_counter())
        if now is None:
            continue
        _, solution = learner.step(sample, now, state.effort, every, solution)
        marks.append(time.perf_counter())
        grid_time, push, rows, rest, step = np.diff(marks)
        for name, value in zip(spent, (grid_time, push + rest, rows, step), strict=True):
            spent[name].append(value)
    return Table(
        ('part', 'median [us]'),
        [[name, f'{1e6 * np.median(values[1000:]):.1f}'] for name, values in spent.items()],
        title='Where the time goes, for the Panda',
    )


def _ways(robot: Robot, given: Recording, median: float) -> Table:
    """Compare with the literal way, and with the same without a compiler."""
    fallback = _without_compiler()
    literal = float(np.median(_literal(robot, given)))
    rows = [
        ['this package', f'{1e6 * median:.0f}', '1'],
        ['this package without Numba', f'{1e6 * fallback:.0f}', f'{fallback / median:.1f}'],
        ['literally, in NumPy', f'{1e6 * literal:.0f}', f'{literal / median:.1f}'],
    ]
    return Table(
        ('way', 'median [us]', 'times'),
        rows,
        title='Other ways, for the Panda',
        text="Literally: the same filter and the regressor's whole rows, `Y^T Y` and `Y^T tau` "
        'added up, and `numpy.linalg.solve` after each sample (ridged, since it knows no '
        'parameters that are not excited).',
    )


def _literal(robot: Robot, given: Recording) -> np.ndarray:
    """Seconds of each sample with a Gram matrix and a full solve."""
    problem = Problem(robot, signals=SIGNALS)
    columns = identifier(robot).structure.independent
    regressor, n, b = problem.regressor(), robot.n_joints, columns.size
    operator = SIGNALS.polynomial_approximation.operator(1.0 / PERIOD)
    filters = OnlineFilter(operator, n)
    gram, right = 1e-9 * np.eye(b), np.zeros(b)
    seconds = []
    for i in range(operator.taps + LITERAL):
        start = time.perf_counter()
        state = filters.push(given.position[i], given.effort[i])
        if state is None:
            continue
        motion = Motion(state.position[None], state.velocity[None], state.acceleration[None])
        Y = regressor.rows(motion)[:, columns]
        gram += Y.T @ Y
        right += Y.T @ state.effort
        np.linalg.solve(gram, right)
        seconds.append(time.perf_counter() - start)
    return np.array(seconds)


def _without_compiler() -> float:
    """Return the median of an update in a process that does not compile [s]."""
    environment = {**os.environ, 'NUMBA_DISABLE_JIT': '1'}
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.online'],
        cwd=Path(__file__).resolve().parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


if __name__ == '__main__':
    # what `_without_compiler` reads
    arm = panda()
    print(np.median(latencies(identifier(arm), recording(arm, NUMPY))))
