# SPDX-License-Identifier: Apache-2.0
"""
Fourier series that start and end at rest.

References
----------
Swevers, Ganseman, Tükel, De Schutter, Van Brussel, "Optimal robot excitation and identification",
IEEE Trans. Robotics and Automation 13(5), 1997: the finite Fourier series.
Szabó, Szádeczky-Kardoss, "Dynamic parameter identification method for robotic arms with static
friction modelling", Acta IMEKO 10(3), 2021, eq. (22): boundary conditions as linear constraints on
its coefficients, which a basis of their null space takes out.

"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ExcitationError
from ..recording import Motion
from .trajectories import inside, resting


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


def jerk_basis(time: np.ndarray, frequency: float, harmonics: int) -> np.ndarray:
    """Return what gives the jerk, (n_samples, 2 M), as `fourier_basis` gives the rest."""
    omega = 2.0 * np.pi * frequency * np.arange(1, harmonics + 1)
    angle = np.multiply.outer(np.asarray(time, dtype=float), omega)
    return np.hstack([-(omega**2) * np.cos(angle), -(omega**2) * np.sin(angle)])


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
        time, outside = inside(time, self.duration)
        q, v, a = fourier_basis(time, self.frequency, self.harmonics)
        c = self.coefficients
        return resting(self.start + q @ c, v @ c, a @ c, outside)

    def scaled(self, factor: float) -> FourierTrajectory:
        """Return the motion with all excursions from the start multiplied by ``factor``."""
        return FourierTrajectory(
            self.joints, self.duration, self.frequency, self.start, factor * self.coefficients
        )
