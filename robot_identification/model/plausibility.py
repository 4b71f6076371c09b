# SPDX-License-Identifier: Apache-2.0
"""
Physical bodies in place of prior ones that are impossible or missing.

An impossible body keeps its mass and centre of mass; of the second moments about it, the nearest
positive definite ones are taken (Frobenius norm).  A missing one, or one without a positive mass,
is made of the link's shapes at a common density, or is small beside its neighbours.

Plausibility: whether parameters that bodies can have are those of a real robot.

A link of 111 kg can exist, and is still none of a robot of 33 kg.  Compared are masses with those
of the prior and with the volumes of the shapes, centres of mass and radii of gyration with the
shapes, and the total mass with that of the prior.  Where the prior itself lies outside of the
bounds that shapes give, the shapes are rough, and the bounds are widened around the prior.

The radius of gyration is k = sqrt(integral of |r - c|^2 dm / m), with c the centre of mass: at
most the distance from c to the farthest corner, and at least that of the densest ball of this
mass, sqrt(3/5) R with m = 4/3 pi R^3 density.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from ..errors import ModelError
from .consistency import from_pseudo_inertia, pseudo_inertia
from .link_geometry import hull_faces, link_shapes, LinkShape
from .parameters import body_links, ParameterSet
from .robot import Robot

DENSITY = 1200.0
"""
Of a link by the volume of its shapes [kg/m^3]: about the median of the arms of example-robot-data.
"""

SMALL = 0.1
"""Mass of a body of which nothing is known, by that of its neighbours."""

LEAST_SPREAD = 1e-2
"""
Smallest second moment of a repaired body, relative to its largest: a tenth of the length.
"""

_ROUNDING = 1e-9

_BALL = (1.0, 0.05)
"""Mass [kg] and spread [m] of a body without neighbours."""


@dataclass(frozen=True)
class Spread:
    """
    A body: mass, centre of mass and second moments of mass about it.

    Attributes
    ----------
    mass:
        [kg].
    centre:
        (3,) [m].
    spread:
        (3, 3) [kg m^2].

    """

    mass: float
    centre: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, vector: np.ndarray) -> Spread | None:
        """Take ten inertial parameters apart; None without a positive mass."""
        matrix = pseudo_inertia(vector)
        mass = float(matrix[3, 3])
        if not mass > 0.0:
            return None
        centre = matrix[:3, 3] / mass
        return cls(mass, centre, matrix[:3, :3] - mass * np.outer(centre, centre))

    @classmethod
    def ball(cls, mass: float, square: float) -> Spread:
        """Return a ball about the origin, ``square``: mean square of each coordinate [m^2]."""
        return cls(mass, np.zeros(3), mass * square * np.eye(3))

    @property
    def physical(self) -> bool:
        """True if it is a body, be it flat or a point."""
        about = np.trace(self.spread) + self.mass * self.centre @ self.centre
        return bool(np.linalg.eigvalsh(self.spread)[0] >= -_ROUNDING * abs(about))

    @property
    def square(self) -> float:
        """Mean square of a coordinate of its mass [m^2]."""
        return float(np.trace(self.spread)) / (3.0 * self.mass)

    def thickened(self, square: float = 0.0) -> np.ndarray:
        """
        Return the pseudo-inertia of a body that is at least `LEAST_SPREAD` thick.

        Parameters
        ----------
        square:
            Mean square [m^2] that the least spread is relative to, too.

        """
        values, axes = np.linalg.eigh(self.spread)
        values = np.maximum(values, LEAST_SPREAD * max(values[-1], self.mass * square))
        matrix = np.empty((4, 4))
        matrix[:3, 3] = matrix[3, :3] = self.mass * self.centre
        matrix[3, 3] = self.mass
        shift = self.mass * np.outer(self.centre, self.centre)
        matrix[:3, :3] = (axes * values) @ axes.T + shift
        return matrix


def nearest_body(vector: np.ndarray) -> np.ndarray | None:
    """
    Return the nearest physical body of the same mass and centre of mass.

    Parameters
    ----------
    vector:
        (10,) in the order of `INERTIAL_SYMBOLS`.

    Returns
    -------
    np.ndarray or None
        (10,); None where there is no positive mass.  A body without spread in any direction
        becomes a ball of `DENSITY`.

    """
    body = Spread.of(vector)
    if body is None:
        return None
    if not np.linalg.eigvalsh(body.spread)[-1] > 0.0:
        radius = (3.0 * body.mass / (4.0 * np.pi * DENSITY)) ** (1.0 / 3.0)
        body = replace(body, spread=body.mass * radius**2 / 5.0 * np.eye(3))
    return from_pseudo_inertia(body.thickened())


def shape_body(shape: LinkShape, density: float = DENSITY) -> np.ndarray | None:
    """
    Return the homogeneous body that fills the hull of a shape.

    Parameters
    ----------
    shape:
        Its hull gives centre and spread, its volume the mass.
    density:
        [kg/m^3].

    Returns
    -------
    np.ndarray or None
        (10,) in the order of `INERTIAL_SYMBOLS`; None for a flat shape.

    """
    try:
        hull = scipy.spatial.ConvexHull(shape.points)
    except (scipy.spatial.QhullError, ValueError):
        return None
    # tetrahedra between the triangles and a point inside: second moments about that point
    inside = shape.points.mean(axis=0)
    corners = hull.points[hull.simplices] - inside
    volumes = np.abs(np.linalg.det(corners)) / 6.0
    sums = corners.sum(axis=1)
    moments = np.einsum('k,ki->i', volumes, sums) / 4.0
    squares = np.einsum('k,kai,kaj->ij', volumes, corners, corners)
    squares += np.einsum('k,ki,kj->ij', volumes, sums, sums)
    matrix = np.empty((4, 4))
    matrix[:3, :3], matrix[3, 3] = squares / 20.0, volumes.sum()
    matrix[:3, 3] = matrix[3, :3] = moments
    shift = np.eye(4)
    shift[:3, 3] = inside
    matrix *= density * shape.volume / volumes.sum()
    return from_pseudo_inertia(shift @ matrix @ shift.T)


def small_body(neighbours: Sequence[np.ndarray]) -> np.ndarray:
    """
    Return a ball about the joint that is small beside its neighbours, and as dense.

    Parameters
    ----------
    neighbours:
        (10,) inertial parameters of physical bodies; without any, it is a ball of 1 kg.

    """
    known = [body for vector in neighbours if (body := Spread.of(vector)) is not None]
    if not known:
        mass, radius = _BALL
        return from_pseudo_inertia(Spread.ball(mass, radius**2).thickened())
    mass = SMALL * float(np.exp(np.mean([np.log(body.mass) for body in known])))
    square = SMALL ** (2.0 / 3.0) * float(np.mean([body.square for body in known]))
    return from_pseudo_inertia(Spread.ball(mass, square or _BALL[1] ** 2).thickened())


def repaired_body(
    vector: np.ndarray, shape: LinkShape | None, neighbours: Sequence[np.ndarray]
) -> tuple[np.ndarray, str]:
    """
    Return a physical body in place of one that is impossible or missing.

    Parameters
    ----------
    vector:
        (10,) the prior.
    shape:
        Of the link; None where it has none.
    neighbours:
        (10,) each, physical bodies of the links that it is joined to.

    Returns
    -------
    tuple
        (10,) inertial parameters and what was done, in words that follow "the prior of link:".

    """
    nearest = nearest_body(vector)
    if nearest is not None:
        return nearest, 'the nearest physical body of its mass and centre of mass'
    filled = None if shape is None else shape_body(shape)
    if filled is not None:
        return filled, f'a body that fills its shapes at {DENSITY:g} kg/m^3'
    if neighbours:
        words = f'a ball of {SMALL:g} times the mass of its neighbours at the joint'
    else:
        words = f'a ball of {_BALL[0]:g} kg at the joint'
    return small_body(neighbours), words


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


Interval = tuple[float, float]
"""Lowest and highest value."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class PlausibilityBounds:
    """
    Bounds of what is plausible.

    Attributes
    ----------
    mass_ratio:
        Of a link's mass to the prior's.
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
    total_mass_ratio: Interval = (1.0 / 1.5, 1.5)
    density: Interval = (500.0, 8000.0)
    outside: float = 0.05
    widening: float = 2.5


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
        In SI.
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
    """
    Findings about all links, the result of `plausibility`.

    Attributes
    ----------
    findings:
        Empty where everything is plausible.
    remarks:
        What could not be compared.

    """

    findings: tuple[PlausibilityFinding, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def plausible(self) -> bool:
        """True if nothing was found."""
        return not self.findings

    def summary(self) -> str:
        """Return the verdict, the findings and the remarks, a line each."""
        verdict = 'plausible' if self.plausible else 'NOT plausible'
        lines = [f'Plausibility: {verdict}']
        lines += [finding.message for finding in self.findings]
        return '\n'.join([*lines, *self.remarks])


def plausibility(
    parameters: ParameterSet,
    prior: ParameterSet | None = None,
    shapes: Mapping[str, LinkShape] | None = None,
    *,
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
        By link.
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
    links = [link for link in body_links(parameters.layout) if parameters.inertial(link).any()]
    for link in links:
        found = _Body.of(parameters, link)
        before = None if prior is None else _Body.of(prior, link)
        findings += _mass(link, found, before, masses.get(link), bounds)
        findings += _form(link, found, before, shapes.get(link), bounds)
    if links:
        findings += _total(links, parameters, prior, total_mass, bounds)
    bare = [link for link in links if link not in shapes]
    remarks = (f'without shapes to compare with: {", ".join(bare)}',) if bare else ()
    return PlausibilityReport(tuple(findings), remarks)


def robot_shapes(robot: Robot) -> dict[str, LinkShape]:
    """Return the shapes of a robot's links; none where they cannot be read."""
    try:
        return link_shapes(robot)
    except ModelError:
        return {}


