# SPDX-License-Identifier: Apache-2.0
"""
Planning by search: the motion of a family with the least value of an objective.

Descents start from the best of some random motions, then from perturbations of the best one.  A
motion whose efforts exceed their limits is sought again under limits that are lowered by the
excess, since a motion that is scaled down as a whole loses most of its information.  Work is
counted in evaluations, so that a search is the same for a seed whatever the load of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from .bases import BASES
from .constraints import CollisionError, LimitViolation
from .criteria import ROW_RATE
from .extremes import extremes, QUANTITIES
from .families import MotionFamily
from .limits import Limits
from .objective import Objective
from .plans import (
    BUFFER,
    Plan,
    Planned,
    PlanningCanceled,
    PlanningTask,
    shrink_until_feasible,
)
from .settings import PlannerSettings


@dataclass(frozen=True)
class SearchConstants:
    """Constants of a search, found on the robots of ``benchmarks/excitation.py``."""

    report_period: int = 25
    """Evaluations from one report of the progress to the next."""
    random_motions: int = 12
    """Random motions from which the best are taken to start from."""
    first_descents: int = 2
    """Motions from which the first descents start."""
    first_evaluations: int = 40
    """Evaluations of each of these."""
    refining_evaluations: tuple[int, int] = (150, 300)
    """Evaluations of the descent after these, and of each later one."""
    curvature_steps: int = 40
    """Steps that a descent takes the curvature from."""
    repairs: int = 4
    """Descents under lowered effort limits or heavier penalties, before a motion is scaled."""
    penalty_growth: float = 3.0
    """Factor of the weight of the penalties from one of these to the next."""
    distance_growth: float = 1.3
    """Factor of the distance above which links count as close, likewise."""
    sharpness_growth: int = 2
    """Factor, a power of 2, of the limits' sharpness after the first two refined motions."""
    coarse_stride: int = 4
    """Samples from one look at distances to the next, in the first descents."""
    perturbation: float = 0.25
    """Size of a perturbation beside that of the variables."""
    negligible_penalty: float = 1e-3
    """Penalty, of its weight, up to which a motion may pass the checks."""
    sample_bounds: tuple[int, int] = (100, 400)
    """Samples of a motion at which the criterion looks, at least and at most."""
    samples_per_period: int = 12
    """Samples for each period of the highest harmonic, between these bounds."""
    smaller_share: float = 0.95
    """Share of a motion that is tried where the whole does not pass."""
    tried_excess: float = 1.03
    """Share of the effort limits up to which that is tried."""
    used_share: float = 1.0 - 1e-4
    """
    Share of a limit to which a motion is scaled at the end.

    A controller interpolates between points, which takes a part of the rest: at most 4e-6 of the
    acceleration and 3.5e-5 of the jerk (`FourierTrajectory.point_rate`).
    """


SEARCH = SearchConstants()


class _Stopped(Exception):
    """The search has to end."""


class _Enough(Exception):
    """A descent has had its evaluations."""


@dataclass(frozen=True)
class Feasible:
    """A motion that has passed the checks."""

    trajectory: Planned
    criterion: float
    """Value of the criterion."""
    amplitude: float
    """Share of the excursions that was left of what the search had found; 1 for all."""


