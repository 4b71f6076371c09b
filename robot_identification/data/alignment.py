# SPDX-License-Identifier: Apache-2.0
"""Rows of one recording at the stamps of another: interpolation in blocks, and none in gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .recording import SIGNALS, Table
from .sampling import CLOCK, GAP, interpolated, ON_GRID, rate_of

_REACH = 3
"""Samples beside a time that its interpolation uses."""


class Follower:
    """
    Reader of tables that keeps the samples around the present time.

    Parameters
    ----------
    tables:
        Consecutive rows, with increasing stamps.

    Raises
    ------
    ValueError
        for fewer than two samples.

    """

    def __init__(self, tables: Iterator[Table]) -> None:
        self._tables = tables
        held: Table | None = None
        for table in self._tables:
            held = table if held is None else _concatenated(held, table)
            if len(held) >= CLOCK.enough_steps:
                break
        if held is None or len(held) < 2:
            raise ValueError('fewer than two samples')
        self._held, self._ended = held, len(held) < CLOCK.enough_steps
        self._period = 1.0 / rate_of(held.time[: CLOCK.enough_steps])
        self._first = float(held.time[0])

    def advance(self, time: np.ndarray, origin: int) -> int:
        """
        Read on to the (n,) times ``time`` and return at how many of them `at` may interpolate.

        Parameters
        ----------
        time:
            (n,) increasing, and later than those of earlier calls [s].
        origin:
            Stamp that ``time`` is counted from [ns].

        """
        wanted = time + 1e-9 * (origin - self._held.origin)
        while not self._ended and self._settled <= wanted[0]:
            keep = int(np.searchsorted(self._held.time, wanted[0])) - _REACH
            if keep > 0 and len(self._held) - keep >= 2:
                self._held = self._held.select(np.arange(keep, len(self._held)))
            table = next(self._tables, None)
            self._ended = table is None
            if table is not None:
                self._held = _concatenated(self._held, table)
        if self._ended:
            return len(time)
        return int(np.searchsorted(wanted, self._settled))

    @property
    def _settled(self) -> float:
        """Time up to which further samples change nothing [s]."""
        return float(self._held.time[-_REACH]) if len(self._held) >= _REACH else -np.inf

    def interpolated(self, time: np.ndarray, origin: int) -> tuple[Table, np.ndarray, int]:
        """
        Interpolate at times that `advance` has read up to.

        Return the samples at the known times; (n,) bool, true for known times; and the number of
        unknown times in gaps.
        """
        held, slack = self._held, ON_GRID * self._period
        wanted = time + 1e-9 * (origin - held.origin)
        within = (wanted >= held.time[0] - slack) & (wanted <= held.time[-1] + slack)
        wanted = np.clip(wanted, held.time[0], held.time[-1])
        left = np.clip(np.searchsorted(held.time, wanted + slack, side='right') - 1, 0, None)
        right = np.minimum(left + 1, len(held.time) - 1)
        at_stamp = np.abs(wanted - held.time[left]) <= slack
        known = within & (at_stamp | (held.time[right] - held.time[left] <= GAP * self._period))
        in_gap = int((within & ~known & (wanted > self._first)).sum())
        return _interpolated(held, wanted[known]), known, in_gap


def _interpolated(table: Table, time: np.ndarray) -> Table:
    """Return the values at ``time``, with the same labels and origin."""
    signals = {name: getattr(table, name) for name in SIGNALS}
    at: dict[str, Any] = {
        name: interpolated(table.time, values, time)
        for name, values in signals.items()
        if values is not None
    }
    return replace(table, rows=np.arange(len(time)), time=time, **at)


def _concatenated(first: Table, second: Table) -> Table:
    pairs = {n: (getattr(first, n), getattr(second, n)) for n in ('rows', 'time', *SIGNALS)}
    both: dict[str, Any] = {
        name: None if any(part is None for part in pair) else np.concatenate(pair)
        for name, pair in pairs.items()
    }
    return replace(first, **both)
