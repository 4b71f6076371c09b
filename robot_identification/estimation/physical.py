# SPDX-License-Identifier: Apache-2.0
"""
Physically consistent standard parameters: a maximum a posteriori fit.

Minimised over the p standard parameters chi is

    sum_j |W_j (G chi) - tau_j|^2 / sigma_j^2 + weight sum_k D(P_k, P0_k)

with G the regrouping into base parameters, D the log-det divergence of each link's pseudo-inertia
from the prior's (see `log_det`), and rotor inertias and friction positive.  W enters by its R
factor alone, so the recording's length does not matter.  Data and prior are weighed in the same
currency: sigma_j comes from the fit itself, iterated, and counts rows for as much as the block
bootstrap of the plain fit says they tell.  A URDF says nothing of rotors and friction; they have
no prior but their sign, so that a drive's reflected inertia is not put on its link.  The weight is
found by cross-validation (`prior_strength`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..errors import IdentifiabilityError, one_of
from ..model.consistency import from_pseudo_inertia, pseudo_inertia
from ..model.link_geometry import box_faces, hull_faces, interior_point, link_points
from ..model.parameters import INERTIAL_SYMBOLS, ParameterSet
from ..model.robot import Robot
from ..options.fields import option
from ..regressor.settings import ModelSettings
from .bootstrap import bootstrap, BootstrapSettings
from .estimate import Estimate
from .feasible_start import feasible_start
from .least_squares import evaluate, wls
from .link_constraints import (
    Bounds,
    Box,
    box_bounds,
    contradiction,
    Interval,
    LinkConstraint,
    require_order,
    StatedLinks,
    without,
)
from .log_det import LogDetMinimum, LogDetProblem, minimise
from .physical_constraints import (
    Body,
    centre_bounds,
    drive_signs,
    reference_bodies,
    relative_units,
    require_points,
)
from .prior_strength import choose_strength, Folds, Strength
from .system import LinearSystem

_DEAR = 1.2
"""Relative error over that of the free fit from which constraints contradict the recording."""

_LEAST_NOISE = 1e-4
"""Residual that is counted at least, relative to the effort: no sensor is better than this."""

_BARRIER = 1e-3
"""Weight of the logarithms that keep rotor inertias, friction and bounds positive."""

_UNSEEN = 1e-6
"""Share of the largest column of drives below which the recordings do not see another one."""

_DEFAULT_WEIGHT = 30.0
"""Of the prior where there is nothing to cross-validate on."""

_ROUGH = 1e-2
"""Distance from the minimum [standard deviations] that is enough to compare strengths."""

_ROUNDS, _SETTLED = 10, 0.005
_MASS_STD = 0.01


@dataclass(frozen=True)
class PhysicalSettings:
    """Settings of the physically consistent fit."""

    weight: float | None = option(
        None,
        doc='Strength of the prior of the links: 1/sqrt(2 weight) is about the relative standard '
        'deviation of a mass before anything is measured; null finds it by cross-validation over '
        'stretches of the recordings',
        minimum=1e-3,
        maximum=1e8,
    )
    center_of_mass: str = option(
        'free',
        doc="Where a link's centre of mass may be: anywhere (free), in the box around its shapes "
        'along the axes of its joint frame (box), or in their convex hull (hull); the shapes are '
        "those of the URDF's collision elements, or visual where a link has none",
        choices=('free', 'box', 'hull'),
    )
    total_mass: float | None = option(
        None,
        doc='Mass of all identified links with what hangs on them, weighed; null where it is not '
        'known',
        unit='kg',
        minimum=1e-6,
    )
    total_mass_std: float | None = option(
        None,
        doc='Its standard deviation; null for one per cent of it',
        unit='kg',
        minimum=1e-9,
    )
    relative_mass: tuple[float, float] | None = option(
        None,
        doc="Lowest and highest mass of every link relative to the prior's; null for no bounds",
        minimum=0.0,
    )
    links: tuple[LinkConstraint, ...] = option(
        (), doc='What is known of single links: masses, symmetry, links known exactly'
    )

    def __post_init__(self) -> None:
        require_order('relative_mass', self.relative_mass)

    @property
    def total_mass_deviation(self) -> float | None:
        """Standard deviation of the total mass [kg]; None where that is not known."""
        if self.total_mass is None:
            return None
        return self.total_mass_std or _MASS_STD * self.total_mass

    @property
    def total_mass_interval(self) -> Interval | None:
        """Three standard deviations about the total mass [kg]; None where that is not known."""
        std = self.total_mass_deviation
        if self.total_mass is None or std is None:
            return None
        return self.total_mass - 3.0 * std, self.total_mass + 3.0 * std

    @property
    def masses(self) -> dict[str, Interval]:
        """Intervals of masses that are stated, by link [kg]."""
        return {entry.link: entry.mass for entry in self.links if entry.mass is not None}


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
    known: np.ndarray
    known_values: np.ndarray

    @classmethod
    def of(
        cls, system: LinearSystem, robot: Robot, prior: ParameterSet,
        settings: PhysicalSettings, model: ModelSettings,
        boxes: Mapping[str, Box] | None = None,
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
            known=known,
            known_values=values,
        )

    def problem(self, factor: np.ndarray, weight: float) -> tuple[LogDetProblem, np.ndarray]:
        """
        Return the problem of rows with R ``factor`` of unit noise, and a start inside of it.

        Parameters of drives that no row sees are held at the prior; weak rows measure the others
        there, which decides combinations that no motion tells apart.
        """
        matrix, target = factor[:, :-1] @ self.regrouping, factor[:, -1]
        norms = np.linalg.norm(matrix, axis=0)
        drives = ~self.bodily
        start = self.start.copy()
        unseen = drives & (norms <= _UNSEEN * norms[drives].max(initial=0.0))
        free = drives if self.directions is None else drives & self.directions.any(axis=1)
        signed = np.flatnonzero((self.signs != 0.0).any(axis=0) & free)
        for i in signed:  # a hundredth of the effort each, or the prior
            typical = 1e-3 if unseen[i] else 0.01 * np.linalg.norm(target) / norms[i]
            start[i] = max(start[i], typical)
        start = _inside(self.signs, start)
        strict = 1.0 / np.maximum(np.abs(self.prior), 1e-3)
        held = np.diag(np.where(unseen, strict, _UNSEEN * norms))[drives]
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


def physical(
    system: LinearSystem,
    robot: Robot,
    prior: ParameterSet,
    settings: PhysicalSettings | None = None,
    *,
    model: ModelSettings | None = None,
    boxes: Mapping[str, Box] | None = None,
) -> Estimate:
    """
    Return the most probable physically consistent standard parameters.

    Parameters
    ----------
    system:
        The rows, with their ``blocks`` where the prior's strength is to be found.
    robot:
        For the links' sizes and shapes.
    prior:
        Standard parameters, over the layout of the system's structure.
    settings:
        See `PhysicalSettings`.
    model:
        Gives the coupled drives.
    boxes:
        Lowest and highest values of standard parameters, see `standard_box`.

    Returns
    -------
    Estimate
        with ``standard`` and ``standard_std``, the parameters found and their posterior standard
        deviations; ``base`` and its covariance, what they amount to.

    Raises
    ------
    SettingsError
        naming the key of settings that no parameters can meet, or a link without shapes where its
        centre of mass is to be inside of them.
    IdentifiabilityError, RecordingError
        as `wls`.

    """
    settings = settings or PhysicalSettings()
    free = wls(system, prior=prior, robot=robot.name)
    fit = PhysicalFit.of(system, robot, prior, settings, model or ModelSettings(), boxes)
    inflation = _inflation(system, free)
    folds = Folds.of(system) if settings.weight is None else None
    scales = _row_scales(system, free.base.values, free, inflation)
    if folds is None:
        strength = Strength(settings.weight or _DEFAULT_WEIGHT, np.zeros(0))
    else:
        # the prior's strength depends on the noise of the joints, and that on a sensible fit
        _, scales = _settled(system, fit, _DEFAULT_WEIGHT, scales, free, inflation)
        strength = _strength(fit, folds, scales, system)
    minimum, scales = _settled(system, fit, strength.weight, scales, free, inflation)
    return _estimate(system, free, prior, fit, minimum, strength, scales, inflation)


def _settled(
    system: LinearSystem,
    fit: PhysicalFit,
    weight: float,
    scales: np.ndarray,
    free: Estimate,
    inflation: float,
) -> tuple[LogDetMinimum, np.ndarray]:
    """Return the fit whose residuals have the noise that it assumes, and the rows' scales."""
    start: np.ndarray | None = None
    for _ in range(_ROUNDS):
        minimum = fit.solve(system.stacked(scales), weight, start)
        start, used = minimum.chi, scales
        scales = _row_scales(system, fit.regrouping @ minimum.chi, free, inflation)
        if np.abs(np.log(scales / used)).max() < _SETTLED:
            break
    return minimum, used


