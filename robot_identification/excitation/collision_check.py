# SPDX-License-Identifier: Apache-2.0
"""Collision check of a robot with itself and with obstacles along a path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ..errors import ExcitationError
from .collisions import CollisionModel, Contact, RESOLUTION
from .extremes import check_times, LEAST_RATE
from .trajectories import Trajectory

FINEST, DIVISION = 1.0 / 16.0, 4.0
"""Share of the clearance by which points move between the closest looks; refinement to there."""

_BLOCK = 4096


class CollisionError(ExcitationError):
    """
    A trajectory on which links come too close to each other or to an obstacle.

    `links` are their names, `value` is their distance [m], `time` when [s], `nearest` where.
    """

    links: tuple[str, str]
    time: float
    nearest: Nearest


@dataclass(frozen=True, kw_only=True)
class Nearest(Contact):
    """
    Smallest distance of two bodies along a path.

    Attributes
    ----------
    time:
        When [s].
    position:
        (n_joints,) [rad or m].

    """

    time: float
    position: np.ndarray

    @classmethod
    def of(cls, contact: Contact, time: float, position: np.ndarray) -> Nearest:
        """Return a contact with its time and position."""
        return cls(**vars(contact), time=time, position=position)

    def summary(self) -> str:
        """Return the distance, the bodies and the time as text."""
        return f"{self.distance:.4f} m ('{self.first}' to '{self.second}' at {self.time:.2f} s)"

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
    times = np.interp(np.linspace(0.0, length[-1], n), length, grid)
    while (far := _far_apart(trajectory, times, reach, step)).any():
        # the motion between two points of the grid is not quite even
        middle = 0.5 * (times[:-1] + times[1:])[far]
        times = np.sort(np.concatenate([times, middle]))
    return times


def _far_apart(
    trajectory: Trajectory, times: np.ndarray, reach: np.ndarray, step: float
) -> np.ndarray:
    """Return between which times (n_times - 1,) a point may move by more than ``step``."""
    far = np.zeros(times.size - 1, dtype=bool)
    for start in range(0, far.size, _BLOCK):
        part = times[start : start + _BLOCK + 1]
        moved = np.abs(np.diff(trajectory.sample(part).position, axis=0)) @ reach
        # times that differ by rounding alone are as close as they get
        far[start : start + moved.size] = (moved > (1.0 + 1e-9) * step) & (np.diff(part) > 1e-9)
    return far


def check_collisions(trajectory: Trajectory, collisions: CollisionModel) -> tuple[Nearest, ...]:
    """
    Check that links keep the clearance; return the closest links, and link and obstacle, if any.

    No point of the robot moves by more than the clearance between two looks, so nothing thin is
    jumped over.  Where a pair could come closer between two looks, these become denser until it
    cannot (conservative advancement), or `FINEST` of the clearance is all that it could.

    Raises
    ------
    CollisionError
        naming the first two links, or link and obstacle, that do not, and when.

    """
    found: dict[bool, Nearest] = {}
    times = sweep(trajectory, collisions.reach, collisions.clearance)
    for start in range(0, times.size, _BLOCK):
        part = times[start : start + _BLOCK]
        position = trajectory.sample(part).position
        of_links, of_obstacles = (
            found[kind].distance if kind in found else np.inf for kind in (False, True)
        )
        for contact in collisions.closest(position, (of_links, of_obstacles)):
            row = contact.sample
            nearest = Nearest.of(contact, float(part[row]), position[row])
            if nearest.distance < collisions.clearance:
                raise too_close(collisions, nearest)
            found[contact.obstacle] = nearest
    first = nearest_first(found.values())
    if first and first[0].distance < 2.0 * collisions.clearance + RESOLUTION:
        _check_between(trajectory, collisions, times)
    return first


def _check_between(trajectory: Trajectory, collisions: CollisionModel, times: np.ndarray) -> None:
    """
    Raise `CollisionError` where links may be closer than the clearance between two looks.

    Two bodies whose points move by at most s against each other from one look to the next, at
    distances d1 and d2, are never closer than (d1 + d2) / 2 - s.
    """
    clearance, step = collisions.clearance, collisions.clearance
    pairs = np.arange(len(collisions.pairs))
    begin, end = times[:-1], times[1:]
    while True:
        looks = np.unique(np.concatenate([begin, end]))
        reach = collisions.pair_reach[pairs]
        moved = _most_moved(trajectory, begin, end, reach)
        near, pairs = _near(trajectory, collisions, looks, clearance + moved, pairs)
        ends = near[np.searchsorted(looks, begin)] | near[np.searchsorted(looks, end)]
        if not ends.any():
            return
        if step <= FINEST * clearance:
            break
        step /= DIVISION
        # of the pairs that are near alone
        reach = collisions.pair_reach[pairs].max(axis=0)
        begin, end = _divided(trajectory, begin[ends], end[ends], reach, step)
    near, _ = _near(trajectory, collisions, looks, np.full(pairs.size, clearance), pairs)
    for time in looks[near]:
        position = trajectory.sample(np.array([time])).position
        for contact in collisions.contacts(position):
            raise too_close(collisions, Nearest.of(contact, float(time), position[0]))


def _most_moved(
    trajectory: Trajectory, begin: np.ndarray, end: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Return by how much the bodies of each pair (k,) move against each other at most [m]."""
    most = np.zeros(len(reach))
    for some in np.array_split(np.arange(begin.size), begin.size // _BLOCK + 1):
        way = trajectory.sample(end[some]).position - trajectory.sample(begin[some]).position
        most = np.maximum(most, (np.abs(way) @ reach.T).max(axis=0, initial=0.0))
    return most


def _near(
    trajectory: Trajectory,
    collisions: CollisionModel,
    times: np.ndarray,
    distances: np.ndarray,
    pairs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return at which times (n,) any of the pairs is closer than its distance, and which are."""
    of_all = np.full(len(collisions.pairs), -np.inf)
    of_all[pairs] = distances
    blocks = [
        collisions.near(trajectory.sample(block).position, of_all)
        for block in np.array_split(times, times.size // _BLOCK + 1)
    ]
    found = np.unique(np.concatenate([of for _, of in blocks]))
    return np.concatenate([near for near, _ in blocks]), found


def _divided(
    trajectory: Trajectory, begin: np.ndarray, end: np.ndarray, reach: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Halve intervals (n,) until no point moves by more than ``step`` in any of them."""
    while True:
        way = trajectory.sample(end).position - trajectory.sample(begin).position
        far = (np.abs(way) @ reach > step) & (end - begin > 1e-9)
        if not far.any():
            return begin, end
        middle = 0.5 * (begin[far] + end[far])
        begin = np.concatenate([begin, middle])
        end = np.concatenate([np.where(far, 0.5 * (begin[: far.size] + end), end), end[far]])


def nearest_first(found: Iterable[Nearest]) -> tuple[Nearest, ...]:
    """Return the closest links, and the closest link and obstacle, the nearest first."""
    best: dict[bool, Nearest] = {}
    for nearest in sorted(found, key=lambda nearest: nearest.distance):
        best.setdefault(nearest.obstacle, nearest)
    return tuple(best.values())


def too_close(collisions: CollisionModel, nearest: Nearest) -> CollisionError:
    """Return the error that names both bodies, and when they are too close."""
    when = f'at {nearest.time:.3f} s' if nearest.time > 0.0 else 'at the start'
    error = CollisionError(
        f'{collisions.in_words(nearest.first, nearest.second)} are {nearest.distance:.4f} m apart '
        f'{when}, closer than the clearance of {collisions.clearance:.4g} m',
        link=nearest.first,
        key='clearance',
        value=nearest.distance,
        remedy='choose another start or smaller position limits',
    )
    error.links, error.time = (nearest.first, nearest.second), nearest.time
    error.nearest = nearest
    return error
