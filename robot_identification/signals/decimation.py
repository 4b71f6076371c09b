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

_SAMPLES = 256  # of one matrix product at least, so that small factors are efficient too


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
    Low-pass filter and keep every M-th sample, block by block.

    Samples come last, as regressors give their entries.  Output m stands at input ``m M`` of the
    stretch: it is the mean of the samples around, weighted with `kernel`.  ``ceil(N / M)`` outputs
    come of N inputs, whatever the blocks; so the time of output m is ``time[0] + m M / rate``.  A
    stretch after a gap takes a new decimator.  The factor 1 passes the samples as they are.

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
        self._span = max(1, math.ceil(_SAMPLES / factor))
        self._operator = self._block_operator()
        self._width: int | None = None
        self._carry: np.ndarray = np.empty((0, 0))
        self._pending: np.ndarray = np.empty((0, 0))
        self._first = -HALF_TAPS  # output that the first pending one is
        self._samples = 0

    @property
    def block(self) -> int:
        """Number of samples that is quickest to push: a multiple of it leaves none over."""
        return self._span * self.factor

    def push(self, samples: np.ndarray) -> np.ndarray:
        """
        Take the next samples and return the outputs that they complete.

        Parameters
        ----------
        samples:
            (w, N) consecutive samples of w signals, the same ones in every call.

        Returns
        -------
        (w, m) outputs, where m may be 0.

        """
        samples = np.asarray(samples, dtype=float)
        if self._width is None:
            self._width = len(samples)
            self._carry = np.empty((self._width, 0))
            self._pending = np.zeros((self._width, 2 * HALF_TAPS))
        if samples.ndim != 2 or len(samples) != self._width:
            raise ValueError(
                f'samples have shape {samples.shape}, the first ones {self._width} rows'
            )
        if self.factor == 1:
            return samples
        self._samples += samples.shape[1]
        size, held = self.block, self._carry.shape[1]
        outputs = []
        if held:
            missing = size - held
            self._carry = np.concatenate((self._carry, samples[:, :missing]), axis=1)
            samples = samples[:, missing:]
            if self._carry.shape[1] == size:
                outputs.append(self._fold(self._carry))
                self._carry = self._carry[:, :0]
        whole = samples.shape[1] // size * size
        if whole:
            outputs.append(self._fold(samples[:, :whole]))
        if samples.shape[1] > whole:
            self._carry = samples[:, whole:].copy()
        if len(outputs) == 1:
            return outputs[0]
        return np.concatenate((np.empty((self._width, 0)), *outputs), axis=1)

    def finish(self) -> np.ndarray:
        """
        Return the outputs whose window reaches beyond the last sample.

        Returns
        -------
        (w, m) outputs.

        """
        if self._width is None or self.factor == 1:
            return np.empty((self._width or 0, 0))
        total = -(-self._samples // self.factor)
        held = self._carry.shape[1]
        if held:
            padded = np.zeros((self._width, self.block))
            padded[:, :held] = self._carry
            self._pending = self._overlap_add(padded)
            self._carry = self._carry[:, :0]
        start, stop = max(0, -self._first), total - self._first
        outputs = self._normalised(self._pending[:, :stop], start)
        self._first = total
        return outputs

    def _fold(self, samples: np.ndarray) -> np.ndarray:
        """Take whole products' worth of samples."""
        sums = self._overlap_add(samples)
        done = samples.shape[1] // self.factor
        start = max(0, -self._first)
        complete = self._normalised(sums[:, :done], start)
        self._pending = sums[:, done:].copy()
        self._first += done
        return complete

    def _overlap_add(self, samples: np.ndarray) -> np.ndarray:
        """Add what (w, K span M) samples contribute to the pending outputs."""
        span, reach, size = self._span, 2 * HALF_TAPS, self.block
        count = samples.shape[1] // size
        sums = np.zeros((len(samples), count * span + reach))
        sums[:, :reach] = self._pending
        for k in range(count):
            part = samples[:, k * size : (k + 1) * size]
            sums[:, k * span : (k + 1) * span + reach] += part @ self._operator
        return sums

    def _block_operator(self) -> np.ndarray:
        """(span M, span + 24) taps with which the samples of one product enter the outputs."""
        outputs = np.arange(self._span + 2 * HALF_TAPS) - HALF_TAPS
        taps = np.arange(self.block)[:, None] - outputs * self.factor
        taps += HALF_TAPS * self.factor
        inside = (taps >= 0) & (taps < self._taps.size)
        return np.where(inside, self._taps[np.clip(taps, 0, self._taps.size - 1)], 0.0)

    def _normalised(self, sums: np.ndarray, start: int) -> np.ndarray:
        """Divide the pending outputs from ``start`` on by the sum of the taps they used."""
        sums = sums[:, start:]
        centre = (self._first + start + np.arange(sums.shape[1])) * self.factor
        half = HALF_TAPS * self.factor
        low = np.clip(half - centre, 0, self._taps.size)
        high = np.clip(self._samples - centre + half, 0, self._taps.size)
        return sums / (self._tap_sums[high] - self._tap_sums[low])
