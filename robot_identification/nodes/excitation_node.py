# SPDX-License-Identifier: Apache-2.0
"""
The ``excitation`` node: plans exciting trajectories and has them executed.

One single-threaded executor runs everything that waits, as coroutines, so nothing needs a lock and
joint states cost a third of what they cost on several threads.  What computes, planning and
checking, runs in a worker thread meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future as WorkerFuture
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
import sys
import time
from typing import Any

import numpy as np
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.srv import Preview

from ..errors import ModelError, SettingsError
from ..estimation.factor_file import read_factor
from ..excitation.planner import plan
from ..excitation.plans import Plan, PlanningCanceled
from ..excitation.settings import PlannerSettings
from ..excitation.trajectories import to_points
from ..identification.reduction import earlier_information
from ..model.robot import Robot
from ..regressor import ModelSettings
from .common import declare_options, read_options, run, serve_action, steady_timer, with_request
from .common.requests import BusyError, RequestCanceled
from .common.robot_description import RobotDescription
from .excitation.calibration import CalibrationService
from .excitation.controller import Controller
from .excitation.joint_state_watch import StateWatch
from .excitation.motion import MotionRun
from .excitation.motion_checks import CollisionModelCache, MotionCheck, requested_motion, Start
from .excitation.motion_watch import ClientWatch
from .excitation.options import (
    Code,
    ExecutionOptions,
    MotionError,
    raise_if,
    Report,
    Tick,
)
from .excitation.preview import points_message, PreviewService, save_plan
from .excitation.start import StartCheck

TICK = 0.01
"""Time between two looks at the robot [s]."""

FEEDBACK_SECONDS = 0.1  # between two messages

ANSWER_SECONDS = 1.0
"""Longest stay of a node that ends for an answer on its way, which takes some ticks [s]."""

DESCRIPTION_SECONDS = 3.0  # for robot_description to arrive
KEPT_PLANS = 32  # the oldest goes
MOST_AT_ONCE = 4
"""Plans, and previews, that are computed at a time; the node's threads are enough for both."""
REPLACED = 'robot_description has changed meanwhile'


