# SPDX-License-Identifier: Apache-2.0
"""
Physically consistent standard parameters: a maximum a posteriori fit.

Minimised over the p standard parameters chi is

    sum_j |W_j (G chi) - tau_j|^2 / sigma_j^2 + weight sum_k D(P_k, P0_k)

with G the regrouping into base parameters, D the log-det divergence of each link's pseudo-inertia
from the prior's (see `log_det`), and rotor inertias and friction positive.  W enters by its R
factor alone, so the recording's length does not matter.  Data and prior are weighed in the same
currency: sigma_j comes from the fit itself, iterated, and counts rows for as much as the block
bootstrap of the plain fit says.  A URDF says nothing of rotors and friction; they have no prior
but their sign, so that a drive's reflected inertia is not put on its link.

The weight is found by cross-validation over five contiguous stretches of the recordings: the
parameters are fitted to four of them and predict the fifth; the cost is the mean over joints of
the logarithm of the held-out residual, of short recordings as means over the parts, so that noise
does not count.  Taken is the strongest prior whose cost is within a standard error of the best
(over the stretches, paired), and within 0.3 %: what the data hardly distinguish is left to the
prior.  Where noise is most of the residual, one per cent more of it is a seventh of the noise.

At the minimum, with H the Hessian of half the objective, W the rows of the data in units of their
noise, and N the rows of everything else (prior, bounds, masses that are known), H = W'W + N'N, and
errors e of the data and n of the prior move the parameters by H^-1 (W'e + N'n).  With e of unit
variance and independent, the covariance is H^-1, the posterior's.  The block bootstrap of the
plain fit gives the covariance of W'e as it is, whatever correlation there is between rows:

    C = H^-1 (cov(W'e) + N'N) H^-1.

How far bodies are from their prior is what the weights say that the stretches do not distinguish
from the best: the prior's variance is the mean of theirs, so that its rows in N are multiplied by
the root of the ratio of the weight taken to their harmonic mean.  They are not closer than the
standard deviation of masses says, even where recordings with much noise ask for a strong prior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from ..errors import IdentifiabilityError, one_of
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor.settings import ModelSettings
from .bootstrap import bootstrap, BootstrapSettings, growth_of, with_classical_std_warning
from .bounds import Interval
from .estimate import Bootstrap, Estimate, Uncertainty
from .least_squares import evaluate, wls
from .link_constraints import PhysicalSettings
from .log_det import LogDetMinimum, LogDetProblem
from .physical_fit import PhysicalFit
from .system import LinearSystem
from .time_blocks import PARTS


@dataclass(frozen=True)
class PhysicalConstants:
    """Constants of the choice of the prior's strength, and of the joints' noise."""

    folds: int = 5
    """Stretches that are held out in turn."""
    near_best: float = 0.01
    """Share by which the held-out residual may exceed the least one."""
    mean_duration: float = 0.25
    """Duration of parts up to which held-out residuals are compared as their means [s]."""
    contradiction: float = 1.2
    """Relative error over that of the free fit from which constraints contradict the recording."""
    least_noise: float = 1e-4
    """Residual that is counted at least, relative to the effort: no sensor is better than this."""
    default_weight: float = 30.0
    """Weight of the prior where there is nothing to cross-validate on."""
    rough_distance: float = 1e-2
    """Distance from the minimum [standard deviations] that is enough to compare strengths."""
    largest_score: float = 30.0
    """
    Standard deviation of the data's scores at most, in those of independent rows.

    It is 2 to 12 on real recordings; a replicate without the rows that show a direction has no
    bound.
    """
    far: float = 2.5
    """Size of a body by its prior above which the divergence's own curvature counts there."""
    rounds: int = 10
    """Times that fit and noise of the joints are found in turn, at most."""
    convergence: float = 0.005
    """Change of the logarithm of the noise that ends them."""


PHYSICAL = PhysicalConstants()


STRENGTHS = 10.0 ** np.arange(5.0, -1.5, -0.5)
"""Weights of the prior that are compared, the strongest first."""

