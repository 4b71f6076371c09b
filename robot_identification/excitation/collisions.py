# SPDX-License-Identifier: Apache-2.0
"""
Which links of a robot come close to each other: Coal on the URDF's collision shapes.

Pairs that cannot say anything are left out: links joined by a joint, and links that are within the
clearance of each other in nearly all of many random positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
import warnings

import coal
import numpy as np
import pinocchio as pin

from ..errors import IdentificationWarning, ModelError
from ..robot import Robot
from ..shapes import read_shapes

RANDOM_POSITIONS = 200
"""Random positions in which pairs are looked at to find those that are permanently close."""

PERMANENT = 0.95
"""Share of random positions from which on a pair that is close counts as permanently close."""

FLOOR = 'floor'


@dataclass(frozen=True)
class Contact:
    """
    Two links that are closer than the clearance.

    Attributes
    ----------
    first, second:
        Names of the links.
    distance:
        Between them; negative where they overlap [m].
    sample:
        Row of the position in which they are.

    """

    first: str
    second: str
    distance: float
    sample: int


@dataclass(frozen=True)
class CollisionModel:
    """
    Collision shapes of a robot and the pairs that are looked at; made by `collision_model`.

    Attributes
    ----------
    robot:
        The robot.
    geometry:
        Pinocchio's geometry model; its collision pairs are those that are looked at.
    clearance:
        Distance that links have to keep [m].
    reach:
        (n_joints,) how far the point of the robot that a joint moves most can be from its axis;
        1 for a prismatic joint [m/rad or m/m].
    warnings:
        Shapes that could not be loaded, in words.

    """

    robot: Robot
    geometry: pin.GeometryModel
    clearance: float
    reach: np.ndarray
    warnings: tuple[str, ...] = ()

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Names of the links of each pair."""
        objects = self.geometry.geometryObjects
        return tuple(
            (self._link(objects[pair.first]), self._link(objects[pair.second]))
            for pair in self.geometry.collisionPairs
        )

    def _link(self, shape: pin.GeometryObject) -> str:
        if shape.name == FLOOR:
            return FLOOR
        # the URDF parser names a shape <link>_<number>; the frame below it is the link's own
        return self.robot.model.frames[shape.parentFrame].name

    def contacts(self, position: np.ndarray) -> Iterator[Contact]:
        """
        Iterate over the pairs that are closer than the clearance, position by position.

        Parameters
        ----------
        position:
            (n_samples, n_joints) [rad or m].

        """
        if not self.pairs:
            return
        model, data = self.robot.model, self.robot.model.createData()
        shapes = self._data()
        n_pairs = len(self.pairs)
        for sample, q in enumerate(self.robot.configuration(np.atleast_2d(position))):
            if not pin.computeCollisions(model, data, self.geometry, shapes, q, True):
                continue
            for pair in range(n_pairs):
                if pin.computeCollision(self.geometry, shapes, pair):
                    result = pin.computeDistance(self.geometry, shapes, pair)
                    yield Contact(*self.pairs[pair], float(result.min_distance), sample)

    def _data(self) -> pin.GeometryData:
        shapes = self.geometry.createData()
        for request in shapes.collisionRequests:
            request.security_margin = self.clearance
        return shapes

    def penalty(self, position: np.ndarray, buffer: float) -> tuple[float, np.ndarray]:
        r"""
        Return how much the links come closer than ``buffer``, and its gradient.

        The sum over positions and pairs of :math:`(1 - d / b)^2` where the distance d is below
        the buffer b.  A distance changes with the positions as the nearest points move along the
        line that joins them.

        Parameters
        ----------
        position:
            (n_samples, n_joints) [rad or m].
        buffer:
            b, larger than the clearance [m].

        Returns
        -------
        tuple of float and np.ndarray
            Value [-] and gradient (n_samples, n_joints).

        """
        gradient = np.zeros_like(position)
        value = 0.0
        if not self.pairs:
            return value, gradient
        model, data = self.robot.model, self.robot.model.createData()
        shapes = self.geometry.createData()
        for request in shapes.collisionRequests:
            request.security_margin = buffer
        for sample, q in enumerate(self.robot.configuration(position)):
            if not pin.computeCollisions(model, data, self.geometry, shapes, q, False):
                continue
            pin.computeJointJacobians(model, data, q)
            for pair, collision in enumerate(shapes.collisionResults):
                if not collision.isCollision():
                    continue
                result = pin.computeDistance(self.geometry, shapes, pair)
                short = 1.0 - result.min_distance / buffer
                if short <= 0.0:
                    continue
                value += short**2
                slope = self._distance_gradient(data, pair, result)
                gradient[sample] -= 2.0 * short / buffer * slope
        return value, gradient

    def _distance_gradient(
        self, data: pin.Data, pair: int, result: coal.DistanceResult
    ) -> np.ndarray:
        indices = self.geometry.collisionPairs[pair]
        normal = result.normal
        slope = np.zeros(self.robot.model.nv)
        for index, point, sign in (
            (indices.first, result.getNearestPoint1(), -1.0),
            (indices.second, result.getNearestPoint2(), 1.0),
        ):
            joint = self.geometry.geometryObjects[index].parentJoint
            if joint == 0:
                continue
            jacobian = pin.getJointJacobian(
                self.robot.model, data, joint, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
            )
            arm = point - data.oMi[joint].translation
            moment = pin.skew(arm) @ normal  # np.cross takes ten times as long
            slope += sign * (normal @ jacobian[:3] + moment @ jacobian[3:])
        return slope[self.robot.columns]


