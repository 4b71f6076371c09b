# SPDX-License-Identifier: Apache-2.0
"""
Energy equations on the recording of the TX-40, beside inverse dynamics.

    .venv/bin/python -m benchmarks energy_tx40
"""

from __future__ import annotations

from dataclasses import replace
import itertools
from pathlib import Path
import time
import warnings

from robot_identification.config.experiment import Experiment
from robot_identification.config.experiment_file import load_experiment
from robot_identification.estimation.energy import EnergySettings
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources

from .harness import Section, Table

KINDS = ((None, ''), *itertools.product((0.01, 0.02, 0.05), ('trapezoid', 'simpson')))
"""Intervals [s] and quadratures."""

EXPERIMENT = Path(__file__).resolve().parents[1] / 'examples' / 'tx40' / 'experiment.yaml'


def section() -> Section:
    """Identify with each kind of rows."""
    experiment = load_experiment(EXPERIMENT)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        lines = [_line(experiment, *kind) for kind in KINDS]
    heads = ['rows', 'number', 'condition', 'fitted %', 'efforts %', 's']
    return Section(
        title='Energy equations on the recording of the TX-40',
        text='Errors of the rows that were fitted, and of the efforts that the parameters '
        'predict.',
        tables=[Table(heads, lines)],
    )


def _line(experiment: Experiment, interval: float | None, quadrature: str) -> list[str]:
    problem = IdentificationProblem.from_experiment(experiment)
    sources = experiment.sources('identification', problem.robot.joints)
    estimation, title = problem.estimation, 'inverse dynamics'
    if interval is not None:
        energy = EnergySettings(interval, quadrature)
        estimation = replace(estimation, equations='energy', energy=energy)
        title = f'energy, {interval:g} s, {quadrature}'
    start = time.perf_counter()
    result = identify_sources(replace(problem, estimation=estimation), sources, sources)
    seconds = time.perf_counter() - start
    estimate, seen = result.estimate, result.validations[0]
    return [
        title,
        str(estimate.rows.count),
        f'{estimate.rows.condition_number:.0f}',
        f'{estimate.fit.relative_error:.2f}',
        f'{seen.relative_error:.1f}',
        f'{seconds:.1f}',
    ]
