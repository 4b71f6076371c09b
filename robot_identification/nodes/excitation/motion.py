# SPDX-License-Identifier: Apache-2.0
"""
Execution of one checked motion: record, send it to the controller, watch, cancel.

The controller gets the whole motion as one goal, follows it by its own clock and watches the
tolerances that are in it.  One coroutine on the node's executor looks at its feedback and at the
joint states, a hundred times a second; whatever speaks against the motion ends in a cancel, and
the stop is the controller's own, from where the robot truly is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import time

from action_msgs.msg import GoalStatus
import numpy as np
from rclpy.node import Node

from ...online.latest_states import WaitLimit
from .controller import Controller, REFUSES, SentGoal
from .controller_state import ControllerRest, Ending
from .joint_state_watch import StateWatch
from .motion_checks import CheckedMotion
from .motion_watch import MotionWatch
from .options import Code, ExecutionOptions, MotionError, raise_if, Report, Tick
from .remote_nodes import MotionRecording

ACCEPT_SECONDS = 5.0
"""Longest time for the controller to accept the goal [s]."""

CANCEL_SECONDS = 0.25
"""Time from one cancel to the next, until the goal has ended [s]."""

ANSWER_SECONDS = 1.5
"""Time after which a controller that answers no cancel is reported [s]."""

GONE_SECONDS = 4.0
"""Time for which a controller that is gone is asked again [s]."""

LONGER = 1.05
"""Times its planned duration above which that of a motion, which ends in time, is told."""

HELD = 1e-4
"""How far a controller's reference may be from where the motion begins [rad or m]."""

STILL_SECONDS = 1.0
"""Time without joint states after which a robot is not waited for to rest [s]."""

EMERGENCY = (
    'THE CONTROLLER {}, and the robot may move, or begin to: USE THE EMERGENCY STOP. The goal is '
    'canceled again and again until its end is known'
)

TOLERANCES = ('PATH_TOLERANCE_VIOLATED', 'GOAL_TOLERANCE_VIOLATED')
"""Codes with which a controller gives up a goal that the robot does not follow."""


