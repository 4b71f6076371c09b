# SPDX-License-Identifier: Apache-2.0
"""
Tests for robots that differ from the others, and for changes over time.

A parameter's values from recordings of one robot scatter by more than their standard deviations
say: motions differ, friction warms up, and no model is complete.  The scale of the scatter is
estimated from the recordings, for each parameter over all robots (Birge's ratio; Paule and Mandel,
"Consensus values and weighting factors", J. Res. NBS 87, 1982), and multiplies the standard
deviations of differences.  Probabilities are corrected for the number of tests (Holm, "A simple
sequentially rejective multiple test procedure", Scand. J. Statist. 6, 1979): in a fleet of equal
robots the probability of any reported difference is at most the significance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import chi2

from ..identification.revalidation import holm, MANY, two_sided
from ..model.parameters import ParameterLayout

DAY = 86400.0
"""Length of a day [s]."""

_ERRATIC = 1e-4
"""Probability below which a robot's scatter is its own."""


@dataclass(frozen=True)
class Series:
    """
    The e essential parameters of one robot.

    Attributes
    ----------
    stamps:
        (k,) times of its recordings [s].
    values, std:
        (k, e) from each recording; NaN if unknown.
    value, value_std:
        (e,) from all recordings together.

    """

    stamps: np.ndarray
    values: np.ndarray
    std: np.ndarray
    value: np.ndarray
    value_std: np.ndarray

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (e,) weighted means of the values by recording and their std, or NaN."""
        known = np.isfinite(self.values) & (self.std > 0.0)
        weights = np.where(known, 1.0 / np.where(known, self.std, 1.0) ** 2, 0.0)
        with np.errstate(divide='ignore', invalid='ignore'):
            total = weights.sum(axis=0)
            mean = (weights * np.where(known, self.values, 0.0)).sum(axis=0) / total
            return mean, np.where(total > 0.0, total**-0.5, np.nan)


@dataclass(frozen=True)
class Tests:
    """
    Results of the tests of r robots and e parameters; NaN if unknown.

    Attributes
    ----------
    value:
        (r, e) compared values.
    reference:
        (e,) medians over the robots.
    difference, difference_std:
        (r, e) from the reference.
    difference_probability:
        (r, e) of such a difference, or a larger one anywhere, among equal robots.
    slope, slope_std, slope_probability:
        (r, e) likewise for the change over time [unit/s].
    scatter:
        (r, e) ratio of a robot's scatter to its standard deviations, at least 1.

    """

    value: np.ndarray
    reference: np.ndarray
    difference: np.ndarray
    difference_std: np.ndarray
    difference_probability: np.ndarray
    slope: np.ndarray
    slope_std: np.ndarray
    slope_probability: np.ndarray
    scatter: np.ndarray


def compare(robots: Sequence[Series], significance: float = 0.01) -> Tests:
    """
    Test every essential parameter of at least one robot.

    A robot whose parameters change, or whose recordings scatter, is compared by the means of its
    values by recording: estimated together, a change of one parameter would show in others.

    Parameters
    ----------
    robots:
        The robots.
    significance:
        Probability below which a change over time is significant.

    """
    trends = [
        [trend(robot.stamps, y, std) for y, std in zip(robot.values.T, robot.std.T, strict=True)]
        for robot in robots
    ]
    slope, slope_std, squares, freedom = np.moveaxis(np.array(trends), 2, 0)
    ratio, known_by = scatter(squares, freedom)
    slope_std = ratio * slope_std
    slope_probability = holm(two_sided(slope, slope_std, known_by))
    unsteady = {*significant(slope_probability, significance)}
    unsteady.update(np.flatnonzero((ratio > ratio.min(axis=0)).any(axis=1)).tolist())
    chosen = [
        robot.means() if r in unsteady else (robot.value, robot.value_std)
        for r, robot in enumerate(robots)
    ]
    values = np.array([value for value, _ in chosen])
    std = ratio * np.array([value_std for _, value_std in chosen])
    reference, difference, difference_std = differences(values, std)
    return Tests(
        value=values,
        reference=reference,
        difference=difference,
        difference_std=difference_std,
        difference_probability=holm(two_sided(difference, difference_std, known_by)),
        slope=slope,
        slope_std=slope_std,
        slope_probability=slope_probability,
        scatter=ratio,
    )


def trend(
    stamps: np.ndarray, values: np.ndarray, std: np.ndarray
) -> tuple[float, float, float, int]:
    """
    Fit a straight line to (k,) values over time, or the mean to two of them.

    Returns
    -------
    slope, slope_std
        Slope and its standard deviation by those of the values [unit/s]; NaN for fewer than three
        values or equal times.
    squares
        Sum of squared residuals in units of the values' variances.
    freedom
        Its degrees of freedom; 0 if there is nothing to compare.

    """
    known = np.isfinite(values) & (std > 0.0)
    t, y, w = stamps[known], values[known], 1.0 / std[known] ** 2
    if y.size < 2:
        return np.nan, np.nan, 0.0, 0
    t = t - np.average(t, weights=w)
    rest = y - np.average(y, weights=w)
    spread = float(w @ t**2)
    if y.size < 3 or not np.ptp(t) > 0.0:
        return np.nan, np.nan, float(w @ rest**2), y.size - 1
    slope = float(w @ (t * rest)) / spread
    rest = rest - slope * t
    return slope, spread**-0.5, float(w @ rest**2), y.size - 2


def scatter(squares: np.ndarray, freedom: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Estimate the (r, e) ratios of scatter to standard deviations, and their degrees of freedom.

    Each parameter has a ratio, at least 1, over all robots; a robot far from the median its own.

    Parameters
    ----------
    squares, freedom:
        (r, e) sums of squares in units of the variances, and their degrees of freedom.

    """
    ratio, known_by = np.ones(squares.shape), np.full(squares.shape, MANY)
    for p in range(squares.shape[1]):
        some = np.flatnonzero(freedom[:, p] > 0)
        if not some.size:
            continue
        q, f = squares[some, p], freedom[some, p]
        scatter = max(1.0, float(np.median(q / chi2.median(f))))
        normal = q <= scatter * chi2.isf(_ERRATIC, f)
        common, own = float(q[normal].sum() / f[normal].sum()), q / f
        ratio[:, p] = np.sqrt(max(1.0, common))
        known_by[:, p] = f[normal].sum()
        erratic = some[~normal]
        ratio[erratic, p] = np.sqrt(np.maximum(own[~normal], max(1.0, common)))
        known_by[erratic, p] = f[~normal]
    return ratio, known_by


