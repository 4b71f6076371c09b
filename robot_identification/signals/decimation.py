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

from functools import lru_cache
import math

import numpy as np
import scipy

HALF_TAPS = 12
"""Half the length of the kernel, in output periods."""

_SAMPLES = 256  # of one matrix product at least, so that small factors are efficient too


@lru_cache(maxsize=16)
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
    taps = scipy.signal.firwin(2 * HALF_TAPS * factor + 1, 0.8 / factor, window=('kaiser', 6.0))
    taps.setflags(write=False)
    return taps


def independence(factor: int, before: np.ndarray | None = None, stride: int = 1) -> float:
    """
    Return the number of independent rows per decimated row, for white noise at the input.

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
        self._operator = self._product_operator()
        self._pending: np.ndarray | None = None
        self._first = -HALF_TAPS  # output that the first pending one is
        self._samples = 0

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
        if self._pending is None:
            self._pending = np.zeros((len(samples), 2 * HALF_TAPS))
        if samples.ndim != 2 or len(samples) != len(self._pending):
            raise ValueError(f'samples have shape {samples.shape}, not {len(self._pending)} rows')
        if self.factor == 1:
            return samples
        sums = self._with(samples)
        done = max(0, (self._samples - 1) // self.factor - HALF_TAPS + 1 - self._first)
        complete = self._normalised(sums[:, :done])
        self._pending = sums[:, done:].copy()
        self._first += done
        return complete

    def finish(self) -> np.ndarray:
        """
        Return the outputs whose window reaches beyond the last sample.

        Returns
        -------
        (w, m) outputs.

        """
        if self._pending is None or self.factor == 1:
            return np.empty((0 if self._pending is None else len(self._pending), 0))
        total = -(-self._samples // self.factor)
        outputs = self._normalised(self._pending[:, : total - self._first])
        self._first = total
        return outputs

    def _with(self, samples: np.ndarray) -> np.ndarray:
        """Add what samples contribute to the pending outputs, and to those beyond."""
        assert self._pending is not None
        factor, count = self.factor, samples.shape[1]
        size = len(self._operator) - factor
        # the last sample enters the output at or before it, and as many as half the kernel behind
        last = (self._samples + count - 1) // factor + HALF_TAPS
        pending = self._pending.shape[1]
        sums = np.zeros((len(samples), max(pending, last + 1 - self._first)))
        sums[:, :pending] = self._pending
        for start in range(0, count, size):
            part = samples[:, start : start + size]
            output, phase = divmod(self._samples + start, factor)
            # the first output's window ends at its own sample, which may be over already
            skip, reach = min(phase, 1), (phase + part.shape[1] - 1) // factor + 1 + 2 * HALF_TAPS
            taps = self._operator[phase : phase + part.shape[1], skip:reach]
            place = output - HALF_TAPS - self._first
            sums[:, place + skip : place + reach] += part @ taps
        self._samples += count
        return sums

    def _product_operator(self) -> np.ndarray:
        """
        Taps with which the samples of one product enter the outputs.

        The product takes some output periods of samples, which may begin anywhere in the first of
        them, and touches the outputs of 24 more.
        """
        span = max(1, math.ceil(_SAMPLES / self.factor)) + 1
        outputs = np.arange(span + 2 * HALF_TAPS) - HALF_TAPS
        taps = np.arange(span * self.factor)[:, None] - outputs * self.factor
        taps += HALF_TAPS * self.factor
        inside = (taps >= 0) & (taps < self._taps.size)
        return np.where(inside, self._taps[np.clip(taps, 0, self._taps.size - 1)], 0.0)

    def _normalised(self, sums: np.ndarray) -> np.ndarray:
        """Divide the first pending outputs, from 0 on, by the sum of the taps they used."""
        start = max(0, -self._first)
        sums = sums[:, start:]
        centre = (self._first + start + np.arange(sums.shape[1])) * self.factor
        half = HALF_TAPS * self.factor
        low = np.clip(half - centre, 0, self._taps.size)
        high = np.clip(self._samples - centre + half, 0, self._taps.size)
        return sums / (self._tap_sums[high] - self._tap_sums[low])
