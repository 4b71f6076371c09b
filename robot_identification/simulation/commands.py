# SPDX-License-Identifier: Apache-2.0
"""
Do what single commands say, as ros2_control's forward_command_controller has drives do it.

The latest command stays in force until the next, however long that takes.
"""

from __future__ import annotations

import numpy as np

from ..errors import ExcitationError


class PositionCommands:
    """
    The reference of drives that were told positions.

    Parameters
    ----------
    command:
        (n_joints,) [rad or m].

    """

    def __init__(self, command: np.ndarray) -> None:
        self._reference = np.zeros((3, command.size))
        self._reference[0] = command

    def advance(self, now: float) -> np.ndarray:
        """Position, velocity and acceleration of the reference, (3, n_joints)."""
        return self._reference


class VelocityCommands:
    """
    The reference of drives that were told velocities: where these lead to.

    Parameters
    ----------
    position:
        (n_joints,) where the robot is [rad or m].
    now:
        Present time [s].

    Attributes
    ----------
    command:
        (n_joints,) the latest command [rad/s or m/s].
    speed:
        Share of the commanded velocity that the drives allow.

    """

    def __init__(self, position: np.ndarray, now: float) -> None:
        self.command = np.zeros_like(position)
        self.speed = 1.0
        self._position = position.copy()
        self._now = now

    def advance(self, now: float) -> np.ndarray:
        """Position, velocity and acceleration of the reference, (3, n_joints)."""
        velocity = self.speed * self.command
        self._position += velocity * (now - self._now)
        self._now = now
        return np.array([self._position, velocity, np.zeros_like(velocity)])


def checked_command(command: np.ndarray, joints: tuple[str, ...]) -> np.ndarray:
    """
    Return ``command`` as one finite number a joint.

    Raises
    ------
    ExcitationError
        where it is not that.

    """
    command = np.array(command, dtype=float)
    if command.shape != (len(joints),):
        raise ExcitationError(
            f'command refused, it has {command.size} numbers for {len(joints)} joints',
            value=int(command.size),
            remedy=f'send one a joint, in the order {", ".join(joints)}',
        )
    bad = ~np.isfinite(command)
    if bad.any():
        i = int(bad.argmax())
        raise ExcitationError(
            f"command refused, that of joint '{joints[i]}' is {command[i]}",
            joint=joints[i],
            value=float(command[i]),
            remedy='send finite numbers only',
        )
    return command
