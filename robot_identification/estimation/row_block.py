# SPDX-License-Identifier: Apache-2.0
"""Consecutive rows of the linear system, and rows that are kept from pass to pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..regressor.inverse_dynamics import RowPattern

BLOCK_SAMPLES = 512
"""Samples that the regressor is evaluated at in one call."""

CACHE_BYTES = 64_000_000
"""Rows that take less than this are kept in memory."""


@dataclass(frozen=True)
class RowBlock:
    """
    Consecutive rows of the linear system, and the samples before decimation that came with them.

    Attributes
    ----------
    time:
        (m,) [s].
    position, velocity:
        (m, n) at the rows [rad, rad/s; m, m/s].
    pattern:
        Which base columns of the regressor the rows of each joint see.
    entries:
        (K, m) these columns, samples last.
    effort:
        (m, n) [N m or N].
    keep:
        (m, n) bool, False where the row is left out because its joint is in the dead zone.
    raw_entries:
        (K, k) the columns at all samples, before decimation.
    raw_effort:
        (k, n) effort as measured at these samples [N m or N].
    segment:
        Number of the stretch without gaps that the rows belong to.
    independence:
        Independent rows that a row counts for, see `signals.independence`; (n,) by joint where
        the joints' rows are mixed.

    """

    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    pattern: RowPattern
    entries: np.ndarray
    effort: np.ndarray
    keep: np.ndarray
    raw_entries: np.ndarray
    raw_effort: np.ndarray
    segment: int = 0
    independence: float | np.ndarray = 1.0

    @classmethod
    def from_matrix(
        cls, matrix: np.ndarray, raw_matrix: np.ndarray | None = None, **others: Any
    ) -> RowBlock:
        """
        Make a block of whole rows.

        Base columns are (m, n, b), before decimation (k, n, b) or the same ones; ``others`` are
        the attributes that are not about columns.
        """
        pattern = RowPattern.full(*matrix.shape[1:])
        entries = pattern.gather(matrix)
        raw = entries if raw_matrix is None else pattern.gather(raw_matrix)
        return cls(pattern=pattern, entries=entries, raw_entries=raw, **others)

    @cached_property
    def matrix(self) -> np.ndarray:
        """(m, n, b) base columns of the regressor."""
        return self.pattern.expand(self.entries)

    @property
    def undecimated(self) -> bool:
        """True if the rows are the samples as they were measured."""
        return self.raw_entries is self.entries and self.raw_effort is self.effort


class RowCache:
    """
    Rows that are read once, where they fit into memory, and otherwise for every pass.

    Parameters
    ----------
    start:
        Starts a pass over the rows.

    """

    def __init__(self, start: Callable[[], Iterator[RowBlock]]) -> None:
        self._start = start
        self._kept: list[RowBlock] | None = None

    def __iter__(self) -> Iterator[RowBlock]:
        if self._kept is not None:
            yield from self._kept
            return
        kept, size = [], 0
        for block in self._start():
            # without what came before the rows
            rows = replace(block, raw_entries=block.entries[:, :0], raw_effort=block.effort[:0])
            size += rows.entries.nbytes + rows.effort.nbytes
            if size <= CACHE_BYTES:
                kept.append(rows)
            else:
                kept.clear()
            yield rows
        if size <= CACHE_BYTES:
            self._kept = kept
