# SPDX-License-Identifier: Apache-2.0
"""
Trajectories: what a robot is to do, as functions of time with exact derivatives.

Every trajectory starts at time 0 and holds its ends outside [0, duration].

References
----------
Swevers, Ganseman, Tükel, De Schutter, Van Brussel, "Optimal robot excitation and identification",
IEEE Trans. Robotics and Automation 13(5), 1997, eq. (9): the finite Fourier series.
Szabó, Szádeczky-Kardoss, "Dynamic parameter identification method for robotic arms with static
friction modelling", Acta IMEKO 10(3), 2021, eq. (22): boundary conditions as linear constraints on
its coefficients, which a basis of their null space takes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from ..errors import ExcitationError
from ..recording import Motion


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


def _inside(time: np.ndarray, duration: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the times clipped to the trajectory, and which ones lie outside it."""
    time = np.atleast_1d(np.asarray(time, dtype=float))
    return np.clip(time, 0.0, duration), (time < 0.0) | (time > duration)


def _resting(position, velocity, acceleration, outside: np.ndarray) -> Motion:
    if outside.any():
        velocity[outside] = 0.0
        acceleration[outside] = 0.0
    return Motion(position, velocity, acceleration)


def fourier_basis(
    time: np.ndarray, frequency: float, harmonics: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""
    Return what the coefficients of a Fourier series are multiplied with.

    With :math:`\omega = 2 \pi f` and :math:`l = 1 \ldots M`,

    .. math:: q(t) - q_0 = \sum_l \frac{a_l}{\omega l} \sin(\omega l t)
              + \frac{b_l}{\omega l} (1 - \cos(\omega l t)),

    so that every choice of coefficients starts at :math:`q_0`.

    Parameters
    ----------
    time:
        (n_samples,) [s].
    frequency:
        Fundamental frequency f [Hz].
    harmonics:
        M.

    Returns
    -------
    tuple of np.ndarray
        Three (n_samples, 2 M) matrices for position, velocity and acceleration; they multiply
        the column :math:`(a_1 \ldots a_M, b_1 \ldots b_M)` [rad/s or m/s].

    """
    omega = 2.0 * np.pi * frequency * np.arange(1, harmonics + 1)
    angle = np.multiply.outer(np.asarray(time, dtype=float), omega)
    sine, cosine = np.sin(angle), np.cos(angle)
    return (
        np.hstack([sine / omega, (1.0 - cosine) / omega]),
        np.hstack([cosine, sine]),
        np.hstack([-omega * sine, omega * cosine]),
    )


def rest_to_rest(duration: float, frequency: float, harmonics: int) -> np.ndarray:
    """
    Return a basis of the coefficients that start and end at rest.

    Velocity and acceleration vanish at time 0 and at ``duration``: four linear constraints, of
    which two remain where the duration is a whole number of periods.

    Parameters
    ----------
    duration:
        [s].
    frequency:
        Fundamental frequency [Hz].
    harmonics:
        Number of harmonics of the series.

    Returns
    -------
    np.ndarray
        (2 harmonics, n_free) orthonormal columns.

    Raises
    ------
    ExcitationError
        where no motion is left.

    """
    _, velocity, acceleration = fourier_basis(np.array([0.0, duration]), frequency, harmonics)
    # the constraints' rows are made comparable: velocity has entries of 1, acceleration of omega l
    constraints = np.vstack([velocity, acceleration / (2.0 * np.pi * frequency * harmonics)])
    _, values, rows = np.linalg.svd(constraints)
    rank = int((values > 1e-9 * values[0]).sum())
    if rank >= rows.shape[0]:
        raise ExcitationError(
            f'{harmonics} harmonics leave no motion that starts and ends at rest',
            key='harmonics',
            value=harmonics,
            remedy='take at least 3',
        )
    return rows[rank:].T


@dataclass(frozen=True)
class FourierTrajectory:
    """
    A finite Fourier series for each joint (`fourier_basis`).

    Attributes
    ----------
    joints:
        Names.
    duration:
        [s].
    frequency:
        Fundamental frequency [Hz].
    start:
        (n_joints,) position at time 0 [rad or m].
    coefficients:
        (2 n_harmonics, n_joints) sine, then cosine coefficients [rad/s or m/s].

    """

    joints: tuple[str, ...]
    duration: float
    frequency: float
    start: np.ndarray
    coefficients: np.ndarray

    def __post_init__(self) -> None:
        for name in ('start', 'coefficients'):
            array = np.array(getattr(self, name), dtype=float)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        n = len(self.joints)
        rows, columns = np.shape(self.coefficients)
        if self.start.shape != (n,) or columns != n or rows % 2:
            raise ValueError(
                f'start {self.start.shape}, coefficients {(rows, columns)}, {n} joints'
            )

    @property
    def harmonics(self) -> int:
        """Number of harmonics."""
        return self.coefficients.shape[0] // 2

    def sample(self, time: np.ndarray) -> Motion:
        """Return positions and their exact derivatives at ``time`` (n_samples,) [s]."""
        time, outside = _inside(time, self.duration)
        q, v, a = fourier_basis(time, self.frequency, self.harmonics)
        c = self.coefficients
        return _resting(self.start + q @ c, v @ c, a @ c, outside)

    def scaled(self, factor: float) -> FourierTrajectory:
        """Return the motion with all excursions from the start multiplied by ``factor``."""
        return FourierTrajectory(
            self.joints, self.duration, self.frequency, self.start, factor * self.coefficients
        )


@dataclass(frozen=True)
class PointTrajectory:
    """
    Polynomials between points, as ros2_control's joint_trajectory_controller interpolates them.

    Quintic where the points have velocities and accelerations, cubic where they have velocities.

    Attributes
    ----------
    joints:
        Names.
    time:
        (n_points,) increasing; shifted so that the first is 0 [s].
    position, velocity:
        (n_points, n_joints).
    acceleration:
        (n_points, n_joints), or None for cubic interpolation.

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
    _segments: np.ndarray = field(init=False, repr=False, compare=False)

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
        for name in ('position', 'velocity', 'acceleration'):
            if getattr(self, name) is not None:
                arrays[name] = self._checked(name, time.size)
        for name, array in arrays.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, '_segments', self._coefficients())

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

    def _coefficients(self) -> np.ndarray:
        """(n_points - 1, 6, n_joints) coefficients of each segment in its own time."""
        h = np.diff(self.time)[:, None]
        q0, q1 = self.position[:-1], self.position[1:]
        v0, v1 = self.velocity[:-1], self.velocity[1:]
        c = np.zeros((h.size, 6, len(self.joints)))
        c[:, 0], c[:, 1] = q0, v0
        delta = q1 - q0
        if self.acceleration is None:
            c[:, 2] = (3.0 * delta / h - 2.0 * v0 - v1) / h
            c[:, 3] = (-2.0 * delta / h + v0 + v1) / h**2
            return c
        a0, a1 = self.acceleration[:-1], self.acceleration[1:]
        c[:, 2] = a0 / 2.0
        c[:, 3] = (20.0 * delta - (8.0 * v1 + 12.0 * v0) * h - (3.0 * a0 - a1) * h**2) / (2 * h**3)
        c[:, 4] = (-30.0 * delta + (14.0 * v1 + 16.0 * v0) * h + (3.0 * a0 - 2.0 * a1) * h**2) / (
            2.0 * h**4
        )
        c[:, 5] = (12.0 * delta - 6.0 * (v1 + v0) * h - (a0 - a1) * h**2) / (2.0 * h**5)
        return c

    @property
    def duration(self) -> float:
        """Time of the last point [s]."""
        return float(self.time[-1])

    def sample(self, time: np.ndarray) -> Motion:
        """Return positions and their exact derivatives at ``time`` (n_samples,) [s]."""
        time, outside = _inside(time, self.duration)
        segment = np.searchsorted(self.time, time, side='right') - 1
        segment = np.clip(segment, 0, len(self._segments) - 1)
        t = (time - self.time[segment])[:, None]
        c = self._segments[segment]
        q = c[:, 5]
        for k in (4, 3, 2, 1, 0):
            q = q * t + c[:, k]
        v = 5.0 * c[:, 5]
        for k in (4, 3, 2, 1):
            v = v * t + k * c[:, k]
        a = 20.0 * c[:, 5]
        for k in (4, 3, 2):
            a = a * t + k * (k - 1) * c[:, k]
        return _resting(q, v, a, outside)


