# SPDX-License-Identifier: Apache-2.0
"""Motions of a calibration, each planned for what the ones before left open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..config.problem import IdentificationProblem
from ..excitation.criteria import PredictedDeviations
from ..excitation.planner import plan
from ..excitation.plans import Plan
from ..excitation.settings import LEAST_DURATION, PlannerSettings
from ..progress import Progress
from ..reduction import earlier_information
from ..results.factor_file import StoredFactor
from .goal import Standing

FIRST, SHORTEST = 0.5, 0.2
"""Share of the planner's duration that the first motion takes, and each one at least."""

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


def first_duration(longest: float) -> float:
    """Return how long the first motion is, where motions may take ``longest`` [s]."""
    return max(FIRST * longest, LEAST_DURATION)


def shortest_duration(longest: float) -> float:
    """Return how long each motion is at least, where motions may take ``longest`` [s]."""
    return max(SHORTEST * longest, LEAST_DURATION)


def needed_duration(standing: Standing, spent: float, longest: float) -> float:
    """
    Return how long the next motion has to be by what the motions so far brought [s].

    Deviations fall with the root of the time, so the worst open parameter tells what is missing.

    Parameters
    ----------
    standing:
        After the motions so far.
    spent:
        Their duration [s].
    longest:
        Longest motion [s]; the shortest is that of `shortest_duration`.

    """
    if standing.settings.prediction_error is not None:
        return longest
    worst = float(np.max(standing.relative_std[standing.open], initial=0.0))
    missing = spent * ((worst / standing.settings.target) ** 2 - 1.0)
    return float(np.clip(missing, shortest_duration(longest), longest))


def sufficient_share(
    standing: Standing, targets: Mapping[str, float], planned: PredictedDeviations
) -> float:
    """
    Return which share of a planned motion is expected to suffice for the targets.

    Information is 1 / std^2 and grows with the time; the parameter that needs most counts.

    Parameters
    ----------
    standing:
        After the motions so far.
    targets:
        Wanted classical standard deviations by base parameter, in its unit.
    planned:
        Standard deviations that are predicted for the motions so far and the planned one.

    """
    before = dict(zip(standing.names, standing.std / standing.inflation, strict=True))
    after = dict(zip(planned.names, planned.std, strict=True))
    shares = [0.0]
    for name in targets.keys() & after.keys():
        known = 1.0 / before[name] ** 2 if np.isfinite(before[name]) else 0.0
        brought = 1.0 / after[name] ** 2 - known
        missing = 1.0 / targets[name] ** 2 - known
        shares.append(missing / brought if brought > 0.0 else np.inf)
    return float(max(shares))
