# SPDX-License-Identifier: Apache-2.0
"""Senders of trajectories to a controller: on a topic, and by the action FollowJointTrajectory."""

from __future__ import annotations

from functools import partial
from typing import Any

from action_msgs.msg import GoalStatus
import numpy as np
from rclpy.action import ActionClient
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from trajectory_msgs.msg import JointTrajectory

from ...excitation.limits import Limits
from ...excitation.points import PointTrajectory
from ..common.control_interface import require_follow_joint_trajectory
from ..common.motion_messages import time_message, trajectory_message
from .motion_types import Tick
from .options import ControllerOptions
from .remote_nodes import ControllerQuestion, difference, joints_differ, SpeedScaling, wait_for


def message_of(trajectory: PointTrajectory, start: int = 0) -> JointTrajectory:
    """Return a trajectory whose time 0, of its times as given, is at ``start`` [ns]."""
    t = trajectory
    return trajectory_message(
        t.joints, t.begin + t.time, t.position, t.velocity, t.acceleration, time_message(start)
    )


class TrajectorySender:
    """
    The part that both `Sender` of trajectories share.

    Parameters
    ----------
    node, group:
        Who sends.
    name:
        Full name of the topic or action.
    options:
        The controller's.

    """

    feeds_back = False

    def __init__(
        self, node: Node, group: CallbackGroup, name: str, options: ControllerOptions
    ) -> None:
        self._speed = SpeedScaling(node, options.speed_scaling_topic)
        self._question = ControllerQuestion(node, group, name, options.controller_node)
        self._logger = node.get_logger()
        self._warned = False

    @property
    def speed_scaling(self) -> float:
        """Rate at which the controller lets time pass."""
        return self._speed.value

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Do nothing: the controller interpolates what was checked."""

    def mistrust(self) -> None:
        """Do nothing: no joint states are used here."""

    async def _prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """Require a speed scaling, and that the joints are the controller's, in any order."""
        await self._speed.prepare(tick)
        theirs = await self._question.joints(tick)
        if not theirs:
            self._warn()
            return
        missing, surplus = difference(joints, theirs)
        if surplus and await self._question.allows_partial(tick):
            surplus = []
        if missing or surplus:
            raise joints_differ(self._question.name, missing, surplus)

    def _warn(self) -> None:
        if self._warned:
            return
        self._warned = True
        name = self._question.name
        asked = (
            f"'{name}' does not return its parameter joints" if name else 'its node is not known'
        )
        self._logger.warning(
            f"the controller's joints cannot be compared with the motion's, since {asked}: see "
            'the parameter controller_node'
        )


class TopicSender(TrajectorySender):
    """`Sender` to a controller that takes trajectories on a topic; parameters as for all."""

    def __init__(self, node: Node, group: CallbackGroup, options: ControllerOptions) -> None:
        # a depth of 1: after a gap in the network, horizons of the past are of no use
        self._publisher = node.create_publisher(JointTrajectory, options.controller_topic, 1)
        super().__init__(node, group, self._publisher.topic_name, options)

    @property
    def target(self) -> str:
        """Name of the trajectory topic, for messages."""
        return f"topic '{self._publisher.topic_name}'"

    @property
    def failure(self) -> str | None:
        """Reason for which a motion cannot go on, or None."""
        if self._publisher.get_subscription_count() == 0:
            return (
                f'the controller is gone: no subscriber takes trajectories on {self.target} '
                'any more'
            )
        return self._speed.failure

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """Wait until a controller with the joints listens; raise `MotionError` otherwise."""
        await wait_for(
            lambda: self._publisher.get_subscription_count() > 0,
            f'no subscriber takes trajectories on {self.target}: start the controller, or correct '
            'the parameter controller_topic',
            tick,
        )
        await self._prepare(joints, tick)

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """Send a trajectory that replaces the one that runs."""
        self._publisher.publish(message_of(trajectory, start))

    def finish(self) -> None:
        """Do nothing: the controller holds the last point."""


class ActionSender(TrajectorySender):
    """
    `Sender` to a controller by its action; parameters as for all.

    Each horizon is a goal that takes the place of the one before, which comes back as aborted:
    joint_trajectory_controller reports so that it was replaced, and no failure.

    Raises
    ------
    SettingsError
        where ``control_msgs`` is not installed.

    """

    def __init__(self, node: Node, group: CallbackGroup, options: ControllerOptions) -> None:
        self._kind = require_follow_joint_trajectory()
        action = options.controller_topic
        self._name = node.resolve_service_name(action)
        self._client = ActionClient(node, self._kind, action, callback_group=group)
        super().__init__(node, group, self._name, options)
        self._first = self._latest = 0
        self._handle: Any | None = None
        self._failure: str | None = None
        self._finished = True
        names = (
            'INVALID_GOAL',
            'INVALID_JOINTS',
            'OLD_HEADER_TIMESTAMP',
            'PATH_TOLERANCE_VIOLATED',
            'GOAL_TOLERANCE_VIOLATED',
        )
        self._codes = {getattr(self._kind.Result, name): name for name in names}

    @property
    def target(self) -> str:
        """Name of the action server, for messages."""
        return f"action '{self._name}'"

    @property
    def failure(self) -> str | None:
        """Reason for which the controller has aborted the motion; None without one."""
        if not self._client.server_is_ready():
            self._fail(f'the controller is gone: there is no server of the {self.target} any more')
        return self._failure or self._speed.failure

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """Wait until the action is there, of a controller with the joints; or `MotionError`."""
        self._failure, self._finished = None, False
        self._first = self._latest + 1
        await wait_for(
            self._client.server_is_ready,
            f'there is no server of the {self.target}: start the controller, or correct the '
            'parameter controller_topic',
            tick,
        )
        await self._prepare(joints, tick)

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """Send a goal that replaces the one that runs."""
        self._latest += 1
        self._handle = None
        goal = self._kind.Goal(trajectory=message_of(trajectory, start))
        future = self._client.send_goal_async(goal)
        future.add_done_callback(partial(self._answered, self._latest))

    def finish(self) -> None:
        """Withdraw the goal that is still followed, now that the robot rests."""
        self._finished = True
        if self._handle is not None:
            self._handle.cancel_goal_async()
            self._handle = None

    def _answered(self, number: int, future: Future) -> None:
        """Keep the handle of a goal that the controller accepts."""
        handle = future.result()
        if not handle.accepted:
            if number == self._latest:
                self._fail(
                    f'the controller refuses a goal of {self.target}: see its log; it may '
                    'be inactive, have other joints, or another clock'
                )
            return
        if number == self._latest:
            if self._finished:
                handle.cancel_goal_async()
            else:
                self._handle = handle
        handle.get_result_async().add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, future: Future) -> None:
        """Note the end of a goal, which is a failure unless it was replaced."""
        answer = future.result()
        status, result = answer.status, answer.result
        if number == self._latest:
            self._handle = None
        if status == GoalStatus.STATUS_SUCCEEDED or self._finished or number < self._first:
            return
        codes = self._kind.Result
        violated = (codes.PATH_TOLERANCE_VIOLATED, codes.GOAL_TOLERANCE_VIOLATED)
        if number != self._latest and result.error_code not in violated:
            return
        how = 'canceled' if status == GoalStatus.STATUS_CANCELED else 'given up'
        words = ', '.join(filter(None, (self._codes.get(result.error_code), result.error_string)))
        words = words or 'it gives no reason'
        self._fail(f'the motion was {how} by the controller of {self.target}: {words}')

    def _fail(self, reason: str) -> None:
        if self._failure is None and not self._finished:
            self._failure = reason
