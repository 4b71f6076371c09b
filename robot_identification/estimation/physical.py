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
from dataclasses import replace

import numpy as np

from ..errors import IdentifiabilityError, one_of
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor.settings import ModelSettings
from .bootstrap import bootstrap, BootstrapSettings
from .bounds import Interval
from .estimate import Bootstrap, Estimate
from .least_squares import evaluate, wls
from .log_det import LogDetMinimum
from .physical_constraints import (
    Body,
)
from .physical_covariance import classical_covariance, constrained, drawn_covariance
from .physical_fit import PhysicalFit
from .physical_settings import PhysicalSettings
from .prior_strength import choose_strength, Folds, Strength
from .system import LinearSystem
from .uncertainty import classical, relative

_DEAR = 1.2
"""Relative error over that of the free fit from which constraints contradict the recording."""

_LEAST_NOISE = 1e-4
"""Residual that is counted at least, relative to the effort: no sensor is better than this."""

_DEFAULT_WEIGHT = 30.0
"""Of the prior where there is nothing to cross-validate on."""

_ROUGH = 1e-2
"""Distance from the minimum [standard deviations] that is enough to compare strengths."""

_DRAWING = BootstrapSettings()

_ROUNDS, _SETTLED = 10, 0.005


def physical(
    system: LinearSystem,
    robot: Robot,
    prior: ParameterSet,
    settings: PhysicalSettings | None = None,
    *,
    model: ModelSettings | None = None,
    boxes: Mapping[str, Interval] | None = None,
    drawing: BootstrapSettings | None = _DRAWING,
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
    drawing:
        Of the bootstrap; None for standard deviations as if rows were independent.  The fit is
        the same.

    Returns
    -------
    Estimate
        with ``standard`` and ``standard_covariance``, the parameters found and their covariance;
        ``base`` and its covariance, what they amount to.

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
    drawn, missing = _drawn(system, free, drawing or _DRAWING)
    inflation = _inflation(drawn, free)
    folds = Folds.of(system) if settings.weight is None else None
    scales = _row_scales(system, free.base.values, free, inflation)
    if folds is None:
        weight = settings.weight or _DEFAULT_WEIGHT
        strength = Strength(weight, weight, np.zeros(0))
    else:
        # the prior's strength depends on the noise of the joints, and that on a sensible fit
        _, scales = _settled(system, fit, _DEFAULT_WEIGHT, scales, free, inflation)
        strength = _strength(fit, folds, scales, system)
    minimum, scales = _settled(system, fit, strength.weight, scales, free, inflation)
    estimate = _estimate(system, free, prior, fit, minimum, strength, scales, inflation)
    if drawing is None:
        return estimate
    if drawn is None:
        return estimate if missing is None else classical(estimate, missing)
    problem, start = fit.problem(system.stacked(scales), strength.weight)
    excess = strength.weight / strength.best
    covariance = drawn_covariance(minimum.chi, start, problem, fit.regrouping, drawn, excess)
    return constrained(estimate, free, drawn, covariance, fit.regrouping)


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


def _drawn(
    system: LinearSystem, free: Estimate, settings: BootstrapSettings
) -> tuple[Bootstrap | None, IdentifiabilityError | None]:
    """Return the bootstrap of the plain fit, or why there is none."""
    try:
        return bootstrap(system, free, settings), None
    except IdentifiabilityError as error:
        return None, error


def _inflation(drawn: Bootstrap | None, free: Estimate) -> float:
    """Return by how much classical variances are too small; at least 1."""
    known = free.estimated & (free.std > 0.0)
    if drawn is None or not known.any():
        return 1.0
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
    data = system.stacked(scales)[:, :-1] @ fit.regrouping
    covariance = classical_covariance(minimum, data, inflation)
    of_base = fit.regrouping @ covariance @ fit.regrouping.T
    # what the recordings do not tell counts as not estimated, though the prior gives it a value
    of_base[~free.excited] = of_base[:, ~free.excited] = np.nan
    std = np.sqrt(np.diag(of_base))
    result = evaluate(system, base.values)
    estimate = replace(
        free,
        base=base,
        covariance=of_base,
        std=std,
        relative_std=relative(std, base.values),
        joints=result.joints,
        relative_error=result.relative_error,
        raw_relative_error=result.raw_relative_error,
        weights=scales / scales.max(),
        residual_std=1.0 / scales.max(),
        method='physical',
        standard=found,
        standard_covariance=covariance,
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
            'the block bootstrap'
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
