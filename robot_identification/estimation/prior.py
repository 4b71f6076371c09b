# SPDX-License-Identifier: Apache-2.0
"""
Standard parameters nearest to a prior among all that fit equally well.

Gautier and Venture, "Identification of standard dynamic parameters of robots with positive
definite inertia matrix" (IROS 2013), section IV.  There, the singular value decomposition is taken
of the stacked regressor W; here of the regrouping matrix G, for which W chi = W_b (G chi): it has
the same null space, is known from the structure, and carries no noise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SettingsError
from ..model.parameters import ParameterLayout, ParameterSet
from ..model.robot import Robot
from ..options.fields import LARGEST
from ..regressor.base_parameters import BaseStructure
from ..regressor.joint_terms import SPRING_SYMBOLS
from ..untrusted.files import user_path
from .bounds import read_mapping
from .estimate import Estimate
from .least_squares import solve
from .system import LinearSystem

_TOLERANCE = 1e-9  # of a coefficient, below which it is rounding


def standard(
    estimate: Estimate | ParameterSet,
    structure: BaseStructure,
    prior: ParameterSet | None = None,
    *,
    scale: np.ndarray | None = None,
) -> ParameterSet:
    """
    Return the standard parameters nearest to a prior that have the estimated base parameters.

    Eq. (30): chi = chi_ref + G^+ (beta - G chi_ref), with the pseudo-inverse by singular value
    decomposition.  Every chi with G chi = beta predicts the same effort on every motion; this one
    has the smallest ||(chi - chi_ref) / scale||.

    Parameters
    ----------
    estimate:
        An estimate, or its base parameters alone.
    structure:
        Relates standard and base parameters.
    prior:
        chi_ref, over the structure's layout; None stands for zeros, which is eq. (26).
    scale:
        (p,) positive sizes by which changes are measured.  None measures them in SI units as the
        paper does: a kilogram counts as much as a kg m^2 or a N m, so that small products of
        inertia change less than masses in proportion to their leverage on the effort;
        `body_scale` measures them by the links' own sizes.

    """
    base = estimate.base if isinstance(estimate, Estimate) else estimate
    reference = _reference(structure, prior)
    inverse = regrouping_inverse(structure, scale)
    difference = base.values - structure.regrouping @ reference
    values = reference + inverse @ difference
    # one step of refinement: what rounding left of the base parameters is put right
    values += inverse @ (base.values - structure.regrouping @ values)
    return ParameterSet(structure.layout, values)


def body_scale(robot: Robot, layout: ParameterLayout) -> np.ndarray:
    """
    Return the sizes, (p,), by which each link's parameters are measured in the links' own units.

    A link of mass m and radius of gyration r in the URDF has m for its mass, m r for first moments
    and m r^2 for inertias and for the rotor inertia of its joint, and m r g for the joint's
    springs, so that the nearest parameters do not depend on the units of length and mass, and a
    wrist's inertias do not pay for an upper arm's.  Links without inertia take the mean of the
    others; other parameters have 1.
    """
    scale = np.ones(len(layout))
    robot = robot.opened
    gravity = float(np.linalg.norm(robot.gravity))
    inertias = [robot.model.inertias[i] for i in robot.joint_ids]
    sizes = np.array([(body.mass, 0.5 * np.trace(body.inertia)) for body in inertias])
    known = (sizes > 0.0).all(axis=1)
    if not known.any():
        return scale
    sizes[~known] = sizes[known].mean(axis=0)
    for joint, link, (mass, moment) in zip(robot.joints, robot.links, sizes, strict=True):
        if f'{link}.m' in layout:
            scale[layout.slice_of(link)] = [mass, *[np.sqrt(mass * moment)] * 3, *[moment] * 6]
        if f'{joint}.Ia' in layout:
            scale[layout.index(f'{joint}.Ia')] = moment
        for name in (f'{joint}.{symbol}' for symbol in SPRING_SYMBOLS):
            if name in layout and gravity > 0.0:
                scale[layout.index(name)] = gravity * np.sqrt(mass * moment)
    return scale


def standard_covariance(estimate: Estimate, structure: BaseStructure) -> np.ndarray:
    """
    Return the covariance of the standard parameters that the data alone determine, (p, p).

    It is NaN in rows and columns of parameters that depend on the prior: the ones that cannot be
    determined by any motion, or only in combination, or not from this recording.
    """
    inverse = regrouping_inverse(structure, None)
    projector = inverse @ structure.regrouping
    p = len(structure.layout)
    alone = np.abs(projector - np.eye(p)).max(axis=1) < _TOLERANCE
    known = estimate.was_free
    covariance = np.where(known[:, None] & known, estimate.uncertainty.covariance, 0.0)
    sizes = np.abs(inverse)
    used = sizes > _TOLERANCE * sizes.max(axis=1, keepdims=True)
    determined = alone & ~(used & ~known).any(axis=1)
    found = np.full((p, p), np.nan)
    rows = inverse[determined]
    found[np.ix_(determined, determined)] = rows @ covariance @ rows.T
    return found


def standard_base_columns(
    estimate: Estimate | ParameterSet,
    structure: BaseStructure,
    prior: ParameterSet | None = None,
) -> ParameterSet:
    """
    Return the prior corrected in the independent parameters alone.

    Eq. (30) with the base columns W_b in place of W, which is how Table II of the paper comes
    about: parameters that base parameters are not named after keep the prior's value.  Which they
    are depends on the structure's grouping.
    Parameters are as in `standard`.
    """
    base = estimate.base if isinstance(estimate, Estimate) else estimate
    values = _reference(structure, prior)
    values[np.asarray(structure.independent)] += base.values - structure.regrouping @ values
    return ParameterSet(structure.layout, values)


def standard_essential(
    system: LinearSystem,
    estimate: Estimate,
    structure: BaseStructure,
    prior: ParameterSet | None = None,
) -> ParameterSet:
    """
    Return the prior corrected in the essential parameters alone.

    Eq. (32).  Because the essential columns are independent, the weighting by their values that
    the paper writes cancels, and what is left is the least squares of tau - W chi_ref on these
    columns: just the independent standard parameters behind them change, all others keep the
    prior's value.

    Parameters
    ----------
    system:
        The rows that the essential parameters are of.
    estimate:
        What `essential.essential` gave; its mask and weights are used.
    structure, prior:
        As in `standard`.

    """
    if estimate.essential is None:
        raise ValueError('the estimate has no essential parameters')
    reference = _reference(structure, prior)
    fixed = structure.regrouping @ reference
    factor = estimate.rows.triangle(system)
    # tau - W_b G chi_ref in place of tau
    factor = np.column_stack([factor[:, :-1], factor[:, -1] - factor[:, :-1] @ fixed])
    free = np.asarray(estimate.essential)
    change = solve(factor, free, np.zeros(free.size), system.factor.n_independent).base
    values = reference.copy()
    values[np.asarray(structure.independent)] += change
    return ParameterSet(structure.layout, values)


def choose_prior(choice: str, urdf: ParameterSet, folder: Path = Path('.')) -> ParameterSet:
    """
    Return the prior that ``estimation.prior`` asks for.

    Parameters
    ----------
    choice:
        ``none``, ``urdf``, or the path of a YAML file: parameter names with their values, or a
        ``result.yaml``, whose standard parameters are taken.
    urdf:
        What the URDF gives, over the regressor's layout; parameters that a file does not name keep
        these values.
    folder:
        Where a relative path starts.

    Raises
    ------
    SettingsError
        naming the file that is missing or wrong, or an entry that is no parameter.

    """
    if choice == 'urdf':
        return urdf
    if choice == 'none':
        return ParameterSet(urdf.layout, np.zeros(len(urdf.layout)))
    path = folder / user_path(choice)
    values = _named_values(path)
    for name, value in values.items():
        if name not in urdf.layout:
            raise SettingsError(
                f"{path}: '{name}' is not a parameter of this robot",
                file=str(path),
                key=name,
                remedy='names are <link or joint>.<symbol>, for example '
                f'{urdf.layout.names[0] if len(urdf.layout) else "link_1.m"}',
            )
        if type(value) not in (int, float) or not abs(value) <= LARGEST:
            raise SettingsError(
                f"{path}: '{name}' is {value!r}, expected a number",
                file=str(path),
                key=name,
                value=value,
            )
    return urdf.updated(values)


def _named_values(path: Path) -> dict[str, Any]:
    remedy = 'give none, urdf, or the path of a YAML of parameters'
    document = read_mapping(path, 'prior', 'estimation.prior', remedy)
    listed = document.get('standard_parameters')
    if not isinstance(listed, list):
        return document
    entries = [entry for entry in listed if isinstance(entry, dict)]
    return {str(entry.get('name')): entry.get('value') for entry in entries}


def _reference(structure: BaseStructure, prior: ParameterSet | None) -> np.ndarray:
    if prior is None:
        return np.zeros(len(structure.layout))
    if prior.layout.names != structure.layout.names:
        raise ValueError('the prior has another layout than the structure')
    return prior.values.copy()


def regrouping_inverse(structure: BaseStructure, scale: np.ndarray | None) -> np.ndarray:
    """(p, b) S (G S)^+, with G of full row rank."""
    scale = np.ones(len(structure.layout)) if scale is None else np.asarray(scale, dtype=float)
    return scale[:, None] * np.linalg.pinv(structure.regrouping * scale, rcond=1e-12)
