# SPDX-License-Identifier: Apache-2.0
"""
Obstacles around the robot, and the pairs of shapes whose distance is checked.

Obstacles are planes, boxes, cylinders and spheres in the base frame; one that names a link moves
with it, as a tool that the URDF lacks.

Pairs of a robot's own shapes that cannot say anything are left out: of links that are joined by a
joint, and of those that are within the clearance of each other in nearly all of many random
positions.  An obstacle is looked at for every link that moves; of the floor alone, links are left
out that are always close to it, as they mostly stand on it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import coal
import numpy as np
import pinocchio as pin

from ..errors import SettingsError
from ..model.robot import Robot
from ..options.fields import option

SIZES = {
    'box': ('lengths along x, y and z', 3),
    'sphere': ('radius', 1),
    'cylinder': ('radius and length along z', 2),
    'plane': ('nothing: a plane has no end', 0),
}
"""What `Obstacle.size` holds for each kind, and how many values."""

FLOOR = 'floor'
"""Name of the plane that `PlannerSettings.floor` declares."""


@dataclass(frozen=True)
class Obstacle:
    """
    Something in the robot's way, or at its hand.

    Raises
    ------
    SettingsError
        naming the key, where the size is not that of the kind, or the normal has no direction.

    """

    name: str = option(doc='Name in messages and in the preview')
    kind: str = option(
        'box',
        doc='Shape: box, cylinder (along its z axis), sphere, or plane, whose side away from the '
        'normal is solid',
        choices=tuple(SIZES),
    )
    size: tuple[float, ...] = option(
        (),
        doc='Box: lengths along x, y, z; cylinder: radius and length; sphere: radius; plane: none',
        unit='m',
    )
    position: tuple[float, ...] = option(
        (0.0, 0.0, 0.0), doc='Centre in the base frame, or in that of `link`', unit='m'
    )
    orientation: tuple[float, ...] = option(
        (0.0, 0.0, 0.0), doc='Roll, pitch and yaw, as in a URDF', unit='rad'
    )
    normal: tuple[float, ...] = option(
        (0.0, 0.0, 1.0), doc='Plane: direction of its free side, of any length'
    )
    offset: float = option(
        0.0, doc='Plane: its distance from the origin along the normal', unit='m'
    )
    link: str = option(
        '', doc='Link that it is attached to and moves with, as a tool; empty: it stands still'
    )

    def __post_init__(self) -> None:
        what, count = SIZES.get(self.kind, ('', len(self.size)))
        if len(self.size) != count or any(value <= 0.0 for value in self.size):
            raise self._wrong('size', f'a {self.kind} has {count} positive value(s): {what}')
        for key, meaning in (
            ('position', 'x, y and z'),
            ('orientation', 'roll, pitch and yaw'),
            ('normal', 'x, y and z'),
        ):
            if len(getattr(self, key)) != 3:
                raise self._wrong(key, f'give three values: {meaning}')
        if np.linalg.norm(self.normal) < 1e-9:
            raise self._wrong('normal', 'give a direction, for example [0.0, 0.0, 1.0]')
        if self.kind == 'plane' and self.link:
            raise self._wrong('link', 'a plane has no end, so no link can carry it: take a box')

    def _wrong(self, key: str, remedy: str) -> SettingsError:
        value = getattr(self, key)
        shown = list(value) if isinstance(value, tuple) else repr(value)
        return SettingsError(
            f"'obstacles.{self.name}.{key}' is {shown}",
            key=f'obstacles.{self.name}.{key}',
            value=value,
            remedy=remedy,
        )

    @property
    def direction(self) -> np.ndarray:
        """(3,) normal of a plane, of length 1."""
        return np.array(self.normal) / np.linalg.norm(self.normal)

    @property
    def placement(self) -> pin.SE3:
        """Pose in the base frame or that of the link; that of a plane is its own origin."""
        if self.kind == 'plane':
            return pin.SE3.Identity()
        return pin.SE3(pin.rpy.rpyToMatrix(*self.orientation), np.array(self.position))

    def shape(self) -> coal.CollisionGeometry:
        """Return the shape for collision checks."""
        if self.kind == 'plane':
            return coal.Halfspace(self.direction, self.offset)
        if self.kind == 'sphere':
            return coal.Sphere(self.size[0])
        return (coal.Box if self.kind == 'box' else coal.Cylinder)(*self.size)


def with_floor(obstacles: Sequence[Obstacle], floor: float | None) -> tuple[Obstacle, ...]:
    """
    Return the obstacles, and a horizontal plane at the height ``floor`` where that is one.

    Raises
    ------
    SettingsError
        naming an obstacle whose name is taken.

    """
    declared = tuple(obstacles)
    if floor is not None:
        declared = (*declared, Obstacle(FLOOR, 'plane', offset=floor))
    names = [obstacle.name for obstacle in declared]
    for name in names:
        if not name or names.count(name) > 1:
            raise SettingsError(
                f"an obstacle is called '{name}'" + (', and another one, too' if name else ''),
                key='obstacles',
                value=name,
                remedy='give each a name of its own'
                + ('; the floor has this one' if name == FLOOR else ''),
            )
    return declared


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


def shape_reach(robot: Robot, geometry: pin.GeometryModel) -> np.ndarray:
    """
    Bound how far any point of each shape can be from the axis of each joint that moves it.

    By the triangle inequality over the joints' offsets: it holds in every position.

    Parameters
    ----------
    robot:
        The robot.
    geometry:
        Its shapes.

    Returns
    -------
    np.ndarray
        (n_shapes, n_joints); 1 for a prismatic joint, 0 for one that does not move the shape
        [m/rad or m/m].

    """
    model = robot.model
    stroke = np.zeros(model.njoints)
    prismatic = np.zeros(model.njoints, dtype=bool)
    for column, index in enumerate(robot.joint_ids):
        if model.joints[index].shortname().startswith('JointModelP'):
            prismatic[index] = True
            ends = np.abs([robot.limits.lower[column], robot.limits.upper[column]])
            stroke[index] = float(np.where(np.isfinite(ends), ends, 0.0).max())
    reach = np.zeros((len(geometry.geometryObjects), model.njoints))
    for row, shape in zip(reach, geometry.geometryObjects, strict=True):
        joint = shape.parentJoint
        if joint == 0:
            continue
        shape.geometry.computeLocalAABB()
        centre = shape.placement.act(shape.geometry.aabb_center)
        extent = float(np.linalg.norm(centre)) + shape.geometry.aabb_radius
        while joint:
            row[joint] = 1.0 if prismatic[joint] else extent
            offset = float(np.linalg.norm(model.jointPlacements[joint].translation))
            extent += offset + stroke[joint]
            joint = model.parents[joint]
    return reach[:, list(robot.joint_ids)]
