# SPDX-License-Identifier: Apache-2.0
"""Decompression of lz4 and zstd, limited to the declared size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .files import open_regular

MAX_BLOCK = 256 << 20
"""Largest size of a frame, such as a chunk of mcap [bytes]."""

MAX_RATIO = 2000
"""Largest ratio of decompressed to compressed size, beyond a few kilobytes."""

_SMALL = 1 << 16
_PIECE = 1 << 20


def _require_plausible(size: int, stored: int) -> None:
    """Raise ValueError for a size above `MAX_BLOCK`, or too large for the stored one."""
    if size > MAX_BLOCK:
        raise ValueError(f'a chunk declares {size} bytes, more than {MAX_BLOCK}')
    if size > _SMALL + MAX_RATIO * stored:
        raise ValueError(f'a chunk declares {size} bytes in {stored} compressed ones')


def decompress(compression: str, data: memoryview, size: int) -> bytes | memoryview:
    """
    Decompress one frame; return uncompressed data as they are.

    Parameters
    ----------
    compression:
        ``lz4``, ``zstd`` or empty.
    data:
        One frame.
    size:
        Declared size [bytes].

    Raises
    ------
    ValueError
        for an unknown compression, another size, or one above a limit.  Damaged data raises errors
        of lz4 and zstd.

    """
    if compression == '':
        return data
    _require_plausible(size, len(data))
    stream = _decompressor(compression)
    found: bytes = stream.decompress(data, size + 1)
    if len(found) != size or not stream.eof:
        more = 'more' if len(found) > size else 'fewer'
        raise ValueError(f'a chunk has {more} than the {size} bytes that it declares')
    return found


def _decompressor(compression: str) -> Any:
    """Return a streaming decompressor; raises ValueError for an unknown compression."""
    if compression == 'lz4':
        from lz4.frame import LZ4FrameDecompressor

        return LZ4FrameDecompressor()
    if compression == 'zstd':
        return _zstd().ZstdDecompressor()
    raise ValueError(f"compression '{compression}' is not known")


def decompress_message(data: bytes) -> bytes:
    """Decompress a message that is one zstd frame; raises as `decompress`."""
    stream = _decompressor('zstd')
    limit = min(MAX_BLOCK, _SMALL + MAX_RATIO * len(data))
    found: bytes = stream.decompress(data, limit)
    if not stream.eof:
        raise ValueError(f'a message of {len(data)} compressed bytes has no end')
    return found


def decompress_file(source: Path, target: Path) -> None:
    """Decompress a file of zstd frames; raises OSError, or ValueError above `MAX_RATIO`."""
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
