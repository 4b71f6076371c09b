# SPDX-License-Identifier: Apache-2.0
"""Command ``check``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import IdentificationError
from .options import argument, command, flag, REQUIREMENTS
from .output import require, show, write


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
