# SPDX-License-Identifier: Apache-2.0
"""
Command interfaces of the simulated robot, those of ros2_control's usual controllers.

Whatever was sent last is in force, as though the others' controllers had been switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import threading
from typing import Any

import numpy as np
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from ...errors import IdentificationError
from ...simulation import Simulator, Waypoints
from ..common import explain
from ..common.motion_messages import nanoseconds, seconds
from ..common.node_main import ManualCallbackGroup

START = 1
"""Simulated time at the start [s]; ROS takes the time 0 for no time."""

SCALING_RATE = 50.0
"""Rate of ``~/speed_scaling`` [Hz]."""

RAMP = 1.0
"""How fast the speed changes, since nothing that moves can do so at once [1/s]."""


@dataclass
class SimulatedRobot:
    """A simulator that several threads use, each only with the lock held."""

    simulator: Simulator
    lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, message: JointTrajectory) -> float:
        """
        Follow a trajectory and return how long it takes [s].

        Raises
        ------
        ExcitationError
            where it cannot be followed.

        """
        waypoints, start = waypoints_of(message), start_of(message)
        with self.lock:
            end = self.simulator.follow(waypoints, start)
            return end - self.simulator.time


class Inputs:
    """
    Subscriptions to trajectories and commands, and the controllers' speed and parameters.

    Parameters
    ----------
    node:
        Has the parameter ``speed_scaling``.
    robot:
        Is commanded.

    """

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
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(1.0 / SCALING_RATE, self._publish_speed, clock=steady)

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
            left = self._robot.follow(message)
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


def waypoints_of(message: JointTrajectory) -> Waypoints:
    """Return the waypoints of a message; raise `ExcitationError` where something is wrong."""
    points, joints = message.points, tuple(message.joint_names)
    time = np.array([seconds(point.time_from_start) for point in points])
    position, velocity, acceleration = (
        _column([getattr(point, name) for point in points], len(joints))
        for name in ('positions', 'velocities', 'accelerations')
    )
    none = np.empty((0, len(joints)))
    return Waypoints(joints, time, none if position is None else position, velocity, acceleration)


def start_of(message: JointTrajectory) -> float | None:
    """Return the simulated time of a trajectory's start [s]; None where that is its arrival."""
    stamp = nanoseconds(message.header.stamp)
    return 1e-9 * (stamp - START * 10**9) if stamp else None


def _column(rows: list[Any], width: int) -> np.ndarray | None:
    """(points, joints) of one quantity; NaN where a point has not as many numbers as joints."""
    if not any(len(row) for row in rows):
        return None
    filled = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        if len(row) == width:
            filled[i] = row
    return filled
