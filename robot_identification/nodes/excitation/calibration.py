# SPDX-License-Identifier: Apache-2.0
"""Action ``~/calibrate``: motions until the parameters are known well enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
import threading
from typing import Any

from rclpy import create_node
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from robot_identification_msgs.action import Calibrate, Excite
from std_srvs.srv import SetBool

from ...calibration.calibrate import (
    automatic_choice,
    calibrate,
    keep_recording,
    kept_recording,
    loaded_problem,
    next_motion,
)
from ...calibration.goal import Calibration, CalibrationSettings, DECLINED, MET, SPENT, UNREACHABLE
from ...config.problem import IdentificationProblem
from ...config.sources import Source
from ...errors import collected_warnings, IdentificationError, SettingsError
from ...excitation.plans import Plan
from ...excitation.settings import PlannerSettings
from ...excitation.trajectories import PointTrajectory
from ...exports.saving import require_writable
from ...model.robot import Robot
from ...options.fields import option
from ...pages.first_screen import Places
from ...pages.summary import screen
from ...regressor import ModelSettings
from ...results.result import Result
from ...untrusted.directories import given_path
from ...untrusted.files import plain_name
from ...verdicts.verdict import verdict
from ..client import ServiceCaller
from ..common import declare_options, read_options, serve, serve_action, with_request
from ..common.messages import message_of
from ..common.processes import client_node, NO_SERVICES
from ..common.requests import BusyError, RequestCanceled

ASK_SECONDS = 0.1
"""Time between two looks whether a motion is confirmed [s]."""

CLIENT = 'calibration_client'
"""Name of the node that sends the goals."""

PATIENCE = 120.0
"""Time beyond ten times the motion's own after which it is given up [s]."""

REST = 60.0
"""Time for a motion that is canceled to come to rest [s]."""

_RESULT = Calibrate.Result

OUTCOMES = {
    MET: _RESULT.NONE,
    UNREACHABLE: _RESULT.UNREACHABLE,
    SPENT: _RESULT.SPENT,
    DECLINED: _RESULT.DECLINED,
}
"""Codes of the result by the end of a calibration."""


@dataclass(frozen=True)
class CalibrationOptions:
    """Parameters of ``~/calibrate``."""

    output: str = option(
        'calibrations',
        doc='Folder of the calibrations of ~/calibrate, a folder each, in that of the namespace',
    )
    experiment: str = option(
        '',
        doc='Experiment file with the robot, filters and method of ~/calibrate; empty: the '
        "node's robot and `robot`, everything else chosen from the recordings",
    )


class Confirmation:
    """The answer to whether a motion is to be executed, which a service brings."""

    def __init__(self) -> None:
        self._asking = self._answer = False
        self._answered = threading.Event()

    def answer(self, execute: bool) -> None:
        """Give the answer; raises IdentificationError where no motion waits for it."""
        if not self._asking:
            raise IdentificationError(
                'no motion waits to be confirmed', remedy='send a goal with confirm to ~/calibrate'
            )
        self._answer = execute
        self._answered.set()

    def wait(self, check: Callable[[], None]) -> bool:
        """Wait for the answer and return it, unless ``check`` raises meanwhile."""
        self._answered.clear()
        self._asking = True
        try:
            while not self._answered.wait(ASK_SECONDS):
                check()
        finally:
            self._asking = False
        return self._answer


