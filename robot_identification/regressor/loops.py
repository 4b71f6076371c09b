# SPDX-License-Identifier: Apache-2.0
"""
Closed loops as equations c(q) = 0 of a tree's joint positions, with their first two derivatives.

Every equation is in metres: directions are multiplied by a length of the robot's own size, so that
one tolerance fits all, and equations of all kinds weigh alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ModelError, one_of
from ..model.mechanisms import LoopSettings
from ..model.robot import Robot
from .rigid import cross, cross_matrix, Tree, tree_of

_COMPLEX_STEP = 1e-30  # whose square is nothing beside 1


@dataclass(frozen=True)
class Poses:
    """
    Frames of all joints in the base frame, by place in `Tree.joints`; the last one is the base's.

    ``rotation`` is (k + 1, n_samples, 3, 3), ``origin`` [m] and ``axis``, unit vectors of the
    joints' axes, are (k + 1, n_samples, 3).
    """

    rotation: np.ndarray
    origin: np.ndarray
    axis: np.ndarray


def poses(tree: Tree, position: np.ndarray) -> Poses:
    """Return the frames for joint positions (n_samples, n_joints), in the order of the data."""
    position = tree.mimics.positions(position)
    shape, kind = (len(tree.joints) + 1, len(position), 3), position.dtype
    rotation = np.empty((*shape, 3), dtype=kind)
    origin, axis = np.zeros(shape, dtype=kind), np.zeros(shape, dtype=kind)
    rotation[-1] = np.eye(3)
    for i, joint in enumerate(tree.joints):
        q, parent = position[:, joint.link], rotation[joint.parent]
        origin[i] = origin[joint.parent] + parent @ joint.translation
        still = _each_times(parent, joint.rotation)
        axis[i] = still @ joint.axis
        if joint.revolute:
            # Rodrigues' formula
            along = axis[i][:, :, None] * joint.axis
            across = _each_times(still, cross_matrix(joint.axis))
            cosine, sine = np.cos(q)[:, None, None], np.sin(q)[:, None, None]
            rotation[i] = along + cosine * (still - along) + sine * across
        else:
            rotation[i] = still
            origin[i] += axis[i] * q[:, None]
    return Poses(rotation, origin, axis)


def _each_times(rotations: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return products of rotations (n, 3, 3) with one matrix, as one product, which is quicker."""
    return (rotations.reshape(-1, 3) @ matrix).reshape(-1, 3, 3)


@dataclass(frozen=True)
class Vector:
    """
    A point, or a direction, that is fixed to a link.

    ``joint`` is the place in `Tree.joints` of the joint that moves the link, -1 for the base;
    ``local`` is (3,) in the frame of that joint [m]; a ``free`` one is a direction.
    """

    joint: int
    local: np.ndarray
    free: bool = False

    def in_base(self, at: Poses) -> np.ndarray:
        """Return it in the base frame, (n_samples, 3)."""
        turned = at.rotation[self.joint] @ self.local
        return turned if self.free else turned + at.origin[self.joint]

    def slopes(self, tree: Tree, at: Poses) -> np.ndarray:
        """Return its derivatives by the joints, (n_samples, 3, n_joints) in the data's order."""
        here = self.in_base(at)
        slopes = np.zeros((*here.shape, len(tree.joints)), dtype=here.dtype)
        path = tree.joints[self.joint].path if self.joint >= 0 else ()
        for i in path:
            joint, axis = tree.joints[i], at.axis[i]
            if joint.revolute:
                arm = here if self.free else here - at.origin[i]
                slopes[:, :, joint.column] = cross(axis, arm)
            elif not self.free:
                slopes[:, :, joint.column] = axis
        return slopes


