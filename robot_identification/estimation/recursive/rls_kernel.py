# SPDX-License-Identifier: Apache-2.0
"""
Machine code that appends the rows of one sample to R and solves for the parameters.

The arithmetic of `factor.append_rows` and `elimination.triangular`, which stay the ways for many
rows and without a compiler.  Few rows at a time leave nothing to LAPACK's blocks: what counts is
that a row takes part only from its first entry on, and that nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
import math

from numba import boolean, float64, int64
import numpy as np

from ...support.compiled import compiled, constant
from .elimination import ACCEPTED, DEPENDENT, WEAK

_EXCHANGES = 12  # most times that parameters are put to bounds, or off them

_NEVER = 1e150
"""A threshold that no column exceeds."""


@compiled()
def _append(factor: np.ndarray, rows: np.ndarray, first: np.ndarray, m: int) -> None:
    """Householder reflections of R on top of m rows, which are in the order of ``first``."""
    size = factor.shape[0]
    total = rows[rows.shape[0] - 1]
    active = 0
    for k in range(size):
        while active < m and first[active] <= k:
            active += 1
        square = 0.0
        for i in range(active):
            square += rows[i, k] * rows[i, k]
        if square == 0.0:
            continue
        head = factor[k, k]
        new = -math.copysign(math.sqrt(head * head + square), head)
        tau, share = (new - head) / new, 1.0 / (head - new)
        factor[k, k] = new
        for i in range(active):
            rows[i, k] *= share
        for c in range(k + 1, size):
            total[c] = factor[k, c]
        # two rows at a time, for fewer passes over the memory
        even = active - active % 2
        for i in range(0, even, 2):
            one, two = rows[i, k], rows[i + 1, k]
            for c in range(k + 1, size):
                total[c] += one * rows[i, c] + two * rows[i + 1, c]
        for i in range(even, active):
            one = rows[i, k]
            for c in range(k + 1, size):
                total[c] += one * rows[i, c]
        for c in range(k + 1, size):
            total[c] *= tau
            factor[k, c] -= total[c]
        for i in range(0, even, 2):
            one, two = rows[i, k], rows[i + 1, k]
            for c in range(k + 1, size):
                rows[i, c] -= one * total[c]
                rows[i + 1, c] -= two * total[c]
        for i in range(even, active):
            one = rows[i, k]
            for c in range(k + 1, size):
                rows[i, c] -= one * total[c]


@compiled(
    constant(float64, 1),
    constant(int64, 1),
    constant(int64, 1),
    constant(int64, 1),
    constant(float64, 1),
    constant(float64, 1),
    constant(boolean, 1),
    float64,
    constant(float64, 1),
    float64[::1],
    float64[:, ::1],
    float64[:, ::1],
    int64[::1],
)
def append_sample(
    entries: np.ndarray,
    places: np.ndarray,
    offsets: np.ndarray,
    order: np.ndarray,
    effort: np.ndarray,
    weights: np.ndarray,
    kept: np.ndarray,
    memory: float,
    values: np.ndarray,
    residual: np.ndarray,
    factor: np.ndarray,
    rows: np.ndarray,
    first: np.ndarray,
) -> int:
    """
    Append a sample's rows to R, in place.

    Parameters
    ----------
    entries, places, offsets:
        (K,) entries of the rows, their columns, and (n + 1,) where each row's begin and end.
    order:
        (n,) the rows by their first column.
    effort, weights, kept:
        (n,) right-hand side, factor of each row, and whether it counts.
    memory:
        What R is multiplied with before.
    values, residual:
        (b,) parameters, and (n,) the effort less what they explain: a result.
    factor:
        (b + 1, b + 1) R of [Y | tau].
    rows, first:
        (n + 1, b + 1) and (n,) to work in.

    Returns
    -------
    int
        How many rows were appended; -1, with R as it was, where one is not finite.

    """
    b = factor.shape[0] - 1
    m = 0
    for j in order:
        start, stop, weight = offsets[j], offsets[j + 1], weights[j]
        rest = effort[j]
        for k in range(start, stop):
            rest -= entries[k] * values[places[k]]
        residual[j] = rest
        if not kept[j]:
            continue
        rows[m, :b] = 0.0
        for k in range(start, stop):
            rows[m, places[k]] = weight * entries[k]
        rows[m, b] = weight * effort[j]
        first[m] = places[start] if start < stop else b
        total = 0.0
        for c in range(b + 1):
            total += rows[m, c]
        if not math.isfinite(total):
            return -1
        m += 1
    if m > 0 and memory != 1.0:
        factor *= memory
    _append(factor, rows, first, m)
    return m


@compiled()
def _norms(factor: np.ndarray, squares: np.ndarray) -> None:
    """Squares of the columns' norms."""
    size = factor.shape[0]
    squares[:] = 0.0
    for r in range(size):
        for c in range(r, size):
            squares[c] += factor[r, c] * factor[r, c]


