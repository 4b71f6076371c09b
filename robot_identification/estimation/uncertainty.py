# SPDX-License-Identifier: Apache-2.0
"""
Standard deviations of an estimate by the block bootstrap, in place of the classical ones.

Errors of efforts are not independent from row to row: friction that the model lacks, cables and
filters make waves of them.  Classical standard deviations are then several times too small
(`bootstrap`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import IdentifiabilityError
from .block_covariance import sum_covariance
from .bootstrap import bootstrap, BootstrapSettings
from .estimate import Bootstrap, Estimate
from .least_squares import wls
from .system import LinearSystem
from .time_blocks import Part, TimeBlocks

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
