# SPDX-License-Identifier: Apache-2.0
"""
Ordinary and weighted least squares on the R factors of a `LinearSystem`.

Equations (8) to (12) of Gautier and Venture, "Identification of standard dynamic parameters of
robots with positive definite inertia matrix" (IROS 2013), section III.  The solution, its
covariance and all residuals come from R by orthogonal steps alone; no normal equations are formed.

Base parameters are chosen on random motions, so that a poor recording cannot change the model.  A
recording may still leave some of them open (`identifiability`): a joint that only ever turned one
way, for example, does not distinguish Coulomb friction from offset.

Essential parameters are those that the data determine with some certainty, after Pham and Gautier,
"Essential parameters of robots" (CDC 1991): the parameter with the largest relative standard
deviation is dropped and the others are estimated again, until all that are left are certain
enough.  The joints' weights stay those of the full estimate, so that the residuals of successive
models can be compared; so do the factors by which the block bootstrap's standard deviations exceed
the classical ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr_delete, solve_triangular

from ..errors import IdentifiabilityError, one_of, RecordingError
from ..model.parameters import ParameterLayout, ParameterSet
from ..regressor.base_parameters import BaseStructure
from .estimate import (
    Estimate,
    Fit,
    Identifiability,
    JointFit,
    nan_padded,
    Uncertainty,
    WeightedRows,
    with_scaled_std,
)
from .factor import QRFactor
from .system import LinearSystem

TOLERANCE = 1e-10
"""Relative singular value of the column-scaled regressor below which columns are dependent."""

NEGLIGIBLE = 1e-6
"""
Norm of a column, relative to the largest among parameters of the same unit, below which the motion
does not reach it: what is left is rounding, or angles in the URDF that are nearly right.
"""

STILL = 1e-3
"""A joint whose position stays within this [rad or m] has not moved."""

ILL_CONDITIONED = 300.0
"""Column-scaled condition number from which a warning is given."""

POOR_FIT = 30.0
"""Relative error of a joint [%] from which a warning is given."""

ENOUGH = 1.5
"""Independent rows a parameter below which nothing is fitted: what is left is no noise."""

NEGLIGIBLE_COLUMN = 1e-13
"""A column this small beside the largest of a joint's rows is rounding, and no parameter."""

_PARTNER, _CANDIDATE = 0.1, 0.5
"""Shares of the largest part in a dependence that are named, and of which the last is given up."""

_LONGER = 'record longer, or raise signals.cutoff and signals.decimate_to'


def identifiability(factor: np.ndarray, rows: int, layout: ParameterLayout) -> Identifiability:
    """
    Decide which base parameters the rows determine.

    On the columns scaled to norm 1, a direction with singular value s is known to sigma / s, where
    sigma is the standard deviation of the residual: in units of effort, since a scaled parameter's
    size is the norm of its own share of the effort.  The direction is open where s is below
    `TOLERANCE` relative to the largest, or where a parameter's share is uncertain by more than the
    norm of the whole effort.  For each open direction one parameter is given up, the last one in
    order that plays a main part in it (offsets before friction before inertia).  The others are
    then known as far as the value that the given up one is held at is true.

    Parameters
    ----------
    factor:
        (b + 1, b + 1) R of [W | tau].
    rows:
        Number of rows of W.
    layout:
        The b parameters.

    """
    matrix, effort = factor[:, :-1], factor[:, -1]
    norms = np.linalg.norm(matrix, axis=0)
    units = np.array(layout.units)
    alike = np.where(units[:, None] == units, norms, 0.0)
    excited = norms > NEGLIGIBLE * alike.max(axis=1, initial=0.0)
    reasons = ['' if seen else 'the motion has no effect on it' for seen in excited]
    noise = None
    while excited.any():
        columns = np.flatnonzero(excited)
        u, s, vt = np.linalg.svd(matrix[:, columns] / norms[columns], full_matrices=False)
        if noise is None:
            # of the least squares fit with all columns
            basis = u[:, s > TOLERANCE * s[0]]
            residual = effort - basis @ (basis.T @ effort)
            noise = np.linalg.norm(residual) / np.sqrt(max(1, rows - basis.shape[1]))
        part = np.abs(vt[-1])
        uncertain = noise * part.max() > s[-1] * np.linalg.norm(effort)
        if s[-1] > TOLERANCE * s[0] and not uncertain:
            break
        given_up = np.flatnonzero(part >= _CANDIDATE * part.max())[-1]
        partners = np.flatnonzero(part >= _PARTNER * part.max())
        others = [layout.names[columns[i]] for i in partners if i != given_up]
        excited[columns[given_up]] = False
        reasons[columns[given_up]] = (
            f'the motion does not separate it from {one_of(others, 4)}'
            if others
            else 'its effect is lost in the noise'
        )
    return Identifiability(excited, tuple(reasons))


