# SPDX-License-Identifier: Apache-2.0
"""
The whole way from samples to parameters, beside one tall QR and beside figaroh's way.

    .venv/bin/python -m benchmarks samples_to_parameters
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
import subprocess
import sys
import time

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.estimation.least_squares import wls
from robot_identification.estimation.rows import row_blocks
from robot_identification.estimation.system import accumulate, LinearSystem, system_of
from robot_identification.identification.pipeline import identify_sources
from robot_identification.regressor import Regressor
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.inverse_dynamics import entries, row_pattern
from robot_identification.signals import process, SignalSettings, stretches

from . import figaroh_way
from .harness import Figure, interleaved, ratio, Section, Table, Timing
from .synthetic import MODEL, panda, recording

SECONDS, SHORT = 60.0, 10.0
"""Lengths of the recordings [s], at 1 kHz."""

DENSE_SAMPLES = 300
"""Samples whose dense matrix of weights still fits into memory."""

ALL_ROWS = SignalSettings(decimate_to=None, cutoff=figaroh_way.CUTOFF)
SETTINGS = {
    'all samples': ALL_ROWS,
    'all samples, dead zone 0.05 rad/s': replace(ALL_ROWS, dead_zone=0.05),
    'decimated to 50 Hz': replace(ALL_ROWS, decimate_to=50.0),
}

TEXT = """\
A made-up recording of a Panda arm, {seconds:g} s of seven joints at 1 kHz, becomes {b} base
parameters with their standard deviations (rigid bodies, rotor inertia, viscous and Coulomb
friction, offset; weighted by joint). *The same steps* are those that the others have too: finding
the base parameters, filter, differences, regressor, streaming QR, weights and classical
statistics. *All that is done by default* is `pipeline.identify_sources`, with factors of stretches
of time for the block bootstrap, the diagnosis of the recording, and checks of the result, of which
the others have nothing. Beside them, on the same {rows:,} rows of base columns, which are in
memory already: one call of NumPy's QR without Q, and of its least squares.

