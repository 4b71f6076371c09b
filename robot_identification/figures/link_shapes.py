# SPDX-License-Identifier: Apache-2.0
"""Shapes of a robot's links as triangles, few enough to be drawn."""

from __future__ import annotations

from collections.abc import Sequence

import coal
import numpy as np
import pinocchio as pin
import scipy

from ..model.consistency import inertia_at_com
from ..model.link_geometry import read_shapes
from ..model.robot import Robot

MOST_READ = 400_000
"""Triangles of a mesh above which its convex hull is taken."""

PLANE_WIDTH = 3.0
"""Edge of the square that stands for an endless plane [m]."""

_SIDES = 48  # of the polygon for a circle
_FINEST = 1 << 20  # cells of a mesh that is left as it is, along each axis


def link_shapes(
    robot: Robot, kinds: Sequence[str] = ('visual', 'collision')
) -> list[tuple[pin.GeometryObject, str]]:
    """Return the shapes of all links, each with its kind: the first that the link has of."""
    found: list[tuple[pin.GeometryObject, str]] = []
    drawn: set[str] = set()
    for kind in kinds:
        links = [name for name in robot.link_frames if name not in drawn]
        for shape in read_shapes(robot, kind, links).geometry.geometryObjects:
            drawn.add(robot.model.frames[shape.parentFrame].name)
            found.append((shape, kind))
    return found


def inertia_ellipsoid(inertial: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """
    Return the uniform ellipsoid that has ten inertial parameters, around its centre of mass.

    Parameters
    ----------
    inertial:
        (10,) of a link with a mass.

    Returns
    -------
    tuple of np.ndarray, or None
        Semi-axes (3,) [m] and their directions, the columns of (3, 3); None if no body has the
        inertia.

    """
    moments, axes = np.linalg.eigh(inertia_at_com(inertial))
    squares = 2.5 * (moments.sum() - 2.0 * moments) / inertial[0]
    return None if squares.min() < 0.0 else (np.sqrt(squares), axes)


def mesh_of(shape: coal.CollisionGeometry) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the surface of a shape as triangles.

    These are vertices (n, 3) [m] in the shape's frame, and places of three of them for each
    triangle (m, 3); their order does not define the outside.
    """
    if isinstance(shape, coal.BVHModelBase) and shape.num_tris <= MOST_READ:
        corners = [shape.tri_indices(i) for i in range(shape.num_tris)]
        return np.array(shape.vertices()), np.array([[t[0], t[1], t[2]] for t in corners])
    if isinstance(shape, coal.Halfspace):
        return _plate(shape)
    points = _surface_points(shape)
    try:
        return points, scipy.spatial.ConvexHull(points).simplices
    except (scipy.spatial.QhullError, ValueError):  # flat
        return points, np.zeros((0, 3), dtype=int)


def _plate(plane: coal.Halfspace) -> tuple[np.ndarray, np.ndarray]:
    """Return a square of `PLANE_WIDTH` in a plane, around the origin's nearest point."""
    normal = np.asarray(plane.n)
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    first /= np.linalg.norm(first)
    second = np.cross(normal, first)
    corners = 0.5 * PLANE_WIDTH * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    points = corners @ np.vstack([first, second]) + plane.d * normal
    return points, np.array([[0, 1, 2], [0, 2, 3]])


def _surface_points(shape: coal.CollisionGeometry) -> np.ndarray:
    """Return points (n, 3) whose convex hull is a convex shape, or close to a round one."""
    if isinstance(shape, coal.BVHModelBase):
        return np.array(shape.vertices())
    if isinstance(shape, coal.ConvexBase):
        return np.array(shape.points())
    angle = 2.0 * np.pi * np.arange(_SIDES) / _SIDES
    ring = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(_SIDES)])
    height = np.linspace(-1.0, 1.0, _SIDES // 2)[:, None, None]
    ball = (ring * np.sqrt(1.0 - height**2) + height * [0.0, 0.0, 1.0]).reshape(-1, 3)
    if isinstance(shape, coal.Sphere):
        return shape.radius * ball
    if isinstance(shape, coal.Ellipsoid):
        return shape.radii * ball
    if isinstance(shape, coal.Capsule):
        end = np.array([0.0, 0.0, shape.halfLength])
        return np.vstack([shape.radius * ball + end, shape.radius * ball - end])
    if isinstance(shape, (coal.Cylinder, coal.Cone)):
        end = np.array([0.0, 0.0, shape.halfLength])
        top = end[None] if isinstance(shape, coal.Cone) else shape.radius * ring + end
        return np.vstack([shape.radius * ring - end, top])
    shape.computeLocalAABB()
    low, high = shape.aabb_local.min_, shape.aabb_local.max_
    corners = np.array([[i >> k & 1 for k in range(3)] for i in range(8)])
    return low + (high - low) * corners


def thinned(vertices: np.ndarray, faces: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """
    Merge the vertices of a mesh in the cells of a grid until ``most`` triangles are left.

    A grid of two cells along the longest side is the coarsest; equal vertices are merged in any
    case.  Vertices are (n, 3) [m], faces (m, 3) places of vertices.
    """
    if not len(faces):
        return vertices[:0], faces
    low, longest = vertices.min(axis=0), max(float(np.ptp(vertices, axis=0).max()), 1e-12)
    # a surface passes through some cells^2 of the grid; a small mesh keeps its vertices
    cells = int(4.0 * np.sqrt(most)) + 2 if len(faces) > most else _FINEST
    while True:
        places = np.floor((vertices - low) / longest * cells).astype(np.int64)
        # one number for each cell: rows would be sorted ten times as slowly
        _, merged = np.unique(places @ [1, cells + 1, (cells + 1) ** 2], return_inverse=True)
        left = np.sort(merged[faces], axis=1)
        left = left[(left[:, 0] < left[:, 1]) & (left[:, 1] < left[:, 2])]
        left = np.unique(left, axis=0)
        if len(left) <= most or cells <= 2:
            break
        cells = int(0.75 * cells)
    count = np.bincount(merged)
    means = [np.bincount(merged, weights=vertices[:, k]) / count for k in range(3)]
    used, left = np.unique(left, return_inverse=True)
    return np.column_stack(means)[used], left.reshape(-1, 3)
