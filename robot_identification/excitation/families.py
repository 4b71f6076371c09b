# SPDX-License-Identifier: Apache-2.0
"""
Families of motions from rest to rest, within limits, by unconstrained variables.

A family is linear in its coefficients: Fourier series (`FourierBasis`) or splines (`SplineBasis`).
`MotionFamily` turns any numbers into such a motion that keeps the limits of position, velocity,
acceleration and jerk.

References
----------
Swevers, Ganseman, Tükel, De Schutter, Van Brussel, "Optimal robot excitation and identification",
IEEE Trans. Robotics and Automation 13(5), 1997: the finite Fourier series.
Szabó, Szádeczky-Kardoss, "Dynamic parameter identification method for robotic arms with static
friction modelling", Acta IMEKO 10(3), 2021, eq. (22): boundary conditions as linear constraints on
its coefficients, which a basis of their null space takes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.interpolate import BSpline

from ..data.recording import Motion
from ..errors import ExcitationError
from .limits import Limits
from .trajectories import inside, PointTrajectory, resting

POINTS_PER_PERIOD = 24
"""Points of the grid on which limits are kept, for each period of the highest harmonic."""

POINTS_PER_INTERVAL = 6
"""Points of that grid for each interval between the knots of a spline."""

SHARPNESS = 64
"""p of the p-norm that stands for the largest value on the grid, from above; a power of 2."""

LEAST_ROOM = 0.01
"""Share of the position range that has to be free on either side of the start."""

_START_RANGE = 0.9
"""Share of the position range in which the start is sought."""

Matrices = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""(n, d) each: what the coefficients are multiplied with for position to jerk."""


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


QUINTICS_PER_PERIOD = 20
"""Points in a period of the highest harmonic of a series that quintics stand for."""


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
        return FourierTrajectory(
            self.joints, self.duration, self.frequency, self.start, factor * self.coefficients
        )


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
        position, velocity, acceleration, jerk = (
            matrix @ self._null for matrix in fourier_basis(time, self.frequency, self.harmonics)
        )
        return position, velocity, acceleration, jerk

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
        position, velocity, acceleration, jerk = (self._spline(time, order) for order in range(4))
        return position, velocity, acceleration, jerk

    def trajectory(
        self, joints: tuple[str, ...], start: np.ndarray, coefficients: np.ndarray
    ) -> PointTrajectory:
        """Return the motion of coefficients (d, n_joints) from a start (n_joints,)."""
        time = np.linspace(0.0, self.duration, self.intervals + 1)
        position, velocity, acceleration = (
            self._spline(time, order) @ coefficients for order in range(3)
        )
        return PointTrajectory(joints, time, start + position, velocity, acceleration)


Basis = FourierBasis | SplineBasis
"""Motions from rest to rest that are linear in d coefficients and begin at 0."""


