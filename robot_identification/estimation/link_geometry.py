# SPDX-License-Identifier: Apache-2.0
"""Convex hulls and boxes of the links' shapes in the URDF, in the joints' frames."""

from __future__ import annotations

from itertools import product

import coal
import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, QhullError

from ..errors import SettingsError
from ..model.collision_shapes import KINDS, read_shapes
from ..model.robot import Robot

_CORNERS = np.array(list(product((-1.0, 1.0), repeat=3)))
_SIDES = 16


def link_points(robot: Robot) -> dict[str, np.ndarray]:
    """
    Return points around which each link's convex hull is spanned.

    What is fixed to a link or locked to it belongs to it.  The collision shapes are taken; links
    that have none, or whose meshes are not found, are taken by their visual shapes.  Round shapes
    are replaced by polyhedra around them.

    Parameters
    ----------
    robot:
        Read from its URDF.

    Returns
    -------
    dict
        By link, (k, 3) points in its joint's frame [m]; links without shapes are left out.

    """
    found: dict[str, np.ndarray] = {}
    for kind in KINDS:
        for link, points in _points(robot, kind).items():
            found.setdefault(link, points)
        if len(found) == robot.n_joints:
            break
    return found


def box_faces(points: np.ndarray) -> np.ndarray:
    """
    Return the faces of the box around points, along the axes of their frame.

    Parameters
    ----------
    points:
        (k, 3) [m].

    Returns
    -------
    np.ndarray
        (6, 4) outward normals and offsets; ``normal @ x + offset <= 0`` inside.

    """
    return np.vstack(
        [
            np.column_stack([np.eye(3), -points.max(axis=0)]),
            np.column_stack([-np.eye(3), points.min(axis=0)]),
        ]
    )


def hull_faces(points: np.ndarray) -> np.ndarray:
    """Return the faces of the convex hull of points, as `box_faces`; the box where it is flat."""
    try:
        return np.unique(ConvexHull(points).equations.round(12), axis=0)
    except (QhullError, ValueError):
        return box_faces(points)


def interior_point(faces: np.ndarray) -> np.ndarray:
    """Return the centre of the largest ball inside of faces, (3,) [m]."""
    bounds = np.append(faces[:, :3], np.ones((len(faces), 1)), axis=1)
    found = linprog(
        [0.0, 0.0, 0.0, -1.0], bounds, -faces[:, 3], bounds=[(None, None)] * 3 + [(0.0, None)]
    )
    return np.asarray(found.x[:3])


def require_points(points: dict[str, np.ndarray], links: tuple[str, ...], choice: str) -> None:
    """
    Check that every link has a shape.

    Raises
    ------
    SettingsError
        naming the first link that has none.

    """
    for link in links:
        if link not in points:
            raise SettingsError(
                f"'estimation.physical.center_of_mass' is {choice}, but link '{link}' has no "
                'collision or visual shape in the URDF that can be read',
                key='estimation.physical.center_of_mass',
                link=link,
                value=choice,
                remedy='give it one, make its mesh files available, or set it to free',
            )


def _points(robot: Robot, kind: str) -> dict[str, np.ndarray]:
    robot = robot.opened
    geometry = read_shapes(robot, kind).geometry
    names = dict(zip(robot.joint_ids, robot.links, strict=True))
    parts: dict[str, list[np.ndarray]] = {}
    for shape in geometry.geometryObjects:
        link = names.get(shape.parentJoint)
        if link is None:
            continue
        local = _surface(shape.geometry)
        placed = local @ shape.placement.rotation.T + shape.placement.translation
        parts.setdefault(link, []).append(placed)
    return {link: np.vstack(several) for link, several in parts.items()}


def _surface(shape: coal.CollisionGeometry) -> np.ndarray:
    """(k, 3) points whose convex hull holds the shape, and is it where the shape has faces."""
    if isinstance(shape, coal.Sphere):
        return shape.radius * _ROUND
    if isinstance(shape, coal.Capsule):
        ends = np.array([[0.0, 0.0, shape.halfLength], [0.0, 0.0, -shape.halfLength]])
        return np.vstack([shape.radius * _ROUND + end for end in ends])
    if isinstance(shape, coal.Cylinder):
        ring = np.column_stack([shape.radius * _RING, np.zeros(_SIDES)])
        axis = np.array([0.0, 0.0, shape.halfLength])
        return np.vstack([ring + axis, ring - axis])
    if isinstance(shape, coal.BVHModelBase):
        return np.array(shape.vertices())
    shape.computeLocalAABB()
    low, high = shape.aabb_local.min_, shape.aabb_local.max_
    return 0.5 * (low + high) + 0.5 * (high - low) * _CORNERS


def _ring() -> np.ndarray:
    """Corners of a regular polygon around the circle of radius 1."""
    angle = 2.0 * np.pi * np.arange(_SIDES) / _SIDES
    return np.column_stack([np.cos(angle), np.sin(angle)]) / np.cos(np.pi / _SIDES)


def _round() -> np.ndarray:
    """Corners of a polyhedron around the ball of radius 1."""
    directions = np.array([v for v in product((-1.0, 0.0, 1.0), repeat=3) if any(v)])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions / -ConvexHull(directions).equations[:, 3].max()


_RING, _ROUND = _ring(), _round()
