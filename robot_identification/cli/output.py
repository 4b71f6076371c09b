# SPDX-License-Identifier: Apache-2.0
"""Exit codes, warnings and errors of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
import sys
from typing import Any
import warnings

from ..errors import ConsistencyError, IdentificationWarning

EXIT_OK, EXIT_STOPPED, EXIT_BAD_INPUT, EXIT_NOT_PHYSICAL, EXIT_SET_ASIDE = range(5)


def require_physical(physical: bool, required: bool) -> int:
    """Raise `ConsistencyError` if ``required`` and the parameters are not ``physical``."""
    if required and not physical:
        raise ConsistencyError(
            'the parameters are not physically consistent',
            remedy='see the table above for the links and joints concerned; '
            'estimation.method: physical finds parameters that are',
        )
    return EXIT_OK


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show our own warnings without the place in the program that they come from."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def plain(message: Any, category: type[Warning], *place: Any, **rest: Any) -> None:
            if issubclass(category, IdentificationWarning):
                warn([str(message)])
            else:
                show(message, category, *place, **rest)

        warnings.showwarning = plain
        yield


def warn(texts: Iterable[str]) -> None:
    """Print warnings to standard error, one a line."""
    for text in texts:
        print(f'warning: {text}', file=sys.stderr)


def fail(reason: object, code: int) -> int:
    """Print why the command failed, in one line, and return the exit code."""
    print(f'error: {reason}', file=sys.stderr)
    return code
