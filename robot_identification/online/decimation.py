# SPDX-License-Identifier: Apache-2.0
"""
The parallel decimation row by row, as `signals.decimation` does it in blocks.

Each row adds to the outputs whose kernel reaches it; an output is ready when its kernel has
passed.  At the start of a stretch kernels are cut and scaled to sum 1, as they are offline.
"""

from __future__ import annotations

import numpy as np

from ..compiled import available, compiled
from ..signals.decimation import HALF_TAPS, kernel


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
        self._add = add_row.ready() if available() else _add_row
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


@compiled('i8', 'const f8[::1]', 'i8', 'const f8[::1]', 'f8[:, ::1]', 'f8[::1]')
def add_row(
    index: int,
    row: np.ndarray,
    factor: int,
    taps: np.ndarray,
    pending: np.ndarray,
    sums: np.ndarray,
) -> None:
    """
    Add a row to the outputs whose kernel reaches it.

    Parameters
    ----------
    index:
        Of the row, from 0.
    row:
        (width,).
    factor, taps:
        M, and (24 M + 1,) the kernel.
    pending, sums:
        (25, width) and (25,) outputs, by their number modulo 25, and the taps they have used.

    """
    half = (taps.size - 1) // 2
    last = (index + half) // factor
    for output in range(max(0, (index - half + factor - 1) // factor), last + 1):
        weight = taps[index - output * factor + half]
        slot = output % sums.size
        sums[slot] += weight
        for c in range(row.size):
            pending[slot, c] += weight * row[c]


def _add_row(
    index: int,
    row: np.ndarray,
    factor: int,
    taps: np.ndarray,
    pending: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Do the same as `add_row` by NumPy."""
    half = (taps.size - 1) // 2
    first = max(0, -((half - index) // factor))
    outputs = np.arange(first, (index + half) // factor + 1)
    weights = taps[index - outputs * factor + half]
    slots = outputs % sums.size
    pending[slots] += np.multiply.outer(weights, row)
    sums[slots] += weights