@dataclass(frozen=True)
class _Body:
    """Mass [kg], centre of mass (3,) and radius of gyration [m]; NaN where there is none."""

    mass: float
    centre: np.ndarray = field(default_factory=lambda: np.full(3, np.nan))
    gyration: float = np.nan

    @classmethod
    def of(cls, parameters: ParameterSet, link: str) -> _Body:
        if f'{link}.m' not in parameters.layout:
            return cls(0.0)
        matrix = pseudo_inertia(parameters.inertial(link))
        mass = float(matrix[3, 3])
        if not mass > 0.0:
            return cls(mass)
        centre = matrix[:3, 3] / mass
        square = float(np.trace(matrix[:3, :3])) / mass - centre @ centre
        return cls(mass, centre, float(np.sqrt(square)) if square > 0.0 else np.nan)


def _mass(
    link: str, found: _Body, before: _Body | None, known: Interval | None,
    bounds: PlausibilityBounds,
) -> Iterator[PlausibilityFinding]:  # fmt: skip
    if known is None and (before is None or not before.mass > 0.0):
        return
    if known is not None:
        lower, upper = known
        words = 'as stated'
    else:
        assert before is not None
        lower, upper = (ratio * before.mass for ratio in bounds.mass_ratio)
        words = f"{found.mass / before.mass:.3g} times the prior's {before.mass:.3g} kg"
    if not lower * (1.0 - _ROUNDING) <= found.mass <= upper * (1.0 + _ROUNDING):
        yield _finding(link, 'mass', found.mass, lower, upper, 'kg', words)


