# SPDX-License-Identifier: Apache-2.0
"""
A Butterworth low-pass filter that runs forward and backward over a stretch, block by block.

The state of the forward run carries over from block to block exactly.  The backward run of a block
starts a halo later, where the wrong initial state has died out to rounding; so the blocks give
what one run over the whole stretch gives.  Both ends of the stretch are continued by their odd
extension, as `scipy.signal.sosfiltfilt` does.

A second derivative at 5 kHz multiplies rounding errors by 1e8.  So the steps between neighbours
are filtered beside the rows: derivatives are found from them, which are small.  And the filter is
a sum of one-pole filters, whose rounding errors a low cut-off frequency does not magnify, as it
does those of second-order sections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
import math

import numpy as np
import scipy.linalg

MARGIN = 2
"""Steps that are known beyond the first and the last filtered row, for central differences."""

_PAD_PERIODS = 2.0  # of the cut-off frequency: what is continued beyond an end
_FORGOTTEN = 37.0  # natural logarithm of what a wrong initial state has to lose: 1e16
_BLOCK = 32  # rows that a product of matrices filters at once


@dataclass(frozen=True)
class Butterworth:
    """
    A Butterworth low-pass filter ``y[t] = gain u[t] + Re sum_k residues[k] s[k, t - 1]``.

    The states of its poles are ``s[k, t] = poles[k] s[k, t - 1] + u[t]``.

    Attributes
    ----------
    poles, residues:
        (k,) complex: one pole of each pair, with twice its residue, and a real one.
    gain:
        Of a row in its own output.
    pad:
        Rows by which a stretch is continued at each end.
    halo:
        Rows after which a wrong initial state is forgotten.

    """

    poles: np.ndarray
    residues: np.ndarray
    gain: float
    pad: int
    halo: int

    @classmethod
    @lru_cache(maxsize=64)  # many short recordings have one filter
    def design(cls, cutoff: float, order: int, rate: float) -> Butterworth:
        """Design the filter whose passes of an order have -3 dB at a cut-off frequency [Hz]."""
        # poles of the analog filter on the left half of a circle; bilinear transform
        circle = np.exp(0.5j * np.pi * (1.0 + (2.0 * np.arange(order) + 1.0) / order))
        radius = math.tan(math.pi * cutoff / rate)
        below = 1.0 - radius * circle
        others = circle[:, None] - circle + np.eye(order)
        residues = 2.0 * radius / (below**2 * others.prod(axis=1))
        poles = (1.0 + radius * circle) / below
        gain = float((radius / below).prod().real)
        pairs, real = slice(0, order // 2), slice(order // 2, (order + 1) // 2)
        poles = np.concatenate((poles[pairs], poles[real].real))
        residues = np.concatenate((2.0 * residues[pairs], residues[real].real))
        for array in (poles, residues):
            array.setflags(write=False)
        pad = max(MARGIN, math.ceil(_PAD_PERIODS * rate / cutoff))
        slowest = -math.log(max(*np.abs(poles), np.finfo(float).tiny))
        halo = math.ceil(_FORGOTTEN / slowest)
        return cls(poles, residues, gain, pad, halo)

    @property
    def shortest(self) -> int:
        """Smallest number of rows that can be filtered."""
        return self.pad + 1

    def steady(self, row: np.ndarray) -> np.ndarray:
        """Return the state (k, c) after a row (c,) that was there for ever."""
        return np.asarray(row / (1.0 - self.poles)[:, None])

    def run(self, rows: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Filter along the rows (m, c) once; return the last state, too."""
        whole = len(rows) - len(rows) % _BLOCK
        outputs = np.empty_like(rows)
        for part, size in ((slice(0, whole), _BLOCK), (slice(whole, None), len(rows) - whole)):
            if size and len(rows[part]):
                blocks = rows[part].reshape(-1, size, rows.shape[1])
                filtered, state = self._blocks(blocks, state)
                outputs[part] = filtered.reshape(-1, rows.shape[1])
        return outputs, state

    def _blocks(self, blocks: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Filter consecutive blocks (b, size, c)."""
        size = blocks.shape[1]
        powers = self.poles[:, None] ** np.arange(size + 1)
        added = powers[:, size - 1 :: -1] @ blocks
        states = np.empty_like(added)
        for before, end in zip(states, added, strict=True):
            before[:] = state
            state = powers[:, size:] * state + end
        response = np.append(self.gain, (self.residues @ powers[:, : size - 1]).real)
        inner = scipy.linalg.toeplitz(response, np.zeros(size))
        carried = (self.residues * powers[:, :size].T) @ states
        return inner @ blocks + carried.real, state

    def run_back(self, rows: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Filter from the last row to the first."""
        return self.run(rows[::-1], state)[0][::-1]

    def response(self, frequency: np.ndarray, rate: float) -> np.ndarray:
        """Return the complex amplitudes (f,) of one pass, for a sine of amplitude 1."""
        turn = np.exp(2j * np.pi / rate * np.asarray(frequency))[:, None]
        terms = self.residues / (turn - self.poles)
        terms += self.residues.conj() / (turn - self.poles.conj())
        return np.asarray(self.gain + 0.5 * terms.sum(axis=1))


def smooth(
    blocks: Iterator[np.ndarray], n_smoothed: int, design: Butterworth
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """
    Filter the first columns of a stretch and keep the others in step.

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
    ``(m, n_smoothed)`` filtered rows, their steps ``(m + 2 MARGIN - 1, n_smoothed)`` from `MARGIN`
    rows before to `MARGIN` rows behind, and ``(m, n_columns - n_smoothed)`` rows of the other
    columns.  Nothing where the stretch is shorter than ``design.shortest``.

    """
    others: list[np.ndarray] = []

    def first_columns() -> Iterator[np.ndarray]:
        for block in blocks:
            others.append(block[:, n_smoothed:])
            yield block[:, :n_smoothed]

    filtered = np.empty((0, 2 * n_smoothed))
    for part in _forward_backward(first_columns(), design):
        filtered = np.concatenate((filtered, part))
        n_rows = len(filtered) - 2 * MARGIN
        if n_rows > 0:
            rows = np.concatenate(others)
            inner, steps = filtered[MARGIN:-MARGIN, :n_smoothed], filtered[1:, n_smoothed:]
            yield inner, steps, rows[:n_rows]
            filtered, others[:] = filtered[n_rows:], [rows[n_rows:]]


def _forward_backward(blocks: Iterator[np.ndarray], design: Butterworth) -> Iterator[np.ndarray]:
    """
    Filter rows and steps, in parts.

    Yields (m, 2 n) rows and the steps to them side by side, in all from `MARGIN` rows before the
    first row of the stretch to `MARGIN` behind the last.
    """
    pad, halo = design.pad, design.halo
    head = joined(blocks, design.shortest)
    if len(head) < design.shortest:
        return
    # filtering what remains of the first row keeps a large constant part out of the rounding
    offset = np.append(head[0], np.zeros_like(head[0]))
    n = len(head[0])
    rows = head - head[0]
    extended = np.concatenate((-rows[pad:0:-1], rows))

    def with_steps(rows: np.ndarray, before: np.ndarray) -> np.ndarray:
        return np.hstack([rows, np.diff(rows, axis=0, prepend=before[None])])

    def resting(row: np.ndarray) -> np.ndarray:
        """Return the state after the rows of this one for ever, and no steps."""
        return design.steady(np.append(row[:n], np.zeros(n)))

    passed, state = design.run(with_steps(extended, extended[0]), resting(extended[0]))
    skip = pad - MARGIN
    tail = rows[-pad - 1 :]
    pending, n_pending = [passed], len(passed)
    for block in blocks:
        if len(block) == 0:
            continue
        rows = block - offset[:n]
        passed, state = design.run(with_steps(rows, tail[-1]), state)
        tail = np.concatenate((tail, rows[-pad - 1 :]))[-pad - 1 :]
        pending.append(passed)
        n_pending += len(passed)
        if n_pending >= 5 * halo + skip:
            buffer = np.concatenate(pending)
            yield design.run_back(buffer, resting(buffer[-1]))[skip:-halo] + offset
            pending, n_pending, skip = [buffer[-halo:]], halo, 0
    beyond = 2.0 * tail[-1] - tail[-2::-1]
    pending.append(design.run(with_steps(beyond, tail[-1]), state)[0])
    buffer = np.concatenate(pending)
    filtered = design.run_back(buffer, resting(buffer[-1]))
    yield filtered[skip : len(filtered) - pad + MARGIN] + offset


def joined(blocks: Iterator[np.ndarray], n_rows: int) -> np.ndarray:
    """Join the first blocks until there are ``n_rows`` rows, or all."""
    parts, count = [], 0
    for block in blocks:
        parts.append(block)
        count += len(block)
        if count >= n_rows:
            break
    return np.concatenate(parts) if parts else np.empty((0, 0))
