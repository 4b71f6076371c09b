# SPDX-License-Identifier: Apache-2.0
"""
Time an update of the online identification: one sample in, all parameters out.

    .venv/bin/python -m benchmarks online
"""

from __future__ import annotations

from collections.abc import Callable
import gc
import os
from pathlib import Path
import subprocess
import sys
import time
import warnings

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.recursive.elimination import gauss_jordan
from robot_identification.estimation.recursive.rls import RecursiveLeastSquares
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.online import (
    Change,
    ChangeDetector,
    ChangeSettings,
    identifier_of,
    OnlineIdentifier,
)
from robot_identification.online.filters import OnlineGrid, OnlineWindows
from robot_identification.regressor import predict
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.inverse_dynamics import entries
from robot_identification.signals import OnlineFilter, SignalSettings
from robot_identification.signals.windows import Windows

from .harness import Figure, Section, Table
from .synthetic import panda, recording, robots_folder, sines, truth

PERIOD = 1e-3
SIGNALS = SignalSettings(
    method='polynomial_approximation', decimate_to=None, dead_zone=0.01, trim=0.0
)
SECONDS = {'UR10': 20.0, 'Panda': 60.0, 'Baxter, both arms': 8.0, 'Talos': 2.0}
"""Of 1 kHz data that each robot's updates are timed over."""

PACED = 5.0
NUMPY = 1.0
LITERAL = 300
LEARN, CHANGE = 20.0, 43.0
"""Seconds of identification, and of learning what is usual; when the arm changes."""

BY_GRAM, RARE = 1.2, 8.0
"""
Bounds for seven joints: the median by a Gram matrix and `numpy.linalg.solve`, which does less, and
the 99.9th percentile by the median.
"""

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
    return identifier_of(IdentificationProblem(robot, signals=SIGNALS), PERIOD)


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
    seconds_by_name = {}
    for name, robot in robots().items():
        online = identifier(robot)
        given = recording(robot, SECONDS[name])
        latencies(identifier(robot), given.rows(0, 300))  # compiles
        seconds = latencies(online, given)
        seconds_by_name[name] = seconds
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
            ways, by_gram = _ways(robot, given, float(np.median(seconds)))
            figures.append(by_gram)
    for name, seconds in seconds_by_name.items():
        figures.append(Figure(f'{name}, median', 1e6 * float(np.median(seconds)), 'us'))
    changes, noticed = _changes(panda())
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
            changes,
        ),
        figures=(*figures, *noticed),
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
        Figure('seven joints, median', 1e6 * float(np.median(seconds)), 'us'),
        Figure('seven joints, 99.9th percentile', 1e6 * rare, 'us'),
        Figure(
            'seven joints, 99.9th percentile by median',
            rare / float(np.median(seconds)),
            at_most=RARE,
        ),
        Figure('seven joints, last ten seconds to early ones', growth, at_most=_SLOWER_LATER),
    ]


def _stages(robot: Robot, given: Recording) -> Table:
    """Time the parts of an update by themselves, each with the others' results at hand."""
    problem = IdentificationProblem(robot, signals=SIGNALS)
    online = identifier(robot)
    n, columns, pattern = robot.n_joints, online.structure.independent, online.pattern
    windows = Windows.from_settings(SIGNALS, 1.0 / PERIOD)
    grid, filters = OnlineGrid(2 * n, PERIOD, PERIOD), OnlineWindows(windows, n, n)
    learner = RecursiveLeastSquares(online.layout)
    regressor, some, alike = problem.regressor(), np.arange(n), np.ones(n)
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
        _, solution = learner.step(pattern, alike, now, state.effort, every, solution)
        marks.append(time.perf_counter())
        grid_time, push, rows, rest, step = np.diff(marks)
        for name, value in zip(spent, (grid_time, push + rest, rows, step), strict=True):
            spent[name].append(value)
    return Table(
        ('part', 'median [us]'),
        [[name, f'{1e6 * np.median(values[1000:]):.1f}'] for name, values in spent.items()],
        title='Where the time goes, for the Panda',
    )


def _ways(robot: Robot, given: Recording, median: float) -> tuple[Table, Figure]:
    """Compare with the literal way, and with the same without a compiler."""
    fallback, paper = _without_compiler()
    added = float(np.median(_literal(robot, given, np.linalg.solve)))
    rows = [
        ['this package', median],
        ['Gram matrix and `numpy.linalg.solve`, with the same filter and regressor', added],
        ['this package without Numba', fallback],
        ["literally: Gram matrix and the paper's Gauss-Jordan elimination, all in NumPy", paper],
    ]
    figure = Figure('seven joints, median by a Gram matrix', median / added, at_most=BY_GRAM)
    table = Table(
        ('way', 'median [us]', 'times'),
        [[name, f'{1e6 * value:.0f}', f'{value / median:.1f}'] for name, value in rows],
        title='Other ways, for the Panda',
        text='With a Gram matrix `Y^T Y` is added up, which squares the condition number; '
        '`numpy.linalg.solve` knows no parameters that are not excited, so it has a small ridge, '
        "no priors and no flags. Both leave out the filtering of Coulomb friction's columns.",
    )
    return table, figure


def _literal(robot: Robot, given: Recording, solve: Callable[..., object]) -> np.ndarray:
    """Seconds of each sample with a Gram matrix and a full solve."""
    problem = IdentificationProblem(robot, signals=SIGNALS)
    regressor, n = problem.regressor(), robot.n_joints
    columns = structure(regressor, robot).independent
    b = columns.size
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
        solve(gram, right)
        seconds.append(time.perf_counter() - start)
    return np.array(seconds)