def differences(values: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Compare (r, e) values with the median of the fleet; NaN if unknown.

    Two robots are compared with each other, and the reference is their mean.

    Returns
    -------
    tuple of np.ndarray
        (e,) reference; (r, e) differences; (r, e) their standard deviations.

    """
    known = np.isfinite(values) & (std > 0.0)
    count = known.sum(axis=0)
    kept = np.where(known, values, np.nan)
    reference = np.full(values.shape[1], np.nan)
    reference[count > 0] = np.nanmedian(kept[:, count > 0], axis=0)
    difference = kept - reference
    # of the sample median where the values have densities with these standard deviations
    inverse = np.where(known, 1.0 / np.where(known, std, 1.0), 0.0).sum(axis=0)
    with np.errstate(divide='ignore', invalid='ignore'):
        median_std = np.sqrt(0.5 * np.pi * count) / inverse
    difference_std = np.where(known, np.hypot(std, median_std), np.nan)
    pair = count == 2
    if pair.any():
        both = np.where(known, std, 0.0)[:, pair]
        difference[:, pair] *= 2.0
        together = np.sqrt((both**2).sum(axis=0))
        difference_std[:, pair] = np.where(known[:, pair], together, np.nan)
    difference[:, count < 2] = np.nan
    return reference, difference, difference_std


def significant(probability: np.ndarray, significance: float) -> Mapping[int, np.ndarray]:
    """Return the indices of significant parameters by row of the robot."""
    rows = np.flatnonzero((probability <= significance).any(axis=1))
    return {int(r): np.flatnonzero(probability[r] <= significance) for r in rows}


@dataclass(frozen=True)
class Difference:
    """
    A parameter of a robot that differs from the fleet.

    ``usual`` is the fleet's value, ``std`` the standard deviation of the difference,
    ``probability`` that equal robots show such a difference anywhere.
    """

    serial: str
    parameter: str
    unit: str
    usual: float
    value: float
    difference: float
    std: float
    probability: float


@dataclass(frozen=True)
class Drift:
    """
    A parameter of a robot that changes over time.

    ``per_day`` and ``std`` are the slope and its standard deviation [unit/day], ``change`` is that
    over the ``days`` from the first to the last recording, by the straight line [unit], and
    ``probability`` that a fleet without drift shows such a one anywhere.
    """

    serial: str
    parameter: str
    unit: str
    per_day: float
    std: float
    days: float
    change: float
    probability: float


@dataclass(frozen=True)
class FleetComparison:
    """
    Tests of all robots.

    Attributes
    ----------
    layout:
        The e essential parameters.
    serials, series:
        The r robots and their values by recording.
    tests:
        Results of `compare`.
    significance:
        Probability below which a result is reported.

    """

    layout: ParameterLayout
    serials: tuple[str, ...]
    series: tuple[Series, ...]
    tests: Tests
    significance: float

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Significant differences, by robot, the most certain ones first."""
        t = self.tests
        columns = (t.value, t.difference, t.difference_std, t.difference_probability)
        return tuple(
            Difference(*names, float(t.reference[p]), *(float(column[r, p]) for column in columns))
            for r, p, names in self._significant(t.difference / t.difference_std, columns[-1])
        )

    @cached_property
    def drifts(self) -> tuple[Drift, ...]:
        """Significant changes over time, by robot, the most certain ones first."""
        t, found = self.tests, []
        for r, p, names in self._significant(t.slope / t.slope_std, t.slope_probability):
            days = float(np.ptp(self.series[r].stamps)) / DAY
            slope, std = float(t.slope[r, p]) * DAY, float(t.slope_std[r, p]) * DAY
            found.append(
                Drift(*names, slope, std, days, slope * days, float(t.slope_probability[r, p]))
            )
        return tuple(found)

    def _significant(
        self, score: np.ndarray, probability: np.ndarray
    ) -> Iterator[tuple[int, int, tuple[str, str, str]]]:
        """Iterate over row, column and names of significant results, by robot and score."""
        for r, columns in significant(probability, self.significance).items():
            for p in sorted(columns, key=lambda p: -abs(score[r, p])):
                yield r, p, (self.serials[r], self.layout.names[p], self.layout.units[p])