@compiled()
def _turn(work: np.ndarray, row: int, j: int, tau: float, c: int) -> None:
    """Reflect one column c by the vector below ``row`` in column j."""
    total = work[row, c]
    for r in range(row + 1, j + 1):
        total += work[r, j] * work[r, c]
    total *= tau
    work[row, c] -= total
    for r in range(row + 1, j + 1):
        work[r, c] -= work[r, j] * total


@compiled()
def _reflect(
    work: np.ndarray,
    row: int,
    j: int,
    length: float,
    flags: np.ndarray,
    short: int,
    total: np.ndarray,
) -> None:
    """Turn column j, from ``row`` to j, into its first axis by a Householder reflection."""
    size = work.shape[0]
    head = work[row, j]
    new = -math.copysign(length, head)
    tau, share = (new - head) / new, 1.0 / (head - new)
    work[row, j] = new
    for r in range(row + 1, j + 1):
        work[r, j] *= share
    # of the columns before it, only those rejected have anything in these rows
    for c in range(short, j):
        if flags[c] != ACCEPTED:
            _turn(work, row, j, tau, c)
    for c in range(j + 1, size):
        total[c] = work[row, c]
    for r in range(row + 1, j + 1):
        part = work[r, j]
        for c in range(j + 1, size):
            total[c] += part * work[r, c]
    for c in range(j + 1, size):
        total[c] *= tau
        work[row, c] -= total[c]
    for r in range(row + 1, j + 1):
        part = work[r, j]
        for c in range(j + 1, size):
            work[r, c] -= part * total[c]
        work[r, j] = 0.0


@compiled()
def _triangularise(
    work: np.ndarray,
    thresholds: np.ndarray,
    squares: np.ndarray,
    short: int,
    flags: np.ndarray,
    total: np.ndarray,
) -> int:
    """Decide on the columns from ``short`` on and make the accepted ones triangular."""
    b = flags.size
    row = short
    for j in range(short, b):
        square = 0.0
        for r in range(row, j + 1):
            square += work[r, j] * work[r, j]
        length = math.sqrt(square)
        if length > thresholds[j]:
            if row < j:
                _reflect(work, row, j, length, flags, short, total)
            row += 1
        else:
            flags[j] = DEPENDENT if math.sqrt(squares[j]) > thresholds[j] else WEAK
    return row


@compiled()
def _back(
    triangle: np.ndarray, flags: np.ndarray, count: int, right: np.ndarray, values: np.ndarray
) -> None:
    """Solve for the accepted parameters by back substitution, column by column of R."""
    r = count - 1
    for c in range(flags.size - 1, -1, -1):
        if flags[c] != ACCEPTED:
            continue
        value = right[r] / triangle[r, c]
        values[c] = value
        for above in range(r):
            right[above] -= value * triangle[above, c]
        r -= 1