@dataclass
class Search:
    """State of a search; `run` ends with the best feasible motion so far."""

    objective: Objective
    """What is minimised."""
    task: PlanningTask
    """Has the poses to start from, what a motion has to pass, and the watch."""
    done: int = 0
    """Number of evaluations so far."""
    best: Feasible | None = None
    """Best motion that has passed the checks."""
    refused: Exception | None = None
    """Why the last motion has not."""

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.task.settings.seed)

    @property
    def evaluations(self) -> int:
        """Number of evaluations that there may be."""
        return self.task.settings.max_iterations

    def run(self) -> None:
        """Search until the work is done; `best` is None where no motion passes the checks."""
        full_objective = self.objective
        self.objective = replace(full_objective, every=SEARCH.coarse_stride)
        try:
            first = self._first()
            self._offer(first[0])
            found = [self._descend(x, SEARCH.first_evaluations) for x in first]
            found.sort(key=lambda x: self.objective.value(x).total)
            self.objective = full_objective
            best = self._refined(found[0], SEARCH.refining_evaluations[0])
            for _ in range(2):
                family = self.objective.family
                sharper = replace(family, sharpness=SEARCH.sharpness_growth * family.sharpness)
                self.objective = replace(self.objective, family=sharper)
                best = self._refined(best, SEARCH.refining_evaluations[1])
            while True:
                scale = SEARCH.perturbation * np.abs(best).mean()
                moved = best + scale * self._rng.standard_normal(best.size)
                trial = self._refined(moved, SEARCH.refining_evaluations[1])
                if self.objective.value(trial).total < self.objective.value(best).total:
                    best = trial
        except _Stopped:
            return

    def _first(self) -> list[np.ndarray]:
        """Return the best random motions, made so small that no penalty is left."""
        trials: list[tuple[float, np.ndarray]] = []
        try:
            for number in range(SEARCH.random_motions):
                start = self.task.starts[number % len(self.task.starts)]
                x = self._retreat(self.objective.family.random(self._rng, start))
                trials.append((self.objective.value(x).total, x))
                self._count()
        except _Stopped:
            # there is always a first one
            pass
        trials.sort(key=lambda trial: trial[0])
        return [x for _, x in trials[: SEARCH.first_descents]]

    def _retreat(self, x: np.ndarray) -> np.ndarray:
        """
        Scale a motion down until no penalty is left.

        A penalty's gradient leads out of a shallow overlap, but not always out of a deep one: the
        way out can lie across the motion.  Grown from a free motion, links meet the buffer first.
        """
        for factor in (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1):
            smaller = self.objective.family.scaled(x, factor)
            penalty = self.objective.value(smaller).penalty
            if penalty <= SEARCH.negligible_penalty * self.objective.weight:
                break
        return smaller

    def _refined(self, x: np.ndarray, evaluations: int) -> np.ndarray:
        """Descend from x, then until efforts and distances are kept; offer what is found."""
        x = self._descend(x, evaluations)
        weight = self.objective.weight
        try:
            for _ in range(SEARCH.repairs):
                found = self._offer(x)
                if found is None or found.amplitude < 1.0:
                    self._tighten(x)
                    x = self._descend(x, SEARCH.first_evaluations)
                else:
                    break
            else:
                self._offer(x)
        finally:
            # the next motion will have peaks like these between the samples
            self.objective = replace(self.objective, weight=weight)
        return x

    def _tighten(self, x: np.ndarray) -> None:
        """Tighten what the motion does not keep: efforts by their excess, else distances."""
        shares = self.task.checks.effort_shares(self.objective.family.trajectory(x))
        tighter = replace(
            self.objective, weight=SEARCH.penalty_growth * self.objective.weight, every=1
        )
        if shares.max() > 1.0:
            lower = self.objective.effort * np.minimum(1.0, 0.995 / shares)
            self.objective = replace(tighter, effort=lower)
        else:
            self.objective = replace(
                tighter, buffer=SEARCH.distance_growth * self.objective.buffer
            )

    def _offer(self, x: np.ndarray) -> Feasible | None:
        """Check a motion, and keep it if it is the best so far."""
        found = self._feasible(x)
        if found is not None and found.criterion < self._least:
            self.best = found
        self._report()
        return found

    def _feasible(self, x: np.ndarray) -> Feasible | None:
        """Return the motion of variables, made small enough to pass; None if none is."""
        found = self.objective.family.trajectory(x)
        excess = float(self.task.checks.effort_shares(found).max())
        trials: list[Feasible] = []
        if excess <= 1.0:
            largest = scaled_to_limits(found, self.task.limits)
            trials = [self._valued(largest), self._valued(found)]
        if excess <= SEARCH.tried_excess:
            smaller = self._valued(found.scaled(SEARCH.smaller_share), SEARCH.smaller_share)
            if smaller.criterion < self._least:
                trials.append(smaller)
        for trial in trials:
            if self.task.checks.passes(trial.trajectory):
                return trial
        if np.isfinite(self._least):
            return None
        try:
            amplitude, trajectory = shrink_until_feasible(
                found, self.task.checks, lambda: not self.task.watch.ended
            )
        except (LimitViolation, CollisionError) as error:
            self.refused = error
            return None
        return self._valued(trajectory, amplitude)

    def _valued(self, trajectory: Planned, amplitude: float = 1.0) -> Feasible:
        goal, motion = self.objective.goal, trajectory.sample(self.objective.time)
        criterion, _ = goal.criterion(goal.information(self.objective.rows(motion))[0])
        return Feasible(trajectory, float(np.exp(criterion)), amplitude)

    @property
    def _least(self) -> float:
        return np.inf if self.best is None else self.best.criterion

    def _count(self) -> None:
        """Count an evaluation; raise `_Stopped` where the search has to end."""
        if self.done >= self.evaluations or self.task.watch.ended:
            raise _Stopped
        self.done += 1
        if self.done % SEARCH.report_period == 0:
            self._report()

    def _report(self) -> None:
        if np.isfinite(self._least):
            self.task.watch.step(self.done / self.evaluations, self._least)

    def _descend(self, x: np.ndarray, evaluations: int) -> np.ndarray:
        """Return the best variables that a descent finds."""
        best, least, objective = x, np.inf, self.objective
        ends = self.done + evaluations

        def function(trial: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, least
            if self.done >= ends:
                raise _Enough
            self._count()
            value, gradient = objective.gradient(trial)
            if value.total < least:
                best, least = trial.copy(), value.total
            return value.total, gradient

        try:
            scipy.optimize.minimize(
                function,
                x,
                jac=True,
                method='L-BFGS-B',
                options={
                    'maxiter': evaluations,
                    'maxcor': SEARCH.curvature_steps,
                    'ftol': 1e-7,
                    'gtol': 1e-7,
                },
            )
        except _Enough:
            pass
        except _Stopped:
            self._offer(best)
            raise
        return best


def plan_family(task: PlanningTask) -> Plan:
    """Plan a motion that is linear in its coefficients."""
    settings, limits, wanted, watch = task.settings, task.limits, task.wanted, task.watch
    harmonics = settings.harmonics or _harmonics(settings, limits)
    basis = BASES[settings.method].make(settings.duration, settings.frequency, harmonics)
    moving = np.array([limits.joints.index(name) for name in wanted.moving])
    family = MotionFamily(basis, limits, task.starts[0], moving, free_start=not settings.start)
    highest = 0.5 * family.shape[0] / settings.duration
    count = SEARCH.samples_per_period * settings.duration * highest
    count = int(np.clip(count, *SEARCH.sample_bounds))
    objective = Objective(
        family=family,
        goal=replace(wanted, noise=wanted.noise * np.sqrt(count / (ROW_RATE * settings.duration))),
        # between the ends, where the robot rests and says nothing new
        time=(np.arange(count) + 0.5) / count * settings.duration,
        effort=limits.effort,
        distances=task.penalty,
        buffer=settings.clearance + BUFFER,
    )
    search = Search(objective, task)
    if not watch.on_request:
        search.run()
    found = search.best
    if found is None:
        if search.refused is None or watch.on_request:
            raise PlanningCanceled('the planning was canceled', remedy='start it again')
        raise search.refused
    watch.complete = search.done >= search.evaluations
    return task.plan(found.trajectory, found.amplitude)


def _harmonics(settings: PlannerSettings, limits: Limits) -> int:
    """
    Return as many harmonics as the acceleration limits allow.

    Above the frequency at which a sine that uses up the velocity limit uses up the acceleration
    limit, too, speed is lost.
    """
    crossing = float(np.median(limits.acceleration / limits.velocity)) / (2.0 * np.pi)
    count = 1.25 * crossing / settings.frequency
    return int(np.clip(np.round(count), 5, 64))


def scaled_to_limits(trajectory: Planned, limits: Limits) -> Planned:
    """Return the motion with each joint's excursions scaled to use up one of its limits."""
    reached = extremes(trajectory, 500.0)
    start = trajectory.sample(np.zeros(1)).position[0]
    with np.errstate(divide='ignore', invalid='ignore'):
        shares = [
            (reached.highest[0] - start) / (limits.upper - start),
            (start - reached.lowest[0]) / (start - limits.lower),
            *(
                np.abs(reached.largest(order)[0]) / getattr(limits, name)
                for order, name in enumerate(QUANTITIES[1:], 1)
            ),
        ]
    use = np.nanmax(shares, axis=0)
    return trajectory.scaled(np.where(use > 0.0, SEARCH.used_share / np.maximum(use, 1e-12), 1.0))
