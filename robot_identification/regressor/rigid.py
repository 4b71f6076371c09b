# SPDX-License-Identifier: Apache-2.0
"""
Kinematic tree of a robot, and rigid-body columns of its regressor for many samples at once.

Joint frames are those of the URDF: the origin on the joint's axis, fixed to the link it moves.

The effort of joint j owed to link i is ``s^T f``: the wrench f that moves the link, at the origin
of its joint frame, along the motion s = (w, l) that a unit speed of joint j gives the link (w its
rotation, l the velocity of that origin).  With the angular velocity W, the angular acceleration A
and the acceleration a of the origin less gravity, all in the link's frame,

    force = m a + (A x + W x W x) mc,    moment = mc x a + I A + W x (I W),

so every entry of the row is a product of s with quantities that belong to the link alone.  This is
Atkeson, An and Hollerbach's (1986) regressor, with the axes moved to the link instead of the
wrenches to the axes: a link's 6x10 matrix is never moved up the tree.  The motions s go from link
to link down the tree together with the link's own velocity and acceleration, all of which change
frames by the same 6x6 matrix (Featherstone 2008, chapter 2).

Inside this module arrays have the samples last, so that each operation runs over contiguous
memory; products of small matrices sample by sample are `numpy.einsum`, and what is linear in a few
functions of the state is one matrix product for all samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin

from ..data.recording import Motion
from ..model.mimic_joints import MimicJoints
from ..model.parameters import ParameterLayout
from ..model.robot import Robot


@dataclass(frozen=True)
class TreeJoint:
    """
    One joint of a tree, with one degree of freedom.

    Attributes
    ----------
    column:
        Place of the joint in all data: that of its master if it mimics one.
    link:
        Place of its link among the links, and of the joint among all that move.
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
    multiplier:
        Its speed by that of its column.

    """

    column: int
    link: int
    parent: int
    path: tuple[int, ...]
    revolute: bool
    axis: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    multiplier: float = 1.0


@dataclass(frozen=True)
class Tree:
    """
    Joints of a robot.

    Attributes
    ----------
    joints:
        Each after its parent.
    gravity:
        (3,) in the base frame [m/s^2].
    mimics:
        Joints that follow others.

    """

    joints: tuple[TreeJoint, ...]
    gravity: np.ndarray
    mimics: MimicJoints

    @property
    def n_columns(self) -> int:
        """Number of joints that have data."""
        return len(self.mimics.joints)

    @property
    def revolute(self) -> tuple[bool, ...]:
        """Kinds of the joints, true for those that turn, in the order of the data."""
        ordered = sorted(self.joints, key=lambda joint: joint.link)
        return tuple(joint.revolute for joint in ordered[: self.n_columns])

    def complete(self, motion: Motion) -> Motion:
        """Return the motion of all joints that move."""
        if not self.mimics.followed:
            return motion
        return Motion(
            self.mimics.positions(motion.position),
            self.mimics.rates(motion.velocity),
            self.mimics.rates(motion.acceleration),
        )


def tree_of(robot: Robot) -> Tree:
    """
    Return the tree of a robot's reduced model.

    Raises ModelError if the robot has passive joints: then it is `Robot.opened` that is a tree.
    """
    robot.require_tree()
    model, mimics, carriers = robot.model, robot.mimics, robot.carriers
    columns = [*range(robot.n_joints), *mimics.masters.tolist()]
    multipliers = [*np.ones(robot.n_joints), *mimics.multipliers]
    data = model.createData()
    pin.computeJointJacobians(model, data, pin.neutral(model))
    # a parent's index is smaller than its children's in Pinocchio, so sorting by it orders a tree
    order = sorted(range(carriers.n_joints), key=lambda link: carriers.joint_ids[link])
    place = {carriers.joint_ids[link]: i for i, link in enumerate(order)}
    joints: list[TreeJoint] = []
    for i, link in enumerate(order):
        index = carriers.joint_ids[link]
        jacobian = pin.getJointJacobian(model, data, index, pin.ReferenceFrame.LOCAL)
        # Pinocchio gives a vector where the robot has one joint
        motion = jacobian.reshape(6, -1)[:, model.joints[index].idx_v]
        linear, angular = motion[:3], motion[3:]
        revolute = bool(np.linalg.norm(angular) > 0.5)
        parent = place.get(model.parents[index], -1)
        placement = model.jointPlacements[index]
        joints.append(
            TreeJoint(
                column=columns[link],
                link=link,
                parent=parent,
                path=(*(joints[parent].path if parent >= 0 else ()), i),
                revolute=revolute,
                axis=angular if revolute else linear,
                rotation=placement.rotation.copy(),
                translation=placement.translation.copy(),
                multiplier=float(multipliers[link]),
            )
        )
    return Tree(tuple(joints), np.array(robot.gravity, dtype=float), mimics)


def cross_matrix(a: np.ndarray) -> np.ndarray:
    """Return the (3, 3) matrix of the cross product with ``a`` from the left."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return cross products along the last axis; NumPy's own takes three times as long for few."""
    product = cross_rows(*(x.transpose(-1, *range(x.ndim - 1)) for x in (a, b)))
    return product.transpose(*range(1, product.ndim), 0)


