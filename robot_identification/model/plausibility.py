# SPDX-License-Identifier: Apache-2.0
"""
Plausibility of bodies beside their prior and their shapes, and repair of prior bodies.

A link of 111 kg can exist, and is still none of a robot of 33 kg.  Compared are masses with those
of the prior and with the volumes of the shapes, centres of mass and radii of gyration with the
shapes, and the total mass with that of the prior.  Where the prior itself lies outside of the
bounds that shapes give, the shapes are rough, and the bounds are widened around the prior.  The
radius of gyration is k = sqrt(integral of |r - c|^2 dm / m), with c the centre of mass: at most
the distance from c to the farthest corner, and at least that of the densest ball of this mass,
sqrt(3/5) R with m = 4/3 pi R^3 density.  Without shapes, at most a multiple of the robot's reach.
A shape in which the body would be denser than any metal, and which its centre of mass or radius of
gyration does not fit either, is a placeholder and no evidence.

A prior body that is impossible keeps its mass and centre of mass; of the second moments about it,
the nearest positive definite ones are taken (Frobenius norm).  A missing one, or one without a
positive mass, is made of the link's shapes at a common density, or is small beside its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from ..errors import ModelError
from .consistency import from_pseudo_inertia, pseudo_inertia
from .link_geometry import hull_faces, link_shapes, LinkShape
from .parameters import body_links, ParameterSet
from .robot import Robot

Interval = tuple[float, float]
"""Lowest and highest value."""

DENSITY = 1200.0
"""
Of a link by the volume of its shapes [kg/m^3]: about the median of the arms of example-robot-data.
"""

SMALL = 0.1
"""Mass of a body of which nothing is known, by that of its neighbours."""

LEAST_SPREAD = 1e-2
"""Smallest second moment of a repaired body by its largest: a tenth of the length."""

DENSEST = 22600.0
"""Density of osmium, the densest metal [kg/m^3]."""

_BALL = (1.0, 0.05)
"""Mass [kg] and spread [m] of a body without neighbours."""

_RELATIVE_TOLERANCE = 1e-9
"""Share of a bound, or of a body's second moments, that rounding may pass it by."""


@dataclass(frozen=True)
class Spread:
    """
    A body: mass [kg], centre of mass (3,) [m], and second moments of mass about it (3, 3).

    ``spread`` has the second moments [kg m^2].
    """

    mass: float
    centre: np.ndarray
    spread: np.ndarray

    @classmethod
    def from_parameters(cls, vector: np.ndarray) -> Spread | None:
        """Take ten inertial parameters apart; None without a positive mass."""
        matrix = pseudo_inertia(vector)
        mass = float(matrix[3, 3])
        if not mass > 0.0:
            return None
        centre = matrix[:3, 3] / mass
        return cls(mass, centre, matrix[:3, :3] - mass * np.outer(centre, centre))

    @property
    def physical(self) -> bool:
        """True if it is a body, be it flat or a point."""
        about = np.trace(self.spread) + self.mass * self.centre @ self.centre
        return bool(np.linalg.eigvalsh(self.spread)[0] >= -_RELATIVE_TOLERANCE * abs(about))

    @property
    def square(self) -> float:
        """Mean square of a coordinate of its mass [m^2]."""
        return float(np.trace(self.spread)) / (3.0 * self.mass)

    def thickened(self, square: float = 0.0) -> np.ndarray:
        """
        Return the pseudo-inertia (4, 4) of a body that is at least `LEAST_SPREAD` thick.

        ``square`` is a mean square [m^2] that the least spread is relative to, too.
        """
        values, axes = np.linalg.eigh(self.spread)
        values = np.maximum(values, LEAST_SPREAD * max(values[-1], self.mass * square))
        pose = np.append(self.centre, 1.0)
        matrix = self.mass * np.outer(pose, pose)
        matrix[:3, :3] += (axes * values) @ axes.T
        return matrix


@dataclass(frozen=True)
class PlausibilityBounds:
    """
    Bounds of what is plausible.

    Attributes
    ----------
    mass_ratio:
        Of a link's mass to the prior's.
    mass_share:
        Share of the prior's total mass that a link may differ by, whatever its ratio: it hardly
        moves an effort.
    total_mass_ratio:
        Of the mass of all links to the prior's.
    density:
        Mass of a link by the volume of its shapes [kg/m^3]: foam and thin shells to steel.
    outside:
        Distance of a centre of mass from the convex hull of the shapes, by the hull's diagonal.
    widening:
        Ratio to the prior up to which a value is plausible whatever the shapes say, where the
        prior itself does not fit the shapes.

    """

    mass_ratio: Interval = (0.4, 2.5)
    mass_share: float = 0.05
    total_mass_ratio: Interval = (1.0 / 1.5, 1.5)
    density: Interval = (500.0, 8000.0)
    outside: float = 0.05
    widening: float = 2.5

    def widened(self, interval: Interval, prior: float | None) -> Interval:
        """Widen an interval around the value of a prior that lies outside."""
        lower, upper = interval
        if prior is not None and prior < lower:
            lower = prior / self.widening
        if prior is not None and prior > upper:
            upper = prior * self.widening
        return lower, upper


