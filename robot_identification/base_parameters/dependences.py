# SPDX-License-Identifier: Apache-2.0
"""Dependences between the columns of a matrix: which are independent, and what the others are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NOISE = 1e-10
"""Columns and coefficients this much smaller than the largest are rounding noise."""


def greedy_basis(R: np.ndarray, order: Sequence[int], tolerance: float) -> np.ndarray:
    """
    Take columns in ``order`` that are not in the span of those taken before; ascending places.

    Projections are made twice, which keeps the basis orthogonal to rounding (Giraud and others
    2005), so the distance of a dependent column is rounding too.
    """
    basis = np.empty((R.shape[0], min(R.shape)))
    chosen: list[int] = []
    for column in order:
        vector, taken = R[:, column], basis[:, : len(chosen)]
        for _ in range(2):
            vector = vector - taken @ (taken.T @ vector)
        distance = np.linalg.norm(vector)
        if distance > tolerance and len(chosen) < basis.shape[1]:
            basis[:, len(chosen)] = vector / distance
            chosen.append(column)
    return np.array(sorted(chosen), dtype=int)


def coefficients(R: np.ndarray, chosen: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """
    Coefficients that make the columns ``rest`` from the columns ``chosen``.

    They are zero for a column that is too small to count and that the others do not explain.
    """
    return _without_noise(
        np.linalg.lstsq(R[:, chosen], R[:, rest], rcond=None)[0], R, chosen, rest
    )


def _without_noise(
    B: np.ndarray, R: np.ndarray, chosen: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Return coefficients without rounding noise, and without columns that are not explained."""
    B[np.abs(B) < NOISE * np.abs(B).max(axis=0, initial=0.0)] = 0.0
    unexplained = np.linalg.norm(R[:, rest] - R[:, chosen] @ B, axis=0)
    B[:, unexplained > 0.5 * np.linalg.norm(R[:, rest], axis=0)] = 0.0
    return B


def reduced_row_echelon(matrix: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """
    Bring a matrix into reduced row echelon form, from left to right.

    Szabo and Szadeczky-Kardoss (Acta IMEKO 10(3), 2021), equations (10) to (12), by Gauss-Jordan
    elimination; in each column the largest entry left is the pivot.  It makes a basis of noise,
    too, so that it is for matrices without noise only.

    Parameters
    ----------
    matrix:
        (m, n).
    tolerance:
        A column in which no larger entry is left depends on those before it.

    Returns
    -------
    form : np.ndarray
        (rank, n); row i has its leading 1 in column ``leading[i]``, and each column is the sum of
        the leading columns of the matrix with the column's entries as coefficients.
    leading : np.ndarray
        (rank,) int, ascending.

    """
    form = np.array(matrix, dtype=float)
    leading: list[int] = []
    for column in range(form.shape[1]):
        row = len(leading)
        if row == form.shape[0]:
            break
        pivot = row + int(np.abs(form[row:, column]).argmax())
        if np.abs(form[pivot, column]) <= tolerance:
            form[row:, column] = 0.0
            continue
        form[[row, pivot]] = form[[pivot, row]]
        form[row] /= form[row, column]
        others = np.arange(form.shape[0]) != row
        form[others] -= np.outer(form[others, column], form[row])
        leading.append(column)
    return form[: len(leading)], np.array(leading, dtype=int)


def echelon_basis(
    R: np.ndarray, order: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Take independent columns as the reduced row echelon form does.

    Parameters
    ----------
    R:
        (m, n).
    order:
        (n,) its columns from left to right.
    tolerance:
        As for `reduced_row_echelon`.

    Returns
    -------
    chosen, rest : np.ndarray
        Independent and other columns, ascending.
    coefficients : np.ndarray
        That make the latter from the former.

    """
    form, leading = reduced_row_echelon(R[:, order], tolerance)
    chosen = np.sort(order[leading])
    rest = np.setdiff1d(order, chosen)
    place = np.argsort(order)
    B = form[np.argsort(order[leading])][:, place[rest]]
    return chosen, rest, _without_noise(B, R, chosen, rest)
