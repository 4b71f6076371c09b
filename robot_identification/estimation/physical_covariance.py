# SPDX-License-Identifier: Apache-2.0
"""
Covariance of the physically consistent fit.

At the minimum, with H the Hessian of half the objective, W the rows of the data in units of their
noise, and N the rows of everything else (prior, bounds, masses that are known), H = W'W + N'N, and
errors e of the data and n of the prior move the parameters by H^-1 (W'e + N'n).  With e of unit
variance and independent, the covariance is H^-1, the posterior's.  The block bootstrap of the
plain fit gives the covariance of W'e as it is, whatever correlation there is between rows:

    C = H^-1 (cov(W'e) + N'N) H^-1.

The strength of the prior that is taken is the strongest among those that predict about as well as
the best one.  How far bodies are from their prior is what the best one says: the prior's rows in N
are multiplied by the root of the ratio of the two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from .estimate import Bootstrap, Estimate
from .log_det import LogDetMinimum, LogDetProblem
from .uncertainty import growth_of, relative


def drawn_covariance(
    chi: np.ndarray,
    start: np.ndarray,
    problem: LogDetProblem,
    regrouping: np.ndarray,
    drawn: Bootstrap,
    excess: float = 1.0,
) -> np.ndarray:
    """
    Return the covariance of the parameters by the bootstrap.

    Parameters
    ----------
    chi:
        (p,) the minimum.
    start:
        (p,) parameters with the prior's bodies.
    problem:
        The fit; the first b + 1 rows are the data's.
    regrouping:
        (b, p) from standard to base parameters.
    drawn:
        The bootstrap of the plain fit.
    excess:
        Strength of the prior by the one that predicts best; at least 1.

    Returns
    -------
    np.ndarray
        (p, p).

    """
    b = len(regrouping)
    (_, rows), (_, prior) = problem.derivatives(chi), problem.derivatives(start)
    bodies = slice(len(problem.matrix), len(problem.matrix) + problem.places.size)
    rows[bodies] = prior[bodies]
    scales = np.linalg.norm(rows, axis=0)
    triangle = np.asarray(np.linalg.qr(rows / scales, mode='r')) * scales
    rows[bodies] *= np.sqrt(excess)
    data, others = rows[: b + 1], rows[b + 1 :]
    assert drawn.covariance is not None
    spread = np.nan_to_num(drawn.covariance)
    scale = np.sqrt(np.diag(spread))
    scale[scale == 0.0] = 1.0
    values, vectors = np.linalg.eigh(spread / scale[:, None] / scale)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * scale
    # data = triangle @ regrouping: what the plain fit's errors amount to in scores
    factor = problem.matrix[: b + 1] @ np.linalg.pinv(regrouping)
    middle = np.vstack([(root @ factor.T) @ data, others])
    half = solve_triangular(triangle, middle.T, trans='T')
    moved = solve_triangular(triangle, half)
    if problem.directions is not None:
        moved = problem.directions @ moved
    return np.asarray(moved @ moved.T)


def classical_covariance(minimum: LogDetMinimum, data: np.ndarray, inflation: float) -> np.ndarray:
    """
    Return the posterior covariance if rows were independent.

    Parameters
    ----------
    minimum:
        The fit.
    data:
        (m, p) its rows in units of their noise.
    inflation:
        By how much it lets them count less than if they were independent.

    Returns
    -------
    np.ndarray
        (p, p).

    """
    along = data if minimum.directions is None else data @ minimum.directions
    rows = np.vstack([minimum.root, np.sqrt(max(0.0, inflation - 1.0)) * along])
    scale = np.linalg.norm(rows, axis=0)
    root = np.linalg.qr(rows / scale, mode='r')
    half = solve_triangular(root, np.eye(len(root))) / scale[:, None]
    if minimum.directions is not None:
        half = minimum.directions @ half
    return np.asarray(half @ half.T)


def constrained(
    estimate: Estimate,
    free: Estimate,
    drawn: Bootstrap,
    covariance: np.ndarray,
    regrouping: np.ndarray,
) -> Estimate:
    """
    Return a physical fit with standard deviations by the bootstrap, classical ones beside them.

    Parameters
    ----------
    estimate:
        The fit, with classical standard deviations.
    free, drawn:
        The plain fit and its bootstrap.
    covariance:
        (p, p) of the standard parameters by `drawn_covariance`.
    regrouping:
        (b, p) from standard to base parameters.

    """
    of_base = regrouping @ covariance @ regrouping.T
    unknown = ~estimate.estimated
    of_base[unknown] = of_base[:, unknown] = np.nan
    std, base = np.sqrt(np.diag(of_base)), estimate.base.values
    reach = float(ndtri(0.5 + 0.005 * drawn.level)) * std
    return replace(
        estimate,
        covariance=of_base,
        std=std,
        relative_std=relative(std, base),
        classical_std=estimate.std,
        growth=growth_of(drawn, free),
        standard_covariance=covariance,
        bootstrap=replace(drawn, std=std, low=base - reach, high=base + reach, covariance=of_base),
    )
