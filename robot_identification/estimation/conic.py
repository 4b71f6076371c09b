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
from functools import cache
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
    columns, rows, weight = _packing(matrix.shape[-1])
    return matrix[..., rows, columns] * weight


def unpack(vector: np.ndarray) -> np.ndarray:
    """Return the symmetric matrices that `svec` packed."""
    d = int((np.sqrt(8 * vector.shape[-1] + 1) - 1) / 2)
    columns, rows, weight = _packing(d)
    matrix = np.zeros((*vector.shape[:-1], d, d))
    matrix[..., rows, columns] = matrix[..., columns, rows] = vector / weight
    return matrix


@cache
def _packing(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, rows and weights of the packed entries of a matrix."""
    columns, rows = np.tril_indices(d)
    return columns, rows, np.where(rows == columns, 1.0, _SQRT2)


@dataclass(frozen=True)
class Coordinates:
    """
    Coordinates v in which a loss ``||A z - b||^2`` is ``||v||^2`` and a constant.

    Attributes
    ----------
    factor:
        (p, p) upper triangular T.
    norms:
        (p,) of the columns of A; z = (centre + T^-1 v) / norms.
    centre:
        (p,) where the loss is smallest, times ``norms``.

    """

    factor: np.ndarray
    norms: np.ndarray
    centre: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray, target: np.ndarray) -> Coordinates:
        """Take those of a loss whose ``matrix`` has full column rank."""
        p = matrix.shape[1]
        norms = np.linalg.norm(matrix, axis=0)
        joined = np.column_stack([matrix / norms, target])
        triangle = np.asarray(np.linalg.qr(joined, mode='r'))
        factor = triangle[:p, :p]
        return cls(factor, norms, solve_triangular(factor, triangle[:p, p]))

    def turned(self, function: Affine) -> Affine:
        """Return a function of z as one of v."""
        scaled = function.matrix / self.norms
        matrix = solve_triangular(self.factor, scaled.T, trans='T').T
        return Affine(matrix, function.offset + scaled @ self.centre)

    def point(self, v: np.ndarray) -> np.ndarray:
        """Return the z of a v."""
        return np.asarray((self.centre + solve_triangular(self.factor, v)) / self.norms)


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
    coordinates = Coordinates.of(matrix, target)
    function, kinds = stacked_cones(cones, p, coordinates)
    v, error, iterations = solve_program(np.eye(p), np.zeros(p), function, kinds, tolerance)
    return Minimum(coordinates.point(v), error, iterations)


def stacked_cones(
    cones: Cones, columns: int, coordinates: Coordinates
) -> tuple[Affine, list[Any]]:
    """
    Return all cones' functions of v below one another, and Clarabel's cones for their rows.

    Entries that are 0 or not negative are divided by their slope, which makes no other cone: the
    solver's feasibility tolerance is one on standard deviations then, whatever unit they have.
    """
    clarabel = load_clarabel()
    kinds: list[Any] = []
    if cones.zero.offset.size:
        kinds.append(clarabel.ZeroConeT(cones.zero.offset.size))
    if cones.nonnegative.offset.size:
        kinds.append(clarabel.NonnegativeConeT(cones.nonnegative.offset.size))
    kinds += [clarabel.PSDTriangleConeT(unpack(f.offset).shape[0]) for f in cones.semidefinite]
    stacked = Affine.stack([cones.zero, cones.nonnegative, *cones.semidefinite], columns)
    function = coordinates.turned(stacked)
    slopes = np.linalg.norm(function.matrix, axis=1)
    slopes[cones.zero.offset.size + cones.nonnegative.offset.size :] = 1.0
    slopes = np.where(slopes > 0.0, slopes, 1.0)
    return Affine(function.matrix / slopes[:, None], function.offset / slopes), kinds


def solve_program(
    square: np.ndarray, slope: np.ndarray, function: Affine, kinds: list[Any], tolerance: float
) -> tuple[np.ndarray, float, int]:
    """
    Minimise ``x square x / 2 + slope x`` where ``function`` lies in cones.

    Parameters
    ----------
    square, slope:
        (n, n) positive semidefinite, and (n,).
    function:
        Of x.
    kinds:
        Clarabel's cones, for its rows one after the other.
    tolerance:
        Root of twice the gap between the objective and its bound at which to stop.

    Returns
    -------
    tuple
        x; the root of twice the gap that is left, which bounds how far x is from the minimum
        where ``square`` is the identity; and the number of iterations.

    Raises
    ------
    Infeasible
        where no x does.

    """
    clarabel = load_clarabel()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    # rows and columns are in units of their own already; scaling them to equal norms instead
    # takes more iterations and stops short of the tolerance
    settings.equilibrate_enable = False
    settings.tol_gap_abs = 0.5 * tolerance**2
    settings.tol_gap_rel = _ROUNDING
    solver = clarabel.DefaultSolver(
        csc_array(np.triu(square)),
        slope,
        csc_array(-function.matrix),
        function.offset,
        kinds,
        settings,
    )
    solution = solver.solve()
    if str(solution.status) in ('PrimalInfeasible', 'AlmostPrimalInfeasible'):
        raise Infeasible
    error = float(np.sqrt(2.0 * max(solution.obj_val - solution.obj_val_dual, 0.0)))
    if not np.isfinite(error):
        raise Infeasible
    return np.asarray(solution.x), error, int(solution.iterations)


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
