# SPDX-License-Identifier: Apache-2.0
"""The least squares over what real bodies can have, written down for the solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import null_space

from ..errors import SettingsError
from ..parameters import ParameterLayout, ParameterSet
from ..regressors.settings import ModelSettings
from ..robot import Robot
from .bodies import Body, body_sizes, drive_signs, inertia_cones, reference_bodies, total_mass
from .conic import Affine, Cones
from .estimate import Estimate
from .system import LinearSystem

if TYPE_CHECKING:
    from .physical import PhysicalSettings

LEAST_NOISE = 1e-4
"""Residual that is counted at least, relative to the effort: no sensor is better than this."""


@dataclass(frozen=True)
class Program:
    """
    What is solved: least squares in z = parameters / scale, within cones.

    Attributes
    ----------
    bodies:
        Reference bodies of the links.
    scale:
        (p,) sizes of the standard parameters.
    matrix, target:
        (m, p) and (m,): the rows in standard deviations, and below them closeness to the prior.
    cones:
        What z keeps to.
    signs:
        Names of what may not be negative.

    """

    bodies: tuple[Body, ...]
    scale: np.ndarray
    matrix: np.ndarray
    target: np.ndarray
    cones: Cones
    signs: tuple[str, ...]


def program(
    system: LinearSystem,
    factor: np.ndarray,
    free: Estimate,
    robot: Robot,
    prior: ParameterSet,
    settings: PhysicalSettings,
    model: ModelSettings,
    distance: str,
) -> Program:
    """
    Write down the program.

    Parameters
    ----------
    system, robot, prior, settings, model, distance:
        As for `physical`.
    factor:
        (b + 1, b + 1) R of [W | tau], in units of the residual's standard deviation.
    free:
        The estimate without constraints.

    """
    layout = prior.layout
    bodies = reference_bodies(robot, prior)
    _check_settings(settings, bodies)
    sizes = body_sizes(bodies, robot, layout)
    closeness = np.sqrt(settings.weight) * _closeness(
        system.structure.regrouping, free, bodies, layout, sizes, settings, distance
    )
    signs, names = drive_signs(layout, sizes, model)
    masses = () if settings.total_mass is None else (settings.total_mass,)
    return Program(
        bodies=bodies,
        scale=sizes,
        matrix=np.vstack([factor[:, :-1] @ (system.structure.regrouping * sizes), closeness]),
        target=np.concatenate([factor[:, -1], closeness @ (prior.values / sizes)]),
        cones=Cones(
            semidefinite=inertia_cones(bodies, layout, sizes, settings.margin),
            nonnegative=signs,
            zero=Affine.stack(
                [total_mass(bodies, layout, sizes, mass) for mass in masses], len(layout)
            ),
        ),
        signs=names,
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
    Rows that measure how far from the prior z is, in what the data leave open, and in that only.

    Differences in the base parameters are the data's to decide.  So what is measured is the part
    of z that lies in the null space of the regrouping, and base parameters that the recording does
    not reach.  With the entropic divergence, the bodies' parameters are not measured here.
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


def whitened(system: LinearSystem, free: Estimate) -> np.ndarray:
    """R of [W | tau] in units of the residual's standard deviation."""
    factor = free.weighted(system)
    least = LEAST_NOISE * np.linalg.norm(factor[:, -1]) / np.sqrt(system.n_independent)
    return factor / max(free.residual_std, least)


def _check_settings(settings: PhysicalSettings, bodies: Sequence[Body]) -> None:
    """Raise where settings cannot be met, as far as that is plain."""
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