@dataclass(frozen=True)
class Solution:
    """
    Least squares on some of the columns, the others fixed.

    Attributes
    ----------
    base:
        (b,) all parameters, fixed ones included.
    covariance:
        (b, b), NaN in rows and columns of fixed parameters.
    residual_std:
        Square root of the residual variance, eq. (10).
    condition_number, raw_condition_number:
        Of the free columns, scaled to norm 1 and as they are.

    """

    base: np.ndarray
    covariance: np.ndarray
    residual_std: float
    condition_number: float
    raw_condition_number: float


def ols(system: LinearSystem, *, prior: ParameterSet | None = None, robot: str = '') -> Estimate:
    """
    Ordinary least squares: every row counts alike.

    Parameters
    ----------
    system:
        The rows of the identification recordings.
    prior:
        Standard or base parameters; what the recording does not reach keeps their values (0
        without a prior).
    robot:
        Name for the summary.

    Raises
    ------
    IdentifiabilityError
        naming a joint that does not move or is always in the dead zone.
    RecordingError
        where there are too few independent rows for the parameters, `ENOUGH`.

    """
    require_motion(system)
    return _estimate(system, np.ones(system.factor.n_joints), 'ols', prior, robot)


def wls(system: LinearSystem, *, prior: ParameterSet | None = None, robot: str = '') -> Estimate:
    """
    Weighted least squares: the rows of joint j are divided by its residual's standard deviation.

    The standard deviation is that of the ordinary least squares of joint j's rows alone.
    Parameters and errors are those of `ols`.
    """
    require_motion(system)
    return _estimate(system, joint_weights(system), 'wls', prior, robot)


def range_basis(
    matrix: np.ndarray, tolerance: float = TOLERANCE, rounding: float = NEGLIGIBLE_COLUMN
) -> np.ndarray:
    """Return an orthonormal basis of the span of the columns that are no rounding, (m, rank)."""
    norms = np.linalg.norm(matrix, axis=0)
    seen = norms > rounding * norms.max(initial=0.0)
    u, s, _ = np.linalg.svd(matrix[:, seen] / norms[seen], full_matrices=False)
    return np.asarray(u[:, s > tolerance * s.max(initial=0.0)])


def joint_weights(system: LinearSystem | QRFactor) -> np.ndarray:
    """
    Inverse of the residual's standard deviation of each joint's own least squares.

    Gautier and Venture, section III: "ordinary LS solution of the equations of joint j".  To take
    the residuals of the weighted solution of all joints instead, again and again until the weights
    settle, gains nothing on recordings of ten seconds and more.  The
    equations of links on elastic joints have no effort, so that their own solution is nothing at
    all; they are weighed by their residual in the solution of all equations.  So are the
    mixed rows of floating bases.

    Returns
    -------
    np.ndarray
        (n,) weights [1/(N m) or 1/N].

    Raises
    ------
    RecordingError
        naming a joint with too few independent rows for the parameters that act on it, `ENOUGH`.

    """
    factor = system if isinstance(system, QRFactor) else system.factor
    if factor.mixed:
        return _mixed_weights(factor)
    weights = np.ones(factor.n_joints)
    for j in np.flatnonzero(factor.driven):
        joint = factor.joints[j]
        matrix, effort = factor.triangles[j, :, :-1], factor.triangles[j, :, -1]
        u = range_basis(matrix)
        rows, count = float(factor.independent_rows[j]), u.shape[1]
        if rows < ENOUGH * count:
            zone = factor.rows[j] < factor.available_rows[j]
            raise RecordingError(
                f"joint '{joint}' has {rows:.0f} independent rows for {count} parameters, fewer "
                f'than {ENOUGH:g} for each',
                joint=joint,
                value=rows,
                remedy=_LONGER + (', or lower signals.dead_zone' if zone else ''),
            )
        residual = np.linalg.norm(effort - u @ (u.T @ effort)) / np.sqrt(rows - count)
        # below this the residual is rounding error, and its inverse no weight
        floor = 1e-12 * np.linalg.norm(effort) / np.sqrt(factor.rows[j])
        weights[j] = 1.0 / max(residual, floor)
    if factor.driven.all():
        return weights
    weights[~factor.driven] = np.median(weights[factor.driven])
    return _weighed_by_all(factor, weights, ~factor.driven, 2)


