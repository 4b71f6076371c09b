# SPDX-License-Identifier: Apache-2.0
"""Robot of a node, from its parameters or from a topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import threading
import time

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_msgs.msg import String

from ...errors import collected_warnings, IdentificationError, ModelError, SettingsError
from ...model.robot import Robot
from ...options.fields import option
from ...regressor import ModelSettings
from ...regressor.delta import delta_robot
from . import declare_options, LATCHED

ON_ITS_WAY_SECONDS = 3.0
"""Time from a node's start within which a description that is there already has arrived [s]."""


@dataclass(frozen=True)
class RobotOptions:
    """Settings of the robot of a node."""

    robot_description: str = option(
        '',
        doc='URDF as text, path or package://; empty: what the topic robot_description brings',
        read_only=True,
    )
    joints: tuple[str, ...] = option(
        (),
        doc='Identified joints in the order of all data; empty: every moving one that mimics '
        'no other',
        read_only=True,
    )
    gravity: tuple[float, float, float] = option(
        (0.0, 0.0, -9.81),
        doc='Acceleration of free fall in the base frame',
        unit='m/s^2',
        read_only=True,
    )
    locked_joints: tuple[str, ...] = option(
        (), doc='Other moving joints, which are held at locked_positions', read_only=True
    )
    locked_positions: tuple[float, ...] = option(
        (), doc='Positions of locked_joints', unit='rad or m', read_only=True
    )

    def __post_init__(self) -> None:
        if len(self.locked_joints) != len(self.locked_positions):
            raise SettingsError(
                f'{len(self.locked_joints)} locked_joints but '
                f'{len(self.locked_positions)} locked_positions',
                key='locked_positions',
                value=self.locked_positions,
                remedy='give one position a joint',
            )

    def build(self, urdf: str, model: ModelSettings | None = None) -> Robot:
        """
        Read the robot from ``urdf`` (text, path or package://).

        Where ``model`` has closed loops, other joints are passive; a delta robot needs no URDF.
        """
        with collected_warnings():  # the robot keeps its own, and `RobotDescription` logs them
            if model is not None and model.delta is not None:
                return delta_robot(model.delta, self.joints or None, gravity=self.gravity)
            return Robot.from_urdf(
                urdf,
                self.joints or None,
                locked=dict(zip(self.locked_joints, self.locked_positions, strict=True)),
                passive=None if model is not None and model.loops else (),
                gravity=self.gravity,
            )


class RobotDescription:
    """
    Robot of a node, from its parameters (`RobotOptions`, declared here) or from a topic.

    A description given as parameter is read at once; otherwise the latched topic
    ``robot_description`` is subscribed to, and a later description replaces the former.

    Parameters
    ----------
    on_change:
        Called with the robot each time that a description has been read.
    model:
        Its closed loops, or the delta robot that it is without any description.

    Raises
    ------
    SettingsError, ModelError
        where a parameter or the description given as parameter is wrong.

    """

    def __init__(
        self,
        node: Node,
        on_change: Callable[[Robot], None] | None = None,
        callback_group: CallbackGroup | None = None,
        model: ModelSettings | None = None,
    ) -> None:
        self._node = node
        self._begun, self._heard = time.monotonic(), threading.Event()
        self._model = model
        self._on_change = on_change
        self._robot: Robot | None = None
        self._error: IdentificationError | None = None
        self._topic = node.resolve_topic_name('robot_description')
        self.options = declare_options(node, RobotOptions)
        delta = model is not None and model.delta is not None
        if delta or self.options.robot_description:
            self._use(self.options.robot_description)
            self._heard.set()
        else:
            node.create_subscription(
                String, 'robot_description', self._arrived, LATCHED, callback_group=callback_group
            )

    @property
    def known(self) -> bool:
        """True if `robot` has an answer."""
        return self._robot is not None

    @property
    def awaited(self) -> bool:
        """True if no description has arrived yet, not even an invalid one."""
        return self._robot is None and self._error is None

    def still(self, robot: Robot) -> bool:
        """Return whether this robot, which `robot` has returned, is the one described now."""
        return self._robot is robot

    def wait(self) -> None:
        """Wait for a description that may be on its way, as the node has just begun."""
        self._heard.wait(max(self._begun + ON_ITS_WAY_SECONDS - time.monotonic(), 0.0))

    def robot(self) -> Robot:
        """
        Return the robot.

        Raises `ModelError` where no description has arrived yet, or the latest one cannot be read.
        """
        if self._robot is not None:
            return self._robot
        raise self._error or ModelError(
            f"no robot description has arrived on topic '{self._topic}'",
            remedy='start robot_state_publisher, or set the parameter robot_description',
        )

    def _arrived(self, message: String) -> None:
        if self._robot is not None and message.data == self._robot.urdf:
            return
        try:
            if '<' not in message.data:
                # never a path: what comes over the network names no files on this machine
                raise ModelError(
                    f"the text '{message.data[:40]}' is no URDF",
                    remedy='publish the URDF itself, as robot_state_publisher does',
                )
            self._use(message.data)
        except IdentificationError as error:
            self._robot, self._error = None, error
            self._node.get_logger().error(f"description on topic '{self._topic}': {error}")
        finally:
            self._heard.set()

    def _use(self, urdf: str) -> None:
        robot = self.options.build(urdf, self._model)
        self._robot, self._error = robot, None
        logger = self._node.get_logger()
        logger.info(f"robot '{robot.name}' with joints {', '.join(robot.joints)}")
        for warning in robot.warnings:
            logger.warning(warning)
        if self._on_change is not None:
            self._on_change(robot)
