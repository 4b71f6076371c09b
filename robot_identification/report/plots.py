# SPDX-License-Identifier: Apache-2.0
"""
The report's figures, one function each; a caller may save or change what it gets.

The figures are made without pyplot, so they need no display, keep no global state and may be drawn
in any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
import numpy as np

from ..base_parameters import BaseStructure
from ..estimation import Estimate, FitTrace, JointFit
from ..parameters import ParameterSet
from .drawing import (
    corner_text,
    GOOD,
    legend,
    MEASURED,
    name_width,
    named_rows,
    new_figure,
    NONE,
    PALE,
    PREDICTED,
    raised,
    RESIDUAL,
    style,
    TEXT,
    WEAK,
)

_POINTS = 2000


def effort_figure(trace: FitTrace, fits: Sequence[JointFit], units: Sequence[str]) -> Figure:
    """
    Measured and predicted effort beside their difference, one row of axes a joint.

    Parameters
    ----------
    trace:
        Efforts over time; more than some 2000 samples are thinned.
    fits:
        Fit of each joint, in the order of the trace's columns.
    units:
        Unit of each joint's effort.

    """
    trace = _thinned(trace)
    time = _running_time(trace)
    breaks = np.flatnonzero(np.diff(trace.segment)) + 1
    unused = np.where(trace.keep, np.nan, trace.residual)
    used = np.where(trace.keep, trace.residual, np.nan)
    figure, grid = new_figure(
        1.35 * len(fits) + 0.75, len(fits), 2, left=0.75, gap=0.6, space=0.22
    )
    axes = grid.subplots(sharex=True, squeeze=False)
    for j, (fit, unit) in enumerate(zip(fits, units, strict=True)):
        left, right = axes[j]
        style(left)
        style(right)
        # a broad pale line below a thin one, so that both are seen where they agree
        for array, look in (
            (trace.measured, {'color': MEASURED, 'linewidth': 2.4, 'alpha': 0.4}),
            (trace.predicted, {'color': PREDICTED, 'linewidth': 0.9}),
        ):
            left.plot(*_interrupted(time, array[:, j], breaks), **look)
        # the two share no sample, so the pale line shows only where the coloured one has gaps
        right.plot(*_interrupted(time, trace.residual[:, j], breaks), color=PALE, linewidth=0.7)
        if np.isfinite(unused[:, j]).any():
            right.plot(*_interrupted(time, used[:, j], breaks), color=RESIDUAL, linewidth=0.8)
            # friction of a joint at rest is not modelled: what it does must not set the scale
            largest = float(np.abs(used[:, j][trace.keep[:, j]]).max(initial=0.0))
            if largest > 0.0:
                right.set_ylim(-1.3 * largest, 1.3 * largest)
        else:
            right.lines[0].set(color=RESIDUAL, linewidth=0.8)
        left.set_ylabel(f'{fit.joint}\n[{unit}]', fontsize=8)
        # rows without effort, such as those of links on elastic joints, have no relative error
        if math.isfinite(fit.relative_error):
            corner_text(left, f'{fit.relative_error:.1f} %')
        corner_text(right, f'rms {fit.rmse:.3g} {unit}')
    for column, title in enumerate(('measured and predicted effort', 'residual')):
        axes[0, column].set_title(title, fontsize=9, color=TEXT)
        axes[-1, column].set_xlabel('time [s]', fontsize=8)
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
    axes = grid.subplots(squeeze=False).ravel()
    for j, (fit, unit) in enumerate(zip(fits, units, strict=True)):
        ax = axes[j]
        style(ax)
        values = trace.residual[trace.keep[:, j], j]
        ax.set_title(fit.joint, fontsize=8, color=TEXT)
        ax.set_xlabel(f'residual [{unit}]', fontsize=8)
        ax.set_yticks([])
        if values.size < 2 or not np.ptp(values) > 0.0:
            continue
        ax.hist(
            values, bins=min(60, 10 + values.size // 25), density=True, color=RESIDUAL, alpha=0.55
        )
        mean, std = float(values.mean()), float(values.std())
        places = np.linspace(values.min(), values.max(), 200)
        bell = np.exp(-0.5 * ((places - mean) / std) ** 2) / (std * math.sqrt(2.0 * math.pi))
        ax.plot(places, bell, color=MEASURED, linewidth=1.0)
    for ax in axes[len(fits) :]:
        ax.set_visible(False)
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
    axes = grid.subplots(sharex=True, squeeze=False)[0]
    lowest = 10.0 ** math.floor(math.log10(shown[known].min(initial=1.0)))
    for column, ax in enumerate(axes):
        part = slice(column * rows, (column + 1) * rows)
        style(ax)
        places = np.arange(len(names[part]))
        ax.barh(places, shown[part], color=colours[part], height=0.7)
        ax.set_xscale('log')
        ax.set_xlim(lowest, max(100.0, 1.5 * shown.max(initial=1.0)))
        named_rows(ax, names[part], rows)
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
            ax = figure.add_subplot(parts[2 * i])
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
    ax = figure.add_subplot(grid[0])
    style(ax)
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


def _thinned(trace: FitTrace) -> FitTrace:
    step = math.ceil(len(trace) / _POINTS)
    if step <= 1:
        return trace
    return FitTrace(
        trace.time[::step],
        trace.segment[::step],
        trace.measured[::step],
        trace.predicted[::step],
        trace.keep[::step],
    )


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
    style(ax)
    layout = estimate.base.layout
    values, before = estimate.base.values[which], prior.values[which]
    spread = np.nan_to_num(2.0 * estimate.std[which])
    places = np.arange(which.size)
    ax.hlines(places, before, values, color=PALE, linewidth=0.8)
    ax.errorbar(
        values, places, xerr=spread, fmt='o', color=PREDICTED, markersize=3.2, elinewidth=0.9
    )
    ax.plot(before, places, 'D', color=MEASURED, markersize=3.4, fillstyle='none')
    # values of one unit span decades and both signs
    magnitudes = np.abs(np.concatenate([values, before]))
    largest = float(magnitudes.max(initial=0.0))
    if largest > 0.0:
        threshold = max(1e-2 * largest, float(np.median(magnitudes[magnitudes > 0.0])) * 0.1)
        ax.set_xscale('symlog', linthresh=threshold, linscale=0.6)
    named_rows(ax, [layout.names[i] for i in which], which.size)
    ax.set_xlabel(f'[{raised(unit)}]', fontsize=8)


def _balanced(groups: Sequence[Sequence], columns: int) -> list[list[int]]:
    """Deal the groups out to columns so that the longest column is short; order is kept inside."""
    heights = [0.0] * columns
    result: list[list[int]] = [[] for _ in range(columns)]
    for g in sorted(range(len(groups)), key=lambda g: -len(groups[g])):
        place = int(np.argmin(heights))
        heights[place] += len(groups[g]) + 3.0
        result[place].append(g)
    return [sorted(column) for column in result if column]
