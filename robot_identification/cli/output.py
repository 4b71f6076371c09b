# SPDX-License-Identifier: Apache-2.0
"""Exit codes, warnings, errors and files of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
import gc
import os
from pathlib import Path
import sys
from typing import Any, TextIO
import warnings

from ..errors import ConsistencyError, IdentificationError, IdentificationWarning

EXIT_OK, EXIT_STOPPED, EXIT_BAD_INPUT, EXIT_NOT_PHYSICAL, EXIT_REJECTED, EXIT_NOT_WRITTEN = range(
    6
)
EXIT_INTERRUPTED = 130


def require(demand: str | None, *, physical: bool, plausible: bool) -> int:
    """
    Return the exit code of parameters that meet a demand: physical, plausible or None.

    Raises
    ------
    ConsistencyError
        where they do not.

    """
    if demand is not None and not physical:
        raise ConsistencyError(
            'the parameters are not physically consistent',
            remedy='see the table above for the links and joints concerned; '
            'estimation.method: physical finds parameters that are',
        )
    if demand == 'plausible' and not plausible:
        raise ConsistencyError(
            'the parameters are not plausible',
            remedy='see the findings above; correct the URDF or the recording, or state what is '
            'known of masses in estimation.physical',
        )
    return EXIT_OK


@contextmanager
def without_collection() -> Iterator[None]:
    """Import many modules without the garbage collector, which finds nothing in them."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show our own warnings without the place in the program that they come from."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def plain(message: Any, category: type[Warning], *place: Any, **rest: Any) -> None:
            if issubclass(category, IdentificationWarning):
                warn([str(message)])
            else:
                shown(message, category, *place, **rest)

        warnings.showwarning = plain
        yield


_BOLD, _RED, _GREEN, _YELLOW = '1', '31;1', '32;1', '33;1'
_VERDICTS = {'Good': _GREEN, 'Usable': _YELLOW, 'Do not use': _RED}


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return a text in a style (numbers of ANSI's SGR) for a terminal with colours."""
    plain = os.environ.get('NO_COLOR') or os.environ.get('TERM', '') in ('', 'dumb')
    return f'\033[{style}m{text}\033[0m' if style and stream.isatty() and not plain else text


def show(text: str) -> None:
    """Print tables and verdicts to standard output, with headings and verdict set off."""
    for line in text.split('\n'):
        style = _BOLD if line.startswith(('== ', '-- ')) else ''
        style = next((s for word, s in _VERDICTS.items() if line.startswith(f'{word} ')), style)
        print(paint(line, style, sys.stdout))


def write(path: Path, text: str) -> None:
    """Write a file and print its path; raises IdentificationError where that is impossible."""
    try:
        path.write_text(text, encoding='utf-8')
    except OSError as error:
        raise IdentificationError(
            f"cannot write '{path}': {error.strerror}", file=str(path)
        ) from error
    print(f'wrote {path}')


def warn(texts: Iterable[str]) -> None:
    """Print warnings to standard error, one a line."""
    for text in texts:
        print(f'{paint("warning:", _YELLOW, sys.stderr)} {text}', file=sys.stderr)


def fail(reason: object, code: int) -> int:
    """Print why the command failed, in one line, and return the exit code."""
    print(f'{paint("error:", _RED, sys.stderr)} {reason}', file=sys.stderr)
    return code
