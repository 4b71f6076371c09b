# SPDX-License-Identifier: Apache-2.0
"""Parts that all planners share: task, checks, watch over time and progress, and the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ExcitationError
from ..model.robot import Robot
from ..regressor import ModelSettings, Regressor
from ..support.progress import Progress
from .bases import FourierTrajectory
from .collisions import CollisionModel
from .constraints import check_trajectory, CollisionError, Findings, LimitViolation
from .criteria import column_scaled_condition_number, PredictedDeviations, UNKNOWN
from .distance_penalty import DistancePenalty
from .extremes import Effort, largest_efforts
from .limits import Limits, motion_limits
from .objective import IdentificationGoal
from .settings import PlannerSettings
from .stops import check_meshes, check_stops, decelerations, harsh_stops
from .trajectories import PointTrajectory, Trajectory

BUFFER = 0.03
"""How much more than the clearance the optimisers keep links apart [m]."""


Planned = FourierTrajectory | PointTrajectory
"""Trajectories that are planned; their excursions can be scaled."""


class PlanningCanceled(ExcitationError):
    """The caller canceled the planning before any motion had passed the checks."""


@dataclass(frozen=True)
class Plan:
    """
    A trajectory that excites the parameters.

    Attributes
    ----------
    trajectory:
        From rest to rest.
    limits:
        Limits that it keeps, margin included.
    condition_number:
        Of the column-scaled base regressor along it [-].
    history:
        Best value of the criterion after each step of the search.
    amplitude:
        Share of the motion found that efforts and collisions left, mostly 1 [-].
    settings:
        Of the planner.
    seconds:
        Time of planning [s].
    warnings:
        For the user.
    points_condition_number:
        Of the energy equations of the points, where there are such, in the columns' units [-].
    findings:
        Of the last check: shares of the limits, efforts included, and smallest distances.
    deviations:
        Predicted standard deviations of the base parameters.

    """

    trajectory: Planned
    limits: Limits
    condition_number: float
    history: tuple[float, ...]
    amplitude: float
    settings: PlannerSettings
    seconds: float
    warnings: tuple[str, ...] = ()
    points_condition_number: float | None = None
    findings: Findings | None = None
    deviations: PredictedDeviations | None = None

    def summary(self) -> str:
        """Return a few lines on the plan, with the share of each limit that it uses."""
        trajectory, limits = self.trajectory, self.limits
        motion = trajectory.sample(np.linspace(0.0, trajectory.duration, 2001))
        lines = [
            f'{trajectory.duration:.4g} s, {_kind(trajectory)}, condition number '
            f'{self.condition_number:.1f} in '
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
        if self.deviations is not None:
            lines.append(self.deviations.summary())
        return '\n'.join([*lines, *(f'warning: {text}' for text in self.warnings)])


def _kind(trajectory: Planned) -> str:
    if isinstance(trajectory, PointTrajectory):
        return f'{trajectory.time.size} points'
    return f'{trajectory.harmonics} harmonics of {trajectory.frequency:.4g} Hz'


@dataclass
class PlanningWatch:
    """
    Watch over the planning: reports the progress, and ends it on demand or when time is up.

    ``complete`` is whether all the work was done.
    """

    settings: PlannerSettings
    progress: Progress | None
    canceled: Callable[[], bool] | None
    on_iteration: Callable[[int, float], None] | None
    clock: Callable[[], float]
    history: list[float] = field(default_factory=list)
    label: str = ''
    complete: bool = True
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin = self.clock()
        self.label = self.label or self.settings.criterion

    @property
    def ended(self) -> bool:
        """True where the caller wishes the end, or the time budget is used up."""
        budget = self.settings.time_budget
        return self.on_request or (bool(budget) and self.seconds > budget)

    def left(self) -> bool:
        """Return whether the work may go on; where it may not, it is not `complete`."""
        self.complete = self.complete and not self.ended
        return self.complete

    @property
    def on_request(self) -> bool:
        """True where the caller wishes the end."""
        return self.canceled is not None and self.canceled()

    @property
    def seconds(self) -> float:
        """Time since the beginning [s]."""
        return self.clock() - self.begin

    def step(self, share: float, criterion: float) -> None:
        """Report a step of the search: the share of the work and the best criterion."""
        best = min(criterion, self.history[-1]) if self.history else criterion
        self.history.append(best)
        if self.on_iteration is not None:
            self.on_iteration(len(self.history), best)
        if self.progress is not None:
            self.progress(0.95 * min(1.0, share), f'{self.label} {best:.4g}')


@dataclass(frozen=True)
class PlanChecks:
    """Checks that a plan has to pass; the outcome of the last one is kept."""

    robot: Robot
    limits: Limits
    settings: PlannerSettings
    collisions: CollisionModel | None
    effort: Effort
    """Prediction of efforts."""
    _last: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def require(self, trajectory: Trajectory) -> Findings:
        """Return what is found; raise `LimitViolation` or `CollisionError` where a check fails."""
        outcome = self._outcome(trajectory)
        if isinstance(outcome, Findings):
            return outcome
        raise outcome

    def passes(self, trajectory: Trajectory) -> bool:
        """Return whether all checks are passed."""
        return isinstance(self._outcome(trajectory), Findings)

    def _outcome(self, trajectory: Trajectory) -> Findings | LimitViolation | CollisionError:
        """Return what a check finds, or its error."""
        if not (self._last and self._last[0] is trajectory):
            try:
                found = check_trajectory(
                    self.robot,
                    trajectory,
                    self.limits,
                    rate=self.settings.check_rate,
                    collisions=self.collisions,
                    effort=self.effort,
                )
                outcome: Any = replace(found, stopping=self._stopping(trajectory))
            except (LimitViolation, CollisionError) as error:
                outcome = error
            self._last[:] = trajectory, outcome
        return self._last[1]

    def _stopping(self, trajectory: Trajectory) -> float | None:
        """Check the controller's stops, if its decelerations are known; return the longest."""
        deceleration = self.settings.stop_deceleration
        if not deceleration:
            return None
        # a stop may use up the margin
        limits = motion_limits(self.robot, self.settings, margin=0.0)
        return check_stops(self.robot, trajectory, limits, deceleration, self.collisions)

    def effort_shares(self, trajectory: Trajectory) -> np.ndarray:
        """Return the shares (n_joints,) of the effort limits that a motion takes."""
        efforts, _ = largest_efforts(
            trajectory, self.effort, self.limits.effort, self.settings.check_rate
        )
        return np.abs(efforts) / self.limits.effort


