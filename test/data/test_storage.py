# SPDX-License-Identifier: Apache-2.0
"""Bulk reading equals rosbags' reading message by message, to the last bit."""

from __future__ import annotations

import contextlib
from pathlib import Path
import sqlite3
import struct
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.opcode import Opcode
from mcap.writer import CompressionType, IndexType
from mcap.writer import Writer as McapWriter
import numpy as np
import pytest
from robot_identification.data import mcap_storage
from robot_identification.data.bag import (
    bag_info,
    BagInfo,
    joint_state_messages,
)
from robot_identification.data.joint_state import decode, Messages
from robot_identification.data.mcap_storage import mcap_summary, parts_of
from robot_identification.data.recording import SIGNALS
from robot_identification.errors import RecordingError
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer
from rosbags.typesys import get_typestore, Stores

STORE = get_typestore(Stores.ROS2_JAZZY)
KIND = 'sensor_msgs/msg/JointState'
WANTED = {'position': ('b', 'arm_1', 'ß'), 'velocity': ('b',), 'effort': ('ß', 'arm_1')}
NAMES = ('arm_1', 'b', 'ß', 'a_long_name_of_a_gripper', '')
TOPIC = '/joint_states'
START = 1_763_700_000_000_000_000


def serialised(stamp, layout, rng, little_endian=True):
    """Return a message whose values are drawn again, some of them not finite."""
    names, frame, counts = layout
    arrays = [rng.choice([0.0, np.nan, np.inf, *rng.normal(size=9)], size=n) for n in counts]
    message = STORE.types[KIND](
        header=STORE.types['std_msgs/msg/Header'](
            stamp=STORE.types['builtin_interfaces/msg/Time'](*divmod(stamp, 10**9)),
            frame_id=frame,
        ),
        name=list(names),
        **dict(zip(SIGNALS, arrays, strict=True)),
    )
    return bytes(STORE.serialize_cdr(message, KIND, little_endian=little_endian))


@st.composite
def layouts(draw):
    """Names in any order, some of them twice; as many values as names, fewer, more, or none."""
    names = draw(st.lists(st.sampled_from(NAMES), max_size=6))
    counts = [len(names)] * 3
    for i in range(3):
        counts[i] = draw(st.sampled_from([len(names), len(names), 0, 1, len(names) + 2]))
    return tuple(names), draw(st.sampled_from(['', 'base_link'])), tuple(counts)


