# SPDX-License-Identifier: Apache-2.0
"""
The entries of a regressor's rows that are not zero for every motion.

A joint's effort depends on the links that it carries alone, so that most of a sample's rows are
zero; work sample by sample is on the other entries alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from ..compiled import available
from ..data.recording import Motion
from .inverse_dynamics import InverseDynamicsRegressor, Regressor, result_array
from .kernel_data import carried_links, entries_data, KernelData

_STATES = 12
"""Random states at which an entry has to be exactly zero to count as zero for every motion."""


@dataclass(frozen=True, eq=False)
class RowPattern:
    """
    Places of the entries of a sample's rows that can differ from zero.

    Attributes
    ----------
    columns:
        For each of a sample's n rows the ascending places, among the columns asked for.
    size:
        Number b of columns asked for.

    """

    columns: tuple[np.ndarray, ...]
    size: int

    @classmethod
    def full(cls, n_rows: int, size: int) -> RowPattern:
        """Return the pattern of rows that may have entries everywhere."""
        return cls((np.arange(size),) * n_rows, size)

    @cached_property
    def offsets(self) -> np.ndarray:
        """(n + 1,) where the entries of each row begin and end among those of a sample."""
        return np.cumsum([0, *(places.size for places in self.columns)])

    def part(self, row: int) -> slice:
        """Places of the entries of a row."""
        return slice(*self.offsets[row : row + 2].tolist())

    @property
    def width(self) -> int:
        """Number K of entries of a sample."""
        return int(self.offsets[-1])

    @cached_property
    def rows(self) -> np.ndarray:
        """(K,) the row of each entry."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.offsets))

    @cached_property
    def places(self) -> np.ndarray:
        """(K,) the column of each entry, among those asked for."""
        return np.concatenate([*self.columns, np.zeros(0, dtype=int)]).astype(int)

    def same(self, other: RowPattern) -> bool:
        """Tell whether entries of both patterns mean the same."""
        if self is other:
            return True
        alike = self.size == other.size and np.array_equal(self.offsets, other.offsets)
        return alike and np.array_equal(self.places, other.places)

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """Return the entries (K, m), contiguous, of whole rows (m, n, b); inverse of `expand`."""
        return np.ascontiguousarray(rows[:, self.rows, self.places].T)

    def product(self, entries: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Multiply the rows of entries (K, m) with values (b,) of their columns, (m, n)."""
        out = np.empty((len(self.columns), entries.shape[1]))
        for j, places in enumerate(self.columns):
            out[j] = values[places] @ entries[self.part(j)]
        return out.T

    def expand(self, entries: np.ndarray) -> np.ndarray:
        """Return the whole rows (m, n, b) of entries (K, m)."""
        dense = np.zeros((entries.shape[1], len(self.columns), self.size))
        dense[:, self.rows, self.places] = entries.T
        return dense


def row_pattern(regressor: Regressor, columns: np.ndarray) -> RowPattern:
    """
    Find the entries in (b,) columns of a regressor that are not zero for every motion.

    If the compiled kernel could evaluate it, they follow from its structure: a link's columns are
    in the rows of the joints that move it.  Other regressors are tried at random states.
    """
    compilable = regressor.compilable if isinstance(regressor, InverseDynamicsRegressor) else None
    if compilable is None:
        rows = regressor.rows(random_states(regressor, _STATES))
        occupied = np.asarray(rows.reshape(_STATES, regressor.n_joints, -1).any(axis=0))
    else:
        occupied = np.zeros((regressor.n_joints, len(regressor.layout)), dtype=bool)
        rigid, combinations = compilable
        for row, link in carried_links(rigid.tree):
            occupied[row, 10 * link : 10 * link + 10] = True
        for entry in (entry for combination in combinations for entry in combination.entries):
            occupied[entry.row, entry.column] |= bool(entry.parts)
    wanted = occupied[:, columns]
    return RowPattern(tuple(np.flatnonzero(row) for row in wanted), wanted.shape[1])


def random_states(regressor: Regressor, samples: int) -> Motion:
    """Return random states, the same ones each time, that the robot can have."""
    random = np.random.default_rng(0)
    own = getattr(regressor, 'random_motion', None)
    if own is not None:
        return own(random, samples)
    return Motion(*random.uniform(-3.0, 3.0, (3, samples, regressor.n_joints)))


def entries(
    regressor: Regressor,
    motion: Motion,
    columns: np.ndarray,
    pattern: RowPattern,
    out: np.ndarray | None = None,
    *,
    threads: int = 1,
) -> np.ndarray:
    """
    Evaluate the entries of a pattern, (K, m) and contiguous.

    Row j's part ``[offsets[j]:offsets[j + 1]]`` of the result is the matrix (m, w_j) of its
    columns in Fortran's order, as LAPACK takes it.  The compiled kernel forms these entries alone;
    without it, the dense rows of the motion exist meanwhile.

    Parameters
    ----------
    regressor, columns, pattern:
        As for and from `row_pattern`.
    motion:
        States of m samples, a few thousand at most.
    out:
        (K, m), contiguous, to write to; made if None.
    threads:
        Most threads that share the work of the compiled kernel.

    Raises
    ------
    ValueError
        if the motion has another number of joints than the regressor, or ``out`` does not fit.

    """
    data = _kernel_input(regressor, columns, pattern) if available() else None
    if data is not None:
        m, n = motion.position.shape
        if n != regressor.n_joints:
            raise ValueError(f'the motion has {n} joints, the regressor {regressor.n_joints}')
        out = result_array((data.size, m), out)
        data.evaluate(motion, out, threads)
        return out
    out = result_array((pattern.width, len(motion)), out)
    dense = regressor.rows(motion).reshape(len(motion), len(pattern.columns), -1)
    out[...] = dense[:, pattern.rows, np.asarray(columns)[pattern.places]].T
    return out


_Kept = tuple[Regressor, np.ndarray, KernelData]
_kernel_inputs: WeakKeyDictionary[RowPattern, _Kept] = WeakKeyDictionary()
"""The latest input of the compiled kernel for each pattern: online, it serves every sample."""


def _kernel_input(
    regressor: Regressor, columns: np.ndarray, pattern: RowPattern
) -> KernelData | None:
    """Return the entries of a pattern as data for the compiled kernel; None if it has none."""
    if not isinstance(regressor, InverseDynamicsRegressor) or regressor.compilable is None:
        return None
    kept = _kernel_inputs.get(pattern)
    if kept is None or kept[0] is not regressor or kept[1] is not columns:
        places = np.asarray(columns)[pattern.places]
        kept = regressor, columns, entries_data(*regressor.compilable, pattern.rows, places)
        _kernel_inputs[pattern] = kept
    return kept[2]
