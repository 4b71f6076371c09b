# SPDX-License-Identifier: Apache-2.0
"""
Distances between links and obstacles by Coal, on the URDF's collision shapes.

The distance that counts is the least one while each joint is within its tracking tolerance, since
a robot is never quite where it is to be.

One file: pairs, distances and what they cover belong to one model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any
import warnings

import numpy as np
import pinocchio as pin

from ..errors import ExcitationError, IdentificationWarning, ModelError, one_of
from ..model.link_geometry import LostMesh, NOT_FOUND, read_shapes
from ..model.robot import Robot
from .collision_geometry import (
    add_obstacle,
    BoundingSpheres,
    make_convex,
    OBSTACLE_PREFIX,
    set_pairs,
    shape_reach,
)
from .limits import one_a_joint
from .settings import FLOOR, Obstacle, PlannerSettings

_BLOCK = 64
"""Positions in which contacts are looked for at once."""


@dataclass(frozen=True)
class Contact:
    """
    Two links, or a link and an obstacle, that are close to each other.

    Attributes
    ----------
    first, second:
        Names of the links, or of link and obstacle.
    distance:
        Between them, at least, while each joint is within its tracking tolerance; negative where
        they overlap [m].
    planned:
        Between them in the position itself [m].
    sample:
        Row of the position in which they are.
    points:
        (2, 3) nearest points on the one and on the other there, in the base frame [m].
    obstacle:
        Whether one of them is an obstacle.
    pair:
        Number of the pair of their shapes.

    """

    first: str
    second: str
    distance: float
    planned: float
    sample: int
    points: np.ndarray = field(compare=False, repr=False)
    obstacle: bool = False
    pair: int = -1


@dataclass(frozen=True)
class Coverage:
    """
    Pairs of shapes that move against each other, and what is checked of them.

    Attributes
    ----------
    checked, joined, close, allowed:
        Numbers of pairs: looked at; of links joined by a joint; always close; allowed to touch.
    unchecked:
        Links with collision shapes that could not be loaded, which is accepted.
    lost:
        Number of pairs that these would be in.
    bare:
        Links that move and have a mass, but no collision shape on them or what is fixed to them.

    """

    checked: int
    joined: int = 0
    close: int = 0
    unchecked: tuple[str, ...] = ()
    lost: int = 0
    allowed: int = 0
    bare: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if there is something to check and nothing is left unchecked."""
        return self.checked > 0 and not self.unchecked and not self.bare

    def summary(self) -> str:
        """Return a line on it."""
        counts = {
            'joined by a joint': self.joined,
            'always close': self.close,
            'allowed to touch': self.allowed,
        }
        parts = [f'{count} {words}' for words, count in counts.items() if count]
        if self.unchecked:
            parts.append(f'{self.lost} of links without their meshes: {", ".join(self.unchecked)}')
        total = self.checked + self.joined + self.close + self.allowed + self.lost
        beside = f' ({", ".join(parts)})' if parts else ''
        bare = f', none of {one_of(self.bare)}, without collision shapes' if self.bare else ''
        return f'{self.checked} of {total} pairs of shapes checked{beside}{bare}'


