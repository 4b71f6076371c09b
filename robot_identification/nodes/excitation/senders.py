# SPDX-License-Identifier: Apache-2.0
"""
Senders of a motion to a robot's controller, in short horizons.

A *horizon* is the next piece of the checked path with a smooth stop along the path behind it.  A
new one comes several times within its length, and replaces what is left of the former; up to where
the former began to stop, both are the same motion.  So a controller that gets no more, since the
node or the network has died, brings the robot to rest by itself.  A stop that is wanted is one
more such message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from ...excitation.trajectories import PointTrajectory
from ..common.messages import require_follow_joint_trajectory, time_message, trajectory_message
from .options import ControllerOptions, Tick
from .remote_nodes import Controller, difference, joints_differ, SpeedScaling, wait_for


def message_of(trajectory: PointTrajectory, start: int = 0) -> JointTrajectory:
    """Return a trajectory whose time 0, of its times as given, is at ``start`` [ns]."""
    t = trajectory
    return trajectory_message(
        t.joints, t.begin + t.time, t.position, t.velocity, t.acceleration, time_message(start)
    )


class Sender(ABC):
    """
    Base of the senders; a motion uses them through a `CheckedSender` alone.

    It calls `prepare` once, `begin` once for each of its paths, `send` again and again, and
    `finish` once, however it ended.  The properties are read a hundred times a second, so they
    must not compute or wait.

    Attributes
    ----------
    feeds_back:
        Whether commands are velocities, corrected by the distance from the path.
    target:
        Name of the receiver for messages: ``topic '/joint_trajectory'``, for example.

    """

    feeds_back = False

    def __init__(
        self, node: Node, group: CallbackGroup, name: str, options: ControllerOptions
    ) -> None:
        self._node, self._options = node, options
        self._speed = SpeedScaling(node, options.speed_scaling_topic)
        self._controller = Controller(node, group, options)
        self._controller.connect()
        self.target = f"topic '{name}'"
        self._warned = False

    @property
    def speed_scaling(self) -> float:
        """Rate of the motion's time in the controller: 1 in real time, 0 while it pauses."""
        return self._speed.value

    @property
    def failure(self) -> str | None:
        """Reason for which the motion cannot go on, with the remedy, or None."""
        return self._speed.failure

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """
        Wait until the controller is there and takes commands for ``joints``.

        Raises
        ------
        MotionError
            ``NO_CONTROLLER`` where it does not appear in time, ``JOINTS_DIFFER`` where its joints
            are others.

        """
        await self._speed.prepare(tick)

    @abstractmethod
    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """
        Have the robot follow a trajectory from now on, in place of what was sent before.

        It ends at rest.  Its first point lies before the present, but for the first message of a
        motion, which comes a little ahead of time; between two points the motion is the quintic
        through both. ``start`` is when time 0 of its times is or was, in the clock of the joint
        states [ns]; where the controller scales time, it is moved so that the points fit the
        present.
        """

    def begin(self, limits: Limits, position: np.ndarray) -> None:  # noqa: B027 some need it
        """Begin a path of a robot at rest at ``position`` (n_joints,), within limits."""

    def ignore_states(self) -> None:  # noqa: B027 some need it
        """Use no joint states for what is left of the motion."""

    def finish(self) -> None:  # noqa: B027 some need it
        """Forget the motion: the robot rests, and nothing more is to be sent."""

    async def _require_joints(self, joints: tuple[str, ...], tick: Tick) -> None:
        """Require that the joints are the controller's, in any order."""
        theirs = await self._controller.joints(tick)
        if not theirs:
            self._warn()
            return
        missing, surplus = difference(joints, theirs)
        if surplus and await self._controller.allows_partial(tick):
            surplus = []
        if missing or surplus:
            raise joints_differ(self._controller.name, missing, surplus)

    def _warn(self) -> None:
        if self._warned:
            return
        self._warned = True
        name = self._controller.name
        asked = (
            f"'{name}' does not return its parameter joints" if name else 'its node is not known'
        )
        self._node.get_logger().warning(
            f"the controller's joints cannot be compared with the motion's, since {asked}: see "
            'the parameter controller_node'
        )


class TopicSender(Sender):
    """Sender to a controller that takes trajectories on a topic."""

    def __init__(self, node: Node, group: CallbackGroup, options: ControllerOptions) -> None:
        # a depth of 1: after a gap in the network, horizons of the past are of no use
        self._publisher = node.create_publisher(JointTrajectory, options.controller_topic, 1)
        super().__init__(node, group, self._publisher.topic_name, options)

    @property
    def failure(self) -> str | None:
        """See `Sender`."""
        if self._publisher.get_subscription_count() == 0:
            return (
                f'the controller is gone: no subscriber takes trajectories on {self.target} '
                'any more'
            )
        return super().failure

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """See `Sender`."""
        await wait_for(
            lambda: self._publisher.get_subscription_count() > 0,
            f'no subscriber takes trajectories on {self.target}: start the controller, or correct '
            'the parameter controller_topic',
            tick,
        )
        await super().prepare(joints, tick)
        await self._require_joints(joints, tick)

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """Send a trajectory that replaces the one that runs."""
        self._publisher.publish(message_of(trajectory, start))


class ActionSender(Sender):
    """
    Sender to a controller with the action FollowJointTrajectory.

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
        name = node.resolve_service_name(action)
        self._client = ActionClient(node, self._kind, action, callback_group=group)
        super().__init__(node, group, name, options)
        self.target = f"action '{name}'"
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
    def failure(self) -> str | None:
        """See `Sender`."""
        if not self._client.server_is_ready():
            self._fail(f'the controller is gone: there is no server of the {self.target} any more')
        return self._failure or super().failure

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """See `Sender`."""
        self._failure, self._finished = None, False
        self._first = self._latest + 1
        await wait_for(
            self._client.server_is_ready,
            f'there is no server of the {self.target}: start the controller, or correct the '
            'parameter controller_topic',
            tick,
        )
        await super().prepare(joints, tick)
        await self._require_joints(joints, tick)

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
