# SPDX-License-Identifier: Apache-2.0
"""Points and axes of a tree's links in the base frame, for many states at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .tree import Tree


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
