# SPDX-License-Identifier: Apache-2.0
"""Parameters of the excitation node that are about the controller it commands."""

from __future__ import annotations

from dataclasses import dataclass

from ..options.fields import option

TRAJECTORY_TOPIC = 'trajectory_topic'
FOLLOW_JOINT_TRAJECTORY = 'follow_joint_trajectory'
POSITION_COMMANDS = 'position_commands'
VELOCITY_COMMANDS = 'velocity_commands'

CONTROLLER_KINDS = (
    TRAJECTORY_TOPIC,
    FOLLOW_JOINT_TRAJECTORY,
    POSITION_COMMANDS,
    VELOCITY_COMMANDS,
)


@dataclass(frozen=True)
class ControllerOptions:
    """Settings of the controller that takes the commands."""

    controller_topic: str = option(
        'joint_trajectory',
        doc='Topic on which the controller takes trajectories or commands, or its action, for '
        'example joint_trajectory_controller/joint_trajectory',
        read_only=True,
    )
    controller_kind: str = option(
        TRAJECTORY_TOPIC,
        doc='What controller_topic names: a topic for trajectories, an action '
        'FollowJointTrajectory, or a topic for streamed positions or velocities '
        '(std_msgs/Float64MultiArray)',
        choices=CONTROLLER_KINDS,
        read_only=True,
    )
    controller_node: str = option(
        '',
        doc="Node that has the parameter joints with the controller's joints; empty: what stands "
        'before the last slash of controller_topic, as with the controllers of ros2_control',
        read_only=True,
    )
    controller_joints: tuple[str, ...] = option(
        (),
        doc='Joints in the order of streamed commands, for a controller that cannot be asked',
        read_only=True,
    )
    command_rate: float = option(
        250.0,
        doc='Streamed commands per second',
        unit='Hz',
        minimum=10.0,
        maximum=1000.0,
        read_only=True,
    )
    command_gain: float = option(
        2.0,
        doc='Velocity per difference between planned and measured position, added to streamed '
        'velocities so that the robot does not drift from the path; 0 for none',
        unit='1/s',
        minimum=0.0,
        maximum=20.0,
        read_only=True,
    )
    command_priority: int = option(
        20,
        doc='Real-time priority (SCHED_FIFO) of the process that streams commands, where the '
        'system allows it; 0 for the usual scheduling',
        minimum=0,
        maximum=99,
        read_only=True,
    )
    speed_scaling_topic: str = option(
        '',
        doc='Topic with the speed at which the controller lets time pass, in percent '
        "(std_msgs/Float64, as UR's speed_scaling_state_broadcaster/speed_scaling); empty: it "
        'never scales time',
        read_only=True,
    )
