# SPDX-License-Identifier: Apache-2.0
"""
Planning of exciting trajectories: random starts, then descent along the gradient, then checks.

What is returned has passed `check_trajectory`, whatever the optimiser did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
import time

import numpy as np
import scipy

from ..base_parameters import structure
from ..model.robot import Robot
from ..progress import Progress
from ..regressor import build, ModelSettings, prior
from .collisions import collision_model, CollisionModel
from .criteria import CRITERIA
from .limits import Limits
from .objective import FeasibleSeries, Objective
from .plans import (
    BUFFER,
    condition_number,
    largest_motion,
    limits_and_start,
    OutOfTime,
    Plan,
    plan_warnings,
    PlanChecks,
    PlanningWatch,
)
from .point_planner import plan_points
from .settings import PlannerSettings

RANDOM_STARTS = 24
"""Random motions from which the best is taken to start from."""

ROUNDS = 3
"""Rounds of optimisation, each with stronger penalties, before a plan is scaled down instead."""


def plan(
    robot: Robot,
    settings: PlannerSettings | None = None,
    progress: Progress | None = None,
    canceled: Callable[[], bool] | None = None,
    *,
    model: ModelSettings | None = None,
    on_iteration: Callable[[int, float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
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
        Asked again and again; True ends the planning.
    model:
        What the regressor holds besides rigid bodies.
    on_iteration:
        Called with (number of iterations, best criterion).
    clock:
        Gives the time by which ``time_budget`` is counted [s].

    Returns
    -------
    Plan
        whose trajectory has passed every check.

    Raises
    ------
    ExcitationError
        where no trajectory within the limits is possible or found, naming joint and limit;
        `PlanningCanceled` where the caller wished it.

    """
    settings = settings or PlannerSettings()
    watch = PlanningWatch(settings, progress, canceled, on_iteration, [], clock)
    collisions = (
        collision_model(robot, settings.clearance, settings.all_obstacles)
        if settings.check_collisions
        else None
    )
    limits, start = limits_and_start(robot, settings, collisions)
    if settings.method == 'points':
        return plan_points(
            robot, settings, model or ModelSettings(), limits, start, collisions, watch
        )
    objective = _objective(robot, settings, model or ModelSettings(), limits, start, collisions)
    checks = PlanChecks(
        robot, limits, settings.check_rate, collisions, objective.regressor, objective.prior
    )
    x = _best_start(objective, watch)
    for round_ in range(ROUNDS):
        x, complete = _descend(objective, x, watch, settings.max_iterations // (1 + round_) or 1)
        trajectory = objective.series.trajectory(x)
        if checks.passes(trajectory) or not complete or round_ == ROUNDS - 1:
            break
        objective = replace(objective, weight=10.0 * objective.weight)
        x = _retreat(objective, x)
    amplitude, trajectory = largest_motion(trajectory, checks, lambda: not watch.late)
    if progress is not None:
        progress(1.0, 'checked')
    return Plan(
        trajectory=trajectory,
        limits=limits,
        condition_number=condition_number(trajectory, objective.regressor, objective.structure),
        history=tuple(watch.history),
        amplitude=amplitude,
        settings=settings,
        seconds=watch.seconds,
        warnings=plan_warnings(collisions, settings, amplitude, complete),
        findings=checks.require(trajectory),
    )


# --------------------------------------------------------------------------------- preparation


def _objective(
    robot: Robot,
    settings: PlannerSettings,
    model: ModelSettings,
    limits: Limits,
    start: np.ndarray,
    collisions: CollisionModel | None,
) -> Objective:
    series = FeasibleSeries(
        limits, start, settings.duration, settings.frequency, settings.harmonics
    )
    regressor = build(robot, model)
    highest = settings.frequency * settings.harmonics
    n_samples = int(np.clip(20 * settings.duration * highest, 100, 400))
    # between the ends, where the robot rests and says nothing new
    times = (np.arange(n_samples) + 0.5) / n_samples * settings.duration
    return Objective(
        series=series,
        regressor=regressor,
        structure=structure(regressor, robot, grouping=model.grouping),
        prior=prior(robot, model),
        criterion=CRITERIA[settings.criterion],
        measure=settings.criterion,
        collisions=collisions,
        buffer=settings.clearance + BUFFER,
        time=times,
    )


# -------------------------------------------------------------------------------- optimisation


def _best_start(objective: Objective, watch: PlanningWatch) -> np.ndarray:
    rng = np.random.default_rng(watch.settings.seed)
    best, least = None, np.inf
    for _ in range(RANDOM_STARTS):
        watch.look()
        x = _retreat(objective, objective.series.random(rng))
        value = objective.value(x)
        if value.total < least or best is None:
            best, least, criterion = x, value.total, value.criterion
    watch.iteration(criterion)
    assert best is not None
    return best


def _retreat(objective: Objective, x: np.ndarray) -> np.ndarray:
    """
    Scale a motion down until no penalty is left.

    A penalty's gradient leads out of a shallow overlap, but not always out of a deep one: the way
    out can lie across the motion.  Grown from a free motion, links meet the buffer first.
    """
    x = objective.series.saturated(x)
    for factor in (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1):
        if objective.value(factor * x).penalty <= 1e-3 * objective.weight:
            break
    return factor * x


@dataclass
class _Best:
    """The best variables so far, with what they are worth."""

    x: np.ndarray
    total: float = np.inf
    criterion: float = np.inf


def _descend(
    objective: Objective, x: np.ndarray, watch: PlanningWatch, iterations: int
) -> tuple[np.ndarray, bool]:
    """Return the best variables found, and whether the time sufficed."""
    best = _Best(x)

    def function(flat: np.ndarray) -> tuple[float, np.ndarray]:
        watch.look()
        x_now = flat.reshape(x.shape)
        value, gradient = objective.gradient(x_now)
        if value.total < best.total:
            best.x, best.total, best.criterion = x_now.copy(), value.total, value.criterion
        return value.total, gradient.ravel()

    try:
        scipy.optimize.minimize(
            function,
            x.ravel(),
            jac=True,
            method='L-BFGS-B',
            callback=lambda _: watch.iteration(best.criterion),
            options={'maxiter': iterations, 'maxcor': 30, 'ftol': 1e-6, 'gtol': 1e-6},
        )
    except OutOfTime:
        return best.x, False
    return best.x, True
