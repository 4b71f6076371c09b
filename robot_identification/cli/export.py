# SPDX-License-Identifier: Apache-2.0
"""Command ``export``."""

from __future__ import annotations

import argparse
from pathlib import Path
import sys

from .options import argument, command, RESULT
from .output import EXIT_OK, write

FORMATS = ('urdf', 'mjcf', 'sdf', 'c', 'yaml', 'csv', 'plotjuggler')
"""Those of `library.export`; suffixes of files name them, too, and xml is MJCF."""


@command(
    RESULT,
    argument(
        '--format',
        "format to write (default: that of the file's suffix, else urdf)",
        choices=FORMATS,
    ),
    argument('--out', 'file to write (default: standard output)', Path, 'FILE'),
)
def export(options: argparse.Namespace) -> int:
    """
    Write the identified robot for simulators and controllers.

    Write an identified robot in one of these formats:
      urdf  the robot's URDF with its <inertial> and <dynamics> elements replaced; all else
            stays as it is, comments included
      mjcf  a model for MuJoCo: armature, damping, frictionloss, coupled drives, loops
      sdf   a model for Gazebo
      c     inverse dynamics, gravity and friction as C functions for a controller
      yaml, csv
            tables of the parameters
      plotjuggler
            a layout for PlotJuggler that shows what the nodes publish of the robot
    What a format has no element for is listed in a comment of the file.

    Examples
    --------
    robot-identification export results/result.yaml --out robot_identified.urdf
    robot-identification export results/result.yaml --format mjcf > robot.xml
    robot-identification export results/result.yaml --out dynamics.c
    """
    from ..library import export
    from ..results.result import read_result

    text = export(read_result(options.result), options.format or _format_of(options.out))
    if options.out is None:
        sys.stdout.write(text)
    else:
        write(options.out, text)
    return EXIT_OK


def _format_of(path: Path | None) -> str:
    suffix = '' if path is None else path.suffix.lower().lstrip('.')
    suffix = 'mjcf' if suffix == 'xml' else suffix
    return suffix if suffix in FORMATS else 'urdf'
