# SPDX-License-Identifier: Apache-2.0
"""
A robot, its shapes and its motion as the data of a page's 3D scene.

``templates/robot_scene.js`` draws it with WebGL: joints and positions are in the page, so
the browser computes the forward kinematics.  Arrays are little-endian and base64.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Sequence
import json
from typing import Any

import coal
from markupsafe import Markup
import numpy as np
import pinocchio as pin

from ..figures.figure import resource
from ..figures.link_shapes import inertia_ellipsoid, link_shapes, mesh_of, thinned
from ..figures.page import render
from ..model.link_inertias import link_inertias
from ..model.robot import Robot
from ..regressor.loops import poses
from ..regressor.rigid import tree_of
from .settings import Obstacle

MOST_TRIANGLES = 20_000
"""Triangles of a robot's shapes, all together; meshes with more lose detail."""

_THIN = 1e-3  # least semi-axis of an ellipsoid [m]
_ROOM = 0.05  # around what is seen [m]
_CORNERS = np.array([[x, y, z, 1.0] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])


def packed(values: np.ndarray, kind: str = '<f4') -> str:
    """Return an array as base64 text of little-endian numbers of a NumPy type."""
    return base64.b64encode(np.asarray(values, dtype=kind).tobytes()).decode('ascii')


def render_scene(template: str, data: dict[str, Any], **fields: Any) -> str:
    """Return the HTML document of a template with a scene, whose data are JSON's."""
    # no text of the robot's can end the script
    text = json.dumps(data, separators=(',', ':')).replace('<', '\\u003c')
    script = Markup(resource('robot_scene.js'))
    return render(template, data=Markup(text), scene_script=script, **fields)


def scene(
    robot: Robot,
    position: np.ndarray,
    duration: float,
    obstacles: Sequence[Obstacle] = (),
    lines: np.ndarray | None = None,
    *,
    marked: Collection[str] = (),
    bodies: bool = False,
) -> dict[str, Any]:
    """
    Return the data of a scene.

    Links are drawn by their visual shapes; those that have none, or whose meshes are not found, by
    their collision shapes.

    Parameters
    ----------
    robot, position:
        The robot, and its motion (n_samples, n_joints) at equal steps [rad or m].
    duration:
        [s].
    obstacles:
        Those that are attached to a link move with it.
    lines:
        (n_samples, 2, 3) ends of a line at equal steps, NaN where there is none [m].
    marked:
        Links to be drawn in another colour.
    bodies:
        Whether ellipsoids of the URDF's inertia stand in for shapes of links without any.

    """
    shapes = _robot_shapes(robot, marked)
    if bodies:
        shapes += _bodies(robot, {shape['link'] for shape in shapes}, marked)
    for tool in obstacles:
        if tool.link:
            frame = robot.link_frames[tool.link]
            drawn = _drawn(tool.shape(), frame.placement * tool.placement, frame.parentJoint)
            shapes.append({**drawn, 'obstacle': True})
    reached = _reached(robot, position, shapes)
    centre = 0.5 * (reached.min(axis=0) + reached.max(axis=0))
    return {
        'duration': duration,
        'robot': {
            'joints': _joints(robot),
            'position': packed(position),
            'columns': robot.n_joints,
            'shapes': shapes,
        },
        'shapes': [
            {**_drawn(o.shape(), o.placement), 'plane': o.kind == 'plane'}
            for o in obstacles
            if not o.link
        ],
        'lines': None if lines is None else packed(lines),
        'centre': _rounded(centre),
        'radius': round(float(np.linalg.norm(reached - centre, axis=1).max()) + _ROOM, 4),
    }


def _joints(robot: Robot) -> list[dict[str, Any]]:
    """Return the tree: parent, placement, axis (rotation, then translation) and column."""
    offsets = [0.0] * robot.n_joints + robot.mimics.offsets.tolist()
    still = [0.0, 0.0, 0.0]
    return [
        {
            'parent': joint.parent + 1,
            'placement': _matrix(pin.SE3(joint.rotation, joint.translation).homogeneous),
            'turn': _rounded(joint.axis) if joint.revolute else still,
            'slide': still if joint.revolute else _rounded(joint.axis),
            'column': joint.column,
            'multiplier': joint.multiplier,
            'offset': offsets[joint.link],
        }
        for joint in tree_of(robot).joints
    ]


