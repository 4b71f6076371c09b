# SPDX-License-Identifier: Apache-2.0
"""Commands that move a robot, or prepare it: ``plan``, ``preview``, ``calibrate``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
import signal
from typing import Any, TYPE_CHECKING

from ..errors import collected_warnings, SettingsError
from ..support.progress import progress_bar
from ..version import page
from .command import (
    argument,
    command,
    count,
    EXIT_OK,
    EXIT_REJECTED,
    fail,
    flag,
    GROUP,
    natural,
    needing_ros,
    not_negative,
    overrides_of,
    PLANNING,
    planning_of,
    positive,
    QUIET,
    warn,
    XACRO,
)
from .standing import SIMULATE, write_simulated

if TYPE_CHECKING:
    from ..calibration.calibrate import Executor
    from ..config.problem import IdentificationProblem


@command(
    argument('robot', 'a URDF or xacro file, or an experiment file, whose robot is taken'),
    *PLANNING,
    XACRO,
    GROUP,
    argument('--out', 'folder for the files', Path, 'DIR', default=Path('plan')),
    argument('--duration', 'length of the motion', positive, 'S'),
    argument('--seed', 'of the random start values', natural),
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
    flag(
        '--tool',
        'swing the last four joints, for a tool at a force-torque sensor, as for a payload',
    ),
    argument(
        '--rate',
        "rate of the controller's commands, for an experiment file of servos",
        positive,
        'HZ',
    ),
    SIMULATE,
    QUIET,
    excitation=page('explanation/excitation'),
    commands=page('how_to/commands'),
)
def plan(options: argparse.Namespace) -> int:
    """
    Plan a motion that excites the parameters, and look at it before it moves.

    Plan a trajectory that excites the base parameters of a robot, from rest to rest,
    within its limits and free of collision. Nothing moves and no ROS is needed. Ctrl-C
    ends the search early.

    Write into the output folder:
      plan.yaml         the trajectory, its settings and limits ('preview' checks it again)
      plan.html         curves against limits, and the robot moving in 3D
      trajectory.csv    position, velocity and acceleration, 100 a second or more
      trajectory.yaml   a trajectory_msgs/msg/JointTrajectory, for 'ros2 topic pub' and
                        'ros2 action send_goal'
    and for an experiment file of servos (effort_kind: servo_command)
      commands.csv      positions to command at --rate, along the path at several speeds,
      commands.json     whose simulated response keeps the limits
    and for one of a robot on its feet (robot.base: floating) trajectory.csv and
    trajectory.yaml of a motion on them alone
    More of both: {excitation} and
    {commands}

    Examples
    --------
    robot-identification plan robot.urdf --duration 30 --set planner.floor=0.0
    robot-identification plan experiment.yaml --settings nodes.yaml --out plans/first
    robot-identification plan robot.urdf --tool --duration 15
    robot-identification plan servos.yaml --rate 50 --duration 10
    robot-identification plan on_its_feet.yaml --set standing.lift=0.0 --simulate sway.npz
    """
    from ..estimation.factor_file import read_factor
    from ..exports.saving import require_writable
    from ..identification.motion_planning import motion_task, planned_experiment
    from ..identification.reduction import earlier_information

    experiment, overrides = planned_experiment(options.robot, overrides_of(options))
    options.parameters = ['payload'] if options.tool else None
    if experiment is not None and experiment.robot.base == 'floating':
        planning = planning_of(options, ('duration', 'seed'), 'standing', overrides)
    elif options.simulate is not None:
        raise SettingsError(
            "'--simulate' is for experiment files with robot.base: floating",
            key='robot.base',
            remedy="'robot-identification calibrate --simulation' moves a simulated arm",
        )
    else:
        names = ('duration', 'seed', 'time_budget', 'method', 'parameters')
        planning = planning_of(options, names, overrides=overrides)
    xacro = dict(options.xacro)
    task = motion_task(
        options.robot, experiment, planning, rate=options.rate, xacro_arguments=xacro
    )
    require_writable(options.out)
    factors = [read_factor(path) for path in options.earlier]
    earlier = earlier_information(factors) if factors else None
    with (
        collected_warnings() as notes,
        progress_bar(enabled=not options.quiet) as progress,
        interruptible() as stopped,
    ):
        written = task.write(options.out, progress, stopped, earlier)
    warn(text for text in dict.fromkeys(notes) if text not in written.summary)
    if not options.quiet:
        print(written.summary)
    for path in written.files:
        print(f'wrote {path}')
    if options.simulate is not None:
        assert written.standing is not None
        write_simulated(options.simulate, task, written.standing)
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
    Check a plan again against a URDF, and draw it.

    Check a plan.yaml against a URDF as the excitation node does before it moves a robot,
    trusting nothing in the file: limits are those of the URDF and of --settings, efforts
    are predicted by the URDF, and every distance is computed. The joints that move, locked
    positions, gravity, obstacles, tracking tolerance and stop decelerations are the plan's;
    obstacles of --settings are added.

    Write a page with the motion in 3D, also of a plan that is refused; the exit code is 4
    then.

    Examples
    --------
    robot-identification preview plan/plan.yaml --urdf robot.urdf
    robot-identification preview plan/plan.yaml --urdf robot.urdf --speed 0.3 \
        --settings nodes.yaml --out slow.html
    """
    from ..excitation.plan_page import plan_html
    from ..excitation.recheck import recheck
    from ..untrusted.writing import reported_failures, write_whole

    settings = planning_of(options).planner
    found = recheck(options.plan, options.urdf, settings, options.speed)
    path = options.out or options.plan.with_name('preview.html')
    with reported_failures(path.parent, remedy='choose another file'):
        write_whole(path, plan_html(found.page))
    warn(found.remarks)
    print(found.summary())
    print(f'wrote {path}')
    return EXIT_OK if found.refusal is None else fail(found.refusal, EXIT_REJECTED)


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
    from ..calibration.calibrate import calibrate, next_motion
    from ..calibration.goal import CalibrationSettings, MET
    from ..exports.saving import require_writable
    from ..options.fields import from_mapping

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
    from ..calibration.calibrate import automatic_choice, loaded_problem
    from ..config.problem import IdentificationProblem, planned_robot

    if Path(source).suffix not in ('.yaml', '.yml'):
        robot, model = planned_robot(source, planning)
        problem = IdentificationProblem(robot, model)
        return problem, automatic_choice(problem)
    return loaded_problem(source)


@contextmanager
def _executor(options: argparse.Namespace, problem: IdentificationProblem) -> Iterator[Executor]:
    """Give what moves the robot, or the simulated one."""
    if options.simulation:
        from ..simulation.simulator import SimulatedExecutor
        from ..simulation.truth import SimulationSettings

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
