# SPDX-License-Identifier: Apache-2.0
"""
Figures of parameters: base parameters beside the prior, their number, and the links in space.

The ellipsoid of a link is the body of uniform density that has its mass, centre of mass and
inertia: with the principal moments I1, I2, I3 its semi-axes are sqrt(5 (I2 + I3 - I1) / (2 m)) and
so on.  Where one of these is not real, no body has the inertia, and the centre of mass stands
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any

import numpy as np
import pinocchio as pin

from ..estimation.estimate import Estimate
from ..model.consistency import inertia_at_com
from ..model.floating_base import UNREAL_LINKS
from ..model.parameters import body_links, ParameterSet
from ..model.robot import Robot
from ..regressor.base_parameters import BaseStructure
from .figure import (
    escaped,
    Figure,
    GOOD,
    MEASURED,
    NONE,
    PALE,
    POOR,
    PREDICTED,
    raised,
    RESIDUAL,
    ROW,
    TEXT,
    WEAK,
)
from .link_shapes import inertia_ellipsoid, link_shapes, mesh_of, thinned

MOST_TRIANGLES = 8_000
"""Triangles of the robot's shapes, all together."""

USUAL_LIMIT = 30.0
"""Relative standard deviation up to which a parameter counts as well known [%]."""

_KINDS = (('before', RESIDUAL, 'diamond', 0.3), ('after', PREDICTED, 'circle', 0.35))
_AROUND, _ALONG = 24, 13  # points of an ellipsoid, along its parallels and meridians


def precision(relative_std: float, limit: float | None = None) -> str:
    """
    Return ``good``, ``weak`` or ``poor``, the class of a relative standard deviation [%].

    Good are those up to ``limit``, by default `USUAL_LIMIT`, poor those above 100 % or unknown.
    """
    if relative_std <= (USUAL_LIMIT if limit is None else limit):
        return 'good'
    return 'weak' if relative_std <= 100.0 else 'poor'