@dataclass(frozen=True)
class PlanningTask:
    """Task of a planner."""

    robot: Robot
    settings: PlannerSettings
    model: ModelSettings
    """As for `planner.plan`."""
    limits: Limits
    """Limits of the plan, finite for positions."""
    starts: np.ndarray
    """(k, n_joints) poses that the motion may start from and end at, the usual one first."""
    collisions: CollisionModel | None
    """The robot's collision model; None leaves distances aside."""
    wanted: IdentificationGoal
    """Goal of the motion."""
    watch: PlanningWatch
    """Ends the work where it has to end."""

    @cached_property
    def checks(self) -> PlanChecks:
        """Checks that the plan has to pass."""
        parts = self.robot, self.limits, self.settings, self.collisions
        return PlanChecks(*parts, self.wanted.effort)

    @property
    def penalty(self) -> DistancePenalty | None:
        """Penalty that keeps a search away from collisions; None leaves distances aside."""
        if self.collisions is None:
            return None
        braking = decelerations(self.robot.joints, self.settings.stop_deceleration)
        return DistancePenalty(self.collisions, braking)

    def plan(
        self,
        trajectory: Planned,
        amplitude: float,
        *,
        points_condition_number: float | None = None,
    ) -> Plan:
        """Return the plan of a trajectory that passes the checks."""
        wanted, stopping = self.wanted, self.settings.stop_deceleration
        if self.collisions is not None:
            check_meshes(trajectory, stopping, self.collisions)
        made = Plan(
            trajectory=trajectory,
            limits=self.limits,
            condition_number=condition_number(trajectory, wanted.regressor, wanted.columns),
            history=tuple(self.watch.history),
            amplitude=amplitude,
            settings=self.settings,
            seconds=self.watch.seconds,
            points_condition_number=points_condition_number,
            findings=self.checks.require(trajectory),
            deviations=wanted.deviations(trajectory),
        )
        return replace(made, warnings=self._warnings(made))

    def _warnings(self, plan: Plan) -> tuple[str, ...]:
        remarks = list(self.collisions.warnings) if self.collisions else []
        if plan.settings.stop_deceleration:
            limits = motion_limits(self.robot, plan.settings, margin=0.0)
            harsh = harsh_stops(limits, plan.settings.stop_deceleration)
            remarks.extend(filter(None, [harsh]))
        if self.watch.on_request:
            remarks.append(
                'the search ended early on request: with more time the plan may be better'
            )
        elif not self.watch.complete:
            remarks.append(
                f'the search ended after time_budget ({plan.settings.time_budget:g} s): with more '
                'time the plan may be better, and is the same each time'
            )
        if plan.amplitude < 0.7:
            remarks.append(
                f'efforts or collisions leave {100.0 * plan.amplitude:.0f} % of the motion: '
                'another start or smaller position limits may allow more'
            )
        assert plan.deviations is not None
        known = plan.deviations.values != 0.0
        unsure = known & (plan.deviations.relative >= UNKNOWN)
        if 2 * unsure.sum() > known.sum() > 0:
            remarks.append(
                f'of little use: {unsure.sum()} of {known.sum()} parameters keep a standard '
                'deviation above their value in the URDF; allow more time, speed or room'
            )
        return tuple(remarks)


def shrink_until_feasible(
    trajectory: Planned, checks: PlanChecks, go_on: Callable[[], bool]
) -> tuple[float, Planned]:
    """
    Return the largest share of the excursions that passes the checks, by bisection.

    The start itself is free of collision and needs less than the effort limits, so small enough a
    motion mostly passes.  The trajectory scaled by the share is returned beside it.  ``go_on`` is
    called once a share has passed; False ends the bisection with that one.
    """
    if checks.passes(trajectory):
        return 1.0, trajectory
    low, high = 0.0, 1.0
    for _ in range(8):
        if low > 0.0 and not go_on():
            break
        middle = 0.5 * (low + high)
        trial = trajectory.scaled(middle)
        if checks.passes(trial):
            low, passing = middle, trial
        else:
            high = middle
    if low == 0.0:
        # raises for the smallest motion that was tried
        checks.require(trajectory.scaled(high))
    return low, passing


def condition_number(trajectory: Trajectory, regressor: Regressor, columns: np.ndarray) -> float:
    """Return the condition number of the column-scaled base regressor along a trajectory."""
    time = (np.arange(1000) + 0.5) / 1000 * trajectory.duration
    rows = regressor.rows(trajectory.sample(time))
    return column_scaled_condition_number(rows[:, columns])
