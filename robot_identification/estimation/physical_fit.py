# SPDX-License-Identifier: Apache-2.0
"""
The physically consistent fit for given noise and strength of the prior: a log-det problem.

Built once of robot, prior and settings; the rows enter by their R factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..model.consistency import from_pseudo_inertia, pseudo_inertia
from ..model.link_geometry import box_faces, hull_faces, interior_point, link_points
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from ..model.robot import Robot
from ..regressor.joint_terms import SPRING_SYMBOLS
from ..regressor.settings import ModelSettings
from .bounds import Bounds, box_bounds, contradiction, Interval
from .link_constraints import StatedLinks, without
from .log_det import feasible_start, LogDetMinimum, LogDetProblem, minimise
from .physical_constraints import (
    Body,
    centre_bounds,
    drive_signs,
    reference_bodies,
    relative_units,
    require_points,
    signed_start,
)
from .physical_settings import PhysicalSettings
from .system import LinearSystem

_BARRIER = 1e-3
"""Weight of the logarithms that keep rotor inertias, friction and bounds positive."""

LOAD_FRICTION_SPREAD = 0.2
"""
Standard deviation of friction by load, as a share of the load, before anything is measured.

Gears lose 2 to 20 %.  A joint that carries next to nothing would have any value otherwise.
"""

_UNSEEN = 1e-6
"""Share of the largest column of drives below which the recordings do not see another one."""


@dataclass(frozen=True)
class PhysicalFit:
    """
    The parts of the problem that do not depend on the rows.

    Attributes
    ----------
    regrouping:
        (b, p) from standard to base parameters.
    prior:
        (p,) standard parameters.
    start:
        (p,) parameters inside of all constraints.
    bodies:
        Reference bodies of the n links that are not pinned.
    places:
        (n, 10) int, columns of each body's parameters.
    units:
        (n, 10, 4, 4) relative pseudo-inertias of a unit of each.
    fixed:
        (n, 10) parameters of pinned bodies that are fixed to the links.
    bodily:
        (p,) bool, inertial parameters of links.
    signs:
        (s, p) rows of drives whose products with the parameters are positive.
    bounds:
        Further rows, with their keys.
    directions:
        (p, q) basis of the changes that keep all equations; None for no equations.
    spreads:
        (p,) standard deviations of the drives' parameters before anything is measured; infinite
        for those without.
    known, known_values:
        (m, p) and (m,) further rows in standard deviations: a mass that was weighed.

    """

    regrouping: np.ndarray
    prior: np.ndarray
    start: np.ndarray
    bodies: tuple[Body, ...]
    places: np.ndarray
    units: np.ndarray
    fixed: np.ndarray
    bodily: np.ndarray
    signs: np.ndarray
    bounds: Bounds
    directions: np.ndarray | None
    spreads: np.ndarray
    known: np.ndarray
    known_values: np.ndarray

    @classmethod
    def of(
        cls, system: LinearSystem, robot: Robot, prior: ParameterSet,
        settings: PhysicalSettings, model: ModelSettings,
        boxes: Mapping[str, Interval] | None = None,
    ) -> PhysicalFit:  # fmt: skip
        """Set up the fit; raises `SettingsError` where settings cannot be met."""
        layout = prior.layout
        references = reference_bodies(robot, prior)
        stated = StatedLinks.of(robot, prior, settings.links, settings.relative_mass)
        bodies = tuple(
            without(body, stated.fixed[body.link]) if body.link in stated.fixed else body
            for body in references
            if body.link not in stated.pinned
        )
        columns = np.arange(len(layout))
        places = np.array([columns[layout.of(body.link)] for body in bodies], dtype=int)
        places = places.reshape(-1, len(INERTIAL_SYMBOLS))
        bodily = np.zeros(len(layout), dtype=bool)
        for link in layout.links:
            bodily[layout.of(link)] = True
        fixed = np.zeros(places.shape)
        faces = _centre_faces(robot, bodies, settings)
        start = np.array(prior.values)
        for i, (body, place) in enumerate(zip(bodies, places, strict=True)):
            fixed[i] = stated.fixed.get(body.link, 0.0)
            start[place] = from_pseudo_inertia(stated.body(body.link, body.pseudo_inertia))
            if body.link in faces and body.link not in {*stated.fixed, *stated.symmetries}:
                start[place] = _moved_inside(start[place], faces[body.link])
            start[place] += fixed[i]
        signs, _ = drive_signs(layout, model)
        box, held = box_bounds(layout, boxes or {}, start)
        signs = signs[(signs[:, ~held] != 0.0).any(axis=1)]
        bounds = stated.mass_bounds(layout) + box
        for link, planes in faces.items():
            rows = centre_bounds(link, planes, layout)
            key = 'estimation.physical.center_of_mass'
            bounds += Bounds(rows, np.zeros(len(rows)), (key,) * len(rows))
        directions = stated.directions(layout, held)
        known, values = np.zeros((0, len(layout))), np.zeros(0)
        std = settings.total_mass_deviation
        if settings.total_mass is not None and std is not None:
            stated.require_total(settings.total_mass, std, prior)
            known = np.zeros((1, len(layout)))
            known[0, [layout.of(body.link).start for body in references]] = 1.0 / std
            values = np.array([settings.total_mass / std])
        return cls(
            regrouping=system.structure.regrouping,
            prior=np.array(prior.values),
            start=start,
            bodies=bodies,
            places=places,
            units=relative_units(bodies),
            fixed=fixed,
            bodily=bodily,
            signs=signs,
            bounds=bounds,
            directions=None if directions.shape[1] == len(layout) else directions,
            spreads=_spreads(system, layout),
            known=known,
            known_values=values,
        )

    def problem(self, factor: np.ndarray, weight: float) -> tuple[LogDetProblem, np.ndarray]:
        """
        Return the problem of rows with R ``factor`` of unit noise, and a start inside of it.

        Parameters of drives that no row sees are held at the prior; weak rows measure the others
        there, which decides combinations that no motion tells apart.  For springs, these rows have
        their own standard deviation, so that gravity on bodies and springs share what the
        recordings do not tell apart as their priors have it.
        """
        matrix, target = factor[:, :-1] @ self.regrouping, factor[:, -1]
        norms = np.linalg.norm(matrix, axis=0)
        drives = ~self.bodily
        start = self.start.copy()
        unseen = drives & (norms <= _UNSEEN * norms[drives].max(initial=0.0))
        free = drives if self.directions is None else drives & self.directions.any(axis=1)
        # a hundredth of the effort each, or the prior
        sizes = 0.01 * np.linalg.norm(target) / np.where(norms > 0.0, norms, 1.0)
        typical = np.where(unseen, 1e-3, sizes)
        start = signed_start(self.signs, start, typical, free)
        strict = 1.0 / np.maximum(np.abs(self.prior), 1e-3)
        weak = np.maximum(_UNSEEN * norms, 1.0 / self.spreads)
        held = np.diag(np.where(unseen, strict, weak))[drives]
        problem = LogDetProblem(
            matrix=np.vstack([matrix, self.known, held]),
            target=np.concatenate([target, self.known_values, held @ self.prior]),
            places=self.places,
            units=self.units,
            weight=weight,
            positive=np.vstack([self.signs, self.bounds.rows]),
            barrier=_BARRIER,
            offsets=np.append(np.zeros(len(self.signs)), self.bounds.offsets),
            fixed=self.fixed,
            directions=self.directions,
        )
        inside = feasible_start(problem, start)
        if inside is None:
            raise contradiction(problem.margins(start)[len(self.signs) :], self.bounds)
        return problem, inside

    def solve(
        self,
        factor: np.ndarray,
        weight: float,
        start: np.ndarray | None = None,
        tolerance: float = 1e-6,
    ) -> LogDetMinimum:
        """Return the fit to rows with R ``factor`` of unit noise."""
        problem, inside = self.problem(factor, weight)
        if start is None:
            return minimise(problem, inside, tolerance)
        return minimise(problem, start, tolerance, near=True)


def _spreads(system: LinearSystem, layout: ParameterLayout) -> np.ndarray:
    """
    Return (p,) prior standard deviations of springs and of friction by load.

    That of a spring is the RMS effort of its joint.
    """
    squares = (system.factors[:, :, -1] ** 2).sum(axis=1) / np.maximum(1, system.rows)
    usual = dict(zip(system.joints, np.sqrt(squares).tolist(), strict=True))
    spreads = np.full(len(layout), np.inf)
    for i, name in enumerate(layout):
        joint, _, symbol = name.rpartition('.')
        if symbol in SPRING_SYMBOLS and usual.get(joint, 0.0) > 0.0:
            spreads[i] = usual[joint]
        elif symbol == 'fl':
            spreads[i] = LOAD_FRICTION_SPREAD
    return spreads


def _centre_faces(
    robot: Robot, bodies: tuple[Body, ...], settings: PhysicalSettings
) -> dict[str, np.ndarray]:
    """Return the faces that bound each link's centre of mass, (k, 4) each."""
    choice = settings.center_of_mass
    if choice == 'free':
        return {}
    points = link_points(robot)
    links = tuple(body.link for body in bodies)
    require_points(points, links, choice)
    faces_of = box_faces if choice == 'box' else hull_faces
    return {link: faces_of(points[link]) for link in links}


def _moved_inside(inertial: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return a body with its centre of mass inside of faces: as it is, or moved there."""
    centre = inertial[1:4] / inertial[0]
    if (faces[:, :3] @ centre + faces[:, 3] < -1e-9).all():
        return inertial
    shift = np.eye(4)
    shift[:3, 3] = interior_point(faces) - centre
    return from_pseudo_inertia(shift @ pseudo_inertia(inertial) @ shift.T)