@dataclass(frozen=True)
class Measured:
    """
    Pairs as they were measured.

    Attributes
    ----------
    distance:
        (k,) [m].
    lines:
        (k, 3, 3) nearest point of either shape, and the normal, in the base frame.
    jacobians:
        (k, 6, n_joints) of all joints for the point at the base frame's origin; none if not asked.

    """

    distance: np.ndarray
    lines: np.ndarray
    jacobians: np.ndarray


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
    tolerance:
        (n_joints,) by which each joint may be off its position while they do [rad or m].
    shape_reach:
        (n_shapes, n_joints) how far the points of each shape can be from each joint's axis; 1 for
        a prismatic joint [m/rad or m/m].
    warnings:
        What is not kept apart, in words.
    obstacles:
        What else there is beside the links; each has one shape, called as it is.
    coverage:
        Pairs that are checked, of how many.

    """

    robot: Robot
    geometry: pin.GeometryModel
    clearance: float
    tolerance: np.ndarray
    shape_reach: np.ndarray
    warnings: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    coverage: Coverage = Coverage(0)

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Names of the links or obstacles of each pair."""
        objects = self.geometry.geometryObjects
        return tuple(
            (self.name_of(objects[pair.first]), self.name_of(objects[pair.second]))
            for pair in self.geometry.collisionPairs
        )

    @cached_property
    def with_obstacle(self) -> tuple[bool, ...]:
        """True for each pair of which one is an obstacle."""
        names = {obstacle.name for obstacle in self.obstacles}
        return tuple(bool(names & set(pair)) for pair in self.pairs)

    @cached_property
    def _reach_of_both(self) -> np.ndarray:
        """(2, n_pairs, n_joints): `shape_reach` of the first and second shape of each pair."""
        pairs = [(pair.first, pair.second) for pair in self.geometry.collisionPairs]
        return self.shape_reach[np.array(pairs, dtype=int).reshape(-1, 2).T]

    @cached_property
    def pair_reach(self) -> np.ndarray:
        """
        Bound of what each joint changes the distance of each pair by, (n_pairs, n_joints).

        A joint that moves both bodies of a pair alike does not change their distance.
        """
        first, second = self._reach_of_both
        return np.where((first > 0.0) != (second > 0.0), first + second, 0.0)

    def name_of(self, shape: pin.GeometryObject) -> str:
        """Return the name of a shape's link or obstacle."""
        if shape.name.startswith(OBSTACLE_PREFIX):
            return shape.name.removeprefix(OBSTACLE_PREFIX)
        # the URDF parser names a shape <link>_<number>; the frame below it is the link's own
        return self.robot.model.frames[shape.parentFrame].name

    def distance_in_words(self, contact: Contact) -> str:
        """Return a distance as text, with the one that is planned where errors make it less."""
        planned = f' ({contact.planned:.4g} m as planned, less the tracking tolerance)'
        return f'{contact.distance:.4g} m{planned if self.tolerance.any() else ""}'

    def in_words(self, first: str, second: str) -> str:
        """Name a pair and say what each is."""
        names = {obstacle.name for obstacle in self.obstacles}
        if not names & {first, second}:
            return f"links '{first}' and '{second}'"
        # the link first: it is what moves
        both = sorted((first, second), key=names.__contains__)
        kinds = [('obstacle' if name in names else 'link') + f" '{name}'" for name in both]
        return ' and '.join(kinds)

    @cached_property
    def pair_tolerance(self) -> np.ndarray:
        """Bound of what tracking errors change the distance of each pair by, (n_pairs,) [m]."""
        return np.asarray(self.pair_reach @ self.tolerance)

    def contacts(self, position: np.ndarray) -> Iterator[Contact]:
        """Iterate over the pairs closer than the clearance in positions (n_samples, n_joints)."""
        position = np.atleast_2d(position)
        for begin in range(0, len(position), _BLOCK):
            part = position[begin : begin + _BLOCK]
            samples, pairs = np.nonzero(self.lower_bounds(part) < self.clearance)
            for sample, contact in zip(samples, self.measure(part[samples], pairs), strict=True):
                if contact.distance < self.clearance:
                    yield replace(contact, sample=begin + int(sample))

    def lower_bounds(self, position: np.ndarray) -> np.ndarray:
        """Return what is known of distances without measuring, (n_samples, n_pairs) [m]."""
        if not self.pairs:
            return np.empty((len(position), 0))
        return np.asarray(self.spheres.distances(position).T - self.pair_tolerance)

    def measure(self, position: np.ndarray, pairs: np.ndarray) -> list[Contact]:
        """
        Measure pairs, each in a position of its own, and with tracking errors.

        The errors are those by which the distance falls fastest, each as large as its tolerance:
        the signs come from the gradient of the distance.  What is kept is the least of the
        distance that the gradient predicts for them, and of the one that is measured there.

        Parameters
        ----------
        position:
            (k, n_joints) [rad or m]; equal ones next to each other are quicker.
        pairs:
            (k,) numbers of the pairs.

        """
        tolerant = bool(self.tolerance.any())
        planned = self.measured(position, pairs, jacobians=tolerant)
        least = planned.distance
        if tolerant:
            slopes = self.slopes(pairs, planned.lines, planned.jacobians)
            off = position - np.sign(slopes) * self.tolerance
            least = np.minimum(
                least - np.abs(slopes) @ self.tolerance, self.measured(off, pairs).distance
            )
        rows = zip(pairs.tolist(), least, planned.distance, planned.lines, strict=True)
        names, kinds = self.pairs, self.with_obstacle
        return [
            Contact(names[i][0], names[i][1], float(d), float(p), row, line[:2], kinds[i], i)
            for row, (i, d, p, line) in enumerate(rows)
        ]

    def measured(
        self, position: np.ndarray, pairs: np.ndarray, *, jacobians: bool = False
    ) -> Measured:
        """Measure pairs (k,), each in a position (k, n_joints) of its own, as it is."""
        model, data, geometry = self.robot.model, self.robot.model.createData(), self.geometry
        shapes = geometry.createData()
        new = np.ones(len(pairs), dtype=bool)
        new[1:] = (position[1:] != position[:-1]).any(axis=1)
        configurations = iter(self.robot.configuration(position[new]))
        distance, lines = np.empty(len(pairs)), np.empty((len(pairs), 3, 3))
        by_joint = np.empty((len(pairs) if jacobians else 0, 6, self.robot.n_joints))
        jacobian = None
        for row, (pair, moved) in enumerate(zip(pairs.tolist(), new.tolist(), strict=True)):
            if moved:
                pin.updateGeometryPlacements(model, data, geometry, shapes, next(configurations))
                if jacobians:
                    jacobian = pin.computeJointJacobians(model, data)[:, self.robot.columns]
            result = pin.computeDistance(geometry, shapes, pair)
            distance[row] = result.min_distance
            lines[row] = result.getNearestPoint1(), result.getNearestPoint2(), result.normal
            if jacobians:
                by_joint[row] = jacobian
        return Measured(distance, lines, by_joint)

    def slopes(self, pairs: np.ndarray, lines: np.ndarray, jacobians: np.ndarray) -> np.ndarray:
        """
        Return the derivatives (k, n_joints) of distances of ``pairs`` (k,) by the positions.

        A distance changes by how far the nearest points move along the normal, which is the
        product of a unit force at the point with the Jacobian of the joints that carry the shape.
        ``lines`` (k, 3, 3) are the nearest point of either shape and the normal, ``jacobians``
        (k, 6, n_joints) those of all joints for the point at the base frame's origin.
        """
        normal = lines[:, 2]
        slopes = np.zeros((len(pairs), jacobians.shape[2]))
        for side, sign in ((0, -1.0), (1, 1.0)):
            wrench = np.hstack([normal, np.cross(lines[:, side], normal)])
            along = np.einsum('ki,kij->kj', wrench, jacobians)
            slopes += sign * along * (self._reach_of_both[side][pairs] > 0.0)
        return slopes

    @cached_property
    def spheres(self) -> BoundingSpheres:
        """Bounds of all pairs."""
        return BoundingSpheres.from_geometry(self.robot, self.geometry, range(len(self.pairs)))


