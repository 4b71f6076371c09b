# SPDX-License-Identifier: Apache-2.0
"""
Delay of efforts against positions, beside a running robot.

A bounded number of the newest rows is kept, far enough apart to last for many seconds and close
enough to follow what the filters let through.  The delay is found from them as from a recording;
that takes some tens of milliseconds, so it is for another thread or process.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..estimation.plot_samples import PlotSamples
from ..estimation.residuals import effort_delay, EffortDelay
from ..regressor.inverse_dynamics import RowPattern
from .identifier import OnlineIdentifier, Update

ROWS = 1500
"""Rows that are kept."""

_PER_WINDOW = 4  # rows in a window of the filters, which let nothing faster through
_FEWEST = 200  # rows, below which they do not determine a delay


class DelayRows(NamedTuple):
    """The newest rows, (b,) base parameters and names of the joints; can be pickled."""

    trace: PlotSamples
    base: np.ndarray
    joints: tuple[str, ...]

    def delay(self) -> EffortDelay:
        """Find how late each joint's effort is; NaN where the motion does not determine it."""
        return effort_delay(self.trace, self.base, self.joints)


class DelayWatch:
    """
    Buffer of the newest rows of an identifier, for the determination of the delay.

    Attributes
    ----------
    found:
        The delay found last, which whoever calculates it enters; None before.

    """

    def __init__(self, identifier: OnlineIdentifier) -> None:
        self._pattern: RowPattern = identifier.pattern
        self._joints = identifier.joints
        n = len(self._joints)
        self._stride = max(1, identifier.taps // _PER_WINDOW)
        self._longest = 1.5 * identifier.step
        self._time, self._segment = np.empty(ROWS), np.empty(ROWS, dtype=np.int64)
        self._entries = np.empty((ROWS, self._pattern.width))
        self._effort, self._keep = np.empty((ROWS, n)), np.empty((ROWS, n), dtype=bool)
        self._taken = self._since = self._stretch = 0
        self._newest: Update | None = None
        self.found: EffortDelay | None = None

    def __len__(self) -> int:
        return min(self._taken, ROWS)

    def push(self, update: Update) -> None:
        """Add an update."""
        newest, self._newest = self._newest, update
        if newest is None or not 0.0 < update.stamp - newest.stamp < self._longest:
            self._stretch += 1
            self._since = 0
        self._since += 1
        if self._since % self._stride != 1 % self._stride:
            return
        place = self._taken % ROWS
        self._taken += 1
        self._time[place], self._segment[place] = update.stamp, self._stretch
        self._entries[place] = update.entries
        self._effort[place], self._keep[place] = update.effort, update.moving

    def rows(self) -> DelayRows | None:
        """Return a copy of the newest rows, oldest first; None where there are too few."""
        if self._newest is None or len(self) < _FEWEST:
            return None
        order = np.arange(self._taken - len(self), self._taken) % ROWS
        trace = PlotSamples(
            self._time[order],
            self._segment[order],
            self._pattern,
            np.ascontiguousarray(self._entries[order].T),
            self._effort[order],
            self._keep[order],
        )
        return DelayRows(trace, self._newest.values.copy(), self._joints)
