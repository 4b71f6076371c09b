# SPDX-License-Identifier: Apache-2.0
"""
Planners of quintics through points: energy equations, sweeps, and poses.

`plan_points` finds a sequence that conditions the energy equations well, and the way through it:
Gautier and Khalil (1992), with the path's limits, collisions and efforts inside the search.
`plan_simple` needs no search: sweeps of single joints at constant speeds show friction, poses at
rest gravity and offsets.  All pass the same checks as every plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..data.recording import Motion
from ..errors import ExcitationError, SettingsError
from ..model.robot import Robot
from ..regressor import build, ModelSettings
from ..regressor.base_search import structure
from ..regressor.energy import energy_of
from ..regressor.inverse_dynamics import pull_back
from .extremes import at_rest
from .limits import Limits
from .objective import effort_penalty
from .path import Obstacles, PathProblem, shortest_times, trajectory_through
from .plans import BUFFER, Plan, PlanningTask, shrink_until_feasible
from .point_cost import PointCost
from .sequence import descend_all, EnergyEquations, PointBounds, search, WaypointSet
from .settings import PlannerSettings
from .trajectories import point_to_point, PointTrajectory


@dataclass(frozen=True)
class PointPlanConstants:
    """Constants of a plan through points."""

    final_weight: float = 1e3
    """Factor of the penalties once a sequence is found, in place of `PathProblem.weight`."""
    final_power: float = 100.0
    """p of the smoothing then."""
    evaluations: int = 150
    """Evaluations of each descent of a sequence that does not pass."""
    typical_points: int = 2000
    """Random points that scale the columns of the energy equations."""


POINTS = PointPlanConstants()


def plan_points(task: PlanningTask) -> Plan:
    """
    Plan quintics through points that distinguish the base parameters by their energies.

    Raises `SettingsError` where there are fewer equations than base parameters, or the robot is no
    tree of rigid links; `ExcitationError` where no trajectory within the limits is found.
    """
    settings, limits, watch = task.settings, task.limits, task.watch
    options = settings.points
    bounds = PointBounds(limits.lower, limits.upper, limits.velocity)
    equations = energy_equations(task.robot, task.model, bounds, options.columns)
    cost = PointCost(options.measure, options.condition_weight, options.equilibrium_weight)
    n_equations = _n_equations(settings, equations.n_base)
    problem = PathProblem(equations, cost, limits, task.starts[0], n_equations)
    watch.label = 'cost of the points'
    expected = 6 + 3 * options.rounds

    def look(cost: float) -> bool:
        watch.step((len(watch.history) + 1) / expected, cost)
        return watch.left()

    found = search(
        replace(problem, cost=cost.first),
        np.random.default_rng(settings.seed),
        starts=options.starts,
        rounds=options.rounds,
        look=look,
        go_on=watch.left,
        then=None if cost == cost.first else problem,
    )
    passable = _passable(problem, found.x, task)
    amplitude, trajectory = shrink_until_feasible(passable, task.checks, lambda: not watch.ended)
    assert isinstance(trajectory, PointTrajectory)
    points = WaypointSet(trajectory.position[1:-1], trajectory.velocity[1:-1])
    return task.plan(
        trajectory,
        amplitude,
        points_condition_number=float(np.linalg.cond(equations.matrix(points))),
    )


def energy_equations(
    robot: Robot, model: ModelSettings, bounds: PointBounds, columns: str
) -> EnergyEquations:
    """
    Return the energy equations of a robot, over the base parameters that have an energy.

    Friction, which has none, is left aside.  Typical points are drawn within ``bounds``;
    ``columns`` is as `PointSettings.columns`.

    Raises `SettingsError` where the robot is no tree of rigid links.
    """
    regressor = build(robot, replace(model, friction=()))
    energy = energy_of(regressor, key='planner.method')
    base = structure(regressor, robot).independent
    equations = EnergyEquations(energy, base, np.ones(base.size))
    if columns == 'si':
        return equations
    # a seed of its own: the scale belongs to the robot and its limits, not to a plan
    points = bounds.random(np.random.default_rng(19920801), POINTS.typical_points)
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


def _passable(problem: PathProblem, x: np.ndarray, task: PlanningTask) -> PointTrajectory:
    """
    Return a way through points that passes the checks, or the one that comes nearest to it.

    ``x`` are the variables (k, d) of the sequences found, the best one first.  Where the
    points do not pass, they give way to what is in the way.  Where they cannot, as they lie on
    both sides of it, their motion is made so small that it is free of it and then grows again:
    links that come close to each other from a free motion turn back.
    """
    watch = task.watch
    trajectory, free = _timed(problem.path(x[0]), task)
    if free:
        return trajectory
    penalised = replace(problem, weight=POINTS.final_weight, obstacles=_obstacles(task))
    grown = penalised.shrunk(x[:1], _free_share(penalised, x[:1])) if watch.left() else x[:1]
    iterations = min(POINTS.evaluations, task.settings.max_iterations)
    final = POINTS.final_power
    for begin, powers in ((x[:1], (final,)), (grown, (8.0, final, final))):
        for power in powers:
            if free or not watch.left():
                return trajectory
            function = penalised.function(power)
            begin = descend_all(function, begin, iterations, go_on=watch.left).x
        trajectory, free = _timed(penalised.path(begin[0]), task)
    return trajectory


def _obstacles(task: PlanningTask) -> Obstacles:
    """Return the penalty of efforts and distances, with its gradients."""
    limit, buffer = task.limits.effort, task.settings.clearance + BUFFER
    wanted, distances = task.wanted, task.penalty

    def obstacles(motion: Motion) -> tuple[float, list[np.ndarray]]:
        value, by_effort = effort_penalty(wanted.effort(motion), limit)
        slopes = [np.zeros_like(motion.position) for _ in range(3)]
        if value > 0.0:
            by_rows = by_effort[:, :, None] * wanted.prior.values
            slopes = list(pull_back(wanted.regressor, motion, by_rows))
        if distances is not None:
            close, by_position, by_velocity = distances.of_motion(motion, buffer)
            slopes[0] += by_position
            slopes[1] += by_velocity
            value += close
        return value, slopes

    return obstacles


def _free_share(problem: PathProblem, x: np.ndarray) -> float:
    """Return the share of a motion's excursions below which it meets nothing."""
    share = 1.0
    while share > 0.02 and problem.penalty(problem.shrunk(x, share))[0] > 1e-4 * problem.weight:
        share *= 0.7
    return share