@dataclass(frozen=True)
class CalibrationRun:
    """
    One goal's calibration, as a worker thread carries it out.

    It raises `RequestCanceled` at its next step once the goal is canceled or the node ends.
    """

    node: Node
    goal: ServerGoalHandle
    feedback: Calibrate.Feedback
    confirmation: Confirmation
    leaving: Callable[[], bool]

    def carry_out(
        self,
        folder: Path,
        robot: Robot,
        model: ModelSettings,
        planner: PlannerSettings,
        experiment: str,
    ) -> Calibration:
        """Calibrate by an experiment file, or without one by a robot and its model."""
        settings, speed = _asked(self.goal.request)
        require_writable(folder)
        if experiment:
            problem, choose = loaded_problem(given_path(experiment, 'experiment'))
        else:
            problem = IdentificationProblem(robot, model)
            choose = automatic_choice(problem)
        with collected_warnings() as notes, self._executor(problem, speed) as executor:
            done = calibrate(
                folder,
                problem,
                executor,
                settings,
                planner=planner,
                plan_motion=self._plan_motion,
                choose=choose,
                confirm=self._confirmed,
                report=self._report,
            )
        for note in dict.fromkeys(notes):
            self.node.get_logger().warning(note)
        self.node.get_logger().info(done.summary())
        return done

    @contextmanager
    def _executor(self, problem: IdentificationProblem, speed: float) -> Iterator[ActionExecutor]:
        """Give an executor by the node's own action, with a node for its client."""
        node = self.node
        client = create_node(
            CLIENT,
            **NO_SERVICES,
            namespace=node.get_namespace(),
            context=node.context,
            use_global_arguments=False,
        )
        action = f'{node.get_fully_qualified_name()}/excite'
        try:
            yield ActionExecutor(ServiceCaller(client, self._check), problem, speed, action)
        finally:
            client.destroy_node()

    def _ended(self) -> bool:
        return self.goal.is_cancel_requested or self.leaving()

    def _check(self) -> None:
        if self._ended():
            raise RequestCanceled('canceled; the robot is at rest')

    def _report(self, text: str) -> None:
        self._check()
        self.feedback.phase, self.feedback.progress = text, 0.0
        self.node.get_logger().info(text)

    def _progress(self, share: float, _: str) -> None:
        self.feedback.progress = share

    def _plan_motion(self, *arguments: Any) -> Plan:
        made = next_motion(*arguments, progress=self._progress, canceled=self._ended)
        self._check()
        return made

    def _confirmed(self, motion: Path) -> bool:
        if not self.goal.request.confirm:
            return True
        self._report(f'{motion.name}: waits for ~/confirm; see {motion / "plan.html"}')
        return self.confirmation.wait(self._check)


def _asked(request: Calibrate.Goal) -> tuple[CalibrationSettings, float]:
    """Return the settings that a goal asks for, and the share of the motions' speed."""
    settings = with_request(CalibrationSettings(), request)
    speed = request.speed or 1.0
    if not 0.0 < speed <= 1.0:
        raise SettingsError(
            f"'speed' is {speed:g}", key='speed', value=speed, remedy='give above 0 up to 1'
        )
    return settings, speed


class CalibrationService:
    """
    Server of the action ``~/calibrate`` and of the service ``~/confirm``.

    A worker thread plans and identifies, and sends each motion to the node's own action
    ``~/excite`` as any other client does, so that every check is made there.

    Parameters
    ----------
    robot:
        Awaited for the robot.
    in_worker:
        Awaited with a function, which runs in a thread, and with one that publishes feedback;
        returns the function's result.
    leaving:
        True if the node ends.

    """

    def __init__(
        self,
        node: Node,
        group: CallbackGroup,
        robot: Callable[[], Awaitable[Robot]],
        in_worker: Callable[[Callable[[], Any], Callable[[], None]], Awaitable[Any]],
        leaving: Callable[[], bool],
    ) -> None:
        self._node, self._robot, self._in_worker, self._leaving = node, robot, in_worker, leaving
        self._running = False
        self._confirmation = Confirmation()
        declare_options(node, CalibrationOptions, 'calibration')
        serve(node, SetBool, '~/confirm', self._confirm, callback_group=group)
        serve_action(node, Calibrate, '~/calibrate', self._calibrate, group)

    def _confirm(self, request: SetBool.Request, response: SetBool.Response) -> str:
        self._confirmation.answer(request.data)
        return 'the motion is executed' if request.data else 'the calibration ends'

    async def _calibrate(self, goal: ServerGoalHandle, result: Calibrate.Result) -> None:
        if self._running:
            raise BusyError(
                'another calibration is running', remedy='wait for its end, or cancel it'
            )
        self._running = True
        feedback = Calibrate.Feedback(phase='begins')
        try:
            robot = await self._robot()
            options = read_options(self._node, CalibrationOptions, 'calibration')
            model = read_options(self._node, ModelSettings, 'robot')
            planner = read_options(self._node, PlannerSettings, 'planner')
            planner = with_request(planner, goal.request)
            folder = _folder(options, goal.request.folder, self._node.get_namespace())
            run = CalibrationRun(self._node, goal, feedback, self._confirmation, self._leaving)
            work = partial(run.carry_out, folder, robot, model, planner, options.experiment)
            ended = await self._in_worker(work, lambda: goal.publish_feedback(feedback))
            _fill(result, ended, folder)
        finally:
            self._running = False


