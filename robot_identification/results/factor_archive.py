# SPDX-License-Identifier: Apache-2.0
"""
The bytes of factor files.

A file is a ZIP archive without compression of its arrays, as NumPy's ``.npz``, with a header in
JSON beside them, so that it can be read with the tools of any language.  Every part has a checksum
(CRC-32), and nothing in it is ever executed.
"""

from __future__ import annotations

from collections.abc import Mapping
import io
import json
from typing import Any
import zipfile

import numpy as np

from ..errors import IdentificationError
from ..estimation.factor import QRFactor
from ..estimation.model_signature import ModelSignature
from ..untrusted.compressed import DAMAGED, open_archive
from ..version import __version__

FORMAT = 2
"""Number of the file's format; 2 has stretches of the recordings, for the bootstrap."""

READABLE = (1, 2)
"""Formats that are read."""

_MARK = 'robot_identification'
_HEADER = 'header.json'
# so that the same factor gives the same bytes, whenever it is written
_STAMP = (1980, 1, 1, 0, 0, 0)

_PER_JOINT = ('rows', 'independent_rows', 'available_rows', 'effort_sums', 'driven')


def write_archive(
    factor: QRFactor, about: Mapping[str, Any], more: Mapping[str, np.ndarray] | None = None
) -> bytes:
    """
    Return the bytes of a factor's file; the same factor gives the same bytes.

    Parameters
    ----------
    factor:
        The factor.
    about:
        What stands in the header beside it, as plain values.
    more:
        Arrays beside those of the factor.

    """
    seen = _seen_columns(factor)
    arrays = {
        'columns': seen,
        'triangles': _upper(factor.triangles, seen),
        'raw_gram': _upper(factor.raw_gram, seen),
        'column_sums': factor.column_sums[seen[:, :-1]],
        'position_range': factor.position_range,
        'highest_speed': factor.highest_speed,
        **{name: getattr(factor, name) for name in _PER_JOINT},
        **(more or {}),
    }
    header = {
        _MARK: {'version': __version__, 'format': FORMAT, 'content': 'factor'},
        'raw_rows': int(factor.raw_rows),
        'fingerprint': _fingerprint_document(factor.fingerprint),
        **about,
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, 'w') as archive:
        text = json.dumps(header, indent=1, ensure_ascii=False)
        _add(archive, _HEADER, text.encode(), zipfile.ZIP_DEFLATED)
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            # numbers with noise in them do not get smaller
            _add(archive, f'{name}.npy', content.getvalue(), zipfile.ZIP_STORED)
    return stream.getvalue()


def read_archive(data: bytes, name: str) -> tuple[Mapping[str, Any], dict[str, np.ndarray]]:
    """
    Return header and arrays of a factor's file, each verified by its checksum.

    Parameters
    ----------
    data:
        The file's whole content.
    name:
        What to call it in messages.

    Raises
    ------
    IdentificationError
        where it is no factor, has another format, or is damaged.

    """
    if not data.startswith(b'PK'):
        raise _foreign(name)
    try:
        with open_archive(io.BytesIO(data)) as archive:
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
) -> QRFactor:
    """
    Make a factor of what `read_archive` gave.

    Parameters
    ----------
    header, arrays:
        The file's parts.
    settings:
        Of the fingerprint.

    Raises
    ------
    KeyError, TypeError, ValueError
        where something is missing or does not fit.

    """
    fingerprint = _fingerprint(header['fingerprint'], settings)
    n, b = len(fingerprint.joints), len(fingerprint.base)
    seen = _shaped(arrays, 'columns', (n, b + 1), bool)
    widths = seen.sum(axis=1)
    packed = int((widths * (widths + 1) // 2).sum())
    sums = np.zeros((n, b))
    sums[seen[:, :-1]] = _shaped(arrays, 'column_sums', (int(seen[:, :-1].sum()),), float)
    kinds = {'rows': int, 'available_rows': int, 'driven': bool}
    per_joint = {name: _shaped(arrays, name, (n,), kinds.get(name, float)) for name in _PER_JOINT}
    triangles = _dense(_shaped(arrays, 'triangles', (packed,), float), seen)
    gram = _dense(_shaped(arrays, 'raw_gram', (packed,), float), seen)
    strict = np.triu(gram, 1)
    return QRFactor(
        fingerprint=fingerprint,
        triangles=triangles,
        column_sums=sums,
        raw_gram=gram + np.swapaxes(strict, 1, 2),
        raw_rows=int(header['raw_rows']),
        position_range=_shaped(arrays, 'position_range', None, float),
        highest_speed=_speeds(arrays),  # type: ignore[arg-type]
        **per_joint,
    )


def _speeds(arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the highest speeds of the joints, NaN where not known; None in earlier files."""
    if 'highest_speed' not in arrays:
        return None
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
    """Tell which columns each joint's rows have entries in, (n, b + 1) bool."""
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


def _fingerprint_document(fingerprint: ModelSignature) -> dict[str, Any]:
    return {
        'joints': list(fingerprint.joints),
        'parameters': list(fingerprint.parameters),
        'base': list(fingerprint.base),
        'regrouping': fingerprint.regrouping.tolist(),
        'rows': fingerprint.rows.tolist(),
    }


def _fingerprint(stored: Mapping[str, Any], settings: Mapping[str, Any]) -> ModelSignature:
    joints, base = tuple(stored['joints']), tuple(stored['base'])
    regrouping = np.array(stored['regrouping'], dtype=float)
    rows = np.array(stored['rows'], dtype=float)
    if regrouping.shape != (len(base),) or len(rows) != len(joints) or rows.ndim != 2:
        raise ValueError('the fingerprint does not have a number a parameter and joint')
    return ModelSignature(joints, tuple(stored['parameters']), base, regrouping, rows, settings)


def _add(archive: zipfile.ZipFile, name: str, content: bytes, compression: int) -> None:
    info = zipfile.ZipInfo(name, _STAMP)
    info.external_attr = 0o644 << 16
    archive.writestr(info, content, compression)


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
