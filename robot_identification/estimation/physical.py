# SPDX-License-Identifier: Apache-2.0
"""
Weighted least squares over physically consistent standard parameters.

Minimised over the p standard parameters chi is, in units of the residual's variance,

    ||W (G chi) - tau||^2 + weight * divergence(chi, prior),

with the rows of every joint weighed as `wls` weighs them, subject to every link's pseudo-inertia
being positive definite and rotor inertias and friction not being negative (Wensing, Kim and
Slotine, RA-L 2018).  W enters by its R factor alone, so the recording's length does not matter.
The divergence chooses among the fits that are equally good: Euclidean, in the links' own sizes;
or entropic, twice ``tr X - logdet X - 4`` of the pseudo-inertias X relative to the prior's (Lee,
Wensing and Park, "Geometric robot dynamic identification: a convex programming approach", T-RO
2020), which does not depend on the frames that the parameters are written in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import null_space

from ..errors import one_of, SettingsError
from ..model.parameters import ParameterLayout, ParameterSet
from ..model.robot import Robot
from ..options.fields import option
from ..regressor.settings import ModelSettings
from .estimate import Estimate
from .interior_point import (
    Infeasible,
    minimise,
    Minimum,
)
from .least_squares import evaluate, wls
from .link_geometry import (
    box_faces,
    hull_faces,
    link_points,
    require_points,
)
from .physical_constraints import (
    Body,
    body_sizes,
    centre_bounds,
    drive_signs,
    inertia_constraints,
    reference_bodies,
    total_mass,
)
from .semidefinite_program import (
    Affine,
    SemidefiniteProgram,
    unpack,
)
from .system import LinearSystem

_DEAR = 1.2
"""Relative error over that of the free fit from which constraints contradict the recording."""

_LEAST_NOISE = 1e-4
"""Residual that is counted at least, relative to the effort: no sensor is better than this."""

_PROVEN = 1e-3
"""Bound on the distance from the optimum, in standard deviations, above which a note gives it."""

_ACTIVE = 1e-5
_ROUNDS, _FACES, _OUTSIDE = 40, 3, 1e-9


@dataclass(frozen=True)
class PhysicalSettings:
    """Settings of the physically consistent fit."""

    margin: float = option(
        1e-3,
        doc="Share of the prior's body that every link keeps: its pseudo-inertia less this many "
        "times the prior's is positive semidefinite",
        minimum=1e-6,
        maximum=1.0,
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
        minimum=0.0,
    )
    divergence: str = option(
        'euclidean',
        doc="How closeness to the prior is measured: euclidean, by the parameters' differences as "
        'estimation.distance says; or entropic, by the log-det divergence of the pseudo-inertias, '
        'which does not depend on frames and units',
        choices=('euclidean', 'entropic'),
    )
    weight: float = option(
        1e-4,
        doc='What closeness to the prior counts beside the fit: it is as if what the data leave '
        "open were measured, with a standard deviation of 1/sqrt(weight) times each link's own "
        'size',
        minimum=1e-8,
        maximum=1e4,
    )
    tolerance: float = option(
        1e-4,
        doc='How far the solver may stay from the optimum: in standard deviations where the data '
        "tell, in the links' own sizes where they do not",
        minimum=1e-6,
        maximum=1e-1,
    )


@dataclass(frozen=True)
class PhysicalProblem:
    """
    Semidefinite program of a physical fit, in z = parameters / scale.

    Attributes
    ----------
    bodies:
        Reference bodies of the links, in the order of the program's semidefinite constraints.
    scale:
        (p,) sizes of the standard parameters.
    signs:
        Names of the program's nonnegative entries.
    factor:
        (b + 1, b + 1) R of [W | tau], in units of the residual's standard deviation.
    program:
        Least squares in standard deviations, with rows below it for closeness to the prior.

    """

    bodies: tuple[Body, ...]
    scale: np.ndarray
    signs: tuple[str, ...]
    factor: np.ndarray
    program: SemidefiniteProgram


def physical(
    system: LinearSystem,
    robot: Robot,
    prior: ParameterSet,
    settings: PhysicalSettings | None = None,
    *,
    model: ModelSettings | None = None,
    distance: str = 'body',
) -> Estimate:
    """
    Return the physically consistent standard parameters that fit best.

    Parameters
    ----------
    system:
        The rows.
    robot:
        For the links' sizes and shapes.
    prior:
        Standard parameters, over the layout of the system's structure.
    settings:
        See `PhysicalSettings`.
    model:
        Gives the coupled drives.
    distance:
        ``body`` or ``si``, as `EstimationSettings.distance`.

    Returns
    -------
    Estimate
        with ``standard``, the parameters found; ``base``, what they amount to; and the covariance
        of the unconstrained weighted least squares, which is that of the constrained fit where no
        constraint is active.  Elsewhere the errors are smaller taken together, measured by that
        covariance, as the truth is physical; a single one may be larger.

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
    problem = physical_problem(
        system, free, robot, prior, settings, model or ModelSettings(), distance
    )
    minimum = _solve(problem, robot, prior, settings)
    values = minimum.z * problem.scale
    # rounding may leave a parameter at its bound slightly negative
    places = prior.layout.indices(name for name in problem.signs if name in prior.layout)
    values[places] = np.maximum(values[places], 0.0)
    found = ParameterSet(prior.layout, values)
    estimate = _estimate(system, free, found)
    change = estimate.base.values - free.base.values
    moved = float(np.linalg.norm(problem.factor[:, :-1] @ change))
    return replace(
        estimate,
        notes=_notes(free, estimate, moved, problem, minimum),
        warnings=(*estimate.warnings, *_misfit(free, estimate)),
    )


