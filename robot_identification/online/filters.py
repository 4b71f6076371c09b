# SPDX-License-Identifier: Apache-2.0
"""
Stages of a stream, row by row: uniform grid, polynomial approximation, effort channel.

*Grid.*  A sample on the grid passes unchanged; elsewhere, because stamps jitter, a sample was lost
or the clock drifts, the cubic through its neighbours is evaluated, as `data.sampling` does it
offline.  A row of the grid is settled once there are two samples after it, which the cubic depends
on.

*Filters.*  An output is ready when its kernel has passed.  At the start of a stretch, kernels of
the effort channel see the first row before it.  The motion without phase shift, which Coulomb
friction is evaluated at, looks ahead by half its own window, so the results are those of the
offline method, later by `OnlineWindows.delay`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np

from ..data.recording import Motion
from ..data.sampling import GAP, interpolated, ON_GRID
from ..regressor.joint_terms import DryFriction
from ..signals.windows import NewestRows, Windows

_KEPT = 5
"""Samples that the cubic and the test for jitter depend on."""

BEYOND = 1e9
"""A position or an effort that no robot has; its square would drown all that was learned."""

_AHEAD = 2
"""Samples after a row that they depend on."""


@dataclass
class StreamCounts:
    """
    Counts of the samples of a stream.

    Attributes
    ----------
    samples, rows, interpolated:
        Samples pushed, rows of the uniform grid, and those of the rows between samples.
    stretches:
        Without gap, the present one included.
    late:
        Samples left out because their stamp was not after the one before.
    invalid:
        Samples left out because a number was not finite, or beyond any robot's.

    """

    samples: int = 0
    rows: int = 0
    interpolated: int = 0
    stretches: int = 0
    late: int = 0
    invalid: int = 0


class GridRow(NamedTuple):
    """A row of the grid: stamp [s], (width,) values, whether it is the first of a stretch."""

    stamp: float
    values: np.ndarray
    first: bool


class OnlineGrid:
    """
    Uniform grid of a stream of (width,) samples, usually ``period`` [s] apart.

    ``delay`` is the waiting time of a row for the samples after it, at an even rate [s].
    """

    def __init__(self, width: int, period: float, step: float) -> None:
        self.delay = _AHEAD * period
        self._longest = GAP * period
        self._step, self._tolerance = step, ON_GRID * step
        # of the last samples, oldest first; whether the step before each was off the grid
        self._values = [np.zeros(width) for _ in range(_KEPT)]
        self._time: list[float] = []
        self._jitter: list[bool] = []
        self._start, self._next = 0.0, 0
        self.counts = StreamCounts()

    def restart(self) -> None:
        """Begin a new stretch with the next sample."""
        self._time.clear()
        self._jitter.clear()

    def push(self, stamp: float, sample: np.ndarray) -> list[GridRow]:
        """
        Add a (width,) sample; return the rows that are settled now, valid until the next push.

        A stamp [s] before the last one by less than a gap is left out, an earlier one starts a new
        stretch.
        """
        counts, time = self.counts, self._time
        counts.samples += 1
        # what is not finite is not below any bound
        if not (math.isfinite(stamp) and np.abs(sample).max() < BEYOND):
            counts.invalid += 1
            return []
        off = False
        if time:
            passed = stamp - time[-1]
            if -self._longest <= passed <= 0.0:
                counts.late += 1
                return []
            if 0.0 < passed <= self._longest:
                whole = max(1.0, round(passed / self._step)) * self._step
                off = abs(passed - whole) > 2.0 * self._tolerance
            else:
                self.restart()
        if not time:
            self._start, self._next = stamp, 0
            counts.stretches += 1
        if len(time) == _KEPT:
            del time[0], self._jitter[0]
            self._values.append(self._values.pop(0))
        self._values[len(time)][:] = sample
        time.append(stamp)
        self._jitter.append(off)
        return self._settled() if len(time) > _AHEAD else []

    def _settled(self) -> list[GridRow]:
        # the cubic before the last but one sample takes the last one too
        settled = self._time[-1 - _AHEAD]
        stop = math.floor((settled - self._start) / self._step + ON_GRID) + 1
        rows = []
        for index in range(self._next, stop):
            wanted = self._start + index * self._step
            rows.append(GridRow(wanted, self._interpolated(wanted), index == 0))
        self.counts.rows += len(rows)
        self._next = max(self._next, stop)
        return rows

    def _interpolated(self, wanted: float) -> np.ndarray:
        time, jitter = self._time, self._jitter
        found = 0
        while time[found] < wanted - self._tolerance:
            found += 1
        jitters = jitter[found] or jitter[found + 1]
        if not jitters and abs(time[found] - wanted) <= self._tolerance:
            return self._values[found]
        self.counts.interpolated += 1
        held = np.array(self._values[: len(time)])
        return np.asarray(interpolated(np.array(time), held, np.array([wanted]))[0])


class OnlineChannel:
    """
    Effort channel of a stream (`signals.decimation`), one row at a time.

    The low-pass filter has no phase and a delay is a windowed sinc, so that a row waits for as
    many rows after it as the kernels reach ahead; a delay of the effort shortens that.

    Parameters
    ----------
    kernels, columns:
        Taps of each joint's channel, as `channel_kernel` gives them (one tap for none), and places
        of the joint's signals in a row.
    width:
        Signals of a row; those of no joint wait as the others do, for ``ahead`` rows.

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
        self._rows = NewestRows(self._length, width)
        self._count = 0

    def restart(self) -> None:
        """Discard all rows, as after a gap."""
        self._count = 0

    def push(self, row: np.ndarray) -> np.ndarray | None:
        """Add a row (width,); return the output at the row `ahead` before it, (width,), if any."""
        window = self._rows.push(self._count, row)
        self._count += 1
        if self._count <= self.ahead:
            return None
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
        effort = operator.value(hold=windows.settings.effort_hold)
        self._kernels = np.array([*(operator.derivative(k) for k in range(3)), effort])
        self._smooth = np.array([centred.derivative(k) for k in (1, 2)])
        self._extra_kernel = operator.value()
        self._rows = NewestRows(2 * self._margin + operator.taps, 2 * n_joints)
        self._extras = NewestRows(operator.taps, n_filtered)
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
        Add a row (2 n_joints,) of positions and efforts; return the window that it completes.

        None until there are enough rows for the motion without phase shift; from then on the
        entries at its second state have to be given to `filtered`, which returns None until the
        window is full.
        """
        count, n, margin = self._count, self._n, self._margin
        self._count += 1
        if count < 0:
            return None
        if count == 0:
            # positions far from 0 would cost digits of the acceleration
            self._offset = row[:n].copy()
        # rows from before the stretch may be among them: such results are not used
        held = self._rows.push(count, np.concatenate((row[:n] - self._offset, row[n:])))
        if count < 2 * margin:
            return None
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
        Return the entries (K,) of a window's rows from those (K, 2) at its states, or None.

        ``which`` (n_filtered,) are those of columns that are no polynomials of velocity and
        acceleration: P is applied to their values at the motion without phase shift.
        """
        index = self._count - 1 - 2 * self._margin
        now = entries[:, 0].copy()
        now[which] = self._extra_kernel @ self._extras.push(index, entries[which, 1])
        return now if index >= self._taps - 1 else None
