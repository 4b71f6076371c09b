# SPDX-License-Identifier: Apache-2.0
r"""
Stops that a joint_trajectory_controller makes where a goal is canceled or aborted.

Each joint brakes on its own, from where it is, by its ``max_deceleration_on_cancel`` :math:`a`:

.. math:: q(t) = q_0 + v_0 t - \tfrac{1}{2} \operatorname{sign}(v_0)\, a\, t^2, \quad
          0 \le t \le |v_0| / a,

and then rests until the others do.  So a stop leaves the path, and the joints come to rest one
after the other.  A controller without ``decelerate_on_cancel``, or with a deceleration of 0 for
any joint, holds the position at once; that one is on the path.

Source: decelerate_to_hold_position in joint_trajectory_controller 4.42.1 (ROS 2 Jazzy).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model.robot import Robot
from .collisions import CollisionModel, Contact
from .constraints import LIMIT_TOLERANCE, LimitViolation, Nearest, STOP_REMEDY, too_close
from .distance_search import DistanceSearch
from .extremes import check_times, EFFORTS
from .limits import Limits, one_a_joint
from .trajectories import Trajectory

STEP = 0.05
"""Time from one stop that is checked for collisions to the next [s]."""

MESH_STEP = 0.02
"""Time from one look at meshes along a path to the next [s]."""

GENTLE = 0.4
"""Share of the acceleration limits that leaves room for friction, drives and the steps of a stop
(measured: docs/explanation/motion.md)."""

AT_ONCE = 1e9
"""Deceleration that counts as infinite [rad/s^2 or m/s^2]."""

_BLOCK = 65_536  # instants whose stops are looked at together


@dataclass(frozen=True)
class Stops:
    """Stops from instants of a path."""

    time: np.ndarray
    """(n_stops,) when they begin [s]."""
    position: np.ndarray
    velocity: np.ndarray
    """(n_stops, n_joints) states in which they begin."""
    deceleration: np.ndarray
    """(n_joints,) positive [rad/s^2 or m/s^2]."""

    @classmethod
    def along(cls, trajectory: Trajectory, time: np.ndarray, deceleration: np.ndarray) -> Stops:
        """Return the stops from times (n_stops,) of a trajectory."""
        motion = trajectory.sample(time)
        return cls(time, motion.position, motion.velocity, deceleration)

    @property
    def duration(self) -> np.ndarray:
        """Time until the last joint rests, (n_stops,) [s]."""
        return np.asarray((np.abs(self.velocity) / self.deceleration).max(axis=1))

    @property
    def end(self) -> np.ndarray:
        """Positions at rest, (n_stops, n_joints) [rad or m]."""
        way = self.velocity * np.abs(self.velocity) / (2.0 * self.deceleration)
        return np.asarray(self.position + way)

    def moved(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return how far joints move from places (n,) to others of the same stops."""
        return np.abs(self.positions(end) - self.positions(begin))

    def positions(self, place: np.ndarray) -> np.ndarray:
        """
        Return positions (n, n_joints) on the stops.

        Places (n,) are numbers: stop k is all that lies from 2 k, its begin, to 2 k + 1, its end.
        """
        stop = (place // 2.0).astype(int)
        velocity = self.velocity[stop]
        passed = ((place - 2.0 * stop) * self.duration[stop])[:, None]
        t = np.minimum(passed, np.abs(velocity) / self.deceleration)
        braked = 0.5 * np.sign(velocity) * self.deceleration * t**2
        return np.asarray(self.position[stop] + velocity * t - braked)


def decelerations(
    joints: Sequence[str], values: Sequence[float] | np.ndarray | None
) -> np.ndarray | None:
    """
    Return the decelerations (n_joints,) with which a controller brakes; None where it holds.

    Parameters
    ----------
    joints:
        Names of the joints.
    values:
        ``max_deceleration_on_cancel`` of each; None or empty without ``decelerate_on_cancel``.
        One that is not positive makes the controller hold all joints at once.

    Raises
    ------
    ExcitationError
        where there is not one for each joint.

    """
    if values is None or not len(values):
        return None
    found = one_a_joint(joints, 'stop_deceleration', values)
    return np.minimum(found, AT_ONCE) if (found > 0.0).all() else None


def harsh_stops(limits: Limits, deceleration: Sequence[float] | np.ndarray | None) -> str:
    """Return in words that stops may exceed the acceleration limits, and a remedy; '' if not."""
    braking = decelerations(limits.joints, deceleration)
    gentle = GENTLE * limits.acceleration
    values = ', '.join(f'{j} {a:.3g}' for j, a in zip(limits.joints, gentle, strict=True))
    numbers = f'constraints.<joint>.max_deceleration_on_cancel, at most {values}'
    if braking is None:
        return (
            'the controller holds its position at once when a motion is canceled, whatever the '
            'acceleration limits: to decelerate it needs constraints.decelerate_on_cancel, a '
            f'velocity state interface, velocity limits in the URDF, and {numbers}'
        )
    j = int(np.argmax(braking / gentle))
    if braking[j] <= gentle[j] * (1.0 + LIMIT_TOLERANCE):
        return ''
    unit, limit = limits.unit('acceleration', j), limits.acceleration[j]
    return (
        f"the controller stops joint '{limits.joints[j]}' with {braking[j]:.4g} {unit}, more than "
        f'{GENTLE:g} of its acceleration limit of {limit:.4g} {unit}, which the stop may exceed '
        f'with what friction and drive add: set {numbers}'
    )


def check_stops(
    robot: Robot,
    trajectory: Trajectory,
    limits: Limits,
    deceleration: Sequence[float] | np.ndarray | None,
    collisions: CollisionModel | None = None,
) -> float:
    """
    Check that a controller's stops keep position limits and clearance, wherever they begin.

    The positions at which they end are checked at all instants of the check of the path, distances
    along a stop from every `STEP`; no point of the robot moves farther between two looks than
    was looked at.  The path itself has to be checked by `check_trajectory`.

    Parameters
    ----------
    robot, trajectory, limits, collisions:
        As of `check_trajectory`.
    deceleration:
        As of `decelerations`, in the order of the robot's joints.

    Returns
    -------
    float
        Longest time from a cancel to rest [s]; 0 where the controller holds at once.

    Raises
    ------
    LimitViolation
        naming the joint, the time from which a stop leaves its position limits, and the remedy.
    CollisionError
        naming the links and the time from which a stop brings them too close to each other.
    ExcitationError
        where there is not one deceleration for each joint.

    """
    braking = decelerations(robot.joints, deceleration)
    if braking is None:
        return 0.0
    longest = 0.0
    times = check_times(trajectory, EFFORTS.lowest_rate)
    for first in range(0, times.size, _BLOCK):
        stops = Stops.along(trajectory, times[first : first + _BLOCK], braking)
        _check_ends(stops, limits)
        longest = max(longest, float(stops.duration.max()))
    if collisions is not None:
        time = np.arange(0.0, trajectory.duration, STEP)
        _check_distances(Stops.along(trajectory, time, braking), collisions)
    return longest


def _check_ends(stops: Stops, limits: Limits) -> None:
    """Raise `LimitViolation` for the stop that ends farthest beyond a position limit."""
    end = stops.end
    excess = np.maximum(end - limits.upper, limits.lower - end)
    row, j = np.unravel_index(int(np.argmax(excess)), excess.shape)
    value, joint = float(end[row, j]), limits.joints[j]
    if excess[row, j] <= LIMIT_TOLERANCE * max(1.0, abs(value)):
        return
    limit = float(limits.upper[j] if value > limits.upper[j] else limits.lower[j])
    unit, speed = limits.unit('position', int(j)), abs(float(stops.velocity[row, j]))
    raise LimitViolation(
        f"a stop from {stops.time[row]:.3f} s takes joint '{joint}' to {value:.6g} {unit}, beyond "
        f'its limit of {limit:.6g} {unit}: it brakes from {speed:.4g} {unit}/s with '
        f'{stops.deceleration[j]:.4g} {unit}/s^2',
        joint=joint,
        key='position',
        value=value,
        remedy=STOP_REMEDY,
        limit=limit,
        time=stops.time[row],
    )


def _check_distances(stops: Stops, collisions: CollisionModel) -> None:
    """Raise `CollisionError` where links come too close to each other on a stop."""
    begin = 2.0 * np.flatnonzero((stops.end != stops.position).any(axis=1))
    search = DistanceSearch(collisions, stops)
    search.run(begin, begin + 1.0)
    for place, contact in search.best.values():
        if contact.too_close:
            # the place says which stop it is
            time = float(stops.time[int(place // 2.0)])
            position = stops.positions(np.array([place]))[0]
            raise too_close(collisions, Nearest.from_contact(contact, time, position), stop=True)


def check_meshes(
    trajectory: Trajectory,
    deceleration: Sequence[float] | np.ndarray | None,
    collisions: CollisionModel,
) -> None:
    """
    Look once more whether shapes touch along a path and its stops, by meshes in place of hulls.

    This is at instants, `MESH_STEP` apart, and on stops from every `STEP`; pairs that are always
    equally far apart are looked at, too.

    Raises `CollisionError` naming the links and the time.
    """
    time = np.arange(0.0, trajectory.duration, MESH_STEP)
    position = trajectory.sample(time).position
    braking = decelerations(collisions.robot.joints, deceleration)
    if braking is not None:
        begin = np.arange(0.0, trajectory.duration, STEP)
        stops = Stops.along(trajectory, begin, braking)
        on_stop = np.arange(0.0, 2.0 * begin.size, 2.0)[:, None] + np.linspace(0.25, 1.0, 4)
        position = np.concatenate([position, stops.positions(on_stop.ravel())])
        time = np.concatenate([time, np.repeat(begin, 4)])
    samples, pairs = np.nonzero(collisions.touching_meshes(position))
    if samples.size:
        first, second = collisions.mesh_pairs[pairs[0]]
        lines = np.zeros((2, 3))
        contact = Contact(first, second, 0.0, 0.0, 0, lines, clearance=collisions.clearance)
        nearest = Nearest.from_contact(contact, time[samples[0]], position[samples[0]])
        raise too_close(collisions, nearest)