def _form(
    link: str, found: _Body, before: _Body | None, shape: LinkShape | None,
    bounds: PlausibilityBounds,
) -> Iterator[PlausibilityFinding]:  # fmt: skip
    """Yield what is found of a link's density, centre of mass and radius of gyration."""
    if not found.mass > 0.0:
        return
    before = before if before is not None and before.mass > 0.0 else _Body(np.nan)
    if shape is not None and shape.volume > 0.0:
        lower, upper = _widened(bounds.density, before.mass / shape.volume, bounds)
        density = found.mass / shape.volume
        if not lower <= density <= upper:
            words = f'{found.mass:.3g} kg in shapes of {1e3 * shape.volume:.3g} dm^3'
            yield _finding(link, 'density', density, lower, upper, 'kg/m^3', words)
    if shape is not None:
        diagonal = float(np.linalg.norm(np.ptp(shape.points, axis=0)))
        slack = bounds.outside * diagonal
        beyond, usual = (_outside(shape, body.centre) for body in (found, before))
        upper = slack if not usual > slack else usual + slack
        if beyond > upper:
            words = 'outside of the hull of its shapes'
            yield _finding(link, 'centre_of_mass', beyond, 0.0, upper, 'm', words)
    yield from _gyration(link, found, before, shape, bounds)


