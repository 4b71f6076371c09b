# SPDX-License-Identifier: Apache-2.0
"""
A point inside of the constraints of a log-det problem (phase I of an interior point method).

All rows are relaxed by a common t, relative to the parameters' sizes; t is pulled below zero while
the bodies stay near their priors (Boyd and Vandenberghe, Convex Optimization, 11.4).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .log_det import LogDetProblem, minimise

_PULL, _BARRIER = 1e2, 1e-2
_LEAST_SIZE = 1e-3


def feasible_start(problem: LogDetProblem, start: np.ndarray) -> np.ndarray | None:
    """
    Return parameters that meet all constraints, near a start.

    Parameters
    ----------
    problem:
        Its rows of data do not matter.
    start:
        (p,) physical bodies that meet the problem's equations; a start that meets all constraints
        is returned as it is.

    Returns
    -------
    np.ndarray or None
        (p,); None where there are no such parameters.

    """
    margins = problem.margins(start)
    if (margins > 0.0).all():
        return start
    size = np.maximum(np.abs(start), _LEAST_SIZE)
    bodily = np.zeros(start.size, dtype=bool)
    bodily[problem.places] = True
    size[problem.places] = 1.0 / np.linalg.norm(problem.units, axis=(2, 3))
    scale = np.abs(problem.positive) @ size
    near = np.diag(np.where(bodily, 0.0, 1.0 / size))
    near = near[~bodily]
    relaxed = replace(
        problem,
        matrix=np.block([[near, np.zeros((len(near), 1))], [np.zeros(start.size), _PULL]]),
        target=np.append(near @ start, -_PULL),
        weight=1.0,
        positive=np.column_stack([problem.positive, scale]),
        directions=_extended(problem.directions, start.size),
        barrier=_BARRIER,
    )
    relaxation = 0.1 + 1.1 * float(np.max(-margins / scale))
    chi = minimise(relaxed, np.append(start, relaxation)).chi[:-1]
    return chi if (problem.margins(chi) > 0.0).all() else None


def _extended(directions: np.ndarray | None, size: int) -> np.ndarray:
    """Return a basis with one more direction, that of t."""
    basis = np.eye(size) if directions is None else directions
    whole = np.zeros((size + 1, basis.shape[1] + 1))
    whole[:-1, :-1], whole[-1, -1] = basis, 1.0
    return whole
