# SPDX-License-Identifier: Apache-2.0
"""Whether a robot stays clear of itself and of obstacles all along a path."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import ExcitationError
from .collisions import CollisionModel, Contact
from .efforts import check_times, LEAST_RATE
from .trajectories import Trajectory

_BLOCK = 4096


class CollisionError(ExcitationError):
    """
    A trajectory on which links come too close to each other or to an obstacle.

    `links` are their names, `value` is their distance [m], `time` when [s].
    """

    links: tuple[str, str]
    time: float


@dataclass(frozen=True)
class Nearest:
    """
    Where two bodies are closest to each other on a path.

    Attributes
    ----------
    first, second:
        Names of links or obstacles.
    distance:
        Between them [m].
    time:
        When [s].
    position:
        (n_joints,) [rad or m].
    points:
        (2, 3) on the one and on the other, in the base frame [m].

    """

    first: str
    second: str
    distance: float
    time: float
    position: np.ndarray
    points: np.ndarray

    def summary(self) -> str:
        """Return a line on it."""
        return (
            f"smallest distance {self.distance:.4f} m, '{self.first}' to '{self.second}' at "
            f'{self.time:.2f} s'
        )

    def delayed(self, seconds: float) -> Nearest:
        """Return the same with a later time."""
        return replace(self, time=self.time + seconds)


def sweep(trajectory: Trajectory, reach: np.ndarray, step: float) -> np.ndarray:
    r"""
    Return times between which no point of the robot moves by more than ``step``.

    A point moves at most at :math:`\sum_j |\dot q_j| r_j`, where the reach :math:`r_j` bounds its
    distance from the axis of joint j.  The integral of this bound is cut into equal parts.

    Parameters
    ----------
    trajectory:
        Any trajectory.
    reach:
        (n_joints,) [m/rad or m/m].
    step:
        [m].

    Returns
    -------
    np.ndarray
        (n_times,) increasing, from 0 to the trajectory's end [s].

    """
    grid = check_times(trajectory, LEAST_RATE)
    length = np.zeros(grid.size)
    for start in range(0, grid.size - 1, _BLOCK):
        part = grid[start : start + _BLOCK + 1]
        position = trajectory.sample(part).position
        moved = np.abs(np.diff(position, axis=0)) @ reach
        length[start + 1 : start + part.size] = length[start] + np.cumsum(moved)
    n = max(2, int(np.ceil(length[-1] / step)) + 1)
    # where the robot rests the length does not grow; a little of the time makes it invertible
    length += 1e-9 * step * grid / max(trajectory.duration, 1e-9)
    return np.interp(np.linspace(0.0, length[-1], n), length, grid)


def check_collisions(trajectory: Trajectory, collisions: CollisionModel) -> Nearest | None:
    """
    Check that links keep the clearance, and return where they came closest.

    Returns
    -------
    Nearest or None
        None where there is nothing that could touch.

    Raises
    ------
    CollisionError
        naming the first two links, or link and obstacle, that do not, and when.

    """
    nearest: Nearest | None = None
    times = sweep(trajectory, collisions.reach, collisions.clearance)
    for start in range(0, times.size, _BLOCK):
        part = times[start : start + _BLOCK]
        position = trajectory.sample(part).position
        contact = collisions.closest(position, np.inf if nearest is None else nearest.distance)
        if contact is None:
            continue
        when = float(part[contact.sample])
        nearest = Nearest(
            contact.first, contact.second, contact.distance, when,
            position[contact.sample], contact.points,
        )  # fmt: skip
        if contact.distance < collisions.clearance:
            raise too_close(collisions, contact, when)
    return nearest


def too_close(collisions: CollisionModel, contact: Contact, time: float) -> CollisionError:
    """Return the error that names what comes too close to what, and when."""
    when = f'at {time:.3f} s' if time > 0.0 else 'at the start'
    error = CollisionError(
        f'{collisions.pair_in_words(contact)} are {contact.distance:.4f} m apart {when}, closer '
        f'than the clearance of {collisions.clearance:.4g} m',
        link=contact.first,
        key='clearance',
        value=contact.distance,
        remedy='choose another start or smaller position limits',
    )
    error.links, error.time = (contact.first, contact.second), time
    return error
