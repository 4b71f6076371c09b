# SPDX-License-Identifier: Apache-2.0
"""Figures of the reweighted least squares: what outliers do to it, and what robustness costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from robot_identification.data.recording import Recording
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.estimation.irls import IrlsSettings
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources
from robot_identification.results.result import Result
from robot_identification.signals import SignalSettings

from . import simulated_arm
from .page import figure, Table

NOISE, SHARE, SIZE = 0.05, 0.01, 50.0
"""Noise of the efforts [N m]; share of outliers among the samples, and their size in noises."""

METHODS = {
    'OLS': ('ols', 'huber'),
    'WLS': ('wls', 'huber'),
    'IRLS, Huber': ('irls', 'huber'),
    'IRLS, Tukey': ('irls', 'tukey'),
}


def table(seeds: int = 10) -> Table:
    """
    Return the figures as a table.

    Parameters
    ----------
    seeds:
        Recordings to take the worst, or the mean, of.

    """
    rows = []
    for decimate_to in (50.0, None):
        moved, efficiency = _study(seeds, decimate_to)
        at = 'decimated to 50 Hz' if decimate_to else 'without decimation'
        for name, (method, _) in METHODS.items():
            robust = method == 'irls'
            limit = {'at_most': 1.0} if robust else {}
            rows.append(
                figure(
                    f'largest move by outliers [standard deviations], {name}, {at}',
                    None,
                    moved[name],
                    **limit,
                )
            )
            if robust:
                rows.append(
                    figure(
                        f'variance of OLS over that of {name} on clean data, {at}',
                        None,
                        efficiency[name],
                        why='0.95 by design, but for the chance of so many recordings',
                    )
                )
    return Table(
        'Outliers at a three-joint arm, with and without decimation',
        rows,
        f'{100 * SHARE:.0f} % of the samples of every effort of a simulated arm are wrong by '
        f'{SIZE:.0f} times the noise; the worst of {seeds} recordings and 25 parameters.',
    )


def spoilt(recording: Recording, seed: int) -> Recording:
    """Return a recording with outliers in its efforts."""
    rng = np.random.default_rng([seed, 1])
    effort = np.array(recording.effort)
    bad = rng.random(effort.shape) < SHARE
    return replace(
        recording, effort=effort + np.where(bad, SIZE * NOISE * rng.normal(size=bad.shape), 0.0)
    )


def _study(seeds: int, decimate_to: float | None) -> tuple[dict[str, float], dict[str, float]]:
    robot, truth = simulated_arm.arm()
    signals = SignalSettings(cutoff=20.0, decimate_to=decimate_to, dead_zone=0.05)

    def found(name: str, recording: Recording) -> Result:
        method, loss = METHODS[name]
        settings = EstimationSettings(method=method, irls=IrlsSettings(loss=loss), essential=None)
        problem = IdentificationProblem(robot, signals=signals, estimation=settings)
        return identify_sources(problem, [recording])

    moved = dict.fromkeys(METHODS, 0.0)
    squares = dict.fromkeys(METHODS, 0.0)
    for seed in range(seeds):
        clean = simulated_arm.recording(robot, truth, seed, NOISE)
        quiet = simulated_arm.recording(robot, truth, seed, 0.0)
        for name in METHODS:
            before, after = found(name, clean), found(name, spoilt(clean, seed))
            change = after.estimate.base.values - before.estimate.base.values
            moved[name] = max(moved[name], float(np.abs(change / before.estimate.std).max()))
            # the filters' own error is the same in all; what is left is the noise's
            error = before.estimate.base.values - found('OLS', quiet).estimate.base.values
            squares[name] += float(np.sum((error / before.estimate.std) ** 2))
    return moved, {name: squares['OLS'] / squares[name] for name in METHODS}
