# SPDX-License-Identifier: Apache-2.0
r"""
Bounded Gauss-Newton on full-horizon rollouts.

The free parameters x minimise

.. math:: \sum_k |q_{sim}(t_k; x) - q(t_k)|^2 + \sigma^2 \sum_i (x_i - x_{0,i})^2 / s_i^2

over whole stretches, each simulated from its first measured state.  The Jacobian comes from finite
differences.  On a fixed base the branches of the robot do not couple, so that one rollout perturbs
a kind of parameter at the same place of all branches.  ``x_0`` and ``s`` are centres and standard
deviations of the priors (about the robot file and the given gains), and sigma is the error of the
positions that is left; as errors of neighbouring samples are alike, it is taken per
``CORRELATION_TIME`` instead of per sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..data.commands import CommandRecording
from ..progress import no_progress, Progress
from .model import ServoModel
from .parameters import CORRELATION_TIME, FreeParameters, KINDS, ServoParameters
from .pseudo_effort import bounded
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
    model:
        Of robot and simulator.
    free:
        The free parameters; its base is the start.
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

    model: ServoModel
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
    changes: Mapping[str, np.ndarray],
    *,
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
    changes:
        Sizes of parameters by kind, by which they are scaled.
    progress:
        Told about the progress.

    """
    scale = free.vector(changes.__getitem__)
    simulated = _Simulated(model, recordings, free, scale)
    low, high = simulated.bounds
    # priors are about the robot file and the given gains, not about the start
    neutral = free.vector(lambda kind: KINDS[kind].neutral) / scale
    precision = np.sqrt(simulated.alike) * scale / free.prior_std(settings)
    x = np.clip(free.vector(free.base.values) / scale, low, high)
    error, jacobian, damping = simulated.error(x), simulated.jacobian(x), 0.0
    for step in range(EVALUATIONS):
        progress(min(0.95, step / 10), f'rollouts, step {step + 1}')
        # the error that is left weights the priors
        weight = np.sqrt(np.mean(error**2)) * precision
        columns = np.vstack((jacobian.reshape(-1, x.size), np.diag(weight)))
        right = -np.append(error, weight * (x - neutral))
        triangle = np.asarray(np.linalg.qr(np.column_stack((columns, right)), mode='r'))
        move = bounded(triangle[:, :-1], triangle[:, -1], low - x, high - x, damping)
        cost = right @ right
        gain = cost - np.sum((triangle[:, :-1] @ move - triangle[:, -1]) ** 2)
        if gain < TOLERANCE * cost:
            break
        tried = simulated.error(x + move)
        decrease = cost - np.sum(tried**2) - np.sum((weight * (x + move - neutral)) ** 2)
        if decrease <= 0.0:
            damping = max(10.0 * damping, LEAST_DAMPING)
            continue
        x, error, damping = x + move, tried, 0.1 * damping
        if decrease < LINEAR * gain:
            jacobian = simulated.jacobian(x)
    return _with_deviations(simulated, x, error, jacobian, weight)


def _with_deviations(
    simulated: _Simulated,
    x: np.ndarray,
    error: np.ndarray,
    jacobian: np.ndarray,
    weight: np.ndarray,
) -> RolloutFit:
    """Return the estimate x, scaled, with its deviations; weight is that of the priors."""
    low, high = simulated.bounds
    at_bound = (x - low < AT_BOUND) | (high - x < AT_BOUND)
    inside = np.flatnonzero(~at_bound)
    jacobian = jacobian[..., inside]
    columns = np.vstack((jacobian.reshape(-1, inside.size), np.diag(weight)[:, inside]))
    normal = columns.T @ columns
    root = np.sqrt(np.diag(normal))
    root[root == 0.0] = 1.0
    scaled = normal / np.outer(root, root)
    covariance = np.linalg.pinv(scaled, hermitian=True) / np.outer(root, root)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = np.eye(x.size)
    correlation[np.ix_(inside, inside)] = covariance / np.outer(spread, spread)
    blocks = np.tile(x, (simulated.n_blocks, 1))
    blocks[:, inside] += _without_blocks(error, jacobian, normal, len(blocks))
    blocks = np.clip(blocks, low, high)
    # what a prior alone determines does not vary between blocks
    noise = np.zeros(x.size)
    noise[inside] = np.sqrt(simulated.alike * np.mean(error**2)) * spread
    return RolloutFit(
        model=simulated.model,
        free=simulated.free,
        vector=x * simulated.scale,
        std=np.maximum(noise, jackknife_std(blocks)) * simulated.scale,
        blocks=blocks * simulated.scale,
        correlation=correlation,
        at_bound=at_bound,
        rmse=np.sqrt((error**2).mean(axis=0)),
        rollouts=simulated.rollouts,
        condition=float(np.sqrt(np.linalg.cond(scaled, p=2))),
    )


class _Simulated:
    """Simulated positions where they count, by scaled parameters."""

    def __init__(
        self,
        model: ServoModel,
        recordings: Sequence[CommandRecording],
        free: FreeParameters,
        scale: np.ndarray,
    ) -> None:
        self.model, self.recordings, self.free, self.scale = model, recordings, free, scale
        self.bounds = tuple(side / scale for side in free.bounds())
        counted = [np.flatnonzero(recording.counted()) for recording in recordings]
        stride = max(1, -(-sum(map(len, counted)) // ROWS))
        self.rows = [rows[::stride] for rows in counted]
        self.measured = np.concatenate(
            [r.position[rows] for r, rows in zip(recordings, self.rows, strict=True)]
        )
        period = stride * recordings[0].period
        self.alike = max(1.0, CORRELATION_TIME / period)
        duration = period * len(self.measured)
        self.n_blocks = int(np.clip(duration / BLOCK_TIME, 1, BLOCKS))
        self.rollouts = 0
        # groups of columns that one rollout perturbs
        groups: dict[tuple[str, int, int], list[int]] = {}
        branches = model.branches
        for column, (kind, joints, component) in enumerate(free):
            j = joints[0]
            # buses may share branches
            place = j if kind == 'delay' else int((branches[:j] == branches[j]).sum())
            groups.setdefault((kind, place, component), []).append(column)
        self.colours = list(groups.values())

    def _positions(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """Return (n_vectors, n_samples, n) positions."""
        sets = [self.free.parameters(vector * self.scale) for vector in vectors]
        self.rollouts += len(sets) * len(self.recordings)
        parts = [
            [position[rows] for position in self.model.rollouts(sets, recording)]
            for recording, rows in zip(self.recordings, self.rows, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def error(self, vector: np.ndarray) -> np.ndarray:
        """Return (n_samples, n) errors of positions."""
        return np.asarray(self._positions([vector])[0] - self.measured)

    def jacobian(self, vector: np.ndarray) -> np.ndarray:
        """Return the (n_samples, n, p) derivative of `error` by finite differences."""
        moved = np.tile(vector, (1 + len(self.colours), 1))
        for other, columns in zip(moved[1:], self.colours, strict=True):
            other[columns] += DIFFERENCE
        at, *others = self._positions([*moved])
        branches = self.model.branches
        moving = [np.isin(branches, branches[joints]) for _, joints, _ in self.free]
        jacobian = np.zeros((*at.shape, len(vector)))
        for columns, position in zip(self.colours, others, strict=True):
            for column in columns:
                jacobian[..., column] = moving[column] * (position - at) / DIFFERENCE
        return jacobian


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
