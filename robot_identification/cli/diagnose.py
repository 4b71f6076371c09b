# SPDX-License-Identifier: Apache-2.0
"""Command ``diagnose``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .options import add_command, add_overrides, overrides_of
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``diagnose`` to the commands."""
    parser = add_command(
        commands,
        'diagnose',
        run,
        'diagnose faults of the recordings of an experiment file',
        description="""
            Try single explanations of what the recordings of data.identification show: degrees or
            milliseconds, an effort with the wrong sign or scale, joints in the wrong columns, a
            zero offset, another direction of gravity, efforts that are late or without gravity, a
            load that the URDF lacks, and more. Print those that fit decisively better, each with
            its evidence and the key that mends it.
            """,
        epilog="""
            examples:
              robot-identification diagnose experiment.yaml
              robot-identification diagnose experiment.yaml --set 'robot.gravity=[0, 0, 9.81]'
            """,
    )
    parser.add_argument(
        'experiment', type=Path, help='the experiment file (docs/reference/experiment.md)'
    )
    add_overrides(parser)


def run(options: argparse.Namespace) -> int:
    """Do ``diagnose`` and return the exit code."""
    from ..config.experiment_file import load_experiment
    from ..config.problem import IdentificationProblem
    from ..errors import SettingsError
    from ..estimation.diagnosis import diagnose
    from ..reduction import recordings_among

    experiment = load_experiment(options.experiment, overrides_of(options.overrides))
    problem = IdentificationProblem.of(experiment)
    sources = recordings_among(experiment.sources('identification', problem.robot.joints))
    if not sources:
        raise SettingsError(
            f"{options.experiment}: 'data.identification' names no recording",
            key='data.identification',
            file=str(options.experiment),
            remedy='add one; factors do not have the samples that a diagnosis takes',
        )
    print(diagnose(problem.robot, sources, problem.model, problem.prior()).summary())
    return EXIT_OK
