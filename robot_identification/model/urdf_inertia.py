# SPDX-License-Identifier: Apache-2.0
"""Inertial parameters of the links of a URDF, each in its own frame or in that of its joint."""

from __future__ import annotations

from lxml import etree
import numpy as np
import pinocchio as pin

from .consistency import from_pseudo_inertia, pseudo_inertia
from .robot import Robot


def link_inertias(urdf: str) -> dict[str, np.ndarray]:
    """
    Return the inertial parameters of the links that have an ``<inertial>``.

    Parameters
    ----------
    urdf:
        The document, as `Robot` has checked it.

    Returns
    -------
    dict
        By link, (10,) in the order of `INERTIAL_SYMBOLS`, in the link's own frame.

    """
    bodies = {}
    for link in etree.fromstring(urdf.encode()).iterfind('link'):
        inertial = link.find('inertial')
        if inertial is not None:
            bodies[link.get('name')] = _vector(inertial)
    return bodies


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
    vector = link_inertias(robot.urdf).get(link)
    if vector is None or not vector.any():
        return carrier, None
    pose = placement.homogeneous
    return carrier, from_pseudo_inertia(pose @ pseudo_inertia(vector) @ pose.T)


def _vector(element: etree._Element) -> np.ndarray:
    def numbers(tag: str, names: tuple[str, ...], default: str) -> np.ndarray:
        found = element.find(tag)
        texts = (default if found is None else found.get(name, default) for name in names)
        return np.array([float(part) for text in texts for part in text.split()])

    (mass,) = numbers('mass', ('value',), '0')
    xx, xy, xz, yy, yz, zz = numbers('inertia', ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), '0')
    centre = numbers('origin', ('xyz',), '0 0 0')
    turn = pin.rpy.rpyToMatrix(numbers('origin', ('rpy',), '0 0 0'))
    central = turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T
    inertia = central + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    entries = inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate([[mass], mass * centre, entries])