def _gauss_jordan(gram: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve as the paper does, with thresholds of its size."""
    inverse, _ = gauss_jordan(gram, np.full(right.size, 1e-6))
    return inverse @ right


def _without_compiler() -> tuple[float, float]:
    """Return medians of an update and of the literal way in a process that does not compile."""
    environment = {**os.environ, 'NUMBA_DISABLE_JIT': '1'}
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.online'],
        cwd=Path(__file__).resolve().parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    update, literal = map(float, done.stdout.split())
    return update, literal


def _changes(robot: Robot) -> tuple[Table, list[Figure]]:
    """Have an arm change, and tell when it is noticed and what is found."""
    problem = IdentificationProblem(robot, signals=SIGNALS)
    regressor, known = problem.regressor(), truth(robot)
    base = structure(regressor, robot)
    time_ = np.arange(round((CHANGE + 5.0) / PERIOD)) * PERIOD
    motion = _motion(time_, robot.n_joints)
    random = np.random.default_rng(5)
    position = motion.position + 1e-6 * random.normal(size=motion.position.shape)
    effort = predict(regressor, motion, known) + 0.1 * random.normal(size=position.shape)
    late = slice(round(CHANGE / PERIOD), None)
    moved = motion.rows(late.start, None)
    link = regressor.layout.links[-1]
    parameters = {
        'a payload of 2 kg': _payload(known, link),
        'joint 4: 30 % more Coulomb friction': known.updated(
            {f'{robot.joints[3]}.fc': 1.3 * known[f'{robot.joints[3]}.fc']}
        ),
    }
    rows, figures = [], []
    for name in (*parameters, 'a collision of 60 ms', 'nothing'):
        changed = effort.copy()
        if name in parameters:
            changed[late] += predict(regressor, moved, parameters[name])
            changed[late] -= predict(regressor, moved, known)
        elif name != 'nothing':
            shape = np.sin(np.pi * np.arange(60) / 60.0)
            changed[late.start : late.start + 60, :4] += np.outer(shape, [4.0, 9.0, 2.0, 5.0])
        found, last, spent = _watched(
            identifier_of(problem, PERIOD, base=base), time_, position, changed
        )
        if not found:
            rows.append([name, 'nothing', '', '', f'{1e6 * spent:.0f}'])
            continue
        when, change = found[0]
        size = f'{change.size:.3g}'
        if last is not None:
            size += f', after 5 s {last.size:.3g} +- {last.std:.2g}'
        rows.append(
            [
                name,
                f'{change.kind}, {change.name}',
                f'{when - CHANGE:.2f}',
                size,
                f'{1e6 * spent:.0f}',
            ]
        )
        if change.kind == 'payload':
            error = 100.0 * abs(change.size / 2.0 - 1.0)
            figures += [
                Figure('2 kg noticed after', when - CHANGE, 's', at_most=2.0),
                Figure('error of their mass when noticed', error, '%', at_most=5.0),
            ]
    table = Table(
        ('change', 'found', 'after [s]', 'size', 'time a sample [us]'),
        rows,
        title='Changes of a Panda, simulated at 1 kHz',
        text=f'Identified for {LEARN:.0f} s, then frozen; residuals learned for {LEARN:.0f} s; '
        f'changed at {CHANGE:.0f} s. Noise of 1 urad and 0.1 N m a sample. The time is what '
        'watching takes beside the update.',
    )
    return table, figures


def _watched(
    online: OnlineIdentifier, stamps: np.ndarray, position: np.ndarray, effort: np.ndarray
) -> tuple[list[tuple[float, Change]], Change | None, float]:
    """Return the changes that were found and when, the last one as it is at the end, and s."""
    settings = ChangeSettings(learning=LEARN, accept_after=None)
    detector: ChangeDetector | None = None
    found, spent = [], []
    for k, stamp in enumerate(stamps):
        update = online.push(stamp, position[k], effort[k])
        if update is None or stamp < LEARN:
            continue
        if detector is None:
            online.freeze()
            detector = ChangeDetector(online, settings)
        start = time.perf_counter()
        change = detector.push(update)
        spent.append(time.perf_counter() - start)
        if change is not None:
            found.append((float(stamp), change))
    assert detector is not None
    return found, detector.change, float(np.mean(spent))


def _motion(stamps: np.ndarray, n: int) -> Motion:
    """Return a motion that repeats after 10 s."""
    random = np.random.default_rng(7)
    terms = (
        (0.2 * np.pi * k, random.uniform(0.05, 0.3, n), random.uniform(0.0, 2.0 * np.pi, n))
        for k in range(1, 6)
    )
    return Motion(*sines(stamps, terms))


def _payload(known: ParameterSet, link: str) -> ParameterSet:
    """Return the parameters with a ball of 2 kg, 10 cm from the last link's frame."""
    place, own = 0.1, 0.003
    added = {'m': 2.0, 'mz': 2.0 * place, 'Izz': own}
    added |= dict.fromkeys(('Ixx', 'Iyy'), 2.0 * place**2 + own)
    names = {f'{link}.{symbol}': value for symbol, value in added.items()}
    return known.updated({name: known[name] + value for name, value in names.items()})


if __name__ == '__main__':
    # what `_without_compiler` reads
    arm = panda()
    some = recording(arm, NUMPY)
    print(np.median(latencies(identifier(arm), some)))
    print(np.median(_literal(arm, some, _gauss_jordan)))
