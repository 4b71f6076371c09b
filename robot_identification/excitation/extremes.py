# SPDX-License-Identifier: Apache-2.0
r"""
Largest and smallest positions, velocities, accelerations and jerks of a motion, between samples.

A controller joins points by polynomials of degree five at most, so these extremes are values at
roots of derivatives.  The roots are found from the highest derivative down: the last one is
linear, and between two neighbouring roots of a derivative the one below it is monotone, so each
root is alone in an interval with a change of sign and bisection cannot miss it.

Few polynomials get that far.  The coefficients of a polynomial in Bernstein's form enclose its
values, so those whose enclosure is not beyond what the points reach have no say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np

from .points import PointTrajectory, spline_coefficients
from .trajectories import Concatenation, Trajectory

QUANTITIES = ('position', 'velocity', 'acceleration', 'jerk')
"""In the order of the derivatives."""

DEGREE = 5
"""Of the polynomials."""

_BLOCK = 4096
_HALVINGS = 40


@dataclass(frozen=True)
class Pieces:
    """
    Polynomials one after the other.

    Attributes
    ----------
    begin, length:
        (n_pieces,) [s].
    coefficients:
        (n_pieces, 6, n_joints) of ascending powers of the time since `begin`.

    """

    begin: np.ndarray
    length: np.ndarray
    coefficients: np.ndarray


def pieces(trajectory: Trajectory, rate: float) -> Iterator[Pieces]:
    """
    Iterate over the polynomials of a trajectory, some thousand at a time.

    Those of a `PointTrajectory` are its own.  Any other is sampled at ``rate`` [Hz] and joined by
    quintics, as a controller would; what is lost of a harmonic of f [Hz] falls with the cube of
    f / rate for the jerk, and faster for the rest.
    """
    begin = 0.0
    parts = trajectory.parts if isinstance(trajectory, Concatenation) else (trajectory,)
    for part in parts:
        for piece in _own(part) if isinstance(part, PointTrajectory) else _sampled(part, rate):
            yield Pieces(begin + piece.begin, piece.length, piece.coefficients)
        begin += part.duration


def _own(trajectory: PointTrajectory) -> Iterator[Pieces]:
    for first in range(0, trajectory.time.size - 1, _BLOCK):
        time = trajectory.time[first : first + _BLOCK + 1]
        yield Pieces(time[:-1], np.diff(time), trajectory.coefficients[first : first + _BLOCK])


def _sampled(trajectory: Trajectory, rate: float) -> Iterator[Pieces]:
    n = int(np.ceil(trajectory.duration * rate)) + 1
    grid = np.linspace(0.0, trajectory.duration, max(n, 2))
    for first in range(0, grid.size - 1, _BLOCK):
        time = grid[first : first + _BLOCK + 1]
        m = trajectory.sample(time)
        coefficients = spline_coefficients(time, m.position, m.velocity, m.acceleration)
        yield Pieces(time[:-1], np.diff(time), coefficients)


# --------------------------------------------------------------------------------------- extremes


@dataclass(frozen=True)
class Extremes:
    """
    Extreme values of a motion.

    Attributes
    ----------
    lowest, highest:
        (4, n_joints) values of the `QUANTITIES`.
    lowest_time, highest_time:
        (4, n_joints) when [s].
    jump, jump_time:
        (n_joints,) largest jump of the acceleration, from rest and to rest included
        [rad/s^2 or m/s^2], and when [s].

    """

    lowest: np.ndarray
    highest: np.ndarray
    lowest_time: np.ndarray
    highest_time: np.ndarray
    jump: np.ndarray
    jump_time: np.ndarray

    def largest(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (n_joints,) values of largest size of a quantity, with their sign, and when."""
        low = -self.lowest[order] > self.highest[order]
        values = np.where(low, self.lowest[order], self.highest[order])
        return values, np.where(low, self.lowest_time[order], self.highest_time[order])


def extremes(trajectory: Trajectory, rate: float) -> Extremes:
    """
    Return the extremes of a trajectory over all times, exact for a `PointTrajectory`.

    Parameters
    ----------
    trajectory:
        Any trajectory.
    rate:
        Samples per second of a trajectory that is not made of polynomials [Hz].

    """
    n_joints = len(trajectory.joints)
    found = _Found(n_joints)
    before, end = np.zeros((1, n_joints)), 0.0
    for piece in pieces(trajectory, rate):
        derivatives = list(_derivatives(piece))
        begins, ends = (_values(derivatives[2], s) for s in (0.0, 1.0))
        found.take_jumps(begins - np.concatenate([before, ends[:-1]]), piece.begin)
        before, end = ends[-1:], float(piece.begin[-1] + piece.length[-1])
        for order, c in enumerate(derivatives):
            found.take(order, _values(c, 0.0), piece.begin)
            found.take(order, _values(c, 1.0), piece.begin + piece.length)
        _between(piece, derivatives, found)
    found.take_jumps(-before, np.array([end]))
    return Extremes(
        found.lowest, found.highest, found.lowest_time, found.highest_time,
        found.jump, found.jump_time,
    )  # fmt: skip


