# SPDX-License-Identifier: Apache-2.0
"""
Physical bodies in place of prior ones that are impossible or missing.

An impossible body keeps its mass and centre of mass; of the second moments about it, the nearest
positive definite ones are taken (Frobenius norm).  A missing one, or one without a positive mass,
is made of the link's shapes at a common density, or is small beside its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from .consistency import from_pseudo_inertia, pseudo_inertia
from .link_geometry import LinkShape
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
