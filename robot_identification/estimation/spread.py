# SPDX-License-Identifier: Apache-2.0
"""
Ratios by which a recording contradicts the deviations of its own parameters.

Standard deviations are of rows that are alike, and count noise alone.  What the model lacks shows
where parts of the rows, each with its own least squares, differ by more than their deviations say:

- two halves of the recordings, with information J_A and J_B and the difference d of their
  estimates: ``halves^2 = d' J_A (J_A + J_B)^-1 J_B d / k`` over the k parameters that both
  determine;
- the joints, whose efforts share the parameters of the links: with the squared residual S of all
  rows, S_j of joint j's alone, and ranks r and r_j,
  ``joints^2 = (S - sum_j S_j) / (sum_j r_j - r)``.  Two recordings of the same kind agree in
  what a joint's friction or sensor lacks, and differ in which parameters take it up.

Both are ratios of Birge ("The calculation of errors by the method of least squares", Phys. Rev.
1932).  What their squares exceed 1 by adds up.
"""

from __future__ import annotations

import numpy as np

from .estimate import Estimate
from .system import LinearSystem

LEAST_INFORMATION = 1e-12
"""Share of the information below which a half determines nothing."""

_DEPENDENT = 1e-8
"""Singular values of scaled rows, by the largest, below which they are rounding."""


def spread(system: LinearSystem, estimate: Estimate) -> float:
    """Return what deviations are to be multiplied by, from 1 on; NaN where one part is alone."""
    halves = spread_of_halves(system, estimate)
    if np.isnan(halves):
        return np.nan
    excess = sum(max(0.0, each**2 - 1.0) for each in (halves, spread_of_joints(system, estimate)))
    return float(np.sqrt(1.0 + excess))


def spread_of_halves(system: LinearSystem, estimate: Estimate) -> float:
    """Return how far two halves of the recordings differ, in their deviations; NaN if unknown."""
    blocks, scales = system.blocks, _row_scales(estimate)
    if blocks is None or len(blocks) < 2 or scales is None:
        return np.nan
    b = system.factor.n_base
    half = len(blocks) // 2
    information, found = np.zeros((2, b, b)), np.zeros((2, b))
    for place, parts in enumerate((blocks.parts[:half], blocks.parts[half:])):
        rows = np.vstack(
            [part.all_columns(b) * scale for each in parts for part, scale in zip(each, scales)]
        )
        triangle = np.asarray(np.linalg.qr(rows, mode='r'))
        sizes = _sizes(triangle[:, :-1])
        scaled = triangle[:, :-1] / sizes
        found[place] = np.linalg.lstsq(scaled, triangle[:, -1], _DEPENDENT)[0] / sizes
        information[place] = triangle[:, :-1].T @ triangle[:, :-1]
    units = np.sqrt(np.diag(information.sum(axis=0)))
    units[units == 0.0] = 1.0
    first, second = information / units[:, None] / units
    both = first @ np.linalg.pinv(first + second, rcond=LEAST_INFORMATION) @ second
    difference = (found[0] - found[1]) * units
    rank = int(np.linalg.matrix_rank(both, tol=LEAST_INFORMATION**0.75))
    return float(np.sqrt(max(0.0, difference @ both @ difference) / max(1, rank)))


def spread_of_joints(system: LinearSystem, estimate: Estimate) -> float:
    """Return how far the joints differ, in their deviations; 0 where they share no parameters."""
    scales = _row_scales(estimate)
    if scales is None:
        return 0.0
    rows = np.asarray(system.factor.triangles) * scales[:, None, None]
    rows = rows[system.factor.driven]
    alone, ranks = np.transpose([_residual(each) for each in rows])
    whole, rank = _residual(np.asarray(np.linalg.qr(rows.reshape(-1, rows.shape[-1]), mode='r')))
    freedom = ranks.sum() - rank
    return float(np.sqrt(max(0.0, whole - alone.sum()) / freedom)) if freedom > 0 else 0.0


def inflated_covariance(estimate: Estimate, inflation: float) -> np.ndarray | None:
    """
    Return (p, p) of the standard parameters, with deviations by the data multiplied.

    What the prior says is no less certain for it.  None where the method has no such covariance;
    0 stands for what has none.
    """
    whole = estimate.standard_covariance
    if whole is None:
        return None
    data = whole if estimate.data_covariance is None else estimate.data_covariance
    return np.asarray(np.nan_to_num(whole) + (inflation**2 - 1.0) * np.nan_to_num(data))


def _row_scales(estimate: Estimate) -> np.ndarray | None:
    """Return what each joint's rows are multiplied by to have unit noise, (n,)."""
    noise = float(estimate.rows.residual_std or 0.0)
    if noise <= 0.0:
        return None
    if estimate.method != 'physical':  # there rows are weighed for coloured noise
        growth = estimate.uncertainty.growth
        noise *= 1.0 if growth is None else float(np.nanmedian(growth))
    return np.asarray(estimate.rows.weights) / noise


def _residual(rows: np.ndarray) -> tuple[float, int]:
    """Return the squared residual of the least squares of (m, b + 1) rows, and their rank."""
    left, values, _ = np.linalg.svd(rows[:, :-1] / _sizes(rows[:, :-1]), full_matrices=False)
    left = left[:, values > _DEPENDENT * values.max(initial=0.0)]
    residual = rows[:, -1] - left @ (left.T @ rows[:, -1])
    return float(residual @ residual), left.shape[1]


def _sizes(matrix: np.ndarray) -> np.ndarray:
    """Return the norms of columns, 1 in place of 0."""
    sizes = np.linalg.norm(matrix, axis=0)
    return np.where(sizes > 0.0, sizes, 1.0)
