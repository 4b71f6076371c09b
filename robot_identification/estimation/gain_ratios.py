# SPDX-License-Identifier: Apache-2.0
"""
Ratios of the gains of current-controlled drives, from recordings without any load.

With y_j the efforts by the assumed gains and s_j = assumed / true gain, the noise is in the
currents, so that residuals are ``s_j W_j beta - y_j`` with a noise sigma_j that no gain changes.
(Gains as factors of y_j on the other side would all shrink to 0.)  Minimised over the standard
parameters chi and theta = log s is

    sum_j |s_j W_j G chi - y_j|^2 / (2 sigma_j^2) + weight / 2 sum_k D(P_k, P0_k) + |Q theta|^2 / 2

with D and G as in `physical` and Q the prior of the ratios: gains in proportion to the assumed
ones, within `RATIOS.log_std`.  Links weigh on several joints, which ties their gains to each
other.  What all gains have in common is in chi as well, and only masses of the prior fix it.
For given theta the minimum over chi is `log_det`'s; the steps of theta are Gauss and Newton's
for both together, since turns between the two creep along the common factor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor.settings import ModelSettings
from .bootstrap import variance_inflation
from .drive_gains import DriveGains
from .least_squares import wls
from .log_det import LogDetMinimum, minimise
from .physical import PhysicalFit, PhysicalSettings
from .physical_fit import FRICTION_SHARES
from .system import LinearSystem


@dataclass(frozen=True)
class GainRatioConstants:
    """Constants of the search for gains."""

    log_std: float = 0.5
    """Standard deviation of the logarithm of a gain before anything is measured."""
    prior_weight: float = 30.0
    """Weight of the prior of the links, see `physical`."""
    rounds: int = 40
    """Times that noise and gains are found in turn, at most."""
    settled_noise: float = 1e-3
    """Change of the logarithm of the noise that ends them."""
    steps: int = 50
    """Largest number of Gauss-Newton steps of a search for gains."""
    settled_gains: float = 1e-5
    """Step of the logarithms of gains that ends it."""
    longest_step: float = 1.0
    """Longest step of the logarithms of gains."""
    shortest_step: float = 1e-6
    """Share of a step below which rounding hides any descent."""
    tolerance: float = 1e-6
    """Distance from the minimum over the links [standard deviations]."""
    least_noise: float = 1e-4
    """Residual that is counted at least, relative to the effort."""
    total_mass_std: float = 0.01
    """Relative deviation of the total mass, which is held where nothing determines it."""


RATIOS = GainRatioConstants()


def gain_ratios(
    system: LinearSystem,
    robot: Robot,
    prior: ParameterSet,
    assumed: np.ndarray,
    *,
    model: ModelSettings | None = None,
) -> DriveGains:
    """
    Find the ratios of drive gains.

    Parameters
    ----------
    system:
        Rows with efforts by the assumed gains, one drive a joint, with their ``blocks``.
    robot, prior, model:
        As for `physical`.
    assumed:
        (n, n) matrix of the assumed gains.

    Returns
    -------
    DriveGains
        with the covariance of the gains' logarithms relative to the drive whose ratios to the
        others are the most certain: the posterior, with rows that count for as much as the block
        bootstrap says.

    Raises
    ------
    IdentifiabilityError, RecordingError
        as `wls`.

    """
    free = wls(system, prior=prior, robot=robot.name)
    # the scale of masses is the gains', and found by their total alone
    settings = PhysicalSettings(mass_std=None)
    fit = PhysicalFit.from_system(system, robot, prior, settings, model or ModelSettings())
    # efforts by the gains that are assumed say nothing of the size of friction
    assumed_sizes = [name.rpartition('.')[2] in FRICTION_SHARES for name in prior.layout]
    fit = replace(fit, spreads=np.where(assumed_sizes, np.inf, fit.spreads))
    fit = _with_total_mass(fit)
    n = system.factor.n_joints
    problem = _RatioFit(
        system=system,
        fit=fit,
        closeness=(np.eye(n) - 1.0 / n) / RATIOS.log_std,
        inflation=variance_inflation(system),
    )
    theta = np.full(n, np.log(_common_share(system, prior)))
    scales = problem.row_scales(theta, np.exp(-theta[0]) * free.base.values)
    theta, chi = problem.descended(theta, scales, None)
    for _ in range(RATIOS.rounds):
        used, scales = scales, problem.row_scales(theta, fit.regrouping @ chi)
        theta, chi = problem.descended(theta, scales, chi)
        if np.abs(np.log(scales / used)).max() < RATIOS.settled_noise:
            break
    covariance, reference = problem.ratio_covariance(theta, scales, chi)
    return DriveGains(
        drives=robot.joints,
        factors=np.exp(-theta),
        covariance=covariance,
        assumed=assumed,
        method='ratios',
        recordings=system.sources,
        reference=robot.joints[reference],
        scale="the prior's masses",
    )


@dataclass(frozen=True)
class _RatioFit:
    """Everything that stays the same: rows, prior, and what rows are worth."""

    system: LinearSystem
    fit: PhysicalFit
    closeness: np.ndarray  # (n, n) Q
    inflation: float  # variance of an estimate by what it would be if rows were independent

    def rows(self, theta: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return R of each joint's rows [s W | y] in units of the noise, (n, b + 1, b + 1)."""
        rows = self.system.factor.triangles * scales[:, None, None]
        rows[:, :, :-1] *= np.exp(theta)[:, None, None]
        return rows

    def row_scales(self, theta: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Return what each joint's rows are multiplied with to have unit noise, (n,)."""
        system = self.system
        rows = self.rows(theta, np.ones(theta.size))
        residual = np.linalg.norm(rows @ np.append(base, -1.0), axis=1)
        effort = np.linalg.norm(rows[:, :, -1], axis=1)
        count = np.maximum(1.0, system.factor.independent_rows)
        noise = np.maximum(residual, RATIOS.least_noise * effort) / np.sqrt(count)
        return np.asarray(1.0 / (noise * np.sqrt(self.inflation)))

    def fitted(
        self, theta: np.ndarray, scales: np.ndarray, chi: np.ndarray | None
    ) -> tuple[float, LogDetMinimum]:
        """Return the minimum over chi for given gains, and its value."""
        problem, inside = self.fit.problem(_reduced(self.rows(theta, scales)), RATIOS.prior_weight)
        start = inside if chi is None else chi
        minimum = minimise(problem, start, RATIOS.tolerance, near=chi is not None)
        deviation = self.closeness @ theta
        return problem.value(minimum.chi) + 0.5 * float(deviation @ deviation), minimum

    def descended(
        self, theta: np.ndarray, scales: np.ndarray, chi: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Take Gauss-Newton steps of the gains to the minimum for given noise."""
        value, minimum = self.fitted(theta, scales, chi)
        for _ in range(RATIOS.steps):
            triangle, gradient = self.linearised(theta, scales, minimum.chi)
            own = triangle[-theta.size :, -theta.size :]
            step = -solve_triangular(own, solve_triangular(own, gradient, trans='T'))
            length = min(1.0, RATIOS.longest_step / np.abs(step).max())
            while length > RATIOS.shortest_step:
                reached, there = self.fitted(theta + length * step, scales, minimum.chi)
                if reached < value:
                    break
                length *= 0.5
            else:
                break
            theta, value, minimum = theta + length * step, reached, there
            if length * np.abs(step).max() < RATIOS.settled_gains:
                break
        return theta, minimum.chi

    def linearised(
        self, theta: np.ndarray, scales: np.ndarray, chi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """
        Return R of the rows whose Gram matrix is the Hessian over free chi and theta, square.

        The gradient by theta, (n,), comes with it; that by chi is 0 at a minimum over chi.
        """
        n, width = theta.size, self.system.factor.n_base + 1
        rows = self.rows(theta, scales)
        base = self.fit.regrouping @ chi
        predicted = rows[:, :, :-1] @ base
        residual = predicted - rows[:, :, -1]
        problem, _ = self.fit.problem(_reduced(rows), RATIOS.prior_weight)
        of_chi = rows[:, :, :-1] @ problem.along(self.fit.regrouping)
        of_theta = np.zeros((n, width, n))
        of_theta[np.arange(n), :, np.arange(n)] = predicted
        of_data = np.concatenate([of_chi, of_theta], axis=2).reshape(n * width, -1)
        _, others = problem.derivatives(chi)
        others = others[width:]  # behind those of the data
        apart = np.zeros((len(others), n))
        own = np.hstack([np.zeros((n, others.shape[1])), self.closeness])
        stacked = np.vstack([of_data, np.hstack([others, apart]), own])
        gradient = np.einsum('jk,jk->j', predicted, residual)
        gradient += self.closeness.T @ (self.closeness @ theta)
        return np.asarray(np.linalg.qr(stacked, mode='r')), gradient

    def ratio_covariance(
        self, theta: np.ndarray, scales: np.ndarray, chi: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Return the posterior covariance of the ratios, and the drive that they are taken to."""
        n = theta.size
        own = self.linearised(theta, scales, chi)[0][-n:, -n:]
        half = solve_triangular(own, np.eye(n))
        covariance = half @ half.T
        variances = np.diag(covariance)
        apart = variances[:, None] + variances - 2.0 * covariance
        reference = int(np.argmin(np.median(apart, axis=0)))
        difference = np.eye(n) - np.eye(n)[reference]
        return difference @ covariance @ difference.T, reference


def _reduced(rows: np.ndarray) -> np.ndarray:
    """Return R of the rows of all joints, (b + 1, b + 1) of (n, b + 1, b + 1)."""
    return np.asarray(np.linalg.qr(rows.reshape(-1, rows.shape[-1]), mode='r'))


def _common_share(system: LinearSystem, prior: ParameterSet) -> float:
    """Return the assumed gain over the true one, were it the same for all and the prior right."""
    base = system.structure.project(prior).values
    predicted = system.factor.triangles[:, :, :-1] @ base
    effort = system.factor.triangles[:, :, -1]
    size = float(np.sum(predicted * predicted))
    share = float(np.sum(predicted * effort)) / size if size > 0.0 else 0.0
    return share if share > 0.0 else 1.0


def _with_total_mass(fit: PhysicalFit) -> PhysicalFit:
    """Let the links whose mass is in any base parameter weigh together what the prior says."""
    masses = fit.rowless.places[:, 0]
    felt = masses[(fit.regrouping[:, masses] != 0.0).any(axis=0)]
    total = float(fit.prior[felt].sum())
    if not total > 0.0:
        return fit
    row = np.zeros((1, fit.prior.size))
    row[0, felt] = 1.0 / (RATIOS.total_mass_std * total)
    values = np.array([1.0 / RATIOS.total_mass_std])
    return replace(fit, known=row, known_values=values, shared=np.zeros(1))
