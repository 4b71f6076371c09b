# SPDX-License-Identifier: Apache-2.0
"""
Distances between links and obstacles by Coal, on the URDF's collision shapes.

The distance that counts is the least one while each joint is within its tracking tolerance, since
a robot is never quite where it is to be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any
import warnings

import coal
import numpy as np
import pinocchio as pin

from ..errors import ExcitationError, IdentificationWarning, ModelError, one_of
from ..model.link_geometry import LostMesh, NOT_FOUND, read_shapes
from ..model.robot import Robot
from .collision_geometry import (
    add_obstacle,
    BoundingSpheres,
    make_convex,
    pair_names,
    possible_pairs,
    random_positions,
    shape_reach,
    ShapePairs,
    write_pairs,
)
from .limits import one_a_joint
from .pair_clearance import CONTACT, Coverage, PairClearance, POSITIONS
from .settings import FLOOR, Obstacle, PlannerSettings

_BLOCK = 64
"""Positions in which contacts are looked for at once."""


@dataclass(frozen=True)
class Contact:
    """Two links, or a link and an obstacle, that are close to each other."""

    first: str
    second: str
    """Names of the links, or of link and obstacle."""
    distance: float
    """
    Between them, at least, while each joint is within its tracking tolerance; negative where
    they overlap [m].
    """
    planned: float
    """Between them in the position itself [m]."""
    sample: int
    """Row of the position in which they are."""
    points: np.ndarray = field(compare=False, repr=False)
    """(2, 3) nearest points on the one and on the other there, in the base frame [m]."""
    obstacle: bool = False
    """Whether one of them is an obstacle."""
    pair: int = -1
    """Number of the pair of their shapes."""
    clearance: float = 0.0
    """Distance that they have to keep [m]."""

    @property
    def too_close(self) -> bool:
        """True if they are closer than their clearance."""
        return self.distance < self.clearance


@dataclass(frozen=True)
class Measured:
    """Pairs as they were measured."""

    distance: np.ndarray
    """(k,) of the shapes [m]."""
    lines: np.ndarray
    """(k, 3, 3) nearest point of either shape, and the normal, in the base frame."""
    jacobians: np.ndarray
    """
    (k, 6, n_moving) of all joints for the point at the base frame's origin; none if not asked.
    Joints that mimic others are among them.
    """


@dataclass(frozen=True)
class CollisionModel:
    """Collision shapes of a robot and the pairs that are looked at; made by `collision_model`."""

    robot: Robot
    geometry: pin.GeometryModel
    """Pinocchio's geometry model; its collision pairs are those that are looked at."""
    clearance: float
    """Distance that links have to keep, but for `reduced` [m]."""
    tolerance: np.ndarray
    """(n_joints,) by which each joint may be off its position while they do [rad or m]."""
    shape_reach: np.ndarray
    """
    (n_shapes, n_moving) how far the points of each shape can be from each joint's axis; 1 for
    a prismatic joint [m/rad or m/m].  Joints that mimic others are among them.
    """
    warnings: tuple[str, ...] = ()
    """What is not kept apart, in words."""
    obstacles: tuple[Obstacle, ...] = ()
    """What else there is beside the links; each has one shape, called as it is."""
    coverage: Coverage = Coverage(0)
    """Pairs that are checked, of how many."""
    reduced: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Smaller clearances of pairs that cannot keep that one, by their names [m]."""
    meshes: pin.GeometryModel = field(default_factory=pin.GeometryModel)
    """Shapes as the URDF has them, with all pairs of links that do not always touch."""

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Names of the links or obstacles of each pair."""
        return pair_names(self.robot, self.geometry)

    @cached_property
    def mesh_pairs(self) -> tuple[tuple[str, str], ...]:
        """The same of the pairs of `meshes`."""
        return pair_names(self.robot, self.meshes)

    @cached_property
    def clearances(self) -> np.ndarray:
        """Distance that each pair has to keep, (n_pairs,) [m]."""
        return np.array([self.reduced.get(pair, self.clearance) for pair in self.pairs])

    @cached_property
    def groups(self) -> np.ndarray:
        """Number (n_pairs,) of the group of each pair, by obstacle or none, and by clearance."""
        kinds = np.stack([self.with_obstacle, self.clearances], axis=1)
        return np.unique(kinds, axis=0, return_inverse=True)[1].ravel()

    @cached_property
    def with_obstacle(self) -> tuple[bool, ...]:
        """True for each pair of which one is an obstacle."""
        names = {obstacle.name for obstacle in self.obstacles}
        return tuple(bool(names & set(pair)) for pair in self.pairs)

    @cached_property
    def _reach_of_both(self) -> np.ndarray:
        """(2, n_pairs, n_moving): `shape_reach` of the first and second shape of each pair."""
        pairs = [(pair.first, pair.second) for pair in self.geometry.collisionPairs]
        return self.shape_reach[np.array(pairs, dtype=int).reshape(-1, 2).T]

    @cached_property
    def pair_reach(self) -> np.ndarray:
        """
        Bound of what each joint changes the distance of each pair by, (n_pairs, n_joints).

        A joint that moves both bodies of a pair alike does not change their distance.
        """
        first, second = self._reach_of_both
        each = np.where((first > 0.0) != (second > 0.0), first + second, 0.0)
        return self.robot.mimics.bounds(each)

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

    def allowance(self, names: Collection[str]) -> str:
        """Return a remedy for links of which meshes are missing, to end another; '' for others."""
        lost = [name for name in self.coverage.unchecked if name in names]
        if not lost:
            return ''
        return (
            f", or name the pair in 'planner.allowed_pairs' if the missing meshes of "
            f'{one_of(lost)} would always touch the other link'
        )

    @cached_property
    def pair_tolerance(self) -> np.ndarray:
        """Bound of what tracking errors change the distance of each pair by, (n_pairs,) [m]."""
        return np.asarray(self.pair_reach @ self.tolerance)

    def contacts(self, position: np.ndarray) -> Iterator[Contact]:
        """Iterate over the pairs closer than the clearance in positions (n_samples, n_joints)."""
        position = np.atleast_2d(position)
        for begin in range(0, len(position), _BLOCK):
            part = position[begin : begin + _BLOCK]
            samples, pairs = np.nonzero(self.lower_bounds(part) < self.clearances)
            for sample, contact in zip(samples, self.measure(part[samples], pairs), strict=True):
                if contact.too_close:
                    yield replace(contact, sample=begin + int(sample))

    def lower_bounds(self, position: np.ndarray) -> np.ndarray:
        """Return what is known of distances without measuring, (n_samples, n_pairs) [m]."""
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
        names, kinds, kept = self.pairs, self.with_obstacle, self.clearances.tolist()
        return [
            Contact(
                names[i][0], names[i][1], float(d), float(p), row, line[:2], kinds[i], i, kept[i]
            )
            for row, (i, d, p, line) in enumerate(rows)
        ]

    def touching_meshes(self, position: np.ndarray, margin: float = 0.0) -> np.ndarray:
        """Return which of the pairs of `meshes` touch (n_samples, n_pairs) in positions."""
        model, meshes = self.robot.model, self.meshes
        data, shapes = model.createData(), meshes.createData()
        for request in shapes.collisionRequests:
            request.security_margin = margin
        found = np.zeros((len(position), len(meshes.collisionPairs)), dtype=bool)
        spheres = BoundingSpheres.from_geometry(self.robot, meshes, range(found.shape[1]))
        near = margin >= spheres.distances(position).T
        for row, q in enumerate(self.robot.configuration(position)):
            pin.updateGeometryPlacements(model, data, meshes, shapes, q)
            for pair in np.flatnonzero(near[row]).tolist():
                found[row, pair] = pin.computeCollision(meshes, shapes, pair)
        return found

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
        moving = self.robot.carriers
        by_joint = np.empty((len(pairs) if jacobians else 0, 6, moving.n_joints))
        jacobian = None
        for row, (pair, moved) in enumerate(zip(pairs.tolist(), new.tolist(), strict=True)):
            if moved:
                pin.updateGeometryPlacements(model, data, geometry, shapes, next(configurations))
                if jacobians:
                    jacobian = pin.computeJointJacobians(model, data)[:, moving.columns]
            result = pin.computeDistance(geometry, shapes, pair)
            distance[row] = result.min_distance
            points = result.getNearestPoint1(), result.getNearestPoint2()
            lines[row] = *points, _normal(*points, result)
            if jacobians:
                by_joint[row] = jacobian
        return Measured(distance, lines, by_joint)

    def slopes(self, pairs: np.ndarray, lines: np.ndarray, jacobians: np.ndarray) -> np.ndarray:
        """
        Return the derivatives (k, n_joints) of distances of ``pairs`` (k,) by the positions.

        A distance changes by how far the nearest points move along the normal, which is the
        product of a unit force at the point with the Jacobian of the joints that carry the shape.
        ``lines`` (k, 3, 3) are the nearest point of either shape and the normal, ``jacobians``
        (k, 6, n_moving) those of all joints for the point at the base frame's origin.
        """
        normal = lines[:, 2]
        slopes = np.zeros((len(pairs), jacobians.shape[2]))
        for side, sign in ((0, -1.0), (1, 1.0)):
            wrench = np.hstack([normal, np.cross(lines[:, side], normal)])
            along = np.einsum('ki,kij->kj', wrench, jacobians)
            slopes += sign * along * (self._reach_of_both[side][pairs] > 0.0)
        return self.robot.mimics.efforts(slopes)

    @cached_property
    def spheres(self) -> BoundingSpheres:
        """Bounds of all pairs."""
        return BoundingSpheres.from_geometry(self.robot, self.geometry, range(len(self.pairs)))


