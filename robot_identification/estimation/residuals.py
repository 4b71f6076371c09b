# SPDX-License-Identifier: Apache-2.0
"""
Residuals over time: their colour, and the delay of efforts against positions.

Residuals of real robots are never white: friction, cables and gears that the model lacks make
waves of them.  Their correlation time is the integral of the autocorrelation,
T = h (1 + 2 sum rho_k) with h the distance of the rows, summed up to the first rho_k that is lost
in its noise (Sokal, "Monte Carlo methods in statistical mechanics", 1997, section 3).  One of h is
white; T / h rows count for one.

Delays come by correlation with the model.  If a joint's effort is recorded d late, then
tau(t) = w(t - d) theta, and to first order the residual is -d times the rate of change of the
model's effort.  The parameters take up a part of that (a swing of gravity's effort looks like
viscous friction), so what they can explain is taken out of the rate of change first: d is what
then correlates with the residual, found by one more column a joint in the least squares (Frisch
and Waugh, "Partial time regressions as compared with individual trends", Econometrica 1, 1933).
The effort is moved by the delay found, and the rest found again, until nothing is left: so a delay
need not be whole samples, nor short.

Standard deviations of delays are by the delete-block jackknife (Kuensch, "The jackknife and the
bootstrap for general stationary observations", Annals of Statistics 17, 1989) of the columns so
left, since what the model does not know is neither white nor everywhere alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from .bootstrap import block_length
from .factor import append_rows, GrowingTriangle
from .plot_samples import PlotSamples


@dataclass(frozen=True)
class ResidualConstants:
    """Constants of the colour of residuals."""

    most_lags: int = 1000
    """Lags of the autocorrelation that are summed at most."""
    fewest_rows: int = 50
    """Rows of a joint above which its residuals determine anything."""
    slow_share: float = 0.1
    """Share of a joint's usual highest speed below which it is near a reversal."""
    fast_percentile: float = 95.0
    """Percentile of the speeds that is the usual highest one."""


RESIDUALS = ResidualConstants()


@dataclass(frozen=True)
class EffortDelayConstants:
    """Constants of the delay of efforts."""

    rounds: int = 5
    """Largest number of Gauss-Newton steps."""
    convergence: float = 1e-3
    """Share of the rows' distance by which a delay has to change for another one."""
    segment_rows: int = 20
    """Rows of a segment below which it is left out: a delay of a few rows needs some more."""
    resolved_power: float = 0.5
    """Largest power of second differences, relative to the effort's, at which rows resolve it."""
    smoothed_rows: int = 4
    """Rows on either side of one that it is smoothed over, none of which is in the dead zone."""
    unexplained_share: float = 1e-4
    """Share of a rate of change that has to be left by the parameters."""


DELAY = EffortDelayConstants()


