# SPDX-License-Identifier: Apache-2.0
"""Settings of the execution of a motion, its errors and its report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
from robot_identification_msgs.action import Excite

from ...data.drives import EFFORT_KINDS
from ...options.fields import option
from ..common.requests import CodedError


@dataclass(frozen=True)
class ExecutionOptions:
    """Settings of the execution of a checked trajectory."""

    controller: str = option(
        'joint_trajectory_controller',
        doc='Controller that executes the motions, by its action '
        '<controller>/follow_joint_trajectory; its state and its parameters are asked for, too',
        read_only=True,
    )
    execute: bool = option(
        False, doc='Whether the node may move the robot; while false, goals can only be dry runs'
    )
    recorder: str = option(
        'recorder', doc='Name of the recorder node, whose services record a motion', read_only=True
    )
    publish_rate: float = option(
        50.0,
        doc='Points per second of the trajectory that is sent; the controller interpolates',
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
        doc='How far from its start the robot may be for a trajectory to begin where '
        "move_to_start is false, and how far the joint states may be from the controller's own "
        'state',
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
        doc='Time without joint states after which a motion is stopped; five of their usual '
        'periods at least',
        unit='s',
        minimum=0.01,
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
        'plans',
        doc='Folder of the planned motions, a CSV file each, in that of the namespace; empty: '
        'none is written',
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


def code_name(code: int, kind: type = Code) -> str:
    """Return the name of a code of an action's result."""
    names = (name for name in dir(kind) if name.isupper() and getattr(kind, name) == code)
    return next(names, str(code))


class MotionError(CodedError):
    """A motion that does not begin or ends early: a code of Excite's result, and words."""


def raise_if(reason: MotionError | None) -> None:
    """Raise the reason for which a motion must not begin or go on, if there is one."""
    if reason is not None:
        raise reason


class Report:
    """Feedback of a motion, for its client, and the result that is filled."""

    def __init__(self, result: Excite.Result | None = None) -> None:
        self.feedback = Excite.Feedback(phase='checking', effort_share=np.nan)
        self.result = Excite.Result() if result is None else result
        self.result.max_effort_share = np.nan