def _normal(first: np.ndarray, second: np.ndarray, result: coal.DistanceResult) -> np.ndarray:
    """Return the direction (3,) from the first to the second; Coal has none between meshes."""
    if np.linalg.norm(result.normal) > 0.5 or not result.min_distance > 0.0:
        return np.asarray(result.normal)
    return (second - first) / result.min_distance


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

    Meshes are replaced by their convex hulls, which is quicker and on the safe side, but for pairs
    whose hulls overlap in every position.  Pairs that cannot keep the clearance keep a smaller one
    (`pair_clearance`); left out are those that are ``allowed`` to touch, those that touch in every
    position, and those that keep their distance in every position.

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
    notes += shapes.assumed
    geometry = shapes.geometry
    if not len(geometry.geometryObjects):
        notes.append(
            f"robot '{robot.name}' has no collision shapes, so nothing keeps its links apart"
        )
    names = {o.name for o in obstacles}
    for obstacle in obstacles:
        add_obstacle(robot, geometry, obstacle)
    meshes = geometry.copy()
    for shape in geometry.geometryObjects:
        make_convex(shape)
    permitted = {frozenset(pair.split()) for pair in allowed}
    unknown = sorted(frozenset().union(*permitted) - {*robot.link_frames, *names})
    if unknown:
        notes.append(f'allowed_pairs has links that the robot has not: {", ".join(unknown)}')
    for note in notes:
        warnings.warn(note, IdentificationWarning, stacklevel=2)
    pairs, n_allowed = possible_pairs(robot, geometry, permitted)
    everyone = CollisionModel(
        robot,
        geometry,
        clearance,
        tracking_tolerances(robot, tolerance),
        shape_reach(robot, geometry),
        tuple(notes),
        tuple(obstacles),
        _lost_coverage(robot, geometry, shapes.lost, n_allowed),
        meshes=meshes,
    )
    return _with_chosen_pairs(everyone, pairs)


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


