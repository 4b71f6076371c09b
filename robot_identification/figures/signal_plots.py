# SPDX-License-Identifier: Apache-2.0
"""Figures of recordings as they were read: position, velocity and effort of joints over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data.recording import READ_ROWS, Recording, RecordingSource, SIGNALS, source_name
from ..errors import one_of
from .figure import escaped, Figure, headline, MEASURED, PALE, PREDICTED, RESIDUAL, WEAK

MOST_POINTS, ALL_POINTS = 6_000, 400_000
"""Points that a line is drawn through, and points of all lines of a page."""

_BLOCK_POINTS = 512
"""Points that are kept of `READ_ROWS` rows: the picture is narrower."""

_LINES = {
    'position': RESIDUAL, 'command': WEAK, 'velocity': PREDICTED, 'effort': MEASURED,
    'wrench': MEASURED,
}  # fmt: skip
_GAP = 0.06  # between the panels of a figure


@dataclass(frozen=True)
class Band:
    """
    Time of a recording that is marked in its figures.

    Attributes
    ----------
    first, last:
        Stamps of the recording [s].
    text:
        What it is, in a few words.
    joints:
        In whose figures the text stands; empty for all.
    everywhere:
        Whether the time is shaded at the other joints, too.

    """

    first: float
    last: float
    text: str
    joints: tuple[str, ...] = ()
    everywhere: bool = True


@dataclass(frozen=True)
class Envelope:
    """
    A recording, thinned to the extremes of short stretches, so that no peak is lost.

    Attributes
    ----------
    name, joints:
        Of the recording, and of its columns.
    time:
        (n,) [s].
    signals:
        By name (n, n_joints), those that were recorded; in turn the least and the largest values
        of a stretch.
    rows:
        Samples of the whole recording.
    left_out:
        Times that are not used, [first, last] each [s].
    bands:
        Times that are marked.

    """

    name: str
    joints: tuple[str, ...]
    time: np.ndarray
    signals: dict[str, np.ndarray]
    rows: int
    left_out: tuple[tuple[float, float], ...] = field(default=())
    bands: tuple[Band, ...] = ()


def thinned_envelope(
    name: str, joints: tuple[str, ...], time: np.ndarray, signals: dict[str, np.ndarray]
) -> Envelope:
    """Return (n, n_joints) signals over (n,) time [s] thinned to some `MOST_POINTS` a joint."""
    return Envelope(name, joints, *_thinned(time, signals, MOST_POINTS), rows=len(time))


def envelope(source: RecordingSource, most: int = MOST_POINTS) -> Envelope:
    """Read a recording in blocks and return it thinned to some ``most`` points a joint."""
    parts: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
    rows = 0
    for block in source.blocks(READ_ROWS):
        rows += len(block)
        parts.append(_thinned(block.time, _signals(block), _BLOCK_POINTS))
    names = [name for name in SIGNALS if all(name in found for _, found in parts)]
    time = np.concatenate([time for time, _ in parts])
    signals = {name: np.concatenate([found[name] for _, found in parts]) for name in names}
    time, signals = _thinned(time, signals, most)
    left_out = tuple(getattr(source, 'left_out', ()))
    return Envelope(source_name(source), source.joints, time, signals, rows, left_out)


def _signals(block: Recording) -> dict[str, np.ndarray]:
    found = {name: getattr(block, name) for name in SIGNALS}
    return {name: values for name, values in found.items() if values is not None}


def _thinned(
    time: np.ndarray, signals: dict[str, np.ndarray], most: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """
    Return least and largest values of ``most`` / 2 stretches; all where there are no more.

    Where a signal rises over a stretch the least comes first, so that a line stays a line.
    """
    if len(time) <= most:
        return time, signals
    starts = np.linspace(0, len(time), most // 2, endpoint=False).astype(int)
    ends = np.append(starts[1:], len(time)) - 1
    extremes = {}
    for name, values in signals.items():
        least, largest = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
        rises = values[ends] >= values[starts]
        ordered = np.where(rises, least, largest), np.where(rises, largest, least)
        extremes[name] = np.stack(ordered, axis=1).reshape(-1, values.shape[1])
    return np.stack([time[starts], time[ends]], axis=1).ravel(), extremes


def signal_figures(envelopes: Sequence[Envelope], units: Sequence[str]) -> list[Figure]:
    """
    Return a figure of each joint and recording: position, velocity and effort over time.

    ``units`` are those of the positions, rad or m, or of the channels of wrenches; times that are
    left out or marked are shaded.
    """
    lines = sum(len(each.joints) * len(each.signals) for each in envelopes)
    most = max(400, min(MOST_POINTS, ALL_POINTS // max(1, lines)))
    figures = []
    for each in envelopes:
        time, signals = _thinned(each.time, each.signals, most)
        start = float(time[0]) if len(time) else 0.0
        time, label = time - start, f' · {each.name}' if len(envelopes) > 1 else ''
        figures += [
            _figure(each, j, unit, time, signals, label, _shades(each, joint, start))
            for j, (joint, unit) in enumerate(zip(each.joints, units, strict=True))
        ]
    return figures


def _figure(
    recording: Envelope,
    j: int,
    unit: str,
    time: np.ndarray,
    signals: dict[str, np.ndarray],
    label: str,
    bands: list[dict[str, Any]],
) -> Figure:
    joint = recording.joints[j]
    effort = 'N m' if unit == 'rad' else 'N'
    units = {'velocity': f'{unit}/s', 'effort': effort}
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    height = (1.0 - _GAP * (len(signals) - 1)) / len(signals)
    for k, (name, values) in enumerate(signals.items()):
        top = 1.0 - k * (height + _GAP)
        suffix = '' if k == 0 else str(k + 1)
        traces.append(
            {
                'type': 'scatter', 'mode': 'lines', 'x': time, 'y': values[:, j], 'name': name,
                'yaxis': f'y{suffix}', 'line': {'color': _LINES[name], 'width': 1.0},
                'hovertemplate': f'%{{y:.4g}} {units.get(name, unit)}<extra>{name}</extra>',
            }
        )  # fmt: skip
        axes[f'yaxis{suffix}'] = {
            'domain': [max(0.0, top - height), top], 'nticks': 4,
            'title': {'text': f'{name}<br>[{units.get(name, unit)}]'},
        }  # fmt: skip
    layout = {
        'height': 120 + 90 * len(signals), 'showlegend': False,
        'hovermode': 'x unified', 'hoversubplots': 'axis',
        'title': headline(f'<b>{escaped(joint)}</b>{escaped(label)}'),
        'xaxis': {'title': {'text': 'time [s]'}, 'anchor': f'y{len(signals)}'.replace('y1', 'y'),
                  'unifiedhovertitle': {'text': '%{x:.3f} s'}},
        'shapes': bands, **axes,
    }  # fmt: skip
    text = f'{one_of(signals)} of {joint} over time, recording {recording.name}'
    return Figure(text, traces, layout, time=recording.name, joint=joint)


ROOM = 0.2
"""Share of the axis within which words do not stand twice, which would cover each other."""


def _shades(recording: Envelope, joint: str, start: float) -> list[dict[str, Any]]:
    """Return the shades of a joint's figure: marked times with their words, others pale."""
    marked = [each for each in recording.bands if not each.joints or joint in each.joints]
    pale = [
        *recording.left_out,
        *((each.first, each.last) for each in recording.bands if each.everywhere),
    ]
    pale = [times for times in pale if times not in {(each.first, each.last) for each in marked}]
    shades = [_shade(first - start, last - start, PALE) for first, last in pale]
    room = ROOM * float(np.ptp(recording.time))
    said: dict[str, float] = {}  # middle of the last band with these words
    for each in sorted(marked, key=lambda band: band.first):
        middle = 0.5 * (each.first + each.last)
        near = middle - said.get(each.text, -np.inf) < room
        shades.append(
            _shade(each.first - start, each.last - start, WEAK, '' if near else each.text)
        )
        if not near:
            said[each.text] = middle
    return shades


def _shade(first: float, last: float, colour: str, text: str = '') -> dict[str, Any]:
    words = {'label': {'text': escaped(text), 'textposition': 'top center', 'font': {'size': 10}}}
    return {
        'type': 'rect', 'x0': first, 'x1': last, 'y0': 0, 'y1': 1, 'yref': 'paper',
        'fillcolor': colour, 'opacity': 0.4, 'line': {'width': 0}, **(words if text else {}),
    }  # fmt: skip