@dataclass(frozen=True)
class ResidualColour:
    """
    Colour of the residuals of n joints; NaN where the rows are too few.

    Attributes
    ----------
    joints:
        Names of the joints.
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
        return _by_joint(self, 'correlation_time', 'correlated_rows', 'reversal_ratio')


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
        if int(kept.sum()) < RESIDUALS.fewest_rows:
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
    for lag in range(1, min(RESIDUALS.most_lags, len(residual) // 4) + 1):
        pairs = kept[lag:] & kept[:-lag] & (segment[lag:] == segment[:-lag])
        count = int(pairs.sum())
        if count < RESIDUALS.fewest_rows:
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
    part = samples.entries[samples.pattern.row_entries(joint)]
    return np.asarray(part[columns.index(list(names).index(name))])


def _reversal_ratio(residual: np.ndarray, speed: np.ndarray) -> float:
    fast = np.percentile(np.abs(speed), RESIDUALS.fast_percentile)
    near = np.abs(speed) < RESIDUALS.slow_share * fast
    if min(int(near.sum()), int((~near).sum())) < RESIDUALS.fewest_rows:
        return np.nan
    away = float(np.mean(residual[~near] ** 2))
    return float(np.sqrt(np.mean(residual[near] ** 2) / away)) if away > 0.0 else np.nan


@dataclass(frozen=True)
class EffortDelay:
    """
    Delay of each joint's effort behind its position.

    Attributes
    ----------
    joints:
        Names of the joints.
    delay:
        (n,) [s]; positive where the effort is late, NaN where the rows do not determine it.
    std:
        (n,) its standard deviation [s].
    gain:
        How many times smaller the residual of all joints together is with these delays.

    """

    joints: tuple[str, ...]
    delay: np.ndarray
    std: np.ndarray
    gain: float

    def to_dict(self) -> dict[str, Any]:
        """Return (delay, std) by joint."""
        return _by_joint(self, 'delay', 'std')


def _by_joint(found: ResidualColour | EffortDelay, *names: str) -> dict[str, dict[str, float]]:
    rows = zip(*(getattr(found, name).tolist() for name in names), strict=True)
    return {j: dict(zip(names, row, strict=True)) for j, row in zip(found.joints, rows)}


class _Step(NamedTuple):
    """One solution for delays and parameters."""

    delay: np.ndarray  # (n,) delays that are left [s], NaN where not identified
    base: np.ndarray  # (b,) parameters
    rate: np.ndarray  # (m, n) rates of change of the model's effort
    identified: np.ndarray  # (n,) bool, whether enough of a rate is left by the parameters
    inverse: np.ndarray  # (t, n) of R of what is left of the t rates that are identified
    taken_up: np.ndarray  # (b, t) what the parameters take up of these rates' columns
    variance: float  # of the weighted residual
    without: float  # the same where nothing is late
    share: float  # number of rows by the degrees of freedom that are left


def effort_delay(
    trace: PlotSamples,
    base: np.ndarray,
    joints: tuple[str, ...],
    independent: np.ndarray | None = None,
) -> EffortDelay:
    """
    Find the delay of efforts behind positions.

    Parameters
    ----------
    trace:
        Rows at even distances within a segment.
    base:
        (b,) base parameters to begin with; they are estimated again with the delays.
    joints:
        Names of its n rows.
    independent:
        (n,) how many independent rows each joint's are worth; None where all are.

    Returns
    -------
    EffortDelay
        NaN for joints whose effort changes faster than the rows can follow, or by nothing but what
        the parameters take up.

    """
    breaks = np.flatnonzero(np.diff(trace.segment)) + 1
    bounds = [0, *breaks.tolist(), len(trace)]
    parts = [slice(a, b) for a, b in zip(bounds, bounds[1:]) if b - a >= DELAY.segment_rows]
    if not parts:
        unknown = np.full(len(joints), np.nan)
        return EffortDelay(joints, unknown, unknown.copy(), 1.0)
    smooth = _smoothed(trace, parts)
    splines = [_spline(smooth.effort[part]) for part in parts]
    spacing = float(np.median(np.diff(trace.time[parts[0]])))
    delay, base = np.zeros(len(joints)), np.asarray(base, dtype=float)
    rows = _moved(smooth, parts, splines, delay / spacing)
    weights = _weights(rows, base)
    without = np.nan
    for turn in range(DELAY.rounds):
        step = _step(rows, parts, spacing, base, weights)
        without = step.without if turn == 0 else without
        base = step.base
        delay = delay + np.nan_to_num(step.delay)
        if (np.abs(step.delay[step.identified]) < DELAY.convergence * spacing).all():
            break
        rows = _moved(smooth, parts, splines, delay / spacing)
    std = _std(rows, weights, step, np.inf if independent is None else independent)
    model = trace.pattern.product(trace.entries, base)
    identified = np.isfinite(std) & _resolved(model, parts)
    gain = float(np.sqrt(without / max(step.variance, np.finfo(float).tiny)))
    found, deviation = np.where(identified, [delay, std], np.nan)
    return EffortDelay(joints, found, deviation, gain)


def _spline(rows: np.ndarray) -> np.ndarray:
    """Return the coefficients of cubic splines through rows (m, n); nothing near ends counts."""
    return np.asarray(scipy.ndimage.spline_filter1d(rows, order=3, axis=0, mode='mirror'))


def _moved(
    trace: PlotSamples, parts: list[slice], splines: list[np.ndarray], delay: np.ndarray
) -> PlotSamples:
    """Return the effort so many rows later; NaN where it was not recorded or is not used."""
    moved = np.full(trace.effort.shape, np.nan)
    for spline, part in zip(splines, parts, strict=True):
        moved[part] = trace.effort[part]
        for joint in np.flatnonzero(delay):
            wanted = np.arange(len(spline)) + delay[joint]
            moved[part, joint] = scipy.ndimage.map_coordinates(
                spline[:, joint], wanted[None], order=3, cval=np.nan, prefilter=False
            )
    moved[~trace.keep] = np.nan
    return replace(trace, effort=moved)


def _smoothed(trace: PlotSamples, parts: list[slice]) -> PlotSamples:
    """
    Return the rows without their fastest parts, and without those where a joint turns round.

    A spline through rows does not follow what is near their Nyquist frequency, and there the
    friction's step, and how the drive answers it, would outweigh all of the motion's own effort.
    """
    kernel = np.hanning(2 * DELAY.smoothed_rows + 3)[1:-1] / (DELAY.smoothed_rows + 1)
    entries, effort = np.empty_like(trace.entries), np.empty_like(trace.effort)
    steady = np.empty_like(trace.keep)
    for part in parts:
        entries[:, part] = scipy.ndimage.convolve1d(trace.entries[:, part], kernel, axis=1)
        effort[part] = scipy.ndimage.convolve1d(trace.effort[part], kernel, axis=0)
        around = np.ones((2 * DELAY.smoothed_rows + 1, 1), dtype=bool)
        steady[part] = scipy.ndimage.binary_erosion(trace.keep[part], around)
    return replace(trace, entries=entries, effort=effort, keep=steady)


def _weights(rows: PlotSamples, base: np.ndarray) -> np.ndarray:
    """Return the inverse root mean square of each joint's residual."""
    fit = rows.fit(base)
    count = np.maximum(1, np.isfinite(rows.effort).sum(axis=0))
    mean, size = (
        np.sqrt(np.nansum(array**2, axis=0) / count) for array in (fit.residual, fit.measured)
    )
    return np.asarray(1.0 / np.maximum(mean, 1e-9 * max(float(size.max()), np.finfo(float).tiny)))


