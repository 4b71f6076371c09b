# SPDX-License-Identifier: Apache-2.0
"""
Servos of the drives, and their references, as ros2_control has them followed.

Servos apply the computed torque of the nominal model, within the effort limits.

Trajectories are followed as by joint_trajectory_controller.  Between points there are polynomials:
with positions, velocities and accelerations quintic, without accelerations cubic, with positions
alone linear.  The last point is held.  A new trajectory replaces the former at once, even if it
starts later: on the way to a first point that is still to come it begins from the measured state.
If its first point has passed, it is followed from the present on, wherever the robot is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

from ..errors import ExcitationError, one_of
from ..excitation.trajectories import spline_coefficients
from ..model.parameters import ParameterSet
from ..model.robot import Robot

CREEP = 0.02
"""Reference velocity at which the friction feed-forward reaches three quarters [rad/s]."""

AT_REST = float(np.finfo(np.float32).eps)
"""Largest velocity with which a trajectory may end [rad/s or m/s]."""

NANOSECOND = 1e-9
"""Times that differ by no more are the same [s]."""

HOLD = 1e-3
"""Length of the polynomial of a path that has one point only, which has been reached [s]."""


class Servo:
    r"""
    Efforts that make a robot follow a reference.

    The acceleration :math:`\ddot q_d + 2 \zeta \omega \dot e + \omega^2 e` goes through the
    inverse dynamics of the nominal robot, and the nominal friction at the reference is added, as
    drives with a model do; so the motion is accurate but shows that the model is not the robot.

    Parameters
    ----------
    robot:
        The nominal robot; gives the effort limits too.
    parameters:
        ``Ia`` (known to a drive), ``fv`` and ``fc`` of the joints; what is missing is 0.
    bandwidth, damping:
        Natural frequency [Hz] and damping ratio of the error.

    """

    def __init__(
        self, robot: Robot, parameters: ParameterSet, bandwidth: float, damping: float
    ) -> None:
        omega = 2.0 * np.pi * bandwidth
        self._stiffness, self._damping = omega**2, 2.0 * damping * omega
        self._robot = robot
        self._data = robot.model.createData()
        self._limit = robot.limits.effort
        self._rotor, self._viscous, self._coulomb = (
            np.array([parameters.get(f'{joint}.{symbol}') for joint in robot.joints])
            for symbol in ('Ia', 'fv', 'fc')
        )

    def restart(self) -> None:
        """Forget the reference before, after a jump."""

    def effort(
        self, reference: np.ndarray, position: np.ndarray, velocity: np.ndarray
    ) -> np.ndarray:
        """
        Return the efforts for the next period, (n_joints,) within the effort limits [N m or N].

        ``reference`` is (3, n_joints) position, velocity and acceleration wanted of the links;
        position and velocity are measured of the motors, (n_joints,).
        """
        error, rate = reference[0] - position, reference[1] - velocity
        acceleration = reference[2] + self._stiffness * error + self._damping * rate
        rigid = self._rigid(position, velocity, acceleration)
        return self._limited(rigid + self._rotor * acceleration + self._friction(reference[1]))

    def _rigid(
        self, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray
    ) -> np.ndarray:
        robot = self._robot
        states = robot.tangent(np.array([velocity, acceleration]))
        efforts = pin.rnea(robot.model, self._data, robot.configuration(position), *states)
        return np.asarray(robot.cotangent(efforts))

    def _friction(self, velocity: np.ndarray) -> np.ndarray:
        return self._viscous * velocity + self._coulomb * np.tanh(velocity / CREEP)

    def _limited(self, effort: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(effort, -self._limit), self._limit)


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
        if it cannot be followed: shapes, NaN, times that do not increase, a velocity at the end.

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

    def ordered(self, joints: tuple[str, ...]) -> Waypoints:
        """
        Return it with the columns in the order of ``joints``.

        Raises ExcitationError naming a joint that is unknown, named twice or missing.
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
    """
    Polynomials between knots (m,) [s]; before the first and after the last the robot rests.

    ``start`` is the time that the trajectory's points are counted from [s]; ``coefficients``
    (m - 1, 6, n_joints) are ascending powers of the time since a segment's begin.
    """

    def __init__(self, start: float, knots: np.ndarray, coefficients: np.ndarray) -> None:
        self.start, self.begin, self.end = start, float(knots[0]), float(knots[-1])
        self._starts = knots[:-1]
        self._coefficients = coefficients

    def sample(self, time: float) -> np.ndarray:
        """Position, velocity and acceleration, (3, n_joints)."""
        inside = self.begin <= time < self.end
        time = min(max(time, self.begin), self.end)
        segment = int(self._starts.searchsorted(time, side='right')) - 1
        t = time - float(self._starts[segment])
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
    The reference that a robot's servo follows; it rests at ``position`` (n_joints,) at first.

    ``speed`` is the rate at which the trajectory's time passes: 1 is real time, 0 a pause.
    """

    def __init__(self, joints: Sequence[str], position: np.ndarray) -> None:
        self.joints = tuple(joints)
        self.speed = 1.0
        self.hold(position)

    def hold(self, position: np.ndarray) -> None:
        """Forget every trajectory and rest at ``position``."""
        coefficients = np.zeros((1, 6, len(self.joints)))
        coefficients[0, 0] = position
        self._path = _Path(0.0, np.zeros(2), coefficients)
        self._now: float | None = None
        self._clock = 0.0

    def brake(
        self, position: np.ndarray, velocity: np.ndarray, deceleration: np.ndarray, now: float
    ) -> None:
        """Bring each joint to rest by its own constant deceleration, (n_joints,) each."""
        time = np.abs(velocity) / deceleration
        if not time.any():
            self.hold(position)
            return
        knots = np.unique(np.append(0.0, time))
        # each joint's parabola, counted backwards from where it comes to rest
        slope = np.sign(velocity) * deceleration
        left = np.maximum(time - knots[:-1, None], 0.0)
        coefficients = np.zeros((knots.size - 1, 6, len(self.joints)))
        coefficients[:, 0] = position + 0.5 * slope * (time**2 - left**2)
        coefficients[:, 1] = slope * left
        coefficients[:, 2] = -0.5 * slope * (left > 0.0)
        self._path = _Path(now, now + knots, coefficients)
        self._clock, self._now = now, None

    def follow(
        self,
        waypoints: Waypoints,
        now: float,
        start: float | None = None,
        state: np.ndarray | None = None,
    ) -> float:
        """
        Replace the trajectory; return when it will be over at a speed of 1 [s].

        Parameters
        ----------
        waypoints:
            With the robot's joints in any order.
        now:
            Present time [s].  The trajectory's time is this one at first, whatever `speed` was.
        start:
            Time of the waypoints' time 0 [s]; None is ``now``.
        state:
            (2, n_joints) measured position and velocity, from where it moves to a first point
            that is still to come; None takes the reference.

        Raises
        ------
        ExcitationError
            if the trajectory does not fit the robot or is over; the former one goes on.

        """
        waypoints = waypoints.ordered(self.joints)
        begin = now if start is None else start
        knots = begin + waypoints.time
        if start is not None and knots[-1] < now:
            raise _refused(
                f'its last point is at {knots[-1]:.6g} s, and it is {now:.6g} s',
                'send a point after the present',
                float(knots[-1]),
            )
        if state is None:
            state = self.sample(self._clock)[:2]
        self._path = _path_of(waypoints, begin, now, state)
        self._clock, self._now = now, None
        return self._path.end

    @property
    def elapsed(self) -> float:
        """Time since the trajectory's start in its own time, at the latest look [s]."""
        return self._clock - self._path.start

    @property
    def late(self) -> float:
        """Time since the last point in the trajectory's own time, negative before it [s]."""
        return self._clock - self._path.end

    def sample(self, time: float) -> np.ndarray:
        """Position, velocity, acceleration of the reference, (3, n_joints), in its own time."""
        return self._path.sample(time)

    def advance(self, now: float) -> np.ndarray:
        """Let the trajectory's time pass up to ``now`` [s]; return the reference (3, n_joints)."""
        if self._now is None:
            self._clock = now
        else:
            self._clock += self.speed * (now - self._now)
        self._now = now
        state = self._path.sample(self._clock)
        if self.speed != 1.0:
            state[1:] *= [[self.speed], [self.speed**2]]
        return state


def _path_of(waypoints: Waypoints, start: float, now: float, state: np.ndarray) -> _Path:
    """Path through the waypoints; from ``state`` if the first of them is still to come."""
    columns: list[Any] = [waypoints.position, waypoints.velocity, waypoints.acceleration]
    knots = start + waypoints.time
    first: Sequence[Any] | None = None
    if knots[0] - now > NANOSECOND:
        knots, first = np.concatenate([[now], knots]), (*state, np.zeros_like(state[0]))
    elif knots.size == 1:
        # the only point, which has come, is held as it is
        knots, first = np.array([knots[0] - HOLD, knots[0]]), columns
    if first is not None:
        pairs = zip(first, columns, strict=True)
        columns = [None if column is None else np.vstack([own, column]) for own, column in pairs]
    return _Path(start, knots, spline_coefficients(knots, *columns))
