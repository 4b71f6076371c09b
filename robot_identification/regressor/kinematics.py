# SPDX-License-Identifier: Apache-2.0
"""
A robot's kinematic tree as plain arrays, and points and axes of its links for many states.

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
    rotation:
        (3, 3) axes of its frame at position 0, in the parent's frame, as columns.
    translation:
        (3,) origin of its frame at position 0, in the parent's frame [m].

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
    """
    Joints of a robot, each after its parent.

    Attributes
    ----------
    joints:
        As above; `TreeJoint.column` leads back to the order of the data.
    gravity:
        (3,) acceleration of free fall in the base frame [m/s^2].

    """

    joints: tuple[TreeJoint, ...]
    gravity: np.ndarray


def tree_of(robot: Robot) -> Tree:
    """
    Read the tree out of a robot's reduced model.

    Parameters
    ----------
    robot:
        With revolute, continuous and prismatic joints alone, which `Robot` sees to.

    Raises
    ------
    ModelError
        where the robot has passive joints: then it is `Robot.opened` that is a tree.

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


@dataclass(frozen=True)
class Poses:
    """
    Frames of all joints in the base frame.

    The first index is a joint's place in `Tree.joints`; the last entry stands for the base, so
    that -1 leads there.

    Attributes
    ----------
    rotation:
        (k + 1, n_samples, 3, 3).
    origin:
        (k + 1, n_samples, 3) [m].
    axis:
        (k + 1, n_samples, 3) unit vectors of the joints' axes.

    """

    rotation: np.ndarray
    origin: np.ndarray
    axis: np.ndarray


@dataclass(frozen=True)
class Rates:
    """
    Velocities of all frames, and their accelerations where the joints do not accelerate.

    All are (k + 1, n_samples, 3) in the base frame, with the base last as in `Poses`.

    Attributes
    ----------
    angular, linear:
        Of the frame and of its origin [rad/s, m/s].
    angular_bias, linear_bias:
        Accelerations for zero joint accelerations [rad/s^2, m/s^2].

    """

    angular: np.ndarray
    linear: np.ndarray
    angular_bias: np.ndarray
    linear_bias: np.ndarray


def poses(tree: Tree, position: np.ndarray) -> Poses:
    """Return the frames for joint positions (n_samples, n_joints), in the order of the data."""
    samples, k = position.shape[0], len(tree.joints)
    rotation = np.empty((k + 1, samples, 3, 3))
    origin, axis = np.zeros((k + 1, samples, 3)), np.zeros((k + 1, samples, 3))
    rotation[-1] = np.eye(3)
    for i, joint in enumerate(tree.joints):
        q = position[:, joint.column]
        parent = rotation[joint.parent]
        origin[i] = origin[joint.parent] + parent @ joint.translation
        axis[i] = parent @ (joint.rotation @ joint.axis)
        if joint.revolute:
            # Rodrigues' formula
            outer = np.outer(joint.axis, joint.axis)
            cosine, sine = np.cos(q)[:, None, None], np.sin(q)[:, None, None]
            turn = outer + cosine * (np.eye(3) - outer) + sine * cross_matrix(joint.axis)
            rotation[i] = parent @ (joint.rotation @ turn)
        else:
            rotation[i] = parent @ joint.rotation
            origin[i] += axis[i] * q[:, None]
    return Poses(rotation, origin, axis)


def rates(tree: Tree, at: Poses, velocity: np.ndarray) -> Rates:
    """Return the rates for joint velocities (n_samples, n_joints), in the order of the data."""
    angular, linear, angular_bias, linear_bias = (np.zeros_like(at.origin) for _ in range(4))
    for i, joint in enumerate(tree.joints):
        p = joint.parent
        own = at.axis[i] * velocity[:, joint.column, None]
        arm = at.origin[i] - at.origin[p]
        turning = cross(angular[p], arm)
        angular[i], angular_bias[i] = angular[p], angular_bias[p]
        linear[i] = linear[p] + turning
        linear_bias[i] = linear_bias[p] + cross(angular_bias[p], arm)
        linear_bias[i] += cross(angular[p], turning)
        if joint.revolute:
            angular[i] += own
            angular_bias[i] += cross(angular[p], own)
        else:
            linear[i] += own
            linear_bias[i] += 2.0 * cross(angular[p], own)
    return Rates(angular, linear, angular_bias, linear_bias)


@dataclass(frozen=True)
class Vector:
    """
    A point, or a direction, that is fixed to a link.

    Attributes
    ----------
    joint:
        Place in `Tree.joints` of the joint that moves the link; -1 for the base.
    local:
        (3,) in the frame of that joint [m; none for a direction].
    free:
        Whether it is a direction, which has no place.

    """

    joint: int
    local: np.ndarray
    free: bool = False

    def at(self, at: Poses) -> np.ndarray:
        """Return it in the base frame, (n_samples, 3)."""
        turned = at.rotation[self.joint] @ self.local
        return turned if self.free else turned + at.origin[self.joint]

    def slopes(self, tree: Tree, at: Poses) -> np.ndarray:
        """Return its derivatives by the joints, (n_samples, 3, n_joints) in the data's order."""
        here = self.at(at)
        slopes = np.zeros((*here.shape, len(tree.joints)))
        path = tree.joints[self.joint].path if self.joint >= 0 else ()
        for i in path:
            joint, axis = tree.joints[i], at.axis[i]
            if joint.revolute:
                arm = here if self.free else here - at.origin[i]
                slopes[:, :, joint.column] = cross(axis, arm)
            elif not self.free:
                slopes[:, :, joint.column] = axis
        return slopes

    def moving(self, at: Poses, rates: Rates) -> tuple[np.ndarray, np.ndarray]:
        """Return its velocity, and its acceleration without joint accelerations."""
        j = self.joint
        arm = at.rotation[j] @ self.local
        velocity = cross(rates.angular[j], arm)
        bias = cross(rates.angular_bias[j], arm) + cross(rates.angular[j], velocity)
        if self.free:
            return velocity, bias
        return velocity + rates.linear[j], bias + rates.linear_bias[j]


def cross_matrix(a: np.ndarray) -> np.ndarray:
    """Return the (3, 3) matrix of the cross product with ``a`` from the left."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return cross products along the last axis; NumPy's own takes three times as long for few."""
    product = np.empty(np.broadcast_shapes(a.shape, b.shape))
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        product[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return product
