# SPDX-License-Identifier: Apache-2.0
"""Messages of mcap files and of rosbag2's sqlite3 files, which give the same arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType

from ..errors import importing
from .joint_state import Messages
from .sqlite_storage import sqlite_info, sqlite_messages
from .storage_kinds import Select


def stored_messages(file: Path, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
    """
    Iterate over messages by receive time, then by place in the file, some thousand at a time.

    An mcap file without an end or an index is read from its start, in the order of its chunks.

    Parameters
    ----------
    select:
        Topics that are wanted.
    topics:
        Is given the topics and their types.

    Raises
    ------
    ValueError
        for a damaged chunk, too few messages, or another kind of file; others of `parse_errors`
        for a record that cannot be parsed.  Data that cannot be decompressed raises errors of lz4
        and zstd, a damaged database those of sqlite3.
    RecordingError
        if the library mcap is needed and not installed.

    """
    if file.suffix == '.db3':
        yield from sqlite_messages(file, select, topics)
    elif file.suffix == '.mcap':
        yield from _mcap().mcap_messages(file, select, topics)
    else:
        raise ValueError('its name ends neither in .mcap nor in .db3')


def storage_info(file: Path) -> tuple[int | None, int | None, str]:
    """
    Read the first and last time of any message [ns], and rosbag2's description as text.

    Raises as `stored_messages`; an mcap file without a summary has neither.
    """
    if file.suffix == '.db3':
        return sqlite_info(file)
    return _mcap().mcap_info(file) if file.suffix == '.mcap' else (None, None, '')


def channel_publishers(file: Path, channels: Collection[int]) -> list[str]:
    """Return the nodes that channels of an mcap file are from, where it has them."""
    summary = _mcap().mcap_summary(file) if file.suffix == '.mcap' else None
    known = {} if summary is None else summary.channels
    return [known[each].metadata.get('callerid', '') for each in channels if each in known]


def _mcap() -> ModuleType:
    """Return the reader of mcap files; raises IdentificationError without its library."""
    with importing('mcap', 'reading mcap files'):
        from . import mcap_storage
    return mcap_storage
