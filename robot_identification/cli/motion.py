# SPDX-License-Identifier: Apache-2.0
"""Commands ``plan`` and ``preview``: motions before they move a robot."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
import signal
from typing import Any

from ..errors import collected_warnings, ExcitationError
from ..progress import progress_bar
from .options import argument, command, not_negative, PLANNING, planning_of, positive, QUIET, whole
from .output import EXIT_OK, EXIT_REJECTED, fail, warn


@command(
    argument('robot', 'a URDF or xacro file, or an experiment file, whose robot is taken'),
    *PLANNING,
    argument('--out', 'folder for the files', Path, 'DIR', default=Path('plan')),
    argument('--duration', 'length of the motion', positive, 'S'),
    argument('--seed', 'of the random start values', whole),
    argument('--time-budget', 'time for the search', not_negative, 'S'),
    argument(
        '--earlier',
        "factors of earlier recordings ('reduce'), which the motion is to complement",
        Path,
        'FACTOR',
        nargs='+',
        default=[],
    ),
    argument('--method', 'kind of trajectory (planner.method)'),
    QUIET,
)
def plan(options: argparse.Namespace) -> int:
    """
    Plan a motion that excites the parameters, and look at it before it moves.

    Plan a trajectory that excites the base parameters of a robot, from rest to rest,
    within its limits and free of collision. Nothing moves and no ROS is needed. Ctrl-C
    ends the search early.

    Write into the output folder:
      plan.yaml         the trajectory, its settings and limits ('preview' checks it anew)
      plan.html         curves against limits, and the robot moving in 3D
      trajectory.csv    position, velocity and acceleration, 100 a second
      trajectory.yaml   a trajectory_msgs/msg/JointTrajectory, for 'ros2 topic pub' and
                        'ros2 action send_goal' (docs/explanation/excitation.md)

    Examples
    --------
    robot-identification plan robot.urdf --duration 30 --set planner.floor=0.0
    robot-identification plan experiment.yaml --settings nodes.yaml --out plans/first
    """
    from ..config.problem import planned_robot
    from ..excitation.planner import plan
    from ..reduction import earlier_information
    from ..results.factor_file import read_factor
    from ..results.saving import require_writable, save_plan

    planning = planning_of(options, ('duration', 'seed', 'time_budget', 'method'))
    robot, model = planned_robot(options.robot, planning)
    require_writable(options.out)
    factors = [read_factor(path) for path in options.earlier]
    earlier = earlier_information(factors) if factors else None
    with collected_warnings() as notes:
        with progress_bar(enabled=not options.quiet) as progress, interruptible() as stopped:
            made = plan(robot, planning.planner, progress, stopped, model=model, earlier=earlier)
        files = save_plan(options.out, made, robot, model, _collisions(robot, planning.planner))
    warn(text for text in dict.fromkeys(notes) if text not in made.warnings)
    if not options.quiet:
        print(made.summary())
    for path in files:
        print(f'wrote {path}')
    return EXIT_OK


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Give a function that is true after Ctrl-C; a second Ctrl-C interrupts."""
    pressed: list[int] = []

    def note(number: int, _: Any) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def _collisions(robot: Any, settings: Any) -> Any:
    from ..excitation.collisions import collision_model

    if not settings.check_collisions:
        return None
    return collision_model(robot, settings.clearance, settings.all_obstacles)


def _speed(text: str) -> float:
    """Read a share of the planned speed."""
    number = float(text)
    if not 0.0 < number <= 1.0:
        raise argparse.ArgumentTypeError(f'{text} is not above 0 and at most 1')
    return number


@command(
    argument('plan', 'a plan.yaml', Path),
    argument('--urdf', 'a URDF or xacro file', required=True, metavar='FILE'),
    argument(
        '--speed',
        'share of the planned speed, above 0 and at most 1',
        _speed,
        'SHARE',
        default=1.0,
    ),
    *PLANNING,
    argument('--out', 'the page (default: preview.html beside the plan)', Path, 'FILE'),
)
def preview(options: argparse.Namespace) -> int:
    r"""
    Check a plan anew against a URDF, and draw it.

    Check a plan.yaml against a URDF as the excitation node does before it moves a robot,
    trusting nothing in the file: limits are those of the URDF and of --settings, efforts
    are predicted by the URDF, and every distance is computed. The joints that move, locked
    positions, gravity and obstacles are the plan's; obstacles of --settings are added.

    Write a page with the motion in 3D, also of a plan that is refused; the exit code is 4
    then.

    Examples
    --------
    robot-identification preview plan/plan.yaml --urdf robot.urdf
    robot-identification preview plan/plan.yaml --urdf robot.urdf --speed 0.3 \
        --settings nodes.yaml --out slow.html
    """
    from ..excitation.constraints import check_trajectory
    from ..excitation.limits import motion_limits
    from ..model.robot import Robot
    from ..results.plan_file import as_points, read_plan
    from ..results.plan_page import MotionPage, plan_html
    from ..results.result_yaml import write_whole
    from ..results.saving import reported_failures

    settings = planning_of(options).planner
    stored = read_plan(options.plan)
    robot = Robot.from_urdf(
        options.urdf, stored.joints, locked=stored.locked, gravity=stored.gravity
    )
    own = {obstacle.name for obstacle in settings.all_obstacles}
    added = tuple(o for o in stored.obstacles if o.name not in own)
    settings = replace(settings, obstacles=(*settings.obstacles, *added))
    trajectory = as_points(stored.trajectory).slower(options.speed)
    limits = motion_limits(robot, settings, margin=0.0)
    collisions = _collisions(robot, settings)
    findings, refusal = None, None
    try:
        findings = check_trajectory(
            robot, trajectory, limits, rate=settings.check_rate, collisions=collisions
        )
    except ExcitationError as error:
        refusal = error
    other = () if stored.is_of(robot) else (
        f"'{options.plan}' was made with another URDF: everything here is by '{options.urdf}'",
    )  # fmt: skip
    page = MotionPage(
        robot,
        trajectory,
        limits,
        findings,
        refusal='' if refusal is None else str(refusal),
        refusal_time=getattr(refusal, 'time', None),
        collisions=collisions,
        obstacles=settings.all_obstacles,
        warnings=(*(() if collisions is None else collisions.warnings), *other),
    )
    path = options.out or options.plan.with_name('preview.html')
    with reported_failures(path.parent, remedy='choose another file'):
        write_whole(path, plan_html(page))
    warn(other)
    print(
        f'{trajectory.duration:.4g} s of {", ".join(robot.joints)}; gravity {list(stored.gravity)}'
    )
    for joint, position in robot.locked.items():
        print(f'held: {joint} at {position:g}')
    if findings is not None:
        print(findings.summary())
    print(f'wrote {path}')
    return EXIT_OK if refusal is None else fail(refusal, EXIT_REJECTED)
