# SPDX-License-Identifier: Apache-2.0
r"""
Paths through points: the shortest quintics from one to the next, and points that allow them.

Gautier and Khalil (1992), section 5: joints move from (q_a, dq_a) to (q_b, dq_b) by a quintic
without acceleration at both ends, in a time u that all joints share and that is as short as
velocity and acceleration limits allow.  On s = t / u in [0, 1], with polynomials b and m of s
alone,

.. math::

    q = b + u m, \quad \dot q = m' + x b', \quad \ddot q = x m'' + x^2 b'', \quad x = 1 / u.

- A position limit is linear in u for each s, so the times that keep it form one interval, from 0
  to the smallest of ``(limit - b) / m``.
- A velocity limit is linear in x and kept for x -> 0 (where the ends keep it), so the times that
  keep it form one interval, too, from some time on.
- An acceleration limit is quadratic in x.  The paper takes the peak for a decreasing function of
  u, but it often is not (from 0 to 1 with speeds of 1 at both ends, it is 0 for u = 1 and larger
  for shorter and for longer times), and the times that keep the limit can be several intervals.
  They end where a peak is at the limit, that is, where the cubic ``ddq -+ limit`` of s has a
  double root: at roots of its discriminant, a polynomial of degree six in x.
- A jerk limit, which the paper has not, is cubic in x, and the jerk quadratic in s.  Its peak is
  at the limit where an end of the segment is, or where ``dddq -+ limit`` has a double root in s.

So all times at which anything can change are roots of polynomials, and one look at each interval
between them shows which ones are allowed.

Between points within the limits, a quintic mostly leaves them: with random points, one segment of
one joint in six leaves the position limits in the shortest time.  Shrinking the limits of the
points (Gautier and Khalil 1992, section 5.2) does not help where all joints wait for the slowest
one: a joint that passes a point at speed goes on with it.  So the times from point to point are
variables beside the points, and excess of the limits between the points is a penalty with exact
gradient (`PathProblem`).  `shortest_times` decides on the times at last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.polynomial.polynomial import polyder, polyroots, polytrim, polyval

from ..data.recording import Motion
from .extremes import critical_values, derivatives
from .limits import Limits
from .point_cost import PointCost
from .sequence import EnergyEquations, Function, PointBounds, renew_points, WaypointSet
from .trajectories import PointTrajectory, spline_coefficients

LEAST_INTERVAL = 1e-2
"""Least time from one point to the next, for points between which nothing moves [s]."""

_GREATEST_INTERVAL = 1e4
"""Time from one point to the next beyond which no motion is sought [s]."""

_LIMIT_TOLERANCE = 1e-11
"""Share of a value by which rounding may pass a limit."""


_UNIT = np.eye(4)
_SHAPES = spline_coefficients(
    np.array([0.0, 1.0]), _UNIT[[0, 2]], _UNIT[[1, 3]], np.zeros((2, 4))
)[0]
"""(6, 4) ascending coefficients in s for a unit of q_a, u dq_a, q_b and u dq_b."""


def allowed_times(start: np.ndarray, end: np.ndarray, limits: Limits) -> list[tuple[float, float]]:
    """
    Return the times in which all joints can go from one point to the next.

    Points are (2, n_joints) position and velocity.  The times are closed intervals in ascending
    order [s].
    """
    rest, run = (_SHAPES[:, [i, i + 2]] @ np.stack([start[i], end[i]]) for i in (0, 1))
    sizes = limits.velocity, limits.acceleration, limits.jerk
    bounds = np.stack([(limits.lower, limits.upper), *((-size, size) for size in sizes)])
    joints = list(zip(rest.T, run.T, bounds.transpose(2, 0, 1), strict=True))
    changes = np.concatenate([_changes(*joint) for joint in joints])
    changes = changes[(changes > LEAST_INTERVAL) & (changes < _GREATEST_INTERVAL)]
    times = np.unique([LEAST_INTERVAL, *changes, _GREATEST_INTERVAL])
    middle = np.sqrt(times[:-1] * times[1:])
    kept = np.ones(middle.size, dtype=bool)
    for joint in joints:
        kept[kept] = _keeps(*joint, middle[kept])
    edges = times[np.flatnonzero(np.diff([False, *kept, False]))].tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _keeps(b: np.ndarray, m: np.ndarray, bounds: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return in which times (k,) a joint keeps its bounds (4, 2) of position to jerk."""
    kept = np.ones(times.size, dtype=bool)
    for order, _, values in critical_values(derivatives(b + times[:, None] * m, times)):
        low, high = bounds[order]
        slack = _LIMIT_TOLERANCE * (high if order else np.maximum(1.0, np.abs(values)))
        kept &= ((values >= low - slack) & (values <= high + slack)).all(axis=1)
    return kept


