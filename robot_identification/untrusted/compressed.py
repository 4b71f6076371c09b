# SPDX-License-Identifier: Apache-2.0
"""
Compressed data: frames of lz4 and zstd, NumPy arrays in ZIP archives (``.npz``), texts.

None expands to more than it declares; the declared size is checked against the compressed size,
and that of an array against the shape in its header, before memory is allocated.  Texts in gzip
and xz declare nothing: they are read in pieces.
"""

from __future__ import annotations

import io
import lzma
import math
from pathlib import Path
from typing import Any, BinaryIO, cast, IO
import zipfile
import zlib

import numpy as np

from ..errors import importing
from .files import open_regular
from .writing import whole_file

MAX_BLOCK = 256 << 20
"""Largest size of a frame, such as a chunk of mcap [bytes]."""

MAX_FRAME_RATIO = 2000
"""Largest ratio of decompressed to compressed size, beyond a few kilobytes."""

_SMALL = 1 << 16  # bytes to which the ratio does not apply
_PIECE = 1 << 20  # bytes that are decompressed at once
_INPUT = 1 << 14  # compressed bytes that are read at once


def _require_plausible(size: int, stored: int) -> None:
    """Raise ValueError for a size above `MAX_BLOCK`, or too large for the stored one."""
    if size > MAX_BLOCK:
        raise ValueError(f'a chunk declares {size} bytes, more than {MAX_BLOCK}')
    if size > _SMALL + MAX_FRAME_RATIO * stored:
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
        with importing('lz4', 'data compressed by lz4'):
            from lz4.frame import LZ4FrameDecompressor
        return LZ4FrameDecompressor()
    if compression == 'zstd':
        return _zstd().ZstdDecompressor()
    raise ValueError(f"compression '{compression}' is not known")


def decompress_message(data: bytes) -> bytes:
    """Decompress a message that is one zstd frame; raises as `decompress`."""
    stream = _decompressor('zstd')
    limit = min(MAX_BLOCK, _SMALL + MAX_FRAME_RATIO * len(data))
    found: bytes = stream.decompress(data, limit)
    if not stream.eof:
        raise ValueError(f'a message of {len(data)} compressed bytes has no end')
    return found


def decompress_file(source: Path, target: Path) -> None:
    """Decompress a file of zstd frames; raises OSError, or ValueError above `MAX_FRAME_RATIO`."""
    zstd = _zstd()
    total, stored = 0, source.stat().st_size
    with (
        open_regular(source) as compressed,
        zstd.open(compressed, 'rb') as stream,
        whole_file(target) as out,
    ):
        while piece := stream.read(_PIECE):
            total += len(piece)
            if total > _SMALL + MAX_FRAME_RATIO * stored:
                raise ValueError(f'it expands to more than {total} bytes from {stored}')
            out.write(piece)


def _zstd() -> Any:
    """Return the library for zstd; raises IdentificationError without it."""
    try:  # Python 3.14 has it
        from compression import zstd
    except ImportError:
        with importing('backports.zstd', 'data compressed by zstd'):
            from backports import zstd
    return zstd


COMPRESSED_TEXT = ('.gz', '.xz')
"""Endings of the names of compressed texts, such as ``run.csv.gz``."""

DAMAGED_TEXT = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Errors of reading a text that `open_text_file` opened."""

MAX_DICTIONARY = 128 << 20
"""Largest memory that the decoder of xz may take [bytes]."""


MAX_TEXT_RATIOS = {'.gz': 400, '.xz': 2000}
"""Largest ratio of a text's size to its compressed size; tables of zeros have half of it."""

_FREE_TEXT = 1 << 20
"""Bytes of a text to which the ratio does not apply."""

MAX_MEMBERS = 1000
"""Members of a gzip file, and as many more as it has times `_MEMBER_SIZE` in bytes of text."""

_MEMBER_SIZE = 4096  # bytes of text


def open_text_file(path: Path) -> BinaryIO:
    """Open a text for reading in bytes, decompressed by the ending of its name; raises OSError."""
    stream = open_regular(path)
    suffix = path.suffix.lower()
    if suffix not in COMPRESSED_TEXT:
        return stream
    decoded = _DecodedStream(stream, _DECODERS[suffix], MAX_TEXT_RATIOS[suffix])
    return cast(BinaryIO, io.BufferedReader(decoded, _PIECE))


class _GzipDecoder:
    """Decoder of one member of a gzip file, with the interface of `lzma.LZMADecompressor`."""

    several = True

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def needs_input(self) -> bool:
        return not self._decoder.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, size: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + data, size)


class _XzDecoder:
    """Decoder of an xz file; `lzma.open` has no limit on memory."""

    several = False

    def __new__(cls) -> Any:
        return lzma.LZMADecompressor(memlimit=MAX_DICTIONARY)


_DECODERS = {'.gz': _GzipDecoder, '.xz': _XzDecoder}


