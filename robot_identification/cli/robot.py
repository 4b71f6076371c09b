# SPDX-License-Identifier: Apache-2.0
"""Commands on robots: ``check`` and ``export``."""

from __future__ import annotations

import argparse
from pathlib import Path
import sys

from ..errors import IdentificationError
from .command import argument, command, EXIT_OK, flag, require, REQUIREMENTS, RESULT, show, write


@command(
    argument('file', 'a result.yaml, a URDF or a xacro file', Path),
    argument(
        '--tolerance',
        'an eigenvalue counts as positive above minus this value (default: %(default)s)',
        float,
        'T',
        default=0.0,
    ),
    flag(
        '--repair',
        'write the URDF with physical bodies in place of those that are impossible or '
        'missing, and check that one',
    ),
    argument(
        '-o --out',
        'where --repair writes (default: <name>.repaired.urdf beside the file)',
        Path,
        'FILE',
    ),
    *REQUIREMENTS,
)
def check(options: argparse.Namespace) -> int:
    """
    Check whether the parameters are physical and plausible.

    Check link by link whether a physical body can have the parameters: a positive mass, a
    positive definite inertia at the centre of mass, the triangle inequality of its
    principal moments, a positive definite pseudo-inertia; and joint by joint the signs of
    rotor inertia and friction.  Then check whether it is a plausible one: masses against
    the prior's and against the volume of the shapes, centres of mass and radii of gyration
    against the shapes, the total mass.

    Examples
    --------
    robot-identification check results/result.yaml
    robot-identification check my_robot.urdf --require plausible
    robot-identification check my_robot.urdf --repair -o repaired.urdf
    """
    from ..model.consistency import check
    from ..model.plausibility import plausibility, robot_shapes
    from ..model.robot import Robot
    from ..results.result import read_result

    drawn = options.file.suffix in ('.urdf', '.xacro', '.xml')
    if options.repair or options.out is not None:
        options.file = _repair(options.file, options.out, drawn)
    if drawn:
        robot, prior = Robot.from_urdf(options.file), None
        parameters = robot.prior
    else:
        result = read_result(options.file)
        robot, prior, parameters = result.robot, result.prior, result.standard
    report = check(parameters, options.tolerance)
    likeness = plausibility(parameters, prior, robot_shapes(robot))
    show(f'{report.summary()}\n\n{likeness.summary()}')
    plausible = report.physical and likeness.plausible
    return require(options.require, physical=report.physical, plausible=plausible)


def _repair(path: Path, out: Path | None, drawn: bool) -> Path:
    """Write the repaired URDF and return its path, or the file's own where nothing is wrong."""
    from ..model.robot import Robot
    from ..results.urdf_export import repaired_urdf

    if not drawn:
        raise IdentificationError(
            f"'{path}' is no URDF, and only a URDF can be repaired",
            file=str(path),
            remedy='give the .urdf or .xacro file, or identify with estimation.method: physical',
        )
    text, remarks = repaired_urdf(Robot.from_urdf(path, massless=True))
    for remark in remarks or ('nothing to repair',):
        print(remark)
    if not remarks and out is None:
        return path
    # beside the file, so that relative meshes are found
    out = out or path.with_name(f'{path.stem}.repaired.urdf')
    write(out, text)
    print()
    return out


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