def deviation_figure(estimate: Estimate, limit: float | None = None) -> Figure:
    """
    Return the relative standard deviation of each base parameter as bars on a logarithmic axis.

    ``limit`` is the largest deviation of an essential parameter, drawn as a line; None where
    these were not asked for [%].
    """
    names = estimate.base.layout.names
    known = np.isfinite(estimate.relative_std)
    shown = np.where(known, np.clip(estimate.relative_std, 1e-3, 1e4), np.nan)
    lowest = math.floor(math.log10(shown[known].min(initial=1.0)))
    highest = math.log10(max(100.0, 1.5 * shown[known].max(initial=1.0)))
    classes = np.array([precision(value, limit) for value in estimate.relative_std])
    classes[~estimate.identifiability.excited] = 'none'
    states = [
        (f'up to {USUAL_LIMIT if limit is None else limit:g} %', GOOD, classes == 'good'),
        ('up to 100 %', WEAK, classes == 'weak'),
        ('more', POOR, classes == 'poor'),
        ('not excited', NONE, classes == 'none'),
    ]
    traces = [
        {
            'type': 'bar', 'orientation': 'h', 'name': name,
            'y': [escaped(names[i]) for i in np.flatnonzero(which)],
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
        'showlegend': True,
        'shapes': [] if limit is None else [_rule(limit, 'limit of essential ones')],
    }  # fmt: skip
    return Figure('Relative standard deviation of each base parameter', traces, layout)


def prior_figure(estimate: Estimate, prior: ParameterSet) -> Figure:
    """
    Return base parameters with two standard deviations beside the prior's, one panel a unit.

    ``prior`` has the base parameters of the prior (`BaseStructure.project`).
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
        names = [escaped(layout.names[i]) for i in group]
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

    The regressor's columns are scaled.
    """
    values = np.maximum(np.asarray(structure.singular_values, dtype=float), 1e-18)
    rank = structure.n_base
    index = np.arange(1.0, values.size + 1.0)
    text = f'rank {rank}'
    if math.isfinite(structure.gap):
        text += f', gap {structure.gap:.0e}'.replace('e+', 'e')
    traces = [
        {'x': index[part], 'y': values[part], 'mode': 'markers',
         'marker': {'color': colour, 'size': 6}, 'showlegend': False,
         'hovertemplate': 'number %{x}: %{y:.3g}<extra></extra>'}
        for part, colour in ((slice(rank), RESIDUAL), (slice(rank, None), NONE))
    ]  # fmt: skip
    layout = {
        'height': 280, 'showlegend': True,
        'xaxis': {'title': {'text': 'number'}},
        'yaxis': {'title': {'text': 'singular value'}, 'type': 'log', 'dtick': 3},
        'shapes': [_rule(rank + 0.5, text)],
    }  # fmt: skip
    return Figure('Singular values of the regressor at random states', traces, layout)


def link_figure(robot: Robot, before: ParameterSet, after: ParameterSet) -> Figure:
    """
    Return a figure of the links in space, at joint positions of zero.

    Both sets of standard parameters have all ten inertial ones of the links to draw.
    """
    robot = robot.opened
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, pin.neutral(robot.model))
    places = {link: data.oMi[i] for link, i in zip(robot.links, robot.joint_ids, strict=True)}
    shapes = _robot_trace(robot, data)
    traces = [shapes if shapes['x'].size else _skeleton_trace(robot, data)]
    for (kind, colour, symbol, opacity), parameters in zip(_KINDS, (before, after), strict=True):
        links = [link for link in body_links(parameters.layout) if link in places]
        inertials = {link: parameters.inertial(link) for link in links}
        drawn = [link for link in links if inertials[link][0] > 0.0]
        text = {link: _described(link, kind, inertials[link]) for link in drawn}
        centres = [places[link].act(inertials[link][1:4] / inertials[link][0]) for link in drawn]
        traces.append({
            'type': 'scatter3d', 'mode': 'markers', 'name': f'centres of mass {kind}',
            **dict(zip('xyz', np.array(centres).reshape(-1, 3).T.copy(), strict=True)),
            'marker': {'color': colour, 'size': 5, 'symbol': symbol},
            'customdata': list(text.values()), 'hovertemplate': '%{customdata}<extra></extra>',
        })  # fmt: skip
        shown = False
        for link in drawn:
            surface = ellipsoid(inertials[link])
            if surface is None:
                continue
            points = surface[0] @ places[link].rotation.T + places[link].translation
            hover = f'{text[link]}<extra></extra>'
            traces.append({
                **_mesh(points, surface[1]), 'name': f'inertia {kind}', 'legendgroup': kind,
                'showlegend': not shown, 'color': colour, 'opacity': opacity,
                'hovertemplate': hover,
            })  # fmt: skip
            shown = True
    scene = _scene(traces)
    layout = {
        'height': 520, 'margin': {'l': 0, 'r': 0, 't': 0, 'b': 0},
        'scene': scene,
        'legend': {'orientation': 'h', 'x': 0.01, 'y': 0.01, 'yanchor': 'bottom'},
    }  # fmt: skip
    alt = "Centres of mass and inertia ellipsoids before and after, in the robot's shapes"
    return Figure(alt, traces, layout)


