# SPDX-License-Identifier: Apache-2.0
"""Parameters of the excitation node that are about executing a trajectory."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import option


@dataclass(frozen=True)
class ExecutionOptions:
    """How a checked trajectory is carried out, and when it is given up."""

    execute: bool = option(
        False, doc='Whether the node may move the robot; while false, goals can only be dry runs'
    )
    controller_topic: str = option(
        'joint_trajectory',
        doc='Topic on which the controller takes trajectories, for example '
        'joint_trajectory_controller/joint_trajectory',
        read_only=True,
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
    settle_time: float = option(
        3.0,
        doc='Time that the robot may take to come to rest after the end of a trajectory',
        unit='s',
        minimum=0.1,
    )
    rest_tolerance: float = option(
        0.003,
        doc='How much the measured positions may change in 0.15 s for the robot to be at rest',
        unit='rad or m',
        minimum=0.0,
    )