def _lost_coverage(
    robot: Robot, geometry: pin.GeometryModel, lost: Sequence[LostMesh], n_allowed: int
) -> Coverage:
    """Return what is known of the coverage before pairs are chosen."""
    joints = [shape.parentJoint for shape in geometry.geometryObjects]
    everyone = [*joints, *(robot.link_frames[mesh.link].parentJoint for mesh in lost)]
    found, total = (
        sum(a != b for a, b in combinations(bodies, 2)) for bodies in (joints, everyone)
    )
    names = tuple(dict.fromkeys(mesh.link for mesh in lost))
    bare = tuple(
        link
        for link, joint in zip(robot.carriers.links, robot.carriers.joint_ids, strict=True)
        if joint not in everyone and robot.model.inertias[joint].mass > 0.0
    )
    return Coverage(0, unchecked=names, lost=total - found, allowed=n_allowed, bare=bare)


def _with_chosen_pairs(everyone: CollisionModel, pairs: ShapePairs) -> CollisionModel:
    """Return the model with those pairs that have to be looked at along a path."""
    geometry, clearance = everyone.geometry, everyone.clearance
    always = {o.name for o in everyone.obstacles if not o.link and o.name != FLOOR}
    declared = {names: shapes for names, shapes in pairs.items() if always & {*names}}
    own = {names: shapes for names, shapes in pairs.items() if names not in declared}
    rules = _pair_clearances(everyone, own)
    apart = _apart_as_meshes(everyone, {n: own[n] for n, rule in rules.items() if not rule.kept})
    rules |= _pair_clearances(everyone, apart)
    along = {names: (own | apart)[names] for names, r in rules.items() if r.kept and not r.steady}
    write_pairs(geometry, chain.from_iterable([*along.values(), *declared.values()]))
    touching = [names for names, rule in rules.items() if not rule.kept]
    # a half space touches a mesh where it touches its hull
    planes = {o.name for o in everyone.obstacles if o.kind == 'plane'}
    hulls = [pairs[names] for names in [*along, *declared] if not planes & {*names}]
    write_pairs(everyone.meshes, chain.from_iterable(hulls))
    reduced = {names: r.kept for names, r in rules.items() if 0.0 < r.kept < clearance}
    coverage = replace(
        everyone.coverage,
        checked=len(geometry.collisionPairs),
        steady=sum(len(own[names]) for names, rule in rules.items() if rule.steady),
        touching=sum(len(own[names]) for names in touching),
        reduced=tuple(f"'{a}' and '{b}' {1e3 * c:.3g} mm" for (a, b), c in reduced.items()),
        in_contact=tuple(f"'{a}' and '{b}'" for a, b in touching),
    )
    return replace(
        everyone,
        shape_reach=shape_reach(everyone.robot, geometry),
        warnings=(*everyone.warnings, *coverage.warnings()),
        coverage=coverage,
        reduced=reduced,
    )


