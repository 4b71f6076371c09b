# SPDX-License-Identifier: Apache-2.0
"""Decompression of lz4 and zstd that never gives more than was declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .files import open_regular

MAX_BLOCK = 256 << 20
"""Largest size of what is decompressed at once, as a chunk of mcap is [bytes]."""

MAX_RATIO = 2000
"""Largest ratio of decompressed to compressed size, beyond a few kilobytes."""

_SMALL = 1 << 16
_PIECE = 1 << 20


def require_plausible(size: int, stored: int, what: str = 'a chunk') -> None:
    """Raise ValueError where data would grow to ``size`` from ``stored`` bytes without reason."""
    if size > MAX_BLOCK:
        raise ValueError(f'{what} declares {size} bytes, more than {MAX_BLOCK}')
    if size > _SMALL + MAX_RATIO * stored:
        raise ValueError(f'{what} declares {size} bytes in {stored} compressed ones')


def decompress(compression: str, data: memoryview, size: int) -> bytes | memoryview:
    """
    Return compressed bytes decompressed.

    Parameters
    ----------
    compression:
        ``lz4``, ``zstd`` or empty.
    data:
        One frame.
    size:
        Number of bytes that it declares; what is not compressed is returned as it is.

    Raises
    ------
    ValueError
        where the compression is not known, the data is not of that size, or the size exceeds a
        limit.  Data that cannot be decompressed raises errors of lz4 and zstd, each its own.

    """
    if compression == '':
        return data
    require_plausible(size, len(data))
    stream = decompressor(compression)
    found: bytes = stream.decompress(data, size + 1)
    if len(found) != size or not stream.eof:
        more = 'more' if len(found) > size else 'fewer'
        raise ValueError(f'a chunk has {more} than the {size} bytes that it declares')
    return found


def decompressor(compression: str) -> Any:
    """Return a streaming decompressor; raises ValueError for an unknown compression."""
    if compression == 'lz4':
        from lz4.frame import LZ4FrameDecompressor

        return LZ4FrameDecompressor()
    if compression == 'zstd':
        return _zstd().ZstdDecompressor()
    raise ValueError(f"compression '{compression}' is not known")


def decompress_message(data: bytes) -> bytes:
    """Return a message that is one zstd frame; raises as `decompress`."""
    stream = decompressor('zstd')
    limit = min(MAX_BLOCK, _SMALL + MAX_RATIO * len(data))
    found: bytes = stream.decompress(data, limit)
    if not stream.eof:
        raise ValueError(f'a message of {len(data)} compressed bytes has no end')
    return found


def decompress_file(source: Path, target: Path) -> None:
    """Decompress a file of zstd frames; raises OSError, or ValueError where it grows too much."""
    zstd = _zstd()
    total, stored = 0, source.stat().st_size
    with (
        open_regular(source) as compressed,
        zstd.open(compressed, 'rb') as stream,
        target.open('wb') as out,
    ):
        while piece := stream.read(_PIECE):
            total += len(piece)
            if total > _SMALL + MAX_RATIO * stored:
                raise ValueError(f'it expands to more than {total} bytes from {stored}')
            out.write(piece)


def _zstd() -> Any:
    try:  # Python 3.14 has it
        from compression import zstd
    except ImportError:
        from backports import zstd
    return zstd
