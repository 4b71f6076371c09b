# SPDX-License-Identifier: Apache-2.0
"""
Filters alike for every regressor column and effort: parallel decimation, channel of the efforts.

Parallel decimation has one linear-phase low-pass filter.  The estimate does not suffer from a
filter that acts alike on both sides of ``tau = W X`` (Gautier and Poignet's parallel filter,
Gautier & Venture 2013, section III).  Here it is a symmetric FIR filter of ``24 M + 1`` taps, of
which only every M-th output is computed: no phase to undo, finite
memory, so it streams exactly.  Where the window reaches beyond the ends of a stretch it is cut and
scaled to sum 1 again; a cut window is no longer symmetric, but still the same for every column.

The channel of recorded efforts has a delay and a low-pass filter for each joint, because drives
report currents and torques late and smoothed.  What the effort has been through, the columns of
its joint go through here, so that both sides of ``tau = W X`` are alike again.  With
the delay d and the cut-off frequency fc, the response is

    H(f) = exp(-2 pi i f d) / (1 + (f / fc)^2),

a low-pass filter of order 2 without phase.  It is a finite kernel at the rate of the rows, which
come from the parallel decimation and have no signal near their Nyquist frequency.  Where the
kernel reaches beyond the ends of a stretch, the first or last row stands for those that are
missing.  A kernel that is cut and scaled would not do: of a delayed one nothing may be left.

For whoever reads the beginning of recordings again and again it is kept in memory, thinned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from ..data.parts import read_parts
from ..data.recording import Recording, RecordingSource, SIGNALS
from ..data.sampling import GAP, on_grid, sample_rate
from ..errors import RecordingError

HALF_TAPS = 12
"""Half the length of the kernel, in output periods."""

_PART = 1024  # samples that are worked on at once, in a core's cache


@lru_cache(maxsize=16)
def kernel(factor: int) -> np.ndarray:
    """
    Return the (24 M + 1,) symmetric taps, with sum 1, that go with a decimation by a factor M.

    The pass band ends at 0.8 of the new Nyquist frequency.
    """
    half = HALF_TAPS * factor
    taps = np.sinc(0.8 / factor * np.arange(-half, half + 1)) * np.kaiser(2 * half + 1, 6.0)
    taps /= taps.sum()
    taps.setflags(write=False)
    return taps


def independence(factor: int, before: np.ndarray | None = None, stride: int = 1) -> float:
    """
    Return the number of independent rows per decimated row, for white noise at the input.

    Between the end of the pass band and the new Nyquist frequency decimated rows have no noise,
    and no signal either.  So their residual is smaller than the noise at the frequencies of the
    signal, by the kernel's noise bandwidth as a share of the new Nyquist frequency: about 0.76,
    but 1 for the factor 1.  It is less if a kernel ``before`` (taps,), long beside the samples'
    distance, has made the input of white noise; ``stride`` is from one of its windows to the next.
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
    Low-pass filter that keeps every M-th sample, block by block.

    Samples come last, as regressors give their entries.  Output m stands at input ``m M`` of the
    stretch: it is the mean of the samples around, weighted with `kernel`.  ``ceil(N / M)`` outputs
    come of N inputs, whatever the blocks; so the time of output m is ``time[0] + m M / rate``.  A
    stretch after a gap takes a new decimator.  ``factor`` is M; 1 passes the samples as they are.
    """

    def __init__(self, factor: int) -> None:
        if factor < 1:
            raise ValueError(f'factor is {factor}, expected 1 or more')
        self.factor = factor
        taps = kernel(factor) if factor > 1 else np.ones(1)
        self._tap_sums = np.concatenate(([0.0], np.cumsum(taps)))
        # samples come in periods of M, the last of which is a multiple of M: there windows end
        self._taps = np.concatenate((np.zeros(factor - 1), taps)).reshape(-1, factor)
        self._rest = self._pending = np.empty((0, 0))
        self._first = -HALF_TAPS  # output that the first pending one is
        self._samples = 0

    def push(self, samples: np.ndarray) -> np.ndarray:
        """Take (w, N) samples, of the same signals each time; return complete outputs (w, m)."""
        samples = np.asarray(samples, dtype=float)
        if not self._pending.size:
            self._rest = np.zeros((len(samples), self.factor - 1))
            self._pending = np.zeros((len(samples), 2 * HALF_TAPS))
        if samples.ndim != 2 or len(samples) != len(self._pending):
            raise ValueError(f'samples have shape {samples.shape}, not {len(self._pending)} rows')
        if self.factor == 1:
            return samples
        first = self._first
        self._samples += samples.shape[1]
        if self._rest.shape[1] + samples.shape[1] < self.factor:
            # online, most samples complete no period
            self._rest = np.concatenate((self._rest, samples), axis=1)
            return self._rest[:, :0]
        starts = range(0, max(1, samples.shape[1]), _PART)
        sums = [self._added(samples[:, start : start + _PART]) for start in starts]
        return self._normalised(first, np.concatenate(sums, axis=1))

    def finish(self) -> np.ndarray:
        """Return the outputs (w, m) whose window reaches beyond the last sample."""
        signals = len(self._pending)
        if self.factor == 1:
            return np.empty((signals, 0))
        first, total = self._first, -(-self._samples // self.factor)
        last = self._added(np.zeros((signals, self.factor - 1)))
        sums = np.concatenate((last, self._pending), axis=1)
        return self._normalised(first, sums[:, : total - first])

    def _added(self, samples: np.ndarray) -> np.ndarray:
        """Add what samples contribute to the pending outputs; return those that are complete."""
        held = np.concatenate((self._rest, samples), axis=1)
        signals, periods = len(held), held.shape[1] // self.factor
        whole = periods * self.factor
        self._rest = held[:, whole:]
        # each period is part of 25 outputs
        parts = self._taps @ held[:, :whole].reshape(signals * periods, self.factor).T
        sums = np.concatenate((self._pending, np.zeros((signals, periods))), axis=1)
        for age, part in enumerate(parts.reshape(len(parts), signals, periods)):
            place = 2 * HALF_TAPS - age
            sums[:, place : place + periods] += part
        self._pending = sums[:, periods:]
        self._first += periods
        return sums[:, :periods]

    def _normalised(self, first: int, sums: np.ndarray) -> np.ndarray:
        """Divide the outputs from ``first``, those from 0 on, by the sum of the taps they used."""
        start = max(0, -first)
        sums = sums[:, start:]
        centre = (first + start + np.arange(sums.shape[1])) * self.factor
        half, most = HALF_TAPS * self.factor, len(self._tap_sums) - 1
        low = np.clip(half - centre, 0, most)
        high = np.clip(self._samples - centre + half, 0, most)
        return sums / (self._tap_sums[high] - self._tap_sums[low])


_REACH = 14  # rows that a delay's kernel, a windowed sinc, reaches to both sides
_SHAPE = 6.0  # of its window (Kaiser): errors of 1e-3 up to 0.8 of the Nyquist frequency
_DECAY = 7.0  # time constants of the low-pass filter that are kept: 1e-3 of its peak


def channel_kernel(delay: float, low_pass: float, rate: float) -> np.ndarray:
    """
    Return the (2 h + 1,) taps, with sum 1, of a channel for rows of a rate [Hz].

    ``delay`` is d [s] and ``low_pass`` fc [Hz], 0 for none.  Tap h belongs to the row itself, tap
    h + k to the row k before it.
    """
    taps = np.ones(1)
    if delay != 0.0:
        half = _REACH + int(np.ceil(delay * rate))
        place = np.arange(-half, half + 1) - delay * rate
        near = np.sqrt(np.clip(1.0 - (place / (_REACH + 1)) ** 2, 0.0, None))
        taps = np.sinc(place) * np.i0(_SHAPE * near) * (near > 0.0)
        taps /= taps.sum()
    if low_pass > 0.0:
        half = max(_REACH, int(np.ceil(_DECAY / (2.0 * np.pi * low_pass) * rate)))
        size = scipy.fft.next_fast_len(16 * half, real=True)
        response = 1.0 / (1.0 + (np.fft.rfftfreq(size, 1.0 / rate) / low_pass) ** 2)
        smooth = np.roll(np.fft.irfft(response, size), half)[: 2 * half + 1]
        taps = np.convolve(taps, smooth / smooth.sum())
    return taps


class EffortChannel:
    """
    Delay and filter of the columns of each joint's row, block by block.

    Signals come as rows of an array, samples last.  ``groups`` (w,) has the place in ``kernels``
    (see `channel_kernel`) of each of w signals, -1 for none.  What is not passed through a channel
    is held back until the columns of the same moment are known.
    """

    def __init__(self, kernels: Sequence[np.ndarray], groups: np.ndarray) -> None:
        self.half = max(kernel.size // 2 for kernel in kernels)
        self._groups = [
            (np.flatnonzero(groups == i), np.pad(kernel, self.half - kernel.size // 2))
            for i, kernel in enumerate(kernels)
            if kernel.size > 1
        ]
        self._signals = groups.size
        self._held: np.ndarray | None = None
        self._first = 0  # sample that the next output is
        self._start = 0  # sample that the first one held is

    def push(self, samples: np.ndarray) -> np.ndarray:
        """Take (w, m) samples and return the outputs that they complete, (w, k)."""
        if self.half == 0:
            return samples
        held = samples if self._held is None else np.hstack([self._held, samples])
        stop = max(self._first, self._start + held.shape[1] - self.half)
        done = self._outputs(held, stop)
        keep = max(0, self._first - self.half - self._start)
        self._held, self._start = held[:, keep:].copy(), self._start + keep
        return done

    def finish(self) -> np.ndarray:
        """Return the outputs whose kernel reaches beyond the last sample."""
        if self._held is None:
            return np.empty((self._signals, 0))
        return self._outputs(self._held, self._start + self._held.shape[1])

    def _outputs(self, held: np.ndarray, stop: int) -> np.ndarray:
        """Return the outputs from the next one to the one before ``stop``."""
        first, self._first = self._first, stop
        outputs = held[:, first - self._start : stop - self._start].copy()
        if not outputs.size:
            return outputs
        before = self.half - (first - self._start)
        after = stop - self._start + self.half - held.shape[1]
        low, high = max(0, -before), held.shape[1] - max(0, -after)
        beside = (max(0, before), max(0, after))
        for rows, kernel in self._groups:
            signals = np.pad(held[rows, low:high], ((0, 0), beside), mode='edge')
            outputs[rows] = scipy.signal.oaconvolve(signals, kernel[None], mode='valid', axes=1)
        return outputs


def thinned(source: RecordingSource, rate: float, longest: float) -> RecordingSource:
    """
    Return the first ``longest`` seconds of a recording, in memory and at a lower rate.

    They are behind one low-pass filter for all signals, which passes 0.4 of the new rate;
    stretches between gaps lose the filter's half length at both ends.  ``rate`` is the lowest that
    it may have [Hz]: samples at less than twice that stay as they are.  A recording that cannot be
    used is returned itself.
    """
    try:
        recorded = sample_rate(source)
        factor = int(recorded / rate)
        found: list[Recording] = []
        start: float | None = None
        for part in read_parts(source):
            start = float(part.time[0]) if start is None else start
            kept = part.rows(0, int(np.searchsorted(part.time, start + longest)))
            found += [kept] if factor < 2 else _decimated(kept, recorded, factor)
            if len(kept) < len(part):
                break
        return Recording.concatenate(found)
    except (RecordingError, ValueError):
        return source


def _decimated(part: Recording, rate: float, factor: int) -> Iterator[Recording]:
    """Iterate over the stretches, every ``factor``-th sample behind the filter."""
    for piece in part.split(GAP / rate):
        stretch = on_grid(piece, rate)
        signals = {name: x for name in SIGNALS if (x := getattr(stretch, name)) is not None}
        decimator = ParallelDecimator(factor)
        rows = decimator.push(np.hstack(list(signals.values())).T)
        columns = np.hstack([rows, decimator.finish()]).T
        # where the filter is cut, it is not symmetric
        inner = slice(HALF_TAPS, len(columns) - HALF_TAPS)
        thin: dict[str, Any] = dict(
            zip(signals, np.split(columns[inner], len(signals), axis=1), strict=True)
        )
        yield replace(stretch, time=stretch.time[::factor][inner], **thin)
