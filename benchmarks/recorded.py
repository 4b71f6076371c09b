# SPDX-License-Identifier: Apache-2.0
"""Long recordings in every format, written fast."""

from __future__ import annotations

from io import StringIO
from itertools import pairwise
from pathlib import Path
import sqlite3
import struct
from zlib import crc32

import numpy as np
from robot_identification.data import mcap_records as mcap
from robot_identification.data.message_definition import message_definition

KIND = 'sensor_msgs/msg/JointState'
TOPIC = '/joint_states'
JOINTS = tuple(f'panda_joint{number}' for number in range(1, 8))
SIGNALS = ('position', 'velocity', 'effort')
START = 1_763_700_000_123_456_789
PERIOD = 1_000_000
"""Of the samples [ns]."""

_CHUNK = 2900  # messages, which are about a megabyte
_LINES = 20_000  # rows of text that are repeated, since printing numbers takes long


def motion(n_rows: int) -> np.ndarray:
    """Draw (3, n_rows, 7) positions, velocities and efforts, smooth with a little noise."""
    random = np.random.default_rng(0)
    time = np.arange(n_rows)[:, None] * 1e-3
    slow = np.sin(time * (1.0 + 0.3 * np.arange(7)))
    return slow + random.normal(0.0, 1e-4, (3, *slow.shape))


def serialised(signals: np.ndarray) -> np.ndarray:
    """
    Serialise joint states in CDR, one a row of bytes.

    One message of rosbags' is the pattern; stamps and numbers are put into its copies.
    """
    from rosbags.typesys import get_typestore, Stores

    store = get_typestore(Stores.ROS2_JAZZY)
    marks = [np.full(7, 1234.5 + number) for number in range(3)]
    stamp = store.types['builtin_interfaces/msg/Time'](sec=1, nanosec=2)
    header = store.types['std_msgs/msg/Header'](stamp=stamp, frame_id='')
    message = store.types[KIND](header, list(JOINTS), *marks)
    pattern = bytes(store.serialize_cdr(message, KIND))
    n_rows = signals.shape[1]
    table = np.tile(np.frombuffer(pattern, np.uint8), (n_rows, 1))
    stamps = START + np.arange(n_rows) * PERIOD
    parts = np.stack([stamps // 10**9, stamps % 10**9], axis=1).astype('<u4')
    table[:, 4:12] = parts.view(np.uint8)
    for mark, values in zip(marks, signals, strict=True):
        place = pattern.index(mark.tobytes())
        table[:, place : place + mark.nbytes] = np.ascontiguousarray(values).view(np.uint8)
    return table


def write_mcap(path: Path, messages: np.ndarray, compression: str) -> None:
    """Write messages to an mcap file with chunks of about a megabyte and its summary."""
    n_rows, length = messages.shape
    kind = [('opcode', 'u1'), ('length', '<u8'), ('channel', '<u2'), ('sequence', '<u4')]
    kind += [('log', '<u8'), ('publish', '<u8'), ('data', f'V{length}')]
    definition = mcap.string(KIND) + mcap.string('ros2msg') + mcap.string(message_definition(KIND))
    channel = mcap.string(TOPIC) + mcap.string('cdr') + mcap.string_map({})
    described = mcap.record_of(mcap.SCHEMA, struct.pack('<H', 1) + definition)
    described += mcap.record_of(mcap.CHANNEL, struct.pack('<HH', 1, 1) + channel)
    summary = bytearray(described)
    with path.open('wb') as stream:
        stream.write(mcap.MAGIC)
        header = mcap.string('ros2') + mcap.string('robot_identification')
        stream.write(mcap.record_of(mcap.HEADER, header) + described)
        for first, stop in pairwise([*range(0, n_rows, _CHUNK), n_rows]):
            records = np.zeros(stop - first, dtype=kind)
            times = START + np.arange(first, stop) * PERIOD
            records['opcode'], records['length'] = mcap.MESSAGE, 22 + length
            records['channel'], records['log'], records['publish'] = 1, times, times
            records['data'] = messages[first:stop].view(f'V{length}')[:, 0]
            index = np.stack([times, np.arange(stop - first) * records.itemsize], axis=1)
            summary += _write_chunk(stream, records.tobytes(), index.astype('<u8'), compression)
        stream.write(mcap.record_of(mcap.DATA_END, struct.pack('<I', 0)))
        last = START + (n_rows - 1) * PERIOD
        counts = struct.pack('<QHIIIIQQ', n_rows, 1, 1, 0, 0, -(-n_rows // _CHUNK), START, last)
        summary += mcap.record_of(mcap.STATISTICS, counts + mcap.pair_list('HQ', [(1, n_rows)]))
        start = stream.tell()
        stream.write(summary + struct.pack('<BQQQI', mcap.FOOTER, 20, start, 0, 0) + mcap.MAGIC)


def _write_chunk(stream, records: bytes, index: np.ndarray, compression: str) -> bytes:
    """Write a chunk and its index; return its entry in the summary."""
    stored, name = records, '' if compression == 'none' else compression
    if compression == 'lz4':
        from lz4.frame import compress

        stored = compress(records)
    elif compression == 'zstd':
        from backports.zstd import compress

        stored = compress(records)
    first, last = int(index[0, 0]), int(index[-1, 0])
    fields = struct.pack('<QQQI', first, last, len(records), crc32(records))
    fields += mcap.string(name) + struct.pack('<Q', len(stored))
    chunk = mcap.record_of(mcap.CHUNK, fields + stored)
    entry = struct.pack('<HI', 1, index.nbytes) + index.tobytes()
    entry = mcap.record_of(mcap.MESSAGE_INDEX, entry)
    start = stream.tell()
    stream.write(chunk + entry)
    place = struct.pack('<QQQQ', first, last, start, len(chunk))
    place += mcap.pair_list('HQ', [(1, start + len(chunk))]) + struct.pack('<Q', len(entry))
    place += mcap.string(name) + struct.pack('<QQ', len(stored), len(records))
    return mcap.record_of(mcap.CHUNK_INDEX, place)


def write_sqlite(path: Path, messages: np.ndarray) -> None:
    """Write messages as rosbag2 does in sqlite3."""
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
            CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
                serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL,
                type_description_hash TEXT NOT NULL);
            CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL,
                encoding TEXT NOT NULL, encoded_message_definition TEXT NOT NULL,
                type_description_hash TEXT NOT NULL);
            CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL,
                timestamp INTEGER NOT NULL, data BLOB NOT NULL);
            CREATE INDEX timestamp_idx ON messages (timestamp ASC);
            INSERT INTO schema VALUES (4, 'jazzy');
            """)
        connection.execute('INSERT INTO topics VALUES (1, ?, ?, "cdr", "", "")', (TOPIC, KIND))
        rows = ((START + i * PERIOD, row.tobytes()) for i, row in enumerate(messages))
        connection.executemany(
            'INSERT INTO messages(topic_id, timestamp, data) VALUES (1, ?, ?)', rows
        )
    connection.close()


def write_csv(path: Path, signals: np.ndarray) -> None:
    """Write (3, n, 7) numbers with ten digits and a header; the first rows are repeated."""
    n_rows = signals.shape[1]
    text = StringIO()
    np.savetxt(text, np.hstack(list(signals[:, :_LINES])), '%.10g', ',')
    lines = text.getvalue().splitlines(keepends=True)
    with path.open('w') as stream:
        names = [f'{signal}{number}' for signal in SIGNALS for number in range(7)]
        stream.write(','.join(names) + '\n')
        for first in range(0, n_rows, _LINES):
            stream.write(''.join(lines[: n_rows - first]))
