# SPDX-License-Identifier: Apache-2.0
"""
Planning of exciting trajectories: limits, poses to start from, and the planner of each method.

What is returned has passed `check_trajectory`, whatever the search did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
import time

import numpy as np

from ..errors import ExcitationError
from ..model.robot import joint_inertia, Robot
from ..regressor import ModelSettings
from ..support.progress import Progress
from ..support.threads import on_one_thread
from .bases import BASES
from .collisions import CollisionModel, planned_collisions
from .constraints import Nearest, too_close
from .criteria import EarlierInformation
from .extremes import at_rest, nominal_effort
from .limits import CONTINUOUS_RANGE, Limits, motion_limits, start_position
from .objective import wanted_parameters
from .plans import Plan, PlanningTask, PlanningWatch
from .point_planner import plan_points, plan_simple
from .search import plan_family
from .settings import PlannerSettings
from .stops import decelerations

POSES = 24
"""Poses that a search may start from."""

CANDIDATES = 3000
"""Random poses among which they are sought."""

INNER = 0.8
"""Share of the ranges in which these lie."""

BEYOND = 3.0
"""Times what the effort limit allows above which an acceleration limit says nothing."""

LEAST = 0.01
"""Least share of velocity and acceleration limits that is planned with."""


def plan_limits(robot: Robot, settings: PlannerSettings) -> tuple[Limits, tuple[str, ...]]:
    """
    Return the limits of a plan, finite for positions, and warnings.

    Acceleration limits that are made of velocity limits are lowered where the effort limit allows
    far less, and velocity limits with them: some URDFs have speeds that no drive reaches.  Where
    the controller's stops are to keep the position limits, too, no joint accelerates harder than
    it brakes in one: a path that brakes by itself within the limits then goes farther than a stop.

    Raises `ExcitationError` where limits leave no room.
    """
    limits = motion_limits(robot, settings)
    start = start_position(robot, settings, limits)
    limits = replace(
        limits,
        lower=np.where(np.isfinite(limits.lower), limits.lower, start - CONTINUOUS_RANGE),
        upper=np.where(np.isfinite(limits.upper), limits.upper, start + CONTINUOUS_RANGE),
    )
    braking = decelerations(limits.joints, settings.stop_deceleration)
    if braking is not None:
        limits = replace(limits, acceleration=np.minimum(limits.acceleration, braking))
    if settings.acceleration_limits or robot.passive:
        return limits, ()
    reachable = BEYOND * _reachable(robot, limits)
    share = np.clip(reachable / limits.acceleration, LEAST, 1.0)
    warnings = tuple(
        f"the velocity limit of joint '{joint}', {velocity:.4g} {limits.unit('velocity', j)}, is "
        f'far beyond what its effort limit allows: planned with {part * velocity:.4g}'
        for j, (joint, velocity, part) in enumerate(
            zip(limits.joints, limits.velocity, share, strict=True)
        )
        if part < 1.0
    )
    lowered = replace(
        limits,
        velocity=share * limits.velocity,
        acceleration=share * limits.acceleration,
        jerk=share * limits.jerk,
    )
    return lowered, warnings


def _reachable(robot: Robot, limits: Limits) -> np.ndarray:
    """Return the accelerations (n_joints,) that efforts allow in the best quarter of poses."""
    # a seed of its own: the limits are a property of the robot, not of a plan
    rng = np.random.default_rng(20130602)
    poses = rng.uniform(limits.lower, limits.upper, (64, robot.n_joints))
    data = robot.model.createData()
    inertia = np.array([joint_inertia(robot, data, q) for q in robot.configuration(poses)])
    free = np.maximum(limits.effort - np.abs(at_rest(nominal_effort(robot), poses)), 0.0)
    # poses that gravity forbids allow none, and a body without inertia any
    return np.asarray(np.quantile(free / np.maximum(inertia, 1e-9), 0.75, axis=0))


def start_poses(
    robot: Robot, settings: PlannerSettings, limits: Limits, collisions: CollisionModel | None
) -> np.ndarray:
    """
    Return poses (k, n_joints) that a plan may start from, the usual one first.

    That is the pose of the settings, and then the only one, or the allowed one that is nearest to
    the middle of the ranges.

    Raises `ExcitationError` where the pose of the settings touches something or is too heavy to
    hold, or no pose is allowed.
    """
    start = start_position(robot, settings, limits)
    if settings.start:
        contact = None if collisions is None else next(collisions.contacts(start[None]), None)
        if collisions is not None and contact is not None:
            raise too_close(collisions, Nearest.from_contact(contact, 0.0, start))
        _require_held(robot, limits, start)
        return start[None]
    half, rng = limits.half_range, np.random.default_rng(settings.seed)
    candidates = start + INNER * rng.uniform(-1.0, 1.0, (CANDIDATES, robot.n_joints)) * half
    candidates = np.clip(candidates, limits.lower, limits.upper)
    nearest_first = np.argsort(np.linalg.norm((candidates - start) / half, axis=1))
    candidates = np.concatenate([start[None], candidates[nearest_first]])
    held = np.flatnonzero(
        (np.abs(at_rest(nominal_effort(robot), candidates)) <= limits.effort).all(axis=1)
    )
    in_the_way: Counter[str] = Counter()
    for number, i in enumerate(held):
        words = _touching(collisions, candidates[i])
        if not words:
            others = (j for j in rng.permutation(held[number + 1 :]))
            free = (candidates[j] for j in others if not _touching(collisions, candidates[j]))
            return np.array([candidates[i], *islice(free, POSES - 1)])
        in_the_way.update(words)
    if not held.size:
        _require_held(robot, limits, start)
    (words_of_most, count), *_ = in_the_way.most_common(1)
    assert collisions is not None
    raise ExcitationError(
        f'no position free of collision was found to start from: {words_of_most} are too close in '
        f'{count} of {held.size} positions',
        key='start',
        remedy="correct the obstacle or the shapes, or give a free 'start'"
        + collisions.allowance(robot.links),
    )


def _touching(collisions: CollisionModel | None, pose: np.ndarray) -> set[str]:
    if collisions is None:
        return set()
    contacts = collisions.contacts(pose[None])
    return {collisions.in_words(c.first, c.second) for c in contacts}


def _require_held(robot: Robot, limits: Limits, pose: np.ndarray) -> None:
    effort = at_rest(nominal_effort(robot), pose[None])[0]
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


PLANNERS: dict[str, Callable[[PlanningTask], Plan]] = {
    **dict.fromkeys(BASES, plan_family),
    'points': plan_points,
    'sweeps': plan_simple,
    'poses': plan_simple,
}
"""Planners by the name that `PlannerSettings.method` gives their motions."""


@on_one_thread
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
    collisions = planned_collisions(robot, settings)
    limits, warnings = plan_limits(robot, settings)
    starts = start_poses(robot, settings, limits, collisions)
    wanted = wanted_parameters(robot, settings, model, limits, earlier, targets)
    task = PlanningTask(robot, settings, model, limits, starts, collisions, wanted, watch)
    made = PLANNERS[settings.method](task)
    if progress is not None:
        progress(1.0, 'checked')
    return replace(made, warnings=warnings + made.warnings)