def _strength(
    fit: PhysicalFit, folds: Folds, scales: np.ndarray, system: LinearSystem
) -> Strength:
    def solve(
        factor: np.ndarray, weight: float, start: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        chi = fit.solve(factor, weight, start, _ROUGH).chi
        return chi, fit.regrouping @ chi

    return choose_strength(folds, scales, system.driven, solve)


def _inflation(system: LinearSystem, free: Estimate) -> float:
    """Return by how much classical variances are too small, by the block bootstrap; at least 1."""
    if system.blocks is None or free.factor is not None:
        return 1.0
    try:
        drawn = bootstrap(system, free, BootstrapSettings(replicates=200))
    except IdentifiabilityError:
        return 1.0
    known = free.estimated & (free.std > 0.0)
    return max(1.0, float(np.median((drawn.std[known] / free.std[known]) ** 2)))


def _row_scales(
    system: LinearSystem, base: np.ndarray, free: Estimate, inflation: float
) -> np.ndarray:
    """Return what each joint's rows are multiplied with to have unit noise, (n,)."""
    residual = system.factor.residual_norms(base)
    effort = np.linalg.norm(system.factors[:, :, -1], axis=1)
    freedom = max(0.1, 1.0 - system.n_base / system.n_independent)
    rows = np.maximum(1.0, system.independent_rows * freedom)
    noise = np.maximum(residual, _LEAST_NOISE * effort) / np.sqrt(rows)
    usual = free.residual_std / np.asarray(free.weights)
    noise = np.where(system.driven & (noise > 0.0), noise, usual)
    return 1.0 / (noise * np.sqrt(inflation))


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


def _inside(positive: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Raise parameters until all rows are positive: a coupled rotor above its motor's share."""
    start = start.copy()
    for row in positive:
        lack = row @ start
        if lack <= 0.0:
            first = int(np.argmax(row))
            start[first] += (1e-6 - lack) / row[first] + abs(lack / row[first])
    return start


def _estimate(
    system: LinearSystem,
    free: Estimate,
    prior: ParameterSet,
    fit: PhysicalFit,
    minimum: LogDetMinimum,
    strength: Strength,
    scales: np.ndarray,
    inflation: float,
) -> Estimate:
    """Return the estimate with the physical parameters in place of the unconstrained ones."""
    found = ParameterSet(prior.layout, minimum.chi)
    base = system.structure.project(found)
    covariance = minimum.covariance
    of_base = fit.regrouping @ covariance @ fit.regrouping.T
    # what the recordings do not tell counts as not estimated, though the prior gives it a value
    of_base[~free.excited] = of_base[:, ~free.excited] = np.nan
    std = np.sqrt(np.diag(of_base))
    result = evaluate(system, base.values)
    with np.errstate(divide='ignore', invalid='ignore'):
        relative_std = 100.0 * std / np.abs(base.values)
    estimate = replace(
        free,
        base=base,
        covariance=of_base,
        std=std,
        relative_std=relative_std,
        joints=result.joints,
        relative_error=result.relative_error,
        raw_relative_error=result.raw_relative_error,
        weights=scales / scales.max(),
        residual_std=1.0 / scales.max(),
        method='physical',
        standard=found,
        standard_std=np.sqrt(np.diag(covariance)),
    )
    moved = np.linalg.norm(system.stacked(scales)[:, :-1] @ (base.values - free.base.values))
    return replace(
        estimate,
        notes=_notes(free, estimate, float(moved), fit, strength, inflation),
        warnings=(
            *(text.replace('keeps its prior value', 'is left to the prior')
              for text in free.warnings),
            *_misfit(free, estimate),
        ),
    )  # fmt: skip


def _misfit(free: Estimate, estimate: Estimate) -> tuple[str, ...]:
    """Return a warning if the constraints raise the relative error by much."""
    dear = max(_DEAR * free.relative_error, 100.0 * _LEAST_NOISE)
    if estimate.relative_error <= dear:
        return ()
    return (
        f'the constraints raise the relative error from {free.relative_error:.3g} to '
        f'{estimate.relative_error:.3g} %: efforts of another sign or scale do so, or an '
        'estimation.physical.total_mass, links or center_of_mass that the robot does not have',
    )


def _notes(
    free: Estimate,
    estimate: Estimate,
    moved: float,
    fit: PhysicalFit,
    strength: Strength,
    inflation: float,
) -> tuple[str, ...]:
    """Return the effects of prior and constraints in words."""
    notes = [
        f'being physical moves the base parameters by {moved:.2g} standard deviations in all '
        f'and the relative error from {free.relative_error:.3g} to '
        f'{estimate.relative_error:.3g} %',
        f'strength of the prior: {strength.weight:.3g}'
        + (', found by cross-validation' if strength.costs.size else ''),
    ]
    if inflation > 1.0:
        notes.append(
            f'rows count for 1/{inflation:.3g} of what they would if they were independent, by '
            'the block bootstrap; standard deviations are those of the posterior'
        )
    found = estimate.standard
    at_bounds = () if found is None else fit.bounds.reached(found)
    return (*notes, *at_bounds, *_repairs(fit.bodies))


def _repairs(bodies: tuple[Body, ...]) -> tuple[str, ...]:
    """Return what stands in place of impossible priors."""
    return tuple(
        f'the prior is no physical body at '
        f'{one_of(body.link for body in bodies if body.remark == remark)}: {remark} stands in its '
        'place'
        for remark in dict.fromkeys(body.remark for body in bodies if body.repaired)
    )
