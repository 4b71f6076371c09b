# SPDX-License-Identifier: Apache-2.0
"""Estimates of the robot of Szabo and Szadeczky-Kardoss under noise and with wrong friction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from robot_identification.data.recording import Recording
from robot_identification.estimation.least_squares import ols, wls
from robot_identification.estimation.system import from_rows
from robot_identification.excitation.bases import FourierTrajectory
from robot_identification.regressor import predict
from robot_identification.selection.friction_slopes import find_slopes
from robot_identification.signals import SignalSettings
from scipy import stats

from .szabo_robot import base_rows, DURATION, NOISE, PaperRegressor

RUNS, BLOCKS = 100, 50
"""Runs of a noise study, and how many such studies are made, with ever other seeds."""

SHAPES = ((100.0, 10.0), (50.0, 5.0), (1000.0, 5.0), (100.0, 2.5))
"""Wrong slopes (K_v, delta), of which the effect on the friction is looked at."""


@dataclass(frozen=True)
class Study:
    """
    Estimates from repeated noise.

    Attributes
    ----------
    values:
        (runs, b).
    reported_variance:
        (b,) mean of the variances that the estimates say of themselves.
    theory:
        (b,) variances by the covariance formula with the true noise.
    exact:
        (b,).

    """

    values: np.ndarray
    reported_variance: np.ndarray
    theory: np.ndarray
    exact: np.ndarray

    def block(self, number: int) -> Study:
        """Return the study of the ``number``-th hundred runs."""
        return replace(self, values=self.values[RUNS * number : RUNS * (number + 1)])

    @property
    def mean(self) -> np.ndarray:
        """(b,) mean over the runs."""
        return self.values.mean(axis=0)

    @property
    def variance(self) -> np.ndarray:
        """(b,) variance over the runs."""
        return self.values.var(axis=0, ddof=1)

    @property
    def z(self) -> np.ndarray:
        """(b,) error of the mean in its standard errors."""
        return (self.mean - self.exact) / np.sqrt(self.variance / len(self.values))

    @property
    def spread(self) -> np.ndarray:
        """(b,) variance over the runs by the one of the formula."""
        return self.variance / self.theory


def noise_study(
    paper: PaperRegressor, trajectory: FourierTrajectory, seeds: range
) -> tuple[Study, Study]:
    """Estimate by LS (17) and WLS (19) from noisy torques, a run a seed."""
    rows = base_rows(paper, trajectory)
    exact = paper.exact.values
    clean, noise = rows @ exact, np.array(NOISE)
    found: tuple[list, list] = ([], [])
    for seed in seeds:
        random = np.random.default_rng(seed)
        effort = clean + noise * random.standard_normal(clean.shape)
        system = from_rows(paper.base, paper.robot.joints, rows, effort)
        for several, estimator in zip(found, (ols, wls), strict=True):
            estimate = estimator(system)
            several.append((estimate.base.values, estimate.std**2))
    studies = []
    for several, theory in zip(found, covariances(rows), strict=True):
        values, variances = (np.array(part) for part in zip(*several, strict=True))
        studies.append(Study(values, variances.mean(axis=0), np.diag(theory), exact))
    return studies[0], studies[1]


def by_formula(
    paper: PaperRegressor, trajectory: FourierTrajectory, seeds: range
) -> tuple[Study, Study]:
    """Estimate as `noise_study` does, with the true noise as weights, by equations (17), (19)."""
    rows = base_rows(paper, trajectory)
    noise = np.array(NOISE)
    exact = paper.exact.values
    matrix, weighted = (part.reshape(-1, exact.size) for part in (rows, rows / noise[:, None]))
    draws = [np.random.default_rng(seed).standard_normal(rows.shape[:2]).ravel() for seed in seeds]
    size = np.tile(noise, len(rows))
    plain, better = covariances(rows)
    values = (
        exact + np.array(draws) @ (size * np.linalg.pinv(matrix)).T,
        exact + np.array(draws) @ np.linalg.pinv(weighted).T,
    )
    return (
        Study(values[0], np.diag(plain), np.diag(plain), exact),
        Study(values[1], np.diag(better), np.diag(better), exact),
    )


def covariances(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of LS, which does not know that the joints' noise differs, and of WLS."""
    grams = np.einsum('sji,sjk->jik', rows, rows)
    variance = np.array(NOISE)[:, None, None] ** 2
    bread = np.linalg.inv(grams.sum(axis=0))
    plain = bread @ (variance * grams).sum(axis=0) @ bread
    return plain, np.linalg.inv((grams / variance).sum(axis=0))


def shape_errors(paper: PaperRegressor, trajectory: FourierTrajectory) -> dict[tuple, np.ndarray]:
    """Return the errors of LS without noise where the slopes of the friction are wrong."""
    clean = base_rows(paper, trajectory) @ paper.exact.values
    errors = {}
    for slopes in SHAPES:
        rows = base_rows(PaperRegressor(slopes), trajectory)
        flat = rows.reshape(-1, rows.shape[-1])
        found = np.linalg.lstsq(flat, clean.ravel(), rcond=None)[0]
        errors[slopes] = found - paper.exact.values
    return errors


def searched_slopes(
    paper: PaperRegressor, trajectory: FourierTrajectory, noise: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes (K_v, delta) of each joint that a recording of the motion tells."""
    time = np.arange(0.0, DURATION, 1e-3)
    motion = trajectory.sample(time)
    effort = predict(paper, motion, paper.standard)
    effort += noise * np.array(NOISE) * np.random.default_rng(seed).standard_normal(effort.shape)
    recording = Recording(
        time=time,
        position=motion.position,
        velocity=motion.velocity,
        effort=effort,
        joints=paper.robot.joints,
        source='the motion',
    )
    unknown = replace(paper.model, stiction_slope=None, stribeck_slope=None)
    signals = SignalSettings(cutoff=100.0, decimate_to=None)
    found = find_slopes([recording], paper, paper.base, unknown, signals)
    return found.slopes['stiction'], found.slopes['stribeck']


def spread_bounds(runs: int, count: int, level: float = 0.99) -> tuple[float, float]:
    """Between which a sample variance over the true one lies for all of ``count`` parameters."""
    tail = 0.5 * (1.0 - level) / count
    chi = stats.chi2(runs - 1)
    return chi.ppf(tail) / (runs - 1), chi.ppf(1.0 - tail) / (runs - 1)


def largest_z(count: int, level: float = 0.99) -> float:
    """Below which all of ``count`` errors, in standard errors, lie."""
    return float(stats.norm.ppf(1.0 - 0.5 * (1.0 - level) / count))