def cross_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return cross products along the first axis."""
    product = np.empty(np.broadcast_shapes(a.shape, b.shape), dtype=np.result_type(a, b))
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        product[i] = a[j] * b[k] - a[k] * b[j]
    return product


BLOCK = 256
"""Samples that are worked on at once: the intermediate arrays stay in a core's cache."""


@dataclass(frozen=True)
class RigidBodies:
    """Columns of the ten inertial parameters of every link, in the order of the robot's links."""

    layout: ParameterLayout
    tree: Tree
    _joints: tuple[_JointKernel, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kernels = tuple(_JointKernel.from_joint(joint) for joint in self.tree.joints)
        object.__setattr__(self, '_joints', kernels)

    @classmethod
    def from_robot(cls, robot: Robot) -> RigidBodies:
        """Make the columns for a robot."""
        return cls(ParameterLayout.inertial(robot.carriers.links), tree_of(robot))

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """Write the columns of a motion, the first 10 n_joints of ``out``, as `Term` asks."""
        for start in range(0, len(motion), BLOCK):
            part = slice(start, start + BLOCK)
            q, dq, ddq = (
                np.ascontiguousarray(array[part].T)
                for array in (motion.position, motion.velocity, motion.acceleration)
            )
            self.write(self.motions(q, dq, ddq), out[part])

    def motions(
        self, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray, others: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """
        Return velocities, accelerations and unit motions of the links, for a block of samples.

        ``q``, ``dq`` and ``ddq`` are (n_joints, n_samples), contiguous, of about a thousand
        samples at most; ``others`` (6, c) are motions of the base to be expressed in all links'
        frames.

        The result has, for each joint of the tree, (6, 2 + c + k, n_samples): the velocity of its
        link, the acceleration (spatial, less gravity), the ``others`` and the unit motions of the
        k joints on its path, each as (w, l) in the link's frame.
        """
        others = np.empty((6, 0)) if others is None else others
        base = np.zeros((6, 2 + others.shape[1], q.shape[1]))
        base[3:, 1] = -self.tree.gravity[:, None]
        base[:, 2:] = others[:, :, None]
        motions: list[np.ndarray] = []
        mimics = self.tree.mimics
        if mimics.followed:
            q = np.ascontiguousarray(mimics.positions(q.T).T)
            dq, ddq = (np.ascontiguousarray(mimics.rates(rate.T).T) for rate in (dq, ddq))
        for joint, kernel in zip(self.tree.joints, self._joints, strict=True):
            k = joint.link
            parent = base if joint.parent < 0 else motions[joint.parent]
            motions.append(kernel.next_link(parent, q[k], dq[k], ddq[k]))
        return motions

    def write(self, motions: list[np.ndarray], out: np.ndarray) -> None:
        """Write the columns of a block, (n_samples, >= n_joints, >= 10 n_joints), from motions."""
        for joint, motion in zip(self.tree.joints, motions, strict=True):
            entries = _rows(motion)
            columns = slice(10 * joint.link, 10 * joint.link + 10)
            for i, ancestor in enumerate(self.tree.joints[place] for place in joint.path):
                out[:, ancestor.column, columns] += ancestor.multiplier * entries[i].T


@dataclass(frozen=True)
class _JointKernel:
    """
    Map of a link's motions to those of the next one.

    Motions of a link are (6, 2 + k, n_samples): the velocity, the acceleration (spatial, less
    gravity) and the unit motions of the k joints that move it, each as (w, l).

    Attributes
    ----------
    revolute:
        Whether the joint turns.
    shape:
        (18, 3 or 2) coefficients of the matrix (M, E), 3x6, that gives l in the next frame from
        (w, l) in this one, in the functions of the position (1, cos q, sin q) or (1, q).  E is the
        rotation, which gives w from w.
    axis:
        (6, 1) unit motion of the joint.
    crossed:
        (6, 6) matrix of the cross product of a velocity with the unit motion.

    """

    revolute: bool
    shape: np.ndarray
    axis: np.ndarray
    crossed: np.ndarray

    @classmethod
    def from_joint(cls, joint: TreeJoint) -> _JointKernel:
        reach = cross_matrix(joint.translation)
        parts = [np.hstack([-turn @ reach, turn]) for turn in into_frame(joint)]
        if not joint.revolute:
            slide = cross_matrix(joint.rotation @ joint.axis)
            parts.append(np.hstack([-joint.rotation.T @ slide, np.zeros((3, 3))]))
        zero, axis = np.zeros(3), joint.axis
        # (w, l) x (axis, 0) = (w x axis, l x axis);  (w, l) x (0, axis) = (0, w x axis)
        turn = -cross_matrix(axis)
        blocks = [[turn, 0 * turn], [0 * turn, turn]] if joint.revolute else None
        return cls(
            revolute=joint.revolute,
            shape=np.stack([part.ravel() for part in parts], axis=1),
            axis=np.concatenate([axis, zero] if joint.revolute else [zero, axis])[:, None],
            crossed=np.block(blocks or [[0 * turn, 0 * turn], [turn, 0 * turn]]),
        )

    def next_link(
        self, parent: np.ndarray, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray
    ) -> np.ndarray:
        """Motions of the next link, one joint more than its parent's."""
        ones = np.ones_like(q)
        functions = np.stack([ones, np.cos(q), np.sin(q)] if self.revolute else [ones, q])
        transform = (self.shape @ functions).reshape(3, 6, -1)
        known = parent.shape[1]
        motions = np.empty((6, known + 1, q.size))
        np.einsum('cdn,dkn->ckn', transform[:, 3:], parent[:3], out=motions[:3, :known])
        np.einsum('cdn,dkn->ckn', transform, parent, out=motions[3:, :known])
        motions[:, known] = self.axis
        motions[:, 1] += self.axis * ddq + (self.crossed @ motions[:, 0]) * dq
        motions[:, 0] += self.axis * dq
        return motions


def into_frame(joint: TreeJoint) -> tuple[np.ndarray, ...]:
    """
    Return the rotation (3, 3) into a joint's frame from its parent's, in parts.

    They are what is constant, what goes with the cosine of the position and what with its sine, by
    Rodrigues' formula of the inverse rotation; the first alone where it slides.
    """
    into = joint.rotation.T
    if not joint.revolute:
        return (into,)
    constant = np.outer(joint.axis, joint.axis) @ into
    return constant, into - constant, -cross_matrix(joint.axis) @ into


def _rows(motions: np.ndarray) -> np.ndarray:
    """Ten entries for each joint that moves the link, (k, 10, n_samples)."""
    velocity, acceleration, unit = motions[:, 0], motions[:, 1], motions[:, 2:]
    W, v = velocity[:3], velocity[3:]
    state = np.empty((12, velocity.shape[1]))
    # the acceleration of the origin itself, from the spatial one
    state[:3] = acceleration[3:] + cross_rows(W, v)
    state[3:6] = acceleration[:3]
    np.multiply(W, W, out=state[6:9])
    np.multiply(W[0], W[1:], out=state[9:11])
    np.multiply(W[1], W[2], out=state[11])
    factors = _FACTORS @ state
    mass, first, second = np.split(factors, (3, 21))
    entries = np.empty((unit.shape[1], 10, velocity.shape[1]))
    np.einsum('ckn,cn->kn', unit[3:], mass, out=entries[:, 0])
    np.einsum('ckn,cen->ken', unit, first.reshape(6, 3, -1), out=entries[:, 1:4])
    np.einsum('ckn,cen->ken', unit[:3], second.reshape(3, 6, -1), out=entries[:, 4:])
    return entries


def _factors() -> np.ndarray:
    """
    Matrix (39, 12) that gives what unit motions are multiplied with, from the state of a link.

    The state is (a, A, products of W: xx yy zz xy xz yz).  The factors are of the mass (3: for l),
    the first moments (6 x 3: for w and l, by parameter) and the inertias (3 x 6: for w).
    """
    ax, ay, az, Ax, Ay, Az, xx, yy, zz, xy, xz, yz = np.eye(12)
    none = np.zeros(12)
    mass = [ax, ay, az]
    # a x w + (A x + W x W x)^T l
    first = [[none, az, -ay], [-az, none, ax], [ay, -ax, none]]
    first += [[-yy - zz, xy - Az, xz + Ay], [xy + Az, -xx - zz, yz - Ax]]
    first += [[xz - Ay, yz + Ax, -xx - yy]]
    # w^T (I A + W x I W), by Ixx, Ixy, Iyy, Ixz, Iyz, Izz
    second = [[Ax, Ay - xz, -yz, Az + xy, yy - zz, yz]]
    second += [[xz, Ax + yz, Ay, zz - xx, Az - xy, -xz]]
    second += [[-xy, xx - yy, xy, Ax - yz, Ay + xz, Az]]
    rows = [*mass, *(f for row in first for f in row), *(f for row in second for f in row)]
    return np.array(rows)


_FACTORS = _factors()
