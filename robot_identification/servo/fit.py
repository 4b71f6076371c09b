# SPDX-License-Identifier: Apache-2.0
r"""
Bounded Gauss-Newton on errors of positions, with priors, and deviations under model error.

The free parameters x minimise

.. math:: \sum_k |e_k(x)|^2 + \sigma^2 \sum_i (x_i - x_{0,i})^2 / s_i^2

where the errors e are those of efforts divided by stiffness (`pseudo_effort`) or of rollouts
(`rollouts`).  ``x_0`` and ``s`` are centres and standard deviations of the priors (about the robot
file and the given gains), and sigma is the error of the positions that is left; as errors of
neighbouring samples are alike, it is taken per `FitConstants.correlation_time`, not per sample.

Deviations do not take errors as independent, since most of what rollouts leave is what the model
lacks: the gradient's covariance is that of errors with their correlation in time, or that between
blocks of the recordings (a sandwich estimate).  Motions that differ in kind may differ by more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import lsq_linear

from ..support.progress import no_progress, Progress
from .parameters import FreeParameters, KINDS, ServoParameters
from .settings import ServoSettings

if TYPE_CHECKING:  # MuJoCo is an extra
    from .model import ServoModel


@dataclass(frozen=True)
class FitConstants:
    """Constants of the fit and of its deviations."""

    rows: int = 6000
    """Samples of all recordings that enter; of more, every k-th does."""
    correlation_time: float = 0.1
    """Time within which errors of positions count as one, where priors are weighted [s]."""
    first_damping: float = 1e-3
    """Damping after a step that has not lowered the sum of squares."""
    linear_share: float = 0.9
    """Share of the predicted decrease above which a step keeps the Jacobian."""
    steps: int = 30
    """Largest number of steps."""
    bound_distance: float = 1e-3
    """Distance from a bound, in scales of the parameters, within which one is at it."""
    block_time: float = 1.0
    """Least length of the blocks of which each is left out once, for deviations [s]."""
    blocks: int = 12
    """Largest number of blocks."""
    most_by_blocks: float = 3.0
    """Ratio to the deviation between blocks that one by correlated errors does not pass."""
    small_correlation: float = 0.05
    """Correlation of errors below which they have forgotten each other."""


FIT = FitConstants()


class PositionErrors(ABC):
    """
    Errors of positions by scaled parameters.

    Attributes
    ----------
    model:
        Of robot and simulator.
    free:
        The free parameters; its base is the start.
    scale:
        (p,) sizes of parameters, by which vectors are divided.
    bounds:
        Lower and upper ones of scaled parameters, each (p,).
    alike:
        Number of neighbouring samples whose errors count as one.
    n_blocks:
        Number of blocks of which each is left out once.
    rollouts:
        Number of simulated stretches so far.

    """

    tolerance: float
    """Decrease of the sum of squares, by that of a deviation, that is not worth a step."""

    def __init__(
        self,
        model: ServoModel,
        free: FreeParameters,
        scale: np.ndarray,
        period: float,
        n_samples: int,
    ) -> None:
        self.model, self.free, self.scale = model, free, scale
        self.bounds = tuple(side / scale for side in free.bounds())
        self.alike = max(1.0, FIT.correlation_time / period)
        self.n_blocks = int(np.clip(period * n_samples / FIT.block_time, 1, FIT.blocks))
        self.rollouts = 0

    @abstractmethod
    def error(self, vector: np.ndarray) -> np.ndarray:
        """Return errors of positions; samples are along the first axis."""

    @abstractmethod
    def jacobian(self, vector: np.ndarray) -> np.ndarray:
        """Return the derivative of `error`, with the p parameters along the last axis."""


@dataclass(frozen=True)
class ServoFit:
    """
    Estimate of the parameters of servos.

    Attributes
    ----------
    model:
        Of robot and simulator.
    free:
        The free parameters; its base is the start.
    vector:
        (p,) their estimate.
    std:
        (p,) standard deviations of the estimate, with those of the priors: by the size of errors
        and how long they are correlated, or by what differs between blocks, whichever is more.
    blocks:
        (n_blocks, p) estimates with one block left out, to first order.
    correlation:
        (p, p) of the estimate's errors under independent noise.
    at_bound:
        (p,) True for parameters at a bound.
    rollouts:
        Number of simulated stretches; 0 for least squares on efforts.
    condition:
        Condition of the scaled Jacobian with the priors.

    """

    model: ServoModel
    free: FreeParameters
    vector: np.ndarray
    std: np.ndarray
    blocks: np.ndarray
    correlation: np.ndarray
    at_bound: np.ndarray
    rollouts: int
    condition: float

    @property
    def parameters(self) -> ServoParameters:
        """All parameters of the joints."""
        return self.free.parameters(self.vector)


def fit(
    problem: PositionErrors,
    settings: ServoSettings,
    *,
    steps: int = FIT.steps,
    progress: Progress = no_progress,
) -> ServoFit:
    """Estimate the free parameters by no more than some steps, with priors of the settings."""
    free, scale = problem.free, problem.scale
    low, high = problem.bounds
    # priors are about the robot file and the given gains, not about the start
    neutral = free.vector(lambda kind: KINDS[kind].neutral) / scale
    precision = np.sqrt(problem.alike) * scale / free.prior_std(settings)
    x = np.clip(free.vector(free.base.values) / scale, low, high)
    error, jacobian, damping = problem.error(x), problem.jacobian(x), 0.0
    for step in range(steps):
        progress(min(0.95, step / 10), f'step {step + 1}')
        # the error that is left weights the priors
        weight = np.sqrt(np.mean(error**2)) * precision
        columns = np.vstack((jacobian.reshape(-1, x.size), np.diag(weight)))
        right = -np.append(error, weight * (x - neutral))
        triangle = np.asarray(np.linalg.qr(np.column_stack((columns, right)), mode='r'))
        move = bounded(triangle[:, :-1], triangle[:, -1], low - x, high - x, damping)
        cost = right @ right
        gain = cost - np.sum((triangle[:, :-1] @ move - triangle[:, -1]) ** 2)
        if gain < problem.tolerance * problem.alike * np.mean(error**2):
            break
        tried = problem.error(x + move)
        decrease = cost - np.sum(tried**2) - np.sum((weight * (x + move - neutral)) ** 2)
        if decrease <= 0.0:
            damping = max(10.0 * damping, FIT.first_damping)
            continue
        x, error, damping = x + move, tried, 0.1 * damping
        if decrease < FIT.linear_share * gain:
            jacobian = problem.jacobian(x)
    return _with_deviations(problem, x, error, jacobian, weight)


def bounded(
    columns: np.ndarray,
    right: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    damping: float = 0.0,
) -> np.ndarray:
    """Return the least-squares solution within bounds; damping is by the columns' squares."""
    norms = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    damped = np.vstack((columns / norms, np.sqrt(damping) * np.eye(norms.size)))
    right = np.append(right, np.zeros(norms.size))
    found = lsq_linear(damped, right, (lower * norms, upper * norms), method='bvls')
    return np.asarray(found.x / norms)


