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
from scipy.optimize import minimize

from ..base_parameters import BaseStructure, structure
from ..errors import ExcitationError
from ..progress import Progress
from ..recording import Motion
from ..regressors import build, ModelSettings, predict, prior, Regressor
from ..robot import Robot
from .collisions import collision_model, CollisionModel
from .constraints import check_trajectory, CollisionError, LimitViolation
from .criteria import column_scaled_condition_number, CRITERIA
from .fourier import FourierTrajectory
from .limits import Limits
from .objective import FeasibleSeries, Objective
from .settings import PlannerSettings
from .starting import limits_and_start
from .trajectories import Trajectory

RANDOM_STARTS = 24
"""Random motions from which the best is taken to start from."""

BUFFER = 0.03
"""How much more than the clearance the optimiser keeps links apart [m]."""

ROUNDS = 3
"""Rounds of optimisation, each with stronger penalties, before a plan is scaled down instead."""


class PlanningCanceled(ExcitationError):
    """The caller canceled the planning."""


class _OutOfTime(Exception):
    """The time budget is used up."""


@dataclass(frozen=True)
class Plan:
    """
    A trajectory that excites the parameters, with what is known about it.

    Attributes
    ----------
    trajectory:
        From rest to rest.
    limits:
        Limits that it keeps, margin included.
    condition_number:
        Of the column-scaled base regressor along it [-].
    history:
        Best value of the criterion after each iteration.
    amplitude:
        Share of the optimiser's amplitude that efforts and collisions left, mostly 1 [-].
    settings:
        That made it.
    seconds:
        That it took [s].
    warnings:
        What a user should know.

    """

    trajectory: FourierTrajectory
    limits: Limits
    condition_number: float
    history: tuple[float, ...]
    amplitude: float
    settings: PlannerSettings
    seconds: float
    warnings: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return a few lines on the plan, with the share of each limit that it uses."""
        trajectory, limits = self.trajectory, self.limits
        motion = trajectory.sample(np.linspace(0.0, trajectory.duration, 2001))
        lines = [
            f'{trajectory.duration:g} s, {trajectory.harmonics} harmonics of '
            f'{trajectory.frequency:.4g} Hz, condition number {self.condition_number:.1f} after '
            f'{len(self.history)} iterations in {self.seconds:.1f} s',
            f'{"joint":<24}{"position":>22}{"velocity":>20}{"acceleration":>20}',
        ]
        for j, joint in enumerate(trajectory.joints):
            q = motion.position[:, j]
            v = np.abs(motion.velocity[:, j]).max()
            a = np.abs(motion.acceleration[:, j]).max()
            lines.append(
                f'{joint:<24}{q.min():>11.3f}{q.max():>11.3f}'
                f'{v:>12.3f} ({100 * v / limits.velocity[j]:4.0f} %)'
                f'{a:>12.3f} ({100 * a / limits.acceleration[j]:4.0f} %)'
            )
        return '\n'.join([*lines, *(f'warning: {note}' for note in self.warnings)])


@dataclass
class _Watch:
    """Counts iterations, reports them, and ends the work on demand or when time is up."""

    settings: PlannerSettings
    progress: Progress | None
    canceled: Callable[[], bool] | None
    on_iteration: Callable[[int, float], None] | None
    history: list[float]
    begin: float

    def look(self) -> None:
        if self.canceled is not None and self.canceled():
            raise PlanningCanceled('the planning was canceled', remedy='start it again')
        budget = self.settings.time_budget
        if budget and self.history and time.monotonic() - self.begin > budget:
            raise _OutOfTime

    def iteration(self, criterion: float) -> None:
        best = min(criterion, self.history[-1]) if self.history else criterion
        self.history.append(best)
        count = len(self.history)
        if self.on_iteration is not None:
            self.on_iteration(count, best)
        if self.progress is not None:
            share = min(1.0, count / self.settings.max_iterations)
            self.progress(0.95 * share, f'{self.settings.criterion} {best:.4g}')


def plan(
    robot: Robot,
    settings: PlannerSettings | None = None,
    progress: Progress | None = None,
    canceled: Callable[[], bool] | None = None,
    *,
    model: ModelSettings | None = None,
    on_iteration: Callable[[int, float], None] | None = None,
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
    watch = _Watch(settings, progress, canceled, on_iteration, [], time.monotonic())
    collisions = (
        collision_model(robot, settings.clearance, settings.floor)
        if settings.check_collisions
        else None
    )
    limits, start = limits_and_start(robot, settings, collisions)
    objective = _objective(robot, settings, model or ModelSettings(), limits, start, collisions)
    checks = _Checks(robot, limits, settings.check_rate, collisions, objective)
    x = _best_start(objective, watch)
    for round_ in range(ROUNDS):
        x, complete = _descend(objective, x, watch, settings.max_iterations // (1 + round_) or 1)
        trajectory = objective.series.trajectory(x)
        if checks.passes(trajectory) or not complete or round_ == ROUNDS - 1:
            break
        objective = replace(objective, weight=10.0 * objective.weight)
        x = _retreat(objective, x)
    amplitude = _largest_amplitude(trajectory, checks)
    trajectory = trajectory.scaled(amplitude)
    if progress is not None:
        progress(1.0, 'checked')
    return Plan(
        trajectory=trajectory,
        limits=limits,
        condition_number=condition_number(trajectory, objective.regressor, objective.structure),
        history=tuple(watch.history),
        amplitude=amplitude,
        settings=settings,
        seconds=time.monotonic() - watch.begin,
        warnings=_warnings(collisions, settings, amplitude, complete),
    )


def _warnings(
    collisions: CollisionModel | None, settings: PlannerSettings, amplitude: float, complete: bool
) -> tuple[str, ...]:
    notes = list(collisions.warnings) if collisions else []
    if not complete:
        notes.append(
            f'the search ended after time_budget ({settings.time_budget:g} s): with more time the '
            'plan would be better, and the same each time'
        )
    if amplitude < 0.7:
        notes.append(
            f'efforts or collisions leave {100.0 * amplitude:.0f} % of the motion: another start '
            'or smaller position limits may allow more'
        )
    return tuple(notes)


def condition_number(
    trajectory: FourierTrajectory, regressor: Regressor, base: BaseStructure, n_samples: int = 1000
) -> float:
    """Return the condition number of the column-scaled base regressor along a trajectory."""
    time_ = (np.arange(n_samples) + 0.5) / n_samples * trajectory.duration
    rows = regressor.rows(trajectory.sample(time_))
    return column_scaled_condition_number(rows[:, base.independent])


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


def _best_start(objective: Objective, watch: _Watch) -> np.ndarray:
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
    objective: Objective, x: np.ndarray, watch: _Watch, iterations: int
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
        minimize(
            function,
            x.ravel(),
            jac=True,
            method='L-BFGS-B',
            callback=lambda _: watch.iteration(best.criterion),
            options={'maxiter': iterations, 'maxcor': 30, 'ftol': 1e-6, 'gtol': 1e-6},
        )
    except _OutOfTime:
        return best.x, False
    return best.x, True


@dataclass(frozen=True)
class _Checks:
    """What a trajectory has to pass before it is returned."""

    robot: Robot
    limits: Limits
    rate: float
    collisions: CollisionModel | None
    objective: Objective

    def require(self, trajectory: Trajectory) -> None:
        """Raise `LimitViolation` or `CollisionError` where a check fails."""
        check_trajectory(
            self.robot,
            trajectory,
            self.limits,
            rate=self.rate,
            collisions=self.collisions,
            effort=self._effort,
        )

    def passes(self, trajectory: Trajectory) -> bool:
        try:
            self.require(trajectory)
        except (LimitViolation, CollisionError):
            return False
        return True

    def _effort(self, motion: Motion) -> np.ndarray:
        return predict(self.objective.regressor, motion, self.objective.prior)


def _largest_amplitude(trajectory: FourierTrajectory, checks: _Checks) -> float:
    """
    Return the largest share of the excursions that passes the checks, by bisection.

    The start itself is free of collision and needs less than the effort limits, so small enough a
    motion mostly passes.
    """
    if checks.passes(trajectory):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(8):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if checks.passes(trajectory.scaled(middle)) else (low, middle)
    if low == 0.0:
        # say why: the smallest motion that was tried shows what is in the way
        checks.require(trajectory.scaled(high))
    return low
