# SPDX-License-Identifier: Apache-2.0
"""
Robots, their shapes and their motions as the data of a page's 3D scene.

``templates/robot_scene.js`` draws it with WebGL: joints and positions are in the page, so
the browser computes the forward kinematics.  Arrays are little-endian and base64.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import scipy

from ..excitation.settings import Obstacle
from ..model.link_geometry import read_shapes
from ..model.robot import Robot

MOST_TRIANGLES = 20_000
"""Triangles of a robot's shapes, all together; meshes with more lose detail."""

MOST_READ = 400_000
"""Triangles of a mesh from which on its convex hull is taken."""

PLANE_WIDTH = 3.0
"""Edge of the square that stands for an endless plane [m]."""

_SIDES = 48  # of the polygon for a circle
_FINEST = 1 << 20  # cells of a mesh that is left as it is, along each axis


def packed(values: np.ndarray, kind: str = '<f4') -> str:
    """Return an array as base64 text of little-endian numbers of a NumPy type."""
    return base64.b64encode(np.asarray(values, dtype=kind).tobytes()).decode('ascii')


def scene(
    robots: Sequence[Mapping[str, Any]],
    duration: float,
    obstacles: Sequence[Mapping[str, Any]] = (),
    lines: np.ndarray | None = None,
) -> dict[str, Any]:
    """
    Return the data of a scene.

    Parameters
    ----------
    robots:
        From `scene_robot`; samples of each are at equal steps from 0 to the duration.
    duration:
        [s].
    obstacles:
        Shapes that stand still (`obstacle_shapes`).
    lines:
        (n_samples, 2, 3) ends of a line at equal steps, NaN where there is none [m].

    """
    boxes = np.array([robot['box'] for robot in robots])
    low, high = boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)
    return {
        'duration': duration,
        'robots': list(robots),
        'shapes': list(obstacles),
        'lines': None if lines is None else packed(lines),
        'centre': _rounded(0.5 * (low + high)),
        'radius': round(0.5 * float(np.linalg.norm(high - low)), 4),
    }


def scene_robot(
    robot: Robot, position: np.ndarray, tools: Sequence[Obstacle] = (), opacity: float = 1.0
) -> dict[str, Any]:
    """
    Return a robot and its motion for `scene`.

    Links are drawn by their visual shapes; those that have none, or whose meshes are not found, by
    their collision shapes.

    Parameters
    ----------
    robot:
        The robot.
    position:
        (n_samples, n_joints) at equal steps [rad or m].
    tools:
        Obstacles that move with a link.
    opacity:
        Of the whole robot, from 0 to 1.

    """
    frames = robot.link_frames
    held = [o for o in tools if o.link]
    carried = [
        _drawn(o.shape(), frames[o.link].placement * o.placement, frames[o.link].parentJoint)
        for o in held
    ]
    shapes = _robot_shapes(robot) + [{**shape, 'obstacle': True} for shape in carried]
    return {
        'joints': _joints(robot),
        'position': packed(position),
        'columns': robot.n_joints,
        'shapes': shapes,
        'opacity': opacity,
        'box': _box(robot, position),
    }


def obstacle_shapes(obstacles: Sequence[Obstacle]) -> list[dict[str, Any]]:
    """Return the shapes of the obstacles that stand still, for `scene`."""
    return [
        {**_drawn(o.shape(), o.placement), 'plane': o.kind == 'plane'}
        for o in obstacles
        if not o.link
    ]


def _joints(robot: Robot) -> list[dict[str, Any]]:
    """Return the tree: parent, placement, axis (rotation, then translation) and column."""
    model, columns = robot.model, {index: i for i, index in enumerate(robot.joint_ids)}
    neutral, joints = pin.neutral(model), []
    for index in range(1, model.njoints):
        joint = model.joints[index]
        data = joint.createData()
        joint.calc(data, neutral[joint.idx_q : joint.idx_q + joint.nq])
        axis = np.asarray(data.S).ravel()
        joints.append(
            {
                'parent': int(model.parents[index]),
                'placement': _matrix(model.jointPlacements[index]),
                'turn': _rounded(axis[3:]),
                'slide': _rounded(axis[:3]),
                'column': columns[index],
            }
        )
    return joints


def _box(robot: Robot, position: np.ndarray) -> list[list[float]]:
    """Return the corners of a box around the joints along the motion, with room for a link."""
    model, data = robot.model, robot.model.createData()
    rows = position[:: max(1, len(position) // 50)]
    places = [np.zeros(3)]
    for q in robot.configuration(rows):
        pin.forwardKinematics(model, data, q)
        places += [data.oMi[i].translation.copy() for i in range(1, model.njoints)]
    low, high = np.min(places, axis=0), np.max(places, axis=0)
    room = 0.1 * np.linalg.norm(high - low) + 0.05
    return [_rounded(low - room), _rounded(high + room)]


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


def _robot_shapes(robot: Robot) -> list[dict[str, Any]]:
    """Return the shapes of all links, each with the index of the joint that moves it."""
    found = link_shapes(robot)
    most = max(100, MOST_TRIANGLES // max(1, len(found)))
    return [
        _drawn(shape.geometry, shape.placement, shape.parentJoint, most, _colour(shape, kind))
        for shape, kind in found
    ]


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
        'matrix': [float(f'{value:.7g}') for value in matrix.T.ravel()],
        'colour': colour,
        'vertices': packed(np.round(65535.0 * (vertices - low) / size), '<u2'),
        'faces': packed(faces, '<u2'),
    }


# ------------------------------------------------------------------------------------- triangles


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


def _matrix(placement: pin.SE3) -> list[float]:
    """Return a pose column by column, as WebGL has it."""
    return [float(f'{value:.7g}') for value in placement.homogeneous.T.ravel()]


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 6) + 0.0 for value in values]
