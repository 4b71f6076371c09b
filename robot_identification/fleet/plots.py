# SPDX-License-Identifier: Apache-2.0
"""The figures of a fleet's report: all robots at a glance, and single parameters over time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
import numpy as np

from ..results.report.drawing import (
    legend,
    MEASURED,
    name_width,
    new_figure,
    PALE,
    PREDICTED,
    raised,
    RESIDUAL,
    style,
    TEXT,
    WIDTH,
)
from .result import (
    DAY,
    Drift,
    FleetComparison,
)

_LIMIT = 10.0
"""Differences of more standard deviations have the same colour."""

_MOST_ROBOTS = 60

_COLOURS = LinearSegmentedColormap.from_list('difference', (RESIDUAL, '#ffffff', PREDICTED))


def difference_figure(comparison: FleetComparison, significance: float) -> Figure:
    """
    Draw by how many standard deviations each parameter of each robot is off the fleet's.

    Of more than 60 robots, those with the largest differences are shown.

    Parameters
    ----------
    comparison:
        What was found.
    significance:
        Of the tests, to mark what is significant.

    """
    tests = comparison.tests
    with np.errstate(divide='ignore', invalid='ignore'):
        score = tests.difference / tests.difference_std
    rows = _shown(score)
    score, names = score[rows], [comparison.serials[r] for r in rows]
    columns = comparison.layout.names
    left = name_width(names)
    below = name_width(columns)
    height = 0.22 * len(names) + below + 0.5
    figure, grid = new_figure(height, 1, 1, left=left, top=0.4, bottom=below)
    ax = grid.subplots(squeeze=False)[0, 0]
    image = ax.imshow(
        score, cmap=_COLOURS, vmin=-_LIMIT, vmax=_LIMIT, aspect='auto', interpolation='nearest'
    )
    marks = np.argwhere(tests.difference_probability[rows] <= significance)
    ax.plot(marks[:, 1], marks[:, 0], 'o', color='black', markersize=3.0)
    ax.set_yticks(np.arange(len(names)), names, fontsize=6.5, parse_math=False)
    ax.set_xticks(np.arange(len(columns)), columns, fontsize=6.5, rotation=90, parse_math=False)
    ax.tick_params(length=0.0, colors=TEXT)
    for side in ax.spines.values():
        side.set_color(PALE)
    scale = figure.add_axes((1.0 - 3.2 / WIDTH, 1.0 - 0.26 / height, 1.6 / WIDTH, 0.1 / height))
    bar = figure.colorbar(image, cax=scale, orientation='horizontal')
    bar.ax.tick_params(labelsize=6.5, colors=TEXT, length=2.0)
    bar.outline.set_visible(False)
    text = 'standard deviations from the median; a dot is significant'
    figure.text(
        1.0 - 3.3 / WIDTH, 1.0 - 0.21 / height, text, fontsize=7.5, color=TEXT, ha='right',
        va='center',
    )  # fmt: skip
    return figure


def drift_figure(comparison: FleetComparison, drifts: Sequence[Drift]) -> Figure:
    """
    Draw parameters over time, with the straight line through them and the other robots' values.

    Parameters
    ----------
    comparison:
        What was found.
    drifts:
        Which robots and parameters; at least one.

    """
    columns = min(2, len(drifts))
    rows = -(-len(drifts) // columns)
    figure, grid = new_figure(
        2.0 * rows + 0.35, rows, columns, left=0.85, gap=0.9, space=0.75, top=0.6
    )
    axes = grid.subplots(squeeze=False).ravel()
    for ax, drift in zip(axes, drifts, strict=False):
        style(ax)
        row = comparison.serials.index(drift.serial)
        p = comparison.layout.names.index(drift.parameter)
        series, tests = comparison.series[row], comparison.tests
        start = series.stamps.min()
        days = (series.stamps - start) / DAY
        for other, values in enumerate(comparison.series):
            if other != row:
                at = (values.stamps - start) / DAY
                near = (at >= days.min() - 1.0) & (at <= days.max() + 1.0)
                ax.plot(at[near], values.values[near, p], '.', color=PALE, markersize=3.5)
        std = tests.scatter[row, p] * series.std[:, p]
        ax.errorbar(
            days, series.values[:, p], std, fmt='o', color=MEASURED, markersize=3.5, linewidth=0.9
        )
        _line(ax, days, series.values[:, p], series.std[:, p], drift)
        title = f'{drift.serial}: {drift.parameter}'
        ax.set_title(title, fontsize=8.5, color=TEXT, parse_math=False)
        ax.set_xlabel('days since its first recording', fontsize=7.5)
        ax.set_ylabel(f'[{raised(drift.unit)}]', fontsize=7.5)
    for ax in axes[len(drifts) :]:
        ax.set_axis_off()
    legend(
        figure,
        (
            Line2D(
                [], [], color=MEASURED, marker='o', markersize=3.5, label='by recording, ± std'
            ),
            Line2D([], [], color=PREDICTED, label='straight line'),
            Line2D([], [], color=PALE, marker='.', linestyle='', label='other robots'),
        ),
    )
    return figure


def _line(ax: Axes, days: np.ndarray, values: np.ndarray, std: np.ndarray, drift: Drift) -> None:
    """Draw the straight line through values."""
    known = np.isfinite(values)
    weights = 1.0 / std[known] ** 2
    middle = np.average(days[known], weights=weights)
    height = np.average(values[known], weights=weights)
    ends = np.array([days[known].min(), days[known].max()])
    ax.plot(ends, height + drift.per_day * (ends - middle), color=PREDICTED, linewidth=1.2)


def _shown(score: np.ndarray) -> np.ndarray:
    """Return the robots to draw, in their order."""
    if len(score) <= _MOST_ROBOTS:
        return np.arange(len(score))
    largest = np.nanmax(np.abs(np.nan_to_num(score)), axis=1)
    return np.sort(np.argsort(-largest, kind='stable')[:_MOST_ROBOTS])
