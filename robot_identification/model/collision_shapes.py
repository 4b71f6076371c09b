# SPDX-License-Identifier: Apache-2.0
"""Collision and visual shapes of the links of a robot."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
import os
from pathlib import Path

from lxml import etree
import pinocchio as pin

from ..errors import ModelError
from .joint_selection import locked_configuration
from .packages import resolve_package_path
from .robot import Robot
from .urdf import parse_tree

KINDS = {'collision': pin.GeometryType.COLLISION, 'visual': pin.GeometryType.VISUAL}
"""Kinds of shapes in a URDF."""


@dataclass(frozen=True)
class Shapes:
    """
    Shapes that move with the identified joints: Pinocchio's geometry model, reduced to these.

    ``missing`` has pairs of link and mesh file for meshes that are not found; they are left out.
    """

    geometry: pin.GeometryModel
    missing: tuple[tuple[str, str], ...] = ()


def read_shapes(
    robot: Robot, kind: str = 'collision', links: Collection[str] | None = None
) -> Shapes:
    """
    Read the ``collision`` or ``visual`` shapes of a robot's URDF, of ``links`` or of all.

    Raises ModelError if the shapes cannot be read.
    """
    text, missing = _without_missing_meshes(robot, kind, links)
    full = pin.buildModelFromXML(robot.urdf)
    try:
        geometry = pin.buildGeomFromUrdfString(full, text, KINDS[kind])
    except (ValueError, RuntimeError, IndexError) as error:  # Boost.Python's of C++ exceptions
        raise ModelError(
            f"{kind} shapes of robot '{robot.name}' cannot be read: {error}",
            remedy='correct them',
        ) from error
    if robot.locked:
        ids, configuration = locked_configuration(full, robot.locked)
        geometry = pin.buildReducedModel(full, geometry, ids, configuration)[1]
    return Shapes(geometry, tuple(missing))


def _without_missing_meshes(
    robot: Robot, kind: str, links: Collection[str] | None
) -> tuple[str, list[tuple[str, str]]]:
    """
    Return the URDF with absolute mesh paths and without shapes whose mesh is not found.

    Shapes of other links than ``links`` are left out, too.
    """
    document = parse_tree(robot.urdf)
    missing = []
    base = robot.path.parent if robot.path else Path.cwd()
    for link in document.iterfind('link'):
        for shape in link.findall(kind):
            if links is not None and link.get('name') not in links:
                link.remove(shape)
                continue
            mesh = shape.find('geometry/mesh')
            if mesh is None:
                continue
            path = _mesh_path(mesh.get('filename', ''), base)
            if path is None:
                missing.append((link.get('name'), mesh.get('filename')))
                link.remove(shape)
            else:
                mesh.set('filename', str(path))
    return etree.tostring(document, encoding='unicode'), missing


def _mesh_path(name: str, base: Path) -> Path | None:
    for prefix in ('file://', 'model://'):
        if name.startswith(prefix):
            name = name[len(prefix) :]
    try:
        path = resolve_package_path(name)
    except ModelError:
        return _beside(name, base)
    path = path if path.is_absolute() else base / path
    return path if path.is_file() else None


def _beside(name: str, base: Path) -> Path | None:
    """Look for ``package://<package>/<rest>`` in the folders above the URDF."""
    package, _, rest = name.partition('://')[2].partition('/')
    for folder in (base, *base.parents):
        for candidate in (folder / package / rest, folder / rest):
            if folder != Path(os.sep) and candidate.is_file():
                return candidate
    return None
