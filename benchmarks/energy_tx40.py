# SPDX-License-Identifier: Apache-2.0
"""
What energy equations make of the recording of the TX-40, beside inverse dynamics.

    .venv/bin/python -m benchmarks.energy_tx40

The README of examples/tx40 says where to get the recording.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import warnings

from robot_identification.estimation import EnergySettings
from robot_identification.io.experiment import load_experiment
from robot_identification.pipeline import identify_sources, Problem

EXPERIMENT = Path(__file__).resolve().parents[1] / 'examples' / 'tx40' / 'experiment.yaml'


def main() -> None:
    """Print a table: errors of the rows that were fitted, and of the efforts they predict."""
    warnings.simplefilter('ignore')
    experiment = load_experiment(EXPERIMENT)
    problem = Problem.of(experiment)
    sources = experiment.sources('identification', problem.robot.joints)
    print(f'{"rows":30}{"number":>8}{"condition":>11}{"fitted %":>10}{"efforts %":>11}')
    for interval, quadrature in (
        (None, ''),
        *((time, kind) for time in (0.01, 0.02, 0.05) for kind in ('trapezoid', 'simpson')),
    ):
        estimation, title = problem.estimation, 'inverse dynamics'
        if interval is not None:
            energy = EnergySettings(interval, quadrature)
            estimation = replace(estimation, equations='energy', energy=energy)
            title = f'energy, {interval:g} s, {quadrature}'
        result = identify_sources(replace(problem, estimation=estimation), sources, sources)
        estimate, seen = result.estimate, result.validations[0]
        print(
            f'{title:30}{estimate.rows:8d}{estimate.condition_number:11.0f}'
            f'{estimate.relative_error:10.2f}{seen.relative_error:11.1f}'
        )


if __name__ == '__main__':
    main()
