# SPDX-License-Identifier: Apache-2.0
"""The only way from a motion to a controller, through the check of every command."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from ...excitation.command_gate import CommandGate, UnsafeCommandError
from ...excitation.limits import Limits
from ...excitation.points import PointTrajectory
from .command_sender import CommandSender
from .motion_types import Code, NoMoreCommandsError, PathClock, Tick
from .options import (
    ControllerOptions,
    FOLLOW_JOINT_TRAJECTORY,
    POSITION_COMMANDS,
    TRAJECTORY_TOPIC,
    VELOCITY_COMMANDS,
)
from .trajectory_senders import ActionSender, TopicSender


class Sender(Protocol):
    """
    Interface of a robot's controller, which gets a motion in short horizons.

    A *horizon* is the next piece of the checked path with a smooth stop along the path behind it.
    A new one comes several times within its length, and replaces what is left of the former; up
    to where the former began to stop, both are the same motion.  So a controller that gets no
    more, since the node or the network has died, brings the robot to rest by itself.  A stop that
    is wanted is one more such message.

    A motion calls `prepare` once, `begin` once for each of its paths, `send` again and again, and
    `finish` once, however it ended, through a `CheckedSender` alone.  The properties are read a
    hundred times a second, so they must not compute or wait.
    """

    @property
    def target(self) -> str:
        """Name of the receiver for messages: ``topic '/joint_trajectory'``, for example."""

    @property
    def speed_scaling(self) -> float:
        """Rate of the motion's time in the controller: 1 in real time, 0 while it pauses."""

    @property
    def feeds_back(self) -> bool:
        """True if commands are velocities, corrected by the distance from the path."""

    @property
    def failure(self) -> str | None:
        """Reason for which the controller has aborted the motion, with the remedy, or None."""

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """
        Wait until the controller is there and takes commands for ``joints``.

        Raises
        ------
        MotionError
            ``NO_CONTROLLER`` where it does not appear in time, ``JOINTS_DIFFER`` where its joints
            are others.

        """

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Begin a path of a robot at rest at ``position`` (n_joints,), within limits."""

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """
        Have the robot follow a trajectory from now on, in place of what was sent before.

        Parameters
        ----------
        trajectory:
            Ends at rest.  Its first point lies before the present, but for the first message of a
            motion, which comes a little ahead of time; between two points the motion is the
            quintic through both.
        start:
            When time 0 of its times as given is or was, in the clock of the joint states [ns].
            Where the controller scales time, it is moved so that the points fit the present.

        """

    def mistrust(self) -> None:
        """Use no joint states for what is left of the motion."""

    def finish(self) -> None:
        """Forget the motion: the robot rests, and nothing more is to be sent."""


SENDERS: dict[str, type] = {
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
        self.mistrust = sender.mistrust
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
