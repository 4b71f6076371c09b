# SPDX-License-Identifier: Apache-2.0
"""Rows for methods that look at them several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .rows import RowBlock

CACHE_BYTES = 64_000_000
"""Rows that take less than this are kept in memory."""


@dataclass(frozen=True)
class Rows:
    """(m, n, b + 1) rows [W | tau], and (m, n) bool, which of them count."""

    augmented: np.ndarray
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
        self._kept: list[Rows] | None = None

    def __iter__(self) -> Iterator[Rows]:
        if self._kept is not None:
            yield from self._kept
            return
        kept, size = [], 0
        for block in self._start():
            augmented = np.concatenate([block.matrix, block.effort[:, :, None]], axis=2)
            rows = Rows(augmented, np.array(block.keep))
            size += augmented.nbytes
            if size <= CACHE_BYTES:
                kept.append(rows)
            else:
                kept.clear()
            yield rows
        if size <= CACHE_BYTES:
            self._kept = kept
