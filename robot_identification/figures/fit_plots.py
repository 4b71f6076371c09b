# SPDX-License-Identifier: Apache-2.0
"""Figures of signals: efforts and residuals of a fit, and frequency responses of filters."""

from __future__ import annotations

from collections.abc import Sequence
import itertools
import math
from typing import Any

import numpy as np

from ..estimation.estimate import JointFit
from ..estimation.plot_samples import FitTrace
from ..model.floating_base import row_name
from ..signals.responses import FrequencyResponse, SIGNALS
from .figure import (
    BELOW,
    escaped,
    Figure,
    GOOD,
    headline,
    MEASURED,
    PALE,
    PREDICTED,
    RESIDUAL,
    SOFT,
    TEXT,
)

RESPONSES = (PREDICTED, RESIDUAL, GOOD, MEASURED)

RESPONSE_POINTS = 400
"""Frequencies that a curve of a response is drawn through."""

EDGE = 0.02
"""Share of a segment at each end that sets no scale."""

MOST_POINTS = 7_000
"""Points that a line is drawn through."""


def effort_figures(
    trace: FitTrace,
    fits: Sequence[JointFit],
    units: Sequence[str],
    time: str = '',
    most: int = MOST_POINTS,
) -> list[Figure]:
    """
    Return a figure of each joint: measured and predicted effort above their difference.

    Parameters
    ----------
    trace:
        Efforts over time.
    fits, units:
        Fit of each joint and unit of its effort, in the order of the trace's columns.
    time:
        Name of the time axis that the figures share on a page.
    most:
        Points of a line; of more samples, those are drawn that reach farthest.

    """
    return [
        Figure(
            f'Measured and predicted effort of {row_name(fit.joint)} and their difference, '
            'over time',
            *_stacked([_effort_panels(trace, j, fit, unit, most)], legend=False),
            time=time,
            joint=row_name(fit.joint),
        )
        for j, (fit, unit) in enumerate(zip(fits, units, strict=True))
    ]


def effort_figure(trace: FitTrace, fits: Sequence[JointFit], units: Sequence[str]) -> Figure:
    """Return the panels of `effort_figures` in one figure, on one time axis."""
    panels = [
        _effort_panels(trace, j, fit, unit, MOST_POINTS)
        for j, (fit, unit) in enumerate(zip(fits, units, strict=True))
    ]
    return Figure(
        'Measured and predicted effort and their difference', *_stacked(panels, legend=True)
    )


