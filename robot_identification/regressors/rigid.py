# SPDX-License-Identifier: Apache-2.0
"""
Rigid-body columns of the inverse dynamics regressor, for many samples at once.

The effort of joint j owed to link i is ``s^T f``: the wrench f that moves the link, at the origin
of its joint frame, along the motion s = (l, w) that a unit speed of joint j gives the link (l of
that origin, w its rotation).  With the angular velocity W, the angular acceleration A and the
acceleration a of the origin less gravity, all in the link's frame,

    f = m a + (A x + W x W x) mc,    n = mc x a + I A + W x (I W),

so every entry of the row is a product of s with quantities that belong to the link alone.  The
motions s are carried from link to link down the tree together with W, A and a.  This is Atkeson,
An and Hollerbach's (1986) form of the Newton-Euler equations, with the axes moved to the link
instead of the wrenches to the axes: a link's 6x10 matrix is never formed nor rotated.

Inside this module arrays have the samples last, so that each operation runs over contiguous
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..parameters import ParameterLayout
from ..recording import Motion
from ..robot import Robot
from .tree import Tree, tree_of, TreeJoint

BLOCK = 256
"""Samples that are worked on at once: the intermediate arrays stay in a core's cache."""

_NEGLIGIBLE = 4e-16
"""Entries of a rotation below this are the rounding of an exact zero, such as cos(pi/2)."""


