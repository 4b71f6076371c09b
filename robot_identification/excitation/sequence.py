# SPDX-License-Identifier: Apache-2.0
"""
Sequences of points (q, dq) whose energy differences distinguish the base parameters well.

Gautier and Khalil (1992), section 4.  A sequence of r + 1 points gives r equations
``W_i = h(point i + 1) - h(point i)``, so every point but the ends is used twice.  Limits are kept
by a change of variables, ``q = q_I + (q_F - q_I) sin^2 x`` and ``dq = dq_M sin x``; what is left
is descents without constraints from normal random numbers, along the exact gradient of the cost
(`criteria.PointCost`).

SciPy's optimisers work on one start at a time.  With variables as few as those of a sequence of
points, nearly all of an evaluation is the overhead of many small operations, which evaluating all
starts together shares out: ten times as many starts in the same time (`descend_all`).  Each start
runs its own limited-memory BFGS (Nocedal and Wright 2006, algorithms 7.4 and 7.5), with
backtracking; they share nothing but the calls of the function.

Where a descent ends depends on its start.  So many are begun and the good ones carried on, and
then points of the best sequences are drawn again and the sequences taken down again (`search`).

References
----------
Gautier, Khalil, "Exciting trajectories for the identification of base inertial parameters of
robots", Int. J. Robotics Research 11(4), 1992.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ..regressor.energy import EnergyRegressor

NEW_POINTS = 3
"""Largest number of points that are drawn again in a sequence."""


@dataclass(frozen=True)
class WaypointSet:
    """Points of a motion."""

    position: np.ndarray
    velocity: np.ndarray
    """
    (..., r + 1, n_joints) [rad, rad/s; m, m/s]; axes before these two are for several
    sequences at once.
    """


@dataclass(frozen=True)
class EnergyEquations:
    """The matrix of energy differences of a sequence."""

    regressor: EnergyRegressor
    """The robot's energies."""
    columns: np.ndarray
    """(b,) base parameters, as places in its layout."""
    scale: np.ndarray
    """(b,) what the columns are divided by, fixed beforehand; 1 leaves them in SI units."""

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.columns.size

    def matrix(self, sequence: WaypointSet) -> np.ndarray:
        """Return W, (..., r, b), of one sequence or several."""
        return self.linearised(sequence)[0]

    def linearised(
        self, sequence: WaypointSet
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
class PointBounds:
    """Limits of points, and the variables that keep them."""

    lower: np.ndarray
    upper: np.ndarray
    """(n_joints,) position [rad or m]."""
    velocity: np.ndarray
    """(n_joints,) largest speed [rad/s or m/s]."""

    def sequence(self, x: np.ndarray) -> WaypointSet:
        """Return the points of variables x, (..., 2, r + 1, n_joints)."""
        width = self.upper - self.lower
        return WaypointSet(
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

    def variables(self, sequence: WaypointSet) -> np.ndarray:
        """Return variables of points within the limits, (..., 2, r + 1, n_joints)."""
        share = (sequence.position - self.lower) / (self.upper - self.lower)
        return np.stack(
            [
                np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0))),
                np.arcsin(np.clip(sequence.velocity / self.velocity, -1.0, 1.0)),
            ],
            axis=-3,
        )

    def random(self, random: np.random.Generator, n_points: int) -> WaypointSet:
        """Return points that are uniform within the limits."""
        shape = (n_points, self.lower.size)
        return WaypointSet(
            random.uniform(self.lower, self.upper, shape),
            random.uniform(-self.velocity, self.velocity, shape),
        )


