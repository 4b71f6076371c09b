# SPDX-License-Identifier: Apache-2.0
"""
Family of motions from rest to rest, within limits, by unconstrained variables.

`MotionFamily` turns any numbers into coefficients of a basis (`bases`) whose motion keeps the
limits of position, velocity, acceleration and jerk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ExcitationError
from .bases import Basis, FourierTrajectory, Matrices
from .limits import Limits
from .trajectories import PointTrajectory

SHARPNESS = 64
"""p of the p-norm that stands for the largest value on the grid, from above; a power of 2."""

LEAST_ROOM = 0.01
"""Share of the position range that has to be free on either side of the start."""

_START_RANGE = 0.9
"""Share of the position range in which the start is sought."""


@dataclass(frozen=True)
class MotionFamily:
    r"""
    Motions within limits, from unconstrained variables.

    The coefficients of joint j with variables :math:`x_j` are :math:`s_j x_j` with
    :math:`s_j = (1 + \|y_j\|_p^p)^{-1/p} < 1 / \max y_j`, where :math:`y_j` are the utilisations
    of all limits on a grid.  So every limit is kept, small variables mean small motions and large
    ones motions up to the limits.  The start, where it is free, is a hyperbolic tangent of further
    variables.  Variables are a vector: those of the start first, then those of the coefficients.
    """

    basis: Basis
    """The motions of one joint."""
    limits: Limits
    """Limits of all joints, finite for positions."""
    start: np.ndarray
    """(n_joints,) where motions begin and end; where the search begins if the start is free."""
    moving: np.ndarray
    """(m,) places of the joints that move."""
    free_start: bool = False
    """Whether the start of the moving joints is among the variables."""
    sharpness: int = SHARPNESS
    """p, a power of 2."""
    _grid: np.ndarray = field(init=False, repr=False, compare=False)
    _sizes: np.ndarray = field(init=False, repr=False, compare=False)
    _middle: np.ndarray = field(init=False, repr=False, compare=False)
    _half_range: np.ndarray = field(init=False, repr=False, compare=False)
    _last: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        matrices = self.basis.matrices(self.basis.grid)
        bounded = np.isfinite(self.limits.jerk).any()
        object.__setattr__(self, '_grid', np.stack(matrices if bounded else matrices[:3]))
        object.__setattr__(self, '_middle', self.limits.middle[self.moving])
        object.__setattr__(self, '_half_range', self.limits.half_range[self.moving])
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

    def split(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the start (m,) and the variables of the coefficients (d, m)."""
        if not self.free_start:
            return self.start[self.moving], x.reshape(self.shape)
        m = self.moving.size
        start = self._middle + _START_RANGE * self._half_range * np.tanh(x[:m])
        return start, x[m:].reshape(self.shape)

    def variables(self, start: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
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
        return self.variables(start, coefficients / y.max(axis=(0, 1)))

    def scaled(self, x: np.ndarray, factor: float) -> np.ndarray:
        """Return variables of about ``factor`` times the excursions from the start."""
        start, raw = self.split(x)
        scale, _, _ = self._scale(x)
        return self.variables(self._of_all(start), factor * scale * raw)

    def _of_all(self, start: np.ndarray) -> np.ndarray:
        """Return the start (n_joints,) of all joints by that of the moving ones."""
        whole = np.array(self.start)
        whole[self.moving] = start
        return whole

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
        coefficients = np.zeros((self.shape[0], len(self.limits.joints)))
        coefficients[:, self.moving] = self._scale(x)[0] * raw
        return self.basis.trajectory(self.limits.joints, self._of_all(start), coefficients)


def _power(values: np.ndarray, exponent: int) -> np.ndarray:
    """Return a power of two of values by squaring, many times faster than `numpy.power`."""
    result = np.array(values)
    while exponent > 1:
        np.square(result, out=result)
        exponent //= 2
    return result
