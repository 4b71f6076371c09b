# SPDX-License-Identifier: Apache-2.0
"""Efforts that commands and gains of position servos imply, in place of measured ones."""

from __future__ import annotations

import numpy as np

from ..data.commands import CommandRecording
from ..data.recording import Recording
from .settings import ServoSettings


def with_servo_efforts(commands: CommandRecording, servo: ServoSettings) -> Recording:
    """
    Return a recording with the efforts of the servos, without a delay of the commands.

    Velocities that were not measured are differences of positions: efforts are low-passed later.

    Raises SettingsError if gains are neither one number nor one a joint.
    """
    joints, position = commands.joints, commands.position
    stiffness, damping, limit = (
        servo.per_joint(name, joints) for name in ('stiffness', 'damping', 'limit')
    )
    speed = commands.velocity
    if speed is None:
        speed = np.gradient(position, commands.time, axis=0)
    wanted = 0.0 if commands.command_velocity is None else commands.command_velocity
    more = 0.0 if commands.feedforward is None else commands.feedforward
    effort = stiffness * (commands.command - position) + damping * (wanted - speed) + more
    return Recording(
        time=commands.time,
        position=position,
        effort=np.clip(effort, -limit, limit),
        joints=joints,
        source=commands.source,
    )
