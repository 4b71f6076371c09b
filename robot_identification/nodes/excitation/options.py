# SPDX-License-Identifier: Apache-2.0
"""Settings of the controller and of the execution of a motion, its errors and its report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np
from robot_identification_msgs.action import Excite

from ...data.drives import EFFORT_KINDS
from ...options.fields import option

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


@dataclass(frozen=True)
class ExecutionOptions:
    """Settings of the execution of a checked trajectory."""

    execute: bool = option(
        False, doc='Whether the node may move the robot; while false, goals can only be dry runs'
    )
    recorder: str = option(
        'recorder', doc='Name of the recorder node, whose services record a motion', read_only=True
    )
    publish_rate: float = option(
        50.0,
        doc='Points per second of the trajectories that are sent; the controller interpolates',
        unit='Hz',
        minimum=5.0,
        maximum=1000.0,
    )
    check_margin: float = option(
        0.0,
        doc='Share of each limit that has to be left for a motion to be carried out; with 0 the '
        'limits themselves have to be kept. A plan keeps planner.margin, which is more',
        minimum=0.0,
        maximum=0.95,
    )
    start_tolerance: float = option(
        0.02,
        doc='How far from its start the robot may be for a trajectory to begin',
        unit='rad or m',
        minimum=0.0,
    )
    move_to_start: bool = option(
        True, doc='Whether the robot is moved to the start of a trajectory where it is not there'
    )
    move_speed: float = option(
        0.2,
        doc='Share of the velocity and acceleration limits used on the way to the start',
        minimum=0.01,
        maximum=1.0,
    )
    horizon: float = option(
        1.0,
        doc='How far ahead the motion is sent to the controller, anew five times in this time: '
        'once nothing comes any more, the controller brings the robot to rest along the path. '
        'One that is longer than the motion sends it whole, for controllers that cannot replace '
        'a trajectory; then the death of this node does not stop the robot',
        unit='s',
        minimum=0.2,
        maximum=3600.0,
    )
    stop: str = option(
        'smooth',
        doc='How a motion is ended early: smooth, along the path; at_once, off the path, in the '
        'shortest time that 50 % of the acceleration limits allow. In both cases the robot gives '
        'way where it touches something',
        choices=('smooth', 'at_once'),
    )
    stop_within: float = option(
        3.0,
        doc='Longest time that a smooth stop along the path may take; a motion that cannot be '
        'stopped within it from anywhere is refused',
        unit='s',
        minimum=0.1,
        maximum=600.0,
    )
    stale_timeout: float = option(
        0.2,
        doc='Time without joint states after which a motion is stopped',
        unit='s',
        minimum=0.01,
    )
    tracking_tolerance: float = option(
        0.1,
        doc='Difference between planned and measured position at which a motion is stopped',
        unit='rad or m',
        minimum=0.0,
    )
    tracking_lag: float = option(
        0.1,
        doc='Delay behind the plan that is normal for the drives: a position that was planned '
        'within this time counts as reached',
        unit='s',
        minimum=0.0,
        maximum=2.0,
    )
    effort_kind: str = option(
        'joint_torque',
        doc='What the effort in joint states is; only joint torques can be compared with the '
        "URDF's limits and the predicted ones, others are not watched",
        choices=EFFORT_KINDS,
    )
    effort_share: float = option(
        0.95,
        doc='Share of an effort limit of the URDF at which a motion is stopped; 0: no bound',
        minimum=0.0,
    )
    effort_tolerance: float = option(
        0.5,
        doc='Difference between measured and predicted effort, as a share of the limit, at which '
        'a motion is stopped, since the robot touches something; 0: no bound. Raise it where '
        'the inertias of the URDF are inaccurate, or the efforts lack gravity',
        minimum=0.0,
    )
    effort_time: float = option(
        0.05,
        doc='Time over which measured efforts are averaged, so that noise stops no motion',
        unit='s',
        minimum=0.0,
        maximum=1.0,
    )
    pause_timeout: float = option(
        60.0,
        doc='How long the controller may pause a motion (speed scaling of 0) until it is given up',
        unit='s',
        minimum=0.0,
        maximum=86_400.0,
    )
    stop_when_client_leaves: bool = option(
        True,
        doc='Whether a motion is stopped whose client is gone: no longer in the graph, where a '
        'killed process remains for as long as the middleware trusts it, 20 s for Fast DDS',
    )
    alive_timeout: float = option(
        0.5,
        doc='Once a message has come on ~/alive during a motion, others have to follow: the '
        'motion is stopped after so long without one',
        unit='s',
        minimum=0.05,
    )
    settle_time: float = option(
        3.0,
        doc='Time that the robot may take to come to rest after the end of a trajectory',
        unit='s',
        minimum=0.1,
        maximum=600.0,
    )
    rest_tolerance: float = option(
        0.003,
        doc='How much the measured positions may change in 0.15 s for the robot to be at rest',
        unit='rad or m',
        minimum=0.0,
    )
    output: str = option(
        'plans', doc='Folder of the planned motions, a CSV file each; empty: none is written'
    )


@dataclass(frozen=True)
class PreviewOptions:
    """Settings of the preview of a motion."""

    ghost: str = option(
        'once',
        doc='Whether ~/preview/joint_states goes through a motion that is previewed: off, once, '
        'or loop, again and again until the next one',
        choices=('off', 'once', 'loop'),
    )
    rate: float = option(
        30.0, doc='Joint states per second of the ghost', unit='Hz', minimum=1.0, maximum=200.0
    )


# ------------------------------------------------------------------------------- errors and report

Tick = Callable[[], Awaitable[None]]
"""Awaited to wait for the next look at the robot, some 10 ms; other callbacks run meanwhile."""

Code = Excite.Result
"""Has the codes as its constants."""


def code_name(code: int) -> str:
    """Return the name of a code of the action's result."""
    names = (name for name in dir(Code) if name.isupper() and getattr(Code, name) == code)
    return next(names, str(code))


class MotionError(Exception):
    """A motion that does not begin or ends early: a code of Excite's result, and words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class OffPathError(MotionError):
    """A robot that is off its path or not free: a stop along the path would press."""


class NoMoreCommandsError(MotionError):
    """
    A motion to which nothing may be added: the controller ends the horizon that it has.

    The next command could be a leap, since the horizon is about to end, or since it is not known
    whether the robot still follows.
    """


@dataclass
class Report:
    """Feedback and result of a motion, for its client."""

    feedback: Excite.Feedback = field(
        default_factory=lambda: Excite.Feedback(
            phase='checking', effort_share=np.nan, speed_scaling=1.0
        )
    )
    result: Excite.Result = field(default_factory=lambda: Excite.Result(max_effort_share=np.nan))
