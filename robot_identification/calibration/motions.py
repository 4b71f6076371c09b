# SPDX-License-Identifier: Apache-2.0
"""Planning of the motions of a calibration, each for what the ones before left open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..config.problem import IdentificationProblem
from ..excitation.planner import plan
from ..excitation.plans import Plan
from ..excitation.points import point_to_point, PointTrajectory
from ..excitation.settings import PlannerSettings
from ..progress import Progress
from ..reduction import earlier_information
from ..results.factor_file import StoredFactor
from ..results.plan_file import as_points

SAME = 1e-6
"""Distance of a joint from the start of a motion that takes no way to it [rad or m]."""

PlanMotion = Callable[
    [IdentificationProblem, PlannerSettings, Sequence[StoredFactor], Mapping[str, float]], Plan
]
"""Plans a motion as `next_motion` does."""


def next_motion(
    problem: IdentificationProblem,
    settings: PlannerSettings,
    factors: Sequence[StoredFactor],
    targets: Mapping[str, float],
    *,
    progress: Progress | None = None,
    canceled: Callable[[], bool] | None = None,
) -> Plan:
    """
    Plan a motion that complements earlier ones.

    Parameters
    ----------
    problem:
        Robot and terms of its regressor.
    settings:
        Of the planner.
    factors:
        Of the recordings of earlier motions.
    targets:
        Wanted standard deviations by base parameter, in its unit; empty for all alike.
    progress, canceled:
        As for `excitation.planner.plan`.

    """
    return plan(
        problem.robot,
        settings,
        progress,
        canceled,
        model=problem.model,
        earlier=earlier_information(factors) if factors else None,
        targets=dict(targets),
    )


def with_way(plan: Plan, here: np.ndarray) -> PointTrajectory:
    """
    Return a plan's motion after the way to its start, straight and within the plan's limits.

    Parameters
    ----------
    plan:
        Whose motion starts somewhere.
    here:
        (n_joints,) where the robot rests [rad or m].

    """
    motion, limits = as_points(plan.trajectory), plan.limits
    if np.allclose(here, motion.position[0], rtol=0.0, atol=SAME):
        return motion
    way = point_to_point(
        motion.joints,
        here,
        motion.position[0],
        limits.velocity,
        limits.acceleration,
        jerk=limits.jerk,
    )
    assert motion.acceleration is not None and way.acceleration is not None
    return PointTrajectory(
        motion.joints,
        np.append(way.time[:-1], way.duration + motion.time),
        np.vstack([way.position[:-1], motion.position]),
        np.vstack([way.velocity[:-1], motion.velocity]),
        np.vstack([way.acceleration[:-1], motion.acceleration]),
    )