@dataclass(frozen=True)
class MotionFamily:
    r"""
    Motions within limits, from unconstrained variables.

    The coefficients of joint j with variables :math:`x_j` are :math:`s_j x_j` with
    :math:`s_j = (1 + \|y_j\|_p^p)^{-1/p} < 1 / \max y_j`, where :math:`y_j` are the utilisations
    of all limits on a grid.  So every limit is kept, small variables mean small motions and large
    ones motions up to the limits.  The start, where it is free, is a hyperbolic tangent of further
    variables.  Variables are a vector: those of the start first, then those of the coefficients.

    Attributes
    ----------
    basis:
        The motions of one joint.
    limits:
        Limits of all joints, finite for positions.
    start:
        (n_joints,) where motions begin and end; where the search begins if the start is free.
    moving:
        (m,) places of the joints that move.
    free_start:
        Whether the start of the moving joints is among the variables.
    sharpness:
        p, a power of 2.

    """

    basis: Basis
    limits: Limits
    start: np.ndarray
    moving: np.ndarray
    free_start: bool = False
    sharpness: int = SHARPNESS
    _grid: np.ndarray = field(init=False, repr=False, compare=False)
    _sizes: np.ndarray = field(init=False, repr=False, compare=False)
    _last: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        matrices = self.basis.matrices(self.basis.grid)
        bounded = np.isfinite(self.limits.jerk).any()
        object.__setattr__(self, '_grid', np.stack(matrices if bounded else matrices[:3]))
        sizes = (self.limits.velocity, self.limits.acceleration, self.limits.jerk)
        stacked = np.stack(sizes[: len(self._grid) - 1])[:, self.moving]
        object.__setattr__(self, '_sizes', self.basis.tightness * stacked)
        if not self.free_start:
            self._require_room()

    def _require_room(self) -> None:
        above, below = self._room(self.start[self.moving])
        width = self._half_range * 2.0
        for i, place in enumerate(self.moving):
            if min(above[i], below[i]) < LEAST_ROOM * width[i]:
                joint = self.limits.joints[place]
                raise ExcitationError(
                    f"start of joint '{joint}', {self.start[place]:.6g} "
                    f'{self.limits.units[place]}, is at its position limit, which leaves it no '
                    'room to move',
                    joint=joint,
                    key='start',
                    value=float(self.start[place]),
                    remedy='start further inside the range',
                )

    @property
    def _half_range(self) -> np.ndarray:
        return 0.5 * (self.limits.upper - self.limits.lower)[self.moving]

    @property
    def _middle(self) -> np.ndarray:
        return 0.5 * (self.limits.upper + self.limits.lower)[self.moving]

    def _room(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what is free above and below the start (m,) of the moving joints."""
        lost = self._half_range * (1.0 / self.basis.tightness - 1.0)
        return (
            self.limits.upper[self.moving] - start - lost,
            start - self.limits.lower[self.moving] - lost,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients, (d, m)."""
        return self._grid.shape[2], self.moving.size

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.shape[0] * self.shape[1] + (self.moving.size if self.free_start else 0)

    def split(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the start (m,) and the variables of the coefficients (d, m)."""
        if not self.free_start:
            return self.start[self.moving], x.reshape(self.shape)
        m = self.moving.size
        start = self._middle + _START_RANGE * self._half_range * np.tanh(x[:m])
        return start, x[m:].reshape(self.shape)

    def joined(self, start: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Return the variables of a start (n_joints,) and of coefficients (d, m)."""
        if not self.free_start:
            return coefficients.ravel()
        share = (start[self.moving] - self._middle) / (_START_RANGE * self._half_range)
        return np.concatenate([np.arctanh(np.clip(share, -0.99, 0.99)), coefficients.ravel()])

    def random(self, rng: np.random.Generator, start: np.ndarray | None = None) -> np.ndarray:
        """Return variables of a random motion that reaches one limit of each joint."""
        start = self.start if start is None else start
        coefficients = rng.standard_normal(self.shape)
        y, _ = self._utilisation(start[self.moving], coefficients)
        return self.joined(start, coefficients / y.max(axis=(0, 1)))

    def scaled(self, x: np.ndarray, factor: float) -> np.ndarray:
        """Return variables of about ``factor`` times the excursions from the start."""
        start, raw = self.split(x)
        scale, _, _ = self._scale(x)
        whole = np.array(self.start)
        whole[self.moving] = start
        return self.joined(whole, factor * scale * raw)

    def motion(self, x: np.ndarray, matrices: Matrices) -> tuple[np.ndarray, ...]:
        """Return position, velocity and acceleration (n, n_joints) for matrices at n times."""
        start, raw = self.split(x)
        scale, _, _ = self._scale(x)
        coefficients = scale * raw
        states = []
        for matrix in matrices[:3]:
            state = np.zeros((len(matrix), len(self.limits.joints)))
            state[:, self.moving] = matrix @ coefficients
            states.append(state)
        states[0] += self.start
        states[0][:, self.moving] += start - self.start[self.moving]
        return tuple(states)

    def pull_back(
        self, x: np.ndarray, matrices: Matrices, slopes: tuple[np.ndarray, ...]
    ) -> np.ndarray:
        """Turn gradients by position, velocity and acceleration into one by the variables."""
        _, raw = self.split(x)
        by_coefficients = np.zeros(self.shape)
        for matrix, slope in zip(matrices[:3], slopes, strict=True):
            by_coefficients += matrix.T @ slope[:, self.moving]
        scale, y, room = self._scale(x)
        # d scale / d y = -scale^2 (scale y)^(p-1)
        shares = scale * y
        weight = -(scale**2) * _power(shares, self.sharpness)
        np.divide(weight, shares, out=weight, where=shares > 0.0)
        through = (by_coefficients * raw).sum(axis=0)
        change = weight / room[:, None, :]
        up, down = change[0], change[1]
        change[2:] *= np.sign(np.einsum('gkd,dj->gkj', self._grid[1:], raw, optimize=True))
        through_scale = self._grid[0].T @ (up - down)
        for matrix, part in zip(self._grid[1:], change[2:], strict=True):
            through_scale += matrix.T @ part
        by_raw = scale * by_coefficients + through * through_scale
        if not self.free_start:
            return by_raw.ravel()
        by_start = slopes[0][:, self.moving].sum(axis=0)
        by_start += through * ((y[0] * up).sum(axis=0) - (y[1] * down).sum(axis=0))
        bent = 1.0 - np.tanh(x[: self.moving.size]) ** 2
        return np.concatenate([by_start * _START_RANGE * self._half_range * bent, by_raw.ravel()])

    def _utilisation(self, start: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return shares of the limits (k, n_grid, m), at least 0, and the limits (k, m)."""
        room = np.stack([*self._room(start), *self._sizes])
        y = np.empty((len(room), self._grid.shape[1], self.moving.size))
        y[0] = self._grid[0] @ raw
        y[1] = -y[0]
        for k, matrix in enumerate(self._grid[1:]):
            y[2 + k] = np.abs(matrix @ raw)
        y /= room[:, None, :]
        return np.maximum(y, 0.0, out=y), room

    def _scale(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the factors (m,) of the coefficients, and what `_utilisation` returns."""
        # a gradient asks for them twice
        if not (self._last and np.array_equal(self._last[0], x)):
            y, room = self._utilisation(*self.split(x))
            largest = np.maximum(1.0, y.max(axis=(0, 1)))
            total = largest**-self.sharpness + _power(y / largest, self.sharpness).sum(axis=(0, 1))
            scale = total ** (-1.0 / self.sharpness) / largest
            self._last[:] = np.array(x), (scale, y, room)
        return self._last[1]

    def trajectory(self, x: np.ndarray) -> FourierTrajectory | PointTrajectory:
        """Return the trajectory of variables."""
        start, raw = self.split(x)
        whole = np.array(self.start)
        whole[self.moving] = start
        coefficients = np.zeros((self.shape[0], len(self.limits.joints)))
        coefficients[:, self.moving] = self._scale(x)[0] * raw
        return self.basis.trajectory(self.limits.joints, whole, coefficients)

    def sharpened(self, factor: int) -> MotionFamily:
        """Return the family with a sharpness that is ``factor`` (a power of 2) times as high."""
        return replace(self, sharpness=factor * self.sharpness)


def _power(values: np.ndarray, exponent: int) -> np.ndarray:
    """Return a power of two of values by squaring, many times faster than `numpy.power`."""
    result = np.array(values)
    while exponent > 1:
        np.square(result, out=result)
        exponent //= 2
    return result
