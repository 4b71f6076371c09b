# SPDX-License-Identifier: Apache-2.0
"""
The ``simulation`` node: a robot in MuJoCo with a controller, which publishes what it measures.

The physics and the controller run in a thread of its own and publish from there; the executor
waits for goals and services.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
import sys
import threading
from typing import Any

import numpy as np
from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ..data.recording import SIGNALS
from ..errors import IdentificationError
from ..options.fields import option
from ..simulation import SimulatedPayload, SimulatedSample, SimulationSettings, Simulator, Wear
from ..simulation.controller import Constraints, TrajectoryController
from ..simulation.pace import Pace
from ..simulation.truth import per_joint
from ..simulation.truth_file import write_truth
from .common import (
    declare_options,
    explain,
    JOINT_STATES,
    LATCHED,
    read_options,
    run,
    serve,
    steady_timer,
)
from .common.joint_states import StateMessages
from .common.messages import time_message
from .common.robot_description import RobotOptions
from .simulation_controller import ControllerInterfaces, MONITOR_RATE, SimulatedRobot, START

DEMO_ARM = 'package://robot_identification/urdf/demo_arm.urdf'


@dataclass(frozen=True)
class NodeOptions:
    """Settings of the node beside those of the simulator."""

    urdf: str = option(
        DEMO_ARM,
        doc='URDF or xacro file (a path or package://) where robot_description is empty',
        read_only=True,
    )
    real_time_factor: float = option(
        1.0,
        doc='Simulated seconds in a second; 0: as fast as the machine can',
        minimum=0.0,
        maximum=1000.0,
        read_only=True,
    )
    clock_rate: float = option(
        250.0,
        doc='Rate of /clock in simulated time',
        unit='Hz',
        minimum=1.0,
        maximum=10000.0,
        read_only=True,
    )
    controller: str = option(
        'joint_trajectory_controller',
        doc="Name of the robot's controller, with which the names of its interfaces begin",
        read_only=True,
    )
    controller_state_rate: float = option(
        100.0,
        doc="Rate of the controller's state in simulated time",
        unit='Hz',
        minimum=1.0,
        maximum=10000.0,
        read_only=True,
    )
    action_monitor_rate: float = option(
        MONITOR_RATE,
        doc="Rate of the feedback of the controller's action, and of its results, by this "
        "machine's clock",
        unit='Hz',
        minimum=0.01,
        maximum=1000.0,
        read_only=True,
    )
    speed_scaling: float = option(
        1.0,
        doc='Speed of trajectories, as set by a slider on the robot: the rate of their time',
        minimum=0.0,
        maximum=1.0,
    )
    truth_file: str = option(
        '', doc='File that gets the true parameters as YAML; empty: none', read_only=True
    )


class SimulationNode(Node):
    """
    Publishes joint states, clock and robot description; its controller executes trajectories.

    Of a robot with elastic joints it publishes the motors' states, too.
    """

    def __init__(self) -> None:
        super().__init__('simulation')
        robot_options = declare_options(self, RobotOptions)
        self._options = declare_options(self, NodeOptions)
        self._settings = declare_options(self, SimulationSettings)
        constraints = declare_options(self, Constraints, 'constraints')
        robot = robot_options.build(robot_options.robot_description or self._options.urdf)
        for warning in robot.warnings:
            self.get_logger().warning(warning)
        self._simulator = Simulator(robot, self._settings)
        if self._options.truth_file:
            write_truth(Path(self._options.truth_file), self._simulator)

        self._joints = StateMessages(robot.joints)
        self._joints_out = self.create_publisher(JointState, 'joint_states', JOINT_STATES)
        self._motors: StateMessages | None = None
        elastic = self._settings.elastic
        if elastic is not None:
            self._motors = StateMessages(elastic.motor_names(robot.joints))
            self._motors_out = self.create_publisher(JointState, 'motor_states', JOINT_STATES)
            self._motor_scale = 1.0 / elastic.position_scale(robot.joints)
        self._clock_message = ClockMessage()
        # rcl's time sources subscribe best effort with a depth of 1; reliable serves all others
        self._clocks = self.create_publisher(ClockMessage, '/clock', QoSProfile(depth=10))
        self._descriptions = self.create_publisher(String, 'robot_description', LATCHED)
        self._descriptions.publish(String(data=robot.urdf))
        controller = TrajectoryController(self._simulator, constraints)
        self._robot = SimulatedRobot(self._simulator, controller)
        self._simulator.scale_speed(self._options.speed_scaling)
        self._declare_disturbances()
        self.create_subscription(JointState, '~/disturbance', self._disturb, 10)
        name = self._options.controller
        rate = self._options.action_monitor_rate
        self._controller = ControllerInterfaces(self, name, self._robot, constraints, rate)
        serve(self, Trigger, '~/reset', self._reset)

        self._stop = threading.Event()
        self._failure: BaseException | None = None
        # not the node's clock, which may be the one that this node makes
        steady_timer(self, 0.2, self._supervise)
        self._thread = threading.Thread(target=self._run, name='physics', daemon=True)
        self._thread.start()
        self.get_logger().info(
            f"simulating '{robot.name}' with joints {', '.join(robot.joints)} "
            f'at {self._settings.rate:g} Hz'
        )

    def on_shutdown(self) -> None:
        """Stop the physics."""
        self._stop.set()
        self._thread.join(2.0)

    # ------------------------------------------------------------------------------- requests

    def _declare_disturbances(self) -> None:
        """Declare the parameters that change the robot while it runs."""
        plant = self._simulator.plant
        kinds: tuple[tuple[type, str, Callable[[Any], None]], ...] = (
            (SimulatedPayload, 'payload', plant.carry),
            (Wear, 'wear', plant.wear),
        )
        for kind, prefix, apply in kinds:
            apply(declare_options(self, kind, prefix))

        def refused(parameters: list[Parameter]) -> SetParametersResult:
            for parameter in parameters:
                if parameter.name == 'wear.friction':
                    try:
                        per_joint(parameter.value, self._simulator.robot, 'wear.friction')
                    except IdentificationError as error:
                        return SetParametersResult(successful=False, reason=str(error))
            return SetParametersResult(successful=True)

        def changed(parameters: list[Parameter]) -> None:
            for kind, prefix, apply in kinds:
                if any(parameter.name.startswith(f'{prefix}.') for parameter in parameters):
                    with self._robot.lock:
                        apply(read_options(self, kind, prefix))

            with self._robot.lock:
                self._simulator.scale_speed(read_options(self, NodeOptions).speed_scaling)

        self.add_on_set_parameters_callback(refused)
        self.add_post_set_parameters_callback(changed)

    def _disturb(self, message: JointState) -> None:
        """Let the efforts of the joints that are named act from outside, and none on others."""
        efforts = dict(zip(message.name, message.effort, strict=False))
        try:
            with self._robot.lock:
                joints = self._simulator.joints
                self._simulator.disturb(np.array([efforts.get(name, 0.0) for name in joints]))
        except IdentificationError as error:
            explain(self, error)

    def _reset(self, *_: Any) -> str:
        with self._robot.lock:
            self._simulator.reset()
            self._robot.controller.abandon('the simulation was reset')
        return 'at rest in the initial position'

    def _supervise(self) -> None:
        if self._failure is not None:
            raise self._failure

    # -------------------------------------------------------------------------------- physics

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            if not self._stop.is_set() and self.context.ok():
                self._failure = error

    def _loop(self) -> None:
        settings, factor = self._settings, self._options.real_time_factor
        pace = Pace(1.0 / (settings.servo_rate * factor)) if factor > 0.0 else None
        ticks, reports = (
            max(round(settings.servo_rate / rate), 1)
            for rate in (self._options.clock_rate, self._options.controller_state_rate)
        )
        warned = False
        while not self._stop.is_set():
            with self._robot.lock:
                periods = self._simulator.periods
                sample = self._simulator.advance()
                self._controller.take(sample)
            nanoseconds = START * 10**9 + round(periods * 1e9 / settings.servo_rate)
            stamp = time_message(nanoseconds)
            if periods % ticks == 0:
                self._clock_message.clock = stamp
                self._clocks.publish(self._clock_message)
            if periods % settings.decimation == 0:
                self._publish(sample, nanoseconds)
            if periods % reports == 0:
                self._controller.publish_state(stamp)
            if pace is not None:
                pace.wait()
                if pace.lost > 1.0 and not warned:
                    warned = True
                    self.get_logger().warning(
                        'this machine is too slow for the asked real_time_factor: simulated time '
                        'falls behind, and nothing else is lost; a lower rate helps'
                    )

    def _publish(self, sample: SimulatedSample, stamp: int) -> None:
        states = {name: getattr(sample, name) for name in SIGNALS}
        self._joints_out.publish(self._joints.message(stamp, **states))
        if self._motors is not None:
            assert sample.motor_position is not None and sample.motor_velocity is not None
            states['position'] = self._motor_scale * sample.motor_position
            states['velocity'] = self._motor_scale * sample.motor_velocity
            self._motors_out.publish(self._motors.message(stamp, **states))


def main(args: list[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(SimulationNode, args)


if __name__ == '__main__':
    sys.exit(main())
