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

One file: times of the segments and points that allow them depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from ..data.recording import Motion
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


class SegmentLimits(NamedTuple):
    """Limits of one joint."""

    lower: float
    upper: float
    velocity: float
    acceleration: float
    jerk: float


@dataclass(frozen=True)
class Segment:
    """
    The way of one joint from one point to the next.

    Attributes
    ----------
    ends, speeds:
        Position and velocity at both ends [rad, rad/s; m, m/s].

    """

    ends: tuple[float, float]
    speeds: tuple[float, float]

    @property
    def rest(self) -> Polynomial:
        """The position's part b of s that does not depend on the time u."""
        return Polynomial(_SHAPES[:, [0, 2]] @ self.ends)

    @property
    def run(self) -> Polynomial:
        """The position's part m of s that grows with u."""
        return Polynomial(_SHAPES[:, [1, 3]] @ self.speeds)

    def extremes(self, time: float) -> tuple[float, float, float, float]:
        """Return lowest and highest position, largest speed and acceleration in a given time."""
        position = self.rest + time * self.run
        velocity, acceleration = position.deriv(), position.deriv(2)
        q = position(_critical(velocity))
        v = velocity(_critical(acceleration))
        a = acceleration(_critical(position.deriv(3)))
        speed, push = np.abs(v).max() / time, np.abs(a).max() / time**2
        return float(q.min()), float(q.max()), float(speed), float(push)

    def keeps(self, time: float, limits: SegmentLimits) -> bool:
        """Return whether all limits are kept in a given time."""
        more = 1.0 + _LIMIT_TOLERANCE
        jerk = (self.rest + time * self.run).deriv(3)
        if np.abs(jerk(_critical(jerk.deriv()))).max() / time**3 > more * limits.jerk:
            return False
        lowest, highest, speed, push = self.extremes(time)
        slack = _LIMIT_TOLERANCE * max(1.0, abs(lowest), abs(highest))
        within = lowest >= limits.lower - slack and highest <= limits.upper + slack
        return within and speed <= more * limits.velocity and push <= more * limits.acceleration

    def changes(self, limits: SegmentLimits) -> Iterator[float]:
        """Iterate over the times at which a limit may begin or cease to be kept."""
        yield from self._position_changes(limits.lower, limits.upper)
        yield from self._velocity_changes(limits.velocity)
        yield from self._acceleration_changes(limits.acceleration)
        if np.isfinite(limits.jerk):
            yield from self._jerk_changes(limits.jerk)

    def _position_changes(self, lower: float, upper: float) -> Iterator[float]:
        b, m = self.rest, self.run
        for limit in (lower, upper):
            if np.isfinite(limit):
                s = _inner_roots(b.deriv() * m + (limit - b) * m.deriv())
                run = m(s)
                # a run of rounding size asks for no time that there is
                some = np.abs(run) > np.finfo(float).eps * np.abs(m.coef).max()
                yield from (limit - b(s[some])) / run[some]

    def _velocity_changes(self, velocity: float) -> Iterator[float]:
        distance = self.ends[1] - self.ends[0]
        if distance == 0.0:
            return
        # b' = c s^2 (1 - s)^2, so x grows to the least of left / (c s^2 (1 - s)^2)
        c = 30.0 * abs(distance)
        left = velocity - np.sign(distance) * self.run.deriv()
        both = Polynomial([0.0, 1.0, -1.0])
        s = _inner_roots(left.deriv() * both - 2.0 * left * both.deriv())
        x = [*(left(s) / (c * both(s) ** 2)), *(0.5 * left.deriv(2)(np.array([0.0, 1.0])) / c)]
        yield from (1.0 / value for value in x if value > 0.0)

    def _acceleration_changes(self, acceleration: float) -> Iterator[float]:
        l1, l2, l3 = self._accelerations()
        x = Polynomial([0.0, 1.0])
        for limit in (acceleration, -acceleration):
            # the discriminant over x^2
            discriminant = (
                x**2 * l1**2 * (l2**2 - 4.0 * l1 * l3)
                + x * limit * l2 * (4.0 * l2**2 - 18.0 * l1 * l3)
                - 27.0 * limit**2 * l3**2
            )
            yield from (1.0 / root for root in _real_roots(discriminant) if root > 0.0)

    def _jerk_changes(self, jerk: float) -> Iterator[float]:
        # dddq = x^2 (l_1 + 2 l_2 s + 3 l_3 s^2)
        l1, l2, l3 = self._accelerations()
        square = Polynomial([0.0, 0.0, 1.0])
        for limit in (jerk, -jerk):
            for reached in (
                square * l1 - limit,
                square * (l1 + 2.0 * l2 + 3.0 * l3) - limit,
                square * (l2**2 - 3.0 * l1 * l3) + 3.0 * limit * l3,
            ):
                yield from (1.0 / root for root in _real_roots(reached) if root > 0.0)

    def _accelerations(self) -> list[Polynomial]:
        """Return l_1, l_2, l_3, linear in x, of ddq = x (l_1 s + l_2 s^2 + l_3 s^3)."""
        steady, changing = self.rest.deriv(2).coef, self.run.deriv(2).coef
        return [
            Polynomial([changing[i] if i < changing.size else 0.0,
                        steady[i] if i < steady.size else 0.0])
            for i in (1, 2, 3)
        ]  # fmt: skip


