# SPDX-License-Identifier: Apache-2.0
"""
Arrays of the stretches of recordings in factor files, for the bootstrap and cross-validation.

Rows are stored as R of each stretch and joint in single precision: what is resampled need not be
more exact, and the estimate comes from the factor of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
import math
from typing import Any

import numpy as np

from ..estimation.time_blocks import JointRows, TimeBlocks

STORED_PARTS = 32
"""Stretches that a file has at most."""

_NAMES = ('part_columns', 'part_rows', 'parts')


def part_arrays(blocks: TimeBlocks) -> dict[str, np.ndarray]:
    """
    Return the arrays of blocks by name.

    ``part_columns``: (n, b) bool, columns that joint j's rows have, w_j of them; ``part_rows``:
    (stretches, n) int, rows m of R; ``parts``: the upper trapezoids of R, m x (w_j + 1), row by
    row, of joint after joint of stretch after stretch.
    """
    n = len(blocks.parts[0])
    width = 1 + max(int(joint.columns.max(initial=-1)) for part in blocks.parts for joint in part)
    seen = np.zeros((n, width), dtype=bool)
    for part in blocks.parts:
        for mask, joint in zip(seen, part, strict=True):
            mask[joint.columns] = True
    counts = np.zeros((len(blocks), n), dtype=np.int64)
    packed = []
    for count, part in zip(counts, blocks.parts, strict=True):
        for j, joint in enumerate(part):
            whole = np.zeros((len(joint.rows), width + 1))
            whole[:, joint.columns] = joint.rows[:, :-1]
            whole[:, -1] = joint.rows[:, -1]
            own = whole[:, np.append(seen[j], True)]
            reduced = np.asarray(np.linalg.qr(own, mode='r')) if own.size else own
            count[j] = len(reduced)
            packed.append(reduced[_upper(reduced)])
    return {
        'part_columns': seen,
        'part_rows': counts,
        'parts': np.concatenate(packed).astype(np.float32),
    }


def blocks_of(
    arrays: Mapping[str, np.ndarray], duration: Any, n: int, b: int
) -> TimeBlocks | None:
    """
    Return what `part_arrays` gave; None where a file has none, as those of format 1.

    Parameters
    ----------
    arrays:
        Of the file.
    duration:
        Of a stretch [s].
    n, b:
        Numbers of joints and base parameters.

    Raises
    ------
    ValueError, TypeError
        where they do not fit one another.

    """
    if 'parts' not in arrays:
        return None
    seen, counts, packed = (np.asarray(arrays[name]) for name in _NAMES)
    if not isinstance(duration, (int, float)) or not 0.0 < duration < math.inf:
        raise ValueError(f'stretches last {duration!r} s')
    if seen.dtype != bool or seen.ndim != 2 or len(seen) != n or seen.shape[1] > b:
        raise ValueError(f'part_columns has shape {seen.shape}')
    if counts.ndim != 2 or counts.shape[1] != n or not 0 < len(counts) <= STORED_PARTS:
        raise ValueError(f'part_rows has shape {counts.shape}')
    widths = 1 + seen.sum(axis=1)
    if counts.dtype.kind != 'i' or (counts < 0).any() or (counts > widths).any():
        raise ValueError('part_rows holds something else than numbers of rows')
    sizes = counts * widths - counts * (counts - 1) // 2
    if packed.dtype.kind != 'f' or packed.shape != (int(sizes.sum()),):
        raise ValueError(f'parts has shape {packed.shape}, expected {(int(sizes.sum()),)}')
    if not np.isfinite(packed).all():
        raise ValueError('parts holds something else than finite numbers')
    columns = [np.flatnonzero(mask) for mask in seen]
    parts, start = [], 0
    for count in counts:
        part = []
        for j in range(n):
            rows = np.zeros((count[j], widths[j]))
            upper = _upper(rows)
            size = int(upper.sum())
            rows[upper] = packed[start : start + size]
            start += size
            part.append(JointRows(columns[j], rows))
        parts.append(tuple(part))
    return TimeBlocks(float(duration), tuple(parts))


def _upper(matrix: np.ndarray) -> np.ndarray:
    """Tell which entries are in the upper trapezoid."""
    return np.triu(np.ones(matrix.shape, dtype=bool))
