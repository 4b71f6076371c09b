# SPDX-License-Identifier: Apache-2.0
"""
Filters of a uniform stream row by row: polynomial approximation, decimation, effort channel.

A row adds to the outputs whose kernel covers it; an output is ready when its kernel has passed.
At the start of a stretch kernels are cut and scaled to sum 1, as they are offline; those of the
effort channel see the first row before it.  The motion without phase shift, which Coulomb friction
is evaluated at, looks ahead by half its own window, so the results are those of the offline
method, later by `OnlineWindows.delay`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..data.recording import Motion
from ..regressor.friction import DryFriction
from ..signals.decimation import HALF_TAPS, kernel
from ..signals.windows import Windows


class OnlineDecimator:
    """Low-pass filter that keeps every M-th row of ``width`` numbers; ``factor`` is M > 1."""

    def __init__(self, factor: int, width: int) -> None:
        self._factor, self._taps, self._half = factor, kernel(factor), HALF_TAPS * factor
        # as many outputs as a row may add to, and the one that is ready
        self._pending = np.zeros((2 * HALF_TAPS + 1, width))
        self._sums = np.zeros(len(self._pending))
        self._count = 0

    def restart(self) -> None:
        """Discard all rows, as after a gap."""
        self._pending[:] = 0.0
        self._sums[:] = 0.0
        self._count = 0

    def push(self, row: np.ndarray) -> np.ndarray | None:
        """
        Add a row (width,) and return the output at the row 12 M before it, (width,), if any.

        A row is added to all outputs at once, instead of the rows to an output when it is due, so
        that every call takes the same time.
        """
        index, half, factor = self._count, self._half, self._factor
        self._count += 1
        outputs = np.arange(max(0, -((half - index) // factor)), (index + half) // factor + 1)
        weights = self._taps[index - outputs * factor + half]
        slots = outputs % len(self._sums)
        self._pending[slots] += np.multiply.outer(weights, row)
        self._sums[slots] += weights
        if index < half or (index - half) % factor:
            return None
        slot = (index - half) // factor % len(self._sums)
        ready = self._pending[slot] / self._sums[slot]
        self._pending[slot] = 0.0
        self._sums[slot] = 0.0
        return np.asarray(ready)


class OnlineChannel:
    """
    Effort channel of a stream (`signals.effort_channel`), one row at a time.

    The low-pass filter has no phase and a delay is a windowed sinc, so that a row waits for as
    many rows after it as the kernels reach ahead; a delay of the effort shortens that.

    Parameters
    ----------
    kernels:
        Taps of each joint's channel, as `channel_kernel` gives them; of one tap for none.
    columns:
        Places of each joint's signals in a row.
    width:
        Signals of a row; those of no joint wait as the others do.

    Attributes
    ----------
    ahead:
        Rows that a row waits for.

    """

    def __init__(
        self, kernels: Sequence[np.ndarray], columns: Sequence[slice], width: int
    ) -> None:
        halves = [kernel.size // 2 for kernel in kernels]
        reached = [np.flatnonzero(k) - half for k, half in zip(kernels, halves, strict=True)]
        self.ahead = max(0, *(-int(places[0]) for places in reached))
        self._behind = max(0, *(int(places[-1]) for places in reached))
        self._length = self._behind + 1 + self.ahead
        self._groups: list[tuple[slice, np.ndarray]] = []
        for weights, half, part in zip(kernels, halves, columns, strict=True):
            if weights.size == 1:
                continue
            # from the oldest row on: tap half + k belongs to the row k before
            places = np.arange(self._behind, -self.ahead - 1, -1) + half
            inside = (places >= 0) & (places < weights.size)
            taps = np.where(inside, weights[np.clip(places, 0, weights.size - 1)], 0.0)
            self._groups.append((part, taps))
        # every row is written twice, a window's length apart, so that windows are contiguous
        self._rows = np.zeros((2 * self._length, width))
        self._count = 0

    def restart(self) -> None:
        """Discard all rows, as after a gap."""
        self._count = 0

    def push(self, row: np.ndarray) -> np.ndarray | None:
        """Add a row (width,); return the output at the row `ahead` before it, (width,), if any."""
        place = self._count % self._length
        self._rows[place] = self._rows[place + self._length] = row
        self._count += 1
        if self._count <= self.ahead:
            return None
        window = self._rows[place + 1 : place + 1 + self._length]
        out = window[self._behind].copy()
        # the first row of a stretch stands for those before it
        first = max(0, self._length - self._count)
        for part, taps in self._groups:
            out[part] = taps[first:] @ window[first:, part]
            if first:
                out[part] += taps[:first].sum() * window[first, part]
        return out


class WindowState(NamedTuple):
    """
    State of a window.

    The motion has two states: what the operator P makes of the window, and the state without phase
    shift at its newest sample.  The effort is what P makes of the efforts, (n_joints,) [N m or N].
    """

    motion: Motion
    effort: np.ndarray


class OnlineWindows:
    """
    Polynomial approximation of a uniform stream, one row at a time.

    Parameters
    ----------
    windows:
        The operators for the stream's rate.
    n_joints, n_filtered:
        Numbers of positions and of efforts, and of entries that go through P, see `filtered`.
    trim:
        Time without windows at the start of a stretch [s].
    breakaway:
        (n_joints,) displacement of dry friction [rad or m]; None for the sign of the velocity.

    Attributes
    ----------
    delay:
        Age of the results at the newest row [s].

    """

    def __init__(
        self,
        windows: Windows,
        n_joints: int,
        n_filtered: int = 0,
        *,
        trim: float = 0.0,
        breakaway: np.ndarray | None = None,
    ) -> None:
        operator, centred = windows.operator, windows.centred
        self.delay = windows.tail
        self._n, self._taps = n_joints, operator.taps
        self._margin = (centred.taps - 1) // 2
        self._skipped = windows.cuts(trim)[0]
        self._length = 2 * self._margin + operator.taps
        effort = operator.value(hold=windows.settings.effort_hold)
        self._kernels = np.array([*(operator.derivative(k) for k in range(3)), effort])
        self._smooth = np.array([centred.derivative(k) for k in (1, 2)])
        self._extra_kernel = operator.value()
        # every row is written twice, a window's length apart, so that windows are contiguous
        self._rows = np.zeros((2 * self._length, 2 * n_joints))
        self._extras = np.zeros((2 * operator.taps, n_filtered))
        self._offset = np.zeros(n_joints)
        self._dry = None if breakaway is None else DryFriction(breakaway, operator.period)
        self._count = -self._skipped

    def restart(self) -> None:
        """Discard all rows, as after a gap."""
        self._count = -self._skipped
        if self._dry is not None:
            self._dry.restart()

    def push(self, row: np.ndarray) -> WindowState | None:
        """
        Add a row and return the state of the window that it completes.

        Parameters
        ----------
        row:
            (2 n_joints,) positions and efforts.

        Returns
        -------
        WindowState or None
            None until there are enough rows for the motion without phase shift; from then on the
            entries at its second state have to be given to `filtered`, which returns None until
            the window is full.

        """
        count, n, margin = self._count, self._n, self._margin
        self._count += 1
        if count < 0:
            return None
        if count == 0:
            # positions far from 0 would cost digits of the acceleration
            self._offset = row[:n].copy()
        place = count % self._length
        first = self._rows[place]
        np.subtract(row[:n], self._offset, out=first[:n])
        first[n:] = row[n:]
        self._rows[place + self._length] = first
        if count < 2 * margin:
            return None
        # rows from before the stretch may be among them: such results are not used
        held = self._rows[place + 1 : place + 1 + self._length]
        inner = held[margin : margin + self._taps]
        projected = self._kernels @ inner
        smooth = self._smooth @ held[self._taps - 1 :]
        states = np.empty((3, 2, n))
        states[:, 0] = projected[:3, :n]
        states[1:, 1] = smooth[:, :n]
        states[0, 0] += self._offset
        states[0, 1] = inner[-1, :n] + self._offset
        friction = None
        if self._dry is not None:
            # only the state without phase shift counts for columns of friction
            friction = np.broadcast_to(self._dry.step(states[1, 1]), (2, n))
        return WindowState(Motion(*states, friction_state=friction), projected[3, n:])

    def filtered(self, entries: np.ndarray, which: np.ndarray) -> np.ndarray | None:
        """
        Return the entries of a window's rows.

        Parameters
        ----------
        entries:
            (K, 2) at the states of the last `WindowState`.
        which:
            (n_filtered,) those of columns that are no polynomials of velocity and acceleration:
            P is applied to their values at the motion without phase shift.

        Returns
        -------
        np.ndarray or None
            (K,); None until the window is full.

        """
        index, taps = self._count - 1 - 2 * self._margin, self._taps
        place = index % taps
        extras = self._extras
        extras[place] = extras[place + taps] = entries[which, 1]
        now = entries[:, 0].copy()
        now[which] = self._extra_kernel @ extras[place + 1 : place + 1 + taps]
        return now if index >= taps - 1 else None