def _with_deviations(
    problem: PositionErrors,
    x: np.ndarray,
    error: np.ndarray,
    jacobian: np.ndarray,
    weight: np.ndarray,
) -> ServoFit:
    """Return the estimate x, scaled, with its deviations; weight is that of the priors."""
    low, high = problem.bounds
    at_bound = (x - low < FIT.bound_distance) | (high - x < FIT.bound_distance)
    inside = np.flatnonzero(~at_bound)
    columns = np.vstack((jacobian.reshape(-1, x.size), np.diag(weight)))
    normal = columns.T @ columns
    root = np.sqrt(np.diag(normal))
    root[root == 0.0] = 1.0
    scaled = normal / np.outer(root, root)
    # parameters at bounds are unknown, too: the others' deviations count with them
    covariance = np.linalg.pinv(scaled, hermitian=True) / np.outer(root, root)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    blocks = np.tile(x, (problem.n_blocks, 1))
    blocks[:, inside] += _without_blocks(
        error, jacobian[..., inside], normal[np.ix_(inside, inside)], len(blocks)
    )
    blocks = np.clip(blocks, low, high)
    prior = problem.alike * np.mean(error**2) * np.diag(weight**2)
    between = _between_blocks(error, jacobian, problem.n_blocks)
    by_errors, by_blocks, by_priors = (
        np.maximum(np.diag(covariance @ scatter @ covariance), 0.0)
        for scatter in (_by_correlation(error, jacobian, problem.alike), between, prior)
    )
    most = FIT.most_by_blocks**2 * by_blocks if problem.n_blocks > 1 else np.inf
    variance = np.maximum(np.minimum(by_errors, most), by_blocks) + by_priors
    return ServoFit(
        model=problem.model,
        free=problem.free,
        vector=x * problem.scale,
        std=np.sqrt(np.maximum(variance, 1e-300)) * problem.scale,
        blocks=blocks * problem.scale,
        correlation=covariance / np.outer(spread, spread),
        at_bound=at_bound,
        rollouts=problem.rollouts,
        condition=float(np.sqrt(np.linalg.cond(scaled, p=2))),
    )


