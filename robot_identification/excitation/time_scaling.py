# SPDX-License-Identifier: Apache-2.0
r"""
Closed-form shortest quintic between two points within all limits.

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
between them tells which ones are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from ..errors import ExcitationError
from .limits import Limits
from .points import PointTrajectory, spline_coefficients
from .sequence import Sequence

SHORTEST = 1e-2
"""Least time from one point to the next, for points between which nothing moves [s]."""

_LONGEST = 1e4
_ROUNDING = 1e-11


def segment_shapes() -> np.ndarray:
    """Return (6, 4) ascending coefficients in s for a unit of q_a, u dq_a, q_b and u dq_b."""
    unit, time = np.eye(4), np.array([0.0, 1.0])
    return spline_coefficients(time, unit[[0, 2]], unit[[1, 3]], np.zeros((2, 4)))[0]


_SHAPES = segment_shapes()


class JointLimits(NamedTuple):
    """Limits of one joint."""

    lower: float
    upper: float
    velocity: float = np.inf
    acceleration: float = np.inf
    jerk: float = np.inf


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

    def keeps(self, time: float, limits: JointLimits) -> bool:
        """Return whether all limits are kept in a given time."""
        more = 1.0 + _ROUNDING
        jerk = (self.rest + time * self.run).deriv(3)
        if np.abs(jerk(_critical(jerk.deriv()))).max() / time**3 > more * limits.jerk:
            return False
        lowest, highest, speed, push = self.extremes(time)
        slack = _ROUNDING * max(1.0, abs(lowest), abs(highest))
        within = lowest >= limits.lower - slack and highest <= limits.upper + slack
        return within and speed <= more * limits.velocity and push <= more * limits.acceleration

    def changes(self, limits: JointLimits) -> Iterator[float]:
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

    Parameters
    ----------
    start, end:
        (2, n_joints) position and velocity.
    limits:
        Limits of position, velocity, acceleration and jerk.

    Returns
    -------
    list of tuple of float
        Closed intervals in ascending order [s].

    """
    segments = _segments(start, end)
    arrays = (limits.lower, limits.upper, limits.velocity, limits.acceleration, limits.jerk)
    bounds = [JointLimits(*row) for row in np.transpose(arrays).tolist()]
    changes = {SHORTEST, _LONGEST}
    for segment, bound in zip(segments, bounds, strict=True):
        changes |= {float(u) for u in segment.changes(bound) if SHORTEST < u < _LONGEST}
    times = np.array(sorted(changes))
    intervals: list[tuple[float, float]] = []
    for low, high in zip(times[:-1], times[1:], strict=True):
        middle = np.sqrt(low * high)
        if all(s.keeps(middle, bound) for s, bound in zip(segments, bounds, strict=True)):
            if intervals and intervals[-1][1] == low:
                intervals[-1] = (intervals[-1][0], float(high))
            else:
                intervals.append((float(low), float(high)))
    return intervals


def shortest_times(
    sequence: Sequence, limits: Limits, go_on: Callable[[], bool] = lambda: True
) -> np.ndarray:
    """
    Return the shortest time (r,) of each segment within the limits, NaN where there is none [s].

    Parameters
    ----------
    sequence:
        r + 1 points.
    limits:
        Limits in force.
    go_on:
        Called before each segment; False leaves the times of those that are left NaN.

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
            times[i] = min(low * (1.0 + _ROUNDING), high)
    return times


def through(sequence: Sequence, times: np.ndarray, limits: Limits) -> PointTrajectory:
    """
    Return the quintics through the points of a sequence, in given times.

    Parameters
    ----------
    sequence:
        r + 1 points.
    times:
        (r,) [s], as `shortest_times` gives them.
    limits:
        Limits in force, for the names of the joints and of what is in the way.

    Raises
    ------
    ExcitationError
        naming a joint, where a time is NaN.

    """
    missing = np.flatnonzero(np.isnan(times))
    if missing.size:
        raise _impossible(sequence, int(missing[0]), limits)
    return PointTrajectory(
        limits.joints,
        np.concatenate([[0.0], np.cumsum(times)]),
        sequence.position,
        sequence.velocity,
        np.zeros_like(sequence.position),
    )


def _impossible(sequence: Sequence, segment: int, limits: Limits) -> ExcitationError:
    """Return the error that names the joint which most hinders a segment."""
    start, end = (
        np.stack([sequence.position[i], sequence.velocity[i]]) for i in (segment, segment + 1)
    )
    longest = [_longest(s, limits, j) for j, s in enumerate(_segments(start, end))]
    j = int(np.argmin(longest))
    return ExcitationError(
        f"from point {segment} to {segment + 1}, joint '{limits.joints[j]}' leaves its position "
        f'limits unless it takes at most {longest[j]:.3g} s, which velocity and acceleration '
        'limits do not allow',
        joint=limits.joints[j],
        key='position',
        value=longest[j],
        remedy='let the points keep further from the limits, or slower near them',
    )


def _longest(segment: Segment, limits: Limits, joint: int) -> float:
    """Longest time that keeps the position limits of one joint [s]."""
    bound = JointLimits(limits.lower[joint], limits.upper[joint])
    if segment.keeps(_LONGEST, bound):
        return _LONGEST
    times = (u for u in segment._position_changes(*bound[:2]) if u > 0.0)
    return max((u for u in times if segment.keeps(u * (1.0 - 1e-6), bound)), default=0.0)


def _segments(start: np.ndarray, end: np.ndarray) -> list[Segment]:
    return [
        Segment((float(qa), float(qb)), (float(va), float(vb)))
        for qa, va, qb, vb in zip(start[0], start[1], end[0], end[1], strict=True)
    ]


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
