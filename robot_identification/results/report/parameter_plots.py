# SPDX-License-Identifier: Apache-2.0
"""Figures of base parameters: deviations, values beside the prior, and their number."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any

import numpy as np

from ...base_parameters import BaseStructure
from ...estimation import Estimate
from ...model.parameters import ParameterSet
from .figure import (
    Figure,
    GOOD,
    headline,
    MEASURED,
    NONE,
    PALE,
    plain,
    PREDICTED,
    raised,
    RESIDUAL,
    ROW,
    WEAK,
)


def deviation_figure(
    estimate: Estimate, essential: np.ndarray | None = None, limit: float | None = None
) -> Figure:
    """
    Return the relative standard deviation of each base parameter as bars on a logarithmic axis.

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
    shown = np.where(known, np.clip(estimate.relative_std, 1e-3, 1e4), np.nan)
    lowest = math.floor(math.log10(shown[known].min(initial=1.0)))
    highest = math.log10(max(100.0, 1.5 * shown[known].max(initial=1.0)))
    wanted = np.ones(len(names), dtype=bool) if essential is None else np.asarray(essential)
    states = (
        ('estimated' if essential is None else 'essential', GOOD, wanted & estimate.excited),
        ('not essential', WEAK, ~wanted & estimate.excited),
        ('not excited', NONE, ~estimate.excited),
    )
    traces = [
        {
            'type': 'bar', 'orientation': 'h', 'name': name,
            'y': [plain(names[i]) for i in np.flatnonzero(which)],
            # what is not excited has no deviation; a bar of no length gives its name a row
            'x': np.where(known, shown, 10.0**lowest)[which],
            'marker': {'color': colour}, 'hovertemplate': '%{y}: %{x:.3g} %<extra></extra>',
        }
        for name, colour, which in states
        if which.any()
    ]  # fmt: skip
    layout = {
        **_named(names), 'bargap': 0.3, 'barmode': 'overlay',
        'xaxis': {
            'title': {'text': 'relative standard deviation [%]'}, 'type': 'log', 'dtick': 1,
            'tickformat': '~g', 'range': [lowest, highest],
        },
        'shapes': [] if limit is None else [_rule(limit)],
    }  # fmt: skip
    return Figure('Relative standard deviation of each base parameter', traces, layout)


def prior_figure(estimate: Estimate, prior: ParameterSet) -> Figure:
    """
    Return base parameters with two standard deviations beside the prior's, one panel a unit.

    Parameters
    ----------
    estimate:
        All base parameters.
    prior:
        Base parameters of the prior (`BaseStructure.project`).

    """
    layout = estimate.base.layout
    units = list(dict.fromkeys(layout.units))
    groups = [np.flatnonzero([unit == each for each in layout.units]) for unit in units]
    heights = [(group.size + 1) * ROW for group in groups]
    gap, total = 52, sum(heights) + 52 * (len(groups) - 1)
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    top = 0
    for number, (group, unit, height) in enumerate(zip(groups, units, heights, strict=True), 1):
        suffix = '' if number == 1 else str(number)
        names = [plain(layout.names[i]) for i in group]
        values, before = estimate.base.values[group], prior.values[group]
        parts, ticks = _prior_panel(names, values, before, estimate.std[group], unit)
        traces += [
            {
                **part,
                'xaxis': f'x{suffix}',
                'yaxis': f'y{suffix}',
                'showlegend': number == 1 and part['name'] != 'change',
            }
            for part in parts
        ]
        axes[f'xaxis{suffix}'] = {
            'anchor': f'y{suffix}', 'title': {'text': f'[{raised(unit)}]'}, **ticks,
        }  # fmt: skip
        axes[f'yaxis{suffix}'] = {
            'anchor': f'x{suffix}', 'range': [group.size - 0.4, -0.6], 'fixedrange': True,
            'domain': [max(0.0, 1.0 - (top + height) / total), 1.0 - top / total],
            'tickvals': list(range(group.size)), 'ticktext': names, 'showgrid': False,
            'zeroline': False,
        }  # fmt: skip
        top += height + gap
    text = 'Base parameters with two standard deviations, and the prior'
    return Figure(text, traces, {'height': total + 84, 'hovermode': 'closest', **axes})


