# SPDX-License-Identifier: Apache-2.0
"""Files of rosbag2's storages: what is known of them without the libraries that read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import struct

from ..untrusted.files import open_regular

MAGIC = b'\x89MCAP0\r\n'

Select = Callable[[str, str], bool]
"""Return true for the topic names and types whose messages are wanted."""

RECORD, RECORD_KEY = 'rosbag2', 'serialized_metadata'
"""Name and key of the metadata record of an mcap file with the same as ``metadata.yaml``."""


def parse_errors() -> tuple[type[Exception], ...]:
    """Return the errors that are raised for a record that cannot be parsed."""
    ours = (ValueError, OverflowError, struct.error)
    try:
        from mcap.exceptions import McapError
    except ImportError:
        return ours
    return (*ours, McapError)


def begins_as_mcap(path: Path) -> bool:
    """Return true for a file that begins as mcap files do."""
    with open_regular(path) as stream:
        return stream.read(len(MAGIC)) == MAGIC


def has_end(path: Path) -> bool:
    """Return true for a file that ends as finished mcap files do."""
    with open_regular(path) as stream:
        stream.seek(-min(len(MAGIC), stream.seek(0, 2)), 2)
        return stream.read() == MAGIC


def require_all(count: int, promised: int) -> None:
    """Raise if messages are missing: a damaged chunk without a checksum shows only so."""
    if count < promised:
        raise ValueError(f'it holds {count} of {promised} messages on this topic')
