# SPDX-License-Identifier: Apache-2.0
"""
The best fit that real bodies can have: least squares over all standard parameters, in cones.

What is minimised over the p standard parameters chi is, in units of the residual's variance,

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

from ..errors import one_of, SettingsError
from ..options import option
from ..parameters import ParameterSet
from ..regressors.settings import ModelSettings
from ..robot import Robot
from .bodies import Body, centre_bounds
from .conic import Affine, Infeasible, load_clarabel, minimise, Minimum, unpack
from .entropy import minimise_entropic
from .estimate import Estimate
from .extent import box_faces, hull_faces, link_points, require_points
from .least_squares import evaluate, wls
from .program import LEAST_NOISE, Program, program, whitened
from .system import LinearSystem

_DEAR = 1.2
"""Relative error over that of the free fit from which constraints contradict the recording."""

_ACTIVE = 1e-5
_ROUNDS, _FACES, _OUTSIDE = 40, 3, 1e-9


@dataclass(frozen=True)
class PhysicalSettings:
    """What makes parameters physical, and which of the equally good ones are taken."""

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
    Find the standard parameters of real bodies that fit best.

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
        naming the key of settings that no parameters can meet, a link without shapes where its
        centre of mass is to be inside of them; or where Clarabel is not installed.
    IdentifiabilityError, RecordingError
        as `wls`.

    """
    settings = settings or PhysicalSettings()
    load_clarabel()
    free = wls(system, prior=prior, robot=robot.name)
    factor = whitened(system, free)
    problem = program(
        system, factor, free, robot, prior, settings, model or ModelSettings(), distance
    )
    minimum = _solve(problem, robot, prior, settings)
    values = minimum.z * problem.scale
    # the solver stays on the boundary but for rounding, and a sign may be on its wrong side
    places = prior.layout.indices(name for name in problem.signs if name in prior.layout)
    values[places] = np.maximum(values[places], 0.0)
    found = ParameterSet(prior.layout, values)
    estimate = _estimate(system, free, found)
    moved = float(np.linalg.norm(factor[:, :-1] @ (estimate.base.values - free.base.values)))
    return replace(
        estimate,
        notes=_notes(free, estimate, moved, problem, minimum),
        warnings=(*estimate.warnings, *_misfit(free, estimate)),
    )


def _solve(
    problem: Program, robot: Robot, prior: ParameterSet, settings: PhysicalSettings
) -> Minimum:
    """Solve, adding the faces of hulls as far as the centres of mass come to lie beyond them."""
    faces = _faces(problem.bodies, robot, prior, problem.scale, settings)
    used = {link: np.zeros(len(function.offset), dtype=bool) for link, function in faces.items()}
    if settings.center_of_mass == 'box':
        used = {link: np.ones_like(rows) for link, rows in used.items()}
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


def _minimum(problem: Program, faces: Sequence[Affine], settings: PhysicalSettings) -> Minimum:
    cones = problem.cones
    p = problem.scale.size
    cones = replace(cones, nonnegative=Affine.stack([cones.nonnegative, *faces], p))
    matrix, target = problem.matrix, problem.target
    # what the data leave open is told by the weight alone, and has to be found as well
    tolerance = settings.tolerance * min(1.0, float(np.sqrt(settings.weight)))
    try:
        if settings.divergence == 'euclidean':
            return minimise(matrix, target, cones, tolerance)
        whole = [
            Affine(function.matrix, np.zeros_like(function.offset))
            for function in cones.semidefinite
        ]
        return minimise_entropic(matrix, target, cones, whole, settings.weight, settings.tolerance)
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
    bodies: Sequence[Body],
    robot: Robot,
    prior: ParameterSet,
    scale: np.ndarray,
    settings: PhysicalSettings,
) -> dict[str, Affine]:
    """Bounds of each link's centre of mass."""
    choice = settings.center_of_mass
    if choice == 'free':
        return {}
    points = link_points(robot)
    links = tuple(body.link for body in bodies)
    require_points(points, links, choice)
    faces_of = box_faces if choice == 'box' else hull_faces
    return {
        link: centre_bounds(link, faces_of(points[link]), prior.layout, scale) for link in links
    }


def _estimate(system: LinearSystem, free: Estimate, found: ParameterSet) -> Estimate:
    """Put the physical parameters in the place of the unconstrained ones."""
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
    """Warn where no parameters within the constraints explain the efforts as well as others."""
    dear = max(_DEAR * free.relative_error, 100.0 * LEAST_NOISE)
    if estimate.relative_error <= dear:
        return ()
    return (
        f'the constraints raise the relative error from {free.relative_error:.3g} to '
        f'{estimate.relative_error:.3g} %: efforts of another sign or scale do so, or an '
        'estimation.physical.total_mass, margin or center_of_mass that the robot does not have',
    )


def _notes(
    free: Estimate, estimate: Estimate, moved: float, problem: Program, minimum: Minimum
) -> tuple[str, ...]:
    """Say in words what the constraints did."""
    bodies = [
        body.link
        for body, function in zip(problem.bodies, problem.cones.semidefinite, strict=True)
        if np.linalg.eigvalsh(unpack(function(minimum.z)))[0] < _ACTIVE
    ]
    signs = [
        name
        for name, value in zip(problem.signs, problem.cones.nonnegative(minimum.z), strict=True)
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
    repaired = [body.link for body in problem.bodies if body.repaired]
    if repaired:
        notes.append(
            f"the prior is no physical body at {one_of(repaired)}; the URDF's inertia, or a ball, "
            'is taken to measure the margin by'
        )
    return tuple(notes)