@dataclass(frozen=True)
class RigidBodies:
    """
    Columns of the ten inertial parameters of every link.

    Attributes
    ----------
    layout:
        Ten parameters a link, in the order of the robot's links.
    tree:
        The kinematics.

    """

    layout: ParameterLayout
    tree: Tree
    _turns: tuple[_Turn, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        turns = tuple(_Turn.of(joint) for joint in self.tree.joints)
        object.__setattr__(self, '_turns', turns)

    @classmethod
    def of(cls, robot: Robot) -> RigidBodies:
        """Make the columns for a robot."""
        return cls(robot.layout, tree_of(robot))

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Write the columns of a motion; entries that are zero for every motion are left alone.

        Parameters
        ----------
        motion:
            States of n_samples.
        out:
            (n_samples, n_joints, >= 10 n_joints), zero in the first 10 n_joints columns.

        """
        for start in range(0, len(motion), BLOCK):
            part = slice(start, start + BLOCK)
            q, dq, ddq = (
                np.ascontiguousarray(array[part].T)
                for array in (motion.position, motion.velocity, motion.acceleration)
            )
            self._fill_block(q, dq, ddq, out[part])

    def _fill_block(self, q, dq, ddq, out) -> None:
        links: list[_LinkState] = []
        for joint, turn in zip(self.tree.joints, self._turns, strict=True):
            k = joint.column
            if joint.parent < 0:
                parent = _base(self.tree.gravity, q.shape[1])
            else:
                parent = links[joint.parent]
            link = _next_link(joint, turn, parent, q[k], dq[k], ddq[k])
            links.append(link)
            entries = _rows(link)
            columns = slice(10 * k, 10 * k + 10)
            for i, ancestor in enumerate(joint.path):
                out[:, self.tree.joints[ancestor].column, columns] = entries[:, i].T


@dataclass(frozen=True)
class _LinkState:
    """
    Motion of a link for a block of samples, in its joint frame.

    ``vectors`` is (3, 3 + 2 k, n_samples): W, A, a, then w and then l of the k joints on the path
    from the base to the link, all in one array so that one rotation carries all of them.
    """

    vectors: np.ndarray

    @property
    def spin(self) -> np.ndarray:
        return self.vectors[:, 0]

    @property
    def spin_rate(self) -> np.ndarray:
        return self.vectors[:, 1]

    @property
    def acceleration(self) -> np.ndarray:
        return self.vectors[:, 2]

    @property
    def n_path(self) -> int:
        return (self.vectors.shape[1] - 3) // 2

    @property
    def turning(self) -> np.ndarray:
        return self.vectors[:, 3 : 3 + self.n_path]

    @property
    def sliding(self) -> np.ndarray:
        return self.vectors[:, 3 + self.n_path :]


def _base(gravity: np.ndarray, n_samples: int) -> _LinkState:
    vectors = np.zeros((3, 3, n_samples))
    vectors[:, 2] = -gravity[:, None]
    return _LinkState(vectors)


@dataclass(frozen=True)
class _Turn:
    """
    A joint's rotation from its parent's frame into its own, ``E0 + cos(q) E1 + sin(q) E2``.

    ``entries`` holds, row by row, (column, E0, E1, E2) of the entries that are not zero for all q:
    robots are mostly built with right angles, which leaves five of nine.
    """

    entries: tuple[tuple[tuple[int, float, float, float], ...], ...]

    @classmethod
    def of(cls, joint: TreeJoint) -> _Turn:
        into = joint.rotation.T
        constant, cosine, sine = into, np.zeros((3, 3)), np.zeros((3, 3))
        if joint.revolute:
            # Rodrigues' formula of the inverse rotation
            constant = np.outer(joint.axis, joint.axis) @ into
            cosine = into - constant
            sine = -_cross_matrix(joint.axis) @ into
        parts = np.stack([constant, cosine, sine], axis=-1)
        parts[np.abs(parts) < _NEGLIGIBLE] = 0.0
        rows = tuple(
            tuple((c, *(float(x) for x in parts[r, c])) for c in range(3) if parts[r, c].any())
            for r in range(3)
        )
        return cls(rows)

    def apply(self, q: np.ndarray, vectors: np.ndarray, out: np.ndarray) -> None:
        """Rotate ``vectors`` (3, k, n_samples) by positions (n_samples,) into ``out``."""
        cosine, sine = np.cos(q), np.sin(q)
        for row, entries in zip(out, self.entries, strict=True):
            for i, (column, e0, e1, e2) in enumerate(entries):
                factor = _combine((1.0, e0), (cosine, e1), (sine, e2))
                if i == 0:
                    np.multiply(vectors[column], factor, out=row)
                else:
                    row += vectors[column] * factor


def _combine(*terms):
    """Sum of array times number, leaving out the numbers that are zero."""
    total = None
    for array, number in terms:
        if number != 0.0:
            term = array * number
            total = term if total is None else total + term
    return total


def _next_link(joint: TreeJoint, turn: _Turn, parent: _LinkState, q, dq, ddq) -> _LinkState:
    """State of the link that ``joint`` moves, from that of the link it hangs on."""
    offset = joint.translation[:, None]
    if not joint.revolute:
        offset = offset + (joint.rotation @ joint.axis)[:, None] * q
    n_path = parent.n_path
    shifted = parent.vectors.copy()
    spin = parent.spin
    reach = _cross(spin, offset)
    shifted[:, 2] += _cross(parent.spin_rate, offset) + _cross(spin, reach)
    if n_path and offset.any():
        shifted[:, 3 + n_path :] += _cross(parent.turning, offset[:, None])
    vectors = np.zeros((3, 3 + 2 * (n_path + 1), q.size))
    # w of the earlier joints, then the joint's own; l likewise
    turn.apply(q, shifted[:, : 3 + n_path], vectors[:, : 3 + n_path])
    turn.apply(q, shifted[:, 3 + n_path :], vectors[:, 4 + n_path : 4 + 2 * n_path])
    axis = joint.axis[:, None]
    if joint.revolute:
        vectors[:, 3 + n_path] = axis
        vectors[:, 1] += axis * ddq + _cross(vectors[:, 0], axis * dq)
        vectors[:, 0] += axis * dq
    else:
        vectors[:, -1] = axis
        vectors[:, 2] += axis * ddq + 2.0 * _cross(vectors[:, 0], axis * dq)
    return _LinkState(vectors)


def _rows(link: _LinkState) -> np.ndarray:
    """Ten entries for each joint on the path, (10, n_path, n_samples)."""
    W, A, a = link.spin, link.spin_rate, link.acceleration
    w, s = link.turning, link.sliding
    xx, yy, zz = W * W
    xy, xz, yz = W[0] * W[1], W[0] * W[2], W[1] * W[2]
    out = np.empty((10, *w.shape[1:]))
    out[0] = _weighted(s, a)
    # (A x + W x W x)^T l + a x w
    out[1] = _weighted(s, (-yy - zz, xy + A[2], xz - A[1])) + (a[1] * w[2] - a[2] * w[1])
    out[2] = _weighted(s, (xy - A[2], -xx - zz, yz + A[0])) + (a[2] * w[0] - a[0] * w[2])
    out[3] = _weighted(s, (xz + A[1], yz - A[0], -xx - yy)) + (a[0] * w[1] - a[1] * w[0])
    # w^T (I A + W x I W), entry by entry of I
    out[4] = _weighted(w, (A[0], xz, -xy))
    out[5] = _weighted(w, (A[1] - xz, A[0] + yz, xx - yy))
    out[6] = _weighted(w, (-yz, A[1], xy))
    out[7] = _weighted(w, (A[2] + xy, zz - xx, A[0] - yz))
    out[8] = _weighted(w, (yy - zz, A[2] - xy, A[1] + xz))
    out[9] = _weighted(w, (yz, -xz, A[2]))
    return out


def _weighted(vectors: np.ndarray, weights: Sequence[np.ndarray]) -> np.ndarray:
    """Sum over the three components of (3, k, n_samples) with weights (n_samples,) each."""
    total = vectors[0] * weights[0]
    total += vectors[1] * weights[1]
    total += vectors[2] * weights[2]
    return total


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product along the first axis."""
    return np.stack(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )


def _cross_matrix(a: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
