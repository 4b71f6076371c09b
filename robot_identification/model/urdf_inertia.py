# SPDX-License-Identifier: Apache-2.0
"""Inertial parameters of the links of a URDF, each in its own frame or in that of its joint."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from .consistency import from_pseudo_inertia, pseudo_inertia
from .robot import joint_placement, Robot
from .urdf import UrdfInertial


def link_inertias(robot: Robot) -> dict[str, np.ndarray]:
    """Return the parameters (10,) of the links with ``<inertial>``, in each link's own frame."""
    inertials = robot.contents.links.items()
    return {link: _vector(inertial) for link, inertial in inertials if inertial is not None}


def lumped_inertias(robot: Robot, link: str) -> dict[str, np.ndarray]:
    """
    Return the parameters of the links that move rigidly with an identified link, in its frame.

    They are (10,) by link name; links without ``<inertial>`` are left out.
    """
    own, lumped = link_inertias(robot), {}
    pending = [(link, pin.SE3.Identity())]
    while pending:
        parent, placement = pending.pop()
        for name, joint in robot.contents.joints.items():
            if joint.parent != parent or name in robot.joints:
                continue
            here = placement * joint_placement(joint, robot.locked.get(name, 0.0))
            pending.append((joint.child, here))
            if joint.child in own:
                lumped[joint.child] = _moved(own[joint.child], here)
    return lumped


def fixed_inertia(robot: Robot, link: str) -> tuple[str, np.ndarray | None]:
    """
    Return the identified link that carries a link of the URDF, and the latter's own body.

    The link is fixed to an identified one, or a locked joint holds it there; its parameters are
    (10,) in the joint frame of that one, None without ``<inertial>``.  Raises ModelError if the
    URDF has no such link, or no identified joint moves it.
    """
    carrier, placement = robot.attachment(link)
    vector = link_inertias(robot).get(link)
    if vector is None or not vector.any():
        return carrier, None
    return carrier, _moved(vector, placement)


def _moved(vector: np.ndarray, pose: pin.SE3) -> np.ndarray:
    """Inertial parameters in another frame, in which theirs has a pose."""
    transform = pose.homogeneous
    return from_pseudo_inertia(transform @ pseudo_inertia(vector) @ transform.T)


def _vector(inertial: UrdfInertial) -> np.ndarray:
    mass, centre = inertial.mass, inertial.xyz
    turn = pin.rpy.rpyToMatrix(inertial.rpy)
    inertia = turn @ inertial.inertia @ turn.T
    inertia = inertia + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    entries = inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate([[mass], mass * centre, entries])
