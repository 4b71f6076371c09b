# SPDX-License-Identifier: Apache-2.0
"""
Centres of mass and inertia ellipsoids of the links before and after, in the robot's shapes.

The ellipsoid is the body of uniform density that has the link's mass, centre of mass and inertia:
with the principal moments I1, I2, I3 its semi-axes are sqrt(5 (I2 + I3 - I1) / (2 m)) and so on.
Where one of these is not real, no body has the inertia, and the centre of mass stands alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pinocchio as pin

from ...model.consistency import inertia_at_com
from ...model.parameters import body_links, ParameterSet
from ...model.robot import Robot
from ..robot_scene import link_shapes, mesh_of, thinned
from .figure import Figure, plain, PREDICTED, RESIDUAL

MOST_TRIANGLES = 8_000
"""Triangles of the robot's shapes, all together."""

_KINDS = (('before', RESIDUAL, 'diamond', 0.3), ('after', PREDICTED, 'circle', 0.35))
_AROUND, _ALONG = 24, 13


def link_figure(robot: Robot, before: ParameterSet, after: ParameterSet) -> Figure:
    """
    Return a figure of the links in space, at joint positions of zero.

    Parameters
    ----------
    robot:
        The robot.
    before, after:
        Standard parameters with all ten inertial ones of the links to draw.

    """
    robot = robot.opened
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, pin.neutral(robot.model))
    places = {link: data.oMi[i] for link, i in zip(robot.links, robot.joint_ids, strict=True)}
    traces = [_robot_trace(robot, data)]
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
    points = [np.array([part[axis] for axis in 'xyz']) for part in traces if part['x'].size]
    everything = np.hstack(points) if points else np.zeros((3, 1))
    low, high = everything.min(axis=1) - 0.01, everything.max(axis=1) + 0.01
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
    moments, axes = np.linalg.eigh(inertia_at_com(inertial))
    squares = 2.5 * (moments.sum() - 2.0 * moments) / inertial[0]
    if squares.min() < 0.0:
        return None
    polar = np.linspace(0.0, np.pi, _ALONG)[:, None]
    around = 2.0 * np.pi * np.arange(_AROUND) / _AROUND
    circles = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around)
    ball = np.stack([*circles, np.cos(polar) + 0.0 * around], axis=-1).reshape(-1, 3)
    first = np.arange((_ALONG - 1) * _AROUND).reshape(-1, _AROUND)
    second = np.roll(first, -1, axis=1)
    quads = np.stack([first, second, second + _AROUND, first + _AROUND], axis=-1).reshape(-1, 4)
    faces = np.vstack([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return inertial[1:4] / inertial[0] + (ball * np.sqrt(squares)) @ axes.T, faces


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
        **_mesh(*_joined(parts)), 'name': 'shapes', 'color': 'var(--link)', 'opacity': 0.25,
        'hoverinfo': 'skip', 'showlegend': True, 'flatshading': True,
    }  # fmt: skip


def _joined(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
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
        f'<b>{plain(link)}</b>, {kind}<br>{inertial[0]:.4g} kg<br>'
        f'centre ({x:.4f}, {y:.4f}, {z:.4f}) m<br>inertias {moments} kg m²'
    )