@dataclass(frozen=True)
class Loop:
    """
    The equations of one loop.

    Its two ``points`` coincide, or keep the distance ``length`` [m]; pairs of ``directions`` stay
    at right angles, in equations that are multiplied by the length ``scale`` [m].
    """

    name: str
    points: tuple[Vector, Vector]
    length: float | None
    directions: tuple[tuple[Vector, Vector], ...]
    scale: float

    @property
    def equations(self) -> int:
        """Number of equations."""
        return (3 if self.length is None else 1) + len(self.directions)

    def residual(self, at: Poses) -> np.ndarray:
        """By how much the loop is open, (n_samples, equations) [m]."""
        a, b = (point.in_base(at) for point in self.points)
        gap = a - b
        if self.length is None:
            parts = [gap]
        else:
            parts = [_dot(gap, gap)[:, None] / (2 * self.length) - 0.5 * self.length]
        pairs = [(u.in_base(at), v.in_base(at)) for u, v in self.directions]
        parts += [self.scale * _dot(*pair)[:, None] for pair in pairs]
        return np.concatenate(parts, axis=1)

    def jacobian(self, tree: Tree, at: Poses) -> np.ndarray:
        """Return the derivatives by the joints, (n_samples, equations, n_joints)."""
        first, second = (point.slopes(tree, at) for point in self.points)
        slopes = first - second
        if self.length is None:
            parts = [slopes]
        else:
            gap = self.points[0].in_base(at) - self.points[1].in_base(at)
            parts = [gap[:, None] @ slopes / self.length]
        for u, v in self.directions:
            first, second = v.slopes(tree, at), u.slopes(tree, at)
            turned = u.in_base(at)[:, None] @ first + v.in_base(at)[:, None] @ second
            parts.append(self.scale * turned)
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Loops:
    """
    All loops of a robot, with its tree cut open.

    ``scale`` is the size of the robot [m]: the longest way from a joint to a point of a loop.
    """

    tree: Tree
    loops: tuple[Loop, ...]
    scale: float

    @classmethod
    def from_settings(cls, robot: Robot, settings: Sequence[LoopSettings]) -> Loops:
        """
        Find the points and axes of the loops on a robot's links.

        Raises ModelError naming a link that the robot does not have, or a loop that no joint can
        move.
        """
        opened = robot.opened
        tree = tree_of(opened)
        ends = [
            tuple(
                _vector(opened, tree, name, point, loop)
                for name, point in ((loop.link_a, loop.point_a), (loop.link_b, loop.point_b))
            )
            for loop in settings
        ]
        scale = _size(tree, ends)
        loops = []
        for loop, (a, b) in zip(settings, ends, strict=True):
            if a.joint == b.joint:
                raise ModelError(
                    f"loop '{loop.name}' joins '{loop.link_a}' and '{loop.link_b}', which no "
                    'joint moves against each other',
                    link=loop.link_a,
                    value=loop.name,
                    remedy='correct its links, or leave the loop out',
                )
            directions = _directions(opened, tree, loop)
            loops.append(Loop(loop.name, (a, b), loop.length, directions, scale))
        return cls(tree, tuple(loops), scale)

    def residual(self, position: np.ndarray) -> np.ndarray:
        """By how much the loops are open, (n_samples, n_equations) [m]."""
        at = poses(self.tree, position)
        return np.concatenate([loop.residual(at) for loop in self.loops], axis=1)

    def jacobian(self, position: np.ndarray) -> np.ndarray:
        """Return the derivatives of the residual, (n_samples, n_equations, n_joints)."""
        at = poses(self.tree, position)
        return np.concatenate([loop.jacobian(self.tree, at) for loop in self.loops], axis=1)

    def bias(self, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """
        Return dJ/dt dq, (n_samples, n_equations) [m/s^2].

        The derivative of J along dq is a complex step's, which is exact to rounding (Squire and
        Trapp 1998).
        """
        turned = self.jacobian(position + 1j * _COMPLEX_STEP * velocity).imag / _COMPLEX_STEP
        return (turned @ velocity[:, :, None])[:, :, 0]

    def name_of(self, equation: int) -> str:
        """Name of the loop that an equation belongs to."""
        ends = np.cumsum([loop.equations for loop in self.loops])
        return self.loops[int(np.searchsorted(ends, equation, side='right'))].name


def _vector(
    robot: Robot,
    tree: Tree,
    link: str,
    local: Sequence[float],
    loop: LoopSettings,
    *,
    free: bool = False,
) -> Vector:
    """Move a point or direction from a link's frame into that of the joint that moves the link."""
    frame = robot.link_frames.get(link)
    if frame is None:
        raise ModelError(
            f"loop '{loop.name}' names a link '{link}', which the robot does not have",
            link=link,
            value=loop.name,
            remedy=f'its links are {one_of(robot.link_frames)}',
        )
    vector = np.asarray(local, dtype=float)
    if free:
        vector = frame.placement.rotation @ (vector / np.linalg.norm(vector))
    else:
        vector = frame.placement.act(vector)
    if frame.parentJoint == 0:
        return Vector(-1, vector, free)
    column = robot.joint_ids.index(frame.parentJoint)
    place = next(i for i, joint in enumerate(tree.joints) if joint.column == column)
    return Vector(place, vector, free)


def _directions(robot: Robot, tree: Tree, loop: LoopSettings) -> tuple[tuple[Vector, Vector], ...]:
    if loop.axis_a is None or loop.axis_b is None:
        return ()
    b = _vector(robot, tree, loop.link_b, loop.axis_b, loop, free=True)
    if loop.kind == 'universal':
        return ((_vector(robot, tree, loop.link_a, loop.axis_a, loop, free=True), b),)
    # parallel to an axis is at right angles to two directions across it
    axis = np.array(loop.axis_a) / np.linalg.norm(loop.axis_a)
    across = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    sides = (across, np.cross(axis, across))
    return tuple(
        (_vector(robot, tree, loop.link_a, side.tolist(), loop, free=True), b) for side in sides
    )


def _size(tree: Tree, ends: Sequence[Sequence[Vector]]) -> float:
    """Return the longest way along the links from the base to a point of a loop."""
    longest = 0.0
    for vector in (vector for pair in ends for vector in pair):
        path = tree.joints[vector.joint].path if vector.joint >= 0 else ()
        way = sum(float(np.linalg.norm(tree.joints[i].translation)) for i in path)
        longest = max(longest, way + float(np.linalg.norm(vector.local)))
    return longest or 1.0


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum('sc,sc->s', a, b)