def _timed(path: PointTrajectory, task: PlanningTask) -> tuple[PointTrajectory, bool]:
    """Return a path in the shortest times, or in its own, and whether it passes the checks."""
    shortest = shortest_times(path, task.limits, task.watch.left)
    if not np.isnan(shortest).any():
        quick = trajectory_through(path, shortest, task.limits)
        if task.checks.passes(quick):
            return quick, True
    return path, task.checks.passes(path)


# ------------------------------------------------------------------------------ without a search


@dataclass(frozen=True)
class SweepConstants:
    """Constants of a plan without a search."""

    speeds: tuple[float, ...] = 0.05, 0.15, 0.35, 0.65, 1.0
    """Speeds of sweeps by the velocity limits."""
    dwell: float = 1.0
    """Time at rest in each pose [s]."""
    candidate_poses: int = 100
    """Random poses among which poses at rest are chosen."""
    used_share: float = 0.98
    """Share of the limits that is used."""
    scanned_poses: int = 60
    """Poses along a straight way that are checked for collisions."""


SWEEPS = SweepConstants()


@dataclass
class _Way:
    """Points of a motion so far; each step begins where the last one ended."""

    limits: Limits
    position: np.ndarray
    time: float = 0.0
    points: list[tuple[float, np.ndarray, np.ndarray]] = field(default_factory=list)

    def add(self, seconds: float, position: np.ndarray, velocity: np.ndarray) -> None:
        """Add a point after ``seconds``."""
        if not self.points:
            self.points.append((0.0, self.position, np.zeros_like(position)))
        self.time += seconds
        self.position = position
        self.points.append((self.time, position, velocity))

    def rest(self, seconds: float) -> None:
        """Stay at rest."""
        self.add(seconds, self.position, np.zeros_like(self.position))

    def seconds_to(self, position: np.ndarray) -> float:
        """Return the shortest time of a quintic from rest to rest [s]."""
        limits = self.limits
        return point_to_point(
            limits.joints,
            self.position,
            position,
            SWEEPS.used_share * limits.velocity,
            SWEEPS.used_share * limits.acceleration,
            jerk=SWEEPS.used_share * limits.jerk,
        ).duration

    def move(self, position: np.ndarray) -> None:
        """Move from rest to rest."""
        self.add(self.seconds_to(position), position, np.zeros_like(position))

    def trajectory(self) -> PointTrajectory:
        """Return the motion."""
        time, position, velocity = (np.array(part) for part in zip(*self.points, strict=True))
        return PointTrajectory(
            self.limits.joints, time, position, velocity, np.zeros_like(position)
        )


def plan_simple(task: PlanningTask) -> Plan:
    """
    Plan sweeps or poses (`PlannerSettings.method`), at most as long as ``duration``.

    Raises `ExcitationError` where there is no room for any, or the motion does not pass the
    checks.
    """
    settings = task.settings
    way = _Way(task.limits, task.starts[0])
    (_sweep if settings.method == 'sweeps' else _visit)(way, task)
    if not way.points:
        raise ExcitationError(
            f'there is no room or time for {settings.method}',
            key='duration',
            value=settings.duration,
            remedy='give more time, or another start',
        )
    amplitude, trajectory = shrink_until_feasible(
        way.trajectory(), task.checks, lambda: not task.watch.ended
    )
    return task.plan(trajectory, amplitude)