def require_some(known: Identifiability) -> None:
    """Raise `IdentifiabilityError` where the rows determine no parameter."""
    if known.rank == 0:
        raise IdentifiabilityError(
            'the recording determines none of the base parameters',
            remedy='record a motion that moves every joint with changing acceleration',
        )


def _mixed_weights(factor: QRFactor) -> np.ndarray:
    """
    Weigh the rows of a floating base, which are all of all joints.

    Rows that a contact takes up wholly are zero, and may have any weight.
    """
    sizes = np.linalg.norm(factor.triangles, axis=1)
    empty = np.linalg.norm(sizes, axis=1) <= _EMPTY * sizes.max()
    rows, count = float(factor.independent_rows[~empty].sum()), factor.triangles.shape[2] - 1
    if rows < ENOUGH * count:
        raise RecordingError(
            f'the recording has {rows:.0f} independent rows for {count} parameters, fewer than '
            f'{ENOUGH:g} for each',
            value=rows,
            remedy=f'{_LONGER}, or lower signals.dead_zone',
        )
    efforts = np.maximum(sizes[:, -1], sizes[:, -1].max() * _EMPTY)
    weights = np.where(empty, 0.0, np.sqrt(np.maximum(1.0, factor.independent_rows)) / efforts)
    weights = _weighed_by_all(factor, weights, ~empty, 3)
    weights[empty] = np.median(weights[~empty])
    return weights


_EMPTY = 1e-9
"""Size of rows, by the largest, that are none but for rounding."""


def _weighed_by_all(
    factor: QRFactor, weights: np.ndarray, chosen: np.ndarray, rounds: int
) -> np.ndarray:
    """
    Return weights with those of rows that have no least squares of their own.

    These are weighed by their residual in the solution of all rows, which is found so many times,
    with the weights of the time before.  ``weights`` (n,) are the first ones, ``chosen`` (n,) says
    which of them change.
    """
    weights = weights.copy()
    share = np.sqrt(np.maximum(1.0, factor.independent_rows[chosen]))
    for _ in range(rounds):
        stacked = factor.stacked(weights)
        norms = np.linalg.norm(stacked[:, :-1], axis=0)
        scale = np.where(norms > 0.0, norms, 1.0)
        scaled, *_ = np.linalg.lstsq(stacked[:, :-1] / scale, stacked[:, -1], rcond=TOLERANCE)
        terms = factor.triangles[chosen, :, :-1] * (scaled / scale)
        left = terms.sum(axis=2) - factor.triangles[chosen, :, -1]
        # below this the residual is rounding error, and its inverse no weight
        floor = 1e-12 * np.linalg.norm(terms, axis=(1, 2)) / share
        floor = np.maximum(floor, np.finfo(float).tiny)
        weights[chosen] = 1.0 / np.maximum(np.linalg.norm(left, axis=1) / share, floor)
    return weights


def solve(factor: np.ndarray, free: np.ndarray, fixed: np.ndarray, rows: float) -> Solution:
    """
    Least squares from R of [W | tau].

    Parameters
    ----------
    factor:
        (b + 1, b + 1) R.
    free, fixed:
        (b,) bool, independent columns to solve for, and (b,) values of the other parameters.
    rows:
        Number of independent rows of W, see `LinearSystem.n_independent`.

    """
    k = int(free.sum())
    effort = factor[:, -1] - factor[:, :-1][:, ~free] @ fixed[~free]
    columns = factor[:, :-1][:, free]
    norms = np.linalg.norm(columns, axis=0)
    triangle = np.asarray(np.linalg.qr(np.column_stack([columns / norms, effort]), mode='r'))
    left, right = triangle[:k, :k], triangle[:k, k]
    base = np.where(free, 0.0, fixed)
    # solve_triangular of SciPy before 1.14 refuses a triangle without columns
    base[free] = np.linalg.solve(left, right) / norms
    residual_std = abs(triangle[k, k]) / np.sqrt(rows - k)
    half = residual_std * np.linalg.inv(left) / norms[:, None]
    return Solution(
        base=base,
        covariance=nan_padded(half @ half.T, free),
        residual_std=float(residual_std),
        condition_number=_condition(left),
        raw_condition_number=_condition(columns),
    )