def residual_figures(
    trace: FitTrace, fits: Sequence[JointFit], units: Sequence[str]
) -> list[Figure]:
    """
    Return a histogram of each joint's residual, and the normal distribution of its moments.

    Parameters are as of `effort_figures`; rows in the dead zone are left out.
    """
    figures = []
    for j, (fit, unit) in enumerate(zip(fits, units, strict=True)):
        values = trace.residual[trace.keep[:, j], j]
        traces: list[dict[str, Any]] = []
        if values.size >= 2 and np.ptp(values) > 0.0:
            density, edges = np.histogram(values, min(60, 10 + values.size // 25), density=True)
            places = np.linspace(values.min(), values.max(), 200)
            mean, std = float(values.mean()), float(values.std())
            bell = np.exp(-0.5 * ((places - mean) / std) ** 2) / (std * math.sqrt(2.0 * math.pi))
            middles = 0.5 * (edges[1:] + edges[:-1])
            hover = '%{x:.3g} ' + unit + '<extra></extra>'
            traces = [
                {'type': 'bar', 'x': middles, 'y': density, 'width': float(np.diff(edges)[0]),
                 'marker': {'color': RESIDUAL, 'opacity': 0.6}, 'hovertemplate': hover},
                {'x': places, 'y': bell, 'line': {'color': MEASURED, 'width': 1.5},
                 'mode': 'lines', 'hoverinfo': 'skip'},
            ]  # fmt: skip
        layout = {
            'height': 230, 'showlegend': False, 'bargap': 0,
            'title': headline(escaped(row_name(fit.joint))),
            'xaxis': {'title': {'text': f'residual [{unit}]'}},
            'yaxis': {'visible': False},
        }  # fmt: skip
        figures.append(
            Figure(f'Histogram of the residual of {row_name(fit.joint)}', traces, layout)
        )
    return figures


def curve_frequencies(rate: float) -> np.ndarray:
    """Return frequencies from a thousandth of the sampling rate to half of it [Hz]."""
    return np.geomspace(1e-3 * rate, 0.5 * rate, RESPONSE_POINTS)


def response_figures(
    responses: Sequence[FrequencyResponse], nyquist: float | None = None
) -> list[Figure]:
    """
    Return a figure for each signal, with a curve for each response, at `curve_frequencies`.

    ``nyquist`` is the highest frequency that decimation leaves, marked by a line [Hz].
    """
    line = {'type': 'line', 'x0': nyquist, 'x1': nyquist, 'y0': 0, 'y1': 1, 'yref': 'paper',
            'line': {'color': TEXT, 'width': 1, 'dash': 'dot'},
            'label': {'text': 'half the decimated rate', 'font': {'size': 10}}}  # fmt: skip
    figures = []
    for i, name in enumerate(SIGNALS):
        traces: list[dict[str, Any]] = [
            {
                'x': response.frequency, 'y': 100.0 * np.abs(response.share[i]), 'mode': 'lines',
                'name': response.method, 'line': {'color': RESPONSES[k % len(RESPONSES)]},
                'hovertemplate': '%{y:.1f} %',
            }
            for k, response in enumerate(responses)
        ]  # fmt: skip
        layout = {
            'height': 340, 'hovermode': 'x unified', 'showlegend': True,
            'title': headline(name), 'legend': BELOW,
            'xaxis': {'type': 'log', 'title': {'text': 'frequency [Hz]'}, 'dtick': 1,
                      'tickformat': '~g', 'unifiedhovertitle': {'text': '%{x:.3g} Hz'}},
            'yaxis': {'range': [0.0, 125.0], 'title': {'text': 'share of the true one [%]'}},
            'shapes': [] if nyquist is None else [line],
        }  # fmt: skip
        figures.append(Figure(f'Share of the true {name} over frequency', traces, layout))
    return figures


# ------------------------------------------------------------------------------------------ parts


def _effort_panels(
    trace: FitTrace, joint: int, fit: JointFit, unit: str, most: int
) -> tuple[str, str, list[dict[str, Any]], list[dict[str, Any]], tuple[list[float] | None, ...]]:
    """Return headline, unit, traces of effort and of residual, and the ranges of both."""
    rows = _outermost(trace, joint, most)
    breaks = np.flatnonzero(np.diff(trace.segment[rows])) + 1
    time = np.insert(_running_time(trace)[rows], breaks, np.nan)
    keep = np.insert(trace.keep[rows, joint], breaks, True)

    def line(values: np.ndarray, name: str, colour: str, width: float, **more: Any) -> Any:
        # a NaN between segments interrupts the line
        y = np.insert(values, breaks, np.nan) if values.size == rows.size else values
        return {
            'type': 'scatter', 'mode': 'lines', 'x': time, 'y': y, 'name': name,
            'legendgroup': name, 'line': {'color': colour, 'width': width},
            'hovertemplate': f'%{{y:.4g}}<extra>{name}</extra>', **more,
        }  # fmt: skip

    efforts = [
        # a broad pale line below a thin one, so that both are seen where they agree
        line(trace.measured[rows, joint], 'measured', MEASURED, 3.0, opacity=0.45),
        line(trace.predicted[rows, joint], 'predicted', PREDICTED, 1.2),
    ]
    residual, inner = trace.residual[:, joint], _off_edges(trace.segment)
    differences = [line(residual[rows], 'residual', RESIDUAL, 1.0)]
    if not keep.all():
        inserted = np.insert(residual[rows], breaks, np.nan)
        # the pale line has all values; below the pointer each is shown once
        every = line(inserted, 'left out', PALE, 1.0)
        every['hovertemplate'] = '%{y:.4g}<extra>residual</extra>'
        used = line(np.where(keep, inserted, np.nan), 'residual', RESIDUAL, 1.0)
        differences = [every, {**used, 'hovertemplate': None, 'hoverinfo': 'skip'}]
    # rows without effort, such as those of links on elastic joints, have no relative error
    error = f' · {fit.relative_error:.1f} %' if math.isfinite(fit.relative_error) else ''
    head = f'<b>{escaped(row_name(fit.joint))}</b>{error} · rms {fit.rmse:.3g} {unit}'
    both = np.column_stack([trace.measured[:, joint], trace.predicted[:, joint]])
    # friction of a joint at rest is not modelled: what it does must not set the scale
    limits = _limits(both, inner), _limits(residual, inner & trace.keep[:, joint])
    return head, unit, efforts, differences, limits


def _stacked(panels: Sequence[Any], legend: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the traces and the layout of joints below one another, on one time axis."""
    head, tail, room, slot = 40, 40, 260, 296
    inner = slot * (len(panels) - 1) + room
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    notes = []
    seen: set[str] = set()
    for j, (text, unit, efforts, differences, limits) in enumerate(panels):
        below = slot * j + np.array([0.0, 0.6 * room, 0.66 * room, room])
        top, middle, second, bottom = np.clip(1.0 - below / inner, 0.0, 1.0).tolist()
        borders = ([middle, top], [bottom, second])
        for k, (lines, domain) in enumerate(zip((efforts, differences), borders, strict=True)):
            number = 2 * j + k + 1
            suffix = '' if number == 1 else str(number)
            for each in lines:
                first = each['name'] not in seen
                seen.add(each['name'])
                traces.append({**each, 'yaxis': f'y{suffix}', 'showlegend': first})
            axes[f'yaxis{suffix}'] = {
                'domain': domain, 'nticks': 6 if k == 0 else 4,
                'title': {'text': f'{"effort" if k == 0 else "residual"}<br>[{unit}]'},
                **({'range': limits[k]} if limits[k] else {}),
            }  # fmt: skip
        notes.append({
            'text': text, 'xref': 'paper', 'yref': 'paper', 'x': 0.0, 'y': top, 'xanchor': 'left',
            'yanchor': 'bottom', 'yshift': 3, 'showarrow': False, 'font': {'size': 12.5},
        })  # fmt: skip
    times = [part['x'] for part in traces]
    end = max((float(np.nanmax(time)) for time in times if time.size), default=1.0)
    layout = {
        'height': inner + head + tail,
        'margin': {'l': 62, 'r': 12, 't': head, 'b': tail},
        'hovermode': 'x unified', 'hoversubplots': 'axis',
        'xaxis': {
            'title': {'text': 'time [s]'}, 'anchor': f'y{2 * len(panels)}',
            'range': [0.0, end or 1.0],
            'unifiedhovertitle': {'text': '%{x:.3f} s'},
            'spikethickness': 1, 'spikecolor': SOFT, 'spikedash': 'dot',
        },
        'showlegend': legend,
        'legend': {'orientation': 'h', 'x': 1.0, 'xanchor': 'right', 'y': 1.0, 'yanchor': 'bottom',
                   'yref': 'paper'},
        'annotations': notes,
        **axes,
    }  # fmt: skip
    return traces, layout


def _off_edges(segment: np.ndarray) -> np.ndarray:
    """Return which samples are not at an end of their segment, where filters ring; (n,) bool."""
    starts = np.flatnonzero(np.diff(segment, prepend=np.nan))
    lengths = np.diff(np.append(starts, segment.size))
    first, length = np.repeat(starts, lengths), np.repeat(lengths, lengths)
    place = np.arange(segment.size) - first
    edge = np.ceil(EDGE * length)
    return (place >= edge) & (place < length - edge)


def _limits(values: np.ndarray, chosen: np.ndarray) -> list[float] | None:
    """Return the range of an axis for the chosen rows, if others are far outside; else None."""
    if not chosen.any():
        return None
    low, high = float(values[chosen].min()), float(values[chosen].max())
    room = 0.3 * (high - low)
    within = low - room <= values.min() and values.max() <= high + room
    return None if within or not room else [low - 0.5 * room, high + 0.5 * room]


def _outermost(trace: FitTrace, joint: int, most: int) -> np.ndarray:
    """
    Return the rows of a joint to draw, at most ``most``.

    Those with the extremes of effort and residual in stretches narrower than a pixel: the picture
    is that of all rows, peaks included.
    """
    if len(trace) <= most:
        return np.arange(len(trace))
    borders = np.linspace(0, len(trace), most // 4 + 1).astype(int)
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
    typical_step = float(np.median(step[~border])) if (~border).any() else 1.0
    span = float(np.sum(step[~border]))
    jump = border & ((step <= 0.0) | (step > 0.2 * span))
    return np.concatenate([[0.0], np.cumsum(np.where(jump, 10.0 * typical_step, step))])