def collision_model(
    robot: Robot,
    clearance: float,
    obstacles: Sequence[Obstacle] = (),
    tolerance: Sequence[float] = (),
    unchecked: Collection[str] = (),
    allowed: Collection[str] = (),
) -> CollisionModel:
    """
    Read the collision shapes of a robot's URDF, and put the obstacles among them.

    Meshes are replaced by their convex hulls, which is quicker and on the safe side.

    Parameters
    ----------
    robot:
        The robot.
    clearance:
        Distance that links have to keep from each other and from obstacles [m].
    obstacles:
        What there is beside the robot (`PlannerSettings.all_obstacles`).
    tolerance:
        By which each joint may be off its position while distances are kept, one value for each
        or for all; empty for none [rad or m].
    unchecked:
        Links that need not be checked where their meshes are not found.
    allowed:
        Pairs of links that may touch (`PlannerSettings.allowed_pairs`).

    Raises
    ------
    ModelError
        where the shapes cannot be read.
    ExcitationError
        where meshes of other links are not found, an obstacle is attached to a link that there is
        not, or is called as one, or there is neither one tolerance nor one for each joint.

    """
    try:
        shapes = read_shapes(robot)
    except ModelError as error:
        raise ModelError(
            error.message, remedy='correct them, or switch check_collisions off'
        ) from error
    _require_meshes(robot, shapes.lost, unchecked)
    notes = [
        f"collision mesh '{mesh.name}' of link '{mesh.link}' {mesh.reason}, so it is not checked "
        'for collision, as accepted'
        for mesh in shapes.lost
    ]
    notes.extend(shapes.assumed)
    geometry = shapes.geometry
    for shape in geometry.geometryObjects:
        make_convex(shape)
    if not len(geometry.geometryObjects):
        notes.append(
            f"robot '{robot.name}' has no collision shapes, so nothing keeps its links apart"
        )
    places = {o.name: add_obstacle(robot, geometry, o) for o in obstacles}
    standing = {places[o.name] for o in obstacles if not o.link and o.name != FLOOR}
    pairs = {frozenset(pair.split()) for pair in allowed}
    unknown = sorted(frozenset().union(*pairs) - {*robot.link_frames, *places})
    if unknown:
        notes.append(f'allowed_pairs has links that the robot has not: {", ".join(unknown)}')
    left_out, n_allowed = set_pairs(robot, geometry, clearance, standing, places.get(FLOOR), pairs)
    model = CollisionModel(
        robot,
        geometry,
        clearance,
        tracking_tolerances(robot, tolerance),
        shape_reach(robot, geometry),
        obstacles=tuple(obstacles),
        coverage=_coverage(robot, geometry, shapes.lost, len(left_out), n_allowed),
    )
    floor = places.get(FLOOR)
    on_it = (sum(pair) - floor for pair in left_out if floor in pair) if floor else ()
    names = sorted({model.name_of(geometry.geometryObjects[place]) for place in on_it})
    if names:
        notes.append(f'always close to the floor and not kept from it: {", ".join(names)}')
    for note in notes:
        warnings.warn(note, IdentificationWarning, stacklevel=2)
    return replace(model, warnings=tuple(notes))


