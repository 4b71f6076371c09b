# SPDX-License-Identifier: Apache-2.0
"""
Channel of recorded efforts: delay and low-pass filter of each joint.

Drives report currents and torques late and smoothed.  What the effort has been through, the
columns of its joint go through here, so that both sides of ``tau = W X`` are alike again.  With
the delay d and the cut-off frequency fc, the response is

    H(f) = exp(-2 pi i f d) / (1 + (f / fc)^2),

a low-pass filter of order 2 without phase.  It is a finite kernel at the rate of the rows, which
come from the parallel decimation and have no signal near their Nyquist frequency.  Where the
kernel reaches beyond the ends of a stretch, the first or last row stands for those that are
missing.  A kernel that is cut and scaled would not do: of a delayed one nothing may be left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

_REACH = 14  # rows that a delay's kernel, a windowed sinc, reaches to both sides
_SHAPE = 6.0  # of its window (Kaiser): errors of 1e-3 up to 0.8 of the Nyquist frequency
_DECAY = 7.0  # time constants of the low-pass filter that are kept: 1e-3 of its peak


def channel_kernel(delay: float, low_pass: float, rate: float) -> np.ndarray:
    """
    Taps of a channel.

    Parameters
    ----------
    delay:
        d [s].
    low_pass:
        fc [Hz]; 0 for none.
    rate:
        Of the rows [Hz].

    Returns
    -------
    (2 h + 1,) taps with sum 1; tap h belongs to the row itself, tap h + k to the row k before it.

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
    Passes the columns of each joint's row through the joint's channel, block by block.

    Signals come as rows of an array, samples last.  What is not passed through a channel is held
    back until the columns of the same moment are known.

    Parameters
    ----------
    kernels:
        Taps of each group of signals, see `channel_kernel`.
    groups:
        (w,) the group of each of w signals, -1 for none.

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
