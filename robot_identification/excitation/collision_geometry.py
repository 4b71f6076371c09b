# SPDX-License-Identifier: Apache-2.0
"""
Collision geometry of a robot among obstacles: shapes, the pairs looked at, bounds of distances.

Each shape is covered by a row of spheres along the longest side of its box.  What the spheres are
apart, the shapes are at least (`BoundingSpheres`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import coal
import numpy as np
import pinocchio as pin

from ..errors import ExcitationError, one_of
from ..model.robot import Robot
from ..regressor.loops import poses
from ..regressor.rigid import Tree, tree_of
from .settings import Obstacle

MOST = 10
"""Spheres of a shape at most."""

FINENESS = 1.5
"""Spheres in a length of a shape that is its breadth."""

ShapePairs = dict[tuple[str, str], list[tuple[int, int]]]
"""Pairs of shapes by the names of their bodies."""


@dataclass(frozen=True)
class BoundingSpheres:
    """Spheres around the shapes of a robot and of obstacles."""

    tree: Tree
    """The kinematics."""
    owners: np.ndarray
    """(k,) place in ``tree.joints`` of the joint that carries each sphere; -1 is the base."""
    centres: np.ndarray
    """(k, 3) in the owner's frame [m]."""
    radii: np.ndarray
    """(k,) [m]."""
    first: np.ndarray
    second: np.ndarray
    """(e,) spheres whose distances are looked at, those of a pair together."""
    begins: np.ndarray
    """(p,) place of the first of each pair among these."""
    planes: tuple[tuple[int, np.ndarray, np.ndarray, float], ...]
    """Pair, sphere of the other shape, normal and offset of each half space that stands still."""

    @classmethod
    def from_geometry(
        cls, robot: Robot, geometry: pin.GeometryModel, pairs: Sequence[int]
    ) -> BoundingSpheres:
        """Cover the shapes of a geometry model; bounds are those of some of its pairs."""
        tree, places = tree_of(robot), tree_places(robot)
        spheres: list[tuple[int, np.ndarray, float]] = []
        of_shape = []
        for shape in geometry.geometryObjects:
            begin, owner = len(spheres), places[shape.parentJoint]
            spheres += [(owner, *sphere) for sphere in _cover(shape)]
            of_shape.append(np.arange(begin, len(spheres)))
        first: list[int] = []
        second: list[int] = []
        begins, planes = [], []
        for number, place in enumerate(pairs):
            pair = geometry.collisionPairs[int(place)]
            begins.append(len(first))
            one, other = (geometry.geometryObjects[i] for i in (pair.first, pair.second))
            mine, others = of_shape[pair.first], of_shape[pair.second]
            first += np.repeat(mine, len(others)).tolist()
            second += np.tile(others, len(mine)).tolist()
            if not (len(mine) and len(others)):
                # a sphere's distance from itself holds the place
                first.append(0)
                second.append(0)
                plane, around = (one, others) if len(others) else (other, mine)
                planes.append((number, around, plane.geometry.n, plane.geometry.d))
        return cls(
            tree,
            np.array([owner for owner, _, _ in spheres], dtype=int),
            np.array([centre for _, centre, _ in spheres]).reshape(-1, 3),
            np.array([radius for _, _, radius in spheres]),
            np.array(first, dtype=int),
            np.array(second, dtype=int),
            np.array(begins, dtype=int),
            tuple(planes),
        )

    def distances(self, position: np.ndarray) -> np.ndarray:
        """Return lower bounds (n_pairs, n_samples) of the distances in positions [m]."""
        centres = self._centres(position)
        away = np.zeros((self.first.size, len(position)))
        for component in centres:
            between = component[self.first]
            between -= component[self.second]
            between *= between
            away += between
        np.sqrt(away, out=away)
        away -= (self.radii[self.first] + self.radii[self.second])[:, None]
        bounds = np.minimum.reduceat(away, self.begins, axis=0)
        for pair, spheres, normal, offset in self.planes:
            height = np.einsum('skn,s->kn', centres[:, spheres], normal) - offset
            bounds[pair] = (height - self.radii[spheres, None]).min(axis=0)
        return bounds

    def _centres(self, position: np.ndarray) -> np.ndarray:
        """Return the spheres' centres in the base frame, (3, k, n_samples)."""
        at = poses(self.tree, position)
        centres = np.empty((3, len(self.owners), len(position)))
        for owner in np.unique(self.owners):
            mine = self.owners == owner
            turned = self.centres[mine] @ at.rotation[owner].transpose(1, 2, 0)
            centres[:, mine] = turned + at.origin[owner].T[:, None]
        return centres


