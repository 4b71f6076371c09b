# SPDX-License-Identifier: Apache-2.0
"""
Trajectories: what a robot is to do, as functions of time with exact derivatives.

Every trajectory starts at time 0 and rests at its ends outside [0, duration].  The kinds are
`PointTrajectory`, as ros2_control interpolates points, and `bases.FourierTrajectory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from ..data.recording import Motion
from ..errors import ExcitationError

POINT_ARRAYS = ('position', 'velocity', 'acceleration')
"""Arrays of a `PointTrajectory`, in the order of the derivatives."""


@runtime_checkable
class Trajectory(Protocol):
    """A motion of named joints from time 0 to `duration`; what makes motions has these three."""

    @property
    def joints(self) -> tuple[str, ...]:
        """Names, in the order of the columns."""

    @property
    def duration(self) -> float:
        """Length in time [s]."""

    def sample(self, time: np.ndarray) -> Motion:
        """
        Return positions and their exact derivatives.

        Parameters
        ----------
        time:
            (n_samples,) [s]; outside [0, duration] the trajectory rests at its ends.

        Returns
        -------
        Motion
            (n_samples, n_joints) each.

        """


def inside(time: np.ndarray, duration: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the times clipped to the trajectory, and which ones lie outside it."""
    time = np.atleast_1d(np.asarray(time, dtype=float))
    return np.clip(time, 0.0, duration), (time < 0.0) | (time > duration)


def resting(
    position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray, outside: np.ndarray
) -> Motion:
    """Return the motion, at rest where it is ``outside`` of its duration."""
    if outside.any():
        velocity[outside] = 0.0
        acceleration[outside] = 0.0
    return Motion(position, velocity, acceleration)


def spline_coefficients(
    time: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray | None = None,
    acceleration: np.ndarray | None = None,
) -> np.ndarray:
    """
    Return the polynomials that join successive points.

    Linear with positions alone, cubic with velocities, quintic with accelerations: what the points
    give is met at both ends of each segment.

    Parameters
    ----------
    time:
        (m,) strictly increasing [s].
    position, velocity, acceleration:
        (m, n_joints) at these times [rad, rad/s, rad/s^2; m, m/s, m/s^2]; an acceleration needs a
        velocity.

    Returns
    -------
    np.ndarray
        (m - 1, 6, n_joints) coefficients of ascending powers of the time in the segment.

    """
    step = np.diff(time)[:, None]
    change = np.diff(position, axis=0)
    coefficients = np.zeros((step.size, 6, position.shape[1]))
    coefficients[:, 0] = position[:-1]
    if velocity is None:
        coefficients[:, 1] = change / step
        return coefficients
    v0, v1 = velocity[:-1], velocity[1:]
    coefficients[:, 1] = v0
    if acceleration is None:
        coefficients[:, 2] = (3.0 * change / step - 2.0 * v0 - v1) / step
        coefficients[:, 3] = (-2.0 * change / step + v0 + v1) / step**2
        return coefficients
    a0, a1 = acceleration[:-1], acceleration[1:]
    coefficients[:, 2] = 0.5 * a0
    # position, velocity and acceleration that are left over at the segment's end
    p = change - v0 * step - 0.5 * a0 * step**2
    v = v1 - v0 - a0 * step
    a = a1 - a0
    coefficients[:, 3] = 10.0 * p / step**3 - 4.0 * v / step**2 + 0.5 * a / step
    coefficients[:, 4] = -15.0 * p / step**4 + 7.0 * v / step**3 - a / step**2
    coefficients[:, 5] = 6.0 * p / step**5 - 3.0 * v / step**4 + 0.5 * a / step**3
    return coefficients


