# SPDX-License-Identifier: Apache-2.0
"""What compiled steps of one sample work on: rows by their entries, and arrays made once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .stepping import append_sample, solve_sample

if TYPE_CHECKING:
    from ..regressors.pattern import RowPattern


@dataclass(frozen=True, eq=False)
class SampleRows:
    """
    Where the entries of a sample's rows stand, and how the rows count.

    Attributes
    ----------
    pattern:
        The K entries of the n rows.
    weights:
        (n,) factor of each row and its effort.
    places, offsets:
        (K,) columns of the entries, and (n + 1,) where those of each row begin and end.
    order:
        (n,) the rows by their first column.

    """

    pattern: RowPattern
    weights: np.ndarray
    places: np.ndarray
    offsets: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, pattern: RowPattern, weights: np.ndarray | None = None) -> SampleRows:
        """Return the rows of a pattern; all count alike where there are no weights."""
        n = len(pattern.columns)
        first = [int(places[0]) if places.size else pattern.size for places in pattern.columns]
        return cls(
            pattern,
            np.ones(n) if weights is None else np.array(weights, dtype=float),
            np.ascontiguousarray(pattern.places, dtype=np.int64),
            np.ascontiguousarray(pattern.offsets, dtype=np.int64),
            np.argsort(first, kind='stable').astype(np.int64),
        )


class Stepper:
    """
    R of [Y | tau] and what is solved from it, sample by sample, in arrays that are made once.

    Parameters
    ----------
    relative:
        (b,) thresholds, relative to the longest column of the same group.
    groups:
        (b,) number of each column's group, below b.
    n_rows:
        Rows of a sample.

    Attributes
    ----------
    free:
        (b,) bool, all False: no parameter is at a bound.

    """

    def __init__(self, relative: np.ndarray, groups: np.ndarray, n_rows: int) -> None:
        b = relative.size
        self._relative, self._groups = np.ascontiguousarray(relative), groups.astype(np.int64)
        self._rows = np.zeros((n_rows + 1, b + 1))
        self._first = np.zeros(n_rows, dtype=np.int64)
        self._work = np.zeros((b + 1, b + 1))
        self._scratch = np.zeros((4, b + 1))
        self.free = np.zeros(b, dtype=bool)
        self.free.setflags(write=False)
        self._append, self._solve = append_sample.ready(), solve_sample.ready()

    def append(
        self,
        factor: np.ndarray,
        sample: SampleRows,
        entries: np.ndarray,
        effort: np.ndarray,
        kept: np.ndarray,
        memory: float,
        values: np.ndarray,
        residual: np.ndarray,
    ) -> int:
        """Append a sample's rows to R in place, see `append_sample`."""
        return int(
            self._append(
                entries,
                sample.places,
                sample.offsets,
                sample.order,
                effort,
                sample.weights,
                kept,
                memory,
                values,
                residual,
                factor,
                self._rows,
                self._first,
            )
        )

    def solve(self, factor: np.ndarray, initial: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (b,) parameters and (b,) flags, see `solve_sample`."""
        values, flags = np.empty(initial.size), np.empty(initial.size, dtype=np.int64)
        self._solve(
            factor,
            self._relative,
            self._groups,
            initial,
            self._work,
            self._scratch,
            values,
            flags,
        )
        return values, flags
