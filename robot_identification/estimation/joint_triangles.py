# SPDX-License-Identifier: Apache-2.0
"""R of the rows of each joint, in the columns that the joint sees."""

from __future__ import annotations

import numpy as np

from ..regressors.pattern import RowPattern
from .triangle import append_rows, GrowingTriangle


class JointTriangles:
    """
    R of [W_j | tau_j] of every joint j, growing row by row.

    Parameters
    ----------
    pattern:
        Which of the b columns each of the n joints sees.

    """

    def __init__(self, pattern: RowPattern) -> None:
        self.pattern = pattern
        self._triangles = [GrowingTriangle(places.size + 1) for places in pattern.columns]

    @property
    def rows(self) -> np.ndarray:
        """(n,) int, rows that were pushed."""
        return np.array([triangle.rows for triangle in self._triangles], dtype=int)

    def push(self, joint: int, entries: np.ndarray, effort: np.ndarray) -> None:
        """Append m rows of a joint: (w, m) entries of its columns and (m,) efforts."""
        self._triangles[joint].push_columns(entries, effort[None])

    def result(self, joint: int) -> np.ndarray:
        """Return R of a joint's rows, (w + 1, w + 1)."""
        return self._triangles[joint].result()

    def whole(self) -> np.ndarray:
        """Return R of each joint with all columns, (n, b + 1, b + 1)."""
        return whole_squares(self.pattern, [triangle.result() for triangle in self._triangles])

    def stacked(self) -> np.ndarray:
        """Return R of the rows of all joints together, (b + 1, b + 1)."""
        factor = np.zeros((self.pattern.size + 1,) * 2)
        for places, triangle in zip(self.pattern.columns, self._triangles, strict=True):
            rows = np.zeros((places.size + 1, self.pattern.size + 1))
            rows[:, np.append(places, self.pattern.size)] = triangle.result()
            factor = append_rows(factor, rows)
        return factor


def whole_squares(pattern: RowPattern, squares: list[np.ndarray]) -> np.ndarray:
    """Spread (w + 1, w + 1) matrices of the joints' columns and effort to (n, b + 1, b + 1)."""
    b = pattern.size
    whole = np.zeros((len(squares), b + 1, b + 1))
    for out, places, square in zip(whole, pattern.columns, squares, strict=True):
        seen = np.append(places, b)
        out[np.ix_(seen, seen)] = square
    return whole