def _require_meshes(robot: Robot, lost: Sequence[LostMesh], unchecked: Collection[str]) -> None:
    """Raise `ExcitationError` where other links than those accepted lack a mesh."""
    for link in unchecked:
        if link not in robot.link_frames:
            raise ExcitationError(
                f"'unchecked_links' names '{link}', which robot '{robot.name}' has not",
                link=link,
                key='unchecked_links',
                remedy=f'its links are {one_of(robot.link_frames)}',
            )
    lacking = [mesh for mesh in lost if mesh.link not in unchecked]
    if not lacking:
        return
    links, first = list(dict.fromkeys(mesh.link for mesh in lacking)), lacking[0]
    remedy = 'correct the file'
    if first.reason == NOT_FOUND:
        remedy = 'give the folder that holds the package by --package-path or ROS_PACKAGE_PATH'
    raise ExcitationError(
        f"collision mesh '{first.name}' of link '{first.link}' {first.reason}, so collisions "
        f'cannot be checked for {one_of(links)}',
        link=first.link,
        key='unchecked_links',
        remedy=f"{remedy}, or accept it by name: 'planner.unchecked_links: [{', '.join(links)}]'",
    )


def _coverage(
    robot: Robot, geometry: pin.GeometryModel, lost: Sequence[LostMesh], close: int, n_allowed: int
) -> Coverage:
    joints = [shape.parentJoint for shape in geometry.geometryObjects]
    everyone = [*joints, *(robot.link_frames[mesh.link].parentJoint for mesh in lost)]
    found, total = (
        sum(a != b for a, b in combinations(bodies, 2)) for bodies in (joints, everyone)
    )
    checked = len(geometry.collisionPairs)
    names = tuple(dict.fromkeys(mesh.link for mesh in lost))
    bare = tuple(
        link
        for link, joint in zip(robot.links, robot.joint_ids, strict=True)
        if joint not in everyone and robot.model.inertias[joint].mass > 0.0
    )
    joined = found - checked - close - n_allowed
    return Coverage(checked, joined, close, names, total - found, n_allowed, bare)


def tracking_tolerances(robot: Robot, tolerance: Sequence[float]) -> np.ndarray:
    """Return the tolerances (n_joints,) of all joints; one may be given for all."""
    given = tuple(tolerance) or (0.0,)
    given *= robot.n_joints if len(given) == 1 else 1
    return one_a_joint(robot.joints, 'tracking_tolerance', given)


def collision_settings(settings: PlannerSettings) -> tuple[Any, ...]:
    """Return what a collision model depends on beside the robot."""
    return (
        settings.clearance,
        settings.all_obstacles,
        settings.tracking_tolerance,
        settings.unchecked_links,
        settings.allowed_pairs,
    )


def planned_collisions(robot: Robot, settings: PlannerSettings) -> CollisionModel | None:
    """Return the collision model that settings ask for; None where they switch the check off."""
    checked = settings.check_collisions
    return collision_model(robot, *collision_settings(settings)) if checked else None
