# SPDX-License-Identifier: Apache-2.0
"""Interface of workers that call functions, and the parts that all kinds share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

Task = Callable[[bytes, Any], Any]
"""Work for one item; its first argument is what the crew was given for all of them."""

KEPT_BYTES, LARGEST_BLOCK = 128 * 1024**2, 32 * 1024**2
"""
Memory that a worker process keeps for its next recording, and blocks that are taken from it.

Left alone, the C library gives arrays of a recording back to the system and gets them again for
the next, page by page: a third of a short recording's time.  Dask asks it to do so even sooner.
"""


class Crew(Protocol):
    """
    Workers that take calls.

    Attributes
    ----------
    name:
        What it is, for the report.
    workers:
        How many calls are worked on at a time.
    ahead:
        How many items of a worker should be under way: those that it works on, and the next ones.

    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def workers(self) -> int: ...  # noqa: D102

    @property
    def ahead(self) -> int: ...  # noqa: D102

    def submit(self, task: Task, item: Any, *, alone: bool = False) -> Future:
        """Take ``item``, to work on it with others, or ``alone``; see `dispatch`."""
        ...

    def dispatch(self) -> None:
        """Begin to work on what was taken, where that was not done at once."""
        ...

    def look_after(self) -> None:
        """Replace workers that are missing; called when nothing was finished for a while."""
        ...

    def renew(self) -> None:
        """Go on after a worker was lost."""
        ...

    def single(self) -> Any:
        """Return a context that gives a crew of one worker, in which culprits can be told."""
        ...
