# SPDX-License-Identifier: Apache-2.0
"""Command ``calibrate``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TYPE_CHECKING

from ..errors import collected_warnings
from ..progress import progress_bar
from .options import (
    argument,
    command,
    count,
    flag,
    needing_ros,
    not_negative,
    PLANNING,
    planning_of,
    positive,
)
from .output import EXIT_OK, EXIT_REJECTED, fail, warn

if TYPE_CHECKING:
    from ..calibration import Executor
    from ..config.problem import IdentificationProblem


@command(
    argument('robot', 'an experiment file, or a URDF or xacro file for default settings'),
    *PLANNING,
    argument(
        '--out',
        'folder for motions, recordings and results',
        Path,
        'DIR',
        default=Path('calibration'),
    ),
    argument(
        '--target',
        'wanted standard deviation of every essential parameter (default: 5)',
        positive,
        'PERCENT',
    ),
    argument(
        '--least-share',
        "least share of a joint's effort that makes a parameter essential (default: 1)",
        not_negative,
        'PERCENT',
    ),
    argument(
        '--prediction-error',
        'wanted error of the efforts predicted for a validation motion, in place of --target',
        positive,
        'PERCENT',
    ),
    argument('--motions', 'motions at most (default: 8)', count, 'N'),
    argument('--duration', 'length of a motion, at most', positive, 'S'),
    flag('--confirm', 'show each motion and ask before it is executed'),
    flag('--simulation', 'move a robot simulated in MuJoCo'),
    argument(
        '--speed',
        'share of the planned speed, without --simulation',
        positive,
        'SHARE',
        default=1.0,
    ),
    argument('--namespace', "namespace of the robot's nodes, without --simulation", default=''),
)
def calibrate(options: argparse.Namespace) -> int:
    """
    Move and identify until the parameters are known well enough.

    Plan a motion, check it, execute and record it, identify, compare the standard
    deviations with the goal, and plan the next motion for what is still uncertain: until
    the goal is reached, cannot be reached, or the motions are spent. Every step is kept in
    the folder; the same command again goes on where it was interrupted.

    With --simulation a robot in MuJoCo moves, whose parameters differ from the URDF.
    Without it, the excitation node does (parameter execute: true), with its checks, its
    watch and the recorder; the bags have to be on this machine.

    Examples
    --------
    robot-identification calibrate robot.urdf --simulation --set planner.floor=0.0
    robot-identification calibrate experiment.yaml --settings nodes.yaml --confirm
    robot-identification calibrate experiment.yaml --prediction-error 5
    """
    from ..calibration import calibrate, CalibrationSettings, MET, next_motion
    from ..options.fields import from_mapping
    from ..results.saving import require_writable

    planning = planning_of(options, ('duration',))
    names = ('target', 'least_share', 'prediction_error', 'motions')
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    settings = from_mapping(CalibrationSettings, given)
    require_writable(options.out)
    with collected_warnings() as notes:
        problem, choose = _problem(options.robot, planning)
        with progress_bar() as progress, _executor(options, problem) as executor:
            ended = calibrate(
                options.out,
                problem,
                executor,
                settings,
                planner=planning.planner,
                plan_motion=partial(next_motion, progress=progress),
                choose=choose,
                confirm=_ask if options.confirm else lambda folder: True,
                report=lambda text: print(text, flush=True),
            )
    warn(dict.fromkeys(notes))
    print(ended.summary())
    if ended.result is not None:
        print(f'wrote {options.out / "results"}')
    return EXIT_OK if ended.outcome == MET else fail('the goal is not reached', EXIT_REJECTED)


def _problem(source: str, planning: Any) -> tuple[IdentificationProblem, Any]:
    """Return the problem, and what chooses the settings that are not given."""
    from ..calibration import automatic_choice
    from ..config.experiment_file import load_experiment
    from ..config.problem import IdentificationProblem, planned_robot

    if Path(source).suffix not in ('.yaml', '.yml'):
        robot, model = planned_robot(source, planning)
        problem = IdentificationProblem(robot, model)
        return problem, automatic_choice(problem)
    experiment = load_experiment(source, check_data=False)
    problem = IdentificationProblem.of(experiment)
    return problem, automatic_choice(problem, experiment.given) if experiment.auto else None


@contextmanager
def _executor(options: argparse.Namespace, problem: IdentificationProblem) -> Iterator[Executor]:
    """Give what moves the robot, or the simulated one."""
    if options.simulation:
        from ..simulation.settings import SimulationSettings
        from ..simulation.simulator import SimulatedExecutor

        yield SimulatedExecutor(problem.robot, SimulationSettings())
        return
    remedy = 'source your ROS 2 workspace, or try it with --simulation'
    with needing_ros('moving a robot', remedy):
        from ..nodes.excitation.calibration import executing
    with executing(problem, options.speed, options.namespace) as executor:
        yield executor


def _ask(folder: Path) -> bool:
    """Ask whether a motion is to be executed; no answer is no."""
    try:
        answer = input(f'see {folder / "plan.html"}; execute this motion? [y/N] ')
    except EOFError:
        return False
    return answer.strip().lower() in ('y', 'yes')
