# SPDX-License-Identifier: Apache-2.0
"""
Tests for robots that differ from the others, for changes over time, and between results.

A parameter's values from recordings of one robot scatter by more than their standard deviations
say: motions differ, friction warms up, and no model is complete.  The scale of the scatter is
estimated from the recordings, for each parameter over all robots (Birge's ratio; Paule and Mandel,
"Consensus values and weighting factors", J. Res. NBS 87, 1982), and multiplies the standard
deviations of differences.  Probabilities are corrected for the number of tests (Holm, "A simple
sequentially rejective multiple test procedure", Scand. J. Statist. 6, 1979): in a fleet of equal
robots the probability of any reported difference is at most the significance.

Results are compared with the first one: under the hypothesis of equal parameters the difference
over its standard deviation is normal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import re

import numpy as np
from scipy.special import stdtr
from scipy.stats import chi2

from ..errors import IdentificationError
from ..estimation.tables import number, rule, wrapped
from ..results.result import StoredResult

_ERRATIC = 1e-4
"""Probability below which a robot's scatter is its own."""

_MANY = 1e6
"""Degrees of freedom of known standard deviations."""

BAND = 1.96
"""Half the width of a 95 % interval [standard deviations]."""


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
    ratio, known_by = np.ones(squares.shape), np.full(squares.shape, _MANY)
    for p in range(squares.shape[1]):
        some = np.flatnonzero(freedom[:, p] > 0)
        if not some.size:
            continue
        q, f = squares[some, p], freedom[some, p]
        usual = max(1.0, float(np.median(q / chi2.median(f))))
        normal = q <= usual * chi2.isf(_ERRATIC, f)
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


