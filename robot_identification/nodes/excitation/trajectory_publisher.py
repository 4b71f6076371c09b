# SPDX-License-Identifier: Apache-2.0
"""Sender of trajectories on a topic, and the parts that all senders share."""

from __future__ import annotations

from collections.abc import Callable
import time

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Float64
from trajectory_msgs.msg import JointTrajectory

from ...excitation.limits import Limits
from ...excitation.points import PointTrajectory
from ..common.joint_states import BEST_EFFORT, waited
from ..common.motion_messages import time_message, trajectory_message
from ..common.node_main import ManualCallbackGroup
from .controller_state import (
    ControllerQuestion,
    difference,
    joints_differ,
)
from .motion_errors import Code, MotionError
from .motion_sender import Tick
from .options import ControllerOptions

CONTROLLER_SECONDS = 5.0
"""How long the controller may take to appear [s]."""

SPEED_SECONDS = 2.0
"""How long the controller's speed may be untold before a motion is given up [s]."""

QUEUE = 10
"""Messages of the controller's speed that may wait to be fetched."""


async def wait_for(ready: Callable[[], bool], missing: str, tick: Tick) -> None:
    """Wait until ``ready``; raise `MotionError` with the words ``missing`` where it never is."""
    end = time.monotonic() + CONTROLLER_SECONDS
    while not ready():
        if time.monotonic() > end:
            raise MotionError(Code.NO_CONTROLLER, missing)
        await tick()


class SpeedScaling:
    """
    The speed at which a controller lets time pass, fetched when somebody asks.

    A change that is heard late moves the robot's time against the node's, so nothing waits for an
    executor to come to it.

    Parameters
    ----------
    node:
        Who listens.
    topic:
        Brings it in percent; empty: it is always 1.

    """

    def __init__(self, node: Node, topic: str) -> None:
        self._topic = node.resolve_topic_name(topic) if topic else ''
        self._value = 1.0
        self._told = -float('inf')
        # best effort matches every publisher, and of what is late nothing is wanted
        latest = QoSProfile(depth=QUEUE, reliability=BEST_EFFORT)
        self._subscription = (
            node.create_subscription(
                Float64, topic, lambda _: None, latest, callback_group=ManualCallbackGroup()
            )
            if topic
            else None
        )

    @property
    def value(self) -> float:
        """The latest one; 1 is real time."""
        self._fetch()
        return self._value

    def _fetch(self) -> None:
        if self._subscription is None:
            return
        for _ in range(QUEUE):
            taken = self._subscription.handle.take_message(Float64, False)
            if taken is None:
                return
            message, info = taken
            # a NaN, which no comparison lets through, leaves what was told before
            if message.data >= 0.0:
                self._value = 0.01 * message.data
                self._told = time.monotonic() - waited(info)

    async def prepare(self, tick: Tick) -> None:
        """Wait until it is told; raise `MotionError` where it is not."""
        await wait_for(
            lambda: self.failure is None,
            f"there is no publisher of the speed scaling on topic '{self._topic}': start one, "
            'such as the speed_scaling_state_broadcaster, or correct the parameter '
            'speed_scaling_topic',
            tick,
        )

    @property
    def failure(self) -> str | None:
        """Reason for which a motion cannot go on, or None."""
        self._fetch()
        silence = time.monotonic() - self._told
        if not self._topic or silence < SPEED_SECONDS:
            return None
        return (
            f"topic '{self._topic}' has not published the speed scaling for {silence:.3g} s: see "
            'whether the controller still runs'
        )


class TrajectoryPartner:
    """
    Parts that senders of trajectories share: the controller's speed and its joints.

    Parameters
    ----------
    node, group:
        Who asks and listens.
    target:
        Full name of the topic or action.
    options:
        The controller's.

    """

    def __init__(
        self, node: Node, group: CallbackGroup, target: str, options: ControllerOptions
    ) -> None:
        self.speed = SpeedScaling(node, options.speed_scaling_topic)
        self._question = ControllerQuestion(node, group, target, options.controller_node)
        self._logger = node.get_logger()
        self._warned = False

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """Check that the speed is told and that the joints are the controller's, in any order."""
        await self.speed.prepare(tick)
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


class TopicSender:
    """
    Hands horizons to a controller that takes trajectories on a topic; a `Sender`.

    Parameters
    ----------
    node, group:
        Who sends.
    options:
        Where to.

    """

    def __init__(self, node: Node, group: CallbackGroup, options: ControllerOptions) -> None:
        # a depth of 1: after a gap in the network, horizons of the past are of no use
        self._publisher = node.create_publisher(JointTrajectory, options.controller_topic, 1)
        self._partner = TrajectoryPartner(node, group, self._publisher.topic_name, options)

    @property
    def target(self) -> str:
        """Name of the trajectory topic, for messages."""
        return f"topic '{self._publisher.topic_name}'"

    feeds_back = False

    @property
    def speed_scaling(self) -> float:
        """Rate at which the controller lets time pass."""
        return self._partner.speed.value

    @property
    def failure(self) -> str | None:
        """Reason for which a motion cannot go on, or None."""
        if self._publisher.get_subscription_count() == 0:
            return (
                f'the controller is gone: no subscriber takes trajectories on {self.target} '
                'any more'
            )
        return self._partner.speed.failure

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """Wait until somebody listens who has the joints; raise `MotionError` otherwise."""
        await wait_for(
            lambda: self._publisher.get_subscription_count() > 0,
            f'no subscriber takes trajectories on {self.target}: start the controller, or correct '
            'the parameter controller_topic',
            tick,
        )
        await self._partner.prepare(joints, tick)

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Do nothing: the controller interpolates what was checked."""

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """Send a trajectory that replaces the one that runs."""
        self._publisher.publish(message_of(trajectory, start))

    def mistrust(self) -> None:
        """Do nothing: no joint states are used here."""

    def finish(self) -> None:
        """Do nothing: the controller holds the last point."""


def message_of(trajectory: PointTrajectory, start: int = 0) -> JointTrajectory:
    """Return a trajectory whose time 0, of its times as given, is at ``start`` [ns]."""
    t = trajectory
    return trajectory_message(
        t.joints, t.begin + t.time, t.position, t.velocity, t.acceleration, time_message(start)
    )
