# SPDX-License-Identifier: Apache-2.0
"""Parts that all planners share: limits and start, the plan, its checks, and the time budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
import time
from typing import Any, TypeVar

import numpy as np

from ..base_parameters import BaseStructure
from ..data.recording import Motion
from ..errors import ExcitationError
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..progress import Progress
from ..regressor import build, predict, prior, Regressor
from .collision_check import CollisionError, Nearest, too_close
from .collisions import CollisionModel
from .constraints import check_trajectory, Findings, LimitViolation
from .criteria import column_scaled_condition_number
from .limits import CONTINUOUS_RANGE, Limits, motion_limits, start_position
from .points import PointTrajectory
from .settings import PlannerSettings
from .trajectories import FourierTrajectory, Trajectory

BUFFER = 0.03
"""How much more than the clearance the optimisers keep links apart [m]."""


Scalable = TypeVar('Scalable', FourierTrajectory, PointTrajectory)


class PlanningCanceled(ExcitationError):
    """The caller canceled the planning."""


class OutOfTime(Exception):
    """The time budget is used up."""


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
        Best value of the criterion after each iteration.
    amplitude:
        Share of the optimiser's amplitude that efforts and collisions left, mostly 1 [-].
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
        return '\n'.join([*lines, *(f'warning: {text}' for text in self.warnings)])


def _kind(trajectory: FourierTrajectory | PointTrajectory) -> str:
    if isinstance(trajectory, PointTrajectory):
        return f'{trajectory.time.size} points'
    return f'{trajectory.harmonics} harmonics of {trajectory.frequency:.4g} Hz'


@dataclass
class PlanningWatch:
    """Count of iterations and time, which ends the planning on demand or when time is up."""

    settings: PlannerSettings
    progress: Progress | None
    canceled: Callable[[], bool] | None
    on_iteration: Callable[[int, float], None] | None
    history: list[float]
    clock: Callable[[], float] = time.monotonic
    expected: int = 0
    label: str = ''
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin = self.clock()
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
        """True if the time budget is used up."""
        budget = self.settings.time_budget
        return bool(budget) and self.seconds > budget

    @property
    def seconds(self) -> float:
        """Time since the beginning [s]."""
        return self.clock() - self.begin

    def iteration(self, criterion: float) -> None:
        """Count an iteration, and report the best criterion."""
        best = min(criterion, self.history[-1]) if self.history else criterion
        self.history.append(best)
        count = len(self.history)
        if self.on_iteration is not None:
            self.on_iteration(count, best)
        if self.progress is not None:
            share = min(1.0, count / self.expected)
            self.progress(0.95 * share, f'{self.label} {best:.4g}')


@dataclass(frozen=True)
class PlanChecks:
    """Checks that a plan has to pass; the outcome of the last one is kept."""

    robot: Robot
    limits: Limits
    rate: float
    collisions: CollisionModel | None
    regressor: Regressor
    prior: ParameterSet
    _last: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def require(self, trajectory: Trajectory) -> Findings:
        """Return what is found; raise `LimitViolation` or `CollisionError` where a check fails."""
        outcome = self._outcome(trajectory)
        if isinstance(outcome, Findings):
            return outcome
        raise outcome

    def passes(self, trajectory: Trajectory) -> bool:
        """Tell whether all checks are passed."""
        return isinstance(self._outcome(trajectory), Findings)

    def _outcome(self, trajectory: Trajectory) -> Findings | LimitViolation | CollisionError:
        """Return what a check finds, or its error."""
        if not (self._last and self._last[0] is trajectory):
            try:
                outcome: Any = check_trajectory(
                    self.robot,
                    trajectory,
                    self.limits,
                    rate=self.rate,
                    collisions=self.collisions,
                    effort=self._effort,
                )
            except (LimitViolation, CollisionError) as error:
                outcome = error
            self._last[:] = trajectory, outcome
        return self._last[1]

    def _effort(self, motion: Motion) -> np.ndarray:
        return predict(self.regressor, motion, self.prior)


def largest_motion(
    trajectory: Scalable, checks: PlanChecks, go_on: Callable[[], bool]
) -> tuple[float, Scalable]:
    """
    Return the largest share of the excursions that passes the checks, by bisection.

    The start itself is free of collision and needs less than the effort limits, so small enough a
    motion mostly passes.  The trajectory scaled by the share is returned beside it.

    Parameters
    ----------
    trajectory:
        To be scaled.
    checks:
        What it has to pass.
    go_on:
        Called once a share has passed; False ends the bisection with that one.

    """
    if checks.passes(trajectory):
        return 1.0, trajectory
    low, high = 0.0, 1.0
    if not go_on():
        # twice the share that keeps the motion's own limits: that one is tried first
        high = 2.0 * _share_within(trajectory, checks.limits)
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


def _share_within(trajectory: Scalable, limits: Limits) -> float:
    """Return the share of the excursions, up to a half, that keeps the limits at samples."""
    motion = trajectory.sample(np.linspace(0.0, trajectory.duration, 2001))
    start = motion.position[0]
    way = motion.position - start
    room = np.where(way > 0.0, limits.upper - start, start - limits.lower)
    with np.errstate(divide='ignore', invalid='ignore'):
        shares = (
            room / np.abs(way),
            limits.velocity / np.abs(motion.velocity),
            limits.acceleration / np.abs(motion.acceleration),
        )
    return min(0.5, 0.97 * min(float(np.nanmin(share)) for share in shares))


# --------------------------------------------------------------------------------------- the start


def limits_and_start(
    robot: Robot, settings: PlannerSettings, collisions: CollisionModel | None
) -> tuple[Limits, np.ndarray]:
    """
    Return the limits of a plan, finite for positions, and where it starts (n_joints,).

    Without a ``collisions`` model distances are left aside.

    Raises
    ------
    ExcitationError
        where limits leave no room, or the start touches something or is too heavy to hold.

    """
    limits = motion_limits(robot, settings)
    start = start_position(robot, settings, limits)
    limits = replace(
        limits,
        lower=np.where(np.isfinite(limits.lower), limits.lower, start - CONTINUOUS_RANGE),
        upper=np.where(np.isfinite(limits.upper), limits.upper, start + CONTINUOUS_RANGE),
    )
    contact = None if collisions is None else next(collisions.contacts(start[None]), None)
    if collisions is not None and contact is not None:
        if settings.start:
            raise too_close(collisions, Nearest.of(contact, 0.0, start))
        start = _free_start(robot, limits, start, collisions, settings.seed)
    _require_static_effort(robot, limits, start)
    return limits, start


def _free_start(
    robot: Robot, limits: Limits, middle: np.ndarray, collisions: CollisionModel, seed: int
) -> np.ndarray:
    """Return the random position free of collision that is nearest to the middle of the ranges."""
    half = 0.5 * (limits.upper - limits.lower)
    rng = np.random.default_rng(seed)
    candidates = middle + rng.uniform(-0.8, 0.8, (500, robot.n_joints)) * half
    order = np.argsort(np.linalg.norm((candidates - middle) / half, axis=1))
    in_the_way: Counter[str] = Counter()
    for i in order:
        contacts = collisions.contacts(candidates[i][None])
        touching = {collisions.in_words(c.first, c.second) for c in contacts}
        if not touching:
            return candidates[i]
        in_the_way.update(touching)
    (words, count), *_ = in_the_way.most_common(1)
    raise ExcitationError(
        f'no position free of collision was found to start from: {words} are too close in '
        f'{count} of {len(candidates)} positions',
        key='start',
        remedy="correct the obstacle or the shapes, or give a free 'start'",
    )


def _require_static_effort(robot: Robot, limits: Limits, start: np.ndarray) -> None:
    rest = np.zeros((1, robot.n_joints))
    # gravity alone: rest has no friction
    effort = predict(build(robot), Motion(start[None], rest, rest), prior(robot))[0]
    for j, joint in enumerate(robot.joints):
        if abs(effort[j]) > limits.effort[j]:
            raise ExcitationError(
                f'gravity takes {abs(effort[j]):.6g} {limits.unit("effort", j)} at the start of '
                f"joint '{joint}', beyond its limit of {limits.effort[j]:.6g} (margin included)",
                joint=joint,
                key='effort',
                value=float(effort[j]),
                remedy='start elsewhere, lower the margin, or correct effort limit and inertias',
            )


# ---------------------------------------------------------------------------------------- a result


def plan_warnings(
    collisions: CollisionModel | None, settings: PlannerSettings, amplitude: float, complete: bool
) -> tuple[str, ...]:
    """Return the warnings of a plan."""
    remarks = list(collisions.warnings) if collisions else []
    if not complete:
        remarks.append(
            f'the search ended after time_budget ({settings.time_budget:g} s): with more time the '
            'plan would be better, and the same each time'
        )
    if amplitude < 0.7:
        remarks.append(
            f'efforts or collisions leave {100.0 * amplitude:.0f} % of the motion: another start '
            'or smaller position limits may allow more'
        )
    return tuple(remarks)


def condition_number(
    trajectory: Trajectory, regressor: Regressor, base: BaseStructure, n_samples: int = 1000
) -> float:
    """Return the condition number of the column-scaled base regressor along a trajectory."""
    time_ = (np.arange(n_samples) + 0.5) / n_samples * trajectory.duration
    rows = regressor.rows(trajectory.sample(time_))
    return column_scaled_condition_number(rows[:, base.independent])
