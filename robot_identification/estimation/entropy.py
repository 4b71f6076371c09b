# SPDX-License-Identifier: Apache-2.0
"""
Least squares over cones with an entropic term.

Minimised is ``||A z - b||^2 + 2 w sum(tr X - logdet X - d)`` over some d x d matrices X(z).

The term is the Bregman divergence of -logdet between the positive definite matrices X(z) and the
identity.  Newton's method replaces it by its second-order expansion at the present X, in which
``logdet`` curves as ``||X^-1/2 dX X^-1/2||^2``, and leaves the cones to the solver, as far as they
hold anything back; the step's length is that at which the exact function is least.  The function
is self-concordant, so the iteration converges from anywhere inside, and at the end squares its
error at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import eigh, solve_triangular

from .conic import Affine, Cones, minimise, Minimum, svec, TOLERANCE, unpack

_STEPS, _HALVINGS = 60, 40
_NEAR = 1e-2
_INWARD = 0.999


def divergence(matrix: np.ndarray) -> float:
    """
    Return ``tr X - logdet X - d``, the entropic distance of X from the identity.

    Parameters
    ----------
    matrix:
        (d, d), positive definite.

    """
    values = np.linalg.eigvalsh(matrix)
    return float(np.sum(values - np.log(values) - 1.0))


def minimise_entropic(
    matrix: np.ndarray,
    target: np.ndarray,
    cones: Cones,
    functions: Sequence[Affine],
    weight: float,
    tolerance: float = TOLERANCE,
) -> Minimum:
    """
    Minimise ``||matrix z - target||^2`` and twice the weighted divergences over the cones.

    Parameters
    ----------
    matrix, target, cones, tolerance:
        As for `conic.minimise`; the cones have to keep every X from being singular.
    functions:
        The X as functions of z, packed by `conic.svec`.
    weight:
        w.

    Raises
    ------
    Infeasible, SettingsError
        as `conic.minimise`.

    """
    root = float(np.sqrt(weight))
    # the rows enter by their R factor alone, which is formed once
    joined = np.asarray(np.linalg.qr(np.column_stack([matrix, target]), mode='r'))
    matrix, target = joined[:, :-1], joined[:, -1]
    # near the boundary the divergence grows without bound: the cones seldom hold anything back
    held: tuple[int, ...] = ()
    start = _model_step(matrix, target, cones, functions, root, None, tolerance)
    while True:
        kept = replace(cones, semidefinite=tuple(cones.semidefinite[i] for i in held))
        present = _newton(matrix, target, kept, functions, root, start, tolerance)
        beyond = [
            i
            for i, function in enumerate(cones.semidefinite)
            if i not in held and np.linalg.eigvalsh(unpack(function(present.z)))[0] < 0.0
        ]
        if not beyond:
            return present
        held += tuple(beyond)


def _newton(
    matrix: np.ndarray,
    target: np.ndarray,
    cones: Cones,
    functions: Sequence[Affine],
    root: float,
    start: Minimum,
    tolerance: float,
) -> Minimum:
    """Iterate to the minimum from ``start``, where no X may be singular."""
    z, iterations = start.z, start.iterations
    for _ in range(_STEPS):
        ahead = _model_step(matrix, target, cones, functions, root, z, tolerance)
        iterations += ahead.iterations
        step = ahead.z - z
        length, size = _line_search(matrix, target, functions, root**2, z, step)
        z = z + length * step
        # the divergence is self-concordant after division by its weight
        if size < _NEAR * root:
            break
    return Minimum(z, ahead.error, iterations)


def _model_step(
    matrix: np.ndarray,
    target: np.ndarray,
    cones: Cones,
    functions: Sequence[Affine],
    root: float,
    z: np.ndarray | None,
    tolerance: float,
) -> Minimum:
    """Minimise with the divergences expanded at z; at X = 1 where z is None."""
    rows, rights = [matrix], [target]
    for function in functions:
        present = np.eye(unpack(function.offset).shape[0]) if z is None else unpack(function(z))
        # with X = L L^T, tr Y - logdet Y is ||L^-1 (Y - X) L^-T + (L^T L - 1)||^2 / 2 near X
        factor = np.linalg.cholesky(present)
        # an X depends on few entries of z
        own = np.flatnonzero(function.matrix.any(axis=0))
        turned = np.zeros_like(function.matrix)
        turned[:, own] = svec(_congruence(factor, unpack(function.matrix[:, own].T))).T
        offset = svec(_congruence(factor, unpack(function.offset)))
        rows.append(root * turned)
        rights.append(root * (svec(2.0 * np.eye(len(factor)) - factor.T @ factor) - offset))
    return minimise(np.vstack(rows), np.concatenate(rights), cones, tolerance)


def _congruence(factor: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """L^-1 M L^-T of one matrix or a stack of them."""
    inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
    return inverse @ matrices @ inverse.T


def _line_search(
    matrix: np.ndarray,
    target: np.ndarray,
    functions: Sequence[Affine],
    weight: float,
    z: np.ndarray,
    step: np.ndarray,
) -> tuple[float, float]:
    """Return the length, 1 at most, at which the function is least, and the step's size."""
    residual, change = matrix @ z - target, matrix @ step
    slopes, values = [], []
    for function in functions:
        slope = unpack(function.matrix @ step)
        slopes.append(np.trace(slope))
        values.append(eigh(slope, unpack(function(z)), eigvals_only=True))
    ratios = np.concatenate(values) if values else np.zeros(0)
    linear = residual @ change + weight * float(np.sum(slopes))
    square = float(change @ change)
    size = float(np.sqrt(square + weight * np.sum(ratios**2)))

    def slope_at(length: float) -> float:
        return linear + length * square - weight * float(np.sum(ratios / (1.0 + length * ratios)))

    # an X becomes singular at the length -1 / ratio
    smallest = float(ratios.min(initial=0.0))
    high = 1.0 if smallest > -_INWARD else -_INWARD / smallest
    if high == 1.0 and slope_at(1.0) <= 0.0:
        return 1.0, size
    low = 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope_at(middle) > 0.0 else (middle, high)
    return low, size
