# SPDX-License-Identifier: Apache-2.0
"""
Colour of residuals: how long they stay alike, and how much larger they are at reversals.

Residuals of real robots are never white: friction, cables and gears that the model lacks make
waves of them.  Their correlation time is the integral of the autocorrelation,
T = h (1 + 2 sum rho_k) with h the distance of the rows, summed up to the first rho_k that is lost
in its noise (Sokal, "Monte Carlo methods in statistical mechanics", 1997, section 3).  One of h is
white; T / h rows count for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .plot_samples import PlotSamples

_LONGEST = 1000
"""Lags that are looked at."""

_FEWEST = 50
"""Rows of a joint from which on its residuals tell anything."""

_SLOW, _FAST = 0.1, 95.0
"""Share of a joint's usual highest speed below which it is near a reversal; percentile of that."""


@dataclass(frozen=True)
class ResidualColour:
    """
    Colour of the residuals of n joints; NaN where the rows are too few to tell.

    Attributes
    ----------
    joints:
        Names.
    row_distance:
        Time between rows [s]; 0 where there are none.
    correlation_time:
        (n,) [s]; ``row_distance`` where residuals are white.
    reversal_ratio:
        (n,) root mean square of the residual near reversals by that elsewhere.

    """

    joints: tuple[str, ...]
    row_distance: float
    correlation_time: np.ndarray
    reversal_ratio: np.ndarray

    @property
    def correlated_rows(self) -> np.ndarray:
        """(n,) rows that count for one."""
        distance = self.row_distance or np.nan
        return np.asarray(self.correlation_time / distance)

    def to_dict(self) -> dict[str, Any]:
        """Return (correlation_time, correlated_rows, reversal_ratio) by joint."""
        names = ('correlation_time', 'correlated_rows', 'reversal_ratio')
        columns = (getattr(self, name).tolist() for name in names)
        rows = zip(*columns, strict=True)
        return {j: dict(zip(names, row, strict=True)) for j, row in zip(self.joints, rows)}


def residual_colour(
    samples: PlotSamples, base: np.ndarray, joints: Sequence[str], names: Sequence[str]
) -> ResidualColour:
    """
    Return the colour of the residuals of rows that were kept.

    Parameters
    ----------
    samples:
        Rows at even distances within a segment.
    base:
        (b,) base parameters.
    joints:
        (n,) names of the joints.
    names:
        (b,) names of the base parameters; ``<joint>.fv`` has the joint's speed for its column.

    """
    joints = tuple(joints)
    unknown = np.full(len(joints), np.nan)
    steps = np.diff(samples.time)[np.diff(samples.segment) == 0]
    if not steps.size:
        return ResidualColour(joints, 0.0, unknown, unknown.copy())
    fit = samples.fit(np.asarray(base))
    distance = float(np.median(steps))
    times, ratios = unknown.copy(), unknown.copy()
    for j, joint in enumerate(joints):
        kept = samples.keep[:, j]
        if int(kept.sum()) < _FEWEST:
            continue
        residual = np.where(kept, fit.residual[:, j] - fit.residual[kept, j].mean(), 0.0)
        times[j] = distance * _correlated_rows(residual, kept, samples.segment)
        speed = _speed(samples, j, f'{joint}.fv', names)
        if speed is not None:
            ratios[j] = _reversal_ratio(residual[kept], speed[kept])
    return ResidualColour(joints, distance, times, ratios)


def _correlated_rows(residual: np.ndarray, kept: np.ndarray, segment: np.ndarray) -> float:
    """Return 1 + 2 sum rho_k; pairs count that lie in one segment and are both kept."""
    variance = float((residual**2).sum() / kept.sum())
    if variance == 0.0:
        return 1.0
    total = 1.0
    for lag in range(1, min(_LONGEST, len(residual) // 4) + 1):
        pairs = kept[lag:] & kept[:-lag] & (segment[lag:] == segment[:-lag])
        count = int(pairs.sum())
        if count < _FEWEST:
            break
        rho = float((residual[lag:] * residual[:-lag])[pairs].sum()) / count / variance
        if rho < 2.0 / np.sqrt(count):
            break
        total += 2.0 * rho
    return total


def _speed(samples: PlotSamples, joint: int, name: str, names: Sequence[str]) -> np.ndarray | None:
    """Return the column of a joint's viscous friction, (m,); None where it is no parameter."""
    columns = list(samples.pattern.columns[joint])
    if name not in names or list(names).index(name) not in columns:
        return None
    part = samples.entries[samples.pattern.part(joint)]
    return np.asarray(part[columns.index(list(names).index(name))])


def _reversal_ratio(residual: np.ndarray, speed: np.ndarray) -> float:
    near = np.abs(speed) < _SLOW * np.percentile(np.abs(speed), _FAST)
    if min(int(near.sum()), int((~near).sum())) < _FEWEST:
        return np.nan
    away = float(np.mean(residual[~near] ** 2))
    return float(np.sqrt(np.mean(residual[near] ** 2) / away)) if away > 0.0 else np.nan
