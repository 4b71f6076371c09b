# SPDX-License-Identifier: Apache-2.0
"""
The last word before a robot moves: whether a trajectory keeps all limits and is free of collision.

Nothing here trusts the planner; any trajectory can be checked, however it came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..errors import ExcitationError
from ..recording import Motion
from ..regressors import build, predict, prior
from ..robot import Robot
from .collisions import CollisionModel, Contact
from .limits import Limits
from .points import PointTrajectory
from .trajectories import Concatenation, Trajectory

Effort = Callable[[Motion], np.ndarray]
"""Predicts the efforts of a motion, (n_samples, n_joints) [N m or N]."""

LEAST_RATE = 250.0
"""Lowest rate at which a trajectory is checked [Hz]."""

_BLOCK = 4096
_ROUNDING = 1e-9


class LimitViolation(ExcitationError):
    """
    A trajectory that leaves a limit.

    Beside `joint`, `key` is the quantity and `value` its value; `limit` and `time` [s] say more.
    """

    limit: float
    time: float


class CollisionError(ExcitationError):
    """
    A trajectory on which links come too close to each other.

    `links` are their names, `value` is their distance [m], `time` when [s].
    """

    links: tuple[str, str]
    time: float


def nominal_effort(robot: Robot) -> Effort:
    """Return what predicts efforts by the URDF's inertias, damping and friction."""
    regressor, values = build(robot), prior(robot)
    return lambda motion: predict(regressor, motion, values)


def check_trajectory(
    robot: Robot,
    trajectory: Trajectory,
    limits: Limits,
    *,
    rate: float = 500.0,
    effort: Effort | None = None,
    collisions: CollisionModel | None = None,
) -> None:
    """
    Check every limit and, where ``collisions`` is given, that links keep their distance.

    Parameters
    ----------
    robot:
        The robot.
    trajectory:
        Any trajectory of its joints, in its order; it has to begin and end at rest.
    limits:
        Limits in force.
    rate:
        Samples per second for the limits, at least 250 [Hz]; points of a `PointTrajectory` and
        times between them are looked at besides.
    effort:
        Predicts efforts; default by the URDF's parameters.
    collisions:
        The robot's collision model.  Positions are looked at so densely that no point of the robot
        moves by more than the clearance from one to the next (`sweep`), so the shapes stay clear
        of each other in between.

    Raises
    ------
    LimitViolation
        naming joint, quantity, value, limit and time.
    CollisionError
        naming the links and the time.
    ExcitationError
        where the joints are not the robot's, or the ends are not at rest.

    """
    if trajectory.joints != robot.joints:
        raise ExcitationError(
            f'the trajectory moves {", ".join(trajectory.joints)}',
            value=trajectory.joints,
            remedy=f'it has to move {", ".join(robot.joints)}, in this order',
        )
    check_rest(trajectory)
    effort = effort or nominal_effort(robot)
    for time in _blocks(check_times(trajectory, rate)):
        motion = trajectory.sample(time)
        check_motion(motion, time, limits)
        _check_symmetric('effort', effort(motion), limits.effort, time, limits)
    if collisions is not None:
        check_collisions(trajectory, collisions)


def check_rest(trajectory: Trajectory, tolerance: float = 1e-6) -> None:
    """Raise `ExcitationError` where the trajectory's first or last velocity is not zero."""
    motion = trajectory.sample(np.array([0.0, trajectory.duration]))
    for row, end in enumerate(('start', 'end')):
        speed = np.abs(motion.velocity[row])
        if speed.max() > tolerance:
            joint = trajectory.joints[int(speed.argmax())]
            raise ExcitationError(
                f"joint '{joint}' moves at {speed.max():.3g} at the {end} of the trajectory",
                joint=joint,
                key='velocity',
                value=float(speed.max()),
                remedy='begin and end at rest',
            )