def singular_value_figure(structure: BaseStructure) -> Figure:
    """
    Return singular values of the regressor at random states, and the gap behind the rank.

    Parameters
    ----------
    structure:
        The base parameters; their regressor's columns are scaled.

    """
    values = np.maximum(np.asarray(structure.singular_values, dtype=float), 1e-18)
    rank = structure.n_base
    index = np.arange(1.0, values.size + 1.0)
    text = f'rank {rank}'
    if math.isfinite(structure.gap):
        text += f', gap {structure.gap:.0e}'.replace('e+', 'e')
    traces = [
        {'x': index[part], 'y': values[part], 'mode': 'markers',
         'marker': {'color': colour, 'size': 6},
         'hovertemplate': 'number %{x}: %{y:.3g}<extra></extra>'}
        for part, colour in ((slice(rank), RESIDUAL), (slice(rank, None), NONE))
    ]  # fmt: skip
    layout = {
        'height': 280, 'showlegend': False, 'title': headline(text),
        'xaxis': {'title': {'text': 'number'}},
        'yaxis': {'title': {'text': 'singular value'}, 'type': 'log', 'dtick': 3},
        'shapes': [_rule(rank + 0.5)],
    }  # fmt: skip
    return Figure('Singular values of the regressor at random states', traces, layout)


# ------------------------------------------------------------------------------------------ parts


def _rule(x: float) -> dict[str, Any]:
    """Return a dashed vertical line."""
    return {'type': 'line', 'x0': x, 'x1': x, 'y0': 0, 'y1': 1, 'yref': 'paper',
            'line': {'color': PREDICTED, 'width': 1, 'dash': 'dash'}}  # fmt: skip


def _named(names: Sequence[str]) -> dict[str, Any]:
    """Return the layout of a figure with a row for each name, the first one on top."""
    return {
        'height': 90 + ROW * max(len(names), 3),
        'yaxis': {
            'type': 'category', 'categoryorder': 'array',
            'categoryarray': [plain(name) for name in names], 'fixedrange': True,
            'range': [len(names) - 0.4, -0.6], 'dtick': 1, 'showgrid': False,
        },
    }  # fmt: skip


def _prior_panel(
    names: Sequence[str], values: np.ndarray, before: np.ndarray, std: np.ndarray, unit: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the traces of parameters of one unit, and the ticks of their axis."""
    scale, ticks = _scale(values, before)
    spread = np.nan_to_num(2.0 * std)
    rows = np.arange(values.size, dtype=float)
    low, middle, high = scale(values - spread), scale(values), scale(values + spread)
    gaps = np.full(rows.size, np.nan)
    told = [
        f'{name}<br>identified {value:.4g} ± {deviation:.2g}<br>prior {old:.4g} {raised(unit)}'
        for name, value, deviation, old in zip(names, values, 2.0 * std, before, strict=True)
    ]
    hover = {'customdata': told, 'hovertemplate': '%{customdata}<extra></extra>'}
    return [
        {'x': np.column_stack([scale(before), middle, gaps]).ravel(), 'y': np.repeat(rows, 3),
         'mode': 'lines', 'line': {'color': PALE, 'width': 1.5}, 'hoverinfo': 'skip',
         'name': 'change', 'legendgroup': 'change'},
        {'x': scale(before), 'y': rows, 'mode': 'markers', 'name': 'prior', **hover,
         'legendgroup': 'prior',
         'marker': {'symbol': 'diamond-open', 'size': 8, 'color': MEASURED}},
        {'x': middle, 'y': rows, 'mode': 'markers', 'name': 'identified, ± 2 std', **hover,
         'legendgroup': 'identified', 'marker': {'size': 6, 'color': PREDICTED},
         'error_x': {'type': 'data', 'symmetric': False, 'array': high - middle,
                     'arrayminus': middle - low, 'color': PREDICTED, 'thickness': 2, 'width': 3}},
    ], ticks  # fmt: skip


def _scale(values: np.ndarray, before: np.ndarray) -> tuple[Any, dict[str, Any]]:
    """
    Return the scale of an axis, and its ticks: linear, or the inverse hyperbolic sine.

    Values of one unit may span decades and both signs; plotly's logarithm has one sign.
    """
    both = np.concatenate([values, before])
    magnitudes = np.abs(both[both != 0.0])
    if not magnitudes.size or magnitudes.max() <= 100.0 * np.median(magnitudes):
        return (lambda x: x), {}
    # a decade, so that ticks are round
    unit = 10.0 ** round(math.log10(max(1e-3 * magnitudes.max(), 0.1 * np.median(magnitudes))))
    decades = unit * 10.0 ** np.arange(0, math.ceil(math.log10(magnitudes.max() / unit)) + 1)
    places = np.concatenate([-decades[::-1], [0.0], decades])
    # the first decade is too near to zero for a label
    texts = ['' if abs(x) == unit else f'{x:g}'.replace('-', '−') for x in places]
    ticks = {'tickvals': np.arcsinh(places / unit).tolist(), 'ticktext': texts}
    return (lambda x: np.arcsinh(x / unit)), ticks
