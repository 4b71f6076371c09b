# SPDX-License-Identifier: Apache-2.0
"""
Follow waypoints as a trajectory controller does: polynomials between them, the last one held.

With positions, velocities and accelerations the polynomials are quintic, without accelerations
cubic, with positions alone linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ExcitationError, one_of
from ..recording import Motion
from ..splines import spline_coefficients

AT_REST = 1e-6
"""Largest velocity with which a trajectory may end [rad/s or m/s]."""


@dataclass(frozen=True)
class Waypoints:
    """
    A trajectory as points in time.

    Attributes
    ----------
    joints:
        Names of the joints, in the order of the columns.
    time:
        (m,) time from the trajectory's start [s], not negative, increasing.
    position:
        (m, n_joints) [rad or m].
    velocity, acceleration:
        (m, n_joints) or None; accelerations only together with velocities.

    Raises
    ------
    ExcitationError
        saying what makes it impossible to follow: shapes, NaN, times that do not increase, a
        velocity at the end.

    """

    joints: tuple[str, ...]
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray | None = None
    acceleration: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, 'joints', tuple(self.joints))
        time = np.array(self.time, dtype=float)
        if time.ndim != 1 or time.size == 0:
            raise _refused('it has no points', 'send at least one point after time 0')
        if not np.isfinite(time).all() or time[0] < 0.0:
            raise _refused(
                'a point has a negative time or none', 'count the time from the start', time
            )
        if (np.diff(time) <= 0.0).any():
            i = int(np.flatnonzero(np.diff(time) <= 0.0)[0]) + 1
            raise _refused(
                f'point {i} is at {time[i]:g} s, not after point {i - 1} at {time[i - 1]:g} s',
                'let time_from_start increase from point to point',
                float(time[i]),
            )
        object.__setattr__(self, 'time', time)
        for name in ('position', 'velocity', 'acceleration'):
            self._check(name)
        if self.acceleration is not None and self.velocity is None:
            raise _refused('it has accelerations but no velocities', 'give both, or neither')
        if self.velocity is not None and (np.abs(self.velocity[-1]) > AT_REST).any():
            i = int(np.abs(self.velocity[-1]).argmax())
            raise _refused(
                f"joint '{self.joints[i]}' has a velocity of {self.velocity[-1, i]:g} at its end",
                'let it end at rest',
                float(self.velocity[-1, i]),
                self.joints[i],
            )

    def _check(self, name: str) -> None:
        array = getattr(self, name)
        if name == 'position' and (array is None or not np.size(array)):
            raise _refused('its points have no positions', 'give the position of every joint')
        if array is None:
            return
        array = np.array(array, dtype=float)
        shape = (self.time.size, len(self.joints))
        if array.shape != shape:
            raise _refused(
                f'its {name} has shape {array.shape}, expected {shape}',
                'give one number a joint in every point',
            )
        if not np.isfinite(array).all():
            row, column = np.argwhere(~np.isfinite(array))[0]
            raise _refused(
                f"the {name} of joint '{self.joints[column]}' in point {row} is "
                f'{array[row, column]}',
                'send finite numbers only',
                float(array[row, column]),
                self.joints[column],
            )
        object.__setattr__(self, name, array)

    @classmethod
    def from_motion(cls, joints: Sequence[str], time: np.ndarray, motion: Motion) -> Waypoints:
        """Waypoints with exact derivatives from a sampled motion that ends at rest."""
        return cls(tuple(joints), time, motion.position, motion.velocity, motion.acceleration)

    def ordered(self, joints: tuple[str, ...]) -> Waypoints:
        """
        Return it with the columns in the order of ``joints``.

        Raises
        ------
        ExcitationError
            naming a joint that is unknown, named twice or missing.

        """
        for joint in self.joints:
            if joint not in joints:
                raise _refused(
                    f"the robot has no joint '{joint}'",
                    f'its joints are {one_of(joints)}',
                    joint=joint,
                )
            if self.joints.count(joint) > 1:
                raise _refused(f"joint '{joint}' is named twice", 'name it once', joint=joint)
        for joint in joints:
            if joint not in self.joints:
                raise _refused(
                    f"joint '{joint}' is missing", 'name every joint of the robot', joint=joint
                )
        columns = [self.joints.index(joint) for joint in joints]
        velocity, acceleration = (
            None if array is None else array[:, columns]
            for array in (self.velocity, self.acceleration)
        )
        return Waypoints(joints, self.time, self.position[:, columns], velocity, acceleration)


def _refused(
    message: str, remedy: str, value: Any = None, joint: str | None = None
) -> ExcitationError:
    return ExcitationError(
        f'trajectory refused, {message}', remedy=remedy, value=value, joint=joint
    )


class _Path:
    """Polynomials between knots; before the first and after the last the robot rests."""

    def __init__(self, knots: np.ndarray, coefficients: np.ndarray) -> None:
        self.begin, self.end = float(knots[0]), float(knots[-1])
        self._starts = knots[:-1]
        self._knots = knots
        self._coefficients = coefficients  # (segments, 6, n_joints), ascending powers of time

    def sample(self, time: float) -> np.ndarray:
        """Position, velocity and acceleration, (3, n_joints)."""
        inside = self.begin <= time < self.end
        time = min(max(time, self.begin), self.end)
        segment = int(np.searchsorted(self._starts, time, side='right')) - 1
        t = time - self._starts[segment]
        powers = np.array(
            [
                [1.0, t, t**2, t**3, t**4, t**5],
                [0.0, 1.0, 2.0 * t, 3.0 * t**2, 4.0 * t**3, 5.0 * t**4],
                [0.0, 0.0, 2.0, 6.0 * t, 12.0 * t**2, 20.0 * t**3],
            ]
        )
        state = powers @ self._coefficients[segment]
        if not inside:
            state[1:] = 0.0
        return state


class TrajectoryFollower:
    """
    The reference that a robot's servo follows.

    Parameters
    ----------
    joints:
        Names of the robot's joints, in the order of all arrays.
    position:
        (n_joints,) where it rests until there is a trajectory.

    """

    def __init__(self, joints: Sequence[str], position: np.ndarray) -> None:
        self.joints = tuple(joints)
        self.hold(position)

    def hold(self, position: np.ndarray) -> None:
        """Forget every trajectory and rest at ``position``."""
        coefficients = np.zeros((1, 6, len(self.joints)))
        coefficients[0, 0] = position
        self._path = _Path(np.array([0.0, 0.0]), coefficients)
        self._next: _Path | None = None

    def follow(self, waypoints: Waypoints, now: float, start: float | None = None) -> float:
        """
        Replace what is being followed.

        The path joins the reference of the moment when it starts, with its velocity and
        acceleration; points that lie before that moment are left out.  Until then the former
        trajectory goes on.

        Parameters
        ----------
        waypoints:
            With the robot's joints in any order.
        now:
            Present time [s].
        start:
            Time of the waypoints' time 0 [s]; None is ``now``.

        Returns
        -------
        float
            When the robot will be at rest at the last point [s].

        Raises
        ------
        ExcitationError
            where the trajectory does not fit the robot or is over; the former one goes on.

        """
        waypoints = waypoints.ordered(self.joints)
        start = now if start is None else start
        begin = max(start, now)
        knots = start + waypoints.time
        ahead = knots > begin + 1e-9
        if not ahead.any():
            raise _refused(
                f'its last point is at {knots[-1]:.6g} s, and it is {begin:.6g} s',
                'send a point after the present',
                float(knots[-1]),
            )
        path = _join(self.sample(begin), begin, knots[ahead], waypoints, ahead)
        if begin > now:
            self._next = path
        else:
            self._path, self._next = path, None
        return path.end

    def sample(self, time: float) -> np.ndarray:
        """Position, velocity and acceleration of the reference, (3, n_joints)."""
        if self._next is not None and time >= self._next.begin:
            return self._next.sample(time)
        return self._path.sample(time)

    def advance(self, time: float) -> np.ndarray:
        """Return `sample` of ``time``, and forget what lies before it."""
        if self._next is not None and time >= self._next.begin:
            self._path, self._next = self._next, None
        return self._path.sample(time)


def _join(
    state: np.ndarray, begin: float, knots: np.ndarray, waypoints: Waypoints, ahead: np.ndarray
) -> _Path:
    """Path from ``state`` at ``begin`` through the waypoints that lie ahead."""
    times = np.concatenate([[begin], knots])
    position = np.vstack([state[0], waypoints.position[ahead]])
    velocity, acceleration = (
        None if array is None else np.vstack([present, array[ahead]])
        for present, array in zip(state[1:], (waypoints.velocity, waypoints.acceleration))
    )
    return _Path(times, spline_coefficients(times, position, velocity, acceleration))
