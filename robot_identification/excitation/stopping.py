# SPDX-License-Identifier: Apache-2.0
"""
Coming to rest along the path of a trajectory.

It keeps a robot where it was checked to be free of collision: only the time scaling s(t)
changes, q(t) = path(s(t)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..recording import Motion
from .points import PointTrajectory
from .trajectories import Trajectory

SHORTEST = 0.2
"""Least time for a stop [s]."""


@dataclass(frozen=True)
class SlowedTrajectory:
    r"""
    A trajectory that is followed from time `begin` at a rate falling smoothly from 1 to 0.

    With :math:`x = t / T`, :math:`\dot s = 1 - 3 x^2 + 2 x^3`, whose derivative vanishes at both
    ends, so that velocity and acceleration join the trajectory's and end at zero.

    Attributes
    ----------
    path:
        The trajectory whose path is kept.
    begin:
        Time in it at which the slowing down starts [s].
    duration:
        Time until rest [s]; half of it is left of the path.

    """

    path: Trajectory
    begin: float
    duration: float

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints."""
        return self.path.joints

    def sample(self, time: np.ndarray) -> Motion:
        """Return positions and their exact derivatives at ``time`` (n_samples,) [s]."""
        time = np.clip(np.atleast_1d(np.asarray(time, dtype=float)), 0.0, self.duration)
        return slowed(self.path, self.begin, self.duration, time / self.duration)


def slowed(path: Trajectory, begin: np.ndarray | float, duration: float, x: np.ndarray) -> Motion:
    """
    Return the states of stops along a path (see `SlowedTrajectory`).

    Parameters
    ----------
    path:
        The trajectory whose path is kept.
    begin:
        When the stop begins to which a sample belongs, one for each or one for all [s].
    duration:
        Time until rest [s].
    x:
        (n_samples,) share of that time that has passed, from 0 to 1.

    """
    motion = path.sample(begin + duration * (x - x**3 + 0.5 * x**4))
    rate = (1.0 - 3.0 * x**2 + 2.0 * x**3)[:, None]
    change = ((6.0 * x**2 - 6.0 * x) / duration)[:, None]
    return Motion(
        motion.position,
        motion.velocity * rate,
        motion.acceleration * rate**2 + motion.velocity * change,
    )


def halt(
    joints: Sequence[str],
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    shortest: float = SHORTEST,
) -> PointTrajectory:
    """
    Return the smooth stop of a robot that is not on the path that it should follow.

    From there, a stop along the path would begin with a leap.

    Parameters
    ----------
    joints:
        Names.
    position, velocity:
        (n_joints,) where the robot is, and how it moves.
    acceleration:
        (n_joints,) limits.
    shortest:
        Least time for the stop [s].

    """
    position, velocity = np.asarray(position, dtype=float), np.asarray(velocity, dtype=float)
    # velocity falls as 1 - 3 x^2 + 2 x^3, whose slope is 1.5 at most and whose integral is 1/2
    duration = max(shortest, float((1.5 * np.abs(velocity) / acceleration).max()))
    zero = np.zeros_like(position)
    return PointTrajectory(
        tuple(joints),
        np.array([0.0, duration]),
        np.array([position, position + 0.5 * duration * velocity]),
        np.array([velocity, zero]),
        np.array([zero, zero]),
    )