def evaluate(system: LinearSystem, base: np.ndarray) -> Fit:
    """Return the fit of (b,) base parameters to the rows of any system."""
    vector = np.append(base, -1.0)
    residual = system.factor.residual_norms(base)
    # an equilibrium has no effort to compare its residual with
    effort = np.where(
        system.factor.driven, np.linalg.norm(system.factor.triangles[:, :, -1], axis=1), 0.0
    )
    raw_squares = np.maximum(0.0, np.einsum('i,jik,k->j', vector, system.factor.raw_gram, vector))
    raw_effort_squares = np.where(system.factor.driven, system.factor.raw_gram[:, -1, -1], 0.0)
    driven = system.factor.driven
    joints = tuple(
        JointFit(
            joint=joint,
            rows=int(system.factor.rows[j]),
            rmse=_ratio(residual[j], np.sqrt(system.factor.rows[j])),
            relative_error=100.0 * _ratio(residual[j], effort[j]),
            raw_relative_error=100.0 * np.sqrt(_ratio(raw_squares[j], raw_effort_squares[j])),
            bias=_ratio(
                system.factor.effort_sums[j] - system.factor.column_sums[j] @ base,
                system.factor.rows[j],
            ),
        )
        for j, joint in enumerate(system.factor.joints)
    )
    return Fit(
        joints=joints,
        relative_error=100.0 * _ratio(np.linalg.norm(residual[driven]), np.linalg.norm(effort)),
        raw_relative_error=100.0
        * np.sqrt(_ratio(raw_squares[driven].sum(), raw_effort_squares.sum())),
    )


def require_motion(system: LinearSystem) -> None:
    """
    Check that the recordings determine anything at all of every joint.

    Raises
    ------
    IdentifiabilityError
        naming a joint that does not move or is always in the dead zone.
    RecordingError
        where there are too few independent rows for the parameters, `ENOUGH`.

    """
    for j, joint in enumerate(system.factor.joints):
        if system.factor.position_range[j] < STILL:
            raise IdentifiabilityError(
                f"joint '{joint}' does not move in the recording",
                joint=joint,
                value=float(system.factor.position_range[j]),
                remedy='record a motion of it, or leave it out of robot.joints and lock it',
            )
        if system.factor.rows[j] == 0:
            raise IdentifiabilityError(
                f"joint '{joint}' is always slower than the dead zone",
                joint=joint,
                remedy='lower signals.dead_zone, or move it faster',
            )
    if system.factor.n_independent < ENOUGH * system.factor.n_base:
        raise RecordingError(
            f'the recording gives {system.factor.n_independent:.0f} independent rows for '
            f'{system.factor.n_base} base parameters, fewer than {ENOUGH:g} for each',
            value=system.factor.n_independent,
            remedy=f'{_LONGER}, or lower signals.dead_zone',
        )


def prior_base(structure: BaseStructure, prior: ParameterSet | None) -> np.ndarray:
    """Return a prior, given as standard or base parameters or None, as (b,) base parameters."""
    if prior is None:
        return np.zeros(structure.n_base)
    if prior.layout.names == structure.base_layout.names:
        return prior.values
    return structure.project(prior).values


def assemble(
    system: LinearSystem,
    solution: Solution,
    known: Identifiability,
    *,
    weights: np.ndarray,
    method: str,
    robot: str,
    essential: np.ndarray | None = None,
    factor: np.ndarray | None = None,
) -> Estimate:
    """Make an `Estimate` of a solution: standard deviations, fit per joint and warnings."""
    fit = evaluate(system, solution.base)
    structure = system.structure
    return Estimate(
        base=ParameterSet(structure.base_layout, solution.base),
        expressions=tuple(structure.expressions),
        method=method,
        identifiability=known,
        uncertainty=Uncertainty(solution.covariance, np.sqrt(np.diag(solution.covariance))),
        rows=WeightedRows(
            count=system.factor.n_rows,
            weights=weights,
            residual_std=solution.residual_std,
            condition_number=solution.condition_number,
            raw_condition_number=solution.raw_condition_number,
            factor=factor,
        ),
        fit=fit,
        essential=essential,
        robot=robot,
        notes=_notes(system),
        warnings=_warnings(structure.base_layout.names, known, solution, fit),
    )


def _estimate(
    system: LinearSystem,
    weights: np.ndarray,
    method: str,
    prior: ParameterSet | None,
    robot: str,
) -> Estimate:
    factor = system.stacked(weights)
    known = identifiability(factor, system.factor.n_rows, system.structure.base_layout)
    require_some(known)
    fixed = prior_base(system.structure, prior)
    solution = solve(factor, known.excited, fixed, system.factor.n_independent)
    return assemble(system, solution, known, weights=weights, method=method, robot=robot)


def _notes(system: LinearSystem) -> tuple[str, ...]:
    if system.factor.driven.all():
        return ()
    joints = [
        joint
        for joint, moved in zip(system.factor.joints, system.factor.driven, strict=True)
        if not moved
    ]
    return (
        f'the rows of {one_of(joints)} have no effort: they say that link and transmission are in '
        'equilibrium, their rmse is what is missing to it, and relative errors leave them out',
    )


