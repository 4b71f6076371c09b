# SPDX-License-Identifier: Apache-2.0
"""
Do what single commands say, as ros2_control's forward_command_controller has drives do it.

The latest command stays in force until the next, however long that takes.
"""

from __future__ import annotations

import numpy as np

from ..errors import ExcitationError

SHORTEST_STEP, LONGEST_STEP = 1e-3, 0.02
"""Time in which drives pass from one commanded position to the next [s]."""


class PositionCommands:
    """
    The reference of drives that are commanded positions.

    Drives get few commands for their own rate: they pass evenly from one to the next, in the time
    between the two, and smooth what is left of the corners with a ``bandwidth`` [Hz].
    Position and velocity are the robot's at the time ``now`` [s].
    """

    def __init__(
        self, position: np.ndarray, velocity: np.ndarray, now: float, bandwidth: float
    ) -> None:
        self._omega = 2.0 * np.pi * bandwidth
        self._position, self._velocity = position.copy(), velocity.copy()
        self._from, self._to = position.copy(), position.copy()
        self._since, self._step, self._now = now, LONGEST_STEP, now

    def tell(self, command: np.ndarray, now: float) -> None:
        """Take a command, (n_joints,) [rad or m]."""
        self._from = self._target(now)
        self._step = min(max(now - self._since, SHORTEST_STEP), LONGEST_STEP)
        self._to, self._since = command, now

    def _target(self, now: float) -> np.ndarray:
        share = min((now - self._since) / self._step, 1.0)
        return self._from + share * (self._to - self._from)

    def advance(self, now: float) -> np.ndarray:
        """Position, velocity and acceleration of the reference, (3, n_joints)."""
        away = self._target(now) - self._position
        acceleration = self._omega**2 * away - 2.0 * self._omega * self._velocity
        step = now - self._now
        self._velocity = self._velocity + step * acceleration
        self._position = self._position + step * self._velocity
        self._now = now
        return np.array([self._position, self._velocity, acceleration])


class VelocityCommands:
    """
    The reference of drives that are commanded velocities: their integral from a position on.

    ``command`` (n_joints,) is the latest command [rad/s or m/s], ``speed`` the share of it that
    the
    drives allow.
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
    """Return one finite number a joint; raise `ExcitationError` if ``command`` is not that."""
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
