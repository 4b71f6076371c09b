# SPDX-License-Identifier: Apache-2.0
"""
The report's figures, one function each; a caller may save or change what it gets.

The figures are made without pyplot, so they need no display, keep no global state and may be drawn
in any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
import itertools
import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
import numpy as np

from ...base_parameters import BaseStructure
from ...estimation import (
    Estimate,
    FitTrace,
    JointFit,
)
from ...model.parameters import ParameterSet
from .drawing import (
    broken,
    corner_text,
    GOOD,
    legend,
    MEASURED,
    name_width,
    named_rows,
    new_figure,
    NONE,
    PALE,
    panel,
    PREDICTED,
    raised,
    RESIDUAL,
    title,
    WEAK,
)

_POINTS = 2000


def effort_figure(trace: FitTrace, fits: Sequence[JointFit], units: Sequence[str]) -> Figure:
    """
    Measured and predicted effort beside their difference, one row of axes a joint.

    Parameters
    ----------
    trace:
        Efforts over time; of more than 2000 samples, those are drawn that reach farthest.
    fits:
        Fit of each joint, in the order of the trace's columns.
    units:
        Unit of each joint's effort.

    """
    time = _running_time(trace)
    labels = [f'{broken(f.joint, 18)}\n[{unit}]' for f, unit in zip(fits, units, strict=True)]
    figure, grid = new_figure(
        1.35 * len(fits) + 0.75,
        len(fits),
        2,
        left=0.55 + 0.13 * max((label.count('\n') + 1 for label in labels), default=2),
        gap=0.6,
        space=0.22,
    )
    first = None
    for j, (fit, unit) in enumerate(zip(fits, units, strict=True)):
        left = panel(figure, grid[j, 0], first)
        first = left if first is None else first
        right = panel(figure, grid[j, 1], first)
        for ax in (left, right):
            ax.tick_params(labelbottom=j == len(fits) - 1)
        rows = _outermost(trace, j)
        breaks = np.flatnonzero(np.diff(trace.segment[rows])) + 1
        at, keep = time[rows], trace.keep[rows, j]
        # a broad pale line below a thin one, so that both are seen where they agree
        curves = [_interrupted(at, a[rows, j], breaks) for a in (trace.measured, trace.predicted)]
        left.plot(*curves[0], color=MEASURED, linewidth=2.4, alpha=0.4)
        left.plot(*curves[1], color=PREDICTED, linewidth=0.9)
        residual = trace.residual[:, j]
        # the two share no sample, so the pale line shows only where the coloured one has gaps
        right.plot(*_interrupted(at, residual[rows], breaks), color=PALE, linewidth=0.7)
        if not keep.all():
            used = np.where(keep, residual[rows], np.nan)
            right.plot(*_interrupted(at, used, breaks), color=RESIDUAL, linewidth=0.8)
            # friction of a joint at rest is not modelled: what it does must not set the scale
            largest = float(np.abs(residual[trace.keep[:, j]]).max(initial=0.0))
            if largest > 0.0:
                right.set_ylim(-1.3 * largest, 1.3 * largest)
        else:
            right.lines[0].set(color=RESIDUAL, linewidth=0.8)
        left.set_ylabel(labels[j], fontsize=8, parse_math=False)
        left.yaxis.set_label_coords(-0.1, 0.5)
        # rows without effort, such as those of links on elastic joints, have no relative error
        if math.isfinite(fit.relative_error):
            corner_text(left, f'{fit.relative_error:.1f} %')
        corner_text(right, f'rms {fit.rmse:.3g} {unit}')
        if j == 0:
            title(left, 'measured and predicted effort', 9)
            title(right, 'residual', 9)
        if j == len(fits) - 1:
            left.set_xlabel('time [s]', fontsize=8)
            right.set_xlabel('time [s]', fontsize=8)
    legend(figure, _effort_legend(trace))
    return figure


def residual_figure(trace: FitTrace, fits: Sequence[JointFit], units: Sequence[str]) -> Figure:
    """
    Histogram of each joint's residual with the normal distribution of the same mean and variance.

    Parameters
    ----------
    trace, fits, units:
        As for `effort_figure`; rows in the dead zone are left out.

    """
    columns = min(len(fits), 3)
    rows = math.ceil(len(fits) / columns)
    figure, grid = new_figure(1.9 * rows + 0.3, rows, columns, left=0.2, gap=0.25, space=0.75)
    for j, (fit, unit) in enumerate(zip(fits, units, strict=True)):
        ax = panel(figure, grid[j // columns, j % columns], ticks=(7, 5))
        ax.set_yticks([])
        values = trace.residual[trace.keep[:, j], j]
        title(ax, fit.joint, 8)
        ax.set_xlabel(f'residual [{unit}]', fontsize=8)
        if values.size < 2 or not np.ptp(values) > 0.0:
            continue
        density, edges = np.histogram(values, min(60, 10 + values.size // 25), density=True)
        ax.stairs(density, edges, fill=True, color=RESIDUAL, alpha=0.55)
        mean, std = float(values.mean()), float(values.std())
        places = np.linspace(values.min(), values.max(), 200)
        bell = np.exp(-0.5 * ((places - mean) / std) ** 2) / (std * math.sqrt(2.0 * math.pi))
        ax.plot(places, bell, color=MEASURED, linewidth=1.0)
    return figure


def deviation_figure(
    estimate: Estimate, essential: np.ndarray | None = None, limit: float | None = None
) -> Figure:
    """
    Relative standard deviation of each base parameter as bars on a logarithmic axis.

    Parameters
    ----------
    estimate:
        All base parameters.
    essential:
        (b,) bool, which ones are essential; None where that was not asked.
    limit:
        Largest relative standard deviation of an essential parameter, drawn as a line [%].

    """
    names = estimate.base.layout.names
    known = np.isfinite(estimate.relative_std)
    shown = np.where(known, np.clip(estimate.relative_std, 1e-3, 1e4), 1e-3)
    colours = _state_colours(estimate, essential)
    columns = 2 if len(names) > 20 else 1
    rows = math.ceil(len(names) / columns)
    margin = name_width(names)
    figure, grid = new_figure(
        0.8 + 0.165 * max(rows, 4), 1, columns, left=margin, gap=margin, top=0.35
    )
    lowest = 10.0 ** math.floor(math.log10(shown[known].min(initial=1.0)))
    for column in range(columns):
        part = slice(column * rows, (column + 1) * rows)
        ax = panel(figure, grid[0, column])
        ax.set_xscale('log')
        ax.set_xlim(lowest, max(100.0, 1.5 * shown.max(initial=1.0)))
        named_rows(ax, names[part], rows)
        # the limits are there: bars need not be searched for them, as barh would
        for place, (width, colour) in enumerate(zip(shown[part], colours[part], strict=True)):
            bar = Rectangle((0.0, place - 0.35), width, 0.7, facecolor=colour, linewidth=0.0)
            ax.add_artist(bar)
        ax.set_xlabel('relative standard deviation [%]', fontsize=8)
        if limit is not None:
            ax.axvline(limit, color=MEASURED, linewidth=0.9, linestyle='--')
    legend(figure, _state_legend(estimate, essential))
    return figure


def prior_figure(estimate: Estimate, prior: ParameterSet) -> Figure:
    """
    Show base parameters with two standard deviations beside the prior's, one panel a unit.

    Parameters
    ----------
    estimate:
        All base parameters.
    prior:
        Base parameters of the prior (`BaseStructure.project`).

    """
    layout = estimate.base.layout
    units = list(dict.fromkeys(layout.units))
    groups = [[i for i, unit in enumerate(layout.units) if unit == wanted] for wanted in units]
    columns = _balanced(groups, 2 if len(layout) > 12 else 1)
    heights = [sum(len(groups[g]) + 3.0 for g in column) for column in columns]
    margin = name_width(layout.names)
    figure, grid = new_figure(
        0.3 + 0.17 * max(heights), 1, len(columns), left=margin, gap=margin, top=0.35, bottom=0.0
    )
    for place, (column, height) in enumerate(zip(columns, heights, strict=True)):
        # a column that is shorter keeps the row height of the longest with an empty part below
        sizes = [size for g in column for size in (len(groups[g]), 3.0)] + [max(heights) - height]
        parts = grid[place].subgridspec(
            len(sizes), 1, height_ratios=[*sizes[:-1], sizes[-1] + 1e-6], hspace=0
        )
        for i, g in enumerate(column):
            ax = panel(figure, parts[2 * i])
            _prior_panel(ax, estimate, prior, np.array(groups[g]), units[g])
    dot = Line2D([], [], linestyle='', markersize=4, marker='o', color=PREDICTED)
    dot.set_label('identified, ± 2 std')
    diamond = Line2D([], [], linestyle='', markersize=4, marker='D', color=MEASURED)
    diamond.set(fillstyle='none', label='prior')
    legend(figure, [dot, diamond])
    return figure


def singular_value_figure(structure: BaseStructure) -> Figure:
    """
    Singular values of the column-scaled regressor at random states, and the gap behind the rank.

    Parameters
    ----------
    structure:
        The base parameters.

    """
    values = np.asarray(structure.singular_values, dtype=float)
    rank, floor = structure.n_base, 1e-18
    figure, grid = new_figure(2.6, 1, 1, left=0.75, top=0.1)
    ax = panel(figure, grid[0])
    index = np.arange(1, values.size + 1)
    shown = np.maximum(values, floor)
    ax.semilogy(index[:rank], shown[:rank], 'o', color=RESIDUAL, markersize=3.5)
    ax.semilogy(index[rank:], shown[rank:], 'o', color=NONE, markersize=3.5)
    ax.axvline(rank + 0.5, color=PREDICTED, linewidth=1.0, linestyle='--')
    ax.set_xlabel('number', fontsize=8)
    ax.set_ylabel('singular value', fontsize=8)
    text = f'rank {rank}'
    if math.isfinite(structure.gap):
        text += f', gap {structure.gap:.0e}'.replace('e+', 'e')
    ax.text(
        rank + 0.1, 0.5, text, transform=ax.get_xaxis_transform(), fontsize=8, color=PREDICTED,
        rotation=90, ha='right', va='center',
    )  # fmt: skip
    return figure


# ------------------------------------------------------------------------------------------ parts


def _effort_legend(trace: FitTrace) -> list[Line2D]:
    entries = [
        Line2D([], [], color=MEASURED, linewidth=2.4, alpha=0.4, label='measured'),
        Line2D([], [], color=PREDICTED, label='predicted'),
        Line2D([], [], color=RESIDUAL, label='residual'),
    ]
    if not trace.keep.all():
        entries.append(Line2D([], [], color=PALE, label='residual of rows left out'))
    return entries


def _outermost(trace: FitTrace, joint: int) -> np.ndarray:
    """
    Return the rows of a joint to draw, at most `_POINTS`.

    Those with the extremes of effort and residual in stretches narrower than a pixel: the picture
    is that of all rows, peaks included.
    """
    if len(trace) <= _POINTS:
        return np.arange(len(trace))
    borders = np.linspace(0, len(trace), _POINTS // 4 + 1).astype(int)
    # rows that are left out set no scale, so they may not displace those that do
    residual = trace.residual[:, joint]
    low, high = (np.where(trace.keep[:, joint], residual, far) for far in (np.inf, -np.inf))
    measured = trace.measured[:, joint]
    return np.unique([
        [start + part(values[start:end])
         for part, values in (
             (np.argmin, low), (np.argmax, high), (np.argmin, measured), (np.argmax, measured)
         )]
        for start, end in itertools.pairwise(borders)
    ])  # fmt: skip


def _running_time(trace: FitTrace) -> np.ndarray:
    """Time from 0 [s]; stretches that would overlap, or lie far apart, follow one another."""
    if not len(trace):
        return trace.time
    step = np.diff(trace.time)
    border = np.diff(trace.segment) != 0
    usual = float(np.median(step[~border])) if (~border).any() else 1.0
    span = float(np.sum(step[~border]))
    jump = border & ((step <= 0.0) | (step > 0.2 * span))
    return np.concatenate([[0.0], np.cumsum(np.where(jump, 10.0 * usual, step))])


def _interrupted(time: np.ndarray, values: np.ndarray, breaks: np.ndarray) -> tuple:
    """Put a NaN between segments, at which matplotlib interrupts the line."""
    return np.insert(time, breaks, np.nan), np.insert(values, breaks, np.nan)


def _state_colours(estimate: Estimate, essential: np.ndarray | None) -> np.ndarray:
    colours = np.full(len(estimate), GOOD, dtype=object)
    if essential is not None:
        colours[~np.asarray(essential, dtype=bool)] = WEAK
    colours[~estimate.excited] = NONE
    return colours


def _state_legend(estimate: Estimate, essential: np.ndarray | None) -> list[Patch]:
    entries = [Patch(color=GOOD, label='estimated' if essential is None else 'essential')]
    if essential is not None:
        entries.append(Patch(color=WEAK, label='not essential'))
    if not estimate.excited.all():
        entries.append(Patch(color=NONE, label='not excited'))
    return entries


def _prior_panel(
    ax: Axes, estimate: Estimate, prior: ParameterSet, which: np.ndarray, unit: str
) -> None:
    layout = estimate.base.layout
    values, before = estimate.base.values[which], prior.values[which]
    spread = np.nan_to_num(2.0 * estimate.std[which])
    places = np.arange(which.size)
    _strokes(ax, places, before, values, color=PALE, linewidth=0.8)
    _strokes(ax, places, values - spread, values + spread, color=PREDICTED, linewidth=0.9)
    ax.plot(values, places, 'o', color=PREDICTED, markersize=3.2)
    ax.plot(before, places, 'D', color=MEASURED, markersize=3.4, fillstyle='none')
    # values of one unit span decades and both signs
    both = np.concatenate([values, before])
    magnitudes = np.abs(both)
    largest = float(magnitudes.max(initial=0.0))
    one_sign = both.min() * both.max() > 0.0
    if largest > (100.0 * magnitudes.min() if one_sign else 0.0):
        threshold = max(1e-2 * largest, float(np.median(magnitudes[magnitudes > 0.0])) * 0.1)
        # a decade, so that no label comes nearer to that of zero
        decade = 10.0 ** round(math.log10(threshold))
        ax.set_xscale('symlog', linthresh=decade, linscale=0.6)
    named_rows(ax, [layout.names[i] for i in which], which.size)
    ax.set_xlabel(f'[{raised(unit)}]', fontsize=8)


def _strokes(
    ax: Axes, places: np.ndarray, starts: np.ndarray, ends: np.ndarray, **look: Any
) -> None:
    """Draw horizontal lines as one that is interrupted."""
    gaps = np.full(places.size, np.nan)
    ax.plot(
        np.column_stack([starts, ends, gaps]).ravel(), np.repeat(places, 3), solid_capstyle='butt',
        **look,
    )  # fmt: skip


def _balanced(groups: Sequence[Sequence], columns: int) -> list[list[int]]:
    """Deal the groups out to columns so that the longest column is short; order is kept inside."""
    heights = [0.0] * columns
    result: list[list[int]] = [[] for _ in range(columns)]
    for g in sorted(range(len(groups)), key=lambda g: -len(groups[g])):
        place = int(np.argmin(heights))
        heights[place] += len(groups[g]) + 3.0
        result[place].append(g)
    return [sorted(column) for column in result if column]