@dataclass(frozen=True)
class Concatenation:
    """Trajectories one after the other; made by `concatenate`."""

    parts: tuple[Trajectory, ...]

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints."""
        return self.parts[0].joints

    @property
    def duration(self) -> float:
        """Sum of the parts' durations [s]."""
        return float(sum(part.duration for part in self.parts))

    def sample(self, time: np.ndarray) -> Motion:
        """Return positions and their exact derivatives at ``time`` (n_samples,) [s]."""
        time, outside = _inside(time, self.duration)
        arrays = [np.empty((time.size, len(self.joints))) for _ in range(3)]
        begins = np.concatenate([[0.0], np.cumsum([part.duration for part in self.parts])])
        owner = np.searchsorted(begins, time, side='right') - 1
        owner = np.clip(owner, 0, len(self.parts) - 1)
        for i, part in enumerate(self.parts):
            mine = owner == i
            motion = part.sample(np.minimum(time[mine] - begins[i], part.duration))
            for array, values in zip(
                arrays, (motion.position, motion.velocity, motion.acceleration), strict=True
            ):
                array[mine] = values
        return _resting(*arrays, outside)


def concatenate(parts: Sequence[Trajectory], tolerance: float = 1e-6) -> Trajectory:
    """
    Put trajectories one after the other.

    Parameters
    ----------
    parts:
        At least one; of the same joints.
    tolerance:
        Largest jump of position, velocity and acceleration from one to the next.

    Raises
    ------
    ExcitationError
        naming the joint and the jump, where they do not fit together.

    """
    parts = tuple(parts)
    if not parts:
        raise ExcitationError('no trajectory to concatenate', remedy='give at least one')
    for i, (first, second) in enumerate(zip(parts[:-1], parts[1:], strict=True)):
        if first.joints != second.joints:
            raise ExcitationError(
                f'parts {i} and {i + 1} move different joints',
                value=(first.joints, second.joints),
                remedy='give trajectories of the same joints in the same order',
            )
        end, begin = first.sample(np.array([first.duration])), second.sample(np.zeros(1))
        for name in ('position', 'velocity', 'acceleration'):
            jump = np.abs(getattr(begin, name) - getattr(end, name))[0]
            if jump.max() > tolerance:
                joint = first.joints[int(jump.argmax())]
                raise ExcitationError(
                    f"{name} of joint '{joint}' jumps by {jump.max():.3g} between parts {i} and "
                    f'{i + 1}',
                    joint=joint,
                    value=float(jump.max()),
                    remedy='let the second start where the first ends',
                )
    return parts[0] if len(parts) == 1 else Concatenation(parts)


