# SPDX-License-Identifier: Apache-2.0
"""Distances between links and obstacles by Coal, on the URDF's collision shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
import warnings

import coal
import numpy as np
import pinocchio as pin

from ..errors import ExcitationError, IdentificationWarning, ModelError, one_of
from ..model.link_geometry import read_shapes
from ..model.robot import Robot
from .distance_bounds import BoundingSpheres, random_positions, shape_reach
from .settings import FLOOR, Obstacle

RESOLUTION = 1e-4
"""How much closer a pair has to come to be measured again [m]; some keep their distance."""

_GROUP, _BOUNDED = 8, 512
"""Positions for which the pairs are chosen at once, and in which distances are bounded at once."""

_FAR = 1e3

_OBSTACLE = 'obstacle '
"""Begin of the names of obstacles' shapes; no URDF's link has a name with a blank in it."""


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
        if shape.name.startswith(_OBSTACLE):
            return shape.name.removeprefix(_OBSTACLE)
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
        _make_convex(shape)
    if not len(geometry.geometryObjects):
        notes.append(
            f"robot '{robot.name}' has no collision shapes, so nothing keeps its links apart"
        )
    places = {o.name: _add_obstacle(robot, geometry, o) for o in obstacles}
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


def _add_obstacle(robot: Robot, geometry: pin.GeometryModel, obstacle: Obstacle) -> int:
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
    shape = pin.GeometryObject(_OBSTACLE + obstacle.name, joint, 0, placement, obstacle.shape())
    return int(geometry.addGeometryObject(shape))


def _make_convex(shape: pin.GeometryObject) -> None:
    if not isinstance(shape.geometry, coal.BVHModelBase):
        return
    try:
        shape.geometry.buildConvexHull(True, 'Qt')
    except Exception:
        # a flat mesh has no hull with a volume: it stays as it is
        return
    shape.geometry = shape.geometry.convex


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
    Choose the pairs that are looked at; return the places of shapes not kept from the floor.

    Pairs of the robot's own shapes that cannot say anything are left out: of links that are joined
    by a joint, and of those that are within the clearance of each other in nearly all of many
    random positions.  Shapes in ``standing``, which stand still, are looked at for every link that
    moves; of the floor alone, links are left out that are always close to it, as they mostly stand
    on it.
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
    close = np.zeros(len(geometry.collisionPairs))
    positions = random_positions(robot, RANDOM_POSITIONS)
    for q in robot.configuration(positions):
        pin.computeCollisions(model, data, geometry, shapes, q, False)
        close += [result.isCollision() for result in shapes.collisionResults]
    return close / RANDOM_POSITIONS