def _sweep(way: _Way, task: PlanningTask) -> None:
    """Sweep joint after joint back and forth at several speeds, the others at the start."""
    start, limits, longest = way.position, way.limits, task.settings.duration
    # some of the time is for the ways between sweeps
    seconds = 0.7 * longest / (2 * len(SWEEPS.speeds) * len(task.wanted.moving))
    for name in task.wanted.moving:
        joint = limits.joints.index(name)
        low, high = _free_range(task, start, joint)
        for share in SWEEPS.speeds:
            speed = SWEEPS.used_share * share * limits.velocity[joint]
            travel = min(high - low, speed * seconds)
            begin = float(np.clip(start[joint] - 0.5 * travel, low, high - travel))
            blend = max(
                1.5 * speed / limits.acceleration[joint],
                float(np.sqrt(6.0 * speed / limits.jerk[joint])),
            )
            blend /= SWEEPS.used_share
            constant = (travel - speed * blend) / speed
            if constant < 0.1 * seconds:
                continue
            ends = [np.array(start), np.array(start)]
            ends[0][joint], ends[1][joint] = begin, begin + travel
            back = _Way(limits, ends[0]).seconds_to(np.array(start))
            needed = way.seconds_to(ends[0]) + 2.0 * (constant + 2.0 * blend) + back
            if way.time + needed > longest:
                continue
            way.move(ends[0])
            for sign, end in ((1.0, ends[1]), (-1.0, ends[0])):
                velocity = np.zeros_like(start)
                velocity[joint] = sign * speed
                first = way.position + 0.5 * blend * velocity
                way.add(blend, first, velocity)
                way.add(constant, first + constant * velocity, velocity)
                way.add(blend, end, np.zeros_like(start))
        if way.points:
            way.move(np.array(start))


def _free_range(task: PlanningTask, start: np.ndarray, joint: int) -> tuple[float, float]:
    """Return how far a joint can go either way from the start, distances and gravity allowing."""
    ends = []
    for end in (task.limits.lower[joint], task.limits.upper[joint]):
        poses = np.repeat(start[None], SWEEPS.scanned_poses, axis=0)
        way = 0.98 * (end - start[joint])
        poses[:, joint] = start[joint] + np.linspace(0.0, way, SWEEPS.scanned_poses)
        allowed = _allowed(task, poses)
        free = int(np.argmin(allowed)) if not allowed.all() else SWEEPS.scanned_poses
        ends.append(float(poses[max(0, free - 2), joint]))
    return ends[0], ends[1]


def _allowed(task: PlanningTask, poses: np.ndarray) -> np.ndarray:
    """Return which poses (k,) can be held and touch nothing."""
    effort = at_rest(task.checks.effort, poses)
    allowed = (np.abs(effort) <= task.limits.effort).all(axis=1)
    if task.collisions is not None:
        for contact in task.collisions.contacts(poses):
            allowed[contact.sample] = False
    return np.asarray(allowed)


def _visit(way: _Way, task: PlanningTask) -> None:
    """Go from pose to pose, each time to the most informative one for its time."""
    limits, home, wanted, settings = way.limits, way.position, task.wanted, task.settings
    rng = np.random.default_rng(settings.seed)
    moving = [limits.joints.index(name) for name in wanted.moving]
    poses = np.repeat(home[None], SWEEPS.candidate_poses, axis=0)
    share = rng.uniform(0.02, 0.98, (SWEEPS.candidate_poses, len(moving)))
    poses[:, moving] = limits.lower[moving] + share * (limits.upper - limits.lower)[moving]
    poses = poses[_allowed(task, poses)]
    if not len(poses):
        return
    rows = at_rest(wanted.regressor.rows, poses)[:, wanted.columns]
    rows = rows.reshape(len(poses), len(limits.joints), -1) / wanted.noise[:, None]
    # what no pose determines has no part in the choice
    size = np.sqrt((rows**2).sum(axis=(0, 1)))
    determined = size > 1e-9 * size.max()
    rows = rows[:, :, determined] / size[determined]
    information = 1e-6 * np.eye(int(determined.sum()))
    left = np.ones(len(poses), dtype=bool)
    while left.any():
        covariance = np.linalg.inv(information)
        gains = np.linalg.slogdet(
            np.eye(len(limits.joints)) + rows @ covariance @ rows.transpose(0, 2, 1)
        )[1]
        seconds = np.array([way.seconds_to(pose) for pose in poses]) + SWEEPS.dwell
        place = int(np.argmax(np.where(left, gains / seconds, -np.inf)))
        left[place] = False
        there = _Way(limits, poses[place])
        if way.time + seconds[place] + there.seconds_to(home) > settings.duration:
            continue
        pose = poses[place]
        ways = np.linspace((way.position, pose), (pose, home), SWEEPS.scanned_poses)
        if not _allowed(task, np.concatenate(ways)).all():
            continue
        way.move(poses[place])
        way.rest(SWEEPS.dwell)
        information = information + np.einsum('jc,jd->cd', rows[place], rows[place])
    if way.points:
        way.move(np.array(home))
