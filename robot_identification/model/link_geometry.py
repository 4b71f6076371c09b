# SPDX-License-Identifier: Apache-2.0
"""Shapes of links in the URDF; their convex hulls, boxes and volumes in the joints' frames."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from itertools import product
import os
from pathlib import Path

import coal
from lxml import etree
import numpy as np
import pinocchio as pin
import scipy

from ..errors import ModelError
from .joint_choice import links_apart, locked_configuration
from .robot import Robot
from .urdf import parse_tree
from .urdf_files import resolve_package_path

KINDS = {'collision': pin.GeometryType.COLLISION, 'visual': pin.GeometryType.VISUAL}
"""Kinds of shapes in a URDF."""


NOT_FOUND, UNREADABLE = 'is not found', 'cannot be read'


@dataclass(frozen=True)
class LostMesh:
    """
    Mesh that is left out.

    Attributes
    ----------
    link:
        Name of its link.
    name:
        The file, as the URDF names it.
    reason:
        `NOT_FOUND` or `UNREADABLE`, words that follow the name.

    """

    link: str
    name: str
    reason: str


@dataclass(frozen=True)
class Shapes:
    """
    Shapes that move with the identified joints: Pinocchio's geometry model, reduced to these.

    Attributes
    ----------
    geometry:
        Of the shapes.
    lost:
        Meshes that are left out.
    assumed:
        In words, where meshes of a package that is not found are taken from.

    """

    geometry: pin.GeometryModel
    lost: tuple[LostMesh, ...] = ()
    assumed: tuple[str, ...] = ()


def read_shapes(
    robot: Robot, kind: str = 'collision', links: Collection[str] | None = None
) -> Shapes:
    """
    Read the ``collision`` or ``visual`` shapes of a robot's URDF, of ``links`` or of all.

    Raises ModelError if shapes cannot be read, but for meshes, which are left out.
    """
    document, lost, assumed = _with_mesh_paths(robot, kind, links)
    full = pin.buildModelFromXML(robot.tree_urdf)
    try:
        geometry = _built(full, document, kind)
    except _LOADING as error:
        unreadable = _remove_unreadable(document, kind)
        if not unreadable:
            raise ModelError(
                f"{kind} shapes of robot '{robot.name}' cannot be read: {error}",
                remedy='correct them',
            ) from error
        lost += unreadable
        geometry = _built(full, document, kind)
    if robot.locked:
        ids, configuration = locked_configuration(full, robot.locked)
        with links_apart(full) as apart:
            geometry = pin.buildReducedModel(apart, geometry, ids, configuration)[1]
    return Shapes(geometry, tuple(lost), tuple(dict.fromkeys(assumed)))


_LOADING = ValueError, RuntimeError, IndexError
"""Boost.Python's of C++ exceptions."""


def _built(model: pin.Model, document: etree._Element, kind: str) -> pin.GeometryModel:
    text = etree.tostring(document, encoding='unicode')
    return pin.buildGeomFromUrdfString(model, text, KINDS[kind])


def _remove_unreadable(document: etree._Element, kind: str) -> list[LostMesh]:
    """Take the shapes out whose mesh cannot be read, and return these."""
    loader, lost = coal.MeshLoader(), []
    for link in document.iterfind('link'):
        for shape in link.findall(kind):
            mesh = shape.find('geometry/mesh')
            if mesh is None:
                continue
            try:
                loader.load(mesh.get('filename'), np.ones(3))
            except _LOADING:
                lost.append(LostMesh(link.get('name'), mesh.get('filename'), UNREADABLE))
                link.remove(shape)
    return lost


def _with_mesh_paths(
    robot: Robot, kind: str, links: Collection[str] | None
) -> tuple[etree._Element, list[LostMesh], list[str]]:
    """
    Return the URDF with absolute mesh paths, without shapes whose mesh is not found.

    Shapes of other links than ``links`` are left out, too.  Beside it are `Shapes.lost` and
    `Shapes.assumed`.
    """
    document = parse_tree(robot.tree_urdf)
    lost: list[LostMesh] = []
    assumed: list[str] = []
    base = robot.path.absolute().parent if robot.path else Path.cwd()
    for link in document.iterfind('link'):
        for shape in link.findall(kind):
            if links is not None and link.get('name') not in links:
                link.remove(shape)
                continue
            mesh = shape.find('geometry/mesh')
            if mesh is None:
                continue
            name = mesh.get('filename', '')
            path, note = _mesh_path(name, base)
            if path is not None:
                mesh.set('filename', str(path))
                assumed.extend(filter(None, [note]))
                continue
            lost.append(LostMesh(link.get('name'), name, NOT_FOUND))
            link.remove(shape)
    return document, lost, assumed


def _mesh_path(name: str, base: Path) -> tuple[Path | None, str]:
    """Return where a mesh is, or None, and what was assumed for it, in words."""
    name = name.removeprefix('file://').removeprefix('model://')
    try:
        path = resolve_package_path(name)
    except ModelError:
        return _beside(name, base)
    path = path if path.is_absolute() else base / path
    return (path if path.is_file() else None), ''


def _beside(name: str, base: Path) -> tuple[Path | None, str]:
    """
    Look for ``package://<package>/<rest>`` beside the URDF and above.

    A folder of another name than the package's counts where it holds the URDF, or the folder of
    the URDF.
    """
    package, _, rest = name.partition('://')[2].partition('/')
    for folder in (base, *base.parents):
        if folder != Path(os.sep) and (folder / package / rest).is_file():
            return folder / package / rest, ''
        if folder.name == package and (folder / rest).is_file():
            return folder / rest, ''
    for folder in (base, base.parent):
        if folder != Path(os.sep) and (folder / rest).is_file():
            return folder / rest, (
                f"package '{package}' is not found: its meshes are taken from '{folder}', which "
                'holds the URDF'
            )
    return None, ''


