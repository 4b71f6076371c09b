# SPDX-License-Identifier: Apache-2.0
"""
Least squares subject to semidefinite constraints: the problem, and packed symmetric matrices.

Minimised over z is

    1/2 ||A z - b||^2 + w sum_k (tr X_k(z) - log det X_k(z) - d)

subject to S_j(z) >= 0 (positive semidefinite), s(z) >= 0 and e(z) = 0, all of them affine in z.
The entropic sum is optional; each of its terms is 0 at X_k = 1 and infinite where X_k is singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np


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

    def rows(self, which: np.ndarray | slice) -> Affine:
        """Return some of its entries."""
        return Affine(self.matrix[which], self.offset[which])

    @classmethod
    def stack(cls, parts: Sequence[Affine], columns: int) -> Affine:
        """Put functions of ``columns`` variables below one another."""
        matrices = [np.zeros((0, columns)), *(part.matrix for part in parts)]
        offsets = [np.zeros(0), *(part.offset for part in parts)]
        return cls(np.vstack(matrices), np.concatenate(offsets))


@dataclass(frozen=True)
class SemidefiniteProgram:
    """
    Least squares with semidefinite constraints.

    Attributes
    ----------
    matrix, target:
        A, (m, p), and b, (m,); the rows of A and of ``entropic`` together have full column rank.
    semidefinite:
        Symmetric matrices packed by `svec`, all of one size, that have to be positive
        semidefinite.
    nonnegative:
        Entries that must not be negative.
    zero:
        Entries that have to be 0.
    entropic:
        Symmetric matrices X_k, packed by `svec`, all of one size, with an entropic term.
    weight:
        w, positive if there is any entropic term.

    """

    matrix: np.ndarray
    target: np.ndarray
    semidefinite: tuple[Affine, ...]
    nonnegative: Affine
    zero: Affine
    entropic: tuple[Affine, ...] = ()
    weight: float = 0.0

    def loss(self, z: np.ndarray) -> float:
        """Return twice the objective, ``||A z - b||^2`` and the entropic terms with 2 w."""
        terms = [entropy(unpack(function(z))) for function in self.entropic]
        return float(np.sum((self.matrix @ z - self.target) ** 2) + 2.0 * self.weight * sum(terms))


def svec(matrix: np.ndarray) -> np.ndarray:
    """
    Pack symmetric matrices such that inner products are kept.

    Parameters
    ----------
    matrix:
        (..., d, d).

    Returns
    -------
    np.ndarray
        (..., d (d + 1) / 2): the lower triangle by rows, entries off the diagonal times the
        square root of 2.

    """
    d = matrix.shape[-1]
    return matrix.reshape(*matrix.shape[:-2], d * d) @ _units(d).T


def unpack(vector: np.ndarray) -> np.ndarray:
    """Return the symmetric matrices that `svec` packed."""
    d = int((np.sqrt(8 * vector.shape[-1] + 1) - 1) / 2)
    return (vector @ _units(d)).reshape(*vector.shape[:-1], d, d)


def entropy(matrix: np.ndarray) -> float:
    """
    Return ``tr X - log det X - d``, the log-det divergence of X from the identity.

    Parameters
    ----------
    matrix:
        (d, d), symmetric; infinite if it is not positive definite.

    """
    values = np.linalg.eigvalsh(matrix)
    return float(np.sum(values - np.log(values) - 1.0)) if values[0] > 0.0 else np.inf


@cache
def _units(d: int) -> np.ndarray:
    """Return an orthonormal basis of the symmetric matrices, (d (d + 1) / 2, d d)."""
    rows, columns = np.tril_indices(d)
    units = np.zeros((rows.size, d, d))
    k = np.arange(rows.size)
    units[k, rows, columns] = units[k, columns, rows] = np.where(
        rows == columns, 1.0, np.sqrt(0.5)
    )
    return units.reshape(rows.size, d * d)
