# SPDX-License-Identifier: Apache-2.0
"""Work arrays of the compiled steps over one sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..regressor.inverse_dynamics import RowPattern

_EXCHANGES = 12
_NEVER = 1e150
"""A threshold that no column exceeds."""


@dataclass(frozen=True, eq=False)
class SampleRows:
    """
    Places of the entries of a sample's rows, and the weights of the rows.

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
        # imported here because Numba is optional
        from .rls_kernel import append_sample, solve_sample

        # compiled now, so that no sample waits for it
        self._append, self._solve = append_sample.machine_code(), solve_sample.machine_code()

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

    def within(
        self,
        factor: np.ndarray,
        free: np.ndarray,
        accepted: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        held: np.ndarray,
    ) -> np.ndarray | None:
        """
        Solve within bounds, from those that held parameters before.

        Parameters
        ----------
        factor:
            (b + 1, b + 1) R of [Y | tau].
        free, accepted:
            (b,) solution without bounds; the others' initial values; and which ones are solved
            for.
        lower, upper:
            (b,) ends.
        held:
            (b,) int, -1 and 1 for parameters at their lower or upper end; changed.

        Returns
        -------
        np.ndarray or None
            (b,) parameters; None where the set of held ones was not found in a few steps.

        """
        held[~accepted] = 0
        R, right = factor[:-1, :-1], factor[:-1, -1]
        for _ in range(_EXCHANGES):
            start = np.where(held < 0, lower, np.where(held > 0, upper, free))
            values, _ = self.solve(factor, start, np.where(accepted & (held == 0), 0.0, _NEVER))
            below, above = accepted & (values < lower), accepted & (values > upper)
            if below.any() or above.any():
                held[below], held[above] = -1, 1
                continue
            # an end holds where the fit would get worse inside
            slope = R.T @ (R @ values - right)
            loose = (held * slope > 0.0) & (lower < upper)
            if not loose.any():
                return values
            held[np.argmax(np.where(loose, np.abs(slope), 0.0))] = 0
        return None

    def solve(
        self, factor: np.ndarray, initial: np.ndarray, relative: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (b,) parameters and (b,) flags, see `solve_sample`; by other thresholds."""
        values, flags = np.empty(initial.size), np.empty(initial.size, dtype=np.int64)
        self._solve(
            factor,
            self._relative if relative is None else relative,
            self._groups,
            initial,
            self._work,
            self._scratch,
            values,
            flags,
        )
        return values, flags