@compiled(
    constant(float64, 2),
    constant(float64, 1),
    constant(int64, 1),
    constant(float64, 1),
    float64[:, ::1],
    float64[:, ::1],
    float64[::1],
    int64[::1],
)
def solve_sample(
    factor: np.ndarray,
    relative: np.ndarray,
    groups: np.ndarray,
    initial: np.ndarray,
    work: np.ndarray,
    scratch: np.ndarray,
    values: np.ndarray,
    flags: np.ndarray,
) -> None:
    """
    Decide which parameters R determines, and solve for them.

    Parameters
    ----------
    factor:
        (b + 1, b + 1) R of [Y | tau].
    relative:
        (b,) thresholds, relative to the longest column of the same group.
    groups:
        (b,) number of each column's group, below b.
    initial:
        (b,) what rejected parameters are held at.
    work, scratch:
        (b + 1, b + 1) and (4, b + 1) to work in.
    values, flags:
        (b,) results.

    """
    b = relative.size
    norms, thresholds = scratch[0], scratch[1]
    _norms(factor, norms)
    longest = scratch[2]
    longest[:] = 0.0
    for c in range(b):
        longest[groups[c]] = max(longest[groups[c]], norms[c])
    short = b
    for c in range(b - 1, -1, -1):
        thresholds[c] = relative[c] * math.sqrt(longest[groups[c]])
        if abs(factor[c, c]) <= thresholds[c]:
            short = c
    flags[:] = ACCEPTED
    right = scratch[3]
    if short == b:
        for c in range(b):
            right[c] = factor[c, b]
        _back(factor, flags, b, right, values)
        return
    work[:, :] = factor
    count = _triangularise(work, thresholds, norms, short, flags, scratch[2])
    for r in range(count):
        right[r] = work[r, b]
        for c in range(b):
            if flags[c] != ACCEPTED:
                right[r] -= work[r, c] * initial[c]
    values[:] = initial
    _back(work, flags, count, right, values)


class Stepper:
    """
    `append_sample` and `solve_sample` with work arrays that are made once.

    Parameters
    ----------
    relative:
        (b,) thresholds, relative to the longest column of the same group.
    groups:
        (b,) number of each column's group, below b.
    columns, weights:
        Ascending columns of the entries of each of n rows, and (n,) factors of the rows.

    Attributes
    ----------
    columns, weights:
        As given.
    free:
        (b,) bool, all False: no parameter is at a bound.

    """

    def __init__(
        self,
        relative: np.ndarray,
        groups: np.ndarray,
        columns: Sequence[np.ndarray],
        weights: np.ndarray,
    ) -> None:
        self.columns, self.weights = columns, weights
        b, n = relative.size, len(columns)
        self._relative, self._groups = np.ascontiguousarray(relative), groups.astype(np.int64)
        first = [int(places[0]) if places.size else b for places in columns]
        self._places = (
            np.concatenate(columns).astype(np.int64),
            np.cumsum([0, *(places.size for places in columns)], dtype=np.int64),
            np.argsort(first, kind='stable').astype(np.int64),
        )
        self._weights = np.ascontiguousarray(weights, dtype=float)
        self._rows, self._first = np.zeros((n + 1, b + 1)), np.zeros(n, dtype=np.int64)
        self._work = np.zeros((b + 1, b + 1))
        self._scratch = np.zeros((4, b + 1))
        self.free = np.zeros(b, dtype=bool)
        self.free.setflags(write=False)
        # compiled now, so that no sample waits for it
        self._append, self._solve = append_sample.machine_code(), solve_sample.machine_code()

    def append(
        self,
        factor: np.ndarray,
        entries: np.ndarray,
        effort: np.ndarray,
        kept: np.ndarray,
        memory: float,
        values: np.ndarray,
        residual: np.ndarray,
    ) -> int:
        """Append a sample's rows to R in place, see `append_sample`."""
        numbers = (effort, self._weights, kept, memory, values, residual)
        return int(self._append(entries, *self._places, *numbers, factor, self._rows, self._first))

    def solve(
        self, factor: np.ndarray, initial: np.ndarray, relative: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (b,) parameters and (b,) flags, see `solve_sample`; by other thresholds."""
        values, flags = np.empty(initial.size), np.empty(initial.size, dtype=np.int64)
        relative = self._relative if relative is None else relative
        work = (self._work, self._scratch)
        self._solve(factor, relative, self._groups, initial, *work, values, flags)
        return values, flags

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
        Solve like `elimination.within`, but from the bounds that held parameters before.

        Parameters
        ----------
        factor:
            (b + 1, b + 1) R of [Y | tau].
        free, accepted:
            (b,) the solution without bounds, or the initial values of what is not ``accepted``.
        lower, upper, held:
            (b,) ends, and -1 and 1 for parameters at the lower or upper one; changed.

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
