# SPDX-License-Identifier: Apache-2.0
"""
Physical bodies in place of those of a URDF that are impossible or missing.

Links keep what is possible; the document is edited at the places that change and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
import warnings

import numpy as np

from ..errors import IdentificationWarning
from ..model.consistency import check
from ..model.parameters import ParameterLayout, ParameterSet
from ..model.plausibility import joined_links, nearest_body, repaired_body, robot_shapes
from ..model.robot import link_inertias, Robot
from ..model.urdf import parse_tree
from .urdf_edit import document_text, RigidBody
from .urdf_export import write_inertial


def repaired_urdf(robot: Robot) -> tuple[str, tuple[str, ...]]:
    """
    Return a robot's URDF with physical bodies throughout.

    A link with an impossible ``<inertial>`` gets the nearest possible one, a link that a joint
    moves and that has none, with all that is fixed to it, one of its shapes or of its neighbours
    (see `prior_repair`).

    Parameters
    ----------
    robot:
        Read with ``massless=True`` where links at the ends may have no inertia.

    Returns
    -------
    tuple
        The document, and a remark for each link that was changed.

    """
    robot = robot.opened
    bodies = link_inertias(robot)
    wrong = {link for link, vector in bodies.items() if vector.any() and not _possible(vector)}
    missing = {link for link in robot.links if not robot.prior.inertial(link).any()}
    return _repaired(robot, bodies, wrong | missing)


def robot_with_inertia(source: Any, joints: Any = None, **settings: Any) -> Robot:
    """
    Read a robot as `Robot.from_urdf` does; joints at the ends that move no inertia get some.

    Parameters
    ----------
    source, joints, settings:
        See `Robot.from_urdf`.

    Raises
    ------
    ModelError
        as `Robot.from_urdf`.

    Warns
    -----
    IdentificationWarning
        naming the links and what stands in place of the inertia that they lack.

    """
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        robot = Robot.from_urdf(source, joints, massless=True, **settings)
        if bare := _bare(robot):
            text, remarks = _repaired(robot.opened, link_inertias(robot), bare)
            whole = Robot.from_urdf(text, joints, **settings)
            notes = (*whole.warnings, *remarks)
            robot = _with(whole, path=robot.path, warnings=notes)
    for note in robot.warnings:
        warnings.warn(note, IdentificationWarning, stacklevel=2)
    return robot


def _with(robot: Robot, **changes: Any) -> Robot:
    """Return a robot with attributes changed, those of the opened tree, too."""
    # a robot without passive joints is its own opened tree
    tree = replace(robot.opened, opened=None, **changes)  # type: ignore[arg-type]
    return tree if robot.opened is robot else replace(robot, opened=tree, **changes)


def _repaired(
    robot: Robot, bodies: Mapping[str, np.ndarray], wrong: set[str]
) -> tuple[str, tuple[str, ...]]:
    root, remarks = parse_tree(robot.urdf), []
    shapes = robot_shapes(robot) if wrong else {}
    near = _neighbours(robot)
    for element in root.iterfind('link'):
        link = element.get('name')
        if link not in wrong:
            continue
        vector = bodies.get(link, np.zeros(10))
        body, words = repaired_body(vector, shapes.get(link), near(link))
        write_inertial(element, RigidBody.from_vector(body))
        fault = 'is no physical body' if vector.any() else 'has no inertia'
        remarks.append(f"link '{link}' {fault}: {words} stands in its place")
    return (document_text(root, robot.urdf) if wrong else robot.urdf), tuple(remarks)


def _neighbours(robot: Robot) -> Callable[[str], list[np.ndarray]]:
    """Return what gives physical bodies near a link: those that it is joined to, or all."""
    sound = {
        link: body
        for link in robot.links
        if (body := nearest_body(robot.prior.inertial(link))) is not None
    }
    joined = joined_links(robot)

    def near(link: str) -> list[np.ndarray]:
        found = [sound[other] for other in joined.get(link, ()) if other in sound]
        return found or list(sound.values())

    return near


def _possible(vector: np.ndarray) -> bool:
    return check(ParameterSet(ParameterLayout.inertial(('link',)), vector)).physical


def _bare(robot: Robot) -> set[str]:
    """Return links whose joints move no inertia, neither theirs nor that of links behind them."""
    tree = robot.opened
    moved = [bool(inertia.toDynamicParameters().any()) for inertia in tree.model.inertias]
    for index in range(len(moved) - 1, 0, -1):
        moved[tree.model.parents[index]] |= moved[index]
    return {
        link
        for joint, link, index in zip(tree.joints, tree.links, tree.joint_ids, strict=True)
        if not moved[index] and joint not in robot.passive
    }


def default_path(path: Path) -> Path:
    """Return the path of a repaired URDF: beside the first, so that relative meshes are found."""
    return path.with_name(f'{path.stem}.repaired.urdf')
