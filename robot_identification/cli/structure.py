# SPDX-License-Identifier: Apache-2.0
"""Command ``structure``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .options import add_command, add_overrides, overrides_of
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``structure`` to the commands."""
    parser = add_command(
        commands,
        'structure',
        run,
        'print which parameters motions can identify',
        description="""
            Print the parameters of the robot and the model that an experiment file describes by
            what can be known of them at best: those that can be identified alone, those that can
            in combination with others, with the combinations, and those that act in no motion.
            No recording is read.
            """,
        epilog="""
            example:
              robot-identification structure experiment.yaml --set robot.gravity='[0, -9.81, 0]'
            """,
    )
    parser.add_argument(
        'experiment', type=Path, help='the experiment file (docs/reference/experiment.md)'
    )
    add_overrides(parser)


def run(options: argparse.Namespace) -> int:
    """Do ``structure`` and return the exit code."""
    from ..base_parameters import structure
    from ..config.experiment_file import load_experiment
    from ..regressor import build

    experiment = load_experiment(options.experiment, overrides_of(options.overrides))
    robot, model = experiment.build_robot(), experiment.robot.model
    base = structure(build(robot, model), robot, grouping=model.grouping)
    print(base.summary())
    return EXIT_OK
