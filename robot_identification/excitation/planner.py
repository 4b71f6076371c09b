# SPDX-License-Identifier: Apache-2.0
"""
Planning of exciting trajectories.

What is returned has passed `check_trajectory`, whatever the search did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
import time

import numpy as np

from ..model.robot import Robot
from ..progress import Progress
from ..regressor import ModelSettings
from .collision_check import CollisionError
from .collisions import collision_model, CollisionModel
from .constraints import LimitViolation
from .deviations import EarlierInformation, ROW_RATE
from .distance_penalty import DistancePenalty
from .extremes import extremes
from .families import Basis, FourierBasis, MotionFamily, SplineBasis
from .limits import Limits
from .objective import Objective
from .plans import (
    BUFFER,
    condition_number,
    largest_motion,
    Plan,
    plan_warnings,
    PlanChecks,
    Planned,
    PlanningCanceled,
    PlanningWatch,
)
from .point_planner import plan_points
from .search import Feasible, Search, Work
from .settings import PlannerSettings
from .simple_motions import plan_simple
from .start_poses import plan_limits, start_poses
from .wanted import Wanted, wanted_parameters

SAMPLES = 100, 400
"""Samples of a motion at which the criterion looks, at least and at most."""

SAMPLES_PER_PERIOD = 12
"""Samples for each period of the highest harmonic, between these bounds."""

SMALLER, TRIED = 0.95, 1.03
"""Share of a motion that is tried where the whole does not pass, and up to which efforts."""

ENOUGH = 1.0 - 1e-4
"""
Share of a limit to which a motion is stretched at the end.

