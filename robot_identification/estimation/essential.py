# SPDX-License-Identifier: Apache-2.0
"""
Essential parameters: the base parameters that the data tell with some certainty.

Gautier and Venture (IROS 2013), section III, after Pham and Gautier, "Essential parameters of
robots" (CDC 1991): the parameter with the largest relative standard deviation is dropped and the
others are estimated again, until all that are left are certain enough.  The joints' weights stay
those of the full estimate, so that the residuals of successive models can be compared; so do the
factors by which the block bootstrap's standard deviations exceed the classical ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import qr_delete, solve_triangular

from ..errors import IdentifiabilityError
from .estimate import Estimate
from .identifiability import Identifiability
from .least_squares import assemble, solve
from .system import LinearSystem
from .uncertainty import grown


def essential(
    system: LinearSystem, estimate: Estimate, max_relative_std: float = 30.0
) -> Estimate:
    """
    Drop uncertain parameters one by one and estimate the others again.

    Parameters
    ----------
    system:
        The rows that ``estimate`` comes from.
    estimate:
        The full estimate; its weights are kept.
    max_relative_std:
        No relative standard deviation is larger in the end [%].

    Returns
    -------
    Estimate
        with the dropped parameters at 0 and its ``essential`` mask set.  Parameters that the
        recording does not reach keep the value that they have in ``estimate``.

    Raises
    ------
    IdentifiabilityError
        where no parameter is certain enough.

    """
    fixed = np.where(estimate.estimated, 0.0, estimate.base.values)
    factor = estimate.weighted(system)
    growth = np.ones(len(estimate)) if estimate.growth is None else np.asarray(estimate.growth)
    kept = _eliminate(
        factor, estimate.estimated, fixed, system.n_independent, growth, max_relative_std
    )
    if not kept.any():
        raise IdentifiabilityError(
            f'no base parameter has a relative standard deviation below {max_relative_std:g} %',
            value=max_relative_std,
            remedy='record a stronger motion, or raise estimation.essential.max_relative_std',
        )
    solution = solve(factor, kept, fixed, system.n_independent)
    reduced = assemble(
        system,
        solution,
        Identifiability(estimate.excited, estimate.reasons),
        weights=estimate.weights,
        method=estimate.method,
        robot=estimate.robot,
        essential=kept,
    )
    reduced = replace(reduced, factor=estimate.factor)
    return reduced if estimate.growth is None else grown(reduced, growth)


def _eliminate(
    factor: np.ndarray,
    free: np.ndarray,
    fixed: np.ndarray,
    rows: float,
    growth: np.ndarray,
    limit: float,
) -> np.ndarray:
    """Return which parameters, (b,) bool, are left when none exceeds ``limit``."""
    columns = np.flatnonzero(free)
    effort = factor[:, -1] - factor[:, :-1] @ fixed
    matrix = factor[:, columns]
    norms = np.linalg.norm(matrix, axis=0)
    # columns scaled to norm 1 change no relative standard deviation, but what rounding does
    q, r = np.linalg.qr(matrix / norms)
    right = q.T @ effort
    rest = float(np.linalg.norm(effort - q @ right)) ** 2
    q = np.eye(columns.size)
    while columns.size:
        k = columns.size
        turned = q.T @ right
        value = solve_triangular(r[:k], turned[:k])
        square = (rest + float(turned[k:] @ turned[k:])) / (rows - k)
        spread = np.sqrt(square) * np.linalg.norm(solve_triangular(r[:k], np.eye(k)), axis=1)
        # a value of exactly 0 is the least certain of all, and 0 / 0 is certain
        with np.errstate(divide='ignore', invalid='ignore'):
            relative = 100.0 * growth[columns] * spread / np.abs(value)
            relative = np.nan_to_num(relative, nan=0.0, posinf=np.inf)
        worst = int(relative.argmax())
        if relative[worst] <= limit:
            break
        q, r = qr_delete(q, r, worst, which='col')
        columns = np.delete(columns, worst)
    kept = np.zeros(free.size, dtype=bool)
    kept[columns] = True
    return kept