_CORNERS = np.array(list(product((-1.0, 1.0), repeat=3)))
_SIDES = 16  # of the polygon around a circle


@dataclass(frozen=True)
class LinkShape:
    """
    Shape of a link, with what is fixed to it or locked.

    Its convex hull is spanned around ``points`` (k, 3) in the link's joint frame [m]; ``volume``
    is that of the convex hulls of its parts, or of the hull of all where that is less [m^3].
    """

    points: np.ndarray
    volume: float


def link_shapes(robot: Robot) -> dict[str, LinkShape]:
    """
    Return the shape of each link, by link; links without shapes are left out.

    The collision shapes are taken; links that have none, or whose meshes are not found, are taken
    by their visual shapes.  Round shapes are replaced by polyhedra around them.  Raises ModelError
    if shapes cannot be read.
    """
    robot = robot.opened
    found: dict[str, LinkShape] = {}
    for kind in KINDS:
        wanted = [link for link in robot.links if link not in found]
        if wanted:
            found |= _shapes(robot, kind, wanted)
    return found


def link_points(robot: Robot) -> dict[str, np.ndarray]:
    """Return the points of each link's shape, (k, 3) in its joint's frame [m]; see above."""
    return {link: shape.points for link, shape in link_shapes(robot).items()}


def box_faces(points: np.ndarray) -> np.ndarray:
    """
    Return the faces of the box around points (k, 3), along the axes of their frame [m].

    They are (6, 4) outward normals and offsets; ``normal @ x + offset <= 0`` inside.
    """
    offsets = np.concatenate([-points.max(axis=0), points.min(axis=0)])
    return np.column_stack([np.vstack([np.eye(3), -np.eye(3)]), offsets])


def hull_faces(points: np.ndarray) -> np.ndarray:
    """Return the faces of the convex hull of points, as `box_faces`; the box where it is flat."""
    try:
        return np.unique(scipy.spatial.ConvexHull(points).equations.round(12), axis=0)
    except (scipy.spatial.QhullError, ValueError):
        return box_faces(points)


def interior_point(faces: np.ndarray) -> np.ndarray:
    """Return the centre of the largest ball inside of faces, (3,) [m]."""
    bounds = np.append(faces[:, :3], np.ones((len(faces), 1)), axis=1)
    found = scipy.optimize.linprog(
        [0.0, 0.0, 0.0, -1.0], bounds, -faces[:, 3], bounds=[(None, None)] * 3 + [(0.0, None)]
    )
    return np.asarray(found.x[:3])


def _shapes(robot: Robot, kind: str, wanted: Collection[str]) -> dict[str, LinkShape]:
    names = dict(zip(robot.joint_ids, robot.links, strict=True))
    frames = robot.link_frames.items()
    carried = {link for link, frame in frames if names.get(frame.parentJoint) in wanted}
    parts: dict[str, list[np.ndarray]] = {}
    for shape in read_shapes(robot, kind, carried).geometry.geometryObjects:
        local = _surface(shape.geometry)
        placed = local @ shape.placement.rotation.T + shape.placement.translation
        parts.setdefault(names[shape.parentJoint], []).append(placed)
    return {link: _shape_of_parts(several) for link, several in parts.items()}


def _shape_of_parts(parts: list[np.ndarray]) -> LinkShape:
    hulls = [_hull(points) for points in parts]
    points, whole = _hull(np.vstack([points for points, _ in hulls]))
    return LinkShape(points, min(whole, sum(volume for _, volume in hulls)))


def _hull(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the corners and the volume of the convex hull of points; flat ones have none."""
    try:
        hull = scipy.spatial.ConvexHull(points)
    except (scipy.spatial.QhullError, ValueError):
        return points, 0.0
    return points[hull.vertices], float(hull.volume)


def _surface(shape: coal.CollisionGeometry) -> np.ndarray:
    """(k, 3) points whose convex hull holds the shape, and is it where the shape has faces."""
    if isinstance(shape, coal.Sphere):
        return shape.radius * _round()
    if isinstance(shape, coal.BVHModelBase):
        return np.array(shape.vertices())
    if isinstance(shape, (coal.Capsule, coal.Cylinder)):
        section = _round() if isinstance(shape, coal.Capsule) else _ring()
        axis = np.array([0.0, 0.0, shape.halfLength])
        return np.vstack([shape.radius * section + axis, shape.radius * section - axis])
    shape.computeLocalAABB()
    low, high = shape.aabb_local.min_, shape.aabb_local.max_
    return 0.5 * (low + high) + 0.5 * (high - low) * _CORNERS


def _ring() -> np.ndarray:
    """Corners of a regular polygon, level, around the circle of radius 1."""
    angle = 2.0 * np.pi * np.arange(_SIDES) / _SIDES
    return np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle]) / np.cos(np.pi / _SIDES)


@cache
def _round() -> np.ndarray:
    """Corners of a polyhedron around the ball of radius 1."""
    directions = np.array([v for v in product((-1.0, 0.0, 1.0), repeat=3) if any(v)])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions / -scipy.spatial.ConvexHull(directions).equations[:, 3].max()
