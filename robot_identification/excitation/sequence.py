# SPDX-License-Identifier: Apache-2.0
r"""
Sequences of points (q, dq) whose energy differences tell the base parameters well apart.

Gautier and Khalil (1992), section 4.  A sequence of r + 1 points gives r equations
``W_i = h(point i + 1) - h(point i)``, so every point but the ends is used twice.  Limits are kept
by a change of variables, ``q = q_I + (q_F - q_I) sin^2 x`` and ``dq = dq_M sin x``; what is left
is descents without constraints from normal random numbers, along the exact gradient.

Where a descent ends depends on its start.  So many are begun and the good ones carried on, and
then points of the best sequences are drawn anew and the sequences taken down again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..regressor.energy import EnergyRegressor
from .descent import descend_all, Function
from .point_cost import PointCost

SELECTION = ((2.0, 60, 3), (2.0, 100, 2), (8.0, 150, 1), (40.0, 200, 1))
"""
Descents from random starts: p of the smoothing, evaluations, and of how many starts one is kept.

A smooth cost leads to where a sharp one is worth while.
"""

RENEWAL = ((8.0, 50, 3), (40.0, 120, 1))
"""The same for sequences some of whose points are new."""

FINISH = ((100.0, 200, 1), (300.0, 300, 3))
"""The same for the best sequences in the end."""

SECOND_COST = ((2.0, 150, 1), (4.0, 150, 1), (8.0, 200, 1), (20.0, 200, 2), (60.0, 300, 6))
"""The same for the best sequence, moved a little, by the cost that is meant in the end."""

MOVED, COPIES = 0.02, 12
"""How much its variables are moved, and how often."""

CHILDREN = 24
"""Sequences with new points in a round."""

POPULATION = 12
"""Sequences that are kept from round to round."""

NEW_POINTS = 3
"""Largest number of points that are drawn anew in a sequence."""

_ALIKE = 2e-3
"""Sequences whose costs differ by less than this share count as the same."""


@dataclass(frozen=True)
class Sequence:
    """
    Points of a motion.

    Attributes
    ----------
    position, velocity:
        (..., r + 1, n_joints) [rad, rad/s; m, m/s]; axes before these two are for several
        sequences at once.

    """

    position: np.ndarray
    velocity: np.ndarray


@dataclass(frozen=True)
class EnergyEquations:
    """
    The matrix of energy differences of a sequence.

    Attributes
    ----------
    regressor:
        The robot's energies.
    columns:
        (b,) base parameters, as places in its layout.
    scale:
        (b,) what the columns are divided by, fixed beforehand; 1 leaves them in SI units.

    """

    regressor: EnergyRegressor
    columns: np.ndarray
    scale: np.ndarray

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.columns.size

    def matrix(self, sequence: Sequence) -> np.ndarray:
        """Return W, (..., r, b), of one sequence or several."""
        return self.linearised(sequence)[0]

    def linearised(
        self, sequence: Sequence
    ) -> tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]:
        """Return W and what takes a gradient by W back to positions and velocities."""
        shape = sequence.position.shape
        rows, pull_back = self.regressor.linearised(
            sequence.position.reshape(-1, shape[-1]), sequence.velocity.reshape(-1, shape[-1])
        )
        matrix = np.diff(rows[:, self.columns].reshape(*shape[:-1], -1), axis=-2) / self.scale

        def back(by_matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            by_rows = np.zeros((*shape[:-1], rows.shape[1]))
            scaled = by_matrix / self.scale
            # every point but the ends stands in two differences
            by_rows[..., 1:, self.columns] += scaled
            by_rows[..., :-1, self.columns] -= scaled
            by_position, by_velocity = pull_back(by_rows.reshape(-1, rows.shape[1]))
            return by_position.reshape(shape), by_velocity.reshape(shape)

        return matrix, back


@dataclass(frozen=True)
class Bounds:
    """
    Limits of points, and the variables that keep them.

    Attributes
    ----------
    lower, upper:
        (n_joints,) position [rad or m].
    velocity:
        (n_joints,) largest speed [rad/s or m/s].

    """

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray

    def sequence(self, x: np.ndarray) -> Sequence:
        """Return the points of variables x, (..., 2, r + 1, n_joints)."""
        width = self.upper - self.lower
        return Sequence(
            self.lower + width * np.sin(x[..., 0, :, :]) ** 2,
            self.velocity * np.sin(x[..., 1, :, :]),
        )

    def pull_back(
        self, x: np.ndarray, by_position: np.ndarray, by_velocity: np.ndarray
    ) -> np.ndarray:
        """Turn a gradient by the points into one by the variables x."""
        width = self.upper - self.lower
        return np.stack(
            [
                by_position * width * np.sin(2.0 * x[..., 0, :, :]),
                by_velocity * self.velocity * np.cos(x[..., 1, :, :]),
            ],
            axis=-3,
        )

    def variables(self, sequence: Sequence) -> np.ndarray:
        """Return variables of points within the limits, (..., 2, r + 1, n_joints)."""
        share = (sequence.position - self.lower) / (self.upper - self.lower)
        return np.stack(
            [
                np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0))),
                np.arcsin(np.clip(sequence.velocity / self.velocity, -1.0, 1.0)),
            ],
            axis=-3,
        )

    def random(self, random: np.random.Generator, n_points: int) -> Sequence:
        """Return points that are uniform within the limits."""
        shape = (n_points, self.lower.size)
        return Sequence(
            random.uniform(self.lower, self.upper, shape),
            random.uniform(-self.velocity, self.velocity, shape),
        )


@dataclass(frozen=True)
class SearchResult:
    """
    Result of a search.

    Attributes
    ----------
    x:
        (k, d) variables of the best sequences, the best one first.
    costs:
        (k,) their costs, without smoothing.

    """

    x: np.ndarray
    costs: np.ndarray


@dataclass(frozen=True)
class WaypointProblem:
    """
    Problem of the search for waypoints.

    Attributes
    ----------
    function:
        Gives the logarithm of the cost with its gradient for a smoothing p, see `descend_all`.
    draw:
        Draws a number of random starts, (count, d).
    renew:
        Draws some of the points of sequences (count, d) anew, in place.

    """

    function: Callable[[float], Function]
    draw: Callable[[np.random.Generator, int], np.ndarray]
    renew: Callable[[np.random.Generator, np.ndarray], None]


def search(
    problem: WaypointProblem,
    random: np.random.Generator,
    *,
    starts: int,
    rounds: int,
    look: Callable[[float], bool] = lambda cost: True,
    go_on: Callable[[], bool] = lambda: True,
    then: WaypointProblem | None = None,
) -> SearchResult:
    """
    Search for sequences of least cost.

    Parameters
    ----------
    problem:
        What is minimised over which variables.
    random:
        What draws the starts and new points.
    starts:
        Random starts.
    rounds:
        Rounds in which points are drawn anew.
    look:
        Called with the best (smoothed) cost after each step; False ends the search early.
    go_on:
        Asked before each evaluation; False ends the search where it is.
    then:
        The problem with the cost that is meant, where ``problem`` has the one to search by first
        (see `PointCost.first`).

    """
    function = problem.function
    x, values = _select(function, problem.draw(random, starts), SELECTION, look, go_on)
    x, values = _best_distinct(x, values)
    in_time = True
    for _ in range(rounds):
        in_time = in_time and look(float(np.exp(values[0])))
        if not in_time:
            break
        children = x[random.integers(0, len(x), CHILDREN)]
        problem.renew(random, children)
        new, costs = _select(function, children, RENEWAL, look, go_on)
        x, values = _best_distinct(np.concatenate([x, new]), np.concatenate([values, costs]))
    if in_time:
        x, _ = _select(function, x[:3], FINISH, look, go_on)
    if then is not None and go_on():
        function = then.function
        x = x[:1] + MOVED * random.standard_normal((COPIES, x.shape[1]))
        x, _ = _select(function, x, SECOND_COST, look, go_on)
    costs = np.exp(function(np.inf)(x)[0])
    order = np.argsort(costs)
    return SearchResult(x[order], costs[order])


def _select(
    function: Callable[[float], Function],
    x: np.ndarray,
    stages: tuple[tuple[float, int, int], ...],
    look: Callable[[float], bool],
    go_on: Callable[[], bool],
) -> tuple[np.ndarray, np.ndarray]:
    """Go down stage by stage, fewer at each one; return those left and their values."""
    for power, evaluations, share in stages:
        found = descend_all(function(power), x, evaluations, go_on=go_on)
        order = np.argsort(found.values)[: -(-len(x) // share)]
        x, values = found.x[order], found.values[order]
        if not look(float(np.exp(values[0]))):
            break
    return x, values


def _best_distinct(x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kept: list[int] = []
    for i in np.argsort(values):
        if all(abs(values[i] - values[j]) > _ALIKE for j in kept):
            kept.append(int(i))
    return x[kept[:POPULATION]], values[kept[:POPULATION]]


def renew_points(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """
    Draw some of the points of sequences anew, in place.

    Parameters
    ----------
    random:
        What draws.
    x:
        (count, 2, r + 1, n_joints) variables.

    Returns
    -------
    np.ndarray
        (count, r + 1) bool, the points that are new.

    """
    new = np.zeros((len(x), x.shape[2]), dtype=bool)
    for child, chosen in zip(x, new, strict=True):
        count = random.integers(1, NEW_POINTS + 1)
        chosen[random.choice(x.shape[2], count, replace=False)] = True
        child[:, chosen] = random.standard_normal((2, count, x.shape[3]))
    return new


def point_problem(
    equations: EnergyEquations, bounds: Bounds, cost: PointCost, n_equations: int
) -> WaypointProblem:
    """
    Return the problem of the paper: points alone, wherever the path between them leads.

    Its variables are those of `Bounds.sequence`, made flat.
    """
    shape = (2, n_equations + 1, bounds.lower.size)

    def smoothed(power: float) -> Function:
        def function(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x = flat.reshape(-1, *shape)
            matrix, back = equations.linearised(bounds.sequence(x))
            values, slope = cost.value(matrix, power)
            return values, bounds.pull_back(x, *back(slope)).reshape(flat.shape)

        return function

    def draw(random: np.random.Generator, count: int) -> np.ndarray:
        return random.standard_normal((count, int(np.prod(shape))))

    def renew(random: np.random.Generator, flat: np.ndarray) -> None:
        renew_points(random, flat.reshape(-1, *shape))

    return WaypointProblem(smoothed, draw, renew)
