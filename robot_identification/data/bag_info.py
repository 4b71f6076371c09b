# SPDX-License-Identifier: Apache-2.0
"""Time and remarks of a bag, without its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
import sqlite3
import struct
from typing import Any

import yaml

from ..untrusted.files import open_regular, read_text
from ..untrusted.yaml_loader import load_yaml
from .bag_metadata import (
    KEY,
    MARK,
    RECORD,
    RECORD_KEY,
)
from .mcap_records import (
    METADATA,
    METADATA_INDEX,
    read_string,
    read_string_map,
    read_summary,
    records_of,
    STATISTICS,
)
from .sqlite_reader import open_database


@dataclass(frozen=True)
class BagInfo:
    """
    Description of a bag from its metadata.

    Attributes
    ----------
    start:
        Time of its first message [s since 1970]; None where it does not tell.
    custom:
        What ``ros2 bag record --custom-data KEY=VALUE`` noted.

    """

    start: float | None = None
    custom: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """Reason of an early end, as given to the recorder; '' without one."""
        return self.custom.get(MARK, '')


def bag_info(bag: Path) -> BagInfo:
    """
    Tell a bag's start and custom data.

    Parameters
    ----------
    bag:
        A bag's folder, or an ``.mcap`` or ``.db3`` file.

    Returns
    -------
    What is known; nothing of a file that is damaged, unfinished or no bag, which is for who reads
    its messages to say.

    """
    try:
        if bag.is_dir():
            text = read_text(bag / 'metadata.yaml')
            return _from_document(_mapping(text).get(KEY))
        if bag.suffix == '.mcap':
            return _about_mcap(bag)
        if bag.suffix == '.db3':
            return _about_sqlite(bag)
    except (OSError, ValueError, struct.error, sqlite3.Error, yaml.YAMLError):
        pass
    return BagInfo()


def _mapping(text: str) -> Mapping[str, Any]:
    document = load_yaml(text)
    return document if isinstance(document, Mapping) else {}


def _from_document(information: Any) -> BagInfo:
    """Read rosbag2's description of a bag."""
    if not isinstance(information, Mapping):
        return BagInfo()
    start: Any = information.get('starting_time')
    if isinstance(start, Mapping):
        start = start.get('nanoseconds_since_epoch')
    custom = information.get('custom_data')
    return BagInfo(
        1e-9 * start if isinstance(start, int) and information.get('message_count') else None,
        {str(k): str(v) for k, v in custom.items()} if isinstance(custom, Mapping) else {},
    )


def _about_mcap(bag: Path) -> BagInfo:
    """Read the summary at the end of the file, and the metadata record that it points at."""
    with open_regular(bag) as stream:
        summary = read_summary(stream)
        if summary is None:
            return BagInfo()
        began, place = None, None
        for code, content in records_of(summary):
            if code == STATISTICS:
                messages, *_, first, _ = struct.unpack_from('<QHIIIIQQ', content)
                began = 1e-9 * first if messages else None
            elif code == METADATA_INDEX and read_string(content, 16)[0] == RECORD:
                place = struct.unpack_from('<QQ', content)
        if place is None:
            return BagInfo(began)
        start, length = place
        stream.seek(start)
        for code, content in records_of(memoryview(stream.read(min(length, bag.stat().st_size)))):
            if code == METADATA:
                _, at = read_string(content, 0)
                text = read_string_map(content, at).get(RECORD_KEY, '')
                return BagInfo(began, _custom(text))
    return BagInfo(began)


def _about_sqlite(bag: Path) -> BagInfo:
    connection = open_database(bag)
    try:
        (first,) = connection.execute('SELECT min(timestamp) FROM messages').fetchone()
        began = 1e-9 * first if isinstance(first, int) else None
        try:
            row = connection.execute('SELECT metadata FROM metadata').fetchone()
        except sqlite3.Error:  # written before ROS 2 Iron
            row = None
    finally:
        connection.close()
    if row is None:
        return BagInfo(began)
    return BagInfo(began, _custom(row[0]))


def _custom(text: Any) -> Mapping[str, str]:
    """Read what was noted in the description that a storage file holds."""
    inner = _mapping(text) if isinstance(text, str) else {}
    return _from_document(inner.get(KEY, inner)).custom
