# SPDX-License-Identifier: Apache-2.0
"""
How much later efforts were recorded than positions, by correlation with the model.

If a joint's effort is recorded d late, then tau(t) = w(t - d) theta, and to first order the
residual is -d times the rate of change of the model's effort.  The parameters take up a part of
that (a swing of gravity's effort looks like viscous friction), so what they can explain is taken
out of the rate of change first: d is what then correlates with the residual, found by one more
column a joint in the least squares (Frisch and Waugh, "Partial time regressions as compared with
individual trends", Econometrica 1, 1933).  The effort is moved by the delay found, and the rest
found again, until nothing is left: so a delay need not be whole samples, nor short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from .trace import Trace
from .triangle import append_rows, GrowingTriangle

_ROUNDS = 5
_FEWEST = 20
"""Rows of a segment from which on it tells anything."""

_RESOLVED = 0.5
"""Largest power of second differences, relative to the effort's, at which rows resolve it."""

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


def effort_delay(
    trace: Trace,
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
    parts = [part for part in _segments(trace) if part.stop - part.start >= _FEWEST]
    if not parts:
        return EffortDelay(joints, *np.full((2, len(joints)), np.nan))
    curves = [CubicSpline(trace.time[part], trace.effort[part]) for part in parts]
    spacing = float(np.median(np.diff(trace.time[parts[0]])))
    base, effort = np.asarray(base, dtype=float), _moved(trace, parts, curves, np.zeros(1))
    weights = _weights(trace, base, effort)
    delay = np.zeros(len(joints))
    for _ in range(_ROUNDS):
        model = trace.pattern.product(trace.entries, base)
        step, std, base = _step(trace, parts, model, effort, weights)
        delay = delay + np.nan_to_num(step)
        if (np.abs(step) < np.maximum(_SETTLED * spacing, 0.1 * std))[np.isfinite(step)].all():
            break
        effort = _moved(trace, parts, curves, delay)
    if independent is not None:
        rows = np.isfinite(effort).sum(axis=0)
        std = std * np.sqrt(np.maximum(1.0, rows / np.maximum(1.0, independent)))
    told = np.isfinite(std) & _resolved(model, parts)
    return EffortDelay(joints, np.where(told, delay, np.nan), np.where(told, std, np.nan))


def _segments(trace: Trace) -> list[slice]:
    breaks = np.flatnonzero(np.diff(trace.segment)) + 1
    bounds = [0, *breaks.tolist(), len(trace)]
    return [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def _moved(
    trace: Trace, parts: list[slice], curves: list[CubicSpline], delay: np.ndarray
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


def _weights(trace: Trace, base: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Return the inverse root mean square of each joint's residual."""
    residual = effort - trace.pattern.product(trace.entries, base)
    count = np.maximum(1, np.isfinite(effort).sum(axis=0))
    mean, size = (np.sqrt(np.nansum(array**2, axis=0) / count) for array in (residual, effort))
    return np.asarray(1.0 / np.maximum(mean, 1e-9 * max(float(size.max()), np.finfo(float).tiny)))


def _step(
    trace: Trace,
    parts: list[slice],
    model: np.ndarray,
    effort: np.ndarray,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Return the delays that are left, their standard deviations, and the parameters beside them.

    R of [parameters' columns, -rates, effort] has, behind the parameters' rows, R of what the
    parameters do not take up of the others.
    """
    n, b = effort.shape[1], trace.pattern.size
    rate = np.full(effort.shape, np.nan)
    for part in parts:
        rate[part] = CubicSpline(trace.time[part], model[part])(trace.time[part], 1)
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
    told = np.linalg.norm(alone, axis=0) > _ALONE * np.maximum(lengths, np.finfo(float).tiny)
    step, std = np.full((2, n), np.nan)
    solved = np.linalg.lstsq(alone[:, told], whole[b:-1, -1], rcond=None)[0]
    step[told] = solved
    inverse = np.linalg.pinv(alone[:, told])
    freedom = max(1, count - b - int(told.sum()))
    rest = whole[b:, -1] - whole[b:, b:-1][:, told] @ solved
    std[told] = np.sqrt((inverse**2).sum(axis=1) * float(rest @ rest) / freedom)
    target = whole[:b, -1] - whole[:b, b:-1][:, told] @ solved
    return step, std, np.linalg.lstsq(whole[:b, :b], target, rcond=None)[0]


def _resolved(model: np.ndarray, parts: list[slice]) -> np.ndarray:
    """Tell for each joint whether the rows are close enough to follow the model's effort."""
    bends = sum((np.diff(model[part], 2, axis=0) ** 2).sum(axis=0) for part in parts)
    swing = sum(((model[part] - model[part].mean(axis=0)) ** 2).sum(axis=0) for part in parts)
    return np.asarray(bends < _RESOLVED * swing)
