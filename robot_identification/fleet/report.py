# SPDX-License-Identifier: Apache-2.0
"""Report of a fleet: one HTML file without network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import yaml

from ..options.fields import to_mapping
from ..results.figure import (
    BELOW,
    CARD,
    escaped,
    Figure,
    headline,
    MEASURED,
    PALE,
    PREDICTED,
    raised,
    RESIDUAL,
    ROW,
    TEXT,
)
from ..results.report import figure_store, percent, render, seconds, Tile
from .result import date, DAY, Drift, FleetComparison, FleetResult

_DRAWN = 24
"""Drifts that are drawn; the table has all."""

_LIMIT = 10.0
"""Differences of more standard deviations have the same colour."""

_MOST_ROBOTS = 60


def html(result: FleetResult) -> str:
    """Return the report as an HTML document."""
    figures, missing = figure_store()
    return render(
        'fleet.html',
        result=result,
        warnings=(*result.warnings, *missing),
        tiles=list(_tiles(result)),
        robots=list(_robots(result)),
        parameters=list(_parameters(result)),
        figures=figures,
        drawn=_figures(result) if figures else {},
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
    note = 'recordings that cannot be used' if rejected else 'every recording was used'
    yield Tile('rejected', f'{rejected}', note, 'poor' if rejected else 'good')
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
        words = result.remarks(robot)
        state, text = 'poor', ', '.join(words)
        if robot.estimate is None:
            state, text = 'weak', 'not identified'
        elif not words:
            state, text = ('', '') if result.comparison is None else ('good', 'like the others')
        yield {'robot': robot, 'state': state, 'word': text}


def _parameters(result: FleetResult) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of the table of the fleet's parameters."""
    usual: Mapping[str, float] = {}
    if result.comparison is not None:
        reference = result.comparison.tests.reference.tolist()
        usual = dict(zip(result.comparison.layout.names, reference, strict=True))
    for parameter in result.estimate:
        yield {'parameter': parameter, 'usual': usual.get(parameter.name)}


def _figures(result: FleetResult) -> dict[str, Any]:
    """Return the figures of the comparison by name."""
    comparison = result.comparison
    if comparison is None:
        return {}
    return {
        'differences': difference_figure(comparison) if len(result.robots) > 1 else None,
        'drifts': [drift_figure(comparison, drift) for drift in result.drifts[:_DRAWN]],
    }


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
    """Return parameters' differences in standard deviations, of 60 robots at most."""
    tests = comparison.tests
    with np.errstate(divide='ignore', invalid='ignore'):
        score = tests.difference / tests.difference_std
    rows = _shown(score)
    names = [escaped(comparison.serials[r]) for r in rows]
    columns = [escaped(name) for name in comparison.layout.names]
    marks = np.argwhere(tests.difference_probability[rows] <= comparison.significance)
    traces = [
        {
            'type': 'heatmap', 'x': columns, 'y': names, 'z': score[rows], 'xgap': 1, 'ygap': 1,
            'zmin': -_LIMIT, 'zmax': _LIMIT,
            'colorscale': [[0.0, RESIDUAL], [0.5, CARD], [1.0, PREDICTED]],
            'colorbar': {'orientation': 'h', 'y': 1.0, 'yanchor': 'bottom', 'thickness': 10,
                         'len': 0.6, 'outlinewidth': 0,
                         'title': {'text': 'standard deviations from the median', 'side': 'top'}},
            'hovertemplate': '%{y}: %{x}<br>%{z:.3g} standard deviations<extra></extra>',
        },
        {
            'x': [columns[p] for _, p in marks], 'y': [names[r] for r, _ in marks],
            'mode': 'markers', 'marker': {'color': TEXT, 'size': 5}, 'hoverinfo': 'skip',
        },
    ]  # fmt: skip
    below = 16 + 7 * max(map(len, columns), default=0)
    layout = {
        'height': 100 + ROW * max(len(names), 3) + below,
        'margin': {'l': 56, 'r': 12, 't': 84, 'b': below}, 'showlegend': False,
        'xaxis': {'tickangle': -90, 'dtick': 1, 'showgrid': False, 'type': 'category'},
        'yaxis': {'autorange': 'reversed', 'dtick': 1, 'showgrid': False, 'type': 'category'},
    }  # fmt: skip
    return Figure('Difference of each parameter of each robot from the median', traces, layout)


def drift_figure(comparison: FleetComparison, drift: Drift) -> Figure:
    """Return a parameter over time with its straight line and the other robots' values."""
    row = comparison.serials.index(drift.serial)
    p = comparison.layout.names.index(drift.parameter)
    series, tests = comparison.series[row], comparison.tests
    start = series.stamps.min()
    days = (series.stamps - start) / DAY
    others: list[tuple[float, float]] = []
    for other, values in enumerate(comparison.series):
        at = (values.stamps - start) / DAY
        near = (at >= days.min() - 1.0) & (at <= days.max() + 1.0) & (other != row)
        others += zip(at[near].tolist(), values.values[near, p].tolist(), strict=True)
    own, std = series.values[:, p], tests.scatter[row, p] * series.std[:, p]
    hover = {'hovertemplate': 'day %{x:.3g}: %{y:.4g}<extra></extra>'}
    traces = [
        {'x': np.array([x for x, _ in others]), 'y': np.array([y for _, y in others]),
         'mode': 'markers', 'name': 'other robots', 'marker': {'color': PALE, 'size': 5}, **hover},
        {'x': days, 'y': own, 'mode': 'markers', 'name': 'by recording, ± std', **hover,
         'marker': {'color': MEASURED, 'size': 6},
         'error_y': {'type': 'data', 'array': std, 'color': MEASURED, 'thickness': 1, 'width': 0}},
        {**_line(days, own, series.std[:, p], drift), 'mode': 'lines', 'name': 'straight line',
         'line': {'color': PREDICTED, 'width': 1.5}, 'hoverinfo': 'skip'},
    ]  # fmt: skip
    name = f'{escaped(drift.serial)}: {escaped(drift.parameter)}'
    layout = {
        'height': 320, 'title': headline(name), 'legend': BELOW,
        'xaxis': {'title': {'text': 'days since its first recording'}},
        'yaxis': {'title': {'text': f'[{raised(drift.unit)}]'}},
    }  # fmt: skip
    return Figure(f'{drift.parameter} of {drift.serial} over time', traces, layout)


def _line(days: np.ndarray, values: np.ndarray, std: np.ndarray, drift: Drift) -> dict[str, Any]:
    """Return the straight line through values."""
    known = np.isfinite(values)
    weights = 1.0 / std[known] ** 2
    middle = np.average(days[known], weights=weights)
    height = np.average(values[known], weights=weights)
    ends = np.array([days[known].min(), days[known].max()])
    return {'x': ends, 'y': height + drift.per_day * (ends - middle)}


def _shown(score: np.ndarray) -> np.ndarray:
    """Return the indices of the robots to draw."""
    if len(score) <= _MOST_ROBOTS:
        return np.arange(len(score))
    largest = np.nanmax(np.abs(np.nan_to_num(score)), axis=1)
    return np.sort(np.argsort(-largest, kind='stable')[:_MOST_ROBOTS])
