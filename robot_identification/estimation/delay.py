# SPDX-License-Identifier: Apache-2.0
"""
Delay of efforts against positions, by correlation with the model.

If a joint's effort is recorded d late, then tau(t) = w(t - d) theta, and to first order the
residual is -d times the rate of change of the model's effort.  The parameters take up a part of
that (a swing of gravity's effort looks like viscous friction), so what they can explain is taken
out of the rate of change first: d is what then correlates with the residual, found by one more
column a joint in the least squares (Frisch and Waugh, "Partial time regressions as compared with
individual trends", Econometrica 1, 1933).  The effort is moved by the delay found, and the rest
found again, until nothing is left: so a delay need not be whole samples, nor short.

Standard deviations are by the delete-block jackknife (Kuensch, "The jackknife and the bootstrap
for general stationary observations", Annals of Statistics 17, 1989) of the columns so left, since
what the model does not know is neither white nor everywhere alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from .bootstrap import block_length
from .plot_samples import PlotSamples
from .qr import append_rows, GrowingTriangle

_ROUNDS = 5
_FEWEST = 20
"""Rows of a segment from which on it tells anything."""

_RESOLVED = 0.5
"""Largest power of second differences, relative to the effort's, at which rows resolve it."""

_TURNING = 4
"""Rows on either side of one that it is smoothed over; none of them may be in the dead zone."""

_ALONE = 1e-4
"""Share of a rate of change that has to be left by the parameters."""

_SETTLED = 1e-3
"""A change of so much of a row's distance is none."""


@dataclass(frozen=True)
class EffortDelay:
    """
    Delay of each joint's effort behind its position.

    Attributes
    ----------
    joints:
        Names.
    delay:
        (n,) [s]; positive where the effort is late, NaN where the rows do not tell.
    std:
        (n,) its standard deviation [s].

    """

    joints: tuple[str, ...]
    delay: np.ndarray
    std: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Return (delay, std) by joint."""
        return {
            joint: {'delay': float(delay), 'std': float(std)}
            for joint, delay, std in zip(self.joints, self.delay, self.std, strict=True)
        }


class _Step(NamedTuple):
    """
    One solution for delays and parameters.

    Attributes
    ----------
    delay, base:
        (n,) delays that are left [s], NaN where not identified, and (b,) parameters.
    rate:
        (m, n) rates of change of the model's effort.
    told:
        (n,) bool, whether enough of a rate is left by the parameters.
    inverse:
        Of R of what is left of the t rates that are identified: (t, n).
    taken_up:
        (b, t) what the parameters take up of these rates' columns.
    variance:
        Of the weighted residual.
    share:
        Number of rows by the degrees of freedom that are left.

    """

    delay: np.ndarray
    base: np.ndarray
    rate: np.ndarray
    identified: np.ndarray
    inverse: np.ndarray
    taken_up: np.ndarray
    variance: float
    share: float


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
        (b,) base parameters to begin with; they are estimated anew with the delays.
    joints:
        Names of its n rows.
    independent:
        (n,) how many independent rows each joint's are worth; None where all are.

    Returns
    -------
    EffortDelay
        NaN for joints whose effort changes faster than the rows can tell, or by nothing but what
        the parameters take up.

    """
    if independent is None:
        independent = np.full(len(joints), np.inf)
    parts = [part for part in _segments(trace) if part.stop - part.start >= _FEWEST]
    if not parts:
        return EffortDelay(joints, *np.full((2, len(joints)), np.nan))
    rows, trace = trace, _smoothed(trace, parts)
    curves = [_curve(trace.time[part], trace.effort[part]) for part in parts]
    spacing = float(np.median(np.diff(trace.time[parts[0]])))
    base, effort = np.asarray(base, dtype=float), _moved(trace, parts, curves, np.zeros(1))
    weights = _weights(trace, base, effort)
    delay = np.zeros(len(joints))
    for _ in range(_ROUNDS):
        model = trace.pattern.product(trace.entries, base)
        step = _step(trace, parts, model, effort, weights)
        base = step.base
        delay = delay + np.nan_to_num(step.delay)
        if (np.abs(step.delay[step.identified]) < _SETTLED * spacing).all():
            break
        effort = _moved(trace, parts, curves, delay)
    std = _std(trace, effort, weights, step, independent)
    identified = np.isfinite(std) & _resolved(rows.pattern.product(rows.entries, base), parts)
    return EffortDelay(
        joints, np.where(identified, delay, np.nan), np.where(identified, std, np.nan)
    )


