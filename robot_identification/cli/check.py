# SPDX-License-Identifier: Apache-2.0
"""Command ``check``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .options import add_command
from .output import require_physical


def add_parser(commands: Any) -> None:
    """Add ``check`` to the commands."""
    parser = add_command(
        commands,
        'check',
        run,
        'check the physical consistency of the parameters',
        description="""
            Check link by link whether a physical body can have the parameters: a positive mass, a
            positive definite inertia at the centre of mass, the triangle inequality of its
            principal moments, a positive definite pseudo-inertia; and joint by joint the signs of
            rotor inertia and friction.
            """,
        epilog="""
            examples:
              robot-identification check results/result.yaml
              robot-identification check my_robot.urdf --require-physical
            """,
    )
    parser.add_argument('file', type=Path, help='a result.yaml, a URDF or a xacro file')
    parser.add_argument(
        '--tolerance',
        type=float,
        default=0.0,
        metavar='T',
        help='an eigenvalue counts as positive above minus this value (default: %(default)s)',
    )
    parser.add_argument(
        '--require-physical',
        action='store_true',
        help='exit with code 3 if the parameters are physically inconsistent',
    )


def run(options: argparse.Namespace) -> int:
    """Do ``check`` and return the exit code."""
    from ..model.consistency import check
    from ..model.robot import Robot
    from ..results.result import read_result

    if options.file.suffix in ('.urdf', '.xacro', '.xml'):
        parameters = Robot.from_urdf(options.file).prior
    else:
        parameters = read_result(options.file).standard
    report = check(parameters, options.tolerance)
    print(report.summary())
    return require_physical(report.physical, options.require_physical)