def _reached(robot: Robot, position: np.ndarray, shapes: Sequence[dict[str, Any]]) -> np.ndarray:
    """Return places (m, 3) of joints, and of corners of shapes' boxes, along the motion [m]."""
    rows = position[:: max(1, len(position) // 50)]
    found = poses(tree_of(robot), rows)
    # the origin of the base is among them
    places = [found.origin.reshape(-1, 3)]
    for shape in shapes:
        joint = shape['joint'] - 1
        corners = (_CORNERS @ np.reshape(shape['matrix'], (4, 4)))[:, :3]  # its columns are rows
        turned = corners @ found.rotation[joint].swapaxes(1, 2)
        places.append((found.origin[joint][:, None] + turned).reshape(-1, 3))
    return np.concatenate(places)


def _robot_shapes(robot: Robot, marked: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the shapes of all links, each with the index of the joint that moves it."""
    found = link_shapes(robot)
    most = max(100, MOST_TRIANGLES // max(1, len(found)))
    shapes = []
    for shape, kind in found:
        link = robot.model.frames[shape.parentFrame].name
        drawn = _drawn(
            shape.geometry, shape.placement, shape.parentJoint, most, _colour(shape, kind)
        )
        shapes.append({**drawn, 'link': link, 'marked': link in marked})
    return shapes


def _bodies(robot: Robot, drawn: set[str], marked: Collection[str]) -> Iterator[dict[str, Any]]:
    """Iterate over ellipsoids of inertia of links that are not drawn."""
    inertials = link_inertias(robot)
    most = max(100, MOST_TRIANGLES // max(1, len(inertials)))
    for link, inertial in inertials.items():
        found = None if link in drawn or inertial[0] <= 0.0 else inertia_ellipsoid(inertial)
        if found is None:
            continue
        semi_axes, axes = found
        axes = axes * np.sign(np.linalg.det(axes))
        placement = pin.SE3(axes, inertial[1:4] / inertial[0])
        frame = robot.link_frames[link]
        shape = coal.Ellipsoid(*np.maximum(semi_axes, _THIN))
        body = _drawn(shape, frame.placement * placement, frame.parentJoint, most)
        yield {**body, 'link': link, 'marked': link in marked}


def _colour(shape: pin.GeometryObject, kind: str) -> list[float] | None:
    """Return red, green and blue of a URDF's material; None where there is none."""
    if kind == 'collision' or not shape.overrideMaterial:
        return None
    return [round(float(value), 3) for value in shape.meshColor[:3]]


def _drawn(
    shape: coal.CollisionGeometry,
    placement: pin.SE3,
    joint: int = 0,
    most: int = MOST_TRIANGLES,
    colour: list[float] | None = None,
) -> dict[str, Any]:
    """Return a shape for the page: vertices are whole numbers in its box, scaled by its matrix."""
    vertices, faces = thinned(*mesh_of(shape), most)
    low = vertices.min(axis=0) if len(vertices) else np.zeros(3)
    size = np.maximum(np.ptp(vertices, axis=0), 1e-9) if len(vertices) else np.ones(3)
    matrix = placement.homogeneous @ np.block(
        [[np.diag(size), low[:, None]], [np.zeros(3), np.ones(1)]]
    )
    return {
        'joint': int(joint),
        'matrix': _matrix(matrix),
        'colour': colour,
        'vertices': packed(np.round(65535.0 * (vertices - low) / size), '<u2'),
        'faces': packed(faces, '<u2'),
    }


def _matrix(matrix: np.ndarray) -> list[float]:
    """Return a matrix (4, 4) column by column, as WebGL has it."""
    return [float(f'{value:.7g}') for value in matrix.T.ravel()]


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 6) + 0.0 for value in values]
