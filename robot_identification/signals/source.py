# SPDX-License-Identifier: Apache-2.0
"""Interface of a recording in blocks, the input of the signal processing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ..recording import Recording


class RecordingSource(Protocol):
    """
    A recording that is read in blocks, as often as wanted.

    A `Recording` in memory is one; a file that is too large for memory can be another.

    Attributes
    ----------
    joints:
        Names, in the order of the columns.

    """

    @property
    def joints(self) -> tuple[str, ...]:
        """Names, in the order of the columns."""
        ...

    def blocks(self, size: int) -> Iterator[Recording]:
        """Iterate over the recording in parts of at most ``size`` rows, from its start."""
        ...


def source_name(source: Any) -> str:
    """Return what a recording is called."""
    return str(getattr(source, 'source', 'recording'))
