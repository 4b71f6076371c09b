# SPDX-License-Identifier: Apache-2.0
"""Command ``demo``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import IdentificationError
from .options import add_command


def add_parser(commands: Any) -> None:
    """Add ``demo`` to the commands."""
    parser = add_command(
        commands,
        'demo',
        run,
        'do all steps on a simulated arm, over ROS 2',
        description="""
            Start the suite's nodes against an arm simulated in MuJoCo whose true parameters differ
            from its URDF; plan an excitation, execute and record it, identify the parameters,
            check them, validate them on a second motion, and compare them with the true ones.
            """,
        epilog="""
            The folder afterwards holds:
              recordings/       rosbag2 folders of both motions
              results/          result.yaml, verdict.json, identified.urdf, report.html
              truth.yaml        the simulated robot's true parameters
              logs/             what each node printed
            """,
    )
    parser.add_argument(
        '--out',
        type=Path,
        default=Path('demo_results'),
        metavar='DIR',
        help='folder for recordings, results and logs (default: %(default)s)',
    )
    parser.add_argument(
        '--seed', type=int, default=1, help='of the planner and the noise (default: %(default)s)'
    )
    parser.add_argument(
        '--duration',
        type=float,
        default=20.0,
        metavar='S',
        help='length of each motion in seconds (default: %(default)s)',
    )
    parser.add_argument(
        '--max-iterations',
        type=int,
        default=300,
        metavar='N',
        help='evaluations of the planner for each motion (default: %(default)s)',
    )


def run(options: argparse.Namespace) -> int:
    """Do ``demo`` and return the exit code."""
    try:
        from ..demo import run_demo
    except ImportError as error:
        raise IdentificationError(
            f'the demonstration needs ROS 2 and MuJoCo ({error})',
            remedy="run 'make demo' in the sources, or source your ROS 2 workspace and install "
            'mujoco',
        ) from error
    return run_demo(
        options.out,
        seed=options.seed,
        duration=options.duration,
        max_iterations=options.max_iterations,
    )