@dataclass
class MotionRun:
    """One motion of the robot."""

    node: Node
    states: StateWatch
    controller: Controller
    options: ExecutionOptions
    tick: Tick
    """Awaited to wait for the next look at the robot."""
    interruption: Callable[[], MotionError | None]
    """Called at each look; returns a `MotionError` to end with, or None."""
    report: Report
    """Progress and result for the client."""

    def __post_init__(self) -> None:
        log = self.node.get_logger().warning
        self._watch = MotionWatch(self.states, self.options, self.report, log)

    async def execute(self, motion: CheckedMotion, recording: str | None) -> None:
        """
        Have a motion followed, and record it if asked.

        ``recording`` is the name of the recording, '' for one that the recorder chooses, None for
        none.

        Raises `MotionError` once the goal has ended and the recording is closed; the report has
        whether the robot was seen at rest.
        """
        self._recording = recorded = MotionRecording(
            self.node, self.tick, self.options.recorder, recording, self.report
        )
        self.report.result.planned_duration = motion.trajectory.duration
        await recorded.start()
        try:
            await self._follow(motion)
        except Exception as error:
            await recorded.stop(error)
            raise
        await recorded.stop()
        took, planned = self.report.result.duration, motion.trajectory.duration
        if took > LONGER * planned + self.options.settle_time:
            self.controller.note(
                f'the motion took {took:.4g} s, and {planned:.4g} s were planned: the controller '
                'has let time pass more slowly (speed scaling), and it shows less of the inertias'
            )

    async def _follow(self, motion: CheckedMotion) -> None:
        """Send the motion, and watch it until the robot rests at its end; cancel it otherwise."""
        self._require_start(motion)
        begin = self.states.time
        self._watch.begin(motion)
        self.report.feedback.phase = 'moving_to_start' if motion.approach else 'exciting'
        goal = self.controller.send(motion.trajectory, motion.tolerance)
        try:
            await self._accepted(goal)
            await self._followed(goal)
            self.report.result.duration = self.states.time - begin
            if not await self._rested(motion):
                raise MotionError(
                    Code.TRACKING_ERROR,
                    'the robot does not come to rest within settle_time '
                    f'({self.options.settle_time:g} s) after the end of the trajectory: see its '
                    'controller, or raise rest_tolerance',
                )
            raise_if(self._watch.missed())
        except Exception as error:
            # a fault of ours, too: nobody would watch the motion any more
            self.report.result.duration = self.states.time - begin
            await self._end(goal, motion, error)
            raise

    def _require_start(self, motion: CheckedMotion) -> None:
        """Require that nothing has changed since the checks began."""
        states, joints = self.states, motion.trajectory.joints
        raise_if(self.interruption() or self.controller.shared())
        places = [('joint states', states.sample().position, self.options.start_tolerance)]
        state = self.controller.state(joints)
        if state is not None:
            place = "controller's reference", state.reference, HELD
            places.append(place)
        for name, position, bound in places:
            away = np.abs(position - motion.trajectory.position[0])
            if away.max() > bound or states.is_silent(STILL_SECONDS):
                joint = joints[int(away.argmax())]
                raise MotionError(
                    Code.NOT_AT_START,
                    f"joint '{joint}' has moved by {away.max():.4g} since the checks began, by "
                    f'the {name}: see who else moves the robot',
                )

    async def _accepted(self, goal: SentGoal) -> None:
        """Wait until the controller has the goal."""
        end = time.monotonic() + ACCEPT_SECONDS
        while goal.accepted is None:
            raise_if(self.interruption())
            if time.monotonic() > end:
                raise MotionError(
                    Code.CONTROLLER_FAILED,
                    f"the action '{self.controller.action}' has not answered within "
                    f'{ACCEPT_SECONDS:g} s whether it takes the goal',
                )
            await self.tick()
        if not goal.accepted:
            clocks = self.controller.clocks(self.states.sample().stamp)
            raise MotionError(
                Code.CONTROLLER_FAILED,
                f"the controller refuses the goal of action '{self.controller.action}': see its "
                f'log{clocks and f"; {clocks}"}',
            )

    async def _followed(self, goal: SentGoal) -> None:
        """Watch the goal until the controller has reached its end."""
        arrived: WaitLimit | None = None
        while (ending := goal.ending) is None:
            await self.tick()
            raise_if(self._watch.reason(goal.progress))
            raise_if(self.interruption() or self._recording.failure())
            if self.controller.gone:
                raise MotionError(
                    Code.CONTROLLER_FAILED,
                    f"the controller is gone: the action '{self.controller.action}' has no server "
                    'any more',
                )
            if self._watch.arrived:
                arrived = arrived or WaitLimit(self.states, self.options.settle_time, np.inf)
                if arrived.over:
                    raise self._watch.untracked(
                        'nothing within settle_time '
                        f'({self.options.settle_time:g} s) after the end of the trajectory'
                    )
        if ending.status != GoalStatus.STATUS_SUCCEEDED:
            raise self._failure(ending)
        raise_if(self._watch.distrust)
        self.report.feedback.progress = 1.0

    def _failure(self, ending: Ending) -> MotionError:
        """Return the error of a goal that the controller has given up."""
        if ending.code in TOLERANCES:
            return self._watch.untracked(ending.words)
        how = (
            'was canceled, not by this node' if ending.status == GoalStatus.STATUS_CANCELED else ''
        )
        return MotionError(
            Code.CONTROLLER_FAILED,
            f'the goal {how or "was given up by the controller"}: {ending.words}; see its log, '
            'and whether another client or publisher commands it',
        )

    # ------------------------------------------------------------------------------------ the end

    async def _end(self, goal: SentGoal, motion: CheckedMotion, error: Exception) -> None:
        """Cancel the goal until its end is known; add to the error how it ended."""
        self.report.feedback.phase = 'stopping'
        running = goal.ending is None
        await self._canceled(goal)
        rests = await self._rested(motion)
        words = 'the robot is at rest' if rests else 'the robot was not seen at rest'
        status = goal.ending.status if goal.ending else None
        if status is None and not goal.heard:
            words = f'the end of the goal is not known, since the controller is gone; {words}'
        elif running and status == GoalStatus.STATUS_UNKNOWN:
            words = f'the controller does not know the goal; {words}'
        refused = running and status == GoalStatus.STATUS_SUCCEEDED and goal.trouble == REFUSES
        if running and status == GoalStatus.STATUS_SUCCEEDED:
            how = 'controller has refused the cancel' if refused else 'cancel came too late'
            words = f'the {how}, so the motion went to its end; {words}'
        if isinstance(error, MotionError):
            error.message += f'; {words}'
            if refused and error.code == Code.CANCELED:
                error.code = Code.CONTROLLER_FAILED
        if not rests:
            self.node.get_logger().error(
                'the robot was not seen at rest after its stop: use its emergency stop if it moves'
            )

    async def _canceled(self, goal: SentGoal) -> None:
        """
        Ask for the goal's end until that is known, or there is no controller to ask.

        One that was not accepted yet may still be, so it is asked for as long as that is open.
        """
        begin = seen = time.monotonic()
        asked, reported, wait_limit = -np.inf, False, None
        while goal.ending is None:
            now = time.monotonic()
            if now - asked >= CANCEL_SECONDS:
                asked = now
                goal.cancel()
            if now - begin > ANSWER_SECONDS and not goal.heard and not reported:
                reported = True
                self.node.get_logger().fatal(EMERGENCY.format(goal.trouble))
            seen = seen if self.controller.gone else now
            if goal.heard:
                wait_limit = wait_limit or WaitLimit(self.states, self.options.settle_time, np.inf)
            # one whose cancel came at its end may be left as CANCELING
            if (wait_limit and wait_limit.over) or now - seen > GONE_SECONDS:
                return
            await self.tick()

    async def _rested(self, motion: CheckedMotion) -> bool:
        """Wait until controller or joint states show the robot at rest; return if they do."""
        states, options = self.states, self.options
        states.forget()
        wait_limit = WaitLimit(states, options.settle_time, STILL_SECONDS)
        joints = motion.trajectory.joints
        controller = ControllerRest(lambda: self.controller.state(joints))
        rests = False
        while not (rests or wait_limit.over):
            await self.tick()
            tolerance = options.rest_tolerance
            rests = states.at_rest(tolerance) or controller.seen(tolerance)
        self.report.result.at_rest = rests
        return rests
