# SPDX-License-Identifier: Apache-2.0
"""Command ``preview``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ExcitationError
from .options import add_command, overrides_of
from .output import EXIT_OK, EXIT_REJECTED, fail, warn
from .plan import add_planning


def add_parser(commands: Any) -> None:
    """Add ``preview`` to the commands."""
    parser = add_command(
        commands,
        'preview',
        run,
        'check a plan anew against a URDF, and draw it',
        description="""
            Check a plan.yaml against a URDF as the excitation node does before it moves a robot,
            trusting nothing in the file: limits are those of the URDF and of --settings, efforts
            are predicted by the URDF, and every distance is computed. The joints that move, locked
            positions, gravity and obstacles are the plan's; obstacles of --settings are added.

            Write a page with the motion in 3D, also of a plan that is refused; the exit code is 4
            then.
            """,
        epilog="""
            examples:
              robot-identification preview plan/plan.yaml --urdf robot.urdf
              robot-identification preview plan/plan.yaml --urdf robot.urdf --speed 0.3 \\
                  --settings nodes.yaml --out slow.html
            """,
    )
    parser.add_argument('plan', type=Path, help='a plan.yaml')
    parser.add_argument('--urdf', required=True, metavar='FILE', help='a URDF or xacro file')
    parser.add_argument(
        '--speed',
        type=_speed,
        default=1.0,
        metavar='SHARE',
        help='share of the planned speed, above 0 and at most 1 (default: %(default)s)',
    )
    add_planning(parser)
    parser.add_argument(
        '--out', type=Path, metavar='FILE', help='the page (default: preview.html beside the plan)'
    )


def run(options: argparse.Namespace) -> int:
    """Do ``preview`` and return the exit code."""
    from ..config.problem import load_planning
    from ..excitation.collisions import collision_model
    from ..excitation.constraints import check_trajectory
    from ..excitation.limits import motion_limits
    from ..model.robot import Robot
    from ..results.plan_file import as_points, read_plan
    from ..results.plan_page import MotionPage, plan_html
    from ..results.result_yaml import write_whole
    from ..results.saving import reported_failures

    settings = load_planning(options.settings, overrides_of(options.overrides)).planner
    stored = read_plan(options.plan)
    robot = Robot.from_urdf(
        options.urdf, stored.joints, locked=stored.locked, gravity=stored.gravity
    )
    own = {obstacle.name for obstacle in settings.all_obstacles}
    added = tuple(o for o in stored.obstacles if o.name not in own)
    settings = replace(settings, obstacles=(*settings.obstacles, *added))
    trajectory = as_points(stored.trajectory).slower(options.speed)
    limits = motion_limits(robot, settings, margin=0.0)
    collisions = (
        collision_model(robot, settings.clearance, settings.all_obstacles)
        if settings.check_collisions
        else None
    )
    findings, refusal = None, None
    try:
        findings = check_trajectory(
            robot, trajectory, limits, rate=settings.check_rate, collisions=collisions
        )
    except ExcitationError as error:
        refusal = error
    notes = [] if collisions is None else list(collisions.warnings)
    if not stored.is_of(robot):
        notes.append(
            f"'{options.plan}' was made with another URDF: everything here is by '{options.urdf}'"
        )
    page = MotionPage(
        robot,
        trajectory,
        limits,
        findings,
        refusal='' if refusal is None else str(refusal),
        refusal_time=getattr(refusal, 'time', None),
        collisions=collisions,
        obstacles=settings.all_obstacles,
        warnings=tuple(notes),
    )
    path = options.out or options.plan.with_name('preview.html')
    with reported_failures(path.parent, remedy='choose another file'):
        write_whole(path, plan_html(page))
    warn(notes[-1:] if not stored.is_of(robot) else ())
    print(
        f'{trajectory.duration:.4g} s of {", ".join(robot.joints)}; gravity {list(stored.gravity)}'
    )
    for joint, position in robot.locked.items():
        print(f'held: {joint} at {position:g}')
    if findings is not None:
        print(findings.summary())
    print(f'wrote {path}')
    return EXIT_OK if refusal is None else fail(refusal, EXIT_REJECTED)


def _speed(text: str) -> float:
    """Read a share of the planned speed."""
    number = float(text)
    if not 0.0 < number <= 1.0:
        raise argparse.ArgumentTypeError(f'{text} is not above 0 and at most 1')
    return number
