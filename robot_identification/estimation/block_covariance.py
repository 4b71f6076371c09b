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
from .time_blocks import JointRows

PARTS = 128
"""Parts of the recordings at most: enough for some tens of blocks."""

_DEPENDENT = 1e-9


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


def variance_inflation(system: LinearSystem) -> float:
    """
    Return by how much variances are larger than with independent rows, the median; at least 1.

    It is found from each joint's own least squares, which no gain and no other joint's rows touch.

    Parameters
    ----------
    system:
        The rows; without its ``blocks`` the answer is 1.

    """
    if system.blocks is None:
        return 1.0
    parts = system.blocks.at_most(PARTS).parts
    found: list[float] = []
    for joint in np.flatnonzero(system.driven):
        matrix, effort = system.factors[joint, :, :-1], system.factors[joint, :, -1]
        norms = np.linalg.norm(matrix, axis=0)
        norms[norms == 0.0] = np.inf
        left, sizes, right = np.linalg.svd(matrix / norms, full_matrices=False)
        kept = sizes > _DEPENDENT * sizes[0]
        # in these coordinates independent rows of unit noise have scores of unit covariance
        white = (right[kept] / sizes[kept, None] / norms).T
        residual = effort - left[:, kept] @ (left[:, kept].T @ effort)
        freedom = system.independent_rows[joint] - kept.sum()
        if freedom <= 0.0 or not residual.any():
            continue
        noise = np.linalg.norm(residual) / np.sqrt(freedom)
        solution = white @ (left[:, kept].T @ effort)
        scores = np.array([_own_scores(part[joint], white, solution) for part in parts]) / noise
        found += np.diag(sum_covariance(scores)).tolist()
    return max(1.0, float(np.median(found))) if found else 1.0


def _own_scores(part: JointRows, white: np.ndarray, solution: np.ndarray) -> np.ndarray:
    """Return the scores of a joint's rows in white coordinates, (k,)."""
    residual = part.rows[:, :-1] @ solution[part.columns] - part.rows[:, -1]
    return np.asarray(white[part.columns].T @ (part.rows[:, :-1].T @ residual))