def _changes(b: np.ndarray, m: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the times at which a joint may begin or cease to keep one of its bounds (4, 2)."""
    position, (_, velocity), accelerations, jerks = bounds
    speed, slope = polyder(b), polyder(m)
    # ddq = x s (1 - s) (first + last s), both linear in x
    first, last = np.stack([polyder(m, 2), polyder(b, 2)], axis=1)[[1, 3]] * [[1.0], [-1.0]]
    both, between = first + last, last - first
    # u of positions, then x
    u, x = [], []
    for limit in position[np.isfinite(position)]:
        left = np.append(limit - b[0], -b[1:])
        s = _inner_roots(np.convolve(speed, m) + np.convolve(left, slope))
        run = polyval(s, m)
        # a run of rounding size asks for no time that there is
        some = np.abs(run) > np.finfo(float).eps * np.abs(m).max()
        u.append(polyval(s[some], left) / run[some])
    if (distance := b.sum() - b[0]) != 0.0:
        # b' = c s^2 (1 - s)^2, so x grows to the least of left / (c s^2 (1 - s)^2)
        c, shape = 30.0 * abs(distance), np.array([0.0, 1.0, -1.0])
        left = np.append(velocity - np.sign(distance) * slope[0], -np.sign(distance) * slope[1:])
        s = _inner_roots(
            np.convolve(polyder(left), shape) - 2.0 * np.convolve(left, polyder(shape))
        )
        x.append(polyval(s, left) / (c * polyval(s, shape) ** 2))
        x.append(0.5 * polyval(np.array([0.0, 1.0]), polyder(left, 2)) / c)
    for limit in accelerations:
        # the discriminant over x^2
        discriminant = np.append([0.0, 0.0], _product(first, first, both, both))
        discriminant[1:5] += 2.0 * limit * _product(between, first + both, both + last)
        discriminant[:3] -= 27.0 * limit**2 * _product(last, last)
        x.append(_real_roots(discriminant))
    for limit in jerks[np.isfinite(jerks)]:
        # at the ends, and where the jerk is extreme between them
        x.append(_real_roots(np.append([-limit, 0.0], first)))
        x.append(_real_roots(np.append([-limit, 0.0], -both)))
        peak = np.append([0.0, 0.0], _product(both, both) - _product(first, last))
        peak[:2] -= 3.0 * limit * last
        x.append(_real_roots(peak))
    inverse = np.concatenate(x)
    return np.concatenate([*u, 1.0 / inverse[inverse > 0.0]])


def _product(*polynomials: np.ndarray) -> np.ndarray:
    """Return the product of polynomials by ascending coefficients."""
    return reduce(np.convolve, polynomials)


def _inner_roots(c: np.ndarray) -> np.ndarray:
    roots = _real_roots(c)
    return roots[(roots > 0.0) & (roots < 1.0)]


def _real_roots(c: np.ndarray) -> np.ndarray:
    """Roots with an imaginary part that is rounding, of which double ones have much."""
    # leading coefficients that are rounding would make roots out of nothing
    roots = polyroots(polytrim(c, 1e-14 * np.abs(c).max()))
    near = np.abs(roots.imag) <= 1e-5 * np.maximum(np.abs(roots), 1e-3)
    return np.asarray(roots.real[near])


def shortest_times(
    sequence: WaypointSet | PointTrajectory,
    limits: Limits,
    go_on: Callable[[], bool] = lambda: True,
) -> np.ndarray:
    """
    Return the shortest time (r,) of each segment within the limits, NaN where there is none [s].

    ``go_on`` is called before each segment; False leaves the times of those that are left NaN.
    """
    points = np.stack([sequence.position, sequence.velocity], axis=1)
    times = np.full(len(points) - 1, np.nan)
    for i, (start, end) in enumerate(zip(points[:-1], points[1:], strict=True)):
        if not go_on():
            break
        allowed = allowed_times(start, end, limits)
        if allowed:
            low, high = allowed[0]
            # at the very end of the interval, rounding decides
            times[i] = min(low * (1.0 + _LIMIT_TOLERANCE), high)
    return times


def trajectory_through(
    sequence: WaypointSet | PointTrajectory, times: np.ndarray, limits: Limits
) -> PointTrajectory:
    """Return the quintics through the r + 1 points of a sequence, in times (r,) [s]."""
    return PointTrajectory(
        limits.joints,
        np.concatenate([[0.0], np.cumsum(times)]),
        sequence.position,
        sequence.velocity,
        np.zeros_like(sequence.position),
    )


SAMPLES = 12
"""Instants of a segment at which the path is looked at."""

TIGHT = 0.97
"""Share of the limits that the samples keep, so that what is between them keeps the limits."""

TIME_WEIGHT = 0.02
"""What the logarithm of the duration counts, beside that of the cost."""

Obstacles = Callable[[Motion], tuple[float, list[np.ndarray]]]
"""Takes a motion to a penalty and its gradients by position, velocity and acceleration."""


@dataclass(frozen=True)
class PathProblem:
    """
    The cost of points, with penalties for what the path between them exceeds its limits by.

    Variables (d,) are those of the points and the logarithms of the times (`WaypointProblem`).
    """

    equations: EnergyEquations
    cost: PointCost
    """Of the equations, which is minimised."""
    limits: Limits
    """Limits of the path; finite."""
    start: np.ndarray
    """(n_joints,) where it starts and ends [rad or m]."""
    n_equations: int
    """r, hence r + 1 points beside the start and the end."""
    weight: float = 20.0
    """Factor of the penalties."""
    obstacles: Obstacles | None = None
    """Further penalties; None for none."""
    _bases: tuple[np.ndarray, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        s, powers = (np.arange(SAMPLES) + 0.5) / SAMPLES, np.arange(6)
        bases, factor = [], np.ones(6)
        for order in range(4 if np.isfinite(self.limits.jerk).any() else 3):
            bases.append(factor * s[:, None] ** np.maximum(powers - order, 0) @ _SHAPES)
            factor = factor * (powers - order)
        object.__setattr__(self, '_bases', tuple(bases))

    @property
    def bounds(self) -> PointBounds:
        """Limits of the points."""
        return PointBounds(self.limits.lower, self.limits.upper, self.limits.velocity)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the points' variables, (2, r + 1, n_joints)."""
        return 2, self.n_equations + 1, self.start.size

    def path(self, flat: np.ndarray) -> PointTrajectory:
        """Return the path of (d,) variables, through r + 3 points."""
        x, times = self._parted(flat[None])
        nodes = self._with_ends(self.bounds.sequence(x[0]))
        return trajectory_through(nodes, times[0], self.limits)

    def shrunk(self, flat: np.ndarray, factor: float) -> np.ndarray:
        """Return variables (count, d) with the excursions from the start scaled, in equal time."""
        size = int(np.prod(self.shape))
        points = self.bounds.sequence(flat[:, :size].reshape(-1, *self.shape))
        way = factor * (points.position - self.start)
        x = self.bounds.variables(WaypointSet(self.start + way, factor * points.velocity))
        return np.hstack([x.reshape(len(x), -1), flat[:, size:]])

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Return random starts, (count, d)."""
        x = random.standard_normal((count, *self.shape))
        return np.hstack([x.reshape(count, -1), np.log(self._usual_times(x))])

    def renew(self, random: np.random.Generator, flat: np.ndarray) -> None:
        """Draw some of the points again, in place, with the times beside them."""
        size = int(np.prod(self.shape))
        x = flat[:, :size].reshape(-1, *self.shape)
        new = renew_points(random, x)
        flat[:, :size] = x.reshape(len(flat), -1)
        beside = np.zeros((len(flat), self.n_equations + 2), dtype=bool)
        beside[:, :-1] |= new
        beside[:, 1:] |= new
        flat[:, size:][beside] = np.log(self._usual_times(x))[beside]

    def function(self, power: float) -> Function:
        """Return the cost for a smoothing p, see `descend_all`."""

        def function(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x, times = self._parted(flat)
            sequence = self.bounds.sequence(x)
            matrix, back = self.equations.linearised(sequence)
            values, slope = self.cost.value(matrix, power)
            by_position, by_velocity = back(slope)
            penalty, by_nodes, by_times = self._penalty(self._with_ends(sequence), times)
            # the first and the last point are given
            by_position += by_nodes.position[:, 1:-1]
            by_velocity += by_nodes.velocity[:, 1:-1]
            total = times.sum(axis=1, keepdims=True)
            by_logs = times * (by_times + TIME_WEIGHT / total)
            by_x = self.bounds.pull_back(x, by_position, by_velocity)
            values = values + penalty + TIME_WEIGHT * np.log(total[:, 0])
            return values, np.hstack([by_x.reshape(len(x), -1), by_logs])

        return function

    def penalty(self, flat: np.ndarray) -> np.ndarray:
        """Return the penalties of (count, d) variables, (count,)."""
        x, times = self._parted(flat)
        return self._penalty(self._with_ends(self.bounds.sequence(x)), times)[0]

    def _parted(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = int(np.prod(self.shape))
        # a step of the descent that tries much too long or short times must not overflow
        return flat[:, :size].reshape(-1, *self.shape), np.exp(np.clip(flat[:, size:], -5.0, 5.0))

    def _with_ends(self, sequence: WaypointSet) -> WaypointSet:
        ends = np.broadcast_to(self.start, (*sequence.position.shape[:-2], 1, self.start.size))
        return WaypointSet(
            np.concatenate([ends, sequence.position, ends], axis=-2),
            np.concatenate([0.0 * ends, sequence.velocity, 0.0 * ends], axis=-2),
        )

    def _usual_times(self, x: np.ndarray) -> np.ndarray:
        """(count, r + 2) times that velocities and accelerations about allow."""
        nodes = self._with_ends(self.bounds.sequence(x))
        way = np.abs(np.diff(nodes.position, axis=1))
        change = np.abs(np.diff(nodes.velocity, axis=1))
        needed = (
            1.5 * way / self.limits.velocity,
            np.sqrt(6.0 * way / self.limits.acceleration),
            2.0 * change / self.limits.acceleration,
            np.cbrt(60.0 * way / self.limits.jerk),
        )
        return np.maximum(np.max(needed, axis=(0, 3)), 0.05)

    def _penalty(
        self, nodes: WaypointSet, times: np.ndarray
    ) -> tuple[np.ndarray, WaypointSet, np.ndarray]:
        """Penalties (count,), their gradients by the points and by the times."""
        T = times[:, :, None]
        ends = [nodes.position[:, :-1], T * nodes.velocity[:, :-1]]
        ends += [nodes.position[:, 1:], T * nodes.velocity[:, 1:]]
        E = np.stack(ends, axis=2)
        scales = [1.0 / T**order for order in range(len(self._bases))]
        motion = [
            (basis @ E) * scale[:, :, None]
            for basis, scale in zip(self._bases, scales, strict=True)
        ]
        value, slopes = self._excess(motion)
        by_ends = sum(
            basis.T @ (slope * scale[:, :, None])
            for basis, slope, scale in zip(self._bases, slopes, scales, strict=True)
        )
        by_position, by_velocity = np.zeros_like(nodes.position), np.zeros_like(nodes.velocity)
        by_position[:, :-1] += by_ends[:, :, 0]
        by_position[:, 1:] += by_ends[:, :, 2]
        by_velocity[:, :-1] += T * by_ends[:, :, 1]
        by_velocity[:, 1:] += T * by_ends[:, :, 3]
        by_times = (by_ends[:, :, 1] * nodes.velocity[:, :-1]).sum(axis=2)
        by_times += (by_ends[:, :, 3] * nodes.velocity[:, 1:]).sum(axis=2)
        for order in range(1, len(motion)):
            by_times -= order * (slopes[order] * motion[order]).sum(axis=(2, 3)) / times
        return value, WaypointSet(by_position, by_velocity), by_times

    def _excess(self, motion: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return penalties of (count, r + 2, samples, n_joints) states, and their gradients."""
        limits = self.limits
        value, slopes = np.zeros(len(motion[0])), []
        sizes = limits.half_range, limits.velocity, limits.acceleration, limits.jerk
        centres = limits.middle, 0.0, 0.0, 0.0
        for states, centre, size in zip(motion, centres, sizes, strict=False):
            use = (states - centre) / (TIGHT * size)
            excess = np.maximum(np.abs(use) - 1.0, 0.0)
            value += self.weight / SAMPLES * (excess**2).sum(axis=(1, 2, 3))
            slope = np.where(excess > 0.0, 2.0 * excess * np.sign(use) / (TIGHT * size), 0.0)
            slopes.append(self.weight / SAMPLES * slope)
        if self.obstacles is not None:
            for k in range(len(value)):
                flat = [array[k].reshape(-1, self.start.size) for array in motion[:3]]
                penalty, gradients = self.obstacles(Motion(*flat))
                value[k] += self.weight * penalty
                for slope, gradient in zip(slopes[:3], gradients, strict=True):
                    slope[k] += self.weight * gradient.reshape(slope[k].shape)
        return value, slopes
