# SPDX-License-Identifier: Apache-2.0
"""Inertial parameters of the links of a URDF, each in its own frame or in that of its joint."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from .consistency import from_pseudo_inertia, pseudo_inertia
from .robot import Robot
from .urdf import UrdfInertial, UrdfJoint


def joint_placement(joint: UrdfJoint, position: float = 0.0) -> pin.SE3:
    """Return the pose of a joint's child link in its parent link at a position [rad or m]."""
    origin = pin.SE3(pin.rpy.rpyToMatrix(joint.rpy), joint.xyz)
    if joint.type in ('revolute', 'continuous'):
        turn = pin.AngleAxis(position, joint.axis).toRotationMatrix()
        return origin * pin.SE3(turn, np.zeros(3))
    if joint.type == 'prismatic':
        return origin * pin.SE3(np.eye(3), position * joint.axis)
    return origin


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
            if joint.parent != parent or name in robot.carriers.joints:
                continue
            here = placement * joint_placement(joint, robot.locked.get(name, 0.0))
            pending.append((joint.child, here))
            if joint.child in own:
                lumped[joint.child] = moved_inertia(own[joint.child], here)
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
    return carrier, moved_inertia(vector, placement)


def moved_inertia(vector: np.ndarray, pose: pin.SE3) -> np.ndarray:
    """Return inertial parameters (10,) in another frame, in which theirs has a pose."""
    transform = pose.homogeneous
    return from_pseudo_inertia(transform @ pseudo_inertia(vector) @ transform.T)


def _vector(inertial: UrdfInertial) -> np.ndarray:
    # pin.Inertia refuses what no body has, which is to be checked and repaired
    turn = pin.rpy.rpyToMatrix(inertial.rpy)
    about = turn @ inertial.inertia @ turn.T
    pose = np.append(inertial.xyz, 1.0)
    matrix = inertial.mass * np.outer(pose, pose)
    matrix[:3, :3] += 0.5 * np.trace(about) * np.eye(3) - about
    return from_pseudo_inertia(matrix)
