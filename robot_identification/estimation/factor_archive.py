# SPDX-License-Identifier: Apache-2.0
"""
The bytes of factor files.

A file is NumPy's ``.npz``, a ZIP archive without compression of its arrays, with a header in JSON
beside them, so that it can be read with the tools of any language.  Every part has a checksum
(CRC-32), and nothing in it is ever executed.

Stretches of the recordings, for the bootstrap and cross-validation, are stored as R of each
stretch and joint in single precision: what is resampled need not be more exact, and the estimate
comes from the factor of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
import io
import json
import math
from typing import Any
import zipfile

import numpy as np

from ..errors import IdentificationError
from ..untrusted.compressed import ArrayArchive, DAMAGED
from ..untrusted.writing import encoded
from ..version import __version__
from .factor import ModelSignature, QRFactor
from .time_blocks import JointRows, PARTS, TimeBlocks

FORMAT = 2
"""Number of the file's format; 2 has stretches of the recordings, for the bootstrap."""

READABLE = (1, 2)
"""Formats that are read."""

_MARK = 'robot_identification'
_HEADER = 'header.json'
_PER_JOINT = ('rows', 'independent_rows', 'available_rows', 'effort_sums', 'driven')


def write_archive(factor: QRFactor, about: Mapping[str, Any], blocks: TimeBlocks | None) -> bytes:
    """
    Return the bytes of a factor's file; the same factor gives the same bytes.

    ``about`` stands in the header beside it, as plain values.
    """
    seen, signature = _seen_columns(factor), factor.fingerprint
    arrays = {
        'columns': seen,
        'triangles': _upper(factor.triangles, seen),
        'raw_gram': _upper(factor.raw_gram, seen),
        'column_sums': factor.column_sums[seen[:, :-1]],
        'position_range': factor.position_range,
        'highest_speed': factor.highest_speed,
        **{name: getattr(factor, name) for name in _PER_JOINT},
        **(_part_arrays(blocks) if blocks else {}),
    }
    header = {
        _MARK: {'version': __version__, 'format': FORMAT, 'content': 'factor'},
        'raw_rows': int(factor.raw_rows),
        'fingerprint': {
            'joints': signature.joints,
            'parameters': signature.parameters,
            'base': signature.base,
            'regrouping': signature.regrouping.tolist(),
            'rows': signature.rows.tolist(),
        },
        **about,
        'part_duration': None if blocks is None else blocks.duration,
    }
    stream = io.BytesIO()
    # numbers with noise in them do not get smaller by compression
    np.savez(stream, **arrays)
    with zipfile.ZipFile(stream, 'a') as archive:
        text = json.dumps(header, indent=1, ensure_ascii=False)
        # of no date, so that the same factor gives the same bytes whenever it is written
        archive.writestr(zipfile.ZipInfo(_HEADER), encoded(text), zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def read_archive(data: bytes, name: str) -> tuple[Mapping[str, Any], dict[str, np.ndarray]]:
    """
    Return header and arrays of a factor's file, each verified by its checksum.

    Raises
    ------
    IdentificationError
        where it is no factor, has another format, or is damaged.

    """
    if not data.startswith(b'PK'):
        raise _foreign(name)
    try:
        archive = ArrayArchive(io.BytesIO(data))
        if _HEADER not in archive:
            raise _foreign(name)
        header = json.loads(archive.read(_HEADER))
        if not isinstance(header, Mapping) or _MARK not in header:
            raise _foreign(name)
        mark = header[_MARK]
        if not isinstance(mark, Mapping) or mark.get('content') != 'factor':
            raise _foreign(name)
        if mark.get('format') not in READABLE:
            raise IdentificationError(
                f"factor file '{name}' has format {mark.get('format')}, this version reads "
                f'up to {FORMAT}',
                file=name,
                value=mark.get('format'),
                remedy=f'it was written by version {mark.get("version")}: use that one, or '
                'reduce the recordings again',
            )
        arrays = {name: archive.array(name) for name in archive.arrays}
    except DAMAGED as error:
        raise unusable(name, str(error)) from error
    return header, arrays


def factor_of(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], settings: Mapping[str, Any]
) -> tuple[QRFactor, TimeBlocks | None]:
    """
    Make a factor of what `read_archive` gave, and its stretches, which files of format 1 lack.

    ``settings`` are those of the fingerprint.

    Raises
    ------
    KeyError, TypeError, ValueError
        where something is missing or does not fit.

    """
    stored = header['fingerprint']
    joints, base = tuple(stored['joints']), tuple(stored['base'])
    n, b = len(joints), len(base)
    regrouping, rows = (np.array(stored[name], dtype=float) for name in ('regrouping', 'rows'))
    if regrouping.shape != (b,) or len(rows) != n or rows.ndim != 2:
        raise ValueError('the fingerprint does not have a number a parameter and joint')
    signature = ModelSignature(
        joints, tuple(stored['parameters']), base, regrouping, rows, settings
    )
    seen = _shaped(arrays, 'columns', (n, b + 1), bool)
    widths = seen.sum(axis=1)
    packed = int((widths * (widths + 1) // 2).sum())
    sums = np.zeros((n, b))
    sums[seen[:, :-1]] = _shaped(arrays, 'column_sums', (int(seen[:, :-1].sum()),), float)
    kinds = {'rows': int, 'available_rows': int, 'driven': bool}
    per_joint = {name: _shaped(arrays, name, (n,), kinds.get(name, float)) for name in _PER_JOINT}
    triangles = _dense(_shaped(arrays, 'triangles', (packed,), float), seen)
    gram = _dense(_shaped(arrays, 'raw_gram', (packed,), float), seen)
    factor = QRFactor(
        fingerprint=signature,
        triangles=triangles,
        column_sums=sums,
        raw_gram=gram + np.swapaxes(np.triu(gram, 1), 1, 2),
        raw_rows=int(header['raw_rows']),
        position_range=_shaped(arrays, 'position_range', None, float),
        highest_speed=_speeds(arrays),
        **per_joint,
    )
    return factor, _blocks_of(arrays, header.get('part_duration'), n, factor.n_base)


def _speeds(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the highest speeds of the joints, NaN where not known, as in earlier files."""
    if 'highest_speed' not in arrays:
        return np.full(arrays['position_range'].shape, np.nan)
    speeds = np.asarray(arrays['highest_speed'])
    if speeds.shape != arrays['position_range'].shape or speeds.dtype.kind != 'f':
        raise ValueError(f'highest_speed has shape {speeds.shape}')
    if (speeds < 0.0).any() or np.isinf(speeds).any():
        raise ValueError('highest_speed holds something else than speeds')
    return speeds


def _shaped(
    arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...] | None, kind: type
) -> np.ndarray:
    """Return an array that has to have a shape, a kind and finite numbers."""
    array = arrays[name]
    if (array.ndim != 1) if shape is None else (array.shape != shape):
        raise ValueError(f'{name} has shape {array.shape}, expected {shape or "one row"}')
    if not np.can_cast(array.dtype, kind) or not np.isfinite(array).all():
        raise ValueError(f'{name} holds something else than finite numbers')
    return array.astype(kind)


def _seen_columns(factor: QRFactor) -> np.ndarray:
    """Return which columns each joint's rows have entries in, (n, b + 1) bool."""
    triangles = factor.triangles != 0.0
    seen = (factor.raw_gram != 0.0).any(axis=1) | triangles.any(axis=1) | triangles.any(axis=2)
    seen[:, :-1] |= factor.column_sums != 0.0
    return seen


def _upper(matrices: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Upper triangles, row by row, of the columns that act on each joint, one after the other."""
    parts = []
    for matrix, columns in zip(matrices, seen, strict=True):
        compact = matrix[np.ix_(columns, columns)]
        parts.append(compact[np.triu_indices(len(compact))])
    return np.concatenate(parts)


def _dense(packed: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Reverse `_upper`; below the diagonals are zeros."""
    n, k = seen.shape
    matrices, start = np.zeros((n, k, k)), 0
    for matrix, columns in zip(matrices, seen, strict=True):
        places = np.flatnonzero(columns)
        rows, cols = np.triu_indices(places.size)
        matrix[places[rows], places[cols]] = packed[start : start + rows.size]
        start += rows.size
    return matrices


def _part_arrays(blocks: TimeBlocks) -> dict[str, np.ndarray]:
    """
    Return the arrays of blocks by name.

    ``part_columns``: (n, b) bool, columns that joint j's rows have, w_j of them; ``part_rows``:
    (stretches, n) int, rows m of R; ``part_recordings``: int, stretches of each recording;
    ``parts``: the upper trapezoids of R, m x (w_j + 1), row by
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
            packed.append(reduced[_trapezoid(reduced.shape)])
    return {
        'part_columns': seen,
        'part_rows': counts,
        'part_recordings': np.array(blocks.recordings),
        'parts': np.concatenate(packed).astype(np.float32),
    }


def _blocks_of(
    arrays: Mapping[str, np.ndarray], duration: Any, n: int, b: int
) -> TimeBlocks | None:
    """Return what `_part_arrays` gave; raises ValueError or TypeError where it does not fit."""
    if 'parts' not in arrays:
        return None
    seen, counts, packed = (
        np.asarray(arrays[name]) for name in ('part_columns', 'part_rows', 'parts')
    )
    if not isinstance(duration, (int, float)) or not 0.0 < duration < math.inf:
        raise ValueError(f'stretches last {duration!r} s')
    if seen.dtype != bool or seen.ndim != 2 or len(seen) != n or seen.shape[1] > b:
        raise ValueError(f'part_columns has shape {seen.shape}')
    if counts.ndim != 2 or counts.shape[1] != n or not 0 < len(counts) <= PARTS:
        raise ValueError(f'part_rows has shape {counts.shape}')
    widths = 1 + seen.sum(axis=1)
    if counts.dtype.kind != 'i' or (counts < 0).any() or (counts > widths).any():
        raise ValueError('part_rows holds something else than numbers of rows')
    sizes = counts * widths - counts * (counts - 1) // 2
    if packed.dtype.kind != 'f' or packed.shape != (int(sizes.sum()),):
        raise ValueError(f'parts has shape {packed.shape}, expected {(int(sizes.sum()),)}')
    # files of earlier versions do not distinguish recordings
    several = np.asarray(arrays.get('part_recordings', [len(counts)]))
    if several.dtype.kind != 'i' or (several < 1).any() or several.sum() != len(counts):
        raise ValueError('part_recordings holds something else than numbers of stretches')
    if not np.isfinite(packed).all():
        raise ValueError('parts holds something else than finite numbers')
    columns = [np.flatnonzero(mask) for mask in seen]
    parts, start = [], 0
    for count in counts:
        part = []
        for j in range(n):
            rows = np.zeros((count[j], widths[j]))
            upper = _trapezoid(rows.shape)
            size = upper[0].size
            rows[upper] = packed[start : start + size]
            start += size
            part.append(JointRows(columns[j], rows))
        parts.append(tuple(part))
    return TimeBlocks(float(duration), tuple(parts), tuple(several.tolist()))


@lru_cache(maxsize=64)
def _trapezoid(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the entries in the upper trapezoid; stretches have few shapes."""
    rows, columns = np.triu_indices(shape[0], m=shape[1])
    return rows, columns


def _foreign(name: str) -> IdentificationError:
    return IdentificationError(
        f"'{name}' is not a factor file",
        file=name,
        remedy="give a file that 'robot-identification reduce' wrote",
    )


def unusable(name: str, reason: str, key: str | None = None) -> IdentificationError:
    """Return the error for a file that is not as it was written."""
    return IdentificationError(
        f"factor file '{name}' is damaged: {reason}",
        file=name,
        key=key,
        remedy='reduce its recordings again',
    )