def _pair_clearances(
    model: CollisionModel, pairs: ShapePairs
) -> dict[tuple[str, str], PairClearance]:
    """Return the clearances that pairs can keep, from positions spread over the joints' ranges."""
    write_pairs(model.geometry, chain.from_iterable(pairs.values()))
    model = replace(model, shape_reach=shape_reach(model.robot, model.geometry))
    position = random_positions(model.robot, POSITIONS)
    # measured below the clearance, bounded above it
    distance = model.lower_bounds(position)
    samples, numbers = np.nonzero(distance < model.clearance)
    found = model.measure(position[samples], numbers)
    distance[samples, numbers] = [contact.distance for contact in found]
    columns = iter(distance.T)
    return {
        names: PairClearance.from_distances(
            np.min([next(columns) for _ in shapes], axis=0), model.clearance
        )
        for names, shapes in pairs.items()
    }


def _apart_as_meshes(model: CollisionModel, pairs: ShapePairs) -> ShapePairs:
    """Return those of which the meshes do not touch in every position, with these as shapes."""
    write_pairs(model.meshes, chain.from_iterable(pairs.values()))
    position = random_positions(model.robot, POSITIONS)
    columns = iter(model.touching_meshes(position, CONTACT).T)
    touching = {
        names: np.any([next(columns) for _ in shapes], axis=0) for names, shapes in pairs.items()
    }
    shapes, added = model.meshes.geometryObjects, {}
    apart = {names: pairs[names] for names, each in touching.items() if not each.all()}
    for place in sorted({*chain.from_iterable(chain.from_iterable(apart.values()))}):
        added[place] = int(model.geometry.addGeometryObject(shapes[place]))
    return {names: [(added[a], added[b]) for a, b in each] for names, each in apart.items()}


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