def _cover(shape: pin.GeometryObject) -> list[tuple[np.ndarray, float]]:
    """Return centres in the joint's frame and radii of spheres; none for a half space."""
    geometry = shape.geometry
    if isinstance(geometry, coal.Halfspace):
        return []
    if isinstance(geometry, coal.Sphere):
        return [(shape.placement.translation, geometry.radius)]
    geometry.computeLocalAABB()
    middle, box = geometry.aabb_center.copy(), geometry.aabb_local
    half = 0.5 * np.array([box.width(), box.height(), box.depth()])
    longest = int(np.argmax(half))
    radius = _radius(geometry, middle, half, longest)
    count = int(np.clip(np.ceil(FINENESS * half[longest] / max(radius, 1e-6)), 1, MOST))
    piece = half[longest] / count
    size = float(np.hypot(radius, piece))
    covered = []
    for i in range(count):
        centre = middle.copy()
        centre[longest] += (2 * i + 1 - count) * piece
        covered.append((shape.placement.act(centre), size))
    return covered


def _radius(
    geometry: coal.CollisionGeometry, middle: np.ndarray, half: np.ndarray, axis: int
) -> float:
    """Return how far a shape reaches from the line through its middle along an axis [m]."""
    if isinstance(geometry, (coal.ConvexBase, coal.BVHModelBase)):
        # the distance from a line is convex: no point of a hull is farther than its corners
        hull = isinstance(geometry, coal.ConvexBase)
        corners = geometry.points() if hull else geometry.vertices()
        away = np.delete(corners - middle, axis, axis=1)
        return float(np.linalg.norm(away, axis=1).max())
    if isinstance(geometry, (coal.Cylinder, coal.Capsule, coal.Cone)) and axis == 2:
        return float(geometry.radius)
    return float(np.linalg.norm(np.delete(half, axis)))


def shape_reach(robot: Robot, geometry: pin.GeometryModel) -> np.ndarray:
    """
    Bound how far any point of each shape can be from the axis of each joint that moves it.

    By the triangle inequality over the joints' offsets: it holds in every position.

    Returns
    -------
    np.ndarray
        (n_shapes, n_moving), joints that mimic others included; 1 for a prismatic joint, 0 for one
        that does not move the shape [m/rad or m/m].

    """
    joints, places, carriers = tree_of(robot).joints, tree_places(robot), robot.carriers
    ends = np.abs([carriers.limits.lower, carriers.limits.upper])
    strokes = np.where(np.isfinite(ends), ends, 0.0).max(axis=0)
    reach = np.zeros((len(geometry.geometryObjects), carriers.n_joints))
    for row, shape in zip(reach, geometry.geometryObjects, strict=True):
        if shape.parentJoint == 0:
            continue
        shape.geometry.computeLocalAABB()
        centre = shape.placement.act(shape.geometry.aabb_center)
        extent = float(np.linalg.norm(centre)) + shape.geometry.aabb_radius
        for place in reversed(joints[places[shape.parentJoint]].path):
            joint = joints[place]
            row[joint.link] = extent if joint.revolute else 1.0
            extent += float(np.linalg.norm(joint.translation))
            extent += 0.0 if joint.revolute else strokes[joint.link]
    return reach


def tree_places(robot: Robot) -> dict[int, int]:
    """Return places in `Tree.joints` by Pinocchio's index of the joint; -1 for the base."""
    return {0: -1} | {index: i for i, index in enumerate(sorted(robot.carriers.joint_ids))}


