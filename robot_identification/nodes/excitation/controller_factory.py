# SPDX-License-Identifier: Apache-2.0
"""The kinds of controllers that a motion can be handed to."""

from __future__ import annotations

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from .action_sender import ActionSender
from .command_sender import CommandSender
from .motion_sender import CheckedSender, Sender
from .options import (
    ControllerOptions,
    FOLLOW_JOINT_TRAJECTORY,
    POSITION_COMMANDS,
    TRAJECTORY_TOPIC,
    VELOCITY_COMMANDS,
)
from .trajectory_publisher import TopicSender

SENDERS: dict[str, type] = {
    TRAJECTORY_TOPIC: TopicSender,
    FOLLOW_JOINT_TRAJECTORY: ActionSender,
    POSITION_COMMANDS: CommandSender,
    VELOCITY_COMMANDS: CommandSender,
}
"""What hands horizons to a controller, by the parameter ``controller_kind``."""


def sender_of(node: Node, group: CallbackGroup, options: ControllerOptions) -> CheckedSender:
    """
    Return what checks motions and hands motions to the controller that the options describe.

    Parameters
    ----------
    node, group:
        Who sends.
    options:
        Which controller, and how it is commanded.

    Raises
    ------
    SettingsError
        where this kind of controller needs a package that is not installed.

    """
    sender: Sender = SENDERS[options.controller_kind](node, group, options)
    return CheckedSender(sender)
