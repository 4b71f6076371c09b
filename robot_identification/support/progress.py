# SPDX-License-Identifier: Apache-2.0
"""Progress of long computations, as a callback and as a bar on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import sys

Progress = Callable[[float, str], None]
"""Called with the share that is done (0 to 1) and what is being done."""


def no_progress(fraction: float, text: str) -> None:
    """Ignore the progress."""


def subrange(progress: Progress, start: float, end: float) -> Progress:
    """Return a progress function whose 0 to 1 is ``start`` to ``end`` of ``progress``."""
    return lambda fraction, text: progress(start + (end - start) * fraction, text)


@contextmanager
def progress_bar(*, enabled: bool = True, delay: float = 1.0) -> Iterator[Progress]:
    """
    Give a progress function that draws a bar on standard error, where that is a terminal.

    Parameters
    ----------
    enabled:
        False draws nothing.
    delay:
        Nothing is drawn for what takes less time than this [s].

    """
    from tqdm import tqdm

    with tqdm(
        total=1.0,
        delay=delay,
        leave=False,
        disable=not (enabled and sys.stderr.isatty()),
        bar_format='{desc} {percentage:3.0f}% |{bar}| {elapsed}',
    ) as bar:

        def progress(fraction: float, text: str) -> None:
            bar.set_description_str(f'{text[:44]:44}', refresh=False)
            bar.update(max(0.0, min(fraction, 1.0) - bar.n))

        yield progress