_DRAWING = BootstrapSettings()


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
    fit = PhysicalFit.from_system(system, robot, prior, settings, model or ModelSettings(), boxes)
    drawn, missing = None, None
    try:
        drawn = bootstrap(system, free, drawing or _DRAWING)
    except IdentifiabilityError as error:
        missing = error
    search = _StrengthSearch(system, free, fit, _inflation(drawn, free, system))
    scales = search.row_scales(free.base.values)
    folds = Folds.from_system(system) if settings.weight is None else None
    if folds is None:
        weight = settings.weight or PHYSICAL.default_weight
        strength = Strength(weight, weight, np.zeros(0))
    else:
        # the prior's strength depends on the noise of the joints, and that on a sensible fit
        _, scales = search.converged(PHYSICAL.default_weight, scales)
        strength = choose_strength(folds, scales, system.factor.driven, search.approximate)
    minimum, scales = search.converged(strength.weight, scales)
    estimate = search.estimate(prior, minimum, strength, scales)
    if drawing is None or drawn is None:
        return (
            estimate
            if drawing is None or missing is None
            else with_classical_std_warning(estimate, missing)
        )
    problem, start = fit.problem(system.stacked(scales), strength.weight)
    likely = strength.likely
    if settings.weight is None and settings.mass_std is not None:
        likely = min(likely, 0.5 / settings.mass_std**2)
    excess = max(1.0, strength.weight / likely)
    errors = _drawn_errors(minimum.chi, start, problem, fit.regrouping, drawn, excess)
    covariance, of_data = (np.asarray(each @ each.T) for each in (np.hstack(errors), errors[0]))
    of_base = _of_base(covariance, fit.regrouping, estimate.was_free)
    std, base = np.sqrt(np.diag(of_base)), estimate.base.values
    reach = float(ndtri(0.5 + 0.005 * drawn.level)) * std
    return replace(
        estimate,
        uncertainty=Uncertainty(
            covariance=of_base,
            std=std,
            bootstrap=replace(
                drawn, std=std, low=base - reach, high=base + reach, covariance=of_base
            ),
            classical_std=estimate.std,
            growth=growth_of(drawn, free),
        ),
        standard_covariance=_without(covariance, fit.unseen),
        data_covariance=_without(of_data, fit.unseen),
    )


def _inflation(drawn: Bootstrap | None, free: Estimate, system: LinearSystem) -> float:
    """
    Return by how much classical variances are too small; at least 1.

    Rows that determine the parameters count for at least as many as these are: replicates of few
    rows are nearly singular, and their spread has no bound.
    """
    known = free.was_free & (free.std > 0.0)
    if drawn is None or not known.any():
        return 1.0
    most = system.factor.independent_rows[system.factor.driven].sum() / np.count_nonzero(known)
    return max(1.0, min(most, float(np.median((drawn.std[known] / free.std[known]) ** 2))))