A controller interpolates between points, which takes a part of the rest: 2.5e-6 of the
acceleration for 100 points a second and harmonics up to 5 Hz.  It grows with the fourth power of
the frequency.
"""


def plan(
    robot: Robot,
    settings: PlannerSettings | None = None,
    progress: Progress | None = None,
    canceled: Callable[[], bool] | None = None,
    *,
    model: ModelSettings | None = None,
    earlier: EarlierInformation | None = None,
    targets: dict[str, float] | None = None,
    on_iteration: Callable[[int, float], None] | None = None,
    clock: Callable[[], float] = time.thread_time,
) -> Plan:
    """
    Plan a trajectory that excites a robot's base parameters.

    Parameters
    ----------
    robot:
        The robot; its URDF gives limits, nominal inertias and collision shapes.
    settings:
        What to plan; default settings where None.
    progress:
        Called with (share done, words).
    canceled:
        Asked again and again; True ends the planning with the best motion so far.
    model:
        What the regressor holds besides rigid bodies.
    earlier:
        Information of earlier recordings, which the motion is to complement; their residuals are
        its noise.
    targets:
        Wanted standard deviations of base parameters by name: what is minimised is the largest
        excess over them, in place of the criterion.
    on_iteration:
        Called with (number of steps, best criterion).
    clock:
        Gives the time by which ``time_budget`` is counted [s]; the processor's by default.

    Returns
    -------
    Plan
        whose trajectory has passed every check.

    Raises
    ------
    ExcitationError
        where no trajectory within the limits is possible or found, naming joint and limit;
        `PlanningCanceled` where the caller wished the end before there was one.

    """
    settings, model = settings or PlannerSettings(), model or ModelSettings()
    watch = PlanningWatch(settings, progress, canceled, on_iteration, clock)
    collisions = (
        collision_model(robot, settings.clearance, settings.all_obstacles)
        if settings.check_collisions
        else None
    )
    limits, warnings = plan_limits(robot, settings)
    starts = start_poses(robot, settings, limits, collisions)
    wanted = wanted_parameters(robot, settings, model, limits, earlier, targets)
    if settings.method == 'points':
        made = plan_points(robot, settings, model, limits, starts[0], collisions, watch)
        made = replace(made, deviations=wanted.deviations(made.trajectory))
    elif settings.method in ('sweeps', 'poses'):
        made = plan_simple(robot, settings, limits, starts[0], collisions, wanted, watch)
        made = replace(made, warnings=plan_warnings(made, collisions, watch, complete=True))
    else:
        made = _plan_family(robot, settings, limits, starts, collisions, wanted, watch)
    if progress is not None:
        progress(1.0, 'checked')
    return replace(made, warnings=warnings + made.warnings)


def _plan_family(
    robot: Robot,
    settings: PlannerSettings,
    limits: Limits,
    starts: np.ndarray,
    collisions: CollisionModel | None,
    wanted: Wanted,
    watch: PlanningWatch,
) -> Plan:
    """Plan a motion that is linear in its coefficients."""
    basis = _basis(settings, limits)
    moving = np.array([limits.joints.index(name) for name in wanted.moving])
    family = MotionFamily(basis, limits, starts[0], moving, free_start=not settings.start)
    highest = 0.5 * family.shape[0] / settings.duration
    count = int(np.clip(SAMPLES_PER_PERIOD * settings.duration * highest, *SAMPLES))
    objective = Objective(
        family=family,
        regressor=wanted.regressor,
        columns=wanted.columns,
        prior=wanted.prior,
        criterion=wanted.criterion,
        noise=wanted.noise * np.sqrt(count / (ROW_RATE * settings.duration)),
        earlier=wanted.earlier,
        # between the ends, where the robot rests and says nothing new
        time=(np.arange(count) + 0.5) / count * settings.duration,
        effort=limits.effort,
        distances=None if collisions is None else DistancePenalty(collisions),
        buffer=settings.clearance + BUFFER,
    )
    checks = PlanChecks(
        robot, limits, settings.check_rate, collisions, wanted.regressor, wanted.prior
    )
    judge = _Judge(checks, watch)
    work = Work(settings.max_iterations, lambda: watch.ended, watch.step)
    search = Search(
        objective, starts, np.random.default_rng(settings.seed), work, judge, checks.effort_shares
    )
    if not watch.on_request:
        search.run()
    found = search.best
    if found is None:
        if judge.refused is None or watch.on_request:
            raise PlanningCanceled('the planning was canceled', remedy='start it again')
        raise judge.refused
    findings = checks.require(found.trajectory)
    made = Plan(
        trajectory=found.trajectory,
        limits=limits,
        condition_number=condition_number(found.trajectory, wanted.regressor, wanted.columns),
        history=tuple(watch.history),
        amplitude=found.amplitude,
        settings=settings,
        seconds=watch.seconds,
        findings=findings,
        deviations=wanted.deviations(found.trajectory),
    )
    complete = work.done >= work.evaluations
    return replace(made, warnings=plan_warnings(made, collisions, watch, complete))


def _basis(settings: PlannerSettings, limits: Limits) -> Basis:
    harmonics = settings.harmonics or _harmonics(settings, limits)
    if settings.method == 'spline':
        return SplineBasis(settings.duration, 2 * harmonics)
    return FourierBasis(settings.duration, settings.frequency, harmonics)


def _harmonics(settings: PlannerSettings, limits: Limits) -> int:
    """
    Return as many harmonics as the acceleration limits allow.

    Above the frequency at which a sine that uses up the velocity limit uses up the acceleration
    limit, too, speed is lost.
    """
    crossing = float(np.median(limits.acceleration / limits.velocity)) / (2.0 * np.pi)
    count = 1.25 * crossing / settings.frequency
    return int(np.clip(np.round(count), 5, 64))


@dataclass
class _Judge:
    """Makes motions feasible, and remembers why the last one was refused."""

    checks: PlanChecks
    watch: PlanningWatch
    refused: Exception | None = None
    best: float = np.inf

    def __call__(self, objective: Objective, x: np.ndarray) -> Feasible | None:
        found = objective.family.trajectory(x)
        excess = float(self.checks.effort_shares(found).max())
        trials: list[Feasible] = []
        if excess <= 1.0:
            whole = stretched(found, self.checks.limits), found
            trials = [_feasible(objective, trajectory, 1.0) for trajectory in whole]
        if excess <= TRIED:
            smaller = _feasible(objective, found.scaled(SMALLER), SMALLER)
            if smaller.criterion < self.best:
                trials.append(smaller)
        for trial in trials:
            if self.checks.passes(trial.trajectory):
                return self._kept(trial)
        if np.isfinite(self.best):
            return None
        try:
            amplitude, trajectory = largest_motion(
                found, self.checks, lambda: not self.watch.ended
            )
        except (LimitViolation, CollisionError) as error:
            self.refused = error
            return None
        return self._kept(_feasible(objective, trajectory, amplitude))

    def _kept(self, trial: Feasible) -> Feasible:
        self.best = min(self.best, trial.criterion)
        return trial


def _feasible(objective: Objective, trajectory: Planned, amplitude: float) -> Feasible:
    rows = objective.rows(trajectory.sample(objective.time))
    criterion, _ = objective.criterion(objective.information(rows)[0])
    return Feasible(trajectory, float(np.exp(criterion)), amplitude)


def stretched(trajectory: Planned, limits: Limits) -> Planned:
    """Return the motion with each joint's excursions scaled to use up one of its limits."""
    reached = extremes(trajectory, 500.0)
    start = trajectory.sample(np.zeros(1)).position[0]
    with np.errstate(divide='ignore', invalid='ignore'):
        shares = [
            (reached.highest[0] - start) / (limits.upper - start),
            (start - reached.lowest[0]) / (start - limits.lower),
            *(
                np.abs(reached.largest(order)[0]) / limit
                for order, limit in (
                    (1, limits.velocity),
                    (2, limits.acceleration),
                    (3, limits.jerk),
                )
            ),
        ]
    use = np.nanmax(shares, axis=0)
    return trajectory.scaled(np.where(use > 0.0, ENOUGH / np.maximum(use, 1e-12), 1.0))