def _gyration(
    link: str, found: _Body, before: _Body, shape: LinkShape | None, bounds: PlausibilityBounds
) -> Iterator[PlausibilityFinding]:
    ball = (3.0 * found.mass / (4.0 * np.pi * bounds.density[1])) ** (1.0 / 3.0)
    if shape is not None:
        reach = float(np.linalg.norm(shape.points - found.centre, axis=1).max())
    else:
        reach = np.inf if np.isnan(before.gyration) else bounds.widening * before.gyration
    lower, upper = _widened((np.sqrt(0.6) * ball, reach), before.gyration, bounds)
    if found.gyration < lower:
        words = f'as of a ball denser than {bounds.density[1]:g} kg/m^3'
        yield _finding(link, 'radius_of_gyration', found.gyration, lower, upper, 'm', words)
    elif found.gyration > upper:
        words = 'larger than its shapes' if shape is not None else "against the prior's"
        yield _finding(link, 'radius_of_gyration', found.gyration, lower, upper, 'm', words)


def _total(
    links: list[str], parameters: ParameterSet, prior: ParameterSet | None,
    known: Interval | None, bounds: PlausibilityBounds,
) -> Iterator[PlausibilityFinding]:  # fmt: skip
    total = sum(parameters[f'{link}.m'] for link in links)
    before = 0.0 if prior is None else sum(prior.get(f'{link}.m') for link in links)
    if known is not None:
        (lower, upper), words = known, 'as weighed'
    elif before > 0.0:
        lower, upper = (ratio * before for ratio in bounds.total_mass_ratio)
        words = f"{total / before:.3g} times the prior's {before:.3g} kg"
    else:
        return
    if not lower <= total <= upper:
        yield _finding('', 'total_mass', total, lower, upper, 'kg', words)


def _outside(shape: LinkShape, centre: np.ndarray) -> float:
    """Distance of a point from the hull of a shape [m]; negative inside, NaN without a point."""
    faces = hull_faces(shape.points)
    return float((faces[:, :3] @ centre + faces[:, 3]).max())


def _widened(interval: Interval, prior: float, bounds: PlausibilityBounds) -> Interval:
    """Widen bounds around a prior that does not keep them; NaN for none."""
    lower, upper = interval
    if prior < lower:
        lower = prior / bounds.widening
    if prior > upper:
        upper = prior * bounds.widening
    return lower, upper


def _finding(
    link: str, quantity: str, value: float, lower: float, upper: float, unit: str, words: str
) -> PlausibilityFinding:
    name = quantity.replace('_', ' ')
    owner = f'{link}: ' if link else ''
    span = f'{lower:.4g} to {upper:.4g} {unit}'
    message = f'{owner}{name} {value:.4g} {unit}, plausible is {span} ({words})'
    return PlausibilityFinding(
        link, quantity, float(value), float(lower), float(upper), unit, message
    )
