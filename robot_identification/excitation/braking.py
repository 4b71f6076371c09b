# SPDX-License-Identifier: Apache-2.0
"""
Coming to rest along the path of a trajectory.

It keeps a robot where it was checked to be free of collision: only the time scaling s(t)
changes, q(t) = path(s(t)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.recording import Motion
from .limits import Limits
from .points import PointTrajectory
from .trajectories import Trajectory

SHORTEST = 0.2
"""Least time for a stop [s]."""

LONGEST = 5.0
"""Longest stop that is tried [s]."""

ACCELERATION_SHARE = 0.5
"""Share of the acceleration limits that a stop off the path uses: a servo overshoots."""

_FACTOR = 1.15
_LOOKS = 41
_ROUNDING = 1.0 + 1e-9


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


def to_rest(
    limits: Limits,
    state: np.ndarray,
    place: np.ndarray | None = None,
    shortest: float = SHORTEST,
) -> PointTrajectory | None:
    """
    Return the quickest quintic from a state of motion to rest that keeps the limits.

    It leaves the path that was checked for collisions, so it is short.

    Parameters
    ----------
    limits:
        Limits of position, velocity and acceleration in force.
    state:
        (3, n_joints) position, velocity and acceleration at its begin.
    place:
        (n_joints,) where it ends; None for where the velocity leads while it falls evenly.
    shortest:
        Least duration [s].

    Returns
    -------
    PointTrajectory or None
        None where there is none within `LONGEST`.

    """
    position, velocity, acceleration = np.asarray(state, dtype=float)
    zero = np.zeros_like(position)
    looks = np.linspace(0.0, 1.0, _LOOKS)
    # at its begin it may move as the motion that it ends
    fastest = np.maximum(limits.velocity, np.abs(velocity))
    hardest = np.maximum(ACCELERATION_SHARE * limits.acceleration, np.abs(acceleration))
    duration = shortest
    while duration <= LONGEST:
        end = position + 0.5 * duration * velocity if place is None else place
        end = np.clip(end, limits.lower, limits.upper)
        stop = PointTrajectory(
            limits.joints,
            np.array([0.0, duration]),
            np.array([position, end]),
            np.array([velocity, zero]),
            np.array([acceleration, zero]),
        )
        motion = stop.sample(duration * looks)
        inside = (motion.position >= np.minimum(limits.lower, position)) & (
            motion.position <= np.maximum(limits.upper, position)
        )
        slow = np.abs(motion.velocity) <= fastest * _ROUNDING
        soft = np.abs(motion.acceleration) <= hardest * _ROUNDING
        if (inside & slow & soft).all():
            return stop
        duration *= _FACTOR
    return None