@st.composite
def recordings(draw):
    """Draw (topic, log time, message): runs of one layout, with others in between."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    palette = draw(st.lists(layouts(), min_size=1, max_size=4))
    time, found = START, []
    for _ in range(draw(st.integers(1, 6))):
        turn = draw(st.lists(st.sampled_from(range(len(palette))), min_size=1, max_size=3))
        topics = draw(st.lists(st.sampled_from([TOPIC, TOPIC, '/other']), min_size=1, max_size=3))
        endian = draw(st.sampled_from([True, True, True, False]))
        step = draw(st.sampled_from([1_000_000, 1_000_000, 0, -3_000_000]))
        for i in range(draw(st.integers(1, 30))):
            time = max(START, time + step)
            message = serialised(time + 7, palette[turn[i % len(turn)]], rng, endian)
            found.append((topics[i % len(topics)], time, message))
    return found


def by_library(path):
    """Return (time, message) of the topic, one after another."""
    with Reader(path) as reader:
        wanted = [c for c in reader.connections if c.topic == TOPIC]
        return [(time, bytes(data)) for _, time, data in reader.messages(connections=wanted)]


def in_bulk(path):
    parts = list(joint_state_messages(path, TOPIC))
    return parts, [(int(part.times[i]), part[i]) for part in parts for i in range(len(part))]


def expected(messages):
    """Decode by the library, message by message."""
    n_rows = len(messages)
    stamp = np.zeros(n_rows, dtype=np.int64)
    values = {k: np.full((n_rows, len(names)), np.nan) for k, names in WANTED.items()}
    present = {k: np.zeros((n_rows, len(names)), dtype=bool) for k, names in WANTED.items()}
    for row, data in enumerate(messages):
        message = STORE.deserialize_cdr(data, KIND)
        stamp[row] = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
        for signal, names in WANTED.items():
            array = getattr(message, signal)
            for column, name in enumerate(names):
                if name in message.name and message.name.index(name) < len(array):
                    values[signal][row, column] = array[message.name.index(name)]
                    present[signal][row, column] = True
    return stamp, values, present


def agree(parts, messages):
    states = [decode(part, WANTED) for part in parts]
    stamp, values, present = expected(messages)
    np.testing.assert_array_equal(np.concatenate([s.stamp for s in states]), stamp)
    for signal in SIGNALS:
        got = np.concatenate([s.values[signal] for s in states])
        np.testing.assert_array_equal(got.view(np.int64), values[signal].view(np.int64))
        got = np.concatenate([s.present[signal] for s in states])
        np.testing.assert_array_equal(got, present[signal])


def write_mcap(path, recording, compression, chunk, index=IndexType.ALL):
    with path.open('wb') as stream:
        writer = McapWriter(
            stream, chunk_size=chunk, compression=compression, index_types=index, enable_crcs=True
        )
        writer.start('ros2')
        schema = writer.register_schema(KIND, 'ros2msg', b'')
        channels = {
            topic: writer.register_channel(topic, 'cdr', schema) for topic in ('/other', TOPIC)
        }
        for topic, time, message in recording:
            writer.add_message(channels[topic], time, message, time)
        writer.finish()
    return path


@settings(max_examples=60)
@given(recordings(), st.sampled_from(list(CompressionType)), st.integers(200, 6000))
def test_mcap_in_bulk_is_what_the_library_reads(recording, compression, chunk):
    if TOPIC not in [topic for topic, *_ in recording]:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = write_mcap(Path(folder) / 'run.mcap', recording, compression, chunk)
        assert mcap_summary(path).is_indexed, 'else it is read from its start'
        parts, messages = in_bulk(path)
        assert messages == by_library(path)
        agree(parts, [data for _, data in messages])


@settings(max_examples=20)
@given(
    recordings(),
    st.sampled_from(
        [
            (StoragePlugin.SQLITE3, None),
            (StoragePlugin.SQLITE3, CompressionMode.MESSAGE),
            (StoragePlugin.MCAP, None),
            (StoragePlugin.MCAP, CompressionMode.STORAGE),
            (StoragePlugin.MCAP, CompressionMode.FILE),
        ]
    ),
)
def test_folders_in_bulk_are_what_the_library_reads(recording, way):
    plugin, compression = way
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'run'
        writer = Writer(path, version=9, storage_plugin=plugin)
        if compression is not None:
            writer.set_compression(compression, CompressionFormat.ZSTD)
        with writer:
            connections = {
                topic: writer.add_connection(topic, KIND, typestore=STORE)
                for topic in (TOPIC, '/other')
            }
            for topic, time, message in recording:
                writer.write(connections[topic], time, message)
        parts, messages = in_bulk(path)
        assert messages == by_library(path)
        if messages:
            agree(parts, [data for _, data in messages])


def layout_of(*names):
    return names, '', (len(names),) * 3


def alike(count, layout=None, step=1_000_000):
    rng = np.random.default_rng(3)
    layout = layout_of(*NAMES[:3]) if layout is None else layout
    return [(TOPIC, START + i * step, serialised(START + i, layout, rng)) for i in range(count)]


def test_a_missing_message_index_changes_nothing(tmp_path):
    index = ~IndexType.MESSAGE
    path = write_mcap(tmp_path / 'run.mcap', alike(300), CompressionType.NONE, 5000, index)
    assert in_bulk(path)[1] == [message[1:] for message in alike(300)]


def test_overlapping_chunks_come_in_the_order_of_time(tmp_path):
    rng = np.random.default_rng(1)
    order = np.argsort(np.arange(600) + 200 * rng.random(600), kind='stable')
    messages = alike(600)
    recording = [messages[i] for i in order]
    path = write_mcap(tmp_path / 'run.mcap', recording, CompressionType.ZSTD, 3000)
    assert in_bulk(path)[1] == by_library(path) == [m[1:] for m in messages]


def test_other_encodings_are_refused(tmp_path):
    path = tmp_path / 'run.mcap'
    with path.open('wb') as stream:
        writer = McapWriter(stream)
        writer.start('ros2')
        schema = writer.register_schema(KIND, 'ros2msg', b'')
        channel = writer.register_channel(TOPIC, 'protobuf', schema)
        writer.add_message(channel, START, b'{}', START)
        writer.finish()
    with pytest.raises(RecordingError, match=f'is of type {KIND} in protobuf'):
        in_bulk(path)


def test_stamps_from_before_the_epoch():
    """Seconds have a sign, as robots whose clock was never set may show."""
    stamps = [-2_000_000_001, -1, 0, 1, 2**31 * 10**9 - 1]
    rng, layout = np.random.default_rng(0), (('arm_1', 'b'), '', (2, 2, 2))
    messages = [serialised(stamp, layout, rng) for stamp in stamps]
    times = np.arange(len(stamps), dtype=np.int64)
    assert decode(Messages.from_bytes(messages, times), WANTED).stamp.tolist() == stamps


def test_what_fills_the_gaps_of_the_alignment_does_not_count():
    messages = [bytearray(data) for *_, data in alike(50)]
    plain = decode(Messages.from_bytes([bytes(m) for m in messages], range(50)), WANTED)
    for i, message in enumerate(messages):
        message[17:20] = bytes([i, 255 - i, 7])  # behind the empty frame_id
    filled = decode(Messages.from_bytes([bytes(m) for m in messages], range(50)), WANTED)
    for signal in SIGNALS:
        np.testing.assert_array_equal(plain.values[signal], filled.values[signal])


@pytest.mark.parametrize('place', [0, 1, 12, 16, 20, 24, 28, 40])
def test_every_byte_but_stamps_and_values_is_looked_at_in_every_message(place):
    """A count or a letter that differs in one message of many is met, wherever it is."""
    messages = [data for *_, data in alike(200)]
    for at in (1, 77, 199):
        changed = bytearray(messages[at])
        changed[place] ^= 0x04
        several = [*messages[:at], bytes(changed), *messages[at + 1 :]]
        try:
            stamp, values, present = expected(several)
        except Exception:
            with pytest.raises(ValueError, match=f'message {1000 + at}, received at 177.* is not'):
                decode(Messages.from_bytes(several, np.arange(200) + 177 * 10**9), WANTED, 1000)
            continue
        states = decode(Messages.from_bytes(several, range(200)), WANTED)
        for signal in SIGNALS:
            np.testing.assert_array_equal(states.values[signal], values[signal])
            np.testing.assert_array_equal(states.present[signal], present[signal])


def test_other_encapsulations_are_refused_by_number_and_time():
    messages = [data for *_, data in alike(20)]
    for header in (b'\x00\x03', b'\x00\x07', b'\x00\x0b', b'\x01\x01'):
        several = [*messages[:13], header + messages[13][2:], *messages[14:]]
        with pytest.raises(ValueError, match=r'message 13, received at 1\.000000013 s'):
            decode(Messages.from_bytes(several, np.arange(20) + 10**9), WANTED)


def test_messages_cut_short_are_refused_by_number():
    messages = [data for *_, data in alike(20)]
    for length in (0, 1, 3, 4, 11, 12, 20, len(messages[5]) - 1):
        several = [*messages[:5], messages[5][:length], *messages[6:]]
        with pytest.raises(ValueError, match='message 5, received at'):
            decode(Messages.from_bytes(several, range(20)), WANTED)


def test_the_index_is_used_where_there_is_one(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError('read without its index')

    monkeypatch.setattr(mcap_storage, '_whole_parts', refuse)
    for compression in CompressionType:
        write_mcap(tmp_path / 'run.mcap', alike(100), compression, 2000)
        assert len(in_bulk(tmp_path / 'run.mcap')[1]) == 100


def test_a_file_without_chunks_or_summary_is_read_from_its_start(tmp_path):
    path = tmp_path / 'run.mcap'
    with path.open('wb') as stream:
        writer = McapWriter(stream, use_chunking=False)
        writer.start('ros2')
        schema = writer.register_schema(KIND, 'ros2msg', b'')
        channel = writer.register_channel(TOPIC, 'cdr', schema)
        for _, time, message in alike(50):
            writer.add_message(channel, time, message, time)
        writer.finish()
    assert not mcap_summary(path).is_indexed
    assert in_bulk(path)[1] == by_library(path) == [m[1:] for m in alike(50)]
    data = bytearray(path.read_bytes())
    data[-28:-20] = struct.pack('<Q', 0)  # where the summary starts
    path.write_bytes(data)
    assert mcap_summary(path) is None
    assert in_bulk(path)[1] == [m[1:] for m in alike(50)]


@pytest.mark.parametrize('chunks', [1, 2])
def test_a_chunk_of_gigabytes_is_not_read(tmp_path, monkeypatch, chunks):
    """A hole in the file, which takes no room on the disk, would take the memory."""
    file = tmp_path / 'run.mcap'
    length = 3 << 30
    with file.open('wb') as stream:
        stream.write(mcap_storage.MAGIC)
        for _ in range(chunks):
            stream.write(struct.pack('<BQ', Opcode.CHUNK, length))
            stream.seek(length, 1)
        stream.truncate()
    bytes_of, read = mcap_storage._bytes_of, []
    monkeypatch.setattr(
        mcap_storage, '_bytes_of', lambda *part: read.append(len(data := bytes_of(*part))) or data
    )
    scan = mcap_storage.scan_mcap(file)
    assert len(scan.parts) == chunks - 1  # the last one is not whole
    refused = pytest.raises(ValueError, match='are the most')
    with refused if scan.parts else contextlib.nullcontext():
        list(scan.messages(lambda *_: True, {}))
    assert not read


def test_a_changed_byte_in_a_finished_bag_is_found(tmp_path):
    path = write_mcap(tmp_path / 'run.mcap', alike(100), CompressionType.NONE, 3000)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(Exception, match='checksum'):
        in_bulk(path)


def test_an_index_that_names_a_chunk_twice_is_refused(tmp_path):
    """Else a small file could stand for a very large one."""
    path = write_mcap(tmp_path / 'run.mcap', alike(100), CompressionType.ZSTD, 3000)
    data = bytearray(path.read_bytes())
    with path.open('rb') as stream:
        start = int.from_bytes(data[-28:-20], 'little')
        indices = [p for p in parts_of(stream, start, len(data) - 37) if p.opcode == 8]
    first, second = indices[0].start, indices[1].start
    data[second + 25 : second + 41] = data[first + 25 : first + 41]  # its place and length
    path.write_bytes(data)
    with pytest.raises(RecordingError, match='has a chunk twice'):
        in_bulk(path)


@pytest.mark.parametrize('start', [1, 2**63, 2**64 - 1])
def test_a_summary_that_is_elsewhere_is_damage(tmp_path, start):
    path = write_mcap(tmp_path / 'run.mcap', alike(100), CompressionType.ZSTD, 3000)
    data = bytearray(path.read_bytes())
    data[-28:-20] = struct.pack('<Q', start)
    path.write_bytes(data)
    with pytest.raises(RecordingError, match='is damaged'):
        in_bulk(path)


ENDLESS = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)'


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ('topics', 'messages'),
    [
        (None, f"VIEW messages AS {ENDLESS} SELECT x id, 1 topic_id, x timestamp, '' data FROM c"),
        (f"VIEW topics AS {ENDLESS} SELECT x id, '' name, '' type, 'cdr' serialization_format "
         'FROM c', None),
        (None, 'TABLE messages (id, topic_id, timestamp, data BLOB GENERATED ALWAYS AS '
         '(zeroblob(900000000)))'),
    ],
)  # fmt: skip
def test_databases_that_compute_are_refused(tmp_path, topics, messages):
    path = tmp_path / 'run.db3'
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            f'CREATE {topics}'
            if topics
            else 'CREATE TABLE topics (id, name, type, serialization_format)'
        )
        if topics is None:
            connection.execute(f"INSERT INTO topics VALUES (1, '{TOPIC}', '{KIND}', 'cdr')")
        connection.execute(
            f'CREATE {messages}' if messages else 'CREATE TABLE messages (id, topic_id, timestamp)'
        )
        connection.commit()
    assert bag_info(path) == BagInfo()
    with pytest.raises(RecordingError, match='is damaged'):
        list(joint_state_messages(path, TOPIC))
