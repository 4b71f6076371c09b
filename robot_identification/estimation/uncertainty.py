# SPDX-License-Identifier: Apache-2.0
"""
Standard deviations of an estimate from rows whose errors depend on each other.

Errors of efforts are not independent from row to row: friction that the model lacks, cables and
filters make waves of them.  Classical standard deviations are then several times too small
(`bootstrap`).  An estimate that makes the sum of scores zero has, to first order, the covariance
H^-1 C H^-1, with H the Hessian and C the covariance of the sum over blocks of time.  For a sum the
circular block bootstrap needs no drawing: many replicates tend to the scatter of all blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..errors import IdentifiabilityError
from .bootstrap import block_length, bootstrap, BootstrapSettings
from .estimate import Bootstrap, Estimate
from .least_squares import wls
from .system import LinearSystem
from .time_blocks import JointRows, Part, TimeBlocks

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


BY_PARTS = ('ols', 'wls')
"""Methods whose estimate the bootstrap repeats; others take over the growth of wls."""


def with_bootstrap(
    system: LinearSystem, estimate: Estimate, settings: BootstrapSettings
) -> Estimate:
    """
    Return an estimate with the bootstrap's standard deviations; classical ones stand beside them.

    Methods that see rows one by one (``irls``, ``mrls``) have their own standard deviations
    multiplied by what those of weighted least squares grow by.

    Parameters
    ----------
    system:
        The rows.
    estimate:
        With classical standard deviations.
    settings:
        Of the bootstrap.

    Returns
    -------
    Estimate
        as it was, with a warning, where the rows came without time or are too few.

    """
    own = estimate.method in BY_PARTS and estimate.factor is None
    plain = estimate if own else wls(system)
    try:
        drawn = bootstrap(system, plain, settings)
    except IdentifiabilityError as error:
        return classical(estimate, error)
    growth = growth_of(drawn, plain)
    if not own:
        return grown(estimate, growth)
    assert drawn.covariance is not None
    return replace(
        estimate,
        covariance=drawn.covariance,
        std=drawn.std,
        relative_std=relative(drawn.std, estimate.base.values),
        classical_std=estimate.std,
        growth=growth,
        bootstrap=drawn,
    )


def classical(estimate: Estimate, error: IdentifiabilityError) -> Estimate:
    """Return an estimate with the remark that its standard deviations are classical."""
    remark = f'standard deviations are classical ones, mostly too small: {error.message}'
    return replace(estimate, warnings=(*estimate.warnings, remark))


def growth_of(drawn: Bootstrap, plain: Estimate) -> np.ndarray:
    """(b,) factors from classical to bootstrap standard deviations; 1 where there are none."""
    known = plain.estimated & (plain.std > 0.0)
    return np.where(known, drawn.std / np.where(known, plain.std, 1.0), 1.0)


def grown(estimate: Estimate, growth: np.ndarray) -> Estimate:
    """Return an estimate whose standard deviations are multiplied, (b,) factors."""
    std = growth * estimate.std
    return replace(
        estimate,
        covariance=growth[:, None] * estimate.covariance * growth,
        std=std,
        relative_std=relative(std, estimate.base.values),
        classical_std=estimate.std,
        growth=growth,
    )


def relative(std: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``100 std / |values|`` [%]."""
    with np.errstate(divide='ignore', invalid='ignore'):
        return np.asarray(100.0 * std / np.abs(values))


def least_squares_covariance(
    blocks: TimeBlocks, weights: np.ndarray, free: np.ndarray, base: np.ndarray
) -> np.ndarray:
    """
    Return the covariance of a least squares solution by the block bootstrap.

    Parameters
    ----------
    blocks:
        All rows.
    weights:
        (n,) of the joints' rows.
    free:
        (b,) bool, the k parameters that were solved for.
    base:
        (b,) the solution.

    Returns
    -------
    np.ndarray
        (k, k).

    """
    parts = [_weighted(part, weights, free.size) for part in blocks.parts]
    norms = np.sqrt(sum((rows[:, :-1] ** 2).sum(axis=0) for rows in parts))[free]
    columns = [rows[:, :-1][:, free] / norms for rows in parts]
    residuals = [rows[:, -1] - rows[:, :-1] @ base for rows in parts]
    square = sum(matrix.T @ matrix for matrix in columns)
    scores = np.array([m.T @ r for m, r in zip(columns, residuals, strict=True)])
    inverse = np.linalg.pinv(square, hermitian=True) / norms[:, None]
    return np.asarray(inverse @ sum_covariance(scores) @ inverse.T)


def _weighted(part: Part, weights: np.ndarray, b: int) -> np.ndarray:
    """Return the weighted rows of all joints in a part, (m, b + 1)."""
    rows = np.zeros((sum(len(joint.rows) for joint in part), b + 1))
    start = 0
    for weight, joint in zip(weights, part, strict=True):
        stop = start + len(joint.rows)
        rows[start:stop, joint.columns] = weight * joint.rows[:, :-1]
        rows[start:stop, -1] = weight * joint.rows[:, -1]
        start = stop
    return rows