def _folder(options: CalibrationOptions, name: str, namespace: str) -> Path:
    """Return the folder of a calibration, which is directly below that of its namespace."""
    name = plain_name(name, "the calibration's folder", 'folder') or 'calibration'
    if not options.output:
        raise SettingsError(
            'the parameter calibration.output is empty',
            key='calibration.output',
            remedy='set it to the folder of the calibrations',
        )
    return given_path(options.output, 'calibration.output') / namespace.strip('/') / name


def _fill(result: Calibrate.Result, ended: Calibration, folder: Path) -> None:
    """Fill the result of a calibration; what no motion has shown is left empty."""
    result.error_code = OUTCOMES[ended.outcome]
    result.error_msg = '' if ended.outcome == MET else ended.summary()
    result.motions, result.duration = len(ended.standings), ended.duration
    if ended.standings:
        last = ended.standings[-1]
        result.path = str(folder / 'results')
        result.essential, result.open = int(last.essential.sum()), list(last.targets)
    if ended.result is not None:
        result.level = verdict(ended.result).level
        result.verdict = _first_screen(ended.result, folder / 'results')


def _first_screen(result: Result, folder: Path) -> str:
    places = Places(
        experiment='',
        result=str(folder / 'result.yaml'),
        product=str(folder / 'identified.urdf'),
        details=str(folder / 'report.html'),
    )
    return screen(result, places).text()


# ------------------------------------------------------------------------------ the motions


@dataclass(frozen=True)
class ActionExecutor:
    """
    Executor of motions at a share of their speed by the action ``excitation/excite``, recorded.

    The problem has joints, drives and elasticity of the recordings.
    """

    caller: ServiceCaller
    problem: IdentificationProblem
    speed: float
    action: str = 'excitation/excite'

    def find(self, folder: Path) -> Source | None:
        """Return the recording of a motion that was executed before."""
        return kept_recording(folder, self.problem)

    def execute(self, trajectory: PointTrajectory, folder: Path) -> Source:
        """
        Execute a motion and return its recording.

        Raises `RequestFailedError` where the excitation node refuses the motion, or ends it.
        """
        done = self.caller.act(
            Excite,
            self.action,
            PATIENCE + 10.0 * trajectory.duration / self.speed,
            patience=REST,
            plan_id='',
            trajectory=message_of(trajectory),
            speed=self.speed,
            record=True,
            recording_name=f'{folder.name}_{datetime.now():%Y%m%d_%H%M%S}',
        )
        keep_recording(folder, Path(done.recording_path).absolute())
        found = self.find(folder)
        assert found is not None
        return found


@contextmanager
def executing(
    problem: IdentificationProblem, speed: float, namespace: str = ''
) -> Iterator[ActionExecutor]:
    """Give an `ActionExecutor` with a ROS node of its own, in the namespace of the robot's."""
    # Ctrl-C is to reach the caller, which cancels the goal: the robot comes to rest then
    with client_node(CLIENT, namespace=namespace) as node:
        yield ActionExecutor(ServiceCaller(node), problem, speed)
