# SPDX-License-Identifier: Apache-2.0
"""
Planning by points: a sequence that conditions the energy equations well, and the way through it.

Gautier and Khalil (1992), with the path's limits, collisions and efforts inside the search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..base_parameters import structure
from ..data.recording import Motion
from ..errors import SettingsError
from ..model.robot import Robot
from ..regressor import build, ModelSettings, predict
from ..regressor.energy import energy_of
from ..regressor.inverse_dynamics import pull_back
from .collisions import DistancePenalty
from .descent import descend_all, search
from .objective import effort_penalty
from .path import Obstacles, Path, PathProblem, shortest_times, through
from .plans import BUFFER, largest_motion, Plan, PlanningTask, PlanningWatch
from .sequence import EnergyEquations, PointBounds, PointCost, Sequence
from .settings import PlannerSettings
from .trajectories import PointTrajectory

FINAL_WEIGHT = 1e3
"""Factor of the penalties once a sequence is found, in place of `PathProblem.weight`."""

FINAL_POWER = 100.0
"""p of the smoothing then."""

EVALUATIONS = 150
"""Evaluations of each descent of a sequence that does not pass."""

_TYPICAL_POINTS = 2000


def plan_points(task: PlanningTask) -> Plan:
    """
    Plan quintics through points that tell the base parameters apart by their energies.

    Raises
    ------
    SettingsError
        where there are fewer equations than base parameters, or the robot is no tree of rigid
        links.
    ExcitationError
        where no trajectory within the limits is found.

    """
    settings, limits, watch = task.settings, task.limits, task.watch
    options = settings.points
    bounds = PointBounds(limits.lower, limits.upper, limits.velocity)
    equations = energy_equations(task.robot, task.model, bounds, options.columns)
    cost = PointCost(options.measure, options.condition_weight, options.equilibrium_weight)
    n_equations = _n_equations(settings, equations.n_base)
    problem = PathProblem(equations, cost, limits, task.starts[0], n_equations)
    watch.label = 'cost of the points'
    in_time = _InTime(watch, 6 + 3 * options.rounds)
    found = search(
        replace(problem, cost=cost.first),
        np.random.default_rng(settings.seed),
        starts=options.starts,
        rounds=options.rounds,
        look=in_time.look,
        go_on=in_time.left,
        then=None if cost == cost.first else problem,
    )
    passable = _passable(problem, found.x, task, in_time)
    amplitude, trajectory = largest_motion(passable, task.checks, lambda: not watch.ended)
    assert isinstance(trajectory, PointTrajectory)
    points = Sequence(trajectory.position[1:-1], trajectory.velocity[1:-1])
    return task.plan(
        trajectory,
        amplitude,
        complete=in_time.complete,
        points_condition_number=float(np.linalg.cond(equations.matrix(points))),
    )


def energy_equations(
    robot: Robot, model: ModelSettings, bounds: PointBounds, columns: str
) -> EnergyEquations:
    """
    Return the energy equations of a robot, over the base parameters that have an energy.

    Friction, which has none, is left aside.  Typical points are drawn within ``bounds``;
    ``columns`` is as `PointSettings.columns`.

    Raises
    ------
    SettingsError
        where the robot is no tree of rigid links.

    """
    regressor = build(robot, replace(model, friction=()))
    energy = energy_of(regressor, key='planner.method')
    base = structure(regressor, robot).independent
    equations = EnergyEquations(energy, base, np.ones(base.size))
    if columns == 'si':
        return equations
    # a seed of its own: the scale belongs to the robot and its limits, not to a plan
    points = bounds.random(np.random.default_rng(19920801), _TYPICAL_POINTS)
    size = np.sqrt((equations.matrix(points) ** 2).mean(axis=0))
    return replace(equations, scale=np.maximum(size, 1e-9 * size.max()))


def _n_equations(settings: PlannerSettings, n_base: int) -> int:
    chosen = settings.points.equations or 2 * n_base
    if chosen < n_base:
        raise SettingsError(
            f"'points.equations' is {chosen}, but there are {n_base} base parameters",
            key='points.equations',
            value=chosen,
            remedy=f'take at least {n_base}, better {2 * n_base}',
        )
    return chosen


def _passable(
    problem: PathProblem, x: np.ndarray, task: PlanningTask, in_time: _InTime
) -> PointTrajectory:
    """
    Return a way through points that passes the checks, or the one that comes nearest to it.

    ``x`` are the variables (k, d) of the sequences found, the best one first.  Where the
    points do not pass, they give way to what is in the way.  Where they cannot, as they lie on
    both sides of it, their motion is made so small that it is free of it and then grows again:
    links that come close to each other from a free motion turn back.
    """
    trajectory, free = _timed(problem.path(x[0]), task, in_time)
    if free:
        return trajectory
    penalised = replace(problem, weight=FINAL_WEIGHT, obstacles=_obstacles(task))
    grown = penalised.shrunk(x[:1], _free_share(penalised, x[:1])) if in_time.left() else x[:1]
    iterations = min(EVALUATIONS, task.settings.max_iterations)
    for begin, powers in ((x[:1], (FINAL_POWER,)), (grown, (8.0, FINAL_POWER, FINAL_POWER))):
        for power in powers:
            if free or not in_time.left():
                return trajectory
            function = penalised.function(power)
            begin = descend_all(function, begin, iterations, go_on=in_time.left).x
        trajectory, free = _timed(penalised.path(begin[0]), task, in_time)
    return trajectory


def _obstacles(task: PlanningTask) -> Obstacles:
    """Return the penalty of efforts and distances, with its gradients."""
    limit, buffer = task.limits.effort, task.settings.clearance + BUFFER
    regressor, values = task.wanted.regressor, task.wanted.prior
    distances = None if task.collisions is None else DistancePenalty(task.collisions)

    def obstacles(motion: Motion) -> tuple[float, list[np.ndarray]]:
        value, by_effort = effort_penalty(predict(regressor, motion, values), limit)
        slopes = [np.zeros_like(motion.position) for _ in range(3)]
        if value > 0.0:
            slopes = list(pull_back(regressor, motion, by_effort[:, :, None] * values.values))
        if distances is not None:
            close, by_position = distances.of(motion.position, buffer)
            slopes[0] += by_position
            value += close
        return value, slopes

    return obstacles


def _free_share(problem: PathProblem, x: np.ndarray) -> float:
    """Return the share of a motion's excursions from which on down it meets nothing."""
    share = 1.0
    while share > 0.02 and problem.penalty(problem.shrunk(x, share))[0] > 1e-4 * problem.weight:
        share *= 0.7
    return share


def _timed(path: Path, task: PlanningTask, in_time: _InTime) -> tuple[PointTrajectory, bool]:
    """Return a path in the shortest times, or in its own, and whether it passes the checks."""
    shortest = shortest_times(path.points, task.limits, in_time.left)
    trajectory = through(path.points, path.times, task.limits)
    if not np.isnan(shortest).any():
        quick = through(path.points, shortest, task.limits)
        if task.checks.passes(quick):
            return quick, True
    return trajectory, task.checks.passes(trajectory)


@dataclass
class _InTime:
    """Ends a search between its steps when it has to end."""

    watch: PlanningWatch
    expected: int
    complete: bool = True

    def look(self, cost: float) -> bool:
        self.watch.step((len(self.watch.history) + 1) / self.expected, cost)
        return self.left()

    def left(self) -> bool:
        """Tell whether there is time left, and remember where there is not."""
        self.complete = self.complete and not self.watch.ended
        return self.complete
