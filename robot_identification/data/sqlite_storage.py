# SPDX-License-Identifier: Apache-2.0
"""Messages of rosbag2's sqlite3 files, in arrays."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
from pathlib import Path
import sqlite3

from ..untrusted.compressed import MAX_BLOCK
from ..untrusted.files import require_regular
from .delivery_order import WritingOrder
from .joint_state import Messages
from .storage_kinds import Select

_ROWS = 4096  # of a database that are read together


def sqlite_messages(file: Path, select: Select, topics: dict[str, str]) -> Iterator[Messages]:
    """Iterate over messages by receive time, then as written, some thousand at a time."""
    with contextlib.closing(_open_database(file)) as connection:
        wanted = []
        for number, *texts in connection.execute(
            'SELECT id, name, type, serialization_format FROM topics ORDER BY id'
        ):
            if not isinstance(number, int) or not all(isinstance(text, str) for text in texts):
                raise ValueError('its topics have no number, name or type')
            name, kind, form = texts
            topics[name] = kind = kind if form == 'cdr' else f'{kind} in {form}'
            if select(name, kind):
                wanted.append(number)
        if not wanted:
            return
        places = ','.join('?' for _ in wanted)
        step, time = connection.execute(
            'SELECT MIN(step), timestamp FROM (SELECT timestamp, timestamp - LAG(timestamp) OVER '
            '(PARTITION BY topic_id ORDER BY id) AS step FROM messages '
            f'WHERE topic_id IN ({places}))',
            wanted,
        ).fetchone()
        WritingOrder(file).require_forward(step or 0, time or 0)
        rows = connection.execute(
            f'SELECT timestamp, data FROM messages WHERE topic_id IN ({places}) '
            'ORDER BY timestamp, id',
            wanted,
        )
        while batch := rows.fetchmany(_ROWS):
            yield Messages.from_bytes([data for _, data in batch], [time for time, _ in batch])


def sqlite_info(path: Path) -> tuple[int, int, str]:
    """Read the first and last time of any message [ns], and rosbag2's description as text."""
    with contextlib.closing(_open_database(path)) as connection:
        first, last = connection.execute(
            'SELECT (SELECT MIN(timestamp) FROM messages), (SELECT MAX(timestamp) FROM messages)'
        ).fetchone()
        try:
            row = connection.execute('SELECT metadata FROM metadata').fetchone()
        except sqlite3.Error:  # written before ROS 2 Iron
            row = None
    return first, last, row[0] if row is not None and isinstance(row[0], str) else ''


def _open_database(path: Path) -> sqlite3.Connection:
    """
    Open a file with plain tables; a view or a computed column could run anything, without end.

    Raises
    ------
    OSError, sqlite3.Error
        if it cannot be read, or a table is not plain.

    """
    require_regular(path)
    # immutable: no locks and no journal, as on a disk that may only be read
    connection = sqlite3.connect(f'{path.absolute().as_uri()}?mode=ro&immutable=1', uri=True)
    try:
        connection.execute('PRAGMA trusted_schema = OFF')
        if hasattr(connection, 'setlimit'):  # since Python 3.11
            limit = getattr(sqlite3, 'SQLITE_LIMIT_LENGTH')  # noqa: B009
            connection.setlimit(limit, MAX_BLOCK)
        for table in ('topics', 'messages', 'metadata', 'schema'):
            _require_plain(connection, table)
    except BaseException:
        connection.close()
        raise
    return connection


def _require_plain(connection: sqlite3.Connection, name: str) -> None:
    for kind, sql in connection.execute(
        'SELECT type, sql FROM sqlite_master WHERE lower(name) = ?', (name,)
    ):
        virtual = 'virtual' in str(sql).lower().split('(')[0].split()
        columns = connection.execute(f'PRAGMA table_xinfo({name})').fetchall()
        if kind != 'table' or virtual or any(column[6] for column in columns):
            raise sqlite3.DatabaseError(f"'{name}' is not a plain table")
