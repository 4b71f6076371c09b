# SPDX-License-Identifier: Apache-2.0
"""The bare mechanism of a robot as MJCF: bodies and joints, without inertias and shapes."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree
import numpy as np
import pinocchio as pin

from ..model.robot import joint_placement, Robot
from ..model.urdf import UrdfJoint


def mechanism(robot: Robot) -> etree._Element:
    """
    Return MJCF of the links and joints of a robot's URDF.

    Every link is a body, fixed ones and the base included (a root link ``world`` is MuJoCo's own);
    passive joints move, the other joints
    that are not identified are locked as in ``robot``.  Numbers have all their digits.
    """
    document = etree.Element('mujoco', model=robot.name)
    etree.SubElement(document, 'compiler', angle='radian')
    etree.SubElement(document, 'option', gravity=numbers(robot.gravity))
    children: dict[str, list[UrdfJoint]] = {}
    for joint in robot.contents.joints.values():
        children.setdefault(joint.parent, []).append(joint)
    world = etree.SubElement(document, 'worldbody')
    root = robot.contents.root_link
    # MuJoCo's own base is called so, and many URDFs' root link is
    base = world if root == 'world' else etree.SubElement(world, 'body', name=root)
    # a stack, not a recursion: chains of links may be long
    waiting = [(root, base)]
    while waiting:
        name, parent = waiting.pop()
        for joint in children.get(name, ()):
            waiting.append((joint.child, _body(parent, joint, robot)))
    return document


def _body(parent: etree._Element, joint: UrdfJoint, robot: Robot) -> etree._Element:
    """Add the body that a joint carries."""
    placement = joint_placement(joint, robot.locked.get(joint.name, 0.0))
    turn = pin.Quaternion(placement.rotation).normalized()
    body = etree.SubElement(
        parent,
        'body',
        name=joint.child,
        pos=numbers(placement.translation),
        quat=numbers((turn.w, turn.x, turn.y, turn.z)),
    )
    if joint.name not in robot.opened.joints:
        return body
    attributes = {'type': 'slide' if joint.type == 'prismatic' else 'hinge'}
    if joint.lower < joint.upper and np.isfinite([joint.lower, joint.upper]).any():
        attributes |= {'limited': 'true', 'range': numbers((joint.lower, joint.upper))}
    etree.SubElement(body, 'joint', name=joint.name, axis=numbers(joint.axis), **attributes)
    return body


def numbers(values: Iterable[float]) -> str:
    """Return numbers as text that reads back as the same numbers."""
    return ' '.join(repr(float(value) + 0.0) for value in values)
