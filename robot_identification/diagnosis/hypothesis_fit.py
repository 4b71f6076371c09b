# SPDX-License-Identifier: Apache-2.0
"""
Physical fit of a hypothesis on what is wrong with recordings, and what it costs.

A hypothesis changes positions, efforts, gravity or the load before the fit.  Its cost, in nats, is

    sum_j rows/2 log(r_j^2 + floor^2) + 1/2 sum_k |log P0_k^-1 P_k|^2

with r_j the root mean square of joint j's residual relative to its effort's standard deviation,
and |log P0_k^-1 P_k| the distance of link k's pseudo-inertia from the prior's, which takes twice
and half of a mass for equally far (Lee and Park, "A geometric algorithm for robust multibody
inertial parameter identification", RA-L 2018).  Logarithms of relative residuals compare
hypotheses that scale or exchange efforts, and make small joints count as much as large ones.  What
the model does not know is neither small nor white, so that each joint counts for the same few rows
however long the recording is, and for no residual below the floor.  All masses of six links may be
wrong by a factor of two at a cost of six.

The parameters minimise the same with the log-det divergence in place of the distance, which makes
the problem convex for given weights of the joints (see `log_det`), and with friction and rotor
inertias positive but otherwise free: a URDF does not have them.  The logarithms are met by
iteratively reweighted fits (Hunter and Lange, "A tutorial on MM algorithms", The American
Statistician 58, 2004).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..estimation.log_det import LogDetProblem, minimise
from ..estimation.physical_fit import (
    drive_signs,
    reference_bodies,
    relative_units,
    signed_start,
)
from ..model.consistency import from_pseudo_inertia
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor.settings import ModelSettings


@dataclass(frozen=True)
class FitConstants:
    """Constants of the fit of an explanation."""

    rows: float = 100.0
    """Independent rows that each joint counts for."""
    floor: float = 0.03
    """Relative residual below which models of real robots are not distinguished."""
    weight: float = 2.0
    """Of the divergence from the prior in a fit."""
    barrier: float = 0.05
    """Of the barrier that keeps rotor inertias and friction positive."""
    initial_residual: float = 0.2
    """Relative residual that a fit begins from."""
    rounds: int = 6
    """Fits between which the joints are weighed again, at most."""
    convergence: float = 0.1
    """Change of the logarithm of residual variances at which these end."""
    near: float = 1.0
    """Newton decrement at which a fit ends: half a nat decides nothing."""
    ridge: float = 1e-6
    """Of parameters without bodies, relative to their columns."""
    unseen: float = 1e-9
    """Square of a column, of the largest, below which it is not seen."""


FIT = FitConstants()


@dataclass(frozen=True)
class HypothesisFit:
    """
    The best physical parameters under a hypothesis.

    Attributes
    ----------
    cost:
        See above [nats].
    misfit:
        (n,) relative residual of each joint.
    chi:
        (p,) standard parameters.
    weights:
        (n,) of the rows of each joint in the last fit.
    first:
        (p,) parameters of the first one, with the same weight for all joints.

    """

    cost: float
    misfit: np.ndarray
    chi: np.ndarray
    weights: np.ndarray
    first: np.ndarray


class HypothesisModel:
    """
    Model of a robot without loops under which hypotheses are compared.

    Parameters
    ----------
    robot, model, prior:
        The robot, its terms, and standard parameters as its prior.

    """

    def __init__(self, robot: Robot, model: ModelSettings, prior: ParameterSet) -> None:
        self.bodies = reference_bodies(robot, prior)
        columns = np.arange(len(prior.layout))
        links = [columns[prior.layout.slice_of(body.link)] for body in self.bodies]
        self.places = np.array(links, dtype=int).reshape(-1, 10)  # of each body's parameters
        # rows whose products with the parameters are positive
        self.positive = drive_signs(prior.layout, model)
        # relative pseudo-inertias of a unit of each parameter, (b, 10, 4, 4)
        self.units = relative_units(self.bodies)
        self.inertial = np.isin(columns, self.places)

    def fit(
        self, grams: np.ndarray, *, free: bool = False, start: HypothesisFit | None = None
    ) -> HypothesisFit:
        """
        Fit to rows by their Gram matrices.

        Parameters
        ----------
        grams:
            (n, p + 1, p + 1) means over samples of [W_j | tau_j]' [W_j | tau_j], relative to the
            variance of tau_j.
        free:
            Whether without prior and constraints, which costs less.
        start:
            Fit of similar rows, to begin with its first parameters; None begins with the prior's.

        """
        # by these for all, no joint that a hypothesis puts right is left aside from the start
        variance = np.full(len(grams), FIT.initial_residual**2)
        chi = self._begin(grams.sum(axis=0)) if start is None else start.first
        solutions = []
        for _ in range(FIT.rounds):
            weights = FIT.rows / variance
            chi = self._solve(np.tensordot(weights, grams, axes=1), chi, free=free)
            solutions.append(chi)
            square = residual_squares(grams, chi)
            previous, variance = variance, square + FIT.floor**2
            if np.abs(np.log(variance / previous)).max() < FIT.convergence:
                break
        cost = data_cost(square) + (0.0 if free else float(self.distances(chi).sum()))
        return HypothesisFit(cost, np.sqrt(square), chi, weights, solutions[0])

    def refit(self, grams: np.ndarray, fitted: HypothesisFit) -> np.ndarray:
        """Return (p,) parameters from other rows, with the weights of a fit."""
        return self._solve(np.tensordot(fitted.weights, grams, axes=1), fitted.chi)

    def further_column(
        self, total: np.ndarray, with_columns: np.ndarray, with_effort: float, by_itself: float
    ) -> float:
        """
        Return the coefficient of one more column in a fit without a prior.

        Parameters
        ----------
        total:
            (p + 1, p + 1) Gram matrix of columns and effort.
        with_columns, with_effort, by_itself:
            Products of the column with the p columns, with the effort, and with itself.

        """
        p = len(total) - 1
        root, scale = self._root(total)
        both = np.stack([total[:p, p], with_columns], axis=1) / scale[:, None]
        effort, column = scipy.linalg.solve_triangular(root, both, lower=True).T
        left = by_itself - column @ column
        return float((with_effort - column @ effort) / left) if left > 1e-6 * by_itself else 0.0

    def distances(self, chi: np.ndarray) -> np.ndarray:
        """Return (b,) what the distance of each link from the prior's costs."""
        bodies = np.einsum('ni,niab->nab', chi[self.places], self.units)
        values = np.maximum(np.linalg.eigvalsh(bodies), np.finfo(float).tiny)
        return np.asarray(0.5 * (np.log(values) ** 2).sum(axis=1))

    def _solve(self, total: np.ndarray, start: np.ndarray, *, free: bool = False) -> np.ndarray:
        """Return the minimum of the Gram matrix's least squares with the divergence, or free."""
        p = len(total) - 1
        root, scale = self._root(total)
        target = scipy.linalg.solve_triangular(root, total[:p, p] / scale, lower=True)
        if free:
            return np.asarray(scipy.linalg.solve_triangular(root.T, target) / scale)
        problem = LogDetProblem(
            matrix=root.T * scale,
            target=target,
            places=self.places,
            units=self.units,
            weight=FIT.weight,
            positive=self.positive,
            barrier=FIT.barrier,
        )
        if not np.isfinite(problem.value(start)):  # that of a fit without constraints
            start = self._begin(total)
        return minimise(problem, start, FIT.near, near=True).chi

    def _root(self, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Cholesky factor of a Gram matrix whose columns are scaled, and the scale."""
        p = len(total) - 1
        size = np.diag(total)[:p]
        # a column that nothing moves has to stay somewhere
        ridge = np.where(self.inertial, 1e-10, FIT.ridge) * np.maximum(
            size, FIT.unseen * size.max()
        )
        scale = np.sqrt(size + ridge)
        scaled = (total[:p, :p] + np.diag(ridge)) / scale[:, None] / scale
        return np.linalg.cholesky(scaled), scale  # the ridge keeps it positive definite

    def _begin(self, total: np.ndarray) -> np.ndarray:
        """Return the prior's bodies with rotors and friction of a hundredth of the effort."""
        p = len(total) - 1
        start = np.zeros(p)
        for body, place in zip(self.bodies, self.places, strict=True):
            start[place] = from_pseudo_inertia(body.pseudo_inertia)
        size = np.diag(total)[:p]
        scale = np.sqrt(np.maximum(size, FIT.unseen * size.max()))
        typical = 0.01 * np.sqrt(total[p, p]) / scale
        return signed_start(self.positive, start, typical, ~self.inertial)


def data_cost(square: np.ndarray) -> float:
    """Return the cost of (n,) mean squares of the relative residuals [nats]."""
    return float(0.5 * FIT.rows * np.log(square + FIT.floor**2).sum())


def residual_squares(grams: np.ndarray, chi: np.ndarray) -> np.ndarray:
    """Return (n,) mean squares of the relative residuals."""
    vector = np.append(chi, -1.0)
    return np.maximum(0.0, grams @ vector @ vector)


def gram_matrices(rows: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Return (n, p + 1, p + 1) sums over samples of [W_j | tau_j]' [W_j | tau_j]."""
    m, n, p = rows.shape
    both = np.empty((n, m, p + 1))
    both[:, :, :p] = rows.transpose(1, 0, 2)
    both[:, :, p] = effort.T
    return np.asarray(both.transpose(0, 2, 1) @ both)
