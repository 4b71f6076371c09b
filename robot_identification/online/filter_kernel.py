# SPDX-License-Identifier: Apache-2.0
"""Machine code of the online filters: loops over one row of the stream."""

from __future__ import annotations

from numba import float64, int64
import numpy as np

from ..compiled import compiled, constant


@compiled(
    constant(float64, 2),
    constant(float64, 1),
    constant(float64, 2),
    constant(float64, 2),
    float64[:, :, ::1],
    float64[::1],
)
def window_products(
    held: np.ndarray,
    offset: np.ndarray,
    kernels: np.ndarray,
    smooth: np.ndarray,
    states: np.ndarray,
    effort: np.ndarray,
) -> None:
    """
    Apply the kernels of a window.

    Parameters
    ----------
    held:
        (2 margin + taps, 2 n) positions, less an offset, and efforts.
    offset:
        (n,) of the positions.
    kernels, smooth:
        (4, taps) of P for position, velocity, acceleration and effort, and (2, 2 margin + 1) of
        velocity and acceleration without phase shift.
    states, effort:
        (3, 2, n) position, velocity and acceleration of both motions, and (n,): results.

    """
    n, taps, width = offset.size, kernels.shape[1], smooth.shape[1]
    margin = (width - 1) // 2
    states[:] = 0.0
    effort[:] = 0.0
    for i in range(taps):
        for j in range(n):
            position = held[margin + i, j]
            for k in range(3):
                states[k, 0, j] += kernels[k, i] * position
            effort[j] += kernels[3, i] * held[margin + i, n + j]
    for i in range(width):
        for j in range(n):
            position = held[taps - 1 + i, j]
            states[1, 1, j] += smooth[0, i] * position
            states[2, 1, j] += smooth[1, i] * position
    for j in range(n):
        states[0, 0, j] += offset[j]
        states[0, 1, j] = held[margin + taps - 1, j] + offset[j]


@compiled(
    constant(float64, 2),
    constant(int64, 1),
    int64,
    constant(float64, 1),
    float64[:, ::1],
    float64[::1],
)
def filtered_entries(
    entries: np.ndarray,
    which: np.ndarray,
    place: int,
    kernel: np.ndarray,
    ring: np.ndarray,
    now: np.ndarray,
) -> None:
    """
    Put entries into the ring and replace them by what P makes of it.

    Parameters
    ----------
    entries:
        (K, 2).
    which:
        (m,) places of those that are filtered.
    place:
        Where in the ring they go.
    kernel:
        (taps,) of P.
    ring:
        (2 taps, m) everything twice.
    now:
        (K,) result.

    """
    taps = kernel.size
    for k in range(now.size):
        now[k] = entries[k, 0]
    for i in range(which.size):
        value = entries[which[i], 1]
        ring[place, i] = value
        ring[place + taps, i] = value
        now[which[i]] = 0.0
    for t in range(taps):
        for i in range(which.size):
            now[which[i]] += kernel[t] * ring[place + 1 + t, i]


@compiled(
    int64,
    constant(float64, 1),
    int64,
    constant(float64, 1),
    float64[:, ::1],
    float64[::1],
)
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