Figaroh's way is re-created from what figaroh 1.0.2 does (`benchmarks/figaroh_way.py` says step by
step), with the same cut-off frequency, without decimation, on the same recording.
"""


@dataclass(frozen=True)
class Case:
    """A recording and what is to be found from it."""

    problem: IdentificationProblem
    recording: Recording
    regressor: Regressor
    base: BaseStructure

    @classmethod
    def make(cls, seconds: float) -> Case:
        """Make up a recording of so many seconds."""
        robot = panda()
        problem = IdentificationProblem(robot, MODEL, ALL_ROWS, EstimationSettings(method='wls'))
        regressor = problem.regressor()
        return cls(problem, recording(robot, seconds), regressor, structure(regressor, robot))

    def identify(self, signals: SignalSettings = ALL_ROWS) -> None:
        """Do the whole job."""
        identify_sources(replace(self.problem, signals=signals), [self.recording])

    def same_steps(self) -> None:
        """Do what the others do: base parameters, rows, weighted least squares."""
        base = structure(self.regressor, self.problem.robot)
        wls(system_of(self.recording, self.regressor, base, ALL_ROWS))

    def system(self) -> LinearSystem:
        """Fold the recording's rows."""
        return system_of(self.recording, self.regressor, self.base, ALL_ROWS)

    def dense(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all rows of base columns, (420,000, b), and their efforts."""
        samples = process(self.recording, ALL_ROWS)
        pattern = row_pattern(self.regressor, self.base.independent)
        n, b = self.problem.robot.n_joints, self.base.n_base
        rows = np.empty((len(samples), n, b))
        for start in range(0, len(samples), 4096):
            part = samples.rows(start, start + 4096)
            found = entries(self.regressor, part, self.base.independent, pattern)
            rows[start : start + len(part)] = pattern.expand(found)
        return rows.reshape(-1, b), samples.effort.ravel()


def section() -> Section:
    """Measure."""
    case = Case.make(SECONDS)
    rows, effort = case.dense()
    whole = interleaved(
        {
            'ours': case.same_steps,
            'all': case.identify,
            'QR': partial(np.linalg.qr, rows, mode='r'),
            'least squares': partial(np.linalg.lstsq, rows, effort, rcond=None),
        },
        repeats=5,
    )
    size = len(effort)
    del rows, effort
    slow = interleaved(
        {'before': case.same_steps, 'figaroh': lambda: check(case), 'after': case.same_steps},
        repeats=1,
        warm=0,
    )
    tables, figures = _compared(case, whole, slow)
    short, more = _short()
    return Section(
        title='From samples to parameters',
        text=TEXT.format(seconds=SECONDS, b=case.base.n_base, rows=size),
        tables=[*tables, _stages(case), _settings(case), short],
        figures=[*figures, *more],
    )


def check(case: Case) -> None:
    """Go figaroh's way; it has to come to the same number of base parameters."""
    found = figaroh_way.identify(case.problem.robot, case.recording)
    if found.columns.size != case.base.n_base:
        raise ValueError(f'{found.columns.size} base parameters, not {case.base.n_base}')


def _compared(
    case: Case, whole: dict[str, Timing], slow: dict[str, Timing]
) -> tuple[list[Table], list[Figure]]:
    ours = whole['ours']
    beside = 0.5 * (slow['before'].median + slow['after'].median)
    by_figaroh = slow['figaroh'].median / beside
    dense, dense_rows = dense_weights(case)
    all_rows = len(case.recording) * case.problem.robot.n_joints
    lines = [
        ('the same steps', ours.median, 1.0),
        ('all that is done by default', whole['all'].median, ratio(whole['all'], ours)),
        ("NumPy's qr(mode='r') of the rows alone", whole['QR'].median, ratio(whole['QR'], ours)),
        (
            "NumPy's lstsq of the rows alone",
            whole['least squares'].median,
            ratio(whole['least squares'], ours),
        ),
        ("figaroh's way, the whole job", slow['figaroh'].median, by_figaroh),
    ]
    table = Table(
        ['', 'ms', 'times ours'],
        [[name, f'{1e3 * seconds:.0f}', f'{times:.1f}'] for name, seconds, times in lines],
        text='Figaroh also has a function that weighs rows by a dense matrix (its '
        f'`weigthed_least_squares`): for {dense_rows:,} rows that takes {dense:.2f} s, for '
        f'{all_rows:,} rows it would take {8e-12 * all_rows**2:.1f} TB.',
    )
    share = ratio(ours, whole['QR'])
    figures = [
        Figure('the same steps', ours.median, 's'),
        Figure('all that is done by default', whole['all'].median, 's'),
        Figure("the same steps by NumPy's tall QR", share, at_most=0.25),
        Figure("figaroh's way by the same steps", lines[-1][2], at_least=40.0),
    ]
    return [table], figures


def dense_weights(case: Case) -> tuple[float, int]:
    """Time figaroh's weights in a dense matrix for a few samples: seconds and rows."""
    system = case.system()
    trace, n = system.trace, case.problem.robot.n_joints
    rows = trace.matrix[:DENSE_SAMPLES].transpose(1, 0, 2).reshape(-1, case.base.n_base)
    tau = trace.effort[:DENSE_SAMPLES].T.ravel()
    start = time.perf_counter()
    figaroh_way.dense_weights(rows, tau, wls(system).base.values, n)
    return time.perf_counter() - start, len(tau)


def _stages(case: Case) -> Table:
    """Time each step alone, with what it takes from the one before in memory."""
    columns = case.base.independent
    samples = process(case.recording, ALL_ROWS)
    pattern = row_pattern(case.regressor, columns)
    blocks = list(row_blocks(case.recording, case.regressor, case.base, ALL_ROWS))
    system = case.system()
    parts = [samples.rows(start, start + 512) for start in range(0, len(samples), 512)]
    works: dict[str, Callable[[], object]] = {
        'base parameters': lambda: structure(case.regressor, case.problem.robot),
        'filter, differences': lambda: _exhaust(case.recording),
        'regressor': lambda: _evaluated(parts, case.regressor, columns, pattern),
        'streaming QR and sums': lambda: accumulate(blocks, case.base, case.recording.joints),
        'weights, parameters, statistics': lambda: wls(system),
    }
    times = interleaved(works, repeats=5)
    lines = [
        [name, f'{1e3 * timing.median:.1f}', f'{1e6 * timing.median / len(case.recording):.2f}']
        for name, timing in times.items()
    ]
    return Table(['step alone', 'ms', 'us a sample'], lines, title='The steps')


def _exhaust(source: Recording) -> None:
    for _ in stretches(source, ALL_ROWS):
        pass


def _evaluated(parts: list[Motion], regressor: Regressor, columns: np.ndarray, pattern) -> None:
    for part in parts:
        entries(regressor, part, columns, pattern)


def _settings(case: Case) -> Table:
    works = {name: partial(case.identify, signals) for name, signals in SETTINGS.items()}
    times = interleaved(works, repeats=3)
    lines = [
        [name, f'{1e3 * timing.median:.0f}', f'{1e6 * timing.median / len(case.recording):.2f}']
        for name, timing in times.items()
    ]
    return Table(
        ['rows', 'ms', 'us a sample'], lines, title='Other settings, all that is done by default'
    )


def _short() -> tuple[Table, list[Figure]]:
    """Time what a short recording costs beyond its rows."""
    case = Case.make(SHORT)
    half = replace(case, recording=case.recording.rows(0, len(case.recording) // 2))
    works: dict[str, Callable[[], object]] = {
        'whole': case.identify,
        'half': half.identify,
        'structure': lambda: structure(case.regressor, case.problem.robot),
        'robot': panda,
        'import': lambda: subprocess.run([sys.executable, '-c', IMPORTS], check=True),
    }
    times = interleaved(works, repeats=5)
    beyond = 2.0 * times['half'].median - times['whole'].median
    lines = [
        (f'all that is done by default for {SHORT:g} s', times['whole'].median),
        ('of that, what does not grow with the recording', beyond),
        ('of that, base parameters', times['structure'].median),
        ('before: reading the URDF', times['robot'].median),
        ('before: starting Python and importing the pipeline', times['import'].median),
    ]
    table = Table(
        ['', 'ms'],
        [[name, f'{1e3 * seconds:.1f}'] for name, seconds in lines],
        title='A short recording',
        text='What does not grow is known from recordings of half the length.',
    )
    return table, [Figure('beyond the rows of a short recording', 1e3 * beyond, 'ms')]


IMPORTS = 'import robot_identification.identification.pipeline'