def _by_correlation(error: np.ndarray, jacobian: np.ndarray, alike: float) -> np.ndarray:
    """
    Return the (p, p) covariance of the gradient by the size of errors and how long they last.

    It is that of all joints: what the model lacks at one of them pulls what they share, such as
    the delay.  Errors of joints that are mixed in one column are alike for a given number.
    """
    columns = jacobian.reshape(-1, jacobian.shape[-1])
    times = alike if error.ndim == 1 else correlated_samples(error)
    return np.asarray(np.mean(times * np.mean(error**2, axis=0)) * (columns.T @ columns))


def correlated_samples(errors: np.ndarray) -> np.ndarray:
    """Return (n,) numbers of samples, at least 1, over which (n_samples, n) errors are alike."""
    count = len(errors)
    transformed = np.fft.rfft(errors, 2 * count, axis=0)  # twice as long: it does not wrap around
    correlation = np.fft.irfft(np.abs(transformed) ** 2, axis=0)[:count]
    correlation = correlation / np.maximum(correlation[0], 1e-300)
    small = correlation < FIT.small_correlation
    ends = np.where(small.any(axis=0), small.argmax(axis=0), count)
    counted = np.arange(count)[:, None] < ends
    return np.asarray(np.maximum(2.0 * np.sum(correlation * counted, axis=0) - 1.0, 1.0))


def _between_blocks(error: np.ndarray, jacobian: np.ndarray, count: int) -> np.ndarray:
    """Return the (p, p) covariance of the gradient by blocks, neighbours of which are alike."""
    p = jacobian.shape[-1]
    if count < 2:
        return np.zeros((p, p))
    parts = zip(np.array_split(jacobian, count), np.array_split(error, count), strict=True)
    gradients = np.array([part.reshape(-1, p).T @ rest.ravel() for part, rest in parts])
    gradients -= gradients.mean(axis=0)
    beside = gradients[1:].T @ gradients[:-1]
    # Bartlett's weight of one lag keeps the variances positive
    scatter = gradients.T @ gradients + 0.5 * (beside + beside.T)
    return np.asarray(scatter * count / (count - 1))


def _without_blocks(
    error: np.ndarray, jacobian: np.ndarray, normal: np.ndarray, count: int
) -> np.ndarray:
    """Return (n_blocks, p) changes of the estimate without one block, to first order."""
    changes = np.zeros((count, len(normal)))
    if count < 2:
        return changes
    parts = zip(np.array_split(jacobian, count), np.array_split(error, count), strict=True)
    for change, (columns, rest) in zip(changes, parts, strict=True):
        part = columns.reshape(-1, len(normal))
        change[:] = np.linalg.lstsq(normal - part.T @ part, part.T @ rest.ravel(), rcond=1e-10)[0]
    return changes


def jackknife_std(blocks: np.ndarray) -> np.ndarray:
    """Return (p,) standard deviations by (n_blocks, p) estimates with one block left out."""
    count = len(blocks)
    squares = ((blocks - blocks.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(np.sqrt((count - 1) / count * squares))
