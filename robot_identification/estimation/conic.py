# SPDX-License-Identifier: Apache-2.0
"""
Least squares over a cone: ``min ||A z - b||^2`` where affine functions of z lie in cones.

Clarabel's interior point method solves it, in coordinates in which the loss is round: with the
QR factorisation ``A = Q T`` and ``z = z0 + T^-1 v``, the loss is ``||v||^2`` plus a constant.  So
v is counted in the units of the loss (standard deviations, where A and b are divided by theirs),
and the solver's tolerance is one on them; with A as it is, it would be one on numbers that range
over many orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csc_array

from ..errors import SettingsError

TOLERANCE = 1e-4
"""How far the solver may stay from the minimum, in the units of the loss."""

_SQRT2 = np.sqrt(2.0)
_ROUNDING = 1e-14


class Infeasible(Exception):
    """No z lies in all the cones."""


@dataclass(frozen=True)
class Affine:
    """
    The function ``matrix @ z + offset``.

    Attributes
    ----------
    matrix:
        (k, p).
    offset:
        (k,).

    """

    matrix: np.ndarray
    offset: np.ndarray

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Return its value at z, (k,)."""
        return self.matrix @ z + self.offset

    def rows(self, which: np.ndarray) -> Affine:
        """Return some of its entries."""
        return Affine(self.matrix[which], self.offset[which])

    @classmethod
    def stack(cls, parts: Sequence[Affine], columns: int) -> Affine:
        """Put functions of ``columns`` variables below one another."""
        matrices = [np.zeros((0, columns)), *(part.matrix for part in parts)]
        offsets = [np.zeros(0), *(part.offset for part in parts)]
        return cls(np.vstack(matrices), np.concatenate(offsets))


@dataclass(frozen=True)
class Cones:
    """
    What z has to keep to.

    Attributes
    ----------
    semidefinite:
        Functions whose values are symmetric matrices as `svec` packs them, none of which may have
        a negative eigenvalue.
    nonnegative:
        No entry may be negative.
    zero:
        Every entry has to be 0.

    """

    semidefinite: tuple[Affine, ...]
    nonnegative: Affine
    zero: Affine


@dataclass(frozen=True)
class Minimum:
    """
    Where the loss is smallest.

    Attributes
    ----------
    z:
        (p,).
    error:
        Bound on how far z is from the minimum, in the units of the loss, by the duality gap.
    iterations:
        That the solver took.

    """

    z: np.ndarray
    error: float = 0.0
    iterations: int = 0


def svec(matrix: np.ndarray) -> np.ndarray:
    """
    Pack symmetric matrices, the upper triangle column by column, so that norms stay.

    Parameters
    ----------
    matrix:
        (..., d, d).

    Returns
    -------
    np.ndarray
        (..., d (d + 1) / 2), entries off the diagonal times the square root of 2.

    """
    d = matrix.shape[-1]
    columns, rows = np.tril_indices(d)
    weight = np.where(rows == columns, 1.0, _SQRT2)
    return matrix[..., rows, columns] * weight


def unpack(vector: np.ndarray) -> np.ndarray:
    """Return the symmetric matrices that `svec` packed."""
    d = int((np.sqrt(8 * vector.shape[-1] + 1) - 1) / 2)
    columns, rows = np.tril_indices(d)
    matrix = np.zeros((*vector.shape[:-1], d, d))
    weight = np.where(rows == columns, 1.0, _SQRT2)
    matrix[..., rows, columns] = matrix[..., columns, rows] = vector / weight
    return matrix


def minimise(
    matrix: np.ndarray, target: np.ndarray, cones: Cones, tolerance: float = TOLERANCE
) -> Minimum:
    """
    Minimise ``||matrix z - target||^2`` over the cones.

    Parameters
    ----------
    matrix:
        (m, p) of full column rank.
    target:
        (m,).
    cones:
        What z has to keep to.
    tolerance:
        How far the solver may stay from the minimum, in the units of the loss.

    Raises
    ------
    Infeasible
        where no z lies in the cones.
    SettingsError
        where Clarabel is not installed.

    """
    p = matrix.shape[1]
    norms = np.linalg.norm(matrix, axis=0)
    triangle = np.asarray(np.linalg.qr(np.column_stack([matrix / norms, target]), mode='r'))
    factor, right = triangle[:p, :p], triangle[:p, p]
    free = solve_triangular(factor, right)
    whole = Affine.stack([cones.zero, cones.nonnegative, *cones.semidefinite], p)
    scaled = whole.matrix / norms
    turned = Affine(solve_triangular(factor, scaled.T, trans='T').T, whole.offset + scaled @ free)
    v, error, iterations = _nearest(turned, cones, tolerance)
    return Minimum((free + solve_triangular(factor, v)) / norms, error, iterations)


def _nearest(function: Affine, cones: Cones, tolerance: float) -> tuple[np.ndarray, float, int]:
    """Return the v nearest to 0 whose ``function`` lies in the cones, and how near it may be."""
    clarabel = load_clarabel()
    p = function.matrix.shape[1]
    kinds: list[Any] = []
    if cones.zero.offset.size:
        kinds.append(clarabel.ZeroConeT(cones.zero.offset.size))
    if cones.nonnegative.offset.size:
        kinds.append(clarabel.NonnegativeConeT(cones.nonnegative.offset.size))
    kinds += [clarabel.PSDTriangleConeT(unpack(f.offset).shape[0]) for f in cones.semidefinite]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    # the loss curves as ||v||^2 / 2 does, so v is off by at most the root of twice the gap
    settings.tol_gap_abs = 0.5 * tolerance**2
    settings.tol_gap_rel = _ROUNDING
    identity = csc_array((np.ones(p), (np.arange(p), np.arange(p))), shape=(p, p))
    solver = clarabel.DefaultSolver(
        identity, np.zeros(p), csc_array(-function.matrix), function.offset, kinds, settings
    )
    solution = solver.solve()
    if str(solution.status) in ('PrimalInfeasible', 'AlmostPrimalInfeasible'):
        raise Infeasible
    v, dual = np.asarray(solution.x), np.asarray(solution.z)
    gap = 0.5 * (v @ v) + 0.5 * np.sum((function.matrix.T @ dual) ** 2) + dual @ function.offset
    error = float(np.sqrt(2.0 * max(gap, 0.0)))
    if not np.isfinite(error):
        raise Infeasible
    return v, error, int(solution.iterations)


def load_clarabel() -> Any:
    """
    Import the solver.

    Raises
    ------
    SettingsError
        where it is not installed.

    """
    try:
        import clarabel
    except ImportError:
        raise SettingsError(
            "'estimation.method' is physical, and the solver Clarabel is not installed",
            key='estimation.method',
            value='physical',
            remedy='install it with: pip install clarabel',
        ) from None
    return clarabel
