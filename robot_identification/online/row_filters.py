# SPDX-License-Identifier: Apache-2.0
"""From samples on a uniform grid to filtered rows of base parameters, sample by sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..estimation.rows import driven_rows
from ..regressor import Regressor
from ..regressor.inverse_dynamics import entries, row_pattern, RowPattern
from ..regressor.projection import forms
from ..signals import (
    by_joint,
    channel_kernel,
    decimation_factor,
    independence,
    ParallelDecimator,
    SignalSettings,
)
from ..signals.windows import Windows
from .filters import GridRow, OnlineChannel, OnlineWindows


class FilteredRow(NamedTuple):
    """
    Rows of one moment, one for each of n joints.

    Attributes
    ----------
    entries:
        (K,) entries of the rows, see `RowFilters.pattern`.
    effort:
        (n,) [N m or N].
    velocity:
        (n,) [rad/s or m/s].
    moving:
        (n,) bool, whether a joint is out of its dead zone.

    """

    entries: np.ndarray
    effort: np.ndarray
    velocity: np.ndarray
    moving: np.ndarray


class RowFilters:
    """
    Windows, effort channel and decimation of one stream.

    Parameters
    ----------
    regressor:
        The model of n joints.
    columns:
        Columns of the base parameters.
    joints:
        Names of the joints.
    signals:
        Settings of the filters.
    step:
        Time between two rows of the grid [s].

    Attributes
    ----------
    pattern:
        Places of the entries of rows.
    taps, lag:
        Samples in a window, and the time from a row's moment to the end of its window [s].
    factor:
        Rows of the grid for each that is learned from.
    independence:
        Share of the rows that counts as independent, as far as the filters go.
    age:
        Time from a row's moment to the sample that completes it [s].

    """

    def __init__(
        self,
        regressor: Regressor,
        columns: np.ndarray,
        joints: tuple[str, ...],
        signals: SignalSettings,
        step: float,
    ) -> None:
        n = self._n = regressor.n_joints
        self._regressor, self._columns = regressor, columns
        self.pattern: RowPattern = row_pattern(regressor, columns)
        other = forms(regressor, columns).other
        self._filtered = np.flatnonzero(np.isin(self.pattern.places, other))
        windows = Windows.from_settings(signals, 1.0 / step)
        breakaway = getattr(regressor, 'breakaway', None)
        self._windows = OnlineWindows(
            windows, n, self._filtered.size, trim=signals.ends, breakaway=breakaway
        )
        self.taps, self.lag = windows.operator.taps, windows.operator.instant
        kernel = windows.operator.value(hold=signals.polynomial_approximation.effort_hold)
        self.factor = decimation_factor(signals, 1.0 / step)
        self.independence = independence(self.factor, kernel)
        self._decimator = ParallelDecimator(self.factor)
        self._zones, delays, low_passes = (
            _of_driven(regressor, joints, signals, key)
            for key in ('dead_zone', 'effort_delay', 'effort_low_pass')
        )
        self._channel = _channel(delays, low_passes, step, self.pattern)
        # what is learned goes through the channel after the decimation, as it does offline
        self._slow_channel = None
        if self.factor > 1:
            self._slow_channel = _channel(delays, low_passes, self.factor * step, self.pattern)
        waits = 0 if self._channel is None else self._channel.ahead
        self.age = self._windows.delay + waits * step

    def push(self, row: GridRow) -> tuple[FilteredRow | None, Iterable[FilteredRow]]:
        """
        Add a row of the grid.

        Returns
        -------
        tuple
            The rows that it completes, if any, and those of the decimated stream, which are to be
            taken before the next row of the grid comes.

        """
        if row.first:
            self._restart()
        state = self._windows.push(row.values)
        if state is None:
            return None, ()
        found = entries(self._regressor, state.motion, self._columns, self.pattern)
        now = self._windows.filtered(found, self._filtered)
        if now is None:
            return None, ()
        every = np.concatenate((now, state.effort, state.motion.velocity[0]))
        delayed = every if self._channel is None else self._channel.push(every)
        completed = None if delayed is None else self._separated(delayed)
        return completed, () if self.factor == 1 else self._decimated(every)

    def _restart(self) -> None:
        self._windows.restart()
        self._decimator = ParallelDecimator(self.factor)
        for channel in (self._channel, self._slow_channel):
            if channel is not None:
                channel.restart()

    def _decimated(self, every: np.ndarray) -> Iterator[FilteredRow]:
        """Give what a sample's entries, effort and velocity complete in the decimated stream."""
        for output in self._decimator.push(every[:, None]).T:
            joined = output if self._slow_channel is None else self._slow_channel.push(output)
            if joined is not None:
                yield self._separated(joined)

    def _separated(self, joined: np.ndarray) -> FilteredRow:
        """Return entries, effort and velocity of what has been filtered together."""
        k, n = self.pattern.width, self._n
        velocity = joined[k + n :]
        moving = np.abs(velocity) >= self._zones
        return FilteredRow(joined[:k], joined[k : k + n], velocity, moving)


def _of_driven(
    regressor: Regressor, joints: tuple[str, ...], signals: SignalSettings, key: str
) -> np.ndarray:
    """Return (n,) values of a setting by joint, zero for joints that nothing drives."""
    driven = driven_rows(regressor)
    values = np.zeros(len(joints))
    movers = tuple(joint for joint, has in zip(joints, driven, strict=True) if has)
    values[driven] = by_joint(signals, key, movers)
    return values


def _channel(
    delays: np.ndarray, low_passes: np.ndarray, step: float, pattern: RowPattern
) -> OnlineChannel | None:
    """Return the effort channel of rows with this step [s]; None where there is none."""
    if not (delays.any() or low_passes.any()):
        return None
    pairs = zip(delays.tolist(), low_passes.tolist(), strict=True)
    kernels = [channel_kernel(delay, low_pass, 1.0 / step) for delay, low_pass in pairs]
    columns = [pattern.row_entries(row) for row in range(len(kernels))]
    return OnlineChannel(kernels, columns, pattern.width + 2 * len(kernels))