@dataclass(frozen=True)
class _StrengthSearch:
    """
    Fits to a system's rows with noise that agrees with the residuals.

    Attributes
    ----------
    system, fit:
        The rows, and the problem without them.
    free:
        The plain fit.
    inflation:
        By how much classical variances are too small.

    """

    system: LinearSystem
    free: Estimate
    fit: PhysicalFit
    inflation: float

    def row_scales(self, base: np.ndarray) -> np.ndarray:
        """Return what each joint's rows are multiplied with to have unit noise, (n,)."""
        system, free = self.system, self.free
        residual = system.factor.residual_norms(base)
        effort = np.linalg.norm(system.factor.triangles[:, :, -1], axis=1)
        freedom = max(0.1, 1.0 - system.factor.n_base / system.factor.n_independent)
        rows = np.maximum(1.0, system.factor.independent_rows * freedom)
        noise = np.maximum(residual, PHYSICAL.least_noise * effort) / np.sqrt(rows)
        fitted_std = free.rows.residual_std / np.asarray(free.rows.weights)
        noise = np.where(system.factor.driven & (noise > 0.0), noise, fitted_std)
        return 1.0 / (noise * np.sqrt(self.inflation))

    def converged(self, weight: float, scales: np.ndarray) -> tuple[LogDetMinimum, np.ndarray]:
        """Return the fit whose residuals have the noise that it assumes, and the rows' scales."""
        start: np.ndarray | None = None
        for _ in range(PHYSICAL.rounds):
            minimum = self.fit.solve(self.system.stacked(scales), weight, start)
            start, used = minimum.chi, scales
            scales = self.row_scales(self.fit.regrouping @ minimum.chi)
            if np.abs(np.log(scales / used)).max() < PHYSICAL.convergence:
                break
        return minimum, used

    def approximate(
        self, factor: np.ndarray, weight: float, start: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return standard and base parameters, close enough to compare strengths."""
        chi = self.fit.solve(factor, weight, start, PHYSICAL.rough_distance).chi
        return chi, self.fit.regrouping @ chi

    def estimate(
        self, prior: ParameterSet, minimum: LogDetMinimum, strength: Strength, scales: np.ndarray
    ) -> Estimate:
        """Return the estimate with the physical parameters in place of the unconstrained ones."""
        system, free, regrouping = self.system, self.free, self.fit.regrouping
        found = ParameterSet(prior.layout, minimum.chi)
        base = system.structure.project(found)
        rows = system.stacked(scales)[:, :-1]
        # as if rows were independent, which the fit lets count for less
        share = np.sqrt(max(0.0, self.inflation - 1.0))
        covariance = minimum.covariance(share * (rows @ regrouping))
        # what the recordings do not determine counts as not estimated, though it has a value
        of_base = _of_base(covariance, regrouping, free.identifiability.excited)
        std = np.sqrt(np.diag(of_base))
        result = evaluate(system, base.values)
        error, moved = (
            result.relative_error,
            np.linalg.norm(rows @ (base.values - free.base.values)),
        )
        notes = [
            f'being physical moves the base parameters by {moved:.2g} standard deviations in all '
            f'and the relative error from {free.fit.relative_error:.3g} to {error:.3g} %',
            f'strength of the prior: {strength.weight:.3g}'
            + (', found by cross-validation' if strength.costs.size else ''),
        ]
        if self.inflation > 1.0:
            notes.append(
                f'rows count for 1/{self.inflation:.3g} of what they would if they were '
                'independent, by the block bootstrap'
            )
        bodies = self.fit.bodies
        for remark in dict.fromkeys(body.remark for body in bodies if body.remark):
            links = one_of(body.link for body in bodies if body.remark == remark)
            notes.append(f'the prior is no physical body at {links}: {remark} stands in its place')
        notes += self._held_at_zero(found, covariance)
        warnings = [
            text.replace('keeps its prior value', 'is left to the prior') for text in free.warnings
        ]
        allowed = PHYSICAL.contradiction * free.fit.relative_error
        if error > max(allowed, 100.0 * PHYSICAL.least_noise):
            warnings.append(
                f'the constraints raise the relative error from {free.fit.relative_error:.3g} to '
                f'{error:.3g} %: what the model lacks does so, such as friction, efforts of '
                'another sign or scale, or an estimation.physical.total_mass, links or '
                'center_of_mass that the robot does not have'
            )
        return replace(
            free,
            base=base,
            method='physical',
            uncertainty=Uncertainty(of_base, std),
            rows=replace(
                free.rows, weights=scales / scales.max(), residual_std=1.0 / scales.max()
            ),
            fit=result,
            standard=found,
            standard_covariance=_without(covariance, self.fit.unseen),
            notes=(*notes, *self.fit.bounds.reached(found)),
            warnings=tuple(warnings),
        )

    def _held_at_zero(self, found: ParameterSet, covariance: np.ndarray) -> list[str]:
        """Return a note on parameters that their sign holds at 0, of those that rows show."""
        zero = self.fit.at_zero(found.values, np.sqrt(np.diag(covariance)))
        names = np.array(self.system.structure.base_layout.names)
        shown = names[self.free.identifiability.excited]
        held = [name for name in np.array(found.layout.names)[zero] if name in shown]
        if not held:
            return []
        return [
            f'held at 0, the least that they can be: {one_of(held, len(held))}; the model lacks '
            'something, or they are small, and their deviations are no measure there'
        ]


@dataclass(frozen=True)
class Strength:
    """
    Weight of a prior, and how it was found.

    Attributes
    ----------
    weight:
        The one that is taken.
    likely:
        Harmonic mean of those that predict as well as the best, at most ``weight``: how far bodies
        are from the prior.
    costs:
        (k,) mean log of the held-out residual by `STRENGTHS`; empty where nothing was compared.

    """

    weight: float
    likely: float
    costs: np.ndarray


@dataclass(frozen=True)
class Folds:
    """
    R factors of stretches of the recordings.

    Attributes
    ----------
    factors:
        (n_folds, n, b + 1, b + 1) R of [W_j | tau_j] of each stretch and joint.
    means:
        The same of their means over the parts, where these are short.

    """

    factors: np.ndarray
    means: np.ndarray

    @classmethod
    def from_system(cls, system: LinearSystem) -> Folds | None:
        """Cut a system's recordings; None where its rows came without time, or are too few."""
        blocks = system.blocks
        if blocks is None or len(blocks) < 2 * PHYSICAL.folds:
            return None
        blocks = blocks.at_most(PARTS)  # as many as in a factor's file
        width, names = system.factor.n_base + 1, system.structure.base_layout.names
        factors, means = np.zeros((2, PHYSICAL.folds, system.factor.n_joints, width, width))
        bounds = np.linspace(0, len(blocks), PHYSICAL.folds + 1).astype(int)
        for joint, name in enumerate(system.factor.joints):
            # the column of ones
            ones = names.index(f'{name}.off') if f'{name}.off' in names else None
            for fold in range(PHYSICAL.folds):
                parts = blocks.parts[bounds[fold] : bounds[fold + 1]]
                rows = [part[joint].all_columns(width - 1) for part in parts]
                slow = rows
                if ones is not None and blocks.duration < PHYSICAL.mean_duration:
                    slow = [_mean(each, ones) for each in rows]
                for store, chosen in ((factors, rows), (means, slow)):
                    reduced = np.linalg.qr(np.vstack(chosen), mode='r')
                    store[fold, joint, : len(reduced)] = reduced
        return cls(factors, means)

    def training(self, fold: int, weights: np.ndarray) -> np.ndarray:
        """Return R of the weighted rows of all stretches but one, (b + 1, b + 1)."""
        others = np.delete(self.factors, fold, axis=0) * weights[:, None, None]
        rows = others.reshape(-1, others.shape[-1])
        return np.asarray(np.linalg.qr(rows[rows.any(axis=1)], mode='r'))

    def held_out(self, fold: int, base: np.ndarray) -> np.ndarray:
        """Return the norm of the residual of each joint in one stretch, (n,)."""
        return np.linalg.norm(self.means[fold] @ np.append(base, -1.0), axis=1)


def _mean(rows: np.ndarray, ones: int) -> np.ndarray:
    """Return the mean of rows, or of those that they are R of, which counts as much as they do."""
    count = float(rows[:, ones] @ rows[:, ones])
    return np.asarray((rows[:, ones] @ rows)[None] / np.sqrt(max(count, 1.0)))


def choose_strength(
    folds: Folds,
    weights: np.ndarray,
    driven: np.ndarray,
    fit: Callable[[np.ndarray, float, np.ndarray | None], tuple[np.ndarray, np.ndarray]],
) -> Strength:
    """
    Return the strength that predicts held-out stretches best.

    Parameters
    ----------
    folds:
        The recordings.
    weights:
        (n,) of the joints' rows.
    driven:
        (n,) bool, joints whose efforts count.
    fit:
        Takes R of the rows, (b + 1, b + 1), a weight and the solution for the weight before, or
        None; returns the solution and its base parameters.

    """
    squares = np.zeros((len(STRENGTHS), PHYSICAL.folds, len(weights)))
    for fold in range(PHYSICAL.folds):
        factor = folds.training(fold, weights)
        found: np.ndarray | None = None
        for place, strength in enumerate(STRENGTHS):
            found, base = fit(factor, float(strength), found)
            squares[place, fold] = folds.held_out(fold, base) ** 2
    # rows that are empty, as a rope's on a hanging base, are predicted by anything
    squares = squares[:, :, driven & squares.any(axis=(0, 1))]
    total = squares.sum(axis=1)
    costs = 0.5 * np.log(total).mean(axis=1)
    best = int(costs.argmin())
    # what each stretch adds to the difference from the best, to first order
    shares = 0.5 * ((squares - squares[best]) / total[best]).mean(axis=2)
    error = np.sqrt(PHYSICAL.folds) * shares.std(axis=1, ddof=1)
    near = np.flatnonzero(costs - costs[best] <= np.minimum(error, np.log1p(PHYSICAL.near_best)))
    likely = 1.0 / np.mean(1.0 / STRENGTHS[near])
    return Strength(float(STRENGTHS[near[0]]), float(likely), costs)


def _of_base(covariance: np.ndarray, regrouping: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the covariance of base parameters, (b, b); NaN for those that are not ``known``."""
    of_base = regrouping @ covariance @ regrouping.T
    of_base[~known] = of_base[:, ~known] = np.nan
    return np.asarray(of_base)


def _without(covariance: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Return the covariance with NaN for parameters that no motion shows, (p, p)."""
    known = covariance.copy()
    known[unseen] = known[:, unseen] = np.nan
    return known


def _drawn_errors(
    chi: np.ndarray,
    start: np.ndarray,
    problem: LogDetProblem,
    regrouping: np.ndarray,
    drawn: Bootstrap,
    excess: float,
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return independent errors of the parameters, (p, ·): of the data by the bootstrap, and others.

    The first b + 1 rows of the problem are the data's, ``chi`` is its minimum, and ``start`` has
    the prior's bodies; ``excess`` is the prior's strength by the likely one.
    """
    b = len(regrouping)
    (_, rows), (_, prior) = problem.derivatives(chi), problem.derivatives(start)
    bodies = slice(len(problem.matrix), len(problem.matrix) + problem.places.size)
    # a body far above its prior is not known in the prior's size
    near = np.einsum('naa->n', problem.bodies(chi)) < 4.0 * PHYSICAL.far
    replaced = np.repeat(near, problem.places.shape[1])
    rows[bodies][replaced] = prior[bodies][replaced]
    scales = np.linalg.norm(rows, axis=0)
    triangle = np.asarray(np.linalg.qr(rows / scales, mode='r')) * scales
    rows[bodies] *= np.sqrt(excess)
    data, others = rows[: b + 1], rows[b + 1 :]
    assert drawn.covariance is not None
    spread = np.nan_to_num(drawn.covariance)
    scale = np.sqrt(np.diag(spread))
    scale[scale == 0.0] = 1.0
    values, vectors = np.linalg.eigh(spread / scale[:, None] / scale)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * scale
    # data = triangle @ regrouping: what the plain fit's errors amount to in scores
    factor = problem.matrix[: b + 1] @ np.linalg.pinv(regrouping)
    _, sizes, directions = np.linalg.svd(root @ factor.T)
    sizes = np.minimum(sizes, PHYSICAL.largest_score)
    middle = np.vstack([(sizes[:, None] * directions[: len(sizes)]) @ data, others])
    half = solve_triangular(triangle, middle.T, trans='T')
    moved = problem.of_parameters(solve_triangular(triangle, half))
    return moved[:, : len(sizes)], moved[:, len(sizes) :]