def two_sided(value: np.ndarray, std: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    """Return the two-sided probability of a value by Student's distribution."""
    with np.errstate(divide='ignore', invalid='ignore'):
        return np.asarray(2.0 * stdtr(freedom, -np.abs(value) / std))


def holm(probability: np.ndarray) -> np.ndarray:
    """Correct probabilities for their number (Holm); NaN for what was not tested."""
    corrected = np.full(probability.shape, np.nan)
    known = np.isfinite(probability)
    p = probability[known]
    order = np.argsort(p, kind='stable')
    steps = np.minimum(1.0, p[order] * np.arange(p.size, 0, -1))
    p[order] = np.maximum.accumulate(steps)
    corrected[known] = p
    return corrected


def significant(probability: np.ndarray, significance: float) -> Mapping[int, np.ndarray]:
    """Return the indices of significant parameters by row of the robot."""
    rows = np.flatnonzero((probability <= significance).any(axis=1))
    return {int(r): np.flatnonzero(probability[r] <= significance) for r in rows}


@dataclass(frozen=True)
class ResultComparison:
    """
    Parameters and errors of results.

    Attributes
    ----------
    names:
        Of the r results.
    labels, expressions, units:
        (p,) of the base parameters that any result has; a label is the first term of the
        expression, with its number if several begin alike.
    values, std:
        (r, p) in these units; NaN for a parameter that a result does not have or determine.
    probability:
        (r, p) of such a difference from the first result among equal robots, corrected for the
        number of parameters; NaN if it cannot be tested.
    significance:
        Probability below which a difference is significant.
    errors:
        Relative error of each joint by recording and result, (r, n + 1) with that of all joints
        last [%].
    joints:
        Names of the n joints.

    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    expressions: tuple[str, ...]
    units: tuple[str, ...]
    values: np.ndarray
    std: np.ndarray
    probability: np.ndarray
    significance: float
    errors: dict[str, np.ndarray]
    joints: tuple[str, ...]

    @property
    def different(self) -> np.ndarray:
        """(r, p) bool, parameters that differ significantly from those of the first result."""
        with np.errstate(invalid='ignore'):
            return np.asarray(self.probability < self.significance)

    def summary(self) -> str:
        """Return tables; ``*`` marks what differs significantly from the first result."""
        count = int(self.different.any(axis=0).sum())
        width = max(map(len, (*self.labels, *self.joints, 'all joints'))) + 1
        lines = [
            rule(f'{len(self.names)} results', '='),
            *(f'{letter}  {name}' for letter, name in zip(_letters(self), self.names)),
            f'{count} of {len(self.expressions)} base parameters differ significantly from '
            f'{_letters(self)[0]} (level {100 * self.significance:g} % over all of them)',
            '',
            rule('Base parameters with half the width of their 95 % interval'),
            f'{"parameter":{width}}'
            + ''.join(f'{letter:>24}   ' for letter in _letters(self))
            + 'unit',
        ]
        for p, label in enumerate(self.labels):
            cells = ''.join(
                f'{self._cell(r, p):>24}{" * " if self.different[r, p] else "   "}'
                for r in range(len(self.names))
            )
            lines.append(f'{label:{width}}{cells}{self.units[p]}')
        for recording, errors in self.errors.items():
            lines += ['', rule(f'Relative error on {recording} [%]')]
            for j, joint in enumerate((*self.joints, 'all joints')):
                cells = ''.join(f'{error:24.2f}   ' for error in errors[:, j])
                lines.append(f'{joint:{width}}{cells}'.rstrip())
        combined = [
            (label, expression)
            for label, expression in zip(self.labels, self.expressions, strict=True)
            if label != expression
        ]
        if combined:
            lines += ['', rule('Parameters that are combinations')]
            for label, text in combined:
                # the first term is the label
                lines += wrapped(text, f'{label} = ' if ' [' in label else '')
        return '\n'.join(lines)

    def _cell(self, r: int, p: int) -> str:
        if not np.isfinite(self.values[r, p]):
            return '-'
        spread = BAND * self.std[r, p]
        told = f' +- {spread:.2g}' if np.isfinite(spread) else ''
        return f'{number(float(self.values[r, p]))}{told}'


def compare_results(
    results: Sequence[StoredResult],
    names: Sequence[str],
    errors: dict[str, np.ndarray] | None = None,
    significance: float = 0.01,
) -> ResultComparison:
    """
    Compare results of one robot, or of robots with the same joints.

    Parameters
    ----------
    results:
        At least two; the others are compared with the first one.
    names:
        What they are called.
    errors:
        Errors on recordings that all have predicted, as in `ResultComparison`.
    significance:
        Probability that results of equal robots show any difference.

    Raises
    ------
    IdentificationError
        naming a result of other joints.

    """
    joints = results[0].robot.joints
    for result, name in zip(results, names, strict=True):
        if result.robot.joints != joints:
            raise IdentificationError(
                f"'{name}' is of the joints {', '.join(result.robot.joints)}, '{names[0]}' of "
                f'{", ".join(joints)}',
                file=name,
                remedy='compare results of the same joints',
            )
    units: dict[str, str] = {}
    for result in results:
        units.update(zip(result.expressions, result.base.layout.units, strict=True))
    values, std = (np.full((len(results), len(units)), np.nan) for _ in range(2))
    places = {expression: p for p, expression in enumerate(units)}
    for r, result in enumerate(results):
        at = [places[expression] for expression in result.expressions]
        values[r, at], std[r, at] = result.base.values, result.base_std
    difference = values - values[0]
    spread = np.hypot(std, std[0])
    probability = np.full(values.shape, np.nan)
    for r in range(1, len(results)):
        probability[r] = holm(two_sided(difference[r], spread[r], _MANY))
    return ResultComparison(
        tuple(names),
        _labels(tuple(units)),
        tuple(units),
        tuple(units.values()),
        values,
        std,
        probability,
        significance,
        errors or {},
        joints,
    )


def _labels(expressions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first terms of expressions, numbered where several are alike."""
    seen: dict[str, int] = {}
    labels = []
    for expression in expressions:
        first = re.split(r' [+-] ', expression)[0]
        seen[first] = seen.get(first, 0) + 1
        labels.append(first if seen[first] == 1 else f'{first} [{seen[first]}]')
    return tuple(labels)


def _letters(comparison: ResultComparison) -> list[str]:
    return [chr(ord('A') + k) if k < 26 else str(k + 1) for k in range(len(comparison.names))]