def _scene(traces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return axes that show everything to scale, the longest side as long as there is room."""
    everything = np.hstack([np.array([part[axis] for axis in 'xyz']) for part in traces])
    low, high = np.nanmin(everything, axis=1) - 0.01, np.nanmax(everything, axis=1) + 0.01
    ratio = (high - low) / (high - low).max()
    axes = {
        f'{name}axis': {'visible': False, 'showspikes': False, 'range': [start, end]}
        for name, start, end in zip('xyz', low.tolist(), high.tolist(), strict=True)
    }
    return {
        **axes, 'aspectmode': 'manual',
        'aspectratio': dict(zip('xyz', ratio.tolist(), strict=True)),
        'camera': {'eye': {'x': 0.95, 'y': 0.95, 'z': 0.42}},
    }  # fmt: skip


def ellipsoid(inertial: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """
    Return the surface of the uniform ellipsoid that has ten inertial parameters.

    Parameters
    ----------
    inertial:
        (10,) of a link with a mass, at its joint's frame.

    Returns
    -------
    tuple of np.ndarray, or None
        Vertices (n, 3) in the joint's frame [m] and triangles (m, 3); None if no body has the
        inertia.

    """
    found = inertia_ellipsoid(inertial)
    if found is None:
        return None
    polar = np.linspace(0.0, np.pi, _ALONG)[:, None]
    around = 2.0 * np.pi * np.arange(_AROUND) / _AROUND
    circles = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around)
    ball = np.stack([*circles, np.cos(polar) + 0.0 * around], axis=-1).reshape(-1, 3)
    first = np.arange((_ALONG - 1) * _AROUND).reshape(-1, _AROUND)
    second = np.roll(first, -1, axis=1)
    quads = np.stack([first, second, second + _AROUND, first + _AROUND], axis=-1).reshape(-1, 4)
    faces = np.vstack([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    semi_axes, axes = found
    return inertial[1:4] / inertial[0] + (ball * semi_axes) @ axes.T, faces


def _robot_trace(robot: Robot, data: pin.Data) -> dict[str, Any]:
    # visual meshes take a second to read, and their details are hidden by the ellipsoids
    shapes = link_shapes(robot, ('collision', 'visual'))
    most = max(100, MOST_TRIANGLES // max(1, len(shapes)))
    parts = []
    for shape, _ in shapes:
        vertices, faces = thinned(*mesh_of(shape.geometry), most)
        pose = data.oMi[shape.parentJoint] * shape.placement
        parts.append((vertices @ pose.rotation.T + pose.translation, faces))
    return {
        **_mesh(*_one_mesh(parts)), 'name': 'shapes', 'color': 'var(--link)', 'opacity': 0.25,
        'hoverinfo': 'skip', 'showlegend': True, 'flatshading': True,
    }  # fmt: skip


def _skeleton_trace(robot: Robot, data: pin.Data) -> dict[str, Any]:
    """Return a line from each joint to those behind it, with the names of the links they move."""
    model, links = robot.model, dict(zip(robot.joint_ids, robot.links, strict=True))
    named: dict[tuple[float, ...], list[str]] = {}
    points = []
    for index in range(1, model.njoints):
        parent, place = data.oMi[model.parents[index]].translation, data.oMi[index].translation
        points += [parent.copy(), place.copy(), np.full(3, np.nan)]
        # names of joints at the same place would cover one another
        there = named.setdefault(tuple(place.round(3)), [])
        there += [links[index]] if links[index] not in UNREAL_LINKS else []
    names = {place: ', '.join(escaped(link) for link in there) for place, there in named.items()}
    return {
        'type': 'scatter3d', 'mode': 'lines+markers+text', 'name': 'joints',
        **dict(zip('xyz', np.array(points).T.copy(), strict=True)),
        'text': ['' if np.isnan(p[0]) else names.pop(tuple(p.round(3)), '') for p in points],
        'textposition': 'middle right', 'textfont': {'size': 11, 'color': TEXT},
        'line': {'color': 'var(--link)', 'width': 8},
        'marker': {'color': 'var(--link)', 'size': 4}, 'hoverinfo': 'skip',
    }  # fmt: skip


def _one_mesh(
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return meshes as one."""
    if not parts:
        return np.zeros((0, 3)), np.zeros((0, 3), dtype=int)
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts[:-1])])
    faces = [part[1] + start for part, start in zip(parts, starts, strict=True)]
    return np.vstack([vertices for vertices, _ in parts]), np.vstack(faces)


def _mesh(points: np.ndarray, faces: np.ndarray) -> dict[str, Any]:
    columns = dict(zip('xyz', points.T.copy(), strict=True))
    return {'type': 'mesh3d', **columns, **dict(zip('ijk', faces.T.copy(), strict=True))}


def _described(link: str, kind: str, inertial: np.ndarray) -> str:
    x, y, z = inertial[1:4] / inertial[0]
    moments = ', '.join(f'{m:.3g}' for m in np.linalg.eigvalsh(inertia_at_com(inertial)))
    return (
        f'<b>{escaped(link)}</b>, {kind}<br>{inertial[0]:.4g} kg<br>'
        f'centre ({x:.4f}, {y:.4f}, {z:.4f}) m<br>inertias {moments} kg m²'
    )


# ------------------------------------------------------------------------------------------ parts


def _rule(x: float, name: str) -> dict[str, Any]:
    """Return a dashed vertical line with a name in the legend."""
    return {'type': 'line', 'name': name, 'showlegend': True, 'x0': x, 'x1': x, 'y0': 0, 'y1': 1,
            'yref': 'paper', 'line': {'color': PREDICTED, 'width': 1, 'dash': 'dash'}}  # fmt: skip


def _named(names: Sequence[str]) -> dict[str, Any]:
    """Return the layout of a figure with a row for each name, the first one on top."""
    return {
        'height': 90 + ROW * max(len(names), 3),
        'yaxis': {
            'type': 'category', 'categoryorder': 'array',
            'categoryarray': [escaped(name) for name in names], 'fixedrange': True,
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
    texts = [
        f'{name}<br>identified {value:.4g} ± {deviation:.2g}<br>prior {old:.4g} {raised(unit)}'
        for name, value, deviation, old in zip(names, values, 2.0 * std, before, strict=True)
    ]
    hover = {'customdata': texts, 'hovertemplate': '%{customdata}<extra></extra>'}
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