def check_motion(motion: Motion, time: np.ndarray, limits: Limits) -> None:
    """
    Check position, velocity and acceleration.

    Parameters
    ----------
    motion:
        (n_samples, n_joints).
    time:
        (n_samples,) for the message [s].
    limits:
        Limits in force.

    Raises
    ------
    LimitViolation
        at the sample that exceeds its limit most.

    """
    slack = _ROUNDING * np.maximum(1.0, np.abs(motion.position))
    _raise_worst('position', motion.position, limits.upper, motion.position - slack, time, limits)
    _raise_worst('position', motion.position, limits.lower, -motion.position - slack, time, limits)
    _check_symmetric('velocity', motion.velocity, limits.velocity, time, limits)
    _check_symmetric('acceleration', motion.acceleration, limits.acceleration, time, limits)


def _check_symmetric(
    quantity: str, values: np.ndarray, limit: np.ndarray, time: np.ndarray, limits: Limits
) -> None:
    _raise_worst(quantity, values, limit, np.abs(values) * (1.0 - _ROUNDING), time, limits)


def _raise_worst(
    quantity: str,
    values: np.ndarray,
    limit: np.ndarray,
    size: np.ndarray,
    time: np.ndarray,
    limits: Limits,
) -> None:
    """Raise where ``size`` is above the limit (for a lower limit both have their sign changed)."""
    with np.errstate(invalid='ignore'):
        lower = quantity == 'position' and limit is limits.lower
        excess = size - (-limit if lower else limit)
    if not (excess > 0.0).any():
        return
    row, joint = np.unravel_index(
        np.argmax(np.where(np.isnan(excess), -np.inf, excess)), size.shape
    )
    unit = limits.unit(quantity, int(joint))
    error = LimitViolation(
        f"{quantity} of joint '{limits.joints[joint]}' is {values[row, joint]:.6g} {unit} at "
        f'{time[row]:.3f} s, beyond its limit of {limit[joint]:.6g} {unit}',
        joint=limits.joints[joint],
        key=quantity,
        value=float(values[row, joint]),
        remedy='plan within the limits, or correct the limit if it is wrong',
    )
    error.limit, error.time = float(limit[joint]), float(time[row])
    raise error


def check_times(trajectory: Trajectory, rate: float) -> np.ndarray:
    """Return the times at which limits are looked at: a grid, and around the points of a path."""
    rate = max(rate, LEAST_RATE)
    n = int(np.ceil(trajectory.duration * rate)) + 1
    times = [np.linspace(0.0, trajectory.duration, n)]
    begin = 0.0
    parts = trajectory.parts if isinstance(trajectory, Concatenation) else (trajectory,)
    for part in parts:
        if isinstance(part, PointTrajectory):
            steps = np.diff(part.time)[:, None] * np.linspace(0.0, 1.0, 8, endpoint=False)
            times.append(begin + (part.time[:-1, None] + steps).ravel())
        begin += part.duration
    return np.unique(np.concatenate(times))


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


def contacts(
    trajectory: Trajectory, collisions: CollisionModel
) -> Iterator[tuple[float, Contact]]:
    """Iterate over (time [s], contact) along a trajectory, in order of time."""
    times = sweep(trajectory, collisions.reach, collisions.clearance)
    for part in _blocks(times):
        for contact in collisions.contacts(trajectory.sample(part).position):
            yield float(part[contact.sample]), contact


def check_collisions(trajectory: Trajectory, collisions: CollisionModel) -> None:
    """
    Check that links keep the clearance.

    Raises
    ------
    CollisionError
        naming the first two links that do not, and when.

    """
    for time, contact in contacts(trajectory, collisions):
        error = CollisionError(
            f"links '{contact.first}' and '{contact.second}' are {contact.distance:.4f} m apart "
            f'at {time:.3f} s, closer than the clearance of {collisions.clearance:.4g} m',
            link=contact.first,
            key='clearance',
            value=contact.distance,
            remedy='choose another start or smaller position limits',
        )
        error.links, error.time = (contact.first, contact.second), time
        raise error


def _blocks(time: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, time.size, _BLOCK):
        yield time[start : start + _BLOCK]
