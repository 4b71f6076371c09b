# SPDX-License-Identifier: Apache-2.0
"""
Paths and regular files of users.

Errors are `OSError` with a text in ``strerror``, as the system's are; readers add the format.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
import stat
from typing import BinaryIO

from ..errors import SettingsError

DOCUMENT_SIZE = 64 << 20
"""Largest size of settings, results and URDFs [bytes]."""

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = (
    (stat.S_ISDIR, 'is a folder'),
    (stat.S_ISFIFO, 'is a pipe'),
    (stat.S_ISCHR, 'is a device'),
    (stat.S_ISBLK, 'is a device'),
    (stat.S_ISSOCK, 'is a socket'),
)


def user_path(path: str | os.PathLike) -> Path:
    """Return a path with ``~`` expanded; raises SettingsError for what is no path."""
    text = os.fspath(path)
    try:
        if '\0' in text:
            raise ValueError('it contains a NUL character')
        os.fsencode(text)
        return Path(text).expanduser()
    except (ValueError, RuntimeError) as error:
        reason = 'it is not text' if isinstance(error, UnicodeError) else str(error)
        raise SettingsError(
            f'{text!r} is not a path: {reason}', file=text, remedy='correct the path'
        ) from None


def require_regular(path: str | os.PathLike, limit: int | None = None) -> None:
    """
    Require a regular file, without opening it, of at most ``limit`` bytes; None for any.

    Raises
    ------
    OSError
        for a file that does not exist, is not regular, or is too large.

    """
    try:
        _check(os.stat(path), path, limit)
    except ValueError as error:  # a NUL character in the path
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from None


def open_regular(
    path: str | os.PathLike, limit: int | None = None, buffering: int = -1
) -> BinaryIO:
    """Open a file for reading that `require_regular` accepts: a pipe might never end."""
    require_regular(path, limit)
    number = os.open(path, _OPEN_FLAGS)
    try:
        # the path may have got another file since it was looked at
        _check(os.fstat(number), path, limit)
        stream: BinaryIO = os.fdopen(number, 'rb', buffering)
        return stream
    except BaseException:
        os.close(number)
        raise


def read_bytes(path: str | os.PathLike, limit: int | None = None) -> bytes:
    """Return the content of a regular file; raises OSError as `require_regular`."""
    with open_regular(path, limit) as stream:
        return stream.read()


def read_text(
    path: str | os.PathLike, limit: int | None = DOCUMENT_SIZE, encoding: str = 'utf-8'
) -> str:
    """
    Return the text of a regular file.

    Raises
    ------
    OSError
        as `require_regular`.
    UnicodeDecodeError
        for what is no text in that encoding.

    """
    return read_bytes(path, limit).decode(encoding)


def _check(status: os.stat_result, path: str | os.PathLike, limit: int | None) -> None:
    name = os.fspath(path)
    if not stat.S_ISREG(status.st_mode):
        kind = next((text for is_kind, text in _KINDS if is_kind(status.st_mode)), 'is special')
        number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
        raise OSError(number, f'it {kind}, not a regular file', name)
    if limit is not None and status.st_size > limit:
        sizes = f'{1e-6 * status.st_size:.0f} MB, more than the {1e-6 * limit:.0f} MB'
        raise OSError(errno.EFBIG, f'it has {sizes} that such a file may have', name)
