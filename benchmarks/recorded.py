# SPDX-License-Identifier: Apache-2.0
"""Long recordings in every format, written fast."""

from __future__ import annotations

from io import StringIO
from itertools import count
from pathlib import Path
import sqlite3

from mcap.writer import CompressionType, Writer
import numpy as np
from robot_identification.data.bag_writer import message_definition

KIND = 'sensor_msgs/msg/JointState'
TOPIC = '/joint_states'
JOINTS = tuple(f'panda_joint{number}' for number in range(1, 8))
SIGNALS = ('position', 'velocity', 'effort')
START = 1_763_700_000_123_456_789
PERIOD = 1_000_000
"""Of the samples [ns]."""

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
    """Write messages to an mcap file with chunks of a megabyte and its summary."""
    kinds = {'lz4': CompressionType.LZ4, 'zstd': CompressionType.ZSTD}
    with path.open('wb') as stream:
        writer = Writer(stream, compression=kinds.get(compression, CompressionType.NONE))
        writer.start('ros2')
        schema = writer.register_schema(KIND, 'ros2msg', message_definition(KIND).encode())
        channel = writer.register_channel(TOPIC, 'cdr', schema)
        for time, message in zip(count(START, PERIOD), messages):
            writer.add_message(channel, time, message.tobytes(), time)
        writer.finish()


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
