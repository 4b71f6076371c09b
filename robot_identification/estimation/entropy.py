# SPDX-License-Identifier: Apache-2.0
"""
Least squares over cones with an entropic term.

Minimised is ``||A z - b||^2 + 2 w sum(tr X - logdet X - d)`` over some d x d matrices X(z): the
Bregman divergence of -logdet between positive definite X and the identity.  It is one conic
program: with a lower triangular Z,

    logdet X >= sum t_i   where   [[X, Z], [Z^T, diag Z]] >= 0   and   t_i <= log Z_ii,

the first by a semidefinite and the second by exponential cones (Ben-Tal and Nemirovski, "Lectures
on modern convex optimization", SIAM 2001, section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .conic import (
    Affine,
    Cones,
    Coordinates,
    load_clarabel,
    Minimum,
    solve_program,
    stacked_cones,
    svec,
    TOLERANCE,
    unpack,
)


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
        As for `conic.minimise`; the rows of ``functions`` make up for what ``matrix`` lacks of its
        full rank.
    functions:
        The X as functions of z, packed by `conic.svec`.
    weight:
        w.

    Raises
    ------
    Infeasible, SettingsError
        as `conic.minimise`.

    """
    clarabel = load_clarabel()
    p = matrix.shape[1]
    root = float(np.sqrt(weight))
    sizes = [unpack(function.offset).shape[0] for function in functions]
    # in coordinates in which the loss with the divergences' expansion at X = 1 is round
    expansion = [root * function.matrix for function in functions]
    rights = [
        root * (svec(np.eye(d)) - function.offset)
        for d, function in zip(sizes, functions, strict=True)
    ]
    coordinates = Coordinates.of(
        np.vstack([matrix, *expansion]), np.concatenate([target, *rights])
    )
    rows = coordinates.turned(Affine(matrix, -target))
    n = p + sum(d * (d + 1) // 2 + d for d in sizes)
    square, slope = np.zeros((n, n)), np.zeros(n)
    square[:p, :p] = rows.matrix.T @ rows.matrix
    slope[:p] = rows.matrix.T @ rows.offset
    stacked, kinds = stacked_cones(cones, p, coordinates)
    parts = [_widened(stacked, n)]
    place = p
    for d, function in zip(sizes, functions, strict=True):
        turned = coordinates.turned(function)
        slope[:p] += weight * (svec(np.eye(d)) @ turned.matrix)
        logarithms = place + d * (d + 1) // 2
        slope[logarithms : logarithms + d] = -weight
        parts += [_triangle(turned, d, place, n), _exponentials(d, place, logarithms, n)]
        kinds += [clarabel.PSDTriangleConeT(2 * d), *(clarabel.ExponentialConeT(),) * d]
        place = logarithms + d
    x, error, iterations = solve_program(square, slope, Affine.stack(parts, n), kinds, tolerance)
    return Minimum(coordinates.point(x[:p]), error, iterations)


def _widened(function: Affine, columns: int) -> Affine:
    """Return a function of the first variables as one of all."""
    matrix = np.zeros((len(function.offset), columns))
    matrix[:, : function.matrix.shape[1]] = function.matrix
    return Affine(matrix, function.offset)


def _triangle(function: Affine, d: int, place: int, columns: int) -> Affine:
    """Return [[X, Z], [Z^T, diag Z]], packed, with the entries of Z by rows from ``place`` on."""
    p = function.matrix.shape[1]
    units = np.zeros((columns, 2 * d, 2 * d))
    units[:p, :d, :d] = unpack(function.matrix.T)
    for k, (i, j) in enumerate(zip(*np.tril_indices(d), strict=True)):
        units[place + k, i, d + j] = units[place + k, d + j, i] = 1.0
        if i == j:
            units[place + k, d + i, d + i] = 1.0
    offset = np.zeros((2 * d, 2 * d))
    offset[:d, :d] = unpack(function.offset)
    return Affine(svec(units).T, svec(offset))


def _exponentials(d: int, place: int, logarithms: int, columns: int) -> Affine:
    """Return (t_i, 1, Z_ii) for all i, each of which lies in the exponential cone."""
    matrix = np.zeros((d, 3, columns))
    i = np.arange(d)
    matrix[i, 0, logarithms + i] = 1.0
    matrix[i, 2, place + (i + 1) * (i + 2) // 2 - 1] = 1.0
    return Affine(matrix.reshape(3 * d, columns), np.tile([0.0, 1.0, 0.0], d))