@dataclass(frozen=True)
class PlausibilityFinding:
    """
    A value of a model that is not plausible.

    Attributes
    ----------
    link:
        Its name; empty for the whole robot.
    quantity:
        ``mass``, ``density``, ``centre_of_mass``, ``radius_of_gyration`` or ``total_mass``.
    value, lower, upper:
        Its value and bounds, in ``unit``.
    unit:
        SI unit of value and bounds.
    message:
        The same in words.

    """

    link: str
    quantity: str
    value: float
    lower: float
    upper: float
    unit: str
    message: str


@dataclass(frozen=True)
class PlausibilityReport:
    """Findings about all links, and remarks on what could not be compared."""

    findings: tuple[PlausibilityFinding, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def plausible(self) -> bool:
        """True if nothing was found."""
        return not self.findings

    def summary(self) -> str:
        """Return the verdict, the findings and the remarks, a line each."""
        verdict = 'plausible' if self.plausible else 'NOT plausible'
        messages = (finding.message for finding in self.findings)
        return '\n'.join([f'Plausibility: {verdict}', *messages, *self.remarks])


def plausibility(
    parameters: ParameterSet,
    prior: ParameterSet | None = None,
    shapes: Mapping[str, LinkShape] | None = None,
    *,
    reach: float = np.inf,
    masses: Mapping[str, Interval] | None = None,
    total_mass: Interval | None = None,
    bounds: PlausibilityBounds | None = None,
) -> PlausibilityReport:
    """
    Compare the bodies of a robot with its prior and its shapes.

    Parameters
    ----------
    parameters:
        Standard parameters; links without all ten inertial ones, and frames without a body, are
        passed over.
    prior:
        Standard parameters before the identification; None compares with shapes alone.
    shapes:
        Shapes of links by their names; links without one are compared with the prior alone.
    reach:
        Of the robot [m], see `robot_reach`.
    masses:
        Masses that are known by link [kg]; they stand in place of the ratio to the prior.
    total_mass:
        Mass of all links, where it is known [kg]; stands in place of the ratio to the prior.
    bounds:
        See `PlausibilityBounds`.

    """
    bounds = bounds or PlausibilityBounds()
    shapes, masses = shapes or {}, masses or {}
    findings: list[PlausibilityFinding] = []
    dummies: list[str] = []
    links = [link for link in body_links(parameters.layout) if parameters.inertial(link).any()]
    prior_total = 0.0 if prior is None else sum(prior.get(f'{link}.m') for link in links)
    slack = bounds.mass_share * prior_total
    for link in links:
        known = prior is not None and f'{link}.m' in prior.layout
        before = (
            Spread.from_parameters(prior.inertial(link)) if prior is not None and known else None
        )
        vector, shape = parameters.inertial(link), shapes.get(link)
        if shape is not None and _stands_in(
            shape, before or Spread.from_parameters(vector), bounds
        ):
            dummies.append(link)
            shape = None
        checks = _link_checks(vector, before, shape, masses.get(link), reach, bounds, slack)
        findings += _implausible(link, checks)
    if links:
        total = sum(parameters[f'{link}.m'] for link in links)
        if total_mass is not None:
            findings += _implausible('', [('total_mass', total, total_mass, 'kg', 'as weighed')])
        elif prior_total > 0.0:
            findings += _implausible(
                '', [_ratio('total_mass', total, prior_total, bounds.total_mass_ratio)]
            )
    bare = [link for link in links if link not in shapes]
    remarks = [f'without shapes to compare with: {", ".join(bare)}'] if bare else []
    if dummies:
        remarks.append(f'with shapes too small to be theirs, not compared: {", ".join(dummies)}')
    return PlausibilityReport(tuple(findings), tuple(remarks))


def robot_shapes(robot: Robot) -> dict[str, LinkShape]:
    """Return the shapes of a robot's links; none where they cannot be read."""
    try:
        return link_shapes(robot)
    except ModelError:
        return {}


def robot_reach(robot: Robot) -> float:
    """
    Return the length of the longest chain of identified links [m]; infinite where none shows.

    Along a chain the distances of the joints and the ranges of sliding joints are summed up, and
    twice the distance of the last centre of mass from its joint.
    """
    tree, lengths = robot.opened, {0: 0.0}
    limits = tree.limits
    ranges = dict(zip(tree.joint_ids, limits.upper - limits.lower, strict=True))
    for index in range(1, tree.model.njoints):
        parent = int(tree.model.parents[index])
        placement = tree.model.jointPlacements[index].translation
        length = lengths[parent] + (float(np.linalg.norm(placement)) if parent else 0.0)
        slides = 'JointModelP' in tree.model.joints[index].shortname()
        if slides and np.isfinite(ranges.get(index, np.inf)):
            length += float(ranges[index])
        lengths[index] = length
    centres = [float(np.linalg.norm(inertia.lever)) for inertia in tree.model.inertias]
    reach = max(lengths[k] + 2.0 * centres[k] for k in lengths if k)
    return reach or np.inf


_Check = tuple[str, float, Interval, str, str]
"""Quantity, value, plausible values, unit, and what it was compared with in words."""


def _link_checks(
    vector: np.ndarray,
    before: Spread | None,
    shape: LinkShape | None,
    known: Interval | None,
    reach: float,
    bounds: PlausibilityBounds,
    slack: float,
) -> Iterator[_Check]:
    mass, body = float(vector[0]), Spread.from_parameters(vector)
    if known is not None:
        yield 'mass', mass, known, 'kg', 'as stated'
    elif before is not None:
        yield _ratio('mass', mass, before.mass, bounds.mass_ratio, slack)
    if body is None:
        return
    prior_gyration = None if before is None else _gyration(before)
    ball = (3.0 * mass / (4.0 * np.pi * bounds.density[1])) ** (1.0 / 3.0)
    longest, words = bounds.widening * reach, f"against the robot's reach of {reach:.3g} m"
    if prior_gyration is not None and prior_gyration < reach:
        longest, words = bounds.widening * prior_gyration, "against the prior's"
    if shape is not None:
        if shape.volume > 0.0:
            prior_density = None if before is None else before.mass / shape.volume
            plausible = bounds.widened(bounds.density, prior_density)
            volume = f'{mass:.3g} kg in shapes of {1e3 * shape.volume:.3g} dm^3'
            yield 'density', mass / shape.volume, plausible, 'kg/m^3', volume
        slack = _slack(shape, bounds)
        outside = -np.inf if before is None else _outside(shape, before.centre)
        upper = slack if outside <= slack else outside + slack
        beyond = max(0.0, _outside(shape, body.centre))
        yield 'centre_of_mass', beyond, (0.0, upper), 'm', 'outside of the hull of its shapes'
        longest, words = _farthest(shape, body), 'larger than its shapes'
    lower, upper = bounds.widened((np.sqrt(0.6) * ball, longest), prior_gyration)
    value = _gyration(body)
    # a shape that cannot even hold a ball of the mass is found by its density
    if value is not None and lower <= upper:
        if value < lower:
            words = f'as of a ball denser than {bounds.density[1]:g} kg/m^3'
        yield 'radius_of_gyration', value, (lower, upper), 'm', words


def _stands_in(shape: LinkShape, body: Spread | None, bounds: PlausibilityBounds) -> bool:
    """Return whether a shape is a placeholder that says nothing of a body."""
    if body is None or body.mass <= DENSEST * shape.volume:
        return False
    return _outside(shape, body.centre) > _slack(shape, bounds) or (
        (_gyration(body) or 0.0) > _farthest(shape, body)
    )


def _slack(shape: LinkShape, bounds: PlausibilityBounds) -> float:
    """Return how far outside of a shape's hull a centre of mass may be [m]."""
    return bounds.outside * float(np.linalg.norm(np.ptp(shape.points, axis=0)))


def _farthest(shape: LinkShape, body: Spread) -> float:
    """Return the distance from a body's centre of mass to the farthest corner of a shape [m]."""
    return float(np.linalg.norm(shape.points - body.centre, axis=1).max())


def _ratio(
    quantity: str, value: float, prior: float, ratios: Interval, slack: float = 0.0
) -> _Check:
    """Compare with the prior's; a difference of ``slack`` [kg] is plausible whatever the ratio."""
    words = f"{value / prior:.3g} times the prior's {prior:.3g} kg"
    lower, upper = min(ratios[0] * prior, prior - slack), max(ratios[1] * prior, prior + slack)
    return quantity, value, (max(0.0, lower), upper), 'kg', words


def _gyration(body: Spread) -> float | None:
    """Radius of gyration [m]; None where its square would be negative."""
    square = 3.0 * body.square
    return float(np.sqrt(square)) if square > 0.0 else None


def _outside(shape: LinkShape, centre: np.ndarray) -> float:
    """Distance of a point from the hull of a shape [m]; negative inside."""
    faces = hull_faces(shape.points)
    return float((faces[:, :3] @ centre + faces[:, 3]).max())


def _implausible(link: str, checks: Iterable[_Check]) -> Iterator[PlausibilityFinding]:
    """Iterate over the values that are not plausible."""
    for quantity, value, (lower, upper), unit, words in checks:
        if value < lower * (1.0 - _RELATIVE_TOLERANCE) or value > upper * (
            1.0 + _RELATIVE_TOLERANCE
        ):
            message = (
                f'{f"{link}: " if link else ""}{quantity.replace("_", " ")} {value:.4g} {unit}, '
                f'plausible is {lower:.4g} to {upper:.4g} {unit} ({words})'
            )
            yield PlausibilityFinding(
                link, quantity, float(value), float(lower), float(upper), unit, message
            )


def nearest_body(vector: np.ndarray) -> np.ndarray | None:
    """
    Return the nearest physical body (10,) of the same mass and centre of mass.

    It is None without a positive mass.  A body without spread in any direction becomes a ball of
    `DENSITY`.
    """
    body = Spread.from_parameters(vector)
    if body is None:
        return None
    if not np.linalg.eigvalsh(body.spread)[-1] > 0.0:
        radius = (3.0 * body.mass / (4.0 * np.pi * DENSITY)) ** (1.0 / 3.0)
        body = replace(body, spread=body.mass * radius**2 / 5.0 * np.eye(3))
    return from_pseudo_inertia(body.thickened())


def shape_body(shape: LinkShape, density: float = DENSITY) -> np.ndarray | None:
    """
    Return the homogeneous body (10,) that fills the hull of a shape; None for a flat one.

    The hull gives centre and spread; the mass is that of the shape's volume at a density [kg/m^3].
    """
    try:
        hull = scipy.spatial.ConvexHull(shape.points)
    except (scipy.spatial.QhullError, ValueError):
        return None
    # tetrahedra between the triangles and a point inside, in homogeneous coordinates
    triangles = hull.points[hull.simplices]
    corners = np.ones((len(triangles), 4, 4))
    corners[:, :3, :3], corners[:, 3, :3] = triangles, shape.points.mean(axis=0)
    volumes = np.abs(np.linalg.det(corners)) / 6.0
    sums = corners.sum(axis=1)
    matrix = np.einsum('k,kai,kaj->ij', volumes, corners, corners)
    matrix += np.einsum('k,ki,kj->ij', volumes, sums, sums)
    return from_pseudo_inertia(matrix / 20.0 * (density * shape.volume / volumes.sum()))


def small_body(neighbours: Sequence[np.ndarray]) -> np.ndarray:
    """
    Return a ball (10,) about the joint that is small beside its neighbours, and as dense.

    Neighbours are physical bodies, (10,) each; without any, the ball has 1 kg.
    """
    known = [body for vector in neighbours if (body := Spread.from_parameters(vector)) is not None]
    mass, square = _BALL[0], 0.0
    if known:
        mass = SMALL * float(np.exp(np.mean([np.log(body.mass) for body in known])))
        square = SMALL ** (2.0 / 3.0) * float(np.mean([body.square for body in known]))
    ball = Spread(mass, np.zeros(3), mass * (square or _BALL[1] ** 2) * np.eye(3))
    return from_pseudo_inertia(ball.thickened())


def repaired_body(
    vector: np.ndarray, shape: LinkShape | None, neighbours: Sequence[np.ndarray]
) -> tuple[np.ndarray, str]:
    """
    Return a physical body (10,) in place of a prior one that is impossible or missing.

    ``neighbours`` are the physical bodies of the links that its link is joined to.  The second
    value says what was done, in words that follow "the prior of link:".
    """
    nearest = nearest_body(vector)
    if nearest is not None:
        return nearest, 'the nearest physical body of its mass and centre of mass'
    filled = None if shape is None else shape_body(shape)
    if filled is not None:
        return filled, f'a body that fills its shapes at {DENSITY:g} kg/m^3'
    mass = f'{SMALL:g} times the mass of its neighbours' if neighbours else f'{_BALL[0]:g} kg'
    return small_body(neighbours), f'a ball of {mass} at the joint'


def joined_links(robot: Robot) -> Mapping[str, tuple[str, ...]]:
    """Return the links that each identified link is joined to, by link."""
    robot = robot.opened
    names = dict(zip(robot.joint_ids, robot.links, strict=True))
    joined: dict[str, list[str]] = {link: [] for link in robot.links}
    for index, link in names.items():
        parent = names.get(int(robot.model.parents[index]))
        if parent is not None:
            joined[link].append(parent)
            joined[parent].append(link)
    return {link: tuple(others) for link, others in joined.items()}
