# SPDX-License-Identifier: Apache-2.0
"""Rows for methods that look at them several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..regressors.pattern import RowPattern
from .rows import RowBlock

CACHE_BYTES = 64_000_000
"""Rows that take less than this are kept in memory."""


@dataclass(frozen=True)
class CachedRows:
    """
    Rows of a block, without what came before them.

    Attributes
    ----------
    pattern, entries, effort, keep:
        As in `RowBlock`.

    """

    pattern: RowPattern
    entries: np.ndarray
    effort: np.ndarray
    keep: np.ndarray


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
        self._kept: list[CachedRows] | None = None

    def __iter__(self) -> Iterator[CachedRows]:
        if self._kept is not None:
            yield from self._kept
            return
        kept, size = [], 0
        for block in self._start():
            rows = CachedRows(block.pattern, block.entries, block.effort, block.keep)
            size += block.entries.nbytes + block.effort.nbytes
            if size <= CACHE_BYTES:
                kept.append(rows)
            else:
                kept.clear()
            yield rows
        if size <= CACHE_BYTES:
            self._kept = kept