@dataclass(frozen=True)
class PointTrajectory:
    """
    Polynomials between points, as ros2_control's joint_trajectory_controller interpolates them.

    Quintic where the points have velocities and accelerations, cubic where they have velocities.

    Attributes
    ----------
    joints:
        Names of the joints.
    time:
        (n_points,) increasing; shifted so that the first is 0 [s].
    position, velocity:
        (n_points, n_joints).
    acceleration:
        (n_points, n_joints), or None for cubic interpolation.
    coefficients:
        (n_points - 1, 6, n_joints) of ascending powers of the time since a point.

    Raises
    ------
    ExcitationError
        where the points are too few, contradictory, not finite, or not in order of time.

    """

    joints: tuple[str, ...]
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray | None = None
    coefficients: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'joints', tuple(self.joints))
        time = np.array(self.time, dtype=float)
        if time.ndim != 1 or time.size < 2:
            raise ExcitationError(
                f'a trajectory of {time.size} point(s) is no motion', remedy='give at least two'
            )
        if not (np.isfinite(time).all() and (np.diff(time) > 0.0).all()):
            row = int(np.argmin(np.isfinite(time[1:]) & (np.diff(time) > 0.0))) + 1
            raise ExcitationError(
                f'time of point {row} is {time[row]:.9g} s after {time[row - 1]:.9g} s',
                value=float(time[row]),
                remedy='give the points in order of strictly increasing time',
            )
        time -= time[0]
        arrays = {'time': time}
        for name in POINT_ARRAYS:
            if getattr(self, name) is not None:
                arrays[name] = self._checked(name, time.size)
        for name, array in arrays.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        segments = spline_coefficients(self.time, self.position, self.velocity, self.acceleration)
        object.__setattr__(self, 'coefficients', segments)

    def _checked(self, name: str, n_points: int) -> np.ndarray:
        array = np.array(getattr(self, name), dtype=float)
        if array.shape != (n_points, len(self.joints)):
            raise ExcitationError(
                f'{name} has shape {array.shape}, expected {(n_points, len(self.joints))}',
                remedy='give one value a joint in every point',
            )
        bad = ~np.isfinite(array)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ExcitationError(
                f"{name} of joint '{self.joints[column]}' in point {row} is {array[row, column]}",
                joint=self.joints[column],
                value=float(array[row, column]),
                remedy='give finite numbers',
            )
        return array

    @property
    def duration(self) -> float:
        """Time of the last point [s]."""
        return float(self.time[-1])

    def sample(self, time: np.ndarray) -> Motion:
        """Return positions and their exact derivatives at ``time`` (n_samples,) [s]."""
        time, outside = inside(time, self.duration)
        segment = np.searchsorted(self.time, time, side='right') - 1
        segment = np.clip(segment, 0, len(self.coefficients) - 1)
        t = (time - self.time[segment])[:, None]
        c = self.coefficients[segment]
        q = c[:, 5]
        for k in (4, 3, 2, 1, 0):
            q = q * t + c[:, k]
        v = 5.0 * c[:, 5]
        for k in (4, 3, 2, 1):
            v = v * t + k * c[:, k]
        a = 20.0 * c[:, 5]
        for k in (4, 3, 2):
            a = a * t + k * (k - 1) * c[:, k]
        return resting(q, v, a, outside)

    def slower(self, speed: float) -> PointTrajectory:
        """Return the motion along the same path at ``speed`` times its speed."""
        return self._scaled(self.time / speed, self.position, speed, speed**2)

    def scaled(self, factor: float | np.ndarray) -> PointTrajectory:
        """Return the motion with excursions multiplied by a factor, or by one of each joint."""
        start = self.position[0]
        position = start + factor * (self.position - start)
        return self._scaled(self.time, position, factor, factor)

    def _scaled(
        self,
        time: np.ndarray,
        position: np.ndarray,
        of_velocity: float | np.ndarray,
        of_acceleration: float | np.ndarray,
    ) -> PointTrajectory:
        acceleration = None if self.acceleration is None else of_acceleration * self.acceleration
        return PointTrajectory(
            self.joints, time, position, of_velocity * self.velocity, acceleration
        )


