# SPDX-License-Identifier: Apache-2.0
"""What all ways of planning have in common: the plan, its checks, and when the work ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import time

import numpy as np

from ..base_parameters import BaseStructure
from ..errors import ExcitationError
from ..parameters import ParameterSet
from ..progress import Progress
from ..recording import Motion
from ..regressors import predict, Regressor
from ..robot import Robot
from .collisions import CollisionModel
from .constraints import check_trajectory, Findings, LimitViolation
from .criteria import column_scaled_condition_number
from .fourier import FourierTrajectory
from .limits import Limits
from .points import PointTrajectory
from .settings import PlannerSettings
from .sweeping import CollisionError
from .trajectories import Trajectory

BUFFER = 0.03
"""How much more than the clearance the optimisers keep links apart [m]."""


class PlanningCanceled(ExcitationError):
    """The caller canceled the planning."""


class OutOfTime(Exception):
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
    points_condition_number:
        Of the energy equations of the points, where there are such, in the columns' units [-].
    findings:
        Of the last check: shares of the limits, efforts included, and smallest distances.

    """

    trajectory: FourierTrajectory | PointTrajectory
    limits: Limits
    condition_number: float
    history: tuple[float, ...]
    amplitude: float
    settings: PlannerSettings
    seconds: float
    warnings: tuple[str, ...] = ()
    points_condition_number: float | None = None
    findings: Findings | None = None

    def summary(self) -> str:
        """Return a few lines on the plan, with the share of each limit that it uses."""
        trajectory, limits = self.trajectory, self.limits
        motion = trajectory.sample(np.linspace(0.0, trajectory.duration, 2001))
        lines = [
            f'{trajectory.duration:.4g} s, {_kind(trajectory)}, condition number '
            f'{self.condition_number:.1f} after {len(self.history)} iterations in '
            f'{self.seconds:.1f} s',
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
        if self.findings is not None:
            lines.append(self.findings.summary())
        return '\n'.join([*lines, *(f'warning: {note}' for note in self.warnings)])


def _kind(trajectory: FourierTrajectory | PointTrajectory) -> str:
    if isinstance(trajectory, PointTrajectory):
        return f'{trajectory.time.size} points'
    return f'{trajectory.harmonics} harmonics of {trajectory.frequency:.4g} Hz'


@dataclass
class Watch:
    """Counts iterations, reports them, and ends the work on demand or when time is up."""

    settings: PlannerSettings
    progress: Progress | None
    canceled: Callable[[], bool] | None
    on_iteration: Callable[[int, float], None] | None
    history: list[float]
    begin: float
    expected: int = 0
    label: str = ''

    def __post_init__(self) -> None:
        self.expected = self.expected or self.settings.max_iterations
        self.label = self.label or self.settings.criterion

    def look(self) -> None:
        """Raise `PlanningCanceled` or `OutOfTime` where the work is to end."""
        self.look_for_cancel()
        if self.history and self.late:
            raise OutOfTime

    def look_for_cancel(self) -> None:
        """Raise `PlanningCanceled` where the caller wishes it."""
        if self.canceled is not None and self.canceled():
            raise PlanningCanceled('the planning was canceled', remedy='start it again')

    @property
    def late(self) -> bool:
        """Whether the time budget is used up."""
        budget = self.settings.time_budget
        return bool(budget) and time.monotonic() - self.begin > budget

    def iteration(self, criterion: float) -> None:
        """Take note of the criterion after an iteration."""
        best = min(criterion, self.history[-1]) if self.history else criterion
        self.history.append(best)
        count = len(self.history)
        if self.on_iteration is not None:
            self.on_iteration(count, best)
        if self.progress is not None:
            share = min(1.0, count / self.expected)
            self.progress(0.95 * share, f'{self.label} {best:.4g}')


@dataclass(frozen=True)
class Checks:
    """What a trajectory has to pass before it is returned."""

    robot: Robot
    limits: Limits
    rate: float
    collisions: CollisionModel | None
    regressor: Regressor
    prior: ParameterSet

    def require(self, trajectory: Trajectory) -> Findings:
        """Return what is found; raise `LimitViolation` or `CollisionError` where a check fails."""
        return check_trajectory(
            self.robot,
            trajectory,
            self.limits,
            rate=self.rate,
            collisions=self.collisions,
            effort=self._effort,
        )

    def passes(self, trajectory: Trajectory) -> bool:
        """Tell whether all checks are passed."""
        try:
            self.require(trajectory)
        except (LimitViolation, CollisionError):
            return False
        return True

    def _effort(self, motion: Motion) -> np.ndarray:
        return predict(self.regressor, motion, self.prior)


def largest_amplitude(trajectory: FourierTrajectory | PointTrajectory, checks: Checks) -> float:
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


def plan_warnings(
    collisions: CollisionModel | None, settings: PlannerSettings, amplitude: float, complete: bool
) -> tuple[str, ...]:
    """Return what a user should know about a plan."""
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
    trajectory: Trajectory, regressor: Regressor, base: BaseStructure, n_samples: int = 1000
) -> float:
    """Return the condition number of the column-scaled base regressor along a trajectory."""
    time_ = (np.arange(n_samples) + 0.5) / n_samples * trajectory.duration
    rows = regressor.rows(trajectory.sample(time_))
    return column_scaled_condition_number(rows[:, base.independent])
