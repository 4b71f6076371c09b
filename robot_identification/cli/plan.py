# SPDX-License-Identifier: Apache-2.0
"""Command ``plan``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
import signal
from typing import Any

from ..errors import collected_warnings
from ..progress import progress_bar
from .options import (
    add_command,
    add_overrides,
    add_quiet,
    not_negative,
    overrides_of,
    positive,
    whole,
)
from .output import EXIT_OK, warn


def add_parser(commands: Any) -> None:
    """Add ``plan`` to the commands."""
    parser = add_command(
        commands,
        'plan',
        run,
        'plan a motion that excites the parameters, and look at it before it moves',
        description="""
            Plan a trajectory that excites the base parameters of a robot, from rest to rest,
            within its limits and free of collision. Nothing moves and no ROS is needed. Ctrl-C
            ends the search early.

            Write into the output folder:
              plan.yaml         the trajectory, its settings and limits ('preview' checks it anew)
              plan.html         curves against limits, and the robot moving in 3D
              trajectory.csv    position, velocity and acceleration, 100 a second
              trajectory.yaml   a trajectory_msgs/msg/JointTrajectory, for 'ros2 topic pub' and
                                'ros2 action send_goal' (docs/explanation/excitation.md)
            """,
        epilog="""
            examples:
              robot-identification plan robot.urdf --duration 30 --set planner.floor=0.0
              robot-identification plan experiment.yaml --settings nodes.yaml --out plans/first
            """,
    )
    parser.add_argument(
        'robot', help='a URDF or xacro file, or an experiment file, whose robot is taken'
    )
    add_planning(parser)
    parser.add_argument(
        '--out',
        type=Path,
        default=Path('plan'),
        metavar='DIR',
        help='folder for the files (default: %(default)s)',
    )
    parser.add_argument('--duration', type=positive, metavar='S', help='length of the motion')
    parser.add_argument('--seed', type=whole, help='of the random start values')
    parser.add_argument(
        '--time-budget', type=not_negative, metavar='S', help='time for the search'
    )
    parser.add_argument(
        '--earlier',
        nargs='+',
        type=Path,
        default=[],
        metavar='FACTOR',
        help="factors of earlier recordings ('reduce'), which the motion is to complement",
    )
    parser.add_argument('--method', help='kind of trajectory (planner.method)')
    add_quiet(parser)


def add_planning(parser: argparse.ArgumentParser) -> None:
    """Add ``--settings`` and ``--set``."""
    parser.add_argument(
        '--settings',
        type=Path,
        metavar='FILE',
        help="YAML with 'planner', 'robot', 'joints' and 'locked', or a parameter file of the "
        'excitation node, which has the same keys (docs/reference/nodes.md)',
    )
    add_overrides(
        parser,
        'replace a setting, for example planner.floor=0.0; may be given several times',
    )


def run(options: argparse.Namespace) -> int:
    """Do ``plan`` and return the exit code."""
    from ..config.problem import load_planning, planned_robot
    from ..excitation.collisions import collision_model
    from ..excitation.planner import plan
    from ..reduction import earlier_information
    from ..results.factor_file import read_factor
    from ..results.saving import require_writable, save_plan

    given = {
        f'planner.{name}': getattr(options, name)
        for name in ('duration', 'seed', 'time_budget', 'method')
        if getattr(options, name) is not None
    }
    planning = load_planning(options.settings, {**overrides_of(options.overrides), **given})
    robot, model = planned_robot(options.robot, planning)
    require_writable(options.out)
    settings = planning.planner
    factors = [read_factor(path) for path in options.earlier]
    earlier = earlier_information(factors) if factors else None
    with collected_warnings() as notes:
        with progress_bar(enabled=not options.quiet) as progress, interruptible() as stopped:
            made = plan(robot, settings, progress, stopped, model=model, earlier=earlier)
        collisions = (
            collision_model(robot, settings.clearance, settings.all_obstacles)
            if settings.check_collisions
            else None
        )
        files = save_plan(options.out, made, robot, model, collisions)
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
