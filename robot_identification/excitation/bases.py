# SPDX-License-Identifier: Apache-2.0
"""
Bases of motions from rest to rest, linear in their coefficients: Fourier series and splines.

Whoever adds one enters it in `BASES`.

References
----------
Swevers, Ganseman, Tükel, De Schutter, Van Brussel, "Optimal robot excitation and identification",
IEEE Trans. Robotics and Automation 13(5), 1997: the finite Fourier series.
Szabó, Szádeczky-Kardoss, "Dynamic parameter identification method for robotic arms with static
friction modelling", Acta IMEKO 10(3), 2021, eq. (22): boundary conditions as linear constraints on
its coefficients, which a basis of their null space takes out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import null_space

from ..data.recording import Motion
from ..errors import ExcitationError
from .trajectories import inside, PointTrajectory, resting

POINTS_PER_PERIOD = 24
"""Points of the grid on which limits are kept, for each period of the highest harmonic."""

POINTS_PER_INTERVAL = 6
"""Points of that grid for each interval between the knots of a spline."""

Matrices = tuple[np.ndarray, ...]
"""Four of (n, d): what the coefficients are multiplied with for position to jerk."""


def fourier_basis(time: np.ndarray, frequency: float, harmonics: int) -> Matrices:
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

    Raises `ExcitationError` where no motion is left.
    """
    _, velocity, acceleration, _ = fourier_basis(np.array([0.0, duration]), frequency, harmonics)
    # the constraints' rows are made comparable: velocity has entries of 1, acceleration of omega l
    constraints = np.vstack([velocity, acceleration / (2.0 * np.pi * frequency * harmonics)])
    free = null_space(constraints, rcond=1e-9)
    if not free.shape[1]:
        raise ExcitationError(
            f'{harmonics} harmonics leave no motion that starts and ends at rest',
            key='harmonics',
            value=harmonics,
            remedy='take at least 3',
        )
    return np.asarray(free)


QUINTICS_PER_PERIOD = 20
"""Points in a period of the highest harmonic of a series that quintics stand for."""


@dataclass(frozen=True)
class FourierTrajectory:
    """
    A finite Fourier series for each joint (`fourier_basis`).

    Attributes
    ----------
    joints:
        Names of the joints.
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

    @property
    def point_rate(self) -> float:
        """
        Points per second between which quintics are as good as the series [Hz].

        With 20 in a period of the highest harmonic they exceed its largest acceleration by a share
        of 4e-6 and its largest jerk by 3.5e-5 at most; both fall with the fourth power.
        """
        return QUINTICS_PER_PERIOD * self.frequency * self.harmonics

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
        return replace(self, coefficients=factor * self.coefficients)


@dataclass(frozen=True)
class FourierBasis:
    r"""
    Fourier series of ``harmonics`` of ``frequency`` [Hz] over ``duration`` [s].

    Between the points of the grid, a trigonometric polynomial of degree M on K equal steps of its
    period exceeds its largest value on the grid by at most :math:`1 / \cos(\pi M / K)` (Ehlich and
    Zeller 1964).
    """

    duration: float
    frequency: float
    harmonics: int
    _null: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        null = rest_to_rest(self.duration, self.frequency, self.harmonics)
        object.__setattr__(self, '_null', null)

    @property
    def grid(self) -> np.ndarray:
        """(n,) times of one period at which limits are kept [s]."""
        count = POINTS_PER_PERIOD * self.harmonics
        return np.arange(count) / count / self.frequency

    @property
    def tightness(self) -> float:
        """Share of a limit on the grid with which it holds in between, too."""
        return float(np.cos(np.pi / POINTS_PER_PERIOD))

    def matrices(self, time: np.ndarray) -> Matrices:
        """Return the matrices at times (n,) [s]."""
        series = fourier_basis(time, self.frequency, self.harmonics)
        return tuple(matrix @ self._null for matrix in series)

    def trajectory(
        self, joints: tuple[str, ...], start: np.ndarray, coefficients: np.ndarray
    ) -> FourierTrajectory:
        """Return the motion of coefficients (d, n_joints) from a start (n_joints,)."""
        series = self._null @ coefficients
        return FourierTrajectory(joints, self.duration, self.frequency, start, series)


@dataclass(frozen=True)
class SplineBasis:
    """
    Splines of degree 5 with ``intervals``, two or more, between equal knots over ``duration`` [s].

    They are quintics between the knots, hence what ros2_control interpolates through points.
    """

    duration: float
    intervals: int
    _spline: BSpline = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        knots = np.linspace(0.0, self.duration, self.intervals + 1)
        ends = np.full(5, self.duration)
        # three control points at either end stand at the start: position and rest
        identity = np.eye(self.intervals + 5)[:, 3:-3]
        spline = BSpline(np.concatenate([np.zeros(5), knots, ends]), identity, 5)
        object.__setattr__(self, '_spline', spline)

    @property
    def grid(self) -> np.ndarray:
        """(n,) times at which limits are kept [s]."""
        return np.linspace(0.0, self.duration, POINTS_PER_INTERVAL * self.intervals + 1)

    @property
    def tightness(self) -> float:
        """Share of a limit on the grid; what is exceeded in between, the last check scales."""
        return 0.99

    def matrices(self, time: np.ndarray) -> Matrices:
        """Return the matrices at times (n,) [s]."""
        return tuple(self._spline(time, order) for order in range(4))

    def trajectory(
        self, joints: tuple[str, ...], start: np.ndarray, coefficients: np.ndarray
    ) -> PointTrajectory:
        """Return the motion of coefficients (d, n_joints) from a start (n_joints,)."""
        time = np.linspace(0.0, self.duration, self.intervals + 1)
        states = [matrix @ coefficients for matrix in self.matrices(time)[:3]]
        return PointTrajectory(joints, time, start + states[0], *states[1:])


Basis = FourierBasis | SplineBasis
"""Motions from rest to rest that are linear in d coefficients and begin at 0."""


@dataclass(frozen=True)
class BasisKind:
    """Member of the table of bases."""

    doc: str
    """What its motions are, for the description of `PlannerSettings.method`."""
    make: Callable[[float, float, int], Basis]
    """Returns the basis for a duration [s], a fundamental frequency [Hz] and harmonics."""


BASES = {
    'fourier': BasisKind('periodic series of a given duration', FourierBasis),
    'spline': BasisKind(
        'splines of degree 5',
        lambda duration, frequency, harmonics: SplineBasis(duration, 2 * harmonics),
    ),
}
"""Bases of the motions that are searched, by the name that `PlannerSettings.method` gives them."""
