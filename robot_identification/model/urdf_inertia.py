# SPDX-License-Identifier: Apache-2.0
"""Inertial parameters of the links of a URDF, each in its own frame or in that of its joint."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from .consistency import from_pseudo_inertia, pseudo_inertia
from .robot import Robot
from .urdf import UrdfInertial


def link_inertias(robot: Robot) -> dict[str, np.ndarray]:
    """
    Return the inertial parameters of the links of a URDF that have an ``<inertial>``.

    Returns
    -------
    dict
        By link, (10,) in the order of `INERTIAL_SYMBOLS`, in the link's own frame.

    """
    return {
        link: _vector(inertial)
        for link, inertial in robot.contents.links.items()
        if inertial is not None
    }


def fixed_inertia(robot: Robot, link: str) -> tuple[str, np.ndarray | None]:
    """
    Return which identified link carries a link of the URDF, and the latter's own body.

    Parameters
    ----------
    robot:
        Read from its URDF.
    link:
        A link that is fixed to an identified one, or that a locked joint holds there.

    Returns
    -------
    tuple
        The identified link, and (10,) parameters in its joint frame; None without ``<inertial>``.

    Raises
    ------
    ModelError
        where the URDF has no such link, or no identified joint moves it.

    """
    carrier, placement = robot.attachment(link)
    vector = link_inertias(robot).get(link)
    if vector is None or not vector.any():
        return carrier, None
    pose = placement.homogeneous
    return carrier, from_pseudo_inertia(pose @ pseudo_inertia(vector) @ pose.T)


def _vector(inertial: UrdfInertial) -> np.ndarray:
    turn = pin.rpy.rpyToMatrix(inertial.rpy)
    mass, centre = inertial.mass, inertial.xyz
    inertia = turn @ inertial.inertia @ turn.T
    inertia += mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    entries = inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate([[mass], mass * centre, entries])
