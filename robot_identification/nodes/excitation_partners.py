# SPDX-License-Identifier: Apache-2.0
"""Whom a motion needs: the controller, which takes trajectories, and the recorder."""

from __future__ import annotations

import time
from typing import Any

from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from ..excitation.points import Points
from .excitation_errors import Code, MotionError
from .motion_messages import time_message, trajectory_message
from .motion_sender import Tick

CONTROLLER_SECONDS = 2.0
"""How long the controller may take to appear [s]."""

SERVICE_SECONDS = 10.0
"""How long the recorder may take to answer [s]."""


class TrajectorySender:
    """
    Hands horizons to a controller that takes trajectories on a topic; a `Sender`.

    Parameters
    ----------
    node, topic:
        Who sends, and where to.

    """

    speed_scaling = 1.0
    failure: str | None = None

    def __init__(self, node: Node, topic: str) -> None:
        self._publisher = node.create_publisher(JointTrajectory, topic, 10)

    @property
    def target(self) -> str:
        """Where the trajectories go."""
        return f"topic '{self._publisher.topic_name}'"

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """Wait until somebody listens; raise `MotionError` where nobody does."""
        end = time.monotonic() + CONTROLLER_SECONDS
        while self._publisher.get_subscription_count() == 0:
            if time.monotonic() > end:
                raise MotionError(
                    Code.NO_CONTROLLER,
                    f'nobody takes trajectories on {self.target}: start the controller, or '
                    'correct the parameter controller_topic',
                )
            await tick()

    def send(self, points: Points, start: int) -> None:
        """Send a trajectory that replaces the one that runs."""
        m = points.motion
        self._publisher.publish(
            trajectory_message(
                points.joints, points.time, m.position, m.velocity, m.acceleration,
                time_message(start),
            )
        )  # fmt: skip

    def finish(self) -> None:
        """Do nothing: the controller holds the last point."""


async def call_recorder(node: Node, kind: type, name: str, request: Any, tick: Tick) -> Any:
    """
    Call one of the recorder's services and return its response.

    Parameters
    ----------
    node:
        Who calls.
    kind, name, request:
        The service's type and name, and what it is asked.
    tick:
        Awaited while waiting.

    Raises
    ------
    MotionError
        where the recorder is not there, does not answer in time, or refuses.

    """
    client, future = node.create_client(kind, name), None
    try:
        end = time.monotonic() + SERVICE_SECONDS
        while not client.service_is_ready():
            if time.monotonic() > end - 0.7 * SERVICE_SECONDS:
                raise MotionError(
                    Code.RECORDER_FAILED,
                    f"service '{name}' is not there: start the recorder, correct the "
                    'parameter recorder, or do not ask for a recording',
                )
            await tick()
        future = client.call_async(request)
        while not future.done():
            if time.monotonic() > end:
                raise MotionError(
                    Code.RECORDER_FAILED, f"service '{name}' has not answered in time"
                )
            await tick()
        answer = future.result()
        if not answer.success:
            raise MotionError(Code.RECORDER_FAILED, f"service '{name}' refuses: {answer.message}")
        return answer
    finally:
        # a client that is destroyed with an answer on its way can bring the process down
        if future is None or future.done():
            node.destroy_client(client)
