# SPDX-License-Identifier: Apache-2.0
"""
Pairs of shapes to check, and bounds on the motion of points by joints.

Pairs of a robot's own shapes that cannot say anything are left out: of links that are joined by a
joint, and of those that are within the clearance of each other in nearly all of many random
positions.  An obstacle is looked at for every link that moves; of the floor alone, links are left
out that are always close to it, as they mostly stand on it.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pinocchio as pin

from ..model.robot import Robot

RANDOM_POSITIONS = 200
"""Random positions in which pairs are looked at to find those that are permanently close."""

PERMANENT = 0.95
"""Share of random positions from which on a pair that is close counts as permanently close."""


def set_pairs(
    robot: Robot,
    geometry: pin.GeometryModel,
    clearance: float,
    standing: Collection[int],
    floor: int | None = None,
) -> list[int]:
    """
    Choose the pairs that are looked at.

    Parameters
    ----------
    robot:
        The robot.
    geometry:
        Its shapes; its collision pairs are set.
    clearance:
        Distance from which on shapes count as close [m].
    standing:
        Places of the shapes that stand still and are always looked at.
    floor:
        Place of the floor's, if there is one.

    Returns
    -------
    list of int
        Places of shapes that are not kept from the floor.

    """
    parents = robot.model.parents
    joints = [shape.parentJoint for shape in geometry.geometryObjects]
    own, declared = [], []
    for first in range(len(joints)):
        for second in range(first + 1, len(joints)):
            a, b = joints[first], joints[second]
            if a == b:
                continue
            if first in standing or second in standing:
                declared.append((first, second))
            elif floor in (first, second) or (parents[a] != b and parents[b] != a):
                own.append((first, second))
    _write_pairs(geometry, own)
    close = _closeness(robot, geometry, clearance)
    kept = [pair for pair, share in zip(own, close, strict=True) if share < PERMANENT]
    _write_pairs(geometry, [*kept, *declared])
    left_out = set(own) - set(kept)
    return sorted(sum(pair) - floor for pair in left_out if floor in pair) if floor else []


def _write_pairs(geometry: pin.GeometryModel, pairs: list[tuple[int, int]]) -> None:
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


def reach(robot: Robot, geometry: pin.GeometryModel) -> np.ndarray:
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