def _step(
    trace: PlotSamples,
    parts: list[slice],
    spacing: float,
    base: np.ndarray,
    weights: np.ndarray,
) -> _Step:
    """
    Return the delays that are left, and the parameters beside them.

    R of [parameters' columns, -rates, effort] has, behind the parameters' rows, R of what the
    parameters do not take up of the others.
    """
    effort, model = trace.effort, trace.fit(base).predicted
    n, b = effort.shape[1], trace.pattern.size
    rate = np.full(effort.shape, np.nan)
    for part in parts:
        spline, central = _spline(model[part]), [-0.5, 0.0, 0.5]
        rate[part] = scipy.ndimage.correlate1d(spline, central, axis=0, mode='mirror') / spacing
    whole, count, lengths = np.zeros((b + n + 1, b + n + 1)), 0, np.zeros(n)
    for joint, weight in enumerate(weights):
        used = np.isfinite(effort[:, joint])
        entries = trace.entries[trace.pattern.row_entries(joint)][:, used]
        others = np.stack([-rate[used, joint], effort[used, joint]])
        # its own columns alone first, which are far fewer
        triangle = GrowingTriangle(len(entries) + 2)
        triangle.push_columns(weight * entries, weight * others)
        rows = np.zeros((len(entries) + 2, b + n + 1))
        rows[:, [*trace.pattern.columns[joint], b + joint, b + n]] = triangle.result()
        whole, count = append_rows(whole, rows), count + triangle.rows
        lengths[joint] = weight * np.linalg.norm(others[0])
    alone = whole[b:-1, b:-1]
    least = DELAY.unexplained_share * np.maximum(lengths, np.finfo(float).tiny)
    identified = np.linalg.norm(alone, axis=0) > least
    step = np.full(n, np.nan)
    solved = np.linalg.lstsq(alone[:, identified], whole[b:-1, -1], rcond=None)[0]
    step[identified] = solved
    target = np.column_stack([whole[:b, b:-1][:, identified], whole[:b, -1]])
    taken_up = np.linalg.lstsq(whole[:b, :b], target, rcond=None)[0]
    base = taken_up[:, -1] - taken_up[:, :-1] @ solved
    rest = whole[b:, -1] - whole[b:, b:-1][:, identified] @ solved
    freedom = max(1, count - b - int(identified.sum()))
    return _Step(
        delay=step,
        base=base,
        rate=rate,
        identified=identified,
        inverse=np.linalg.pinv(alone[:, identified]),
        taken_up=taken_up[:, :-1],
        variance=float(rest @ rest) / freedom,
        without=float(whole[b:, -1] @ whole[b:, -1]) / freedom,
        share=count / freedom,
    )