class _Found:
    """The extremes so far."""

    def __init__(self, n_joints: int) -> None:
        shape = len(QUANTITIES), n_joints
        self.lowest, self.highest = np.full(shape, np.inf), np.full(shape, -np.inf)
        self.lowest_time, self.highest_time = np.zeros(shape), np.zeros(shape)
        self.jump, self.jump_time = np.zeros(n_joints), np.zeros(n_joints)

    def take(self, order: int, values: np.ndarray, time: np.ndarray) -> None:
        """Take values (k, n_joints) of all joints, all of the same times (k,)."""
        for joint in range(values.shape[1]):
            self.take_joint(order, joint, values[:, joint], time)

    def take_joint(self, order: int, joint: int, values: np.ndarray, time: np.ndarray) -> None:
        """Take values and times (k,) of one joint."""
        for best, when, row, better in (
            (self.lowest, self.lowest_time, int(values.argmin()), np.less),
            (self.highest, self.highest_time, int(values.argmax()), np.greater),
        ):
            if better(values[row], best[order, joint]):
                best[order, joint], when[order, joint] = values[row], time[row]

    def take_jumps(self, jumps: np.ndarray, time: np.ndarray) -> None:
        """Take jumps (k, n_joints) of the acceleration at the times (k,)."""
        sizes = np.abs(jumps)
        rows = sizes.argmax(axis=0)
        largest = sizes.max(axis=0)
        self.jump_time = np.where(largest > self.jump, time[rows], self.jump_time)
        self.jump = np.maximum(largest, self.jump)


def _derivatives(piece: Pieces) -> Iterator[np.ndarray]:
    """Iterate over the quantities as polynomials of a time in [0, 1], (n_pieces, k, n_joints)."""
    c = piece.coefficients * (piece.length[:, None] ** np.arange(DEGREE + 1))[:, :, None]
    for _ in QUANTITIES:
        yield c
        c = _derived(c, axis=1) / piece.length[:, None, None]


def _derived(c: np.ndarray, axis: int) -> np.ndarray:
    """Coefficients of the derivative by a time in [0, 1]."""
    powers = np.arange(1.0, c.shape[axis])
    upper = np.take(c, np.arange(1, c.shape[axis]), axis)
    return upper * (powers[:, None] if axis == 1 else powers)


def _values(c: np.ndarray, s: float) -> np.ndarray:
    """Values (n_pieces, n_joints) at the beginnings (0) or the ends (1)."""
    return c[:, 0] if s == 0.0 else c.sum(axis=1)


# ----------------------------------------------------------------------------------- inside pieces


def _between(piece: Pieces, derivatives: list[np.ndarray], found: _Found) -> None:
    """Look inside of those pieces that may go beyond what their ends reach."""
    chosen = np.zeros(derivatives[0][:, 0].shape, dtype=bool)
    for order, c in enumerate(derivatives):
        enclosing = np.einsum('ji,mik->mjk', _bernstein(c.shape[1] - 1), c)
        chosen |= enclosing.max(axis=1) > found.highest[order]
        chosen |= enclosing.min(axis=1) < found.lowest[order]
    rows, joints = np.nonzero(chosen)
    if not rows.size:
        return
    picked = [c[rows, :, joints] for c in derivatives]
    critical = np.broadcast_to(np.array([0.0, 1.0]), (rows.size, 2))
    for order in reversed(range(len(picked))):
        critical = _with_roots(_derived(picked[order], axis=-1), critical)
        values = _evaluate(picked[order], critical)
        time = piece.begin[rows, None] + piece.length[rows, None] * critical
        for joint in np.unique(joints):
            mine = joints == joint
            found.take_joint(order, int(joint), values[mine].ravel(), time[mine].ravel())


def _bernstein(degree: int) -> np.ndarray:
    """Return the matrix from coefficients of powers to those of Bernstein's polynomials."""
    return np.array(
        [
            [comb(j, i) / comb(degree, i) if i <= j else 0.0 for i in range(degree + 1)]
            for j in range(degree + 1)
        ]
    )


def _evaluate(c: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Values (n, k) of polynomials (n, degree + 1) at places (n, k)."""
    values = np.broadcast_to(c[:, -1:], s.shape)
    for power in range(c.shape[1] - 2, -1, -1):
        values = values * s + c[:, power, None]
    return values


def _with_roots(c: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """
    Return places (n, k + 1): 0, a place in each of the intervals between ``edges``, and 1.

    The polynomials (n, degree + 1) are monotone in each interval (n, k); where one has a root in
    it, the place is the root.
    """
    low, high = edges[:, :-1].copy(), edges[:, 1:].copy()
    rising = _evaluate(c, low) < _evaluate(c, high)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        beyond = (_evaluate(c, middle) > 0.0) == rising
        high = np.where(beyond, middle, high)
        low = np.where(beyond, low, middle)
    return np.hstack([edges[:, :1], 0.5 * (low + high), edges[:, -1:]])
