# SPDX-License-Identifier: Apache-2.0
"""
Strength of a prior, by cross-validation over contiguous parts of the recordings.

The recordings are cut into five stretches.  Parameters are fitted to four of them and predict the
fifth; the cost is the mean over joints of the logarithm of the held-out residual.  Taken is the
strongest prior whose cost is within one per cent of the best: what the data hardly tell apart is
left to the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .system import LinearSystem
from .time_blocks import TimeBlocks

FOLDS = 5
"""Stretches that are held out in turn."""

STRENGTHS = 10.0 ** np.arange(5.0, -1.5, -0.5)
"""Weights that are compared, the strongest first."""

NEAR_BEST = 0.01
"""Share by which the held-out residual may exceed the least one."""


@dataclass(frozen=True)
class Strength:
    """
    Weight of a prior, and how it was found.

    Attributes
    ----------
    weight:
        The one that is taken.
    best:
        The one that predicts best, at most ``weight``: how far bodies are from the prior.
    costs:
        (k,) mean log of the held-out residual by `STRENGTHS`; empty where nothing was compared.

    """

    weight: float
    best: float
    costs: np.ndarray


@dataclass(frozen=True)
class Folds:
    """
    R factors of stretches of the recordings.

    Attributes
    ----------
    factors:
        (FOLDS, n, b + 1, b + 1) R of [W_j | tau_j] of each stretch and joint.

    """

    factors: np.ndarray

    @classmethod
    def of(cls, system: LinearSystem) -> Folds | None:
        """Cut a system's recordings; None where its rows came without time, or are too few."""
        blocks = system.blocks
        if blocks is None or len(blocks) < 2 * FOLDS:
            return None
        width = system.n_base + 1
        factors = np.zeros((FOLDS, system.n_joints, width, width))
        bounds = np.linspace(0, len(blocks), FOLDS + 1).astype(int)
        for fold in range(FOLDS):
            for joint in range(system.n_joints):
                reduced = _joint_factor(blocks, slice(*bounds[fold : fold + 2]), joint, width)
                factors[fold, joint, : len(reduced)] = reduced
        return cls(factors)

    def training(self, fold: int, weights: np.ndarray) -> np.ndarray:
        """Return R of the weighted rows of all stretches but one, (b + 1, b + 1)."""
        others = np.delete(self.factors, fold, axis=0) * weights[:, None, None]
        rows = others.reshape(-1, others.shape[-1])
        return np.asarray(np.linalg.qr(rows[rows.any(axis=1)], mode='r'))

    def held_out(self, fold: int, base: np.ndarray) -> np.ndarray:
        """Return the norm of the residual of each joint in one stretch, (n,)."""
        return np.linalg.norm(self.factors[fold] @ np.append(base, -1.0), axis=1)


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
    squares = np.zeros((len(STRENGTHS), len(weights)))
    for fold in range(FOLDS):
        factor = folds.training(fold, weights)
        found: np.ndarray | None = None
        for place, strength in enumerate(STRENGTHS):
            found, base = fit(factor, float(strength), found)
            squares[place] += folds.held_out(fold, base) ** 2
    costs = 0.5 * np.log(squares[:, driven]).mean(axis=1)
    near = np.flatnonzero(costs <= costs.min() + np.log1p(NEAR_BEST))
    return Strength(float(STRENGTHS[near[0]]), float(STRENGTHS[costs.argmin()]), costs)


def _joint_factor(blocks: TimeBlocks, which: slice, joint: int, width: int) -> np.ndarray:
    rows = []
    for part in blocks.parts[which]:
        own = part[joint]
        whole = np.zeros((len(own.rows), width))
        whole[:, own.columns] = own.rows[:, :-1]
        whole[:, -1] = own.rows[:, -1]
        rows.append(whole)
    return np.asarray(np.linalg.qr(np.vstack(rows), mode='r'))