def physical_problem(
    system: LinearSystem,
    free: Estimate,
    robot: Robot,
    prior: ParameterSet,
    settings: PhysicalSettings,
    model: ModelSettings,
    distance: str,
) -> PhysicalProblem:
    """
    Return the program of a physical fit, without bounds of the centres of mass.

    Parameters
    ----------
    system, robot, prior, settings, model, distance:
        As for `physical`.
    free:
        The estimate without constraints.

    """
    layout = prior.layout
    bodies = reference_bodies(robot, prior)
    _check_settings(settings, bodies)
    sizes = body_sizes(bodies, robot, layout)
    regrouping = system.structure.regrouping
    factor = _whitened(system, free)
    closeness = np.sqrt(settings.weight) * _closeness(
        regrouping, free, bodies, layout, sizes, settings, distance
    )
    signs, names = drive_signs(layout, sizes, model)
    inertias = inertia_constraints(bodies, layout, sizes, settings.margin)
    masses = () if settings.total_mass is None else (settings.total_mass,)
    entropic = settings.divergence == 'entropic'
    return PhysicalProblem(
        bodies=bodies,
        scale=sizes,
        signs=names,
        factor=factor,
        program=SemidefiniteProgram(
            matrix=np.vstack([factor[:, :-1] @ (regrouping * sizes), closeness]),
            target=np.concatenate([factor[:, -1], closeness @ (prior.values / sizes)]),
            semidefinite=inertias,
            nonnegative=signs,
            zero=Affine.stack(
                [total_mass(bodies, layout, sizes, mass) for mass in masses], len(layout)
            ),
            entropic=inertia_constraints(bodies, layout, sizes, 0.0) if entropic else (),
            weight=settings.weight if entropic else 0.0,
        ),
    )


def _closeness(
    regrouping: np.ndarray,
    free: Estimate,
    bodies: Sequence[Body],
    layout: ParameterLayout,
    sizes: np.ndarray,
    settings: PhysicalSettings,
    distance: str,
) -> np.ndarray:
    """
    Return rows that measure the distance from the prior where the data leave z open.

    The data decide the base parameters.  So the rows measure the part of z that lies in the null
    space of the regrouping, and base parameters that the recording does not excite.  With the
    entropic divergence, the bodies' parameters are not measured here.
    """
    away = np.ones(len(layout), dtype=bool)
    if settings.divergence == 'entropic':
        for body in bodies:
            away[layout.of(body.link)] = False
    measure = sizes if distance == 'body' else np.ones(len(layout))
    # differences measured by (chi - prior) / measure, with chi = sizes z
    open_ = np.zeros((0, len(layout)))
    if away.any():
        kernel = null_space(regrouping[:, away] * measure[away], rcond=1e-9).T
        open_ = np.zeros((len(kernel), len(layout)))
        open_[:, away] = kernel * (sizes / measure)[away]
    lost = regrouping[~free.excited] * sizes
    norms = np.linalg.norm(lost, axis=1, keepdims=True)
    return np.vstack([open_, lost / np.where(norms > 0.0, norms, 1.0)])


def _whitened(system: LinearSystem, free: Estimate) -> np.ndarray:
    """Return R of [W | tau] in units of the residual's standard deviation."""
    factor = free.weighted(system)
    least = _LEAST_NOISE * np.linalg.norm(factor[:, -1]) / np.sqrt(system.n_independent)
    return factor / max(free.residual_std, least)


def _check_settings(settings: PhysicalSettings, bodies: Sequence[Body]) -> None:
    """Raise if settings plainly cannot be met."""
    if settings.divergence == 'entropic' and all(body.repaired for body in bodies):
        raise SettingsError(
            "'estimation.physical.divergence' is entropic, but no link of the prior is a physical "
            'body to measure from',
            key='estimation.physical.divergence',
            value='entropic',
            remedy='set estimation.prior: urdf, or divergence: euclidean',
        )
    least = settings.margin * sum(body.mass for body in bodies)
    if settings.total_mass is not None and not settings.total_mass > least:
        raise SettingsError(
            f"'estimation.physical.total_mass' is {settings.total_mass:g} kg, but with a margin "
            f'of {settings.margin:g} the links weigh {least:.4g} kg at least',
            key='estimation.physical.total_mass',
            value=settings.total_mass,
            remedy='correct it, or lower estimation.physical.margin',
        )


