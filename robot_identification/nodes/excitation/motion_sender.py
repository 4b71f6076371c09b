# SPDX-License-Identifier: Apache-2.0
"""The only way from a motion to a controller, through the check of every command."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from ...excitation.command_gate import CommandGate, UnsafeCommandError
from ...excitation.limits import Limits
from ...excitation.points import PointTrajectory
from .command_sender import CommandSender
from .motion_types import Code, NoMoreCommandsError, PathClock
from .options import (
    ControllerOptions,
    FOLLOW_JOINT_TRAJECTORY,
    POSITION_COMMANDS,
    TRAJECTORY_TOPIC,
    VELOCITY_COMMANDS,
)
from .senders import ActionSender, Sender, TopicSender

SENDERS: dict[str, Callable[[Node, CallbackGroup, ControllerOptions], Sender]] = {
    TRAJECTORY_TOPIC: TopicSender,
    FOLLOW_JOINT_TRAJECTORY: ActionSender,
    POSITION_COMMANDS: CommandSender,
    VELOCITY_COMMANDS: CommandSender,
}
"""Senders by the parameter ``controller_kind``."""


class CheckedSender:
    """
    A sender behind the command gate.

    Parameters
    ----------
    sender:
        What hands trajectories to the controller.

    Attributes
    ----------
    rest:
        (n_joints,) where the robot rests by the last command sent; None where nothing was sent.

    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._gate: CommandGate | None = None
        self.rest: np.ndarray | None = None
        self.feeds_back = sender.feeds_back
        self.prepare = sender.prepare
        self.ignore_states = sender.ignore_states
        self.finish = sender.finish

    @property
    def speed_scaling(self) -> float:
        """See `Sender`."""
        return self._sender.speed_scaling

    @property
    def failure(self) -> str | None:
        """See `Sender`."""
        return self._sender.failure

    @property
    def reference(self) -> PointTrajectory | None:
        """The trajectory that was sent last on this path; None before the first."""
        return None if self._gate is None else self._gate.reference

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Begin a path of a robot at rest at ``position`` (n_joints,), within limits."""
        self._gate = CommandGate(limits, position)
        self._sender.begin(limits, position)

    def send(self, trajectory: PointTrajectory, clock: PathClock) -> None:
        """
        Check a trajectory and have the robot follow it, in place of what was sent before.

        Raises
        ------
        NoMoreCommandsError
            where the limits, or the last trajectory sent, do not allow it; nothing is sent.

        """
        assert self._gate is not None
        try:
            self._gate.admit(trajectory, clock.elapsed, clock.speed)
        except UnsafeCommandError as error:
            raise NoMoreCommandsError(Code.INTERNAL, str(error)) from error
        self.rest = trajectory.position[-1]
        self._sender.send(trajectory, clock.start)


def sender_of(node: Node, group: CallbackGroup, options: ControllerOptions) -> CheckedSender:
    """
    Return the way to the controller that the options describe.

    Raises
    ------
    SettingsError
        where this kind of controller needs a package that is not installed.

    """
    return CheckedSender(SENDERS[options.controller_kind](node, group, options))