def renew_points(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """
    Draw some of the points of sequences again, in place, and return which, (count, r + 1).

    ``x`` are variables (count, 2, r + 1, n_joints).
    """
    new = np.zeros((len(x), x.shape[2]), dtype=bool)
    for child, chosen in zip(x, new, strict=True):
        count = random.integers(1, NEW_POINTS + 1)
        chosen[random.choice(x.shape[2], count, replace=False)] = True
        child[:, chosen] = random.standard_normal((2, count, x.shape[3]))
    return new


# -------------------------------------------------------------------------------------- descents


@dataclass(frozen=True)
class DescentConstants:
    """Constants of a descent."""

    sufficient_share: float = 1e-4
    """Share of the decrease that the slope promises which a step has to bring."""
    curvature_steps: int = 12
    """Steps that the curvature is taken from."""
    patience: int = 10
    """Steps that have to bring something together, or a start rests."""
    least_curvature: float = 1e-10
    """Least curvature to learn of, relative to a step's length and the gradient's change."""


DESCENT = DescentConstants()


Function = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Takes (k, d) variables of k of the starts to their values (k,) and gradients (k, d)."""


class Descents(NamedTuple):
    """Variables (s, d) to which descents have come, and the values (s,) of the function there."""

    x: np.ndarray
    values: np.ndarray


def descend_all(
    function: Function,
    x: np.ndarray,
    evaluations: int,
    *,
    tolerance: float = 1e-5,
    go_on: Callable[[], bool] = lambda: True,
) -> Descents:
    """
    Go down from each of several starts.

    Parameters
    ----------
    function:
        Value and gradient of any number of the starts.
    x:
        (s, d) starts.
    evaluations:
        How many times each start is evaluated at most.
    tolerance:
        A start rests when `DESCENT.patience` steps in a row have brought less together.
    go_on:
        Asked before each evaluation; False ends all descents where they are.

    """
    state = _State(function, x)
    for _ in range(evaluations - 1):
        active = np.flatnonzero(~state.resting)
        if active.size == 0 or not go_on():
            break
        trial = state.x[active] + state.step[active, None] * state.direction[active]
        state.take(active, trial, *function(trial), tolerance)
    return Descents(state.x, state.values)


class _State:
    """All descents; the first axis of each array is the start."""

    def __init__(self, function: Function, x: np.ndarray) -> None:
        self.x = np.array(x, dtype=float)
        self.values, self.gradient = (np.array(each) for each in function(self.x))
        self.direction = -self.gradient
        starts, steps = len(x), DESCENT.curvature_steps
        self.step = np.ones(starts)
        # (s, steps, d), oldest first; zero where there is none yet
        self.moves, self.changes = np.zeros((2, starts, steps, x.shape[1]))
        # (s, steps) 1 / (move . change), likewise
        self.inverse = np.zeros((starts, steps))
        # (s, patience) values of the last steps
        self.recent = np.full((starts, DESCENT.patience), np.inf)
        self.resting = np.asarray(~self.gradient.any(axis=1))
        self.aim(np.arange(starts))

    def take(
        self,
        active: np.ndarray,
        trial: np.ndarray,
        values: np.ndarray,
        gradient: np.ndarray,
        tolerance: float,
    ) -> None:
        """Accept the trials of the starts ``active`` that are good enough, shorten the others."""
        slope = (self.gradient[active] * self.direction[active]).sum(axis=1)
        promised = self.step[active] * slope
        with np.errstate(invalid='ignore'):
            good = values <= self.values[active] + DESCENT.sufficient_share * promised
        self._shorten(active[~good], values[~good], slope[~good])
        taken = active[good]
        self._remember(taken, trial[good] - self.x[taken], gradient[good] - self.gradient[taken])
        self.x[taken], self.values[taken] = trial[good], values[good]
        self.gradient[taken] = gradient[good]
        self.recent[taken] = np.roll(self.recent[taken], -1, axis=1)
        gained = self.recent[taken, -1] - values[good]
        self.recent[taken, -1] = values[good]
        with np.errstate(invalid='ignore'):
            slow = self.recent[taken, 0] - values[good] < tolerance
        flat = ~self.gradient[taken].any(axis=1)
        self.resting[taken[(slow & np.isfinite(gained)) | flat]] = True
        self.aim(taken)

    def _shorten(self, starts: np.ndarray, values: np.ndarray, slope: np.ndarray) -> None:
        """Shorten steps to the minimum of the parabola through what is known of them."""
        step = self.step[starts]
        rise = values - self.values[starts] - step * slope
        with np.errstate(divide='ignore', invalid='ignore'):
            share = -0.5 * step * slope / rise
        self.step[starts] = step * np.clip(np.nan_to_num(share, nan=0.1), 0.1, 0.5)
        tiny = starts[self.step[starts] < 1e-10]
        # a start that has no way down even along its gradient rests
        lost = ~self.inverse[tiny].any(axis=1)
        self.resting[tiny[lost]] = True
        forgetful = tiny[~lost]
        self.inverse[forgetful] = 0.0
        self.aim(forgetful)

    def _remember(self, starts: np.ndarray, move: np.ndarray, change: np.ndarray) -> None:
        product = (move * change).sum(axis=1)
        size = np.linalg.norm(move, axis=1) * np.linalg.norm(change, axis=1)
        curved = product > DESCENT.least_curvature * size
        kept = starts[curved]
        for history, new in (
            (self.moves, move[curved]),
            (self.changes, change[curved]),
            (self.inverse, 1.0 / product[curved]),
        ):
            history[kept] = np.roll(history[kept], -1, axis=1)
            history[kept, -1] = new

    def aim(self, starts: np.ndarray) -> None:
        """Set directions by the curvature that is remembered (the two-loop recursion)."""
        towards = self.gradient[starts].copy()
        moves, changes, inverse = self.moves[starts], self.changes[starts], self.inverse[starts]
        shares = np.zeros_like(inverse)
        for k in reversed(range(inverse.shape[1])):
            shares[:, k] = inverse[:, k] * np.einsum('kd,kd->k', moves[:, k], towards)
            towards -= shares[:, k, None] * changes[:, k]
        known = inverse[:, -1] > 0.0
        square = (changes[:, -1] ** 2).sum(axis=1) * inverse[:, -1]
        # without any curvature known, a step of length 1 at most
        length = np.maximum(1.0, np.linalg.norm(towards, axis=1))
        towards *= np.where(known, 1.0 / np.where(known, square, 1.0), 1.0 / length)[:, None]
        for k in range(inverse.shape[1]):
            back = inverse[:, k] * np.einsum('kd,kd->k', changes[:, k], towards)
            towards += moves[:, k] * (shares[:, k] - back)[:, None]
        downhill = (towards * self.gradient[starts]).sum(axis=1) > 0.0
        towards[~downhill] = self.gradient[starts[~downhill]]
        self.direction[starts] = -towards
        self.step[starts] = 1.0


Stages = tuple[tuple[float, int, int], ...]
"""Descents in turn: p of the smoothing, evaluations, and of how many starts one is kept."""


@dataclass(frozen=True)
class WaypointSearchConstants:
    """Constants of a search for waypoints."""

    selection: Stages = ((2.0, 60, 3), (2.0, 100, 2), (8.0, 150, 1), (40.0, 200, 1))
    """Descents from random starts: a smooth cost leads to where a sharp one is worth while."""
    renewal: Stages = ((8.0, 50, 3), (40.0, 120, 1))
    """The same for sequences some of whose points are new."""
    finish: Stages = ((100.0, 200, 1), (300.0, 300, 3))
    """The same for the best sequences in the end."""
    second: Stages = ((2.0, 150, 1), (4.0, 150, 1), (8.0, 200, 1), (20.0, 200, 2), (60.0, 300, 6))
    """The same for the best one, moved a little, by the second cost, which is meant in the end."""
    perturbation: float = 0.02
    """How much its variables are moved, at random."""
    copies: int = 12
    """How often that is done."""
    children: int = 24
    """Sequences with new points in a round."""
    population: int = 12
    """Sequences that are kept from round to round."""
    alike_share: float = 2e-3
    """Sequences whose costs differ by less than this share count as the same."""


WAYPOINTS = WaypointSearchConstants()


class WaypointProblem(Protocol):
    """Problem of the search for waypoints, in variables (d,) of a sequence of points."""

    def function(self, power: float) -> Function:
        """Return the logarithm of the cost, with its gradient, for a smoothing p."""

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Return random starts, (count, d)."""

    def renew(self, random: np.random.Generator, flat: np.ndarray) -> None:
        """Draw some of the points of sequences (count, d) again, in place."""


def search(
    problem: WaypointProblem,
    random: np.random.Generator,
    *,
    starts: int,
    rounds: int,
    look: Callable[[float], bool] = lambda cost: True,
    go_on: Callable[[], bool] = lambda: True,
    then: WaypointProblem | None = None,
) -> Descents:
    """
    Search for sequences of least cost; return the best ones, the best first, with their costs.

    Parameters
    ----------
    problem:
        What is minimised over which variables.
    random:
        What draws the starts and new points.
    starts:
        Random starts.
    rounds:
        Rounds in which points are drawn again.
    look:
        Called with the best (smoothed) cost after each step; False ends the search early.
    go_on:
        Asked before each evaluation; False ends the search where it is.
    then:
        The problem with the cost that is meant, where ``problem`` has the one to search by first
        (see `PointCost.first`).

    """
    function = problem.function
    x, values = _select(function, problem.draw(random, starts), WAYPOINTS.selection, look, go_on)
    x, values = _best_distinct(x, values)
    in_time = True
    for _ in range(rounds):
        in_time = in_time and look(float(np.exp(values[0])))
        if not in_time:
            break
        children = x[random.integers(0, len(x), WAYPOINTS.children)]
        problem.renew(random, children)
        new, costs = _select(function, children, WAYPOINTS.renewal, look, go_on)
        x, values = _best_distinct(np.concatenate([x, new]), np.concatenate([values, costs]))
    if in_time:
        x, _ = _select(function, x[:3], WAYPOINTS.finish, look, go_on)
    if then is not None and go_on():
        function = then.function
        x = x[:1] + WAYPOINTS.perturbation * random.standard_normal((WAYPOINTS.copies, x.shape[1]))
        x, _ = _select(function, x, WAYPOINTS.second, look, go_on)
    costs = np.exp(function(np.inf)(x)[0])
    order = np.argsort(costs)
    return Descents(x[order], costs[order])


def _select(
    function: Callable[[float], Function],
    x: np.ndarray,
    stages: Stages,
    look: Callable[[float], bool],
    go_on: Callable[[], bool],
) -> tuple[np.ndarray, np.ndarray]:
    """Go down stage by stage, fewer at each one; return those left and their values."""
    for power, evaluations, share in stages:
        found, costs = descend_all(function(power), x, evaluations, go_on=go_on)
        order = np.argsort(costs)[: -(-len(x) // share)]
        x, values = found[order], costs[order]
        if not look(float(np.exp(values[0]))):
            break
    return x, values


def _best_distinct(x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kept: list[int] = []
    for i in np.argsort(values):
        if all(abs(values[i] - values[j]) > WAYPOINTS.alike_share for j in kept):
            kept.append(int(i))
    return x[kept[: WAYPOINTS.population]], values[kept[: WAYPOINTS.population]]
