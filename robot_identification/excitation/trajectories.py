# SPDX-License-Identifier: Apache-2.0
"""
Trajectories: what a robot is to do, as functions of time with exact derivatives.

Every trajectory starts at time 0 and rests at its ends outside [0, duration].  The kinds are
`FourierTrajectory` here and `points.PointTrajectory`.

References
----------
Swevers, Ganseman, Tükel, De Schutter, Van Brussel, "Optimal robot excitation and identification",
IEEE Trans. Robotics and Automation 13(5), 1997: the finite Fourier series.
Szabó, Szádeczky-Kardoss, "Dynamic parameter identification method for robotic arms with static
friction modelling", Acta IMEKO 10(3), 2021, eq. (22): boundary conditions as linear constraints on
its coefficients, which a basis of their null space takes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..data.recording import Motion
from ..errors import ExcitationError


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
        time, outside = inside(time, self.duration)
        q, v, a = (np.empty((time.size, len(self.joints))) for _ in range(3))
        begins = np.concatenate([[0.0], np.cumsum([part.duration for part in self.parts])])
        owner = np.searchsorted(begins, time, side='right') - 1
        owner = np.clip(owner, 0, len(self.parts) - 1)
        for i, part in enumerate(self.parts):
            mine = owner == i
            motion = part.sample(np.minimum(time[mine] - begins[i], part.duration))
            q[mine], v[mine], a[mine] = motion.position, motion.velocity, motion.acceleration
        return resting(q, v, a, outside)


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


def fourier_basis(
    time: np.ndarray, frequency: float, harmonics: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
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
        Four (n_samples, 2 M) matrices for position, velocity, acceleration and jerk; they
        multiply the column :math:`(a_1 \ldots a_M, b_1 \ldots b_M)` [rad/s or m/s].

    """
    omega = 2.0 * np.pi * frequency * np.arange(1, harmonics + 1)
    sine, cosine = _waves(time, frequency, harmonics)
    return (
        np.hstack([sine / omega, (1.0 - cosine) / omega]),
        np.hstack([cosine, sine]),
        np.hstack([-omega * sine, omega * cosine]),
        np.hstack([-(omega**2) * cosine, -(omega**2) * sine]),
    )


def _waves(time: np.ndarray, frequency: float, harmonics: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sine and cosine (n_samples, harmonics) of each harmonic, by powers of one."""
    first = np.exp(2j * np.pi * frequency * np.asarray(time, dtype=float))
    powers = np.multiply.accumulate(np.broadcast_to(first, (harmonics, first.size)), axis=0)
    return powers.imag.T, powers.real.T


def rest_to_rest(duration: float, frequency: float, harmonics: int) -> np.ndarray:
    """
    Return a basis of the coefficients that start and end at rest, (2 harmonics, n_free).

    Velocity and acceleration vanish at time 0 and at ``duration``: four linear constraints, of
    which two remain where the duration is a whole number of periods.

    Raises
    ------
    ExcitationError
        where no motion is left.

    """
    _, velocity, acceleration, _ = fourier_basis(np.array([0.0, duration]), frequency, harmonics)
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
        time, outside = inside(time, self.duration)
        omega = 2.0 * np.pi * self.frequency * np.arange(1, self.harmonics + 1)[:, None]
        a, b = np.split(self.coefficients, 2)
        # as `fourier_basis` has it, without its matrices, which are larger than the motion
        sine, cosine = _waves(time, self.frequency, self.harmonics)
        q = self.start + sine @ (a / omega) + (1.0 - cosine) @ (b / omega)
        velocity, acceleration = sine @ b + cosine @ a, cosine @ (omega * b) - sine @ (omega * a)
        return resting(q, velocity, acceleration, outside)

    def scaled(self, factor: float | np.ndarray) -> FourierTrajectory:
        """Return the motion with excursions multiplied by a factor, or by one of each joint."""
        return FourierTrajectory(
            self.joints, self.duration, self.frequency, self.start, factor * self.coefficients
        )
