# SPDX-License-Identifier: Apache-2.0
"""Report of a fleet: one HTML file without scripts or network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
import numpy as np
import yaml

from ..options.keys import to_mapping
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
from ..results.report.html import image, percent, render, seconds, Tile
from .comparison import DAY, Drift, FleetComparison
from .result import date, FleetResult

_DRAWN = 24
"""Drifts that are drawn; the table has all."""

_LIMIT = 10.0
"""Differences of more standard deviations have the same colour."""

_MOST_ROBOTS = 60

_COLOURS = LinearSegmentedColormap.from_list('difference', (RESIDUAL, '#ffffff', PREDICTED))


def html(result: FleetResult) -> str:
    """Return the report as an HTML document."""
    return render(
        'fleet.html',
        result=result,
        tiles=list(_tiles(result)),
        robots=list(_robots(result)),
        parameters=list(_parameters(result)),
        figures=_figures(result),
        settings=_settings(result),
        efficiency=_efficiency(result),
        date=date,
    )


def _tiles(result: FleetResult) -> Iterator[Tile]:
    yield Tile(
        'recordings',
        f'{result.n_recordings}',
        f'{result.factor.raw_rows:,} samples'.replace(',', '\u202f'),
    )
    yield Tile('robots', f'{len(result.robots)}', f'{len(result.estimate)} base parameters each')
    rejected = len(result.rejected)
    yield Tile(
        'rejected',
        f'{rejected}',
        'recordings that cannot be used' if rejected else 'every recording was used',
        'poor' if rejected else 'good',
    )
    yield Tile(
        'relative error',
        f'{percent(result.estimate.relative_error)} %',
        'with the same parameters for all',
    )
    if result.comparison is None:
        return
    for label, serials in (('differ', result.different), ('drift', result.drifting)):
        note = f'significance {result.settings.significance:g}, all tests together'
        yield Tile(label, f'{len(serials)}', note, 'poor' if serials else 'good')


def _robots(result: FleetResult) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of the table of robots."""
    for robot in result.robots:
        differs, drifts = robot.serial in result.different, robot.serial in result.drifting
        words = [word for word, is_so in (('differs', differs), ('drifts', drifts)) if is_so]
        state, text = 'good', 'like the others'
        if words:
            state, text = 'poor', ', '.join(words)
        elif result.comparison is None:
            state, text = '', ''
        if robot.estimate is None:
            state, text = 'weak', 'not identified'
        yield {'robot': robot, 'state': state, 'word': text}


def _parameters(result: FleetResult) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of the table of the fleet's parameters."""
    usual: Mapping[str, float] = {}
    if result.comparison is not None:
        reference = result.comparison.tests.reference.tolist()
        usual = dict(zip(result.comparison.layout.names, reference, strict=True))
    for parameter in result.estimate:
        yield {'parameter': parameter, 'usual': usual.get(parameter.name)}


def _figures(result: FleetResult) -> dict[str, str]:
    """Return the figures as images for HTML."""
    comparison = result.comparison
    if comparison is None:
        return {}
    drawn = {}
    if len(result.robots) > 1:
        drawn['differences'] = difference_figure(comparison)
    if result.drifts:
        drawn['drifts'] = drift_figure(comparison, result.drifts[:_DRAWN])
    return {name: image(figure) for name, figure in drawn.items()}


def _efficiency(result: FleetResult) -> str:
    """Return text on the run times."""
    timing = result.timing
    fresh = result.n_recordings + len(result.rejected) - result.kept
    text = f'{fresh} recordings in {seconds(timing.reducing)} by {result.scheduler}'
    if result.kept:
        text += f', {result.kept} kept from an earlier run'
    return f'{text}; workers {seconds(timing.opening)}, comparison {seconds(timing.comparing)}'


def _settings(result: FleetResult) -> str:
    problem = result.problem
    document = {
        'robot': {
            'urdf': problem.robot.name,
            'joints': list(problem.robot.joints),
            'effort_kind': problem.effort_kind,
            'drives': to_mapping(problem.drives),
            **to_mapping(problem.model),
        },
        'signals': to_mapping(problem.signals),
        'estimation': to_mapping(problem.estimation),
        'fleet': to_mapping(result.settings),
    }
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=88)


def difference_figure(comparison: FleetComparison) -> Figure:
    """Draw parameters' differences in standard deviations, of 60 robots at most."""
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
    marks = np.argwhere(tests.difference_probability[rows] <= comparison.significance)
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
    """Draw parameters over time with their straight lines and the other robots' values."""
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
    """Return the indices of the robots to draw."""
    if len(score) <= _MOST_ROBOTS:
        return np.arange(len(score))
    largest = np.nanmax(np.abs(np.nan_to_num(score)), axis=1)
    return np.sort(np.argsort(-largest, kind='stable')[:_MOST_ROBOTS])
