# SPDX-License-Identifier: Apache-2.0
"""
Distances between links and obstacles by Coal, on the URDF's collision shapes.

`CollisionModel` finds the pairs that are close, `DistancePenalty` keeps a search away from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
import warnings

import numpy as np
import pinocchio as pin

from ..errors import IdentificationWarning, ModelError
from ..model.link_geometry import read_shapes
from ..model.robot import Robot
from .collision_geometry import (
    add_obstacle,
    BoundingSpheres,
    make_convex,
    OBSTACLE_PREFIX,
    random_positions,
    set_pairs,
    shape_reach,
)
from .settings import FLOOR, Obstacle

RESOLUTION = 1e-4
"""How much closer a pair has to come to be measured again [m]; some keep their distance."""

_GROUP, _BOUNDED = 8, 512
"""Positions for which the pairs are chosen at once, and in which distances are bounded at once."""

_FAR = 1e3


@dataclass(frozen=True)
class Contact:
    """
    Two links, or a link and an obstacle, that are close to each other.

    Attributes
    ----------
    first, second:
        Names.
    distance:
        Between them; negative where they overlap [m].
    sample:
        Row of the position in which they are.
    points:
        (2, 3) nearest points on the one and on the other, in the base frame [m].
    obstacle:
        Whether one of them is an obstacle.

    """

    first: str
    second: str
    distance: float
    sample: int
    points: np.ndarray = field(compare=False, repr=False)
    obstacle: bool = False


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
    shape_reach:
        (n_shapes, n_joints) how far the points of each shape can be from each joint's axis; 1 for
        a prismatic joint [m/rad or m/m].
    warnings:
        Shapes that could not be loaded, in words.
    obstacles:
        What else there is beside the links; each has one shape, called as it is.

    """

    robot: Robot
    geometry: pin.GeometryModel
    clearance: float
    shape_reach: np.ndarray
    warnings: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()

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
    def reach(self) -> np.ndarray:
        """Distance (n_joints,) of the point that each joint moves most from its axis at most."""
        return np.asarray(self.shape_reach.max(axis=0, initial=0.0))

    @cached_property
    def pair_reach(self) -> np.ndarray:
        """
        Bound of what each joint changes the distance of each pair by, (n_pairs, n_joints).

        A joint that moves both bodies of a pair alike does not change their distance.
        """
        if self.robot.passive:  # any joint may move any other
            return np.tile(self.reach, (len(self.pairs), 1))
        pairs = [(pair.first, pair.second) for pair in self.geometry.collisionPairs]
        first, second = self.shape_reach[np.array(pairs, dtype=int).reshape(-1, 2).T]
        return np.where((first > 0.0) != (second > 0.0), first + second, 0.0)

    def name_of(self, shape: pin.GeometryObject) -> str:
        """Return the name of a shape's link or obstacle."""
        if shape.name.startswith(OBSTACLE_PREFIX):
            return shape.name.removeprefix(OBSTACLE_PREFIX)
        # the URDF parser names a shape <link>_<number>; the frame below it is the link's own
        return self.robot.model.frames[shape.parentFrame].name

    def in_words(self, first: str, second: str) -> str:
        """Name a pair and say what each is."""
        names = {obstacle.name for obstacle in self.obstacles}
        if not names & {first, second}:
            return f"links '{first}' and '{second}'"
        # the link first: it is what moves
        both = sorted((first, second), key=names.__contains__)
        kinds = [('obstacle' if name in names else 'link') + f" '{name}'" for name in both]
        return ' and '.join(kinds)

    def contacts(self, position: np.ndarray) -> Iterator[Contact]:
        """Iterate over the pairs closer than the clearance in positions (n_samples, n_joints)."""
        margins = np.full(len(self.pairs), self.clearance)
        shapes = self._data(margins)
        for sample, closer in self._closer(np.atleast_2d(position), margins, shapes):
            for pair in closer:
                yield self._contact(shapes, pair, sample)

    def near(self, position: np.ndarray, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return in which positions any pair is closer than its distance, and which pairs are.

        Parameters
        ----------
        position:
            (n_samples, n_joints) [rad or m].
        distances:
            (n_pairs,) of each pair; -inf for those that are not looked at [m].

        Returns
        -------
        near: (n_samples,) bool
        pairs:
            Numbers of the pairs that are closer somewhere.

        """
        near, found = np.zeros(len(position), dtype=bool), set[int]()
        for sample, closer in self._closer(position, distances, self._data(distances)):
            near[sample] = True
            found.update(closer)
        return near, np.array(sorted(found), dtype=int)

    def closest(self, position: np.ndarray) -> list[Contact]:
        """
        Return the closest links, and the closest link and obstacle, the nearest first.

        Where a pair is closer than the clearance, the search ends with it.  Only pairs that come
        closer than the closest ones so far by `RESOLUTION` or more are measured.

        Parameters
        ----------
        position:
            (n_samples, n_joints) [rad or m].

        """
        best: dict[bool, Contact] = {}
        margins = self._margins(best)
        shapes = self._data(margins)
        for sample, closer in self._closer(np.atleast_2d(position), margins, shapes):
            for pair in closer:
                found = self._contact(shapes, pair, sample)
                kind = found.obstacle
                if kind not in best or found.distance < best[kind].distance:
                    best[kind] = found
                    margins[:] = self._margins(best)
                    self._set_margins(shapes, margins)
            if any(contact.distance < self.clearance for contact in best.values()):
                break
        return sorted(best.values(), key=lambda contact: contact.distance)

    def _closer(
        self, position: np.ndarray, margins: np.ndarray, shapes: pin.GeometryData
    ) -> Iterator[tuple[int, list[int]]]:
        """
        Iterate over the positions in which pairs are closer than their margins (n_pairs,).

        With each come the numbers of these pairs.  Margins may shrink meanwhile.
        """
        model, data, geometry = self.robot.model, self.robot.model.createData(), self.geometry
        configurations = self.robot.configuration(position)
        for samples, lower in self._groups(position):
            pairs = np.flatnonzero(lower < margins).tolist()
            for sample in samples if pairs else ():
                pin.updateGeometryPlacements(model, data, geometry, shapes, configurations[sample])
                closer = [pair for pair in pairs if pin.computeCollision(geometry, shapes, pair)]
                if closer:
                    yield sample, closer

    def _groups(self, position: np.ndarray) -> Iterator[tuple[range, np.ndarray]]:
        """Yield groups of samples, and lower bounds (n_pairs,) of the distances in each."""
        for first in range(0, len(position) if self.pairs else 0, _BOUNDED):
            part = position[first : first + _BOUNDED]
            begins = np.arange(0, len(part), _GROUP)
            lower = np.full((len(begins), len(self.pairs)), -np.inf)
            if self.spheres is not None:
                # in the middle of each group, less what a pair may come closer from there
                middle = part[np.minimum(begins + _GROUP // 2, len(part) - 1)]
                way = np.abs(part - np.repeat(middle, _GROUP, axis=0)[: len(part)])
                closer = np.maximum.reduceat(way, begins) @ self.pair_reach.T
                lower = self.spheres.distances(middle).T - closer
            for begin, bounds in zip(begins.tolist(), lower, strict=True):
                yield range(first + begin, first + min(begin + _GROUP, len(part))), bounds

    def _margins(self, best: dict[bool, Contact]) -> np.ndarray:
        """Return from which distance on each pair (n_pairs,) is of no interest any more."""
        of_links, of_obstacles = (
            max(best[kind].distance - RESOLUTION, self.clearance) if kind in best else _FAR
            for kind in (False, True)
        )
        return np.where(self.with_obstacle, of_obstacles, of_links)

    def _contact(self, shapes: pin.GeometryData, pair: int, sample: int) -> Contact:
        result = pin.computeDistance(self.geometry, shapes, pair)
        points = np.array([result.getNearestPoint1(), result.getNearestPoint2()])
        obstacle = self.with_obstacle[pair]
        return Contact(*self.pairs[pair], float(result.min_distance), sample, points, obstacle)

    def _data(self, margins: np.ndarray) -> pin.GeometryData:
        shapes = self.geometry.createData()
        self._set_margins(shapes, margins)
        return shapes

    def _set_margins(self, shapes: pin.GeometryData, margins: np.ndarray) -> None:
        for request, margin in zip(shapes.collisionRequests, margins.tolist(), strict=True):
            request.security_margin = margin

    @cached_property
    def spheres(self) -> BoundingSpheres | None:
        """Bounds of all pairs; none of a mechanism, since no tree places its links."""
        if self.robot.passive or not self.pairs:
            return None
        return BoundingSpheres.of(self.robot, self.geometry, range(len(self.pairs)))


def collision_model(
    robot: Robot, clearance: float, obstacles: Sequence[Obstacle] = ()
) -> CollisionModel:
    """
    Read the collision shapes of a robot's URDF, and put the obstacles among them.

    Meshes are replaced by their convex hulls, which is quicker and on the safe side.  A mesh that
    is not found gives a warning that names it, and its link is not looked at.

    Parameters
    ----------
    robot:
        The robot.
    clearance:
        Distance that links have to keep from each other and from obstacles [m].
    obstacles:
        What there is beside the robot (`PlannerSettings.all_obstacles`).

    Raises
    ------
    ModelError
        where the shapes cannot be read.
    ExcitationError
        where an obstacle is attached to a link that there is not, or is called as one.

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
        make_convex(shape)
    if not len(geometry.geometryObjects):
        notes.append(
            f"robot '{robot.name}' has no collision shapes, so nothing keeps its links apart"
        )
    places = {o.name: add_obstacle(robot, geometry, o) for o in obstacles}
    standing = {places[o.name] for o in obstacles if not o.link and o.name != FLOOR}
    left_out = set_pairs(robot, geometry, clearance, standing, places.get(FLOOR))
    model = CollisionModel(
        robot, geometry, clearance, shape_reach(robot, geometry), (), tuple(obstacles)
    )
    names = sorted({model.name_of(geometry.geometryObjects[place]) for place in left_out})
    if names:
        notes.append(f'always close to the floor and not kept from it: {", ".join(names)}')
    for note in notes:
        warnings.warn(note, IdentificationWarning, stacklevel=2)
    return replace(model, warnings=tuple(notes))


WEIGHT = 10.0
"""Factor of the mean penalty of short distances."""

ROOM_SHARE = 0.25
"""Share of its room above the clearance that a pair's buffer takes at most."""

FEW, MANY = 100, 1000
"""Random positions in which distances are measured, and in which they are bounded."""

FAR_APART = 0.15
"""Bound of the distance above which a pair is far apart [m]."""

UNSURE = 0.05
"""Share of the distances to measure above which bounding spheres are quicker."""


@dataclass(frozen=True)
class DistancePenalty:
    """
    Penalty of short distances along a motion.

    Attributes
    ----------
    collisions:
        Shapes and pairs.

    """

    collisions: CollisionModel
    _last: list[np.ndarray] = field(default_factory=list, init=False, repr=False, compare=False)

    @cached_property
    def _watched(self) -> tuple[np.ndarray, BoundingSpheres | None]:
        """
        Pairs (k,) whose distances a penalty looks at, with bounds of them.

        Pairs that are far apart in all of many random positions are left to the last check.
        """
        everyone = np.arange(len(self.collisions.pairs))
        robot, spheres = self.collisions.robot, self.collisions.spheres
        if spheres is None:
            return everyone, None
        nearest = np.full(everyone.size, np.inf)
        for part in np.array_split(random_positions(robot, MANY), 10):
            nearest = np.minimum(nearest, spheres.distances(part).min(axis=1))
        near = everyone[nearest < FAR_APART]
        return near, BoundingSpheres.of(robot, self.collisions.geometry, near.tolist())

    def buffers(self, buffer: float) -> np.ndarray:
        """
        Return the distance (n_pairs,) from which on each pair counts as close [m].

        Pairs that never come far apart have one of their own, a little above the clearance: theirs
        would be a penalty that few motions avoid.  Those that are always closer than the buffer,
        and always keep the clearance, are left to the last check.
        """
        nearest, farthest = self._distances
        clearance = self.collisions.clearance
        own = clearance + ROOM_SHARE * np.maximum(farthest - clearance, 0.0)
        own[(nearest > clearance) & (farthest < buffer)] = 0.0
        return np.minimum(own, buffer)

    @cached_property
    def _distances(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest distance (n_pairs,) of each pair in random positions [m]."""
        robot, geometry = self.collisions.robot, self.collisions.geometry
        model, data, shapes = robot.model, robot.model.createData(), geometry.createData()
        nearest, farthest = np.full((2, len(self.collisions.pairs)), [[np.inf], [-np.inf]])
        for q in robot.configuration(random_positions(robot, FEW)):
            pin.computeDistances(model, data, geometry, shapes, q)
            found = [result.min_distance for result in shapes.distanceResults]
            nearest, farthest = np.minimum(nearest, found), np.maximum(farthest, found)
        return nearest, farthest

    def of(self, position: np.ndarray, buffer: float) -> tuple[float, np.ndarray]:
        r"""
        Return how much the links come closer than ``buffer``, and its gradient.

        The mean over the positions of the sum over the pairs of :math:`(1 - d / b)^2` where the
        distance d is below the buffer b (`buffers`), times `WEIGHT`.  A distance changes with the
        positions as the nearest points move along the line that joins them.  Only pairs that may
        be closer are measured (`_lower_bounds`).

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
        if not self.collisions.pairs:
            return 0.0, gradient
        robot, geometry = self.collisions.robot, self.collisions.geometry
        model, data, shapes = robot.model, robot.model.createData(), geometry.createData()
        buffers, (watched, _) = self.buffers(buffer), self._watched
        lower = self._lower_bounds(position, buffers[watched])
        near = (lower < buffers[watched, None]) & (buffers[watched, None] > 0.0)
        samples, places = np.nonzero(near.T)
        pairs = watched[places]
        configurations, last = robot.configuration(position), -1
        measured: list[float] = []
        found: list[tuple[int, int, float]] = []
        lines: list[np.ndarray] = []
        jacobians: list[np.ndarray] = []
        for sample, pair in zip(samples.tolist(), pairs.tolist(), strict=True):
            if sample != last:
                q, jacobian, last = configurations[sample], None, sample
                pin.updateGeometryPlacements(model, data, geometry, shapes, q)
            result = pin.computeDistance(geometry, shapes, pair)
            measured.append(result.min_distance)
            short = 1.0 - result.min_distance / buffers[pair]
            if short > 0.0:
                found.append((sample, pair, short))
                nearest = result.getNearestPoint1(), result.getNearestPoint2()
                # copied: the next measurement of the pair writes to the same memory
                lines.append(np.array([*nearest, result.normal]))
                if jacobian is None:
                    jacobian = pin.computeJointJacobians(model, data)[:, robot.columns]
                jacobians.append(jacobian)
        lower[places, samples] = measured
        self._last[:] = position, lower
        if not found:
            return 0.0, gradient
        sample, pair, short = (np.array(entry) for entry in zip(*found, strict=True))
        slopes = self._slopes(pair, np.array(lines), np.array(jacobians))
        factor = WEIGHT / len(position)
        np.subtract.at(gradient, sample, (2.0 * factor * short / buffers[pair])[:, None] * slopes)
        return factor * float(short @ short), gradient

    def _lower_bounds(self, position: np.ndarray, buffers: np.ndarray) -> np.ndarray:
        """
        Return lower bounds (k, n_samples) of the distances of the watched pairs [m].

        They are those of the motion before, less what the joints have moved since then can change.
        Where this leaves many unsure, bounding spheres tell more.
        """
        watched, spheres = self._watched
        lower = np.full((watched.size, len(position)), -np.inf)
        if self._last and self._last[0].shape == position.shape:
            moved = np.abs(position - self._last[0])
            lower = self._last[1] - self.collisions.pair_reach[watched] @ moved.T
        if spheres is not None and watched.size and (lower < buffers[:, None]).mean() > UNSURE:
            lower = np.maximum(lower, spheres.distances(position))
        return np.asarray(lower)

    def _slopes(self, pairs: np.ndarray, lines: np.ndarray, jacobians: np.ndarray) -> np.ndarray:
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
            slopes += sign * along * self._carried[side][pairs]
        return slopes

    @cached_property
    def _carried(self) -> np.ndarray:
        """(2, n_pairs, n_joints): which joints carry the first and second shape of each pair."""
        robot, geometry = self.collisions.robot, self.collisions.geometry
        carried = np.zeros((2, len(geometry.collisionPairs), robot.n_joints), dtype=bool)
        for number, pair in enumerate(geometry.collisionPairs):
            for side, index in enumerate((pair.first, pair.second)):
                joint = geometry.geometryObjects[index].parentJoint
                supports = list(robot.model.supports[joint])
                carried[side, number] = np.isin(robot.joint_ids, supports)
        return carried
