# SPDX-License-Identifier: Apache-2.0
"""
Hand a motion to a controller by its action FollowJointTrajectory.

Each horizon is a goal that takes the place of the one before, which comes back as aborted: that is
how joint_trajectory_controller says that it was replaced, and no failure.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from action_msgs.msg import GoalStatus
import numpy as np
from rclpy.action import ActionClient
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.task import Future

from ...excitation.limits import Limits
from ...excitation.points import PointTrajectory
from ..common.control_interface import require_follow_joint_trajectory
from .motion_sender import Tick
from .options import ControllerOptions
from .trajectory_publisher import (
    message_of,
    TrajectoryPartner,
    wait_for,
)


class ActionSender:
    """
    Hands horizons to a controller as goals; a `Sender`.

    Parameters
    ----------
    node, group:
        Who sends.
    options:
        Where to.

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
        self._partner = TrajectoryPartner(node, group, self._name, options)
        self._first = self._latest = 0
        self._handle: Any | None = None
        self._failure: str | None = None
        self._finished = True
        # of these codes the numbers alone would tell nothing
        self._codes = {
            getattr(self._kind.Result, name): name
            for name in (
                'INVALID_GOAL',
                'INVALID_JOINTS',
                'OLD_HEADER_TIMESTAMP',
                'PATH_TOLERANCE_VIOLATED',
                'GOAL_TOLERANCE_VIOLATED',
            )
        }

    @property
    def target(self) -> str:
        """Name of the action server, for messages."""
        return f"action '{self._name}'"

    feeds_back = False

    @property
    def speed_scaling(self) -> float:
        """Rate at which the controller lets time pass."""
        return self._partner.speed.value

    @property
    def failure(self) -> str | None:
        """Reason for which the controller has aborted the motion; None without one."""
        if self._failure is None and not self._client.server_is_ready():
            self._failure = (
                f'the controller is gone: there is no server of the {self.target} any more'
            )
        return self._failure or self._partner.speed.failure

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
        await self._partner.prepare(joints, tick)

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Do nothing: the controller interpolates what was checked."""

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """Send a goal that replaces the one that runs."""
        self._latest += 1
        self._handle = None
        goal = self._kind.Goal(trajectory=message_of(trajectory, start))
        future = self._client.send_goal_async(goal)
        future.add_done_callback(partial(self._answered, self._latest))

    def mistrust(self) -> None:
        """Do nothing: no joint states are used here."""

    def finish(self) -> None:
        """Withdraw the goal that is still followed, now that the robot rests."""
        self._finished = True
        if self._handle is not None:
            self._handle.cancel_goal_async()
            self._handle = None

    # ---------------------------------------------------------------------------- the controller

    def _answered(self, number: int, future: Future) -> None:
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
