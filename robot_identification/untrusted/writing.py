# SPDX-License-Identifier: Apache-2.0
"""
Files that the package writes, in folders in which others may write, too.

A file appears whole or not at all: it is written beside its place under a random name, which must
not exist and is opened through no link, and moved there.  Its permissions are those of the file
that it replaces, or those that the umask leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, ExitStack, suppress
import errno
import os
from pathlib import Path
import secrets
import stat
import tempfile
from typing import BinaryIO

from ..errors import IdentificationError

_MODE = 0o666  # of a new file, less the mask of the process
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def whole_file(path: Path, *, sync: bool = False) -> Iterator[BinaryIO]:
    """
    Open a file for writing and reading that takes the place of ``path`` when the block has ended.

    An error in the block, or a full disk, leaves what was there.  A link at ``path`` is replaced,
    not followed.  Until the end, the stream's ``name`` is its path.

    Parameters
    ----------
    path:
        Place of the file; its folder has to exist.
    sync:
        Write file and name to the disk, so that they survive a loss of power.

    Raises
    ------
    OSError
        if it cannot be written, or something is there that is no regular file or must not be
        written.

    """
    with ExitStack() as stack:
        stream, temporary = _opened_beside(path)
        stack.callback(_remove, temporary)
        with stream:
            yield stream
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
        os.replace(temporary, path)
        stack.pop_all()
    if sync:
        sync_folder(path.parent)


def write_whole(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """
    Write a file as `whole_file`; text is written as UTF-8.

    Bytes of a path that are no UTF-8 are written as escapes.  Raises OSError as `whole_file`.
    """
    with whole_file(path, sync=sync) as stream:
        stream.write(encoded(content))


def write_named(path: Path, content: str | bytes, *, with_folder: bool = False) -> None:
    """
    Write a file that the user has named, as `write_whole`, ``with_folder`` its folder, too.

    Raises
    ------
    IdentificationError
        naming the file, where it cannot be written.

    """
    try:
        if with_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise IdentificationError(
            f"cannot write '{path}': {error.strerror or error}",
            file=str(path),
            remedy='choose another file, or make room',
        ) from error


def write_together(files: Mapping[Path, str | bytes]) -> None:
    """
    Write contents by path, each as `write_whole`, and none where one cannot be written.

    Raises OSError as `whole_file`.
    """
    with ExitStack() as stack:
        streams = [stack.enter_context(whole_file(path)) for path in files]
        for stream, content in zip(streams, files.values(), strict=True):
            stream.write(encoded(content))
            stream.flush()  # a full disk shows before the first has its place


def encoded(content: str | bytes) -> bytes:
    """Return the bytes of a text in UTF-8, with escapes for what a path has that is none."""
    return content.encode('utf-8', 'backslashreplace') if isinstance(content, str) else content


def open_new(path: Path) -> BinaryIO:
    """Open a file for writing, unbuffered; raises OSError where anything of that name exists."""
    return os.fdopen(os.open(path, os.O_WRONLY | _NEW, _MODE), 'wb', buffering=0)


def open_own(path: Path, flags: int = os.O_RDWR | os.O_CREAT | os.O_APPEND) -> BinaryIO:
    """
    Open a regular file to go on with, which is made if needed, through no link; unbuffered.

    Raises
    ------
    OSError
        for a link, what is no regular file, and as `os.open`.

    """
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _MODE)
    try:
        _require_regular(os.fstat(number), path)
        return os.fdopen(number, 'r+b', buffering=0)
    except BaseException:
        os.close(number)
        raise


def private_folder(path: Path) -> Path:
    """Make a folder for this user alone, or return a new one where ``path`` is somebody else's."""
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(path)
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others:
            return path
    return Path(tempfile.mkdtemp(prefix=f'{path.name}_'))


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, if the system can do that."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _opened_beside(path: Path) -> tuple[BinaryIO, Path]:
    """Open a new file in the folder of ``path``, with the permissions that this is to have."""
    mode = _replaced_mode(path)
    # not longer for a long name: that of `path` may be as long as names can be
    temporary = path.with_name(f'.{secrets.token_hex(8)}.new')
    stream = open(temporary, 'w+b', opener=_opener)  # noqa: SIM115
    if mode is not None:
        os.fchmod(stream.fileno(), mode)
    return stream, temporary


def _opener(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | _NEW, _MODE)


def _replaced_mode(path: Path) -> int | None:
    """Return the permissions of the regular file at ``path``; None for no file or a link."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        with suppress(FileNotFoundError):
            _require_regular(os.stat(path), path)  # as /dev/stdout is one
        return None
    _require_regular(found, path)
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    return stat.S_IMODE(found.st_mode) & 0o777


def _require_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, 'it is not a regular file', os.fspath(path))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


@contextmanager
def reported_failures(folder: Path, *, remedy: str = 'choose another folder') -> Iterator[None]:
    """Raise `IdentificationError` for a file that cannot be written into a folder."""
    try:
        yield
    except OSError as error:
        raise IdentificationError(
            f"cannot write results to '{folder}': {error.strerror or error}",
            file=str(folder),
            remedy=f'{remedy}, or make room',
        ) from error