class _DecodedStream(io.RawIOBase):
    """Decoded bytes of a file, which is closed with it; no more than it plausibly has."""

    def __init__(self, file: BinaryIO, kind: Any, ratio: int) -> None:
        self._file, self._kind, self._decoder = file, kind, kind()
        self._ratio = ratio
        self._read = self._written = 0
        self._members = 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = b''
        while True:
            if self._decoder.eof:
                piece = self._behind_member()
                if not piece:
                    return 0
            elif self._decoder.needs_input and not piece:
                piece = self._next()
                if not piece:
                    raise EOFError('it is cut off')
            data = self._decoder.decompress(piece, len(buffer))
            piece = b''
            if data:
                self._written += len(data)
                if self._written > _FREE_TEXT + self._ratio * self._read:
                    raise OSError(f'it expands to more than {self._ratio} times its size')
                buffer[: len(data)] = data
                return len(data)

    def _next(self) -> bytes:
        piece = self._file.read(_INPUT)
        self._read += len(piece)
        return piece

    def _behind_member(self) -> bytes:
        """Return the beginning of the next member, for a new decoder; empty at the end."""
        rest: bytes = self._decoder.unused_data or self._next()
        if not self._kind.several:
            if rest:
                raise lzma.LZMAError('it has more than one stream')
            return b''
        while rest and not rest.strip(b'\0'):  # padding, as of tapes
            rest = self._next()
        if rest:
            self._members += 1
            if self._members > MAX_MEMBERS + self._written // _MEMBER_SIZE:
                raise OSError(f'it has more than {MAX_MEMBERS} members, which are small')
            self._decoder = self._kind()
        return rest.lstrip(b'\0')

    def close(self) -> None:
        self._file.close()
        super().close()


MAX_MEMBER_RATIO = 1100
"""Largest ratio of a member's size to its compressed size; deflate reaches 1032."""

MAX_EXPANSION = 1 << 30
"""Largest size of all deflated members that are read [bytes]."""

KINDS = 'biufU'
"""NumPy's kinds of arrays: numbers and text."""

DAMAGED = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    MemoryError,
    OverflowError,
)
"""Errors of `ArrayArchive` for damaged archives."""

_SUFFIX = '.npy'
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


MAX_DIRECTORY = 1 << 20
"""Largest size of an archive's list of members [bytes], each of which takes 46 and its name."""

_END, _END64, _LOCATOR64 = b'PK\x05\x06', b'PK\x06\x06', b'PK\x06\x07'


def _require_small_directory(file: IO[bytes]) -> None:
    """Raise ValueError for a list of members that takes long to read."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 1024))
    end = file.read()
    file.seek(0)
    at = end.rfind(_END)
    if at < 0 or len(end) < at + 22:
        return  # no archive, as its reader says
    length = int.from_bytes(end[at + 12 : at + 16], 'little')
    large = end.rfind(_END64)
    if end[at - 20 : at].startswith(_LOCATOR64) and large >= 0:
        length = int.from_bytes(end[large + 40 : large + 48], 'little')
    if length > MAX_DIRECTORY:
        raise ValueError(f'its list of members has {length} bytes, more than {MAX_DIRECTORY}')


class ArrayArchive:
    """An archive in a file that stays open; raises one of `DAMAGED`."""

    def __init__(self, file: IO[bytes]) -> None:
        _require_small_directory(file)
        self._archive = zipfile.ZipFile(file)
        self._infos = {info.filename: info for info in self._archive.infolist()}
        self._expanded = 0
        if len(self._infos) != len(self._archive.infolist()):
            raise ValueError('a member occurs twice')

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(name[: -len(_SUFFIX)] for name in self._infos if name.endswith(_SUFFIX))

    @property
    def members(self) -> tuple[str, ...]:
        """Names of all members."""
        return tuple(self._infos)

    def __contains__(self, member: str) -> bool:
        return member in self._infos

    def read(self, member: str) -> bytes:
        """Return the bytes of a member; raises one of `DAMAGED`."""
        info = self._infos[member]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"'{member}' is compressed in a way that NumPy does not write")
        if info.compress_type == zipfile.ZIP_DEFLATED:
            self._expanded += info.file_size
            if info.file_size > MAX_MEMBER_RATIO * info.compress_size + 1024:
                raise ValueError(
                    f"'{member}' declares {info.file_size} bytes in {info.compress_size} "
                    'compressed ones'
                )
            if self._expanded > MAX_EXPANSION:
                raise ValueError(f'it expands to more than {MAX_EXPANSION} bytes')
        with self._archive.open(info) as stream:
            data = stream.read(info.file_size)
            # reading one more byte compares the checksum
            if len(data) < info.file_size or stream.read(1):
                raise ValueError(f"'{member}' has another size than the archive declares")
        return data

    def array(self, name: str) -> np.ndarray:
        """Return an array, which cannot be written to; raises one of `DAMAGED`."""
        return array_of(self.read(f'{name}{_SUFFIX}'), name)


def array_of(data: bytes, name: str, *, fields: bool = False) -> np.ndarray:
    """
    Return the array in the bytes of an ``.npy`` file, which cannot be written to.

    With ``fields`` it may be a structured one of numbers.  Raises one of `DAMAGED`.
    """
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"'{name}' is not an array of numbers")
    try:
        shape, in_columns, kind = _HEADERS[version](stream)
    except Exception as error:  # NumPy lets errors of its tokenizer through
        raise ValueError(f"the header of '{name}' cannot be read ({error})") from error
    parts = [kind] if not (fields and kind.names) else [kind[n].base for n in kind.names]
    for part in parts:
        if part.kind not in KINDS:
            what = 'complex' if part.kind == 'c' else 'not an array of numbers'
            raise ValueError(f"'{name}' is {what}")
    size = math.prod(shape)
    if min(shape, default=0) < 0 or size * kind.itemsize != len(data) - stream.tell():
        raise ValueError(f"'{name}' has another size than its header declares")
    array = np.frombuffer(data, kind, size, stream.tell()) if size else np.empty(0, kind)
    return array.reshape(shape, order='F' if in_columns else 'C')
