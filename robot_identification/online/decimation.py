# SPDX-License-Identifier: Apache-2.0
"""
The parallel decimation row by row, as `signals.decimation` does it in blocks.

Each row adds to the outputs whose kernel reaches it; an output is ready when its kernel has
passed.  At the start of a stretch kernels are cut and scaled to sum 1, as they are offline.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compiled import available
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
    from .filter_steps import add_row

    return add_row


def _add_row(
    index: int,
    row: np.ndarray,
    factor: int,
    taps: np.ndarray,
    pending: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Do the same as `filter_steps.add_row` in NumPy."""
    half = (taps.size - 1) // 2
    first = max(0, -((half - index) // factor))
    outputs = np.arange(first, (index + half) // factor + 1)
    weights = taps[index - outputs * factor + half]
    slots = outputs % sums.size
    pending[slots] += np.multiply.outer(weights, row)
    sums[slots] += weights
