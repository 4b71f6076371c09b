# SPDX-License-Identifier: Apache-2.0
r"""
Bounded Gauss-Newton on full-horizon rollouts.

The free parameters x minimise

.. math:: \sum_k |q_{sim}(t_k; x) - q(t_k)|^2 + \sigma^2 \sum_i (x_i - x_{0,i})^2 / s_i^2

over whole stretches, each simulated from its first measured state.  The Jacobian comes from finite
differences.  On a fixed base the branches of the robot do not couple, so that one rollout perturbs
a kind of parameter at the same place of all branches.  ``x_0`` and ``s`` are centres and standard
deviations of the priors (about the robot file and the given gains), and sigma is the error of the
positions; as errors of neighbouring samples are alike, it is taken per ``CORRELATION_TIME``
instead of per sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from ..data.commands import CommandRecording
from ..progress import no_progress, Progress
from .model import ServoModel
from .parameters import CORRELATION_TIME, FreeParameters, KINDS, Scales, ServoParameters
from .settings import ServoSettings

ROWS = 6000
"""Samples of all stretches that enter the fit; of more, every k-th does."""

DIFFERENCE = 0.001
"""
Finite differences in scales of the parameters: a change of efforts by a ten-thousandth.

Larger ones change when a joint sticks; such jumps look like knowledge of parameters that the
recordings do not determine, above all of gains.
"""

TOLERANCE = 3e-3
"""Share of the sum of squares below which a step is not worth its rollouts."""

LEAST_DAMPING = 1e-3
"""Damping after a step that has not lowered the sum of squares."""

LINEAR = 0.9
"""
Share of the predicted decrease above which a step keeps the Jacobian: residuals are linear there.
"""

REWEIGHTED = 0.8
"""Share of the error before below which priors are weighted anew."""

EVALUATIONS = 30
"""Largest number of steps."""

AT_BOUND = 1e-3
"""Distance from a bound, in scales of the parameters, within which one is at it."""

BLOCK_TIME = 1.0
"""Least length of the blocks of which each is left out once, for deviations [s]."""

BLOCKS = 12
"""Largest number of blocks."""


@dataclass(frozen=True)
class RolloutFit:
    """
    Estimate from rollouts.

    Attributes
    ----------
    free:
        The free parameters.
    vector:
        (p,) their estimate.
    std:
        (p,) standard deviations of the estimate: by leaving out blocks of the recordings, or by
        noise and priors where these give more.
    blocks:
        (n_blocks, p) estimates with one block left out, to first order.
    correlation:
        (p, p) of the estimate's errors under independent noise.
    at_bound:
        (p,) True for parameters at a bound.
    rmse:
        (n,) errors of positions on the recordings of the fit [rad or m].
    rollouts:
        Number of simulated stretches.
    condition:
        Condition of the scaled Jacobian with the priors.

    """

    free: FreeParameters
    vector: np.ndarray
    std: np.ndarray
    blocks: np.ndarray
    correlation: np.ndarray
    at_bound: np.ndarray
    rmse: np.ndarray
    rollouts: int
    condition: float

    @property
    def parameters(self) -> ServoParameters:
        """All parameters of the joints."""
        return self.free.parameters(self.vector)


def fit_rollouts(
    model: ServoModel,
    recordings: Sequence[CommandRecording],
    free: FreeParameters,
    settings: ServoSettings,
    scales: Scales,
    *,
    sigma: float = 0.0,
    progress: Progress = no_progress,
) -> RolloutFit:
    """
    Estimate free parameters from rollouts.

    Parameters
    ----------
    model:
        Of robot and simulator.
    recordings:
        Stretches without gaps.
    free:
        The free parameters; its base is the start.
    settings:
        Of the servos, with the priors.
    scales:
        Sizes of efforts and motions.
    sigma:
        Error of the positions by which priors are weighted [rad or m]; 0 leaves them out.
    progress:
        Told about the progress.

    """
    residuals = _Residuals(model, recordings, free, settings, scales, sigma, progress)
    vector = np.clip(residuals.start, *residuals.bounds)
    error = residuals.residual(vector)
    damping = 0.0
    jacobian = residuals.jacobian(vector)
    for _ in range(EVALUATIONS):
        step, gain = _step(jacobian, error, vector, residuals.bounds, damping)
        if gain < TOLERANCE * (error @ error):
            if not residuals.reweight(error, jacobian):
                break
            continue
        tried = residuals.residual(vector + step)
        decrease = error @ error - tried @ tried
        if decrease <= 0.0:
            damping = max(10.0 * damping, LEAST_DAMPING)
            continue
        vector, error, damping = vector + step, tried, 0.1 * damping
        if decrease < LINEAR * gain:
            jacobian = residuals.jacobian(vector)
    return residuals.result(vector, error, jacobian)


def _step(
    jacobian: np.ndarray,
    error: np.ndarray,
    vector: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    damping: float,
) -> tuple[np.ndarray, float]:
    """
    Return the Gauss-Newton step within bounds, and the decrease of the cost that it predicts.

    Levenberg and Marquardt's damping is in shares of the squares of the columns.
    """
    low, high = bounds
    triangle = np.asarray(np.linalg.qr(np.column_stack((jacobian, error)), mode='r'))
    columns, right = triangle[:, :-1], -triangle[:, -1]
    norms = np.linalg.norm(columns, axis=0)
    norms[norms == 0.0] = 1.0
    damped = np.vstack((columns / norms, np.sqrt(damping) * np.eye(len(vector))))
    room = (low - vector) * norms, (high - vector) * norms
    found = lsq_linear(damped, np.append(right, np.zeros(len(vector))), room, method='bvls')
    rest = columns @ (found.x / norms) - right
    return found.x / norms, float(error @ error - rest @ rest)


class _Residuals:
    """Residuals and Jacobian of scaled parameters."""

    def __init__(
        self,
        model: ServoModel,
        recordings: Sequence[CommandRecording],
        free: FreeParameters,
        settings: ServoSettings,
        scales: Scales,
        sigma: float,
        progress: Progress,
    ) -> None:
        self.model, self.recordings, self.free = model, recordings, free
        self.progress, self.rollouts, self.evaluations = progress, 0, 0
        self.scale = np.concatenate(
            [free.entries(kind, scales.of_kind(kind)) for kind in free.kinds]
        )
        self.start = free.vector(free.base) / self.scale
        # priors are about the robot file and the given gains, not about the start
        self.neutral = np.array([KINDS[kind].neutral for kind, _, _ in free]) / self.scale
        self.bounds = tuple(side / self.scale for side in free.bounds())
        total = sum(int(recording.counted().sum()) for recording in recordings)
        self.stride = max(1, -(-total // ROWS))
        self.rows = [np.flatnonzero(r.counted())[:: self.stride] for r in recordings]
        rate = 1.0 / (self.stride * recordings[0].period)
        self.sigma, self.alike = sigma, max(1.0, CORRELATION_TIME * rate)
        self.by_sigma = np.sqrt(self.alike) / free.prior_std(settings) * self.scale
        self.prior = sigma * self.by_sigma
        self.colours = self._coloured()

    def _coloured(self) -> list[list[int]]:
        """Return groups of columns that one rollout perturbs."""
        branches = self.model.branches
        groups: dict[tuple[str, int, int], list[int]] = {}
        for column, (kind, joints, component) in enumerate(self.free):
            j = joints[0]
            # buses may share branches
            place = j if kind == 'delay' else int((branches[:j] == branches[j]).sum())
            groups.setdefault((kind, place, component), []).append(column)
        return list(groups.values())

    def _simulated(self, vectors: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """Return thinned positions by stretch and vector."""
        sets = [self.free.parameters(vector * self.scale) for vector in vectors]
        self.rollouts += len(sets) * len(self.recordings)
        return [
            [position[rows] for position in self.model.rollouts(sets, recording)]
            for recording, rows in zip(self.recordings, self.rows, strict=True)
        ]

    def residual(self, vector: np.ndarray) -> np.ndarray:
        """Return errors of positions, and of the priors."""
        self.evaluations += 1
        self.progress(min(0.95, self.evaluations / 10), f'rollouts, step {self.evaluations}')
        errors = [
            (simulated[0] - recording.position[rows]).ravel()
            for simulated, recording, rows in zip(
                self._simulated([vector]), self.recordings, self.rows, strict=True
            )
        ]
        return np.concatenate((*errors, self.prior * (vector - self.neutral)))

    def jacobian(self, vector: np.ndarray) -> np.ndarray:
        """Return the derivative of `residual` by finite differences."""
        high, moved, steps = self.bounds[1], [vector], []
        for columns in self.colours:
            step = (
                -DIFFERENCE if (vector[columns] + DIFFERENCE > high[columns]).any() else DIFFERENCE
            )
            other = vector.copy()
            other[columns] += step
            moved.append(other)
            steps.append(step)
        branches = self.model.branches
        moving = [np.isin(branches, branches[joints]) for _, joints, _ in self.free]
        parts = []
        for simulated in self._simulated(moved):
            block = np.zeros((*simulated[0].shape, len(vector)))
            for columns, position, step in zip(self.colours, simulated[1:], steps, strict=True):
                change = (position - simulated[0]) / step
                for column in columns:
                    block[:, moving[column], column] = change[:, moving[column]]
            parts.append(block.reshape(-1, len(vector)))
        return np.vstack((*parts, np.diag(self.prior)))

    def reweight(self, error: np.ndarray, jacobian: np.ndarray) -> bool:
        """
        Weight the priors by the error that is left, if it has become much smaller.

        Change the rows of the priors in place, and return whether they have changed.
        """
        p = len(self.start)
        sigma = float(np.sqrt(np.mean(error[:-p] ** 2)))
        if not sigma < REWEIGHTED * self.sigma:
            return False
        error[-p:] *= sigma / self.sigma
        jacobian[-p:] *= sigma / self.sigma
        self.sigma, self.prior = sigma, sigma * self.by_sigma
        return True

    def result(self, vector: np.ndarray, error: np.ndarray, jacobian: np.ndarray) -> RolloutFit:
        """Return the estimate with deviations, correlations and bounds."""
        n, (low, high) = self.model.robot.n_joints, self.bounds
        errors = error[: -len(vector)].reshape(-1, n)
        at_bound = (vector - low < AT_BOUND) | (high - vector < AT_BOUND)
        inside = np.flatnonzero(~at_bound)
        normal = jacobian[:, inside].T @ jacobian[:, inside]
        root = np.sqrt(np.diag(normal))
        root[root == 0.0] = 1.0
        eigenvalues = np.linalg.eigvalsh(normal / np.outer(root, root))
        inverse = np.linalg.pinv(normal / np.outer(root, root), hermitian=True)
        covariance = inverse / np.outer(root, root)
        spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        correlation = np.eye(len(vector))
        correlation[np.ix_(inside, inside)] = covariance / np.outer(spread, spread)
        blocks = self._without_blocks(vector, error, jacobian, inside, normal)
        # what a prior alone determines does not vary between blocks
        noise = np.zeros(len(vector))
        noise[inside] = np.sqrt(self.alike * np.mean(errors**2)) * spread
        std = np.maximum(noise, jackknife_std(blocks))
        return RolloutFit(
            free=self.free,
            vector=vector * self.scale,
            std=std * self.scale,
            blocks=blocks * self.scale,
            correlation=correlation,
            at_bound=at_bound,
            rmse=np.sqrt((errors**2).mean(axis=0)),
            rollouts=self.rollouts,
            condition=float(np.sqrt(eigenvalues[-1] / max(eigenvalues[0], 1e-300))),
        )

    def _without_blocks(
        self,
        vector: np.ndarray,
        error: np.ndarray,
        jacobian: np.ndarray,
        inside: np.ndarray,
        normal: np.ndarray,
    ) -> np.ndarray:
        """Return (n_blocks, p) estimates with one block of rows left out, to first order."""
        rows = self._blocks()
        blocks = np.tile(vector, (len(rows), 1))
        if len(rows) < 2:
            return blocks
        for k, block in enumerate(rows):
            part = jacobian[block][:, inside]
            step = np.linalg.lstsq(normal - part.T @ part, part.T @ error[block], rcond=1e-10)
            blocks[k, inside] += step[0]
        return np.clip(blocks, *self.bounds)

    def _blocks(self) -> list[np.ndarray]:
        """Return the rows of the blocks: stretches, or parts of long ones."""
        n, period = self.model.robot.n_joints, self.stride * self.recordings[0].period
        durations = [period * len(rows) for rows in self.rows]
        length = max(BLOCK_TIME, sum(durations) / BLOCKS)
        blocks, start = [], 0
        for rows, duration in zip(self.rows, durations, strict=True):
            parts = max(1, round(duration / length))
            edges = start + n * np.round(np.linspace(0, len(rows), parts + 1)).astype(int)
            blocks += [np.arange(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
            start += n * len(rows)
        return blocks


def jackknife_std(blocks: np.ndarray) -> np.ndarray:
    """Return (p,) standard deviations by (n_blocks, p) estimates with one block left out."""
    count = len(blocks)
    squares = ((blocks - blocks.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(np.sqrt((count - 1) / max(count, 1) * squares))
