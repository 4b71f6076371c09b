# SPDX-License-Identifier: Apache-2.0
"""Standard streams of a process, which may be closed, full, or of another encoding."""

from __future__ import annotations

from contextlib import suppress
import io
import os
import sys
from typing import TextIO

from ..errors import IdentificationError

_STREAMS = (('stdin', 'r'), ('stdout', 'w'), ('stderr', 'w'))


class Output(io.TextIOWrapper):
    """
    Standard output that keeps the error by which it was lost, whoever has caught that.

    Attributes
    ----------
    broken:
        The first error; None for a sound stream.

    """

    broken: OSError | None = None

    def write(self, text: str) -> int:
        """Write a text; raises OSError."""
        try:
            return super().write(text)
        except OSError as error:
            self.broken = self.broken or error
            raise

    def flush(self) -> None:
        """Write what is kept; raises OSError."""
        try:
            super().flush()
        except OSError as error:
            self.broken = self.broken or error
            raise


def open_streams() -> None:
    """
    Make sure that there are standard streams, so that no file that is opened takes their place.

    Closed ones are empty; standard output raises OSError when it is written.  What an encoding
    lacks is written as escapes.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            # the lowest free number is this one; output that is lost is an error, warnings are not
            os.open(os.devnull, os.O_WRONLY if name == 'stderr' else os.O_RDONLY)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
    if type(sys.stdout) is io.TextIOWrapper:  # tests put others in its place
        sys.stdout = _kept(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors='backslashreplace')


def _kept(stream: io.TextIOWrapper) -> Output:
    """Return a stream for the same file, with the same buffering."""
    with suppress(OSError):
        stream.flush()
    file = os.fdopen(
        stream.fileno(), 'wb', buffering=0 if stream.write_through else -1, closefd=False
    )
    return Output(
        file,
        stream.encoding,
        'backslashreplace',
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def lost_output() -> OSError | None:
    """Flush standard output; return the error by which something of it was lost."""
    with suppress(OSError):
        sys.stdout.flush()
    return getattr(sys.stdout, 'broken', None)


def require_folder() -> None:
    """Raise IdentificationError where the working directory was deleted."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise IdentificationError(
            'the working directory was deleted', remedy='change to another one (cd)'
        ) from error


def abandon(stream: TextIO) -> None:
    """Give up a stream that cannot be written: the interpreter would complain at its end."""
    with suppress(OSError, ValueError):
        number = os.open(os.devnull, os.O_WRONLY)
        os.dup2(number, stream.fileno())
        os.close(number)