def allowed_times(start: np.ndarray, end: np.ndarray, limits: Limits) -> list[tuple[float, float]]:
    """
    Return the times in which all joints can go from one point to the next.

    Points are (2, n_joints) position and velocity.  The times are closed intervals in ascending
    order [s].
    """
    arrays = (limits.lower, limits.upper, limits.velocity, limits.acceleration, limits.jerk)
    rows = np.transpose([*start, *end, *arrays]).tolist()
    segments = [
        (Segment((qa, qb), (va, vb)), SegmentLimits(*bound)) for qa, va, qb, vb, *bound in rows
    ]
    changes = {LEAST_INTERVAL, _GREATEST_INTERVAL}
    for segment, bound in segments:
        changes |= {
            float(u) for u in segment.changes(bound) if LEAST_INTERVAL < u < _GREATEST_INTERVAL
        }
    times = np.array(sorted(changes))
    intervals: list[tuple[float, float]] = []
    for low, high in zip(times[:-1], times[1:], strict=True):
        middle = np.sqrt(low * high)
        if all(segment.keeps(middle, bound) for segment, bound in segments):
            if intervals and intervals[-1][1] == low:
                intervals[-1] = (intervals[-1][0], float(high))
            else:
                intervals.append((float(low), float(high)))
    return intervals


def shortest_times(
    sequence: WaypointSet, limits: Limits, go_on: Callable[[], bool] = lambda: True
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
    sequence: WaypointSet, times: np.ndarray, limits: Limits
) -> PointTrajectory:
    """Return the quintics through the r + 1 points of a sequence, in times (r,) [s]."""
    return PointTrajectory(
        limits.joints,
        np.concatenate([[0.0], np.cumsum(times)]),
        sequence.position,
        sequence.velocity,
        np.zeros_like(sequence.position),
    )


def _critical(polynomial: Polynomial) -> np.ndarray:
    """Places in [0, 1] where an antiderivative may be extreme."""
    return np.concatenate([[0.0, 1.0], _inner_roots(polynomial)])


def _inner_roots(polynomial: Polynomial) -> np.ndarray:
    roots = _real_roots(polynomial)
    return roots[(roots > 0.0) & (roots < 1.0)]


def _real_roots(polynomial: Polynomial) -> np.ndarray:
    """Roots with an imaginary part that is rounding, of which double ones have much."""
    coefficients = polynomial.coef
    size = np.abs(coefficients).max()
    if size == 0.0:
        return np.empty(0)
    # leading coefficients that are rounding would make roots out of nothing
    top = np.flatnonzero(np.abs(coefficients) > 1e-14 * size)[-1]
    roots = Polynomial(coefficients[: top + 1]).roots()
    near = np.abs(roots.imag) <= 1e-5 * np.maximum(np.abs(roots), 1e-3)
    return roots.real[near]


SAMPLES = 12
"""Instants of a segment at which the path is looked at."""

TIGHT = 0.97
"""Share of the limits that the samples keep, so that what is between them keeps the limits."""

TIME_WEIGHT = 0.02
"""What the logarithm of the duration counts, beside that of the cost."""

Obstacles = Callable[[Motion], tuple[float, list[np.ndarray]]]
"""Takes a motion to a penalty and its gradients by position, velocity and acceleration."""


@dataclass(frozen=True)
class TimedWaypoints:
    """
    Points and times of a motion from rest to rest.

    Attributes
    ----------
    points:
        r + 3 points, the first and the last one at rest at the start.
    times:
        (r + 2,) from point to point [s].

    """

    points: WaypointSet
    times: np.ndarray


@dataclass(frozen=True)
class PathProblem:
    """
    The cost of points, with penalties for what the path between them exceeds its limits by.

    Variables (d,) are those of the points and the logarithms of the times (`WaypointProblem`).

    Attributes
    ----------
    equations, cost:
        What is minimised.
    limits:
        Limits of the path; finite.
    start:
        (n_joints,) where it starts and ends [rad or m].
    n_equations:
        r, hence r + 1 points beside the start and the end.
    weight:
        Factor of the penalties.
    obstacles:
        Further penalties; None for none.

    """

    equations: EnergyEquations
    cost: PointCost
    limits: Limits
    start: np.ndarray
    n_equations: int
    weight: float = 20.0
    obstacles: Obstacles | None = None
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

    def path(self, flat: np.ndarray) -> TimedWaypoints:
        """Return the path of (d,) variables."""
        x, times = self._parted(flat[None])
        nodes = self._with_ends(self.bounds.sequence(x))
        return TimedWaypoints(WaypointSet(nodes.position[0], nodes.velocity[0]), times[0])

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
        """Draw some of the points anew, in place, with the times beside them."""
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
        by_velocity = 1.5 * way / self.limits.velocity
        by_acceleration = np.sqrt(6.0 * way / self.limits.acceleration)
        by_change = 2.0 * change / self.limits.acceleration
        by_jerk = np.cbrt(60.0 * way / self.limits.jerk)
        needed = np.maximum(np.maximum(by_velocity, by_acceleration), by_change)
        needed = np.maximum(needed, by_jerk)
        return np.maximum(needed.max(axis=2), 0.05)

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
        middle, half = 0.5 * (limits.lower + limits.upper), 0.5 * (limits.upper - limits.lower)
        value, slopes = np.zeros(len(motion[0])), []
        sizes = (half, limits.velocity, limits.acceleration, limits.jerk)[: len(motion)]
        centres = (middle, 0.0, 0.0, 0.0)[: len(motion)]
        for states, centre, size in zip(motion, centres, sizes, strict=True):
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