def _solve(
    problem: PhysicalProblem, robot: Robot, prior: ParameterSet, settings: PhysicalSettings
) -> Minimum:
    """Solve, adding the faces of hulls as far as the centres of mass come to lie beyond them."""
    faces = _faces(problem, robot, prior, settings)
    used = {
        link: np.full(len(function.offset), settings.center_of_mass == 'box')
        for link, function in faces.items()
    }
    for _ in range(_ROUNDS):
        minimum = _minimum(problem, [faces[link].rows(used[link]) for link in faces], settings)
        grown = False
        for link, function in faces.items():
            beyond = np.where(used[link], 0.0, function(minimum.z))
            worst = np.argsort(beyond)[:_FACES]
            worst = worst[beyond[worst] < -_OUTSIDE]
            used[link][worst] = True
            grown |= bool(worst.size)
        if not grown:
            break
    return minimum


def _minimum(
    problem: PhysicalProblem, faces: Sequence[Affine], settings: PhysicalSettings
) -> Minimum:
    program = problem.program
    bounds = Affine.stack([program.nonnegative, *faces], problem.scale.size)
    tolerance = settings.tolerance
    if settings.divergence == 'euclidean':
        # what the data leave open is determined by the weight alone, and has to be found as well
        tolerance *= min(1.0, float(np.sqrt(settings.weight)))
    try:
        return minimise(replace(program, nonnegative=bounds), tolerance)
    except Infeasible:
        key = 'total_mass' if settings.total_mass is not None else 'margin'
        raise SettingsError(
            f"no parameters meet 'estimation.physical.{key}' "
            f'({getattr(settings, key):g}) and the other settings together',
            key=f'estimation.physical.{key}',
            value=getattr(settings, key),
            remedy='correct it, lower the margin, or set center_of_mass: free',
        ) from None


def _faces(
    problem: PhysicalProblem, robot: Robot, prior: ParameterSet, settings: PhysicalSettings
) -> dict[str, Affine]:
    """Return bounds of each link's centre of mass."""
    choice = settings.center_of_mass
    if choice == 'free':
        return {}
    points = link_points(robot)
    links = tuple(body.link for body in problem.bodies)
    require_points(points, links, choice)
    faces_of = box_faces if choice == 'box' else hull_faces
    return {
        link: centre_bounds(link, faces_of(points[link]), prior.layout, problem.scale)
        for link in links
    }


def _estimate(system: LinearSystem, free: Estimate, found: ParameterSet) -> Estimate:
    """Return the estimate with the physical parameters in place of the unconstrained ones."""
    base = system.structure.project(found)
    fit = evaluate(system, base.values)
    with np.errstate(divide='ignore', invalid='ignore'):
        relative_std = 100.0 * free.std / np.abs(base.values)
    return replace(
        free,
        base=base,
        relative_std=relative_std,
        joints=fit.joints,
        relative_error=fit.relative_error,
        raw_relative_error=fit.raw_relative_error,
        method='physical',
        standard=found,
        warnings=tuple(
            text.replace('keeps its prior value', 'is left to the prior') for text in free.warnings
        ),
    )


def _misfit(free: Estimate, estimate: Estimate) -> tuple[str, ...]:
    """Return a warning if the constraints raise the relative error by much."""
    dear = max(_DEAR * free.relative_error, 100.0 * _LEAST_NOISE)
    if estimate.relative_error <= dear:
        return ()
    return (
        f'the constraints raise the relative error from {free.relative_error:.3g} to '
        f'{estimate.relative_error:.3g} %: efforts of another sign or scale do so, or an '
        'estimation.physical.total_mass, margin or center_of_mass that the robot does not have',
    )


def _notes(
    free: Estimate, estimate: Estimate, moved: float, problem: PhysicalProblem, minimum: Minimum
) -> tuple[str, ...]:
    """Return the effects of the constraints in words."""
    program = problem.program
    bodies = [
        body.link
        for body, function in zip(problem.bodies, program.semidefinite, strict=True)
        if np.linalg.eigvalsh(unpack(function(minimum.z)))[0] < _ACTIVE
    ]
    signs = [
        name
        for name, value in zip(problem.signs, program.nonnegative(minimum.z), strict=True)
        if value < _ACTIVE
    ]
    held = [f'the inertia of {one_of(bodies)}'] if bodies else []
    held += [one_of(signs)] if signs else []
    notes = [
        f'being physical moves the base parameters by {moved:.2g} standard deviations in all '
        f'and the relative error from {free.relative_error:.3g} to '
        f'{estimate.relative_error:.3g} %',
        'standard deviations are those of the fit without these constraints',
    ]
    if held:
        notes.append(f'on the boundary of what is physical: {" and ".join(held)}')
    if minimum.error > _PROVEN:
        notes.append(
            'rounding ended the iterations: the fit is proven to lie within '
            f'{minimum.error:.1g} standard deviations of the optimum'
        )
    repaired = [body.link for body in problem.bodies if body.repaired]
    if repaired:
        notes.append(
            f"the prior is no physical body at {one_of(repaired)}; the URDF's inertia, or a ball, "
            'is taken to measure the margin by'
        )
    return tuple(notes)
