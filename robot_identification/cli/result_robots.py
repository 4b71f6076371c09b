# SPDX-License-Identifier: Apache-2.0
"""Commands on the robot of a result: ``check`` and ``export``."""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
from textwrap import fill
from typing import Any

from ..errors import IdentificationError, SettingsError
from ..exports.formats import format_of, FORMATS
from .command import (
    argument,
    command,
    count,
    EXIT_OK,
    flag,
    require,
    REQUIREMENTS,
    RESULT,
    show,
    write,
    XACRO,
)


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
    XACRO,
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
    against the shapes, the total mass; of a URDF, limits, lengths and masses against the
    robot's own size.

    Examples
    --------
    robot-identification check results/result.yaml
    robot-identification check my_robot.urdf --require plausible
    robot-identification check my_robot.urdf --repair -o repaired.urdf
    """
    from ..model.consistency import check
    from ..model.plausibility import plausibility, robot_reach, robot_shapes
    from ..model.robot import Robot
    from ..model.robot_check import check_robot
    from ..model.urdf import is_xml
    from ..results.stored_result import read_result

    drawn = options.file.suffix in ('.urdf', '.xacro', '.xml') or is_xml(options.file)
    if options.repair or options.out is not None:
        options.file = _repair(options.file, options.out, drawn, dict(options.xacro))
    if drawn:
        robot = Robot.from_urdf(options.file, xacro_arguments=dict(options.xacro))
        found = check_robot(robot, options.tolerance)
        report, likeness = found.consistency, found.plausibility
    else:
        result = read_result(options.file)
        robot, parameters = result.robot, result.standard
        prior = None if robot.bodies_alike else result.prior
        report = check(parameters, options.tolerance)
        likeness = plausibility(parameters, prior, robot_shapes(robot), reach=robot_reach(robot))
    show(f'{report.summary()}\n\n{likeness.summary()}')
    plausible = report.physical and likeness.plausible
    return require(options.require, physical=report.physical, plausible=plausible)


def _repair(path: Path, out: Path | None, drawn: bool, xacro: dict[str, str]) -> Path:
    """Write the repaired URDF and return its path, or the file's own where nothing is wrong."""
    from ..model.robot import Robot
    from ..model.urdf_repair import repaired_urdf

    if not drawn:
        raise IdentificationError(
            f"'{path}' is no URDF, and only a URDF can be repaired",
            file=str(path),
            remedy='give the .urdf or .xacro file, or identify with estimation.method: physical',
        )
    robot = Robot.from_urdf(path, massless=True, xacro_arguments=xacro)
    text, remarks = repaired_urdf(robot)
    for remark in remarks or ('nothing to repair',):
        print(remark)
    if not remarks and out is None:
        return path
    # beside the file, so that relative meshes are found
    out = out or path.with_name(f'{path.stem}.repaired.urdf')
    write(out, text)
    print()
    return out


def _listed() -> str:
    """Return the formats and what they are, as lines of a help text."""
    texts = (
        fill(f'{name:<11} {each.doc}', 86, initial_indent='  ', subsequent_indent=' ' * 14)
        for name, each in FORMATS.items()
    )
    servos = ', '.join(name for name, each in FORMATS.items() if each.write_servos)
    last = f'Servos that were identified from commands have {servos}.'
    return '\n'.join([*texts, last, 'What a format has no element for is listed in a comment.'])


@command(
    RESULT,
    argument(
        '--format',
        "format to write (default: that of the file's suffix, else urdf)",
        choices=tuple(FORMATS),
    ),
    argument(
        '--samples',
        'write so many sets of the parameters for domain randomisation, as yaml (default), npz, '
        'isaaclab or mjlab',
        count,
        'N',
    ),
    argument(
        '--frame',
        "link whose frame is the flange's, for a load (default: the one it was identified in)",
        metavar='LINK',
    ),
    flag(
        '--tilt-in-base',
        'write the tilt of the base that was identified into the joints on the root link of a '
        'URDF or SDF',
    ),
    argument('--out', 'file to write (default: standard output)', Path, 'FILE'),
    formats=_listed(),
)
def export(options: argparse.Namespace) -> int:
    """
    Write the identified robot or load for simulators and controllers.

    Write an identified robot, or the load of a result, in one of these formats:
    {formats}

    Print what the file predicts alone of the recordings that the result was validated on,
    beside the full model and the URDF that it came from; with the file on standard output
    that is on standard error.

    Examples
    --------
    robot-identification export results/result.yaml --out robot_identified.urdf
    robot-identification export results/result.yaml --format mjcf > robot.xml
    robot-identification export results/result.yaml --out dynamics.c
    robot-identification export results/result.yaml --format ur --frame tool0
    """
    from ..exports.formats import export, predictions_of
    from ..identification.tool_pipeline import read_any_result

    suffix = '' if options.out is None else options.out.suffix.lower().lstrip('.')
    usual = 'urdf' if options.samples is None else 'yaml'
    name = options.format or format_of(suffix) or usual
    found = read_any_result(options.result)
    text: str | bytes
    if options.samples is None:
        text = export(found, name, options.frame, tilt_in_base=options.tilt_in_base)
        said = predictions_of(found, name, tilted=options.tilt_in_base)
    else:
        text, said = _sets(found, name, options)
    if isinstance(text, bytes):
        if options.out is None:
            raise SettingsError(f"'{name}' is no text", remedy='name a file with --out')
        write(options.out, text)
    elif options.out is None:
        sys.stdout.write(text)
    else:
        write(options.out, text)
    for sentence in said:
        print(sentence, file=sys.stderr if options.out is None else sys.stdout)
    return EXIT_OK


def _sets(
    found: Any, name: str, options: argparse.Namespace
) -> tuple[str | bytes, tuple[str, ...]]:
    """Return sets of parameters, and what they cover of other motions."""
    from ..exports.formats import export_sets
    from ..results.exported_files import coverage_sentences

    if options.frame is not None or options.tilt_in_base:
        other = '--frame' if options.frame is not None else '--tilt-in-base'
        raise SettingsError(f"'{other}' is given beside '--samples'", remedy='leave it out')
    text = export_sets(found, options.samples, name)
    files = getattr(found, 'files', None)
    return text, () if files is None else coverage_sentences(files)