def random_positions(robot: Robot, count: int) -> np.ndarray:
    """
    Return positions (count, n_joints) within the limits, for a robot the same each time.

    Each joint has one in each of ``count`` equal parts of its range (Latin hypercube).
    """
    low = np.where(np.isfinite(robot.limits.lower), robot.limits.lower, -np.pi)
    high = np.where(np.isfinite(robot.limits.upper), robot.limits.upper, np.pi)
    # what comes of them is a property of the robot, not of a plan
    rng = np.random.default_rng(20130602)
    parts = rng.permuted(np.tile(np.arange(count)[:, None], (1, robot.n_joints)), axis=0)
    return np.asarray(low + (high - low) * (parts + rng.uniform(size=parts.shape)) / count)


OBSTACLE_PREFIX = 'obstacle '
"""Begin of the names of obstacles' shapes; no URDF's link has a name with a blank in it."""


def add_obstacle(robot: Robot, geometry: pin.GeometryModel, obstacle: Obstacle) -> int:
    """Add an obstacle's shape and return its place."""
    bodies = {f.name: f for f in robot.model.frames if f.type == pin.FrameType.BODY}
    key = f'obstacles.{obstacle.name}'
    if obstacle.name in bodies:
        raise ExcitationError(
            f"an obstacle is called '{obstacle.name}' as a link of the robot is",
            key=key,
            value=obstacle.name,
            remedy='give it another name',
        )
    joint, placement = 0, obstacle.placement
    if obstacle.link:
        if obstacle.link not in bodies:
            raise ExcitationError(
                f"obstacle '{obstacle.name}' is attached to '{obstacle.link}', which the robot "
                'has not',
                link=obstacle.link,
                key=f'{key}.link',
                value=obstacle.link,
                remedy=f'links are {one_of(bodies)}',
            )
        body = bodies[obstacle.link]
        joint, placement = body.parentJoint, body.placement * placement
    name = OBSTACLE_PREFIX + obstacle.name
    shape = pin.GeometryObject(name, joint, 0, placement, obstacle.shape())
    return int(geometry.addGeometryObject(shape))


def make_convex(shape: pin.GeometryObject) -> None:
    """Replace a mesh by its convex hull."""
    mesh = shape.geometry
    if not isinstance(mesh, coal.BVHModelBase):
        return
    try:
        mesh.buildConvexHull(True, 'Qt')
    except Exception:
        # a flat mesh has no hull with a volume: it stays as it is
        return
    shape.geometry = mesh.convex


def possible_pairs(
    robot: Robot, geometry: pin.GeometryModel, allowed: Collection[frozenset[str]]
) -> tuple[ShapePairs, int]:
    """
    Return pairs of shapes that move against each other, by the names of their bodies.

    Beside them is how many of links are left out as ``allowed`` to touch.
    """
    joints = [shape.parentJoint for shape in geometry.geometryObjects]
    names = shape_names(robot, geometry)
    found: ShapePairs = {}
    for first, second in combinations(range(len(joints)), 2):
        if joints[first] != joints[second]:
            found.setdefault((names[first], names[second]), []).append((first, second))
    n_allowed = sum(len(found.pop(pair)) for pair in [*found] if set(pair) in allowed)
    return found, n_allowed


def shape_names(robot: Robot, geometry: pin.GeometryModel) -> list[str]:
    """Return the name of the link or obstacle of each shape."""
    frames = robot.model.frames
    return [
        # the URDF parser names a shape <link>_<number>; the frame below it is the link's own
        shape.name.removeprefix(OBSTACLE_PREFIX)
        if shape.name.startswith(OBSTACLE_PREFIX)
        else frames[shape.parentFrame].name
        for shape in geometry.geometryObjects
    ]


def pair_names(robot: Robot, geometry: pin.GeometryModel) -> tuple[tuple[str, str], ...]:
    """Return the names of the links or obstacles of each pair."""
    names = shape_names(robot, geometry)
    return tuple((names[pair.first], names[pair.second]) for pair in geometry.collisionPairs)


def write_pairs(geometry: pin.GeometryModel, pairs: Iterable[tuple[int, int]]) -> None:
    """Let these be the pairs that are looked at."""
    geometry.removeAllCollisionPairs()
    for first, second in pairs:
        geometry.addCollisionPair(pin.CollisionPair(first, second))