def point_to_point(
    joints: Sequence[str],
    start: np.ndarray,
    goal: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    shortest: float = 0.1,
) -> PointTrajectory:
    """
    Move straight in joint space, from rest to rest, by the quintic of least jerk.

    Its largest velocity is 15/8 of the mean, its largest acceleration 10/sqrt(3) of distance over
    time squared, which gives the shortest duration within the limits in closed form.

    Parameters
    ----------
    joints:
        Names.
    start, goal:
        (n_joints,) positions [rad or m].
    velocity, acceleration:
        (n_joints,) limits, positive.
    shortest:
        Least duration, which also a motion of no distance takes [s].

    """
    start, goal = np.asarray(start, dtype=float), np.asarray(goal, dtype=float)
    distance = np.abs(goal - start)
    by_velocity = (15.0 / 8.0) * distance / velocity
    by_acceleration = np.sqrt((10.0 / np.sqrt(3.0)) * distance / acceleration)
    duration = max(float(by_velocity.max()), float(by_acceleration.max()), shortest)
    rest = np.zeros((2, start.size))
    return PointTrajectory(
        tuple(joints), np.array([0.0, duration]), np.vstack([start, goal]), rest, rest
    )


@dataclass(frozen=True)
class Points:
    """
    A trajectory as points for a controller.

    Attributes
    ----------
    joints:
        Names.
    time:
        (n_points,) from the start of the trajectory, the last at its end [s].
    motion:
        Position, velocity and acceleration, (n_points, n_joints) each.

    """

    joints: tuple[str, ...]
    time: np.ndarray
    motion: Motion

    def trajectory(self) -> PointTrajectory:
        """Return what a controller makes of the points."""
        m = self.motion
        return PointTrajectory(self.joints, self.time, m.position, m.velocity, m.acceleration)


def to_points(trajectory: Trajectory, rate: float) -> Points:
    """
    Sample a trajectory at equal steps of about ``1 / rate``, both ends included.

    A trajectory that comes to rest does so exactly: what rounding leaves of the last velocity
    would make a controller refuse it.
    """
    n = max(2, int(np.ceil(trajectory.duration * rate - 1e-9)) + 1)
    time = np.linspace(0.0, trajectory.duration, n)
    motion = trajectory.sample(time)
    velocity, acceleration = motion.velocity.copy(), motion.acceleration.copy()
    for array in (velocity, acceleration):
        for row in (0, -1):
            array[row, np.abs(array[row]) < 1e-9] = 0.0
    return Points(trajectory.joints, time, Motion(motion.position, velocity, acceleration))