def _warnings(
    names: Sequence[str], known: Identifiability, solution: Solution, fit: Fit
) -> tuple[str, ...]:
    warnings = [
        f'{name} is not identified and keeps its prior value: {reason}'
        for name, reason in zip(names, known.reasons, strict=True)
        if reason
    ]
    if solution.condition_number > ILL_CONDITIONED:
        warnings.append(
            f'the condition number {solution.condition_number:.0f} (column-scaled) is high: the '
            'motion hardly separates some parameters; use a planned excitation'
        )
    poor = [joint.joint for joint in fit.joints if joint.relative_error > POOR_FIT]
    if poor:
        warnings.append(
            f'the model leaves more than {POOR_FIT:.0f} % of the effort unexplained at '
            f'{one_of(poor)}'
        )
    return tuple(warnings)


def _condition(matrix: np.ndarray) -> float:
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values[0] / values[-1]) if values.size and values[-1] > 0.0 else float('inf')


def _ratio(numerator: Any, denominator: Any) -> float:
    """Quotient; NaN where there is nothing to divide by."""
    return float(numerator / denominator) if denominator > 0.0 else float('nan')


def essential(
    system: LinearSystem, estimate: Estimate, max_relative_std: float = 30.0
) -> Estimate:
    """
    Drop uncertain parameters one by one and estimate the others again.

    Dropped parameters are 0, and the ``essential`` mask is set.  Parameters that the recording
    does not reach keep the value that they have in ``estimate``.

    Parameters
    ----------
    system:
        The rows that ``estimate`` comes from.
    estimate:
        The full estimate; its weights are kept.
    max_relative_std:
        No relative standard deviation is larger in the end [%].

    Raises
    ------
    IdentifiabilityError
        where no parameter is certain enough.

    """
    fixed = np.where(estimate.was_free, 0.0, estimate.base.values)
    factor = estimate.rows.triangle(system)
    grown = estimate.uncertainty.growth
    growth = np.ones(len(estimate)) if grown is None else grown
    kept = _eliminate(
        factor, estimate.was_free, fixed, system.factor.n_independent, growth, max_relative_std
    )
    if not kept.any():
        raise IdentifiabilityError(
            f'no base parameter has a relative standard deviation below {max_relative_std:g} %',
            value=max_relative_std,
            remedy='record a stronger motion, or raise estimation.essential.max_relative_std',
        )
    solution = solve(factor, kept, fixed, system.factor.n_independent)
    reduced = assemble(
        system,
        solution,
        estimate.identifiability,
        weights=estimate.rows.weights,
        method=estimate.method,
        robot=estimate.robot,
        essential=kept,
        factor=estimate.rows.factor,
    )
    return reduced if grown is None else with_scaled_std(reduced, growth)


def _eliminate(
    factor: np.ndarray,
    free: np.ndarray,
    fixed: np.ndarray,
    rows: float,
    growth: np.ndarray,
    limit: float,
) -> np.ndarray:
    """Return which parameters, (b,) bool, are left when none exceeds ``limit``."""
    columns = np.flatnonzero(free)
    effort = factor[:, -1] - factor[:, :-1] @ fixed
    matrix = factor[:, columns]
    norms = np.linalg.norm(matrix, axis=0)
    # columns scaled to norm 1 change no relative standard deviation, but what rounding does
    q, r = np.linalg.qr(matrix / norms)
    right = q.T @ effort
    rest = float(np.linalg.norm(effort - q @ right)) ** 2
    q = np.eye(columns.size)
    while columns.size:
        k = columns.size
        turned = q.T @ right
        value = solve_triangular(r[:k], turned[:k])
        square = (rest + float(turned[k:] @ turned[k:])) / (rows - k)
        spread = np.sqrt(square) * np.linalg.norm(solve_triangular(r[:k], np.eye(k)), axis=1)
        # a value of exactly 0 is the least certain of all, and 0 / 0 is certain
        with np.errstate(divide='ignore', invalid='ignore'):
            relative = 100.0 * growth[columns] * spread / np.abs(value)
            relative = np.nan_to_num(relative, nan=0.0, posinf=np.inf)
        worst = int(relative.argmax())
        if relative[worst] <= limit:
            break
        q, r = qr_delete(q, r, worst, which='col')
        columns = np.delete(columns, worst)
    kept = np.zeros(free.size, dtype=bool)
    kept[columns] = True
    return kept
