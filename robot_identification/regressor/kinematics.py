# SPDX-License-Identifier: Apache-2.0
"""
Kinematic tree of a robot as plain arrays.

Joint frames are those of the URDF: the origin on the joint's axis, fixed to the link it moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..model.robot import Robot


@dataclass(frozen=True)
class TreeJoint:
    """
    One joint of a tree, with one degree of freedom.

    Attributes
    ----------
    column:
        Place of the joint in all data; also the place of its link among the links.
    parent:
        Place in `Tree.joints` of the joint before it; -1 for the base.
    path:
        Places in `Tree.joints` of the joints that move its link, from the base to itself.
    revolute:
        Whether it turns; it slides otherwise.
    axis:
        (3,) unit vector, in its own frame.
    rotation, translation:
        (3, 3) axes and (3,) origin [m] of its frame at position 0, in the parent's frame.

    """

    column: int
    parent: int
    path: tuple[int, ...]
    revolute: bool
    axis: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray


@dataclass(frozen=True)
class Tree:
    """Joints of a robot, each after its parent, and gravity (3,) in the base frame [m/s^2]."""

    joints: tuple[TreeJoint, ...]
    gravity: np.ndarray

    @property
    def revolute(self) -> tuple[bool, ...]:
        """Kinds of the joints, true for those that turn, in the order of the data."""
        ordered = sorted(self.joints, key=lambda joint: joint.column)
        return tuple(joint.revolute for joint in ordered)


def tree_of(robot: Robot) -> Tree:
    """
    Return the tree of a robot's reduced model.

    Raises ModelError if the robot has passive joints: then it is `Robot.opened` that is a tree.
    """
    robot.require_tree()
    model = robot.model
    data = model.createData()
    pin.computeJointJacobians(model, data, pin.neutral(model))
    # a parent's index is smaller than its children's in Pinocchio, so sorting by it orders a tree
    order = sorted(range(robot.n_joints), key=lambda column: robot.joint_ids[column])
    place = {robot.joint_ids[column]: i for i, column in enumerate(order)}
    joints: list[TreeJoint] = []
    for i, column in enumerate(order):
        index = robot.joint_ids[column]
        jacobian = pin.getJointJacobian(model, data, index, pin.ReferenceFrame.LOCAL)
        # Pinocchio gives a vector where the robot has one joint
        motion = jacobian.reshape(6, -1)[:, model.joints[index].idx_v]
        linear, angular = motion[:3], motion[3:]
        revolute = bool(np.linalg.norm(angular) > 0.5)
        parent = place.get(model.parents[index], -1)
        placement = model.jointPlacements[index]
        joints.append(
            TreeJoint(
                column=column,
                parent=parent,
                path=(*(joints[parent].path if parent >= 0 else ()), i),
                revolute=revolute,
                axis=angular if revolute else linear,
                rotation=placement.rotation.copy(),
                translation=placement.translation.copy(),
            )
        )
    return Tree(tuple(joints), np.array(robot.gravity, dtype=float))


def cross_matrix(a: np.ndarray) -> np.ndarray:
    """Return the (3, 3) matrix of the cross product with ``a`` from the left."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return cross products along the last axis; NumPy's own takes three times as long for few."""
    product = np.empty(np.broadcast_shapes(a.shape, b.shape), dtype=np.result_type(a, b))
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        product[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return product


def cross_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return cross products along the first axis."""
    product = np.empty(np.broadcast_shapes(a.shape, b.shape), dtype=np.result_type(a, b))
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        product[i] = a[j] * b[k] - a[k] * b[j]
    return product
