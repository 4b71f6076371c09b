# SPDX-License-Identifier: Apache-2.0
"""
Zero-phase smoothing of a stretch of samples and its derivatives, block by block.

A Butterworth filter runs forward and backward over the stretch, whose ends are continued by their
odd extension, as `scipy.signal.sosfiltfilt` does.  Each pass multiplies the spectrum of a block
with the filter's response, in closed form, and of its result leaves out a halo, where the block's
other end has come round; so the blocks give what one run over the whole stretch gives.

The second pass multiplies with the response of central differences, too.  Differences of smoothed
samples would amplify their rounding errors, at 5 kHz by 1e8; so a rounding error passes the filter
as every other one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
import math

import numpy as np
import scipy

MARGIN = 2
"""Rows on both sides that central differences take."""

_PAD_PERIODS = 2.0  # of the cut-off frequency: what is continued beyond an end
_ROUNDING = 1e-14  # of a sample, times the cut-off frequency: that of a derivative
_FORGOTTEN = 37.0  # natural logarithm of what the other end of a block has to lose: 1e16


@dataclass(frozen=True)
class Butterworth:
    """
    A Butterworth low-pass filter that is run forward and backward, by the bilinear transform.

    Attributes
    ----------
    cutoff:
        Where each pass has -3 dB [Hz].
    order:
        Order of each pass.
    rate:
        Sampling rate [Hz].

    """

    cutoff: float
    order: int
    rate: float

    @property
    def pad(self) -> int:
        """Rows by which a stretch is continued at each end."""
        return max(MARGIN, math.ceil(_PAD_PERIODS * self.rate / self.cutoff))

    @property
    def shortest(self) -> int:
        """Smallest number of rows that can be filtered."""
        return self.pad + 1

    @cached_property
    def _poles(self) -> np.ndarray:
        """(order,) poles of the analogue filter with cut-off frequency 1 rad/s."""
        turns = (2.0 * np.arange(self.order) + self.order + 1.0) / (4.0 * self.order)
        return np.asarray(np.exp(2j * np.pi * turns))

    @cached_property
    def halo(self) -> int:
        """Rows after which an impulse is forgotten."""
        poles = self._poles * math.tan(math.pi * self.cutoff / self.rate)
        slowest = np.abs((1.0 + poles) / (1.0 - poles)).max()
        return math.ceil(_FORGOTTEN / -math.log(slowest))

    def response(self, frequency: np.ndarray) -> np.ndarray:
        """Return the complex response of one pass at (f,) frequencies [Hz]."""
        warped = np.tan(np.pi * frequency / self.rate) / np.tan(np.pi * self.cutoff / self.rate)
        return np.asarray(1.0 / np.prod(1j * warped[:, None] - self._poles, axis=1))

    def responses(self, frequency: np.ndarray) -> np.ndarray:
        """Return those of the backward pass with derivatives 0 to 2, (3, f) [1, 1/s, 1/s^2]."""
        angle = 2.0 * np.pi * frequency / self.rate
        square = np.sin(0.5 * angle) ** 2
        # differences of five samples, in forms that lose no digits at low frequencies
        first = 1j * np.sin(angle) * (1.0 + 2.0 / 3.0 * square)
        second = -4.0 * square * (1.0 + square / 3.0)
        steps = np.array([np.ones_like(first), self.rate * first, self.rate**2 * second])
        return np.asarray(self.response(frequency).conj() * steps)


def smooth(
    blocks: Iterator[np.ndarray], n_smoothed: int, design: Butterworth
) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """
    Filter the first columns of a stretch, differentiate them, and keep the others in step.

    Parameters
    ----------
    blocks:
        (n_rows, n_columns) consecutive rows of the stretch, on a uniform grid.
    n_smoothed:
        Number of leading columns that are filtered.
    design:
        The filter.

    Yields
    ------
    Pairs of three arrays ``(m, n_smoothed)``, filtered rows and their first and second
    derivatives, and the ``(m, n_columns - n_smoothed)`` rows of the other columns.  Nothing where
    the stretch is shorter than ``design.shortest``.

    """
    others: list[np.ndarray] = []
    for parts in _forward_backward(_without_others(blocks, n_smoothed, others), design):
        yield parts, _take(others, len(parts[0]))


def window_products(
    blocks: Iterator[np.ndarray], n_smoothed: int, kernels: np.ndarray
) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """
    Weight a sliding window around each row, and keep the other columns in step.

    Parameters
    ----------
    blocks:
        (n_rows, n_columns) consecutive rows of the stretch, on a uniform grid.
    n_smoothed:
        Number of leading columns that are weighted.
    kernels:
        (k, 2 h + 1) weights of the rows from h before to h behind; those of the first kernel sum
        to 1, those of the others to 0.

    Yields
    ------
    Pairs of k arrays ``(m, n_smoothed)`` and the ``(m, n_columns - n_smoothed)`` rows of the other
    columns.  Nothing where the stretch has not more than h rows.

    """
    half = kernels.shape[1] // 2
    others: list[np.ndarray] = []
    blocks = _without_others(blocks, n_smoothed, others)
    head = _at_least(blocks, half + 1)
    if len(head) <= half:
        return
    offset = head[0].copy()
    rows = head - offset
    rows = np.concatenate((-rows[half:0:-1], rows))
    for block in chain(blocks, (None,)):
        if block is None:
            beyond = 2.0 * rows[-1] - rows[-2 : -half - 2 : -1]
            rows = np.concatenate((rows, beyond))
        else:
            rows = np.concatenate((rows, block - offset))
        n_rows = len(rows) - 2 * half
        if n_rows > 0:
            parts = [
                scipy.ndimage.correlate1d(rows, kernel, axis=0, mode='nearest')[
                    half : half + n_rows
                ]
                for kernel in kernels
            ]
            yield [parts[0] + offset, *parts[1:]], _take(others, n_rows)
            rows = rows[n_rows:]


def _without_others(
    blocks: Iterator[np.ndarray], n_smoothed: int, others: list[np.ndarray]
) -> Iterator[np.ndarray]:
    for block in blocks:
        others.append(block[:, n_smoothed:])
        yield block[:, :n_smoothed]


def _take(queue: list[np.ndarray], n_rows: int) -> np.ndarray:
    """Take the first rows out of a queue of blocks."""
    taken = []
    while n_rows > 0:
        head = queue.pop(0)
        taken.append(head[:n_rows])
        if len(head) > n_rows:
            queue.insert(0, head[n_rows:])
        n_rows -= len(taken[-1])
    return np.concatenate(taken)


def _forward_backward(
    blocks: Iterator[np.ndarray], design: Butterworth
) -> Iterator[list[np.ndarray]]:
    """Filter and differentiate; yields consecutive rows of the stretch."""
    pad, halo = design.pad, design.halo
    head = _at_least(blocks, design.shortest)
    if len(head) < design.shortest:
        return
    # filtering what remains of the first row keeps a large constant part out of the rounding
    offset = head[0].copy()
    tail = head - offset
    waiting = [-tail[pad:0:-1], tail]
    count = len(tail) + pad
    # before its first row and behind its last one, a pass sees constants
    before = np.repeat(waiting[0][:1], halo, axis=0)
    passed, skip = before[:0], pad
    for block in chain(blocks, (None,)):
        # the odd extension of the end
        rows = 2.0 * tail[-1] - tail[-2 : -pad - 2 : -1] if block is None else block - offset
        waiting.append(rows)
        tail = np.concatenate((tail, rows))[-pad - 1 :]
        count += len(rows)
        if block is not None and count < 5 * halo + skip:
            continue
        data = np.concatenate((before, *waiting))
        (forward,) = _filtered(data, lambda f: design.response(f)[None], design.rate)
        before, waiting, count = data[-halo:], [], 0
        ending = [forward[-1:].repeat(halo, axis=0)] if block is None else []
        passed = np.concatenate((passed, forward[halo:], *ending))
        stop = len(passed) - halo - (pad if block is None else 0)
        parts = [part[skip:stop] for part in _filtered(passed, design.responses, design.rate)]
        # rounding errors of a joint at rest have no direction
        parts[1][np.abs(parts[1]) < _ROUNDING * design.cutoff * np.abs(passed).max()] = 0.0
        yield [parts[0] + offset, *parts[1:]]
        passed, skip = passed[-halo - MARGIN :], MARGIN


def _filtered(
    rows: np.ndarray, responses: Callable[[np.ndarray], np.ndarray], rate: float
) -> np.ndarray:
    """Multiply the spectrum of (m, k) rows with (r, f) responses, (r, m, k); the ends meet."""
    size = 1 << (len(rows) - 1).bit_length()
    spectrum = np.fft.rfft(rows, size, axis=0)
    factors = responses(np.fft.rfftfreq(size, 1.0 / rate))
    return np.fft.irfft(factors[:, :, None] * spectrum, size, axis=1)[:, : len(rows)]


def _at_least(blocks: Iterator[np.ndarray], n_rows: int) -> np.ndarray:
    """Join the first blocks until there are ``n_rows`` rows, or all."""
    parts, count = [], 0
    for block in blocks:
        parts.append(block)
        count += len(block)
        if count >= n_rows:
            break
    return np.concatenate(parts)