def collision_model(robot: Robot, clearance: float, floor: float | None = None) -> CollisionModel:
    """
    Read the collision shapes of a robot's URDF.

    Meshes are replaced by their convex hulls, which is quicker and on the safe side.  A mesh that
    is not found gives a warning that names it, and its link is not looked at.

    Parameters
    ----------
    robot:
        The robot.
    clearance:
        Distance that links have to keep [m].
    floor:
        Height of a horizontal floor in the base frame that they have to keep it from, too [m].

    Raises
    ------
    ModelError
        where the shapes cannot be read.

    """
    try:
        shapes = read_shapes(robot)
    except ModelError as error:
        raise ModelError(
            error.message, remedy='correct them, or switch check_collisions off'
        ) from error
    notes = [
        f"collision mesh '{mesh}' of link '{link}' is not found, so this link is not checked for "
        'collision with it'
        for link, mesh in shapes.missing
    ]
    geometry = shapes.geometry
    for shape in geometry.geometryObjects:
        _make_convex(shape)
    if not len(geometry.geometryObjects):
        notes.append(
            f"robot '{robot.name}' has no collision shapes, so nothing keeps its links apart"
        )
    if floor is not None:
        half_space = coal.Halfspace(np.array([0.0, 0.0, 1.0]), floor)
        geometry.addGeometryObject(pin.GeometryObject(FLOOR, 0, 0, pin.SE3.Identity(), half_space))
    for note in notes:
        warnings.warn(note, IdentificationWarning, stacklevel=2)
    _add_pairs(robot, geometry, clearance)
    return CollisionModel(robot, geometry, clearance, _reach(robot, geometry), tuple(notes))


def _make_convex(shape: pin.GeometryObject) -> None:
    if not isinstance(shape.geometry, coal.BVHModelBase):
        return
    try:
        shape.geometry.buildConvexHull(True, 'Qt')
    except Exception:
        # a flat mesh has no hull with a volume: it stays as it is
        return
    shape.geometry = shape.geometry.convex


def _add_pairs(robot: Robot, geometry: pin.GeometryModel, clearance: float) -> None:
    geometry.addAllCollisionPairs()
    parents = robot.model.parents
    # numbers instead of pairs: a pair is a view into a vector that changes below
    pairs = []
    for pair in geometry.collisionPairs:
        a, b = (geometry.geometryObjects[i].parentJoint for i in (pair.first, pair.second))
        if a != b and parents[a] != b and parents[b] != a:
            pairs.append((pair.first, pair.second))
    _set_pairs(geometry, pairs)
    close = _closeness(robot, geometry, clearance)
    kept = [pair for pair, share in zip(pairs, close, strict=True) if share < PERMANENT]
    _set_pairs(geometry, kept)


def _set_pairs(geometry: pin.GeometryModel, pairs: list[tuple[int, int]]) -> None:
    geometry.removeAllCollisionPairs()
    for first, second in pairs:
        geometry.addCollisionPair(pin.CollisionPair(first, second))


def _closeness(robot: Robot, geometry: pin.GeometryModel, clearance: float) -> np.ndarray:
    """Return the share of random positions in which each pair is closer than the clearance."""
    model, data, shapes = robot.model, robot.model.createData(), geometry.createData()
    for request in shapes.collisionRequests:
        request.security_margin = clearance
    # a seed of its own: the pairs are a property of the robot, not of a plan
    rng = np.random.default_rng(20130602)
    low = np.where(np.isfinite(robot.limits.lower), robot.limits.lower, -np.pi)
    high = np.where(np.isfinite(robot.limits.upper), robot.limits.upper, np.pi)
    close = np.zeros(len(geometry.collisionPairs))
    positions = rng.uniform(low, high, (RANDOM_POSITIONS, robot.n_joints))
    for q in robot.configuration(positions):
        pin.computeCollisions(model, data, geometry, shapes, q, False)
        close += [result.isCollision() for result in shapes.collisionResults]
    return close / RANDOM_POSITIONS


def _reach(robot: Robot, geometry: pin.GeometryModel) -> np.ndarray:
    """Bound by the triangle inequality over the joints' offsets: it holds in every position."""
    model = robot.model
    below = np.zeros(model.njoints)
    for shape in geometry.geometryObjects:
        if shape.parentJoint == 0:
            continue
        shape.geometry.computeLocalAABB()
        centre = shape.placement.act(shape.geometry.aabb_center)
        extent = float(np.linalg.norm(centre)) + shape.geometry.aabb_radius
        below[shape.parentJoint] = max(below[shape.parentJoint], extent)
    stroke = np.zeros(model.njoints)
    prismatic = np.zeros(model.njoints, dtype=bool)
    for column, index in enumerate(robot.joint_ids):
        if model.joints[index].shortname().startswith('JointModelP'):
            prismatic[index] = True
            ends = np.abs([robot.limits.lower[column], robot.limits.upper[column]])
            stroke[index] = float(np.where(np.isfinite(ends), ends, 0.0).max())
    for joint in range(model.njoints - 1, 0, -1):
        offset = float(np.linalg.norm(model.jointPlacements[joint].translation))
        parent = model.parents[joint]
        below[parent] = max(below[parent], offset + stroke[joint] + below[joint])
    reach = np.where(prismatic, 1.0, below)
    return reach[list(robot.joint_ids)]
