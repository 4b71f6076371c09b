# SPDX-License-Identifier: Apache-2.0
r"""
Largest positions, velocities, accelerations, jerks and efforts of a motion, between samples too.

A controller joins points by polynomials of degree five at most, so the extremes of a motion are
values at roots of derivatives.  The roots are found from the highest derivative down: the last one
is linear, and between two neighbouring roots of a derivative the one below it is monotone, so each
root is alone in an interval with a change of sign and bisection cannot miss it.  Few polynomials
get that far: the coefficients in Bernstein's form enclose the values, and only polynomials whose
enclosure is beyond what the points reach are looked at.

Efforts are no polynomials, so they are looked at on a grid.  Between two of its points a smooth
function exceeds the larger of both by at most :math:`h^2 / 8` of its second derivative.  That one
is taken from the differences on the grid and counted twice; intervals in which the limit might be
reached by that are looked at eight times as densely, and those in them again.  What is left after
three rounds, within microseconds, is where friction jumps with the sign of a velocity, and both
sides of the jump have been looked at by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.linalg import pascal
from scipy.special import comb

from ..data.recording import Motion
from ..model.robot import Robot
from ..regressor import build, ModelSettings, predict, prior
from .trajectories import least_rate, PointTrajectory, spline_coefficients, Trajectory

QUANTITIES = ('position', 'velocity', 'acceleration', 'jerk')
"""In the order of the derivatives."""

DEGREE = 5
"""Degree of the polynomials between points."""


@dataclass(frozen=True)
class EffortSearchConstants:
    """Constants of the search for the largest efforts."""

    lowest_rate: float = 250.0
    """Lowest rate at which the efforts of a trajectory are looked at [Hz]."""
    rounds: int = 3
    """Times that intervals are divided in which an effort may exceed its limit."""
    divisions: int = 8
    """Parts of an interval then, and of a short piece of a path at first."""
    block: int = 4096
    """Instants, or pieces of a path, that are looked at together."""
    most_intervals: int = 2048
    """Intervals that are divided together."""


EFFORTS = EffortSearchConstants()


_HALVINGS = 40
"""Times that an interval with a root is halved: 1e-12 of it is left."""
Effort = Callable[[Motion], np.ndarray]
"""Predicts the efforts of a motion, (n_samples, n_joints) [N m or N]."""

Pieces = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Polynomials: begin and length, (m,) [s], and coefficients of ascending powers, (m, 6, n)."""


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

    def __init__(self, n_joints: int) -> None:
        shape = len(QUANTITIES), n_joints
        self.lowest, self.highest = np.full(shape, np.inf), np.full(shape, -np.inf)
        self.lowest_time, self.highest_time = np.zeros(shape), np.zeros(shape)
        self.jump, self.jump_time = np.zeros(n_joints), np.zeros(n_joints)

    def largest(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (n_joints,) values of largest size of a quantity, with their sign, and when."""
        low = -self.lowest[order] > self.highest[order]
        values = np.where(low, self.lowest[order], self.highest[order])
        return values, np.where(low, self.lowest_time[order], self.highest_time[order])

    def take(self, order: int, joint: int, values: np.ndarray, time: np.ndarray) -> None:
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
        rows, largest = sizes.argmax(axis=0), sizes.max(axis=0)
        self.jump_time = np.where(largest > self.jump, time[rows], self.jump_time)
        self.jump = np.maximum(largest, self.jump)


def extremes(trajectory: Trajectory, rate: float) -> Extremes:
    """
    Return the extremes of a trajectory over all times, exact for a `PointTrajectory`.

    One that is not made of polynomials is sampled ``rate`` times a second at least; of a series
    with 20 samples in a period of its highest harmonic, 4e-6 of the largest acceleration may be
    missed, and 3.5e-5 of the largest jerk.
    """
    n_joints = len(trajectory.joints)
    found = Extremes(n_joints)
    before, last = np.zeros((1, n_joints)), 0.0
    for begin, length, coefficients in _pieces(trajectory, rate):
        end = begin + length
        # as polynomials of a time in [0, 1]
        c: np.ndarray = coefficients * (length[:, None] ** np.arange(DEGREE + 1))[:, :, None]
        motion = derivatives(c, length)
        begins, ends = motion[2][:, 0], motion[2].sum(axis=1)
        found.take_jumps(begins - np.concatenate([before, ends[:-1]]), begin)
        before, last = ends[-1:], float(end[-1])
        for order, c in enumerate(motion):
            for joint in range(n_joints):
                found.take(order, joint, c[:, 0, joint], begin)
                found.take(order, joint, c[:, :, joint].sum(axis=1), end)
        _look_inside(begin, length, motion, found)
    found.take_jumps(-before, np.array([last]))
    return found


def _pieces(trajectory: Trajectory, rate: float) -> Iterator[Pieces]:
    """
    Iterate over the polynomials of a trajectory, some thousand at a time.

    Those of a `PointTrajectory` are its own.  Any other is sampled at ``rate`` [Hz], or at the
    rate at which quintics are as good as itself (`least_rate`), and joined by these, as a
    controller would.
    """
    if isinstance(trajectory, PointTrajectory):
        grid = trajectory.time
    else:
        n = max(int(np.ceil(trajectory.duration * least_rate(trajectory, rate))) + 1, 2)
        grid = np.linspace(0.0, trajectory.duration, n)
    for first in range(0, grid.size - 1, EFFORTS.block):
        time = grid[first : first + EFFORTS.block + 1]
        if isinstance(trajectory, PointTrajectory):
            coefficients = trajectory.coefficients[first : first + EFFORTS.block]
        else:
            m = trajectory.sample(time)
            coefficients = spline_coefficients(time, m.position, m.velocity, m.acceleration)
        yield time[:-1], np.diff(time), coefficients


def _look_inside(
    begin: np.ndarray, length: np.ndarray, motion: list[np.ndarray], found: Extremes
) -> None:
    """Look inside of those pieces that may go beyond what their ends reach."""
    chosen = np.zeros(motion[0][:, 0].shape, dtype=bool)
    for order, c in enumerate(motion):
        enclosing = np.einsum('ji,mik->mjk', _bernstein(c.shape[1] - 1), c)
        chosen |= enclosing.max(axis=1) > found.highest[order]
        chosen |= enclosing.min(axis=1) < found.lowest[order]
    rows, joints = np.nonzero(chosen)
    if not rows.size:
        return
    for order, places, values in critical_values([c[rows, :, joints] for c in motion]):
        time = begin[rows, None] + length[rows, None] * places
        for joint in np.unique(joints):
            mine = joints == joint
            found.take(order, int(joint), values[mine].ravel(), time[mine].ravel())


def derivatives(c: np.ndarray, length: np.ndarray) -> list[np.ndarray]:
    """Return polynomials (n, 6, ...) of a time in [0, 1], and their derivatives by time [s]."""
    motion = [c]
    for _ in QUANTITIES[1:]:
        c = _derived(c) / length.reshape(-1, *(1,) * (c.ndim - 1))
        motion.append(c)
    return motion


def critical_values(motion: list[np.ndarray]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """
    Iterate over the orders of the derivatives, the highest first, with their extremes.

    The polynomials of each order are (n, degree + 1).  Beside the order come places (n, k) in
    [0, 1], the ends and those where the derivative vanishes among them, and the values there.
    """
    places = np.broadcast_to(np.array([0.0, 1.0]), (len(motion[0]), 2))
    for order in reversed(range(len(motion))):
        places = _with_roots(_derived(motion[order]), places)
        yield order, places, _evaluate(motion[order], places)


def _derived(c: np.ndarray) -> np.ndarray:
    """Coefficients (n, degree, ...) of the derivative by a time in [0, 1]."""
    powers = np.arange(1.0, c.shape[1])
    return np.asarray(c[:, 1:] * powers.reshape(-1, *(1,) * (c.ndim - 2)))


def _bernstein(degree: int) -> np.ndarray:
    """Return the matrix from coefficients of powers to those of Bernstein's polynomials."""
    return np.asarray(pascal(degree + 1, kind='lower') / comb(degree, np.arange(degree + 1)))


def _evaluate(c: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Values (n, k) of polynomials (n, degree + 1) at places (n, k)."""
    return np.asarray(polyval(s, c.T[:, :, None], tensor=False))


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


# ---------------------------------------------------------------------------------------- efforts


def nominal_effort(robot: Robot, model: ModelSettings | None = None) -> Effort:
    """Return the prediction of efforts by the URDF, with the terms of a model or all it has."""
    regressor, values = build(robot, model), prior(robot, model)
    return lambda motion: predict(regressor, motion, values)


def at_rest(function: Callable[[Motion], np.ndarray], poses: np.ndarray) -> np.ndarray:
    """Return the efforts that hold poses (k, n_joints), or another function of a motion."""
    rest = np.zeros_like(poses)
    return function(Motion(poses, rest, rest))


def check_times(trajectory: Trajectory, rate: float) -> np.ndarray:
    """Return the times to look at: a grid, and at least eight in each piece of a path."""
    rate = max(rate, EFFORTS.lowest_rate)
    n = int(np.ceil(trajectory.duration * rate)) + 1
    times = [np.linspace(0.0, trajectory.duration, n)]
    if isinstance(trajectory, PointTrajectory):
        begins, length = trajectory.time[:-1], np.diff(trajectory.time)
        times.append(trajectory.time)
        short = length < EFFORTS.divisions / rate
        steps = length[short, None] * np.linspace(0.0, 1.0, EFFORTS.divisions, endpoint=False)
        times.append((begins[short, None] + steps).ravel())
    return np.unique(np.concatenate(times))


def largest_efforts(
    trajectory: Trajectory, effort: Effort, limit: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the largest efforts of a trajectory, and when.

    ``rate`` is that of the first looks, at least 250 [Hz]; efforts near a ``limit`` (n_joints,)
    are looked at closely.

    Returns
    -------
    tuple of np.ndarray
        (n_joints,) values of largest size with their sign [N m or N], and times [s].

    """
    largest, when = np.zeros(limit.size), np.zeros(limit.size)

    def look(time: np.ndarray) -> np.ndarray:
        """Return the efforts at times of any shape, (*shape, n_joints)."""
        flat = time.ravel()
        values = effort(trajectory.sample(flat))
        rows = np.abs(values).argmax(axis=0)
        found = np.take_along_axis(values, rows[None], axis=0)[0]
        more = np.abs(found) > np.abs(largest)
        largest[more], when[more] = found[more], flat[rows][more]
        return values.reshape(*time.shape, -1)

    times = check_times(trajectory, rate)
    # each block begins with the last two times of the one before, for the second differences
    for start in range(0, max(times.size - 2, 1), EFFORTS.block):
        time = times[start : start + EFFORTS.block + 2]
        unsure = _unsure(look(time), time, limit)
        low, high = time[:-1][unsure], time[1:][unsure]
        for _ in range(EFFORTS.rounds):
            # beyond the limit already, there is nothing left to find
            if not low.size or (np.abs(largest) > limit).any():
                break
            low, high = _divided(look, limit, low, high)
    return largest, when


def _divided(
    look: Callable[[np.ndarray], np.ndarray], limit: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Look at intervals (k,) more densely; return the parts that may reach their limit."""
    lows, highs = [], []
    for first in range(0, low.size, EFFORTS.most_intervals):
        part = slice(first, first + EFFORTS.most_intervals)
        grid = np.linspace(low[part], high[part], EFFORTS.divisions + 1, axis=1)
        unsure = _unsure(look(grid), grid, limit)
        lows.append(grid[:, :-1][unsure])
        highs.append(grid[:, 1:][unsure])
    return np.concatenate(lows), np.concatenate(highs)


def _unsure(values: np.ndarray, time: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return in which intervals of (..., k) times (..., k, n) values may exceed their limits."""
    step = np.diff(time, axis=-1)[..., None]
    slope = np.diff(values, axis=-2) / step
    second = np.abs(np.diff(slope, axis=-2)) / (0.5 * (step[..., 1:, :] + step[..., :-1, :]))
    beside = np.concatenate([second[..., :1, :], second, second[..., -1:, :]], axis=-2)
    beside = np.maximum(beside[..., :-1, :], beside[..., 1:, :])
    ends = np.maximum(np.abs(values[..., :-1, :]), np.abs(values[..., 1:, :]))
    return np.asarray((ends + 0.25 * step**2 * beside > limit).any(axis=-1))