def _segments(trace: PlotSamples) -> list[slice]:
    breaks = np.flatnonzero(np.diff(trace.segment)) + 1
    bounds = [0, *breaks.tolist(), len(trace)]
    return [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def _curve(time: np.ndarray, values: np.ndarray) -> scipy.interpolate.CubicSpline:
    # looked up here: it loads much, and not every process comes here
    return scipy.interpolate.CubicSpline(time, values)


def _moved(
    trace: PlotSamples,
    parts: list[slice],
    curves: list[scipy.interpolate.CubicSpline],
    delay: np.ndarray,
) -> np.ndarray:
    """Return the effort so much later, (m, n); NaN where it was not recorded, or is not used."""
    moved = np.full(trace.effort.shape, np.nan)
    for curve, part in zip(curves, parts, strict=True):
        moved[part] = trace.effort[part]
        for joint in np.flatnonzero(delay):
            wanted = trace.time[part] + delay[joint]
            outside = (wanted < curve.x[0]) | (wanted > curve.x[-1])
            moved[part, joint] = np.where(outside, np.nan, curve(wanted)[:, joint])
    moved[~trace.keep] = np.nan
    return moved


def _smoothed(trace: PlotSamples, parts: list[slice]) -> PlotSamples:
    """
    Return the rows without their fastest parts, and without those where a joint turns round.

    A spline through rows does not follow what is near their Nyquist frequency, and there the
    friction's step, and how the drive answers it, would outweigh all of the motion's own effort.
    """
    kernel = np.hanning(2 * _TURNING + 3)[1:-1] / (_TURNING + 1)
    entries, effort = np.empty_like(trace.entries), np.empty_like(trace.effort)
    steady = np.zeros_like(trace.keep)
    for part in parts:
        entries[:, part] = scipy.ndimage.convolve1d(trace.entries[:, part], kernel, axis=1)
        effort[part] = scipy.ndimage.convolve1d(trace.effort[part], kernel, axis=0)
        inner = np.s_[part.start + _TURNING : part.stop - _TURNING]
        steady[inner] = trace.keep[inner]
        for shift in range(1, _TURNING + 1):
            for moved in (-shift, shift):
                steady[inner] &= trace.keep[inner.start + moved : inner.stop + moved]
    return replace(trace, entries=entries, effort=effort, keep=steady)


def _weights(trace: PlotSamples, base: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Return the inverse root mean square of each joint's residual."""
    residual = effort - trace.pattern.product(trace.entries, base)
    count = np.maximum(1, np.isfinite(effort).sum(axis=0))
    mean, size = (np.sqrt(np.nansum(array**2, axis=0) / count) for array in (residual, effort))
    return np.asarray(1.0 / np.maximum(mean, 1e-9 * max(float(size.max()), np.finfo(float).tiny)))


def _step(
    trace: PlotSamples,
    parts: list[slice],
    model: np.ndarray,
    effort: np.ndarray,
    weights: np.ndarray,
) -> _Step:
    """
    Return the delays that are left, and the parameters beside them.

    R of [parameters' columns, -rates, effort] has, behind the parameters' rows, R of what the
    parameters do not take up of the others.
    """
    n, b = effort.shape[1], trace.pattern.size
    rate = np.full(effort.shape, np.nan)
    for part in parts:
        rate[part] = _curve(trace.time[part], model[part])(trace.time[part], 1)
    whole, count, lengths = np.zeros((b + n + 1, b + n + 1)), 0, np.zeros(n)
    for joint, weight in enumerate(weights):
        used = np.isfinite(effort[:, joint])
        entries = trace.entries[trace.pattern.part(joint)][:, used]
        others = np.stack([-rate[used, joint], effort[used, joint]])
        # its own columns alone first, which are far fewer
        triangle = GrowingTriangle(len(entries) + 2)
        triangle.push_columns(weight * entries, weight * others)
        rows = np.zeros((len(entries) + 2, b + n + 1))
        rows[:, [*trace.pattern.columns[joint], b + joint, b + n]] = triangle.result()
        whole, count = append_rows(whole, rows), count + triangle.rows
        lengths[joint] = weight * np.linalg.norm(others[0])
    alone = whole[b:-1, b:-1]
    identified = np.linalg.norm(alone, axis=0) > _ALONE * np.maximum(lengths, np.finfo(float).tiny)
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
        share=count / freedom,
    )


def _std(
    trace: PlotSamples,
    effort: np.ndarray,
    weights: np.ndarray,
    step: _Step,
    independent: np.ndarray,
) -> np.ndarray:
    """
    Return (n,) standard deviations [s], where the noise may be coloured.

    Beside those for white noise, of which ``independent`` rows count, there are those by what
    leaving out one stretch of rows after the other does, each as long as scores are correlated:
    what the model does not know comes where the effort changes fast, and goes slowly.
    """
    n, m, t = effort.shape[1], len(trace), int(step.identified.sum())
    scores, columns_of = np.zeros((m, t)), np.zeros((n, m, t))
    for joint in range(n):
        used = np.isfinite(effort[:, joint])
        entries = trace.entries[trace.pattern.part(joint)][:, used].T
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
    """Tell for each joint whether the rows are close enough to follow the model's effort."""
    bends = sum((np.diff(model[part], 2, axis=0) ** 2).sum(axis=0) for part in parts)
    swing = sum(((model[part] - model[part].mean(axis=0)) ** 2).sum(axis=0) for part in parts)
    return np.asarray(bends < _RESOLVED * swing)