class ExcitationNode(Node):
    """Server of the actions ``~/plan``, ``~/excite`` and ``~/calibrate``."""

    def __init__(self) -> None:
        super().__init__('excitation')
        self._group = ReentrantCallbackGroup()
        declare_options(self, PlannerSettings, 'planner')
        declare_options(self, ModelSettings, 'robot')
        options = declare_options(self, ExecutionOptions)
        self._plans: dict[str, Plan] = {}
        self._dropped: set[str] = set()
        self._count = 0
        self._in_work: Counter[str] = Counter()
        self._running: Report | None = None
        self._states = StateWatch(self)
        self._controller = Controller(self, self._group, options.controller)
        self._description = RobotDescription(self, self._new_robot, self._group)
        self._client_watch = ClientWatch(self, '~/excite', self._group)
        self._collisions = CollisionModelCache(self.get_logger().warning)
        self._leaving = False
        # plans take long, and a check must not wait for them
        self._worker = ThreadPoolExecutor(max_workers=8, thread_name_prefix='excitation')
        self._waiting: list[Future] = []
        # steady: a simulated clock stops with its simulator, and a motion has to be ended then
        self._timer = steady_timer(self, TICK, self._wake, self._group)
        self._timer.cancel()
        serve_action(self, PlanExcitation, '~/plan', self._plan, self._group)
        serve_action(self, Excite, '~/excite', self._excite, self._group)
        self._preview = PreviewService(self, self._group, self._check_only)
        self._calibration = CalibrationService(
            self,
            self._group,
            self._robot,
            lambda work, publish: self._in_worker(work, self._ticking(publish)),
            lambda: self._leaving,
        )
        if not options.execute:
            self.get_logger().info('execute is false: trajectories are checked, nothing moves')

    async def on_shutdown(self) -> None:
        """Cancel the motion, and wait until its end is known, before the node ends."""
        self._leaving = True
        # an idle node has no answer to give, and on a busy machine a tick takes long
        awaited = not self._timer.is_canceled()
        while self._running is not None:
            await self._tick()
        end = time.monotonic() + ANSWER_SECONDS
        for _ in range(10 if awaited else 0):
            if time.monotonic() < end:
                await self._tick()
        self._worker.shutdown(wait=False, cancel_futures=True)

    @property
    def unfinished(self) -> str:
        """Reason for which the node must not end yet, in words; '' for none."""
        text = 'the goal of a motion has not ended: this node does not end before'
        return text if self._running is not None else ''

    def _new_robot(self, robot: Robot) -> None:
        if self._running is None:
            self._states.watch(robot.joints)
        if self._plans:
            self.get_logger().warning('another robot: the plans made so far are dropped')
            self._dropped.update(self._plans)
            self._plans.clear()

    def _require_still(self, robot: Robot) -> None:
        """Refuse what was computed for a robot that has been replaced meanwhile."""
        if not self._description.still(robot):
            self._description.robot()  # raises where the new one cannot be read
            raise ModelError(REPLACED, remedy='plan again')

    # ------------------------------------------------------------------------------------ waiting

    async def _tick(self) -> None:
        future = Future(executor=self.executor)
        self._waiting.append(future)
        if self._timer.is_canceled():
            self._timer.reset()
        await future

    def _wake(self) -> None:
        self._states.look()
        waiting, self._waiting = self._waiting, []
        if not waiting:
            self._timer.cancel()
        for future in waiting:
            future.set_result(None)

    async def _robot(self) -> Robot:
        """Return the robot; just after the start its description may still be on the way."""
        end = time.monotonic() + DESCRIPTION_SECONDS
        while self._description.awaited and time.monotonic() < end and not self._leaving:
            await self._tick()
        return self._description.robot()

    async def _in_worker(self, function: Callable[[], Any], tick: Tick | None = None) -> Any:
        """Return the result of a function that runs in a thread; the node goes on meanwhile."""
        future: WorkerFuture = self._worker.submit(function)
        while not future.done():
            await (tick or self._tick)()
        return future.result()

    def _ticking(self, publish: Callable[[], None]) -> Tick:
        """Return `_tick` that also publishes feedback now and then."""
        due = [time.monotonic()]

        async def tick() -> None:
            await self._tick()
            if time.monotonic() >= due[0]:
                due[0] = time.monotonic() + FEEDBACK_SECONDS
                publish()

        return tick

    # ----------------------------------------------------------------------------------- planning

    async def _plan(self, goal: ServerGoalHandle, result: PlanExcitation.Result) -> None:
        with self._one_of('plans'):
            robot = await self._robot()
            settings = with_request(read_options(self, PlannerSettings, 'planner'), goal.request)
            settings = await self._with_stops(robot, settings)
            try:
                made = await self._make_plan(goal, robot, settings)
            except PlanningCanceled as error:
                raise RequestCanceled(error.message, remedy=error.remedy) from error
            self._require_still(robot)
            self._keep(made, result, goal.request.return_points)
            if goal.is_cancel_requested:
                result.error_code = PlanExcitation.Result.CANCELED
                result.error_msg = f'canceled; {result.plan_id} is the best motion so far'

    @contextmanager
    def _one_of(self, kind: str) -> Iterator[None]:
        """Count what is computed, plans or previews; raise `BusyError` where they are too many."""
        if self._in_work[kind] >= MOST_AT_ONCE:
            text = f'busy, {MOST_AT_ONCE} {kind} are in the making'
            raise BusyError(text, remedy='ask again when one is done')
        self._in_work[kind] += 1
        try:
            yield
        finally:
            self._in_work[kind] -= 1

    async def _with_stops(self, robot: Robot, settings: PlannerSettings) -> PlannerSettings:
        """Return the settings with the controller's stops, where they have none of their own."""
        own = settings.stop_deceleration
        try:
            found = (await self._controller.contract(robot, self._tick)).deceleration
        except MotionError as error:
            self._controller.note(f"a plan without the controller's stops: {error.message}")
            return settings
        if found is None:
            return settings
        if not own:
            return replace(settings, stop_deceleration=tuple(map(float, found)))
        if len(own) == len(found) and not np.allclose(own, found, rtol=1e-6):
            worst = int(np.argmax(np.abs(np.log(np.maximum(own, 1e-9) / found))))
            self._controller.note(
                f"planner.stop_deceleration of joint '{robot.joints[worst]}' is {own[worst]:g}, "
                f"and max_deceleration_on_cancel of '{self._controller.name}' is "
                f'{found[worst]:g}: leave planner.stop_deceleration empty to plan with what the '
                'controller has'
            )
        return settings

    async def _make_plan(
        self, goal: ServerGoalHandle, robot: Robot, settings: PlannerSettings
    ) -> Plan:
        model = read_options(self, ModelSettings, 'robot')
        latest: list[tuple[int, float]] = []

        def work() -> Plan:
            factors = [read_factor(path) for path in goal.request.earlier]
            return plan(
                robot,
                settings,
                earlier=earlier_information(factors) if factors else None,
                targets=_targets(goal.request),
                canceled=lambda: goal.is_cancel_requested or self._leaving,
                model=model,
                on_iteration=lambda *values: latest.append(values),
            )

        def publish() -> None:
            if latest:
                iteration, criterion = latest[-1]
                latest.clear()
                goal.publish_feedback(
                    PlanExcitation.Feedback(iteration=iteration, criterion=criterion)
                )

        made = await self._in_worker(work, self._ticking(publish))
        publish()
        for warning in made.warnings:
            self.get_logger().warning(warning)
        return made

    def _keep(self, made: Plan, result: PlanExcitation.Result, return_points: bool) -> None:
        rate = read_options(self, ExecutionOptions).publish_rate
        points = to_points(made.trajectory, rate)
        self._count += 1
        name = f'plan_{self._count}'
        self._plans[name] = replace(made, trajectory=points)
        while len(self._plans) > KEPT_PLANS:
            del self._plans[next(iter(self._plans))]
        self.get_logger().info(f'{name}: {made.summary()}')
        assert made.findings is not None
        result.level, result.verdict = made.findings.level, made.findings.verdict()
        result.plan_id, result.path = name, save_plan(self, name, points)
        result.planned_duration = points.duration
        result.trajectory = points_message(points, return_points)
        result.condition_number, result.criterion_history = made.condition_number, made.history

    # ---------------------------------------------------------------------------------- executing

    async def _excite(self, goal: ServerGoalHandle, result: Excite.Result) -> None:
        if self._running is not None:
            text = 'another motion is running: wait for its end, or cancel it'
            raise MotionError(Code.BUSY, text)
        self._running = report = Report(result)
        self._preview.stop()
        try:
            await self._carry_out(goal, report)
        finally:
            self._running = None

    async def _carry_out(self, goal: ServerGoalHandle, report: Report) -> None:
        """Check everything, and move unless the goal is a dry run; raise `MotionError`."""
        request: Excite.Goal = goal.request
        options = read_options(self, ExecutionOptions)
        if not request.dry_run and not options.execute:
            raise MotionError(
                Code.EXECUTION_DISABLED,
                'the parameter execute is false, so nothing moves: ask for a dry_run first, then '
                'set execute to true',
            )
        robot = await self._robot()
        check = self._wanted(request, robot, options)
        report.result.limits_in_force = check.envelope
        self._states.watch(robot.joints)
        tick = self._ticking(lambda: goal.publish_feedback(copy(report.feedback)))
        if not request.dry_run:
            await self._controller.connect(tick)
        self._client_watch.restart()
        interruption = self._interruption(goal, options, robot)

        async def in_worker(work: Callable[[], Any]) -> Any:
            found = await self._in_worker(work, tick)
            self._require_still(robot)
            raise_if(interruption())
            return found

        start = StartCheck(self._controller, self._states, options, tick)
        motion = await check.carry_out(self._collisions, partial(start.start, robot), in_worker)
        self._controller.note(check.remark)
        if request.dry_run:
            return
        stop = f'within {motion.stop:.3g} s' if motion.stop else 'at once, however fast it is'
        self.get_logger().info(
            f'a motion of {motion.trajectory.duration:.4g} s; if this node dies, the controller '
            f'finishes it: the robot rests {motion.trajectory.duration:.4g} s from now at the '
            f"latest, in the controller's time; a cancel stops it {stop}"
        )
        carried = MotionRun(
            self, self._states, self._controller, options, tick, interruption, report
        )
        await carried.execute(motion, request.recording_name if request.record else None)

    def _wanted(
        self, request: Excite.Goal | Preview.Request, robot: Robot, options: ExecutionOptions
    ) -> MotionCheck:
        """Return the requested motion, as it is sent."""
        if request.plan_id in self._dropped:
            text = f"'{request.plan_id}' was planned for another robot: {REPLACED}, so plan again"
            raise MotionError(Code.UNKNOWN_PLAN, text)
        settings = read_options(self, PlannerSettings, 'planner')
        return requested_motion(request, self._plans, robot, settings, options)

    # -------------------------------------------------------------------------------- previewing

    async def _check_only(
        self, request: Preview.Request
    ) -> tuple[MotionCheck, MotionError | None]:
        """Carry out every check on a motion; return it, and what does not hold."""
        if self._running is not None:
            raise MotionError(Code.BUSY, 'a motion is running: wait for its end, or cancel it')
        with self._one_of('previews'):
            options = read_options(self, ExecutionOptions)
            robot = await self._robot()
            motion = self._wanted(request, robot, options)
            self._states.watch(robot.joints)
            here, fault = partial(self._start_if_known, options, robot), None
            try:
                await motion.carry_out(self._collisions, here, self._in_worker)
                self._controller.note(motion.remark)
            except MotionError as error:
                fault = error
            finally:
                self._require_still(robot)
            return motion, fault

    async def _start_if_known(self, options: ExecutionOptions, robot: Robot) -> Start:
        """Return where the robot rests, or why that is not known."""
        check = StartCheck(self._controller, self._states, options, self._tick)
        try:
            if self._controller.gone:
                position = await check.resting_position(robot)
                remark = 'without the stops: there is no controller to ask'
                return Start(position, None, remark, stops_known=False)
            return await check.start(robot)
        except MotionError as error:
            remark = f'without the way to the start and the stops: {error.message}'
            return Start(None, None, remark, stops_known=False)

    def _interruption(
        self, goal: ServerGoalHandle, options: ExecutionOptions, robot: Robot
    ) -> Callable[[], MotionError | None]:
        def interruption() -> MotionError | None:
            if self._leaving:
                return MotionError(Code.CANCELED, 'the node ends')
            if goal.is_cancel_requested:
                return MotionError(Code.CANCELED, 'canceled')
            if not goal.request.dry_run and not self.get_parameter('execute').value:
                text = 'the parameter execute was set to false'
                return MotionError(Code.EXECUTION_DISABLED, text)
            if not self._description.still(robot):
                # the checks were those of the other one
                return MotionError(Code.NO_MODEL, f'{REPLACED}: plan again')
            return self._client_watch.reason(options)

        return interruption


def _targets(request: PlanExcitation.Goal) -> dict[str, float]:
    """Return the wanted standard deviations by base parameter."""
    names, values = list(request.targets), list(request.target_deviations)
    if len(names) != len(values):
        raise SettingsError(
            f'{len(names)} targets but {len(values)} target_deviations',
            key='target_deviations',
            value=values,
            remedy='give one deviation a base parameter',
        )
    return dict(zip(names, values, strict=True))


def main(args: list[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(ExcitationNode, args)


if __name__ == '__main__':
    sys.exit(main())
