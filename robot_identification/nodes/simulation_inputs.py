# SPDX-License-Identifier: Apache-2.0
"""Disturbances and speed of the simulated robot, and commands beside those of its controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from ..errors import IdentificationError
from .common import explain, steady_timer
from .common.joint_states import ManualCallbackGroup
from .simulation_controller import SimulatedRobot, start_of, waypoints_of

SCALING_RATE = 50.0
"""Rate of ``~/speed_scaling`` [Hz]."""

RAMP = 1.0
"""How fast the speed changes, since nothing that moves can do so at once [1/s]."""


class Inputs:
    """Subscriptions to trajectories and commands, and the controllers' speed and parameters."""

    def __init__(self, node: Node, robot: SimulatedRobot) -> None:
        self._node, self._robot = node, robot
        self._speed = float(node.get_parameter('speed_scaling').value)
        self._commands: list[tuple[Subscription, Callable[[np.ndarray], None]]] = []
        group = ManualCallbackGroup()
        node.create_subscription(JointTrajectory, 'joint_trajectory', self._trajectory, 10)
        for name, command in (
            ('position_commands', robot.simulator.command_position),
            ('velocity_commands', robot.simulator.command_velocity),
        ):
            subscription = node.create_subscription(
                Float64MultiArray, name, lambda _: None, 10, callback_group=group
            )
            self._commands.append((subscription, command))
        node.create_subscription(JointState, '~/disturbance', self._disturbance, 10)
        # the parameters by which a controller of ros2_control names its joints
        node.create_service(GetParameters, '~/controller/get_parameters', self._parameters)
        self._speeds = node.create_publisher(Float64, '~/speed_scaling', 10)
        steady_timer(node, 1.0 / SCALING_RATE, self._publish_speed)

    def apply_commands(self) -> None:
        """
        Apply the next command of each kind; called in each servo period, so that none is late.

        Those that have gathered while that was held up are applied one after the other.
        """
        for subscription, command in self._commands:
            taken = subscription.handle.take_message(Float64MultiArray, False)
            if taken is not None:
                with self._logged_errors():
                    command(np.asarray(taken[0].data))

    def _trajectory(self, message: JointTrajectory) -> None:
        try:
            waypoints, start = waypoints_of(message), start_of(message)
            with self._robot.lock:
                simulator = self._robot.simulator
                left = simulator.follow(waypoints, start) - simulator.time
                self._robot.controller.abandon('the robot follows another trajectory')
            self._node.get_logger().info(
                f'following a trajectory of {len(message.points)} points for {left:.3g} s',
                throttle_duration_sec=1.0,
            )
        except IdentificationError as error:
            explain(self._node, error)

    @contextmanager
    def _logged_errors(self) -> Iterator[None]:
        """Hold the robot's lock, and log errors."""
        try:
            with self._robot.lock:
                yield
        except IdentificationError as error:
            explain(self._node, error)

    def _disturbance(self, message: JointState) -> None:
        """Let the efforts of the joints that are named act from outside, and none on others."""
        simulator = self._robot.simulator
        efforts = dict(zip(message.name, message.effort, strict=False))
        with self._logged_errors():
            simulator.disturb(np.array([efforts.get(name, 0.0) for name in simulator.joints]))

    def _parameters(
        self, request: GetParameters.Request, response: GetParameters.Response
    ) -> GetParameters.Response:
        joints = Parameter('joints', value=list(self._robot.simulator.joints))
        known = {'joints': joints.get_parameter_value()}
        response.values = [known.get(name, ParameterValue()) for name in request.names]
        return response

    def _publish_speed(self) -> None:
        wanted = float(self._node.get_parameter('speed_scaling').value)
        step = RAMP / SCALING_RATE
        self._speed += min(max(wanted - self._speed, -step), step)
        with self._robot.lock:
            self._robot.simulator.scale_speed(self._speed)
        self._speeds.publish(Float64(data=100.0 * self._speed))
