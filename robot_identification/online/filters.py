# SPDX-License-Identifier: Apache-2.0
"""
Filters of a uniform stream row by row: polynomial approximation and parallel decimation.

Each row adds to the outputs whose kernel reaches it; an output is ready when its kernel has
passed.  At the start of a stretch kernels are cut and scaled to sum 1, as they are offline.

A row completes the window of the operator P that ends some rows before it: the motion without
phase shift, which Coulomb friction is evaluated at, looks ahead by half its own window.  So what
comes out is what the offline method finds, later by `OnlineWindows.delay`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..compiled import (
    available,
)
from ..data.recording import Motion
from ..signals.decimation import HALF_TAPS, kernel
from ..signals.windows import Windows


class OnlineDecimator:
    """
    Low-pass filter and keep every M-th row.

    Parameters
    ----------
    factor:
        M, 2 or more.
    width:
        Numbers in a row.

    """

    def __init__(self, factor: int, width: int) -> None:
        self.factor = factor
        self._taps = kernel(factor)
        self._half = HALF_TAPS * factor
        # as many outputs as a row may add to, and the one that is ready
        self._pending = np.zeros((2 * HALF_TAPS + 1, width))
        self._sums = np.zeros(len(self._pending))
        self._add = _step()
        self._count = 0

    def restart(self) -> None:
        """Forget all rows, as after a gap."""
        self._pending[:] = 0.0
        self._sums[:] = 0.0
        self._count = 0

    def push(self, row: np.ndarray) -> np.ndarray | None:
        """
        Take a row.

        Parameters
        ----------
        row:
            (width,).

        Returns
        -------
        np.ndarray or None
            (width,) the output that belongs to the row 12 M before this one, if there is one.

        """
        index, half = self._count, self._half
        self._count += 1
        self._add(index, row, self.factor, self._taps, self._pending, self._sums)
        if index < half or (index - half) % self.factor:
            return None
        slot = (index - half) // self.factor % len(self._sums)
        ready = self._pending[slot] / self._sums[slot]
        self._pending[slot] = 0.0
        self._sums[slot] = 0.0
        return np.asarray(ready)


def _step() -> Callable[..., None]:
    """Return the compiled step; without Numba, a function that does the same in NumPy."""
    if not available():
        return _add_row
    from .filter_kernel import add_row

    return add_row


def _add_row(
    index: int,
    row: np.ndarray,
    factor: int,
    taps: np.ndarray,
    pending: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Do the same as `filter_kernel.add_row` in NumPy."""
    half = (taps.size - 1) // 2
    first = max(0, -((half - index) // factor))
    outputs = np.arange(first, (index + half) // factor + 1)
    weights = taps[index - outputs * factor + half]
    slots = outputs % sums.size
    pending[slots] += np.multiply.outer(weights, row)
    sums[slots] += weights


class WindowState(NamedTuple):
    """
    State of a window.

    Attributes
    ----------
    motion:
        Two states: what P makes of the window, and the state without phase shift at the window's
        newest sample.
    effort:
        (n_joints,) what P makes of the efforts [N m or N].
    age:
        Time from the moment that P approximates to the newest sample [s].

    """

    motion: Motion
    effort: np.ndarray
    age: float


class OnlineWindows:
    """
    Filters the rows of a uniform stream, one and one.

    Parameters
    ----------
    windows:
        The operators for the stream's rate.
    n_joints:
        Number of positions and of efforts.
    n_filtered:
        Number of columns' entries that go through P, see `filtered`.
    trim:
        Time without windows at the start of a stretch [s].

    """

    def __init__(
        self, windows: Windows, n_joints: int, n_filtered: int = 0, *, trim: float = 0.0
    ) -> None:
        operator, centred = windows.operator, windows.centred
        self._n, self._taps = n_joints, operator.taps
        self._margin = (centred.taps - 1) // 2
        self._skipped = windows.cuts(trim)[0]
        self._reach = 2 * self._margin + operator.taps
        self._delay = windows.tail
        # that of the effort is the last one
        hold = windows.settings.effort_hold
        self._kernels = np.array(
            [*(operator.derivative(k) for k in range(3)), operator.value(hold=hold)]
        )
        self._smooth = np.array([centred.derivative(k) for k in (1, 2)])
        self._extra_kernel = operator.value()
        # every row is written twice, a window's length apart, so that windows are contiguous
        self._rows = np.zeros((2 * self._reach, 2 * n_joints))
        self._extras = np.zeros((2 * operator.taps, n_filtered))
        self._offset = np.zeros(n_joints)
        self._count = -self._skipped
        self._products, self._filter = _steps()

    @property
    def delay(self) -> float:
        """Age of the results at the newest row [s]."""
        return self._delay

    def restart(self) -> None:
        """Forget all rows, as after a gap."""
        self._count = -self._skipped

    def push(self, row: np.ndarray) -> WindowState | None:
        """
        Take a row.

        Parameters
        ----------
        row:
            (2 n_joints,) positions and efforts.

        Returns
        -------
        WindowState or None
            None until there are enough rows for the motion without phase shift; from then on the
            entries at its second state have to be given to `filtered`, which says when the window
            is full.

        """
        count, n, identifiability = self._count, self._n, self._reach
        self._count += 1
        if count < 0:
            return None
        if count == 0:
            # positions far from 0 would cost digits of the acceleration
            self._offset = row[:n].copy()
        place = count % identifiability
        first = self._rows[place]
        np.subtract(row[:n], self._offset, out=first[:n])
        first[n:] = row[n:]
        self._rows[place + identifiability] = first
        if count < 2 * self._margin:
            return None
        # rows from before the stretch are not looked at: their results are not used
        held = self._rows[place + 1 : place + 1 + identifiability]
        states, effort = np.empty((3, 2, n)), np.empty(n)
        self._products(held, self._offset, self._kernels, self._smooth, states, effort)
        return WindowState(Motion(states[0], states[1], states[2]), effort, self._delay)

    def filtered(self, entries: np.ndarray, which: np.ndarray) -> np.ndarray | None:
        """
        Return the entries of a window's rows.

        Parameters
        ----------
        entries:
            (K, 2) at the states of the last `WindowState`.
        which:
            (n_filtered,) those of columns that are no polynomials of velocity and acceleration:
            P goes over what they are at the motion without phase shift.

        Returns
        -------
        np.ndarray or None
            (K,); None until the window is full.

        """
        index, taps = self._count - 1 - 2 * self._margin, self._taps
        place = index % taps
        now = np.empty(entries.shape[0])
        self._filter(entries, which, place, self._extra_kernel, self._extras, now)
        return now if index >= taps - 1 else None


def _steps() -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the compiled steps; without Numba, functions that do the same in NumPy."""
    if not available():
        return _window_products, _filtered_entries
    from .filter_kernel import filtered_entries, window_products

    return window_products, filtered_entries


def _window_products(
    held: np.ndarray,
    offset: np.ndarray,
    kernels: np.ndarray,
    smooth: np.ndarray,
    states: np.ndarray,
    effort: np.ndarray,
) -> None:
    """Do the same as `filter_kernel.window_products` in NumPy."""
    n, taps, margin = offset.size, kernels.shape[1], (smooth.shape[1] - 1) // 2
    inner = held[margin : margin + taps]
    states[:, 0] = kernels[:3] @ inner[:, :n]
    states[1:, 1] = smooth @ held[taps - 1 :, :n]
    states[0, 0] += offset
    states[0, 1] = inner[-1, :n] + offset
    effort[:] = kernels[3] @ inner[:, n:]


def _filtered_entries(
    entries: np.ndarray,
    which: np.ndarray,
    place: int,
    kernel: np.ndarray,
    ring: np.ndarray,
    now: np.ndarray,
) -> None:
    """Do the same as `filter_kernel.filtered_entries` in NumPy."""
    taps = kernel.size
    now[:] = entries[:, 0]
    ring[place] = ring[place + taps] = entries[which, 1]
    now[which] = kernel @ ring[place + 1 : place + 1 + taps]
