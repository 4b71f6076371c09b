# SPDX-License-Identifier: Apache-2.0
"""Command ``export``."""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
from typing import Any

from ..errors import IdentificationError
from .options import add_command
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``export`` to the commands."""
    parser = add_command(
        commands,
        'export',
        run,
        'write a URDF with identified parameters',
        description="""
            Write the robot's URDF with its <inertial> and <dynamics> elements replaced by what was
            identified; all else stays as it is, comments included.
            """,
        epilog="""
            examples:
              robot-identification export results/result.yaml --out robot_identified.urdf
              robot-identification export results/result.yaml > robot_identified.urdf
            """,
    )
    parser.add_argument('result', type=Path, help='a result.yaml')
    parser.add_argument(
        '--out', type=Path, metavar='FILE', help='file to write (default: standard output)'
    )


def run(options: argparse.Namespace) -> int:
    """Do ``export`` and return the exit code."""
    from ..results.result import read_result
    from ..results.urdf_export import identified_urdf

    result = read_result(options.result)
    text = identified_urdf(result.robot, result.standard, result.model)
    if options.out is None:
        sys.stdout.write(text)
        return EXIT_OK
    try:
        options.out.write_text(text, encoding='utf-8')
    except OSError as error:
        raise IdentificationError(
            f"cannot write '{options.out}': {error.strerror}", file=str(options.out)
        ) from error
    print(f'wrote {options.out}')
    return EXIT_OK