def _std(
    trace: PlotSamples, weights: np.ndarray, step: _Step, independent: np.ndarray | float
) -> np.ndarray:
    """
    Return (n,) standard deviations [s], where the noise may be coloured.

    Beside those for white noise, of which ``independent`` rows count, there are those by what
    leaving out one stretch of rows after the other does, each as long as scores are correlated:
    what the model does not know comes where the effort changes fast, and goes slowly.
    """
    effort = trace.effort
    n, m, t = effort.shape[1], len(trace), int(step.identified.sum())
    scores, columns_of = np.zeros((m, t)), np.zeros((n, m, t))
    for joint in range(n):
        used = np.isfinite(effort[:, joint])
        entries = trace.entries[trace.pattern.row_entries(joint)][:, used].T
        columns = list(trace.pattern.columns[joint])
        alone = -entries @ step.taken_up[columns]
        residual = effort[used, joint] - entries @ step.base[columns]
        if step.identified[joint]:
            place = int(step.identified[:joint].sum())
            alone[:, place] -= step.rate[used, joint]
            residual += step.rate[used, joint] * step.delay[joint]
        alone *= weights[joint]
        scores[used] += weights[joint] * alone * residual[:, None]
        columns_of[joint, used] = alone
    rows = np.isfinite(effort).sum(axis=0)
    white, coloured = np.full((2, n), np.nan)
    white[step.identified] = np.sqrt((step.inverse**2).sum(axis=1) * step.variance)
    white *= np.sqrt(np.maximum(1.0, rows / np.maximum(1.0, independent)))
    length = block_length(scores @ step.inverse)
    starts = np.arange(0, m, length)
    sums = np.add.reduceat(scores, starts, axis=0)
    squares = np.zeros((starts.size, t, t))
    for part in columns_of:
        squares += np.add.reduceat(part[:, :, None] * part[:, None, :], starts, axis=0)
    whole = squares.sum(axis=0)
    # a stretch may hold all that there is to one of them
    moves = (np.linalg.pinv(whole - squares, hermitian=True) @ sums[..., None])[..., 0]
    count = starts.size
    coloured[step.identified] = np.sqrt(
        (count - 1) / count * step.share * np.sum(moves**2, axis=0)
    )
    return np.asarray(np.fmax(white, coloured))


def _resolved(model: np.ndarray, parts: list[slice]) -> np.ndarray:
    """Return for each joint whether the rows are close enough to follow the model's effort."""
    bends = sum((np.diff(model[part], 2, axis=0) ** 2).sum(axis=0) for part in parts)
    swing = sum(((model[part] - model[part].mean(axis=0)) ** 2).sum(axis=0) for part in parts)
    return np.asarray(bends < DELAY.resolved_power * swing)
