# SPDX-License-Identifier: Apache-2.0
"""
Sequences of points whose path keeps the limits, too.

Between points within the limits, a quintic mostly leaves them: with random points, one segment of
one joint in six leaves the position limits in the shortest time.  Shrinking the limits of the
points (Gautier and Khalil 1992, section 5.2) does not help where all joints wait for the slowest
one: a joint that passes a point at speed goes on with it.  So the times from point to point are
variables beside the points, and excess of the limits between the points is a penalty with exact
gradient.  `time_scaling` decides on the times at last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..data.recording import Motion
from .descent import Function
from .limits import Limits
from .point_cost import PointCost
from .sequence import Bounds, EnergyEquations, renew_points, Sequence, WaypointProblem
from .time_scaling import segment_shapes

SAMPLES = 12
"""Instants of a segment at which the path is looked at."""

TIGHT = 0.97
"""Share of the limits that the samples keep, so that what is between them keeps the limits."""

TIME_WEIGHT = 0.02
"""What the logarithm of the duration counts, beside that of the cost."""

Obstacles = Callable[[Motion], tuple[float, list[np.ndarray]]]
"""Takes a motion to a penalty and its gradients by position, velocity and acceleration."""


@dataclass(frozen=True)
class Path:
    """
    Points and times of a motion from rest to rest.

    Attributes
    ----------
    points:
        r + 3 points, the first and the last one at rest at the start.
    times:
        (r + 2,) from point to point [s].

    """

    points: Sequence
    times: np.ndarray


@dataclass(frozen=True)
class PathProblem:
    """
    The cost of points, with penalties for what the path between them exceeds its limits by.

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
        s = (np.arange(SAMPLES) + 0.5) / SAMPLES
        powers = np.arange(6)
        shapes = segment_shapes()
        value = s[:, None] ** powers
        first = powers * s[:, None] ** np.maximum(powers - 1, 0)
        second = powers * (powers - 1) * s[:, None] ** np.maximum(powers - 2, 0)
        third = powers * (powers - 1) * (powers - 2) * s[:, None] ** np.maximum(powers - 3, 0)
        matrices = [value, first, second]
        if np.isfinite(self.limits.jerk).any():
            matrices.append(third)
        bases = tuple(matrix @ shapes for matrix in matrices)
        object.__setattr__(self, '_bases', bases)

    @property
    def bounds(self) -> Bounds:
        """Limits of the points."""
        return Bounds(self.limits.lower, self.limits.upper, self.limits.velocity)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the points' variables, (2, r + 1, n_joints)."""
        return 2, self.n_equations + 1, self.start.size

    def problem(self) -> WaypointProblem:
        """Return the problem of `search`; variables are points and logarithms of the times."""
        return WaypointProblem(self.function, self.draw, self.renew)

    def path(self, flat: np.ndarray) -> Path:
        """Return the path of (d,) variables."""
        x, times = self._parted(flat[None])
        nodes = self._with_ends(self.bounds.sequence(x))
        return Path(Sequence(nodes.position[0], nodes.velocity[0]), times[0])

    def shrunk(self, flat: np.ndarray, factor: float) -> np.ndarray:
        """Return variables (count, d) with the excursions from the start scaled, in equal time."""
        size = int(np.prod(self.shape))
        points = self.bounds.sequence(flat[:, :size].reshape(-1, *self.shape))
        way = factor * (points.position - self.start)
        x = self.bounds.variables(Sequence(self.start + way, factor * points.velocity))
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

    def _with_ends(self, sequence: Sequence) -> Sequence:
        ends = np.broadcast_to(self.start, (*sequence.position.shape[:-2], 1, self.start.size))
        return Sequence(
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
        self, nodes: Sequence, times: np.ndarray
    ) -> tuple[np.ndarray, Sequence, np.ndarray]:
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
        return value, Sequence(by_position, by_velocity), by_times

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
