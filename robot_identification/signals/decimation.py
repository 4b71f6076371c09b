# SPDX-License-Identifier: Apache-2.0
"""
Parallel decimation: one linear-phase low-pass filter for every regressor column and effort.

The estimate does not suffer from a filter that acts alike on both sides of ``tau = W X`` (Gautier
and Poignet's parallel filter, Gautier & Venture 2013, section III).  Here it is a symmetric FIR
filter of ``24 M + 1`` taps, of which only every M-th output is computed: no phase to undo, finite
memory, so it streams exactly.  Where the window reaches beyond the ends of a stretch it is cut and
scaled to sum 1 again; a cut window is no longer symmetric, but still the same for every column.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.signal import firwin

HALF_TAPS = 12
"""Half the length of the kernel, in output periods."""

_ROWS = 256  # rows of one matrix product at least, so that small factors are efficient too


def kernel(factor: int) -> np.ndarray:
    """
    Taps of the low-pass filter that goes with a decimation by ``factor``.

    Parameters
    ----------
    factor:
        M; the pass band ends at 0.8 of the new Nyquist frequency.

    Returns
    -------
    (24 M + 1,) symmetric taps with sum 1.

    """
    return firwin(2 * HALF_TAPS * factor + 1, 0.8 / factor, window=('kaiser', 6.0))


def independence(factor: int, before: np.ndarray | None = None, stride: int = 1) -> float:
    """
    How many independent rows a decimated row counts for, where the input's noise is white.

    Between the end of the pass band and the new Nyquist frequency decimated rows have no noise,
    and no signal either.  So their residual is smaller than the noise at the frequencies of the
    signal, by the kernel's noise bandwidth as a share of the new Nyquist frequency.

    Parameters
    ----------
    factor:
        M, 1 or more.
    before:
        (taps,) kernel that has made the input, every ``stride``-th sample, of white noise.
    stride:
        Samples from one window of that kernel to the next.

    Returns
    -------
    1 for the factor 1, otherwise about 0.76, if there was no kernel before; less with one that is
    long beside the samples' distance.

    """
    if before is None:
        return factor * float(np.sum(kernel(factor) ** 2)) if factor > 1 else 1.0
    taps = kernel(factor) if factor > 1 else np.ones(1)
    spread = np.zeros((taps.size - 1) * stride + 1)
    spread[::stride] = taps
    both = np.convolve(spread, before)
    # variance beside the density at the signal's frequencies, with what sampling folds there
    correlation = np.convolve(both, both[::-1])
    step = factor * stride
    folded = correlation[(both.size - 1) % step :: step].sum()
    return float(correlation[both.size - 1] / folded)


class ParallelDecimator:
    """
    Low-pass filter and keep every M-th row, block by block.

    Output row m stands at input row ``m M`` of the stretch: it is the mean of the rows around,
    weighted with `kernel`.  ``ceil(N / M)`` rows come out for N rows in, whatever the blocks; so
    the time of output row m is ``time[0] + m M / rate``.  A stretch after a gap takes a new
    decimator.  The factor 1 passes the rows as they are.

    Parameters
    ----------
    factor:
        M, 1 or more.

    """

    def __init__(self, factor: int) -> None:
        if factor < 1:
            raise ValueError(f'factor is {factor}, expected 1 or more')
        self.factor = factor
        self._taps = kernel(factor) if factor > 1 else np.ones(1)
        self._tap_sums = np.concatenate(([0.0], np.cumsum(self._taps)))
        # one product takes `span` output periods and touches the outputs of 24 more
        self._span = max(1, math.ceil(_ROWS / factor))
        self._operator = self._block_operator()
        self._shape: tuple[int, ...] | None = None
        self._carry: np.ndarray = np.empty((0, 0))
        self._pending: np.ndarray = np.empty((0, 0))
        self._first = -HALF_TAPS  # output row that the first pending row is
        self._rows = 0

    def push(self, rows: np.ndarray) -> np.ndarray:
        """
        Take the next rows and return the output rows that they complete.

        Parameters
        ----------
        rows:
            (N, ...) consecutive rows; the shape of a row is the same in every call.

        Returns
        -------
        (m, ...) output rows, where m may be 0.

        """
        rows = np.asarray(rows, dtype=float)
        shape = rows.shape[1:]
        if self._shape is None:
            width = math.prod(shape)
            self._shape = shape
            self._carry = np.empty((0, width))
            self._pending = np.zeros((2 * HALF_TAPS, width))
        if shape != self._shape:
            raise ValueError(f'rows have shape {shape}, the first ones had {self._shape}')
        if self.factor == 1:
            self._first = max(0, self._first) + len(rows)
            return rows
        flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(shape))
        self._rows += len(flat)
        return _shaped(self._advance(flat), shape)

    def finish(self) -> np.ndarray:
        """
        Return the output rows whose window reaches beyond the last row.

        Returns
        -------
        (m, ...) output rows.

        """
        if self._shape is None:
            return np.empty((0,))
        if self.factor == 1:
            return np.empty((0, *self._shape))
        total = -(-self._rows // self.factor)
        if len(self._carry):
            size = self._span * self.factor
            padded = np.zeros((size, self._carry.shape[1]))
            padded[: len(self._carry)] = self._carry
            self._pending = self._overlap_add(padded[None])
            self._carry = self._carry[:0]
        start, stop = max(0, -self._first), total - self._first
        rows = self._normalised(self._pending[:stop], start)
        self._first = total
        return _shaped(rows, self._shape)

    def _advance(self, flat: np.ndarray) -> np.ndarray:
        """Fold in whole products' worth of rows, and keep the rest for later."""
        size = self._span * self.factor
        outputs = []
        if len(self._carry):
            missing = size - len(self._carry)
            self._carry = np.concatenate((self._carry, flat[:missing]))
            flat = flat[missing:]
            if len(self._carry) == size:
                outputs.append(self._fold(self._carry[None]))
                self._carry = self._carry[:0]
        whole = len(flat) // size
        if whole:
            outputs.append(self._fold(flat[: whole * size].reshape(whole, size, -1)))
        if len(flat) > whole * size:
            self._carry = flat[whole * size :].copy()
        return np.concatenate(outputs) if outputs else flat[:0]

    def _fold(self, blocks: np.ndarray) -> np.ndarray:
        sums = self._overlap_add(blocks)
        done = len(blocks) * self._span
        start = max(0, -self._first)
        complete = self._normalised(sums[:done], start)
        self._pending = sums[done:].copy()
        self._first += done
        return complete

    def _overlap_add(self, blocks: np.ndarray) -> np.ndarray:
        """Add what (K, span M, width) ``blocks`` contribute to the pending output rows."""
        span, reach = self._span, 2 * HALF_TAPS
        sums = np.zeros((len(blocks) * span + reach, blocks.shape[2]))
        sums[:reach] = self._pending
        for k, block in enumerate(blocks):
            sums[k * span : (k + 1) * span + reach] += self._operator @ block
        return sums

    def _block_operator(self) -> np.ndarray:
        """(span + 24, span M) taps with which the rows of one product enter the output rows."""
        outputs = np.arange(self._span + 2 * HALF_TAPS)[:, None] - HALF_TAPS
        taps = np.arange(self._span * self.factor) - outputs * self.factor
        taps += HALF_TAPS * self.factor
        inside = (taps >= 0) & (taps < self._taps.size)
        return np.where(inside, self._taps[np.clip(taps, 0, self._taps.size - 1)], 0.0)

    def _normalised(self, sums: np.ndarray, start: int) -> np.ndarray:
        """Divide the pending output rows from ``start`` on by the sum of the taps they used."""
        sums = sums[start:]
        centre = (self._first + start + np.arange(len(sums))) * self.factor
        half = HALF_TAPS * self.factor
        low = np.clip(half - centre, 0, self._taps.size)
        high = np.clip(self._rows - centre + half, 0, self._taps.size)
        return sums / (self._tap_sums[high] - self._tap_sums[low])[:, None]


def _shaped(flat: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return flat.reshape(len(flat), *shape)