def concatenate(parts: Sequence[PointTrajectory], tolerance: float = 1e-6) -> PointTrajectory:
    """
    Put trajectories one after the other; return one through the points of all.

    Parameters
    ----------
    parts:
        At least one; of the same joints, and with accelerations (`to_points` gives them).
    tolerance:
        Largest jump of position, velocity and acceleration from one to the next.

    Raises
    ------
    ExcitationError
        naming the joint and the jump, where they do not fit together.

    """
    if not parts:
        raise ExcitationError('no trajectory to concatenate', remedy='give at least one')
    whole = parts[0]
    for i, part in enumerate(parts[1:], 1):
        if part.joints != whole.joints:
            raise ExcitationError(
                f'parts {i - 1} and {i} move different joints',
                value=(whole.joints, part.joints),
                remedy='give trajectories of the same joints in the same order',
            )
        if whole.acceleration is None or part.acceleration is None:
            raise ExcitationError(
                f'part {i - 1} or {i} has no accelerations', remedy='give them by to_points'
            )
        arrays = []
        for name in POINT_ARRAYS:
            before, after = getattr(whole, name), getattr(part, name)
            jump = np.abs(after[0] - before[-1])
            if jump.max() > tolerance:
                joint = part.joints[int(jump.argmax())]
                raise ExcitationError(
                    f"{name} of joint '{joint}' jumps by {jump.max():.3g} between parts {i - 1} "
                    f'and {i}',
                    joint=joint,
                    value=float(jump.max()),
                    remedy='let the second start where the first ends',
                )
            arrays.append(np.concatenate([before[:-1], after]))
        time = np.concatenate([whole.time[:-1], whole.duration + part.time])
        whole = PointTrajectory(whole.joints, time, *arrays)
    return whole


def point_to_point(
    joints: Sequence[str],
    start: np.ndarray,
    goal: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    shortest: float = 0.1,
    *,
    jerk: np.ndarray | None = None,
) -> PointTrajectory:
    """
    Move straight in joint space, from rest to rest, by the quintic of least jerk.

    Its largest velocity is 15/8 of the mean, its largest acceleration 10/sqrt(3) of distance over
    time squared and its largest jerk 60 of distance over time cubed, which gives the shortest
    duration within the limits in closed form.

    Parameters
    ----------
    joints:
        Names of the joints.
    start, goal:
        (n_joints,) positions [rad or m].
    velocity, acceleration:
        (n_joints,) limits, positive.
    shortest:
        Least duration, which also a motion of no distance takes [s].
    jerk:
        (n_joints,) limits, positive; None for none.

    """
    start, goal = np.asarray(start, dtype=float), np.asarray(goal, dtype=float)
    distance = np.abs(goal - start)
    by_velocity = (15.0 / 8.0) * distance / velocity
    by_acceleration = np.sqrt((10.0 / np.sqrt(3.0)) * distance / acceleration)
    duration = max(float(by_velocity.max()), float(by_acceleration.max()), shortest)
    if jerk is not None:
        duration = max(duration, float(np.cbrt(60.0 * distance / jerk).max()))
    rest = np.zeros((2, start.size))
    return PointTrajectory(
        tuple(joints), np.array([0.0, duration]), np.vstack([start, goal]), rest, rest
    )


def least_rate(trajectory: Trajectory, rate: float) -> float:
    """Return a rate at which quintics join samples as well as the trajectory needs it [Hz]."""
    return max(rate, getattr(trajectory, 'point_rate', 0.0))


def to_points(trajectory: Trajectory, rate: float) -> PointTrajectory:
    """
    Sample a trajectory at equal steps of about ``1 / rate``, both ends included.

    Points of a `PointTrajectory` are among the samples, and the steps equal between them: through
    parts of a quintic leads the same quintic, so that the motion stays exactly what it was.

    A series gets more points where quintics between fewer would leave it (`point_rate`).

    A trajectory that comes to rest does so exactly: what rounding leaves of the last velocity
    would make a controller refuse it.
    """
    knots, rate = np.array([0.0, trajectory.duration]), least_rate(trajectory, rate)
    if isinstance(trajectory, PointTrajectory) and trajectory.acceleration is not None:
        knots = trajectory.time
    counts = np.maximum(1, np.ceil(np.diff(knots) * rate - 1e-9).astype(int))
    parts = [
        np.linspace(low, high, count, endpoint=False)
        for low, high, count in zip(knots[:-1], knots[1:], counts, strict=True)
    ]
    time = np.append(np.concatenate(parts), knots[-1])
    motion = trajectory.sample(time)
    velocity, acceleration = motion.velocity.copy(), motion.acceleration.copy()
    for array in (velocity, acceleration):
        for row in (0, -1):
            array[row, np.abs(array[row]) < 1e-9] = 0.0
    return PointTrajectory(trajectory.joints, time, motion.position, velocity, acceleration)
