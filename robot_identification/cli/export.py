# SPDX-License-Identifier: Apache-2.0
"""Command ``export``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
import sys
from typing import Any, TYPE_CHECKING

from ..errors import IdentificationError
from .options import add_command
from .output import EXIT_OK

if TYPE_CHECKING:
    from ..results.result import StoredResult


def add_parser(commands: Any) -> None:
    """Add ``export`` to the commands."""
    parser = add_command(
        commands,
        'export',
        run,
        'write the identified robot for simulators and controllers',
        description="""
            Write an identified robot in one of these formats:
              urdf  the robot's URDF with its <inertial> and <dynamics> elements replaced; all else
                    stays as it is, comments included
              mjcf  a model for MuJoCo: armature, damping, frictionloss, coupled drives, loops
              sdf   a model for Gazebo
              c     inverse dynamics, gravity and friction as C functions for a controller
              yaml, csv
                    tables of the parameters
            What a format has no element for is listed in a comment of the file.
            """,
        epilog="""
            examples:
              robot-identification export results/result.yaml --out robot_identified.urdf
              robot-identification export results/result.yaml --format mjcf > robot.xml
              robot-identification export results/result.yaml --out dynamics.c
            """,
    )
    parser.add_argument('result', type=Path, help='a result.yaml')
    parser.add_argument(
        '--format',
        choices=tuple(FORMATS),
        help="format to write (default: that of the file's suffix, else urdf)",
    )
    parser.add_argument(
        '--out', type=Path, metavar='FILE', help='file to write (default: standard output)'
    )


def run(options: argparse.Namespace) -> int:
    """Do ``export`` and return the exit code."""
    from ..results.result import read_result

    result = read_result(options.result)
    text = FORMATS[options.format or _format_of(options.out)](result)
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


def _format_of(path: Path | None) -> str:
    suffix = '' if path is None else path.suffix.lower().lstrip('.')
    suffix = 'mjcf' if suffix == 'xml' else suffix
    return suffix if suffix in FORMATS else 'urdf'


def _urdf(result: StoredResult) -> str:
    from ..results.urdf_export import identified_urdf

    return identified_urdf(result.robot, result.standard, result.model)


def _mjcf(result: StoredResult) -> str:
    from ..simulation.mjcf import mjcf

    return mjcf(result.robot, result.standard, result.model)


def _sdf(result: StoredResult) -> str:
    from ..results.sdf_export import sdf

    return sdf(_urdf(result))


def _c(result: StoredResult) -> str:
    from ..results.c_export import c_code

    return c_code(result.robot, result.standard, result.model)


def _yaml(result: StoredResult) -> str:
    from ..results.parameter_table import parameters_yaml

    return parameters_yaml(result.to_document())


def _csv(result: StoredResult) -> str:
    from ..results.parameter_table import parameters_csv

    return parameters_csv(result.to_document())


FORMATS: dict[str, Callable[[StoredResult], str]] = {
    'urdf': _urdf,
    'mjcf': _mjcf,
    'sdf': _sdf,
    'c': _c,
    'yaml': _yaml,
    'csv': _csv,
}
"""Writers by the name of their format; suffixes of files name formats, too, and xml is MJCF."""
