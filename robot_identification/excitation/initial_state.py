# SPDX-License-Identifier: Apache-2.0
"""Start of a plan: inside the limits, free of collision, within the effort limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from ..data.recording import Motion
from ..errors import ExcitationError
from ..model.robot import Robot
from ..regressor import (
    build,
    predict,
    prior,
)
from .collision_check import Nearest, too_close
from .collisions import CollisionModel
from .limits import (
    CONTINUOUS_RANGE,
    Limits,
    motion_limits,
    start_position,
)
from .settings import PlannerSettings


def limits_and_start(
    robot: Robot, settings: PlannerSettings, collisions: CollisionModel | None
) -> tuple[Limits, np.ndarray]:
    """
    Return the limits of a plan and where it starts.

    Parameters
    ----------
    robot, settings:
        What gives them.
    collisions:
        The robot's collision model; None leaves distances aside.

    Returns
    -------
    tuple of Limits and np.ndarray
        Limits, margin included and finite for positions, and (n_joints,) position.

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
