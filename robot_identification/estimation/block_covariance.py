# SPDX-License-Identifier: Apache-2.0
"""
Covariance of sums over recordings whose rows depend on each other, by blocks of time.

An estimate that makes the sum of scores zero has, to first order, the covariance H^-1 C H^-1, with
H the Hessian and C the covariance of the sum.  For a sum the circular block bootstrap (see
`bootstrap`) needs no drawing: many replicates tend to the scatter of all blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .bootstrap import block_length
from .system import LinearSystem

PARTS = 128
"""Parts of the recordings at most: enough for some tens of blocks."""


def sum_covariance(scores: np.ndarray) -> np.ndarray:
    """
    Return the covariance of the sum of scores that depend on their neighbours.

    Parameters
    ----------
    scores:
        (c, k) of consecutive parts of a recording.

    Returns
    -------
    np.ndarray
        (k, k).

    """
    count = len(scores)
    size = np.sqrt(np.mean(scores**2, axis=0))
    length = block_length(scores / np.where(size > 0.0, size, 1.0))
    centred = scores - scores.mean(axis=0)
    # sums of `length` parts from each part on, round the end
    sums = np.cumsum(
        np.vstack([np.zeros_like(centred[:1]), centred, centred[: length - 1]]), axis=0
    )
    blocks = sums[length:] - sums[:-length]
    return np.asarray(blocks.T @ blocks / length) * (count / max(1, count - 1))


def part_scores(
    system: LinearSystem,
    weights: np.ndarray,
    solution: np.ndarray,
    expanded: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """
    Return the scores ``D_c^T (D_c x - tau_c)`` of the parts c of a system.

    Parameters
    ----------
    system:
        With its ``blocks``.
    weights:
        (n,) of the joints' rows.
    solution:
        (d,) x.
    expanded:
        Makes (m, d) rows D of (m, b) weighted base columns.

    Returns
    -------
    np.ndarray
        (c, d), in the order of time.

    """
    assert system.blocks is not None
    parts = system.blocks.at_most(PARTS).parts
    scores = np.zeros((len(parts), solution.size))
    for score, part in zip(scores, parts, strict=True):
        for weight, joint in zip(weights, part, strict=True):
            rows = np.zeros((len(joint.rows), system.n_base))
            rows[:, joint.columns] = weight * joint.rows[:, :-1]
            design = expanded(rows)
            score += design.T @ (design @ solution - weight * joint.rows[:, -1])
    return scores
