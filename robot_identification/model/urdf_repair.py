# SPDX-License-Identifier: Apache-2.0
"""
Repair of a URDF whose links have no inertia, or an impossible one.

Bodies are vectors ``m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`` at the origin of their frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
import warnings

import numpy as np

from ..errors import IdentificationWarning, Omission
from .consistency import check
from .link_inertias import link_inertias
from .parameters import ParameterLayout, ParameterSet
from .plausibility import joined_links, nearest_body, repaired_body, robot_shapes
from .robot import Robot
from .urdf import parse_tree
from .urdf_elements import document_text, write_inertial


def repaired_urdf(robot: Robot) -> tuple[str, tuple[str, ...]]:
    """
    Return a robot's URDF with physical bodies throughout, and a remark for each changed link.

    A link with an impossible ``<inertial>`` gets the nearest possible one, a link that a joint
    moves and that has none, with all that is fixed to it, one of its shapes or of its neighbours.

    Parameters
    ----------
    robot:
        Read with ``massless=True`` where links at the ends may have no inertia.

    """
    robot = robot.opened
    bodies = link_inertias(robot)
    layout = ParameterLayout.inertial(('link',))
    wrong = {
        link
        for link, body in bodies.items()
        if body.any() and not check(ParameterSet(layout, body)).physical
    }
    missing = {link for link in robot.links if not robot.prior.inertial(link).any()}
    return _repaired(robot, bodies, wrong | missing)


def robot_with_inertia(source: Any, joints: Any = None, **settings: Any) -> Robot:
    """
    Read a robot as `Robot.from_urdf` does; joints at the ends that move no inertia get some.

    Raises ModelError as `Robot.from_urdf`, whose parameters it takes.

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
        warnings.warn(note, Omission, stacklevel=2)
    return robot


def _with(robot: Robot, **changes: Any) -> Robot:
    """Return a robot with attributes changed, those of the opened tree, too."""
    # a robot without passive joints is its own opened tree
    tree = replace(robot.opened, opened=None, **changes)  # type: ignore[arg-type]
    return tree if robot.opened is robot else replace(robot, opened=tree, **changes)


def _repaired(
    robot: Robot, bodies: Mapping[str, np.ndarray], wrong: set[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the URDF with other bodies for some links, and a remark for each of them."""
    if not wrong:
        return robot.urdf, ()
    root, remarks, shapes, joined = (
        parse_tree(robot.urdf), [], robot_shapes(robot), joined_links(robot)
    )  # fmt: skip
    priors = {link: nearest_body(robot.prior.inertial(link)) for link in robot.links}
    sound = {link: body for link, body in priors.items() if body is not None}
    for element in root.iterfind('link'):
        link = element.get('name')
        if link not in wrong:
            continue
        vector = bodies.get(link, np.zeros(10))
        near = [sound[other] for other in joined.get(link, ()) if other in sound]
        body, words = repaired_body(vector, shapes.get(link), near or list(sound.values()))
        write_inertial(element, body)
        fault = 'is no physical body' if vector.any() else 'has no inertia'
        remarks.append(f"link '{link}' {fault}: {words} stands in its place")
    return document_text(root, robot.urdf), tuple(remarks)


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
