# SPDX-License-Identifier: Apache-2.0
"""The bag writer against the readers of rosbags and mcap, and the words of rosbag2."""

from __future__ import annotations

import contextlib
import errno
from inspect import signature
from pathlib import Path
import struct

from hypothesis import given, HealthCheck, settings, strategies
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.reader import make_reader, NonSeekingReader
import numpy as np
import pytest
from robot_identification.data.bag_writer import (
    BagWriter,
    message_definition,
    Qos,
    Topic,
    type_hash,
)
from robot_identification.data.mcap_storage import MAGIC, parts_of
from robot_identification.errors import RecordingError
from rosbags.highlevel import AnyReader
from rosbags.typesys import get_typestore, Stores
import yaml

STORE = get_typestore(Stores.ROS2_JAZZY)
JOINT_STATE = 'sensor_msgs/msg/JointState'
START = 1_700_000_000_000_000_000


def serialised(nanoseconds: int, values) -> bytes:
    Header, Time = STORE.types['std_msgs/msg/Header'], STORE.types['builtin_interfaces/msg/Time']
    values = np.asarray(values, dtype=float)
    seconds, rest = divmod(nanoseconds, 10**9)
    message = STORE.types[JOINT_STATE](
        Header(Time(seconds, rest), ''),
        [f'joint_{i}' for i in range(values.size)],
        values,
        2 * values,
        3 * values,
    )
    return bytes(STORE.serialize_cdr(message, JOINT_STATE))


def write_bag(folder: Path, count: int, flush_each: int = 100, topics=('/joint_states',)):
    writer = BagWriter(folder, [Topic(name, JOINT_STATE) for name in topics], {'robot': 'tx40'})
    for i in range(count):
        stamp = START + i * 1_000_000
        for topic in range(len(topics)):
            writer.write(topic, stamp + topic, serialised(stamp, [i, topic]), publish_time=stamp)
        if i % flush_each == flush_each - 1:
            writer.flush()
    return writer


def recovered(path: Path) -> list[int]:
    """Log times of the messages that come before the place where the file ends too early."""
    times = []
    with open(path, 'rb') as file, contextlib.suppress(McapError, struct.error):
        for *_, message in NonSeekingReader(file).iter_messages(log_time_order=False):
            times.append(message.log_time)
    return times


def test_what_is_written_is_read_back_by_rosbags(tmp_path):
    topics = ('/joint_states', '/motor_states')
    with write_bag(tmp_path / 'run', 350, topics=topics) as writer:
        assert writer.messages == 700
    with AnyReader([tmp_path / 'run']) as reader:
        assert reader.message_count == 700
        assert reader.start_time == START
        assert {c.topic: c.msgcount for c in reader.connections} == dict.fromkeys(topics, 350)
        for index, topic in enumerate(topics):
            connections = [c for c in reader.connections if c.topic == topic]
            messages = list(reader.messages(connections))
            assert [t for _, t, _ in messages] == [START + i * 10**6 + index for i in range(350)]
            for i, (connection, _, data) in enumerate(messages):
                message = reader.deserialize(data, connection.msgtype)
                assert message.position.tolist() == [i, index]
                assert message.effort.tolist() == [3.0 * i, 3.0 * index]


def test_the_summary_agrees_with_the_mcap_library(tmp_path):
    with write_bag(tmp_path / 'run', 250):
        pass
    path = tmp_path / 'run' / 'run_0.mcap'
    with open(path, 'rb') as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        statistics = summary.statistics
        assert statistics.message_count == 250
        assert statistics.channel_message_counts == {1: 250}
        assert statistics.chunk_count == len(summary.chunk_indexes) == 3
        assert (statistics.message_start_time, statistics.message_end_time) == (
            START,
            START + 249 * 10**6,
        )
        assert summary.schemas[1].name == JOINT_STATE
        assert summary.schemas[1].encoding == 'ros2msg'
        assert summary.channels[1].message_encoding == 'cdr'
        assert [m.name for m in reader.iter_metadata()] == ['rosbag2']
        # mcap 1.6 has another name for the bound
        named = signature(reader.iter_messages).parameters
        bound = {'starting_at' if 'starting_at' in named else 'start_time': START + 100 * 10**6}
        times = [m.log_time for *_, m in reader.iter_messages(**bound)]
        assert times == [START + i * 10**6 for i in range(100, 250)]


def test_metadata_is_what_rosbag2_writes(tmp_path):
    qos = Qos(history='keep_last', depth=10, reliability='reliable', durability='volatile')
    with BagWriter(tmp_path / 'run', [Topic('/joint_states', JOINT_STATE, (qos,))]) as writer:
        writer.write(0, START, serialised(START, [1.0]), publish_time=START)
    text = (tmp_path / 'run' / 'metadata.yaml').read_text()
    bag = yaml.safe_load(text)['rosbag2_bagfile_information']
    assert bag['version'] == 9
    assert bag['storage_identifier'] == 'mcap'
    assert bag['relative_file_paths'] == ['run_0.mcap']
    assert bag['files'][0]['message_count'] == bag['message_count'] == 1
    assert bag['starting_time'] == {'nanoseconds_since_epoch': START}
    assert bag['duration'] == {'nanoseconds': 0}
    topic = bag['topics_with_message_count'][0]['topic_metadata']
    forever = {'sec': 9223372036, 'nsec': 854775807}
    assert topic == {
        'name': '/joint_states',
        'type': JOINT_STATE,
        'serialization_format': 'cdr',
        'offered_qos_profiles': [
            {
                'history': 'keep_last',
                'depth': 10,
                'reliability': 'reliable',
                'durability': 'volatile',
                'deadline': forever,
                'lifespan': forever,
                'liveliness': 'automatic',
                'liveliness_lease_duration': forever,
                'avoid_ros_namespace_conventions': False,
            }
        ],
        'type_description_hash': type_hash(JOINT_STATE),
    }
    with open(tmp_path / 'run' / 'run_0.mcap', 'rb') as file:
        channel = make_reader(file).get_summary().channels[1]
    assert (
        yaml.safe_load(channel.metadata['offered_qos_profiles']) == topic['offered_qos_profiles']
    )
    assert channel.metadata['topic_type_hash'] == topic['type_description_hash']
    with AnyReader([tmp_path / 'run']) as reader:
        assert reader.connections[0].ext.offered_qos_profiles[0].depth == 10


def test_a_killed_writer_leaves_everything_up_to_its_last_flush(tmp_path):
    writer = write_bag(tmp_path / 'run', 250, flush_each=100)
    assert not (tmp_path / 'run' / 'metadata.yaml').exists()
    assert recovered(writer.path) == [START + i * 10**6 for i in range(200)]
    writer.abandon()


@pytest.fixture(scope='module')
def unfinished(tmp_path_factory):
    """Return the bytes of a bag that was not closed, and where its chunks of 50 messages end."""
    writer = write_bag(tmp_path_factory.mktemp('cut') / 'run', 300, flush_each=50)
    writer.abandon()
    with open(writer.path, 'rb') as stream:
        parts = list(parts_of(stream, len(MAGIC), writer.size))
    return writer.path.read_bytes(), [part.end for part in parts if part.opcode == Opcode.CHUNK]


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=strategies.floats(0.0, 1.0))
def test_a_file_cut_anywhere_has_its_whole_chunks(unfinished, tmp_path, cut):
    raw, ends = unfinished
    length = round(cut * len(raw))
    path = tmp_path / 'cut.mcap'
    path.write_bytes(raw[:length])
    assert len(recovered(path)) == 50 * sum(end <= length for end in ends)


def test_an_empty_bag_is_a_valid_one(tmp_path):
    with BagWriter(tmp_path / 'run', [Topic('/joint_states', JOINT_STATE)]):
        pass
    with AnyReader([tmp_path / 'run']) as reader:
        assert reader.message_count == 0
    with open(tmp_path / 'run' / 'run_0.mcap', 'rb') as file:
        assert make_reader(file, validate_crcs=True).get_summary().statistics.message_count == 0


def test_a_large_message_starts_a_new_chunk_by_itself(tmp_path):
    with BagWriter(tmp_path / 'run', [Topic('/joint_states', JOINT_STATE)]) as writer:
        for i in range(3):
            data = serialised(START, np.full(30_000, float(i)))
            writer.write(0, START + i, data, publish_time=START)
        size = writer.path.stat().st_size
    assert size > 2 * 24 * 30_000, 'two megabyte-sized chunks are on disk before any flush'


def test_closing_twice_does_nothing(tmp_path):
    writer = write_bag(tmp_path / 'run', 10)
    writer.close()
    before = writer.path.read_bytes()
    writer.close()
    assert writer.path.read_bytes() == before


def test_an_existing_folder_is_refused(tmp_path):
    (tmp_path / 'run').mkdir()
    with pytest.raises(RecordingError, match='exists already: use another name') as error:
        BagWriter(tmp_path / 'run', [Topic('/joint_states', JOINT_STATE)])
    assert error.value.file == str(tmp_path / 'run')


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(RecordingError, match='cannot write the bag .*file/run.*Not a directory'):
        BagWriter(tmp_path / 'file' / 'run', [Topic('/joint_states', JOINT_STATE)])


class _FullDisk:
    """A file on a disk that takes so many bytes more."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        taken = min(self.room, len(data))
        if not taken:
            raise OSError(errno.ENOSPC, 'No space left on device')
        self.room -= taken
        return self.file.write(data[:taken])

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_full_disk_is_an_error_and_what_was_flushed_stays(tmp_path):
    writer = write_bag(tmp_path / 'run', 100)
    writer._file._file = _FullDisk(writer._file._file, 700)
    for i in range(100):
        writer.write(0, START + i, serialised(START, [1.0]), publish_time=START)
    with pytest.raises(RecordingError, match='No space left on device'):
        writer.flush()
    assert recovered(writer.path) == [START + i * 10**6 for i in range(100)]
    with pytest.raises(RecordingError, match='No space left on device'):
        writer.close()
    assert writer.messages == 100
    assert recovered(writer.path) == [START + i * 10**6 for i in range(100)]


def test_what_a_full_disk_refused_is_written_when_there_is_room(tmp_path):
    writer = write_bag(tmp_path / 'run', 100)
    writer._file._file = disk = _FullDisk(writer._file._file, 700)
    for i in range(100, 200):
        writer.write(0, START + i * 10**6, serialised(START, [1.0]), publish_time=START)
    with pytest.raises(RecordingError, match='No space left on device'):
        writer.flush()
    disk.room = 1 << 20
    writer.close()
    with AnyReader([tmp_path / 'run']) as reader:
        assert [t for _, t, _ in reader.messages()] == [START + i * 10**6 for i in range(200)]


def test_the_definition_has_every_part_once_and_rosbags_reads_it():
    from rosbags.typesys import get_types_from_msg

    text = message_definition(JOINT_STATE)
    types = get_types_from_msg(text, JOINT_STATE)
    assert set(types) == {JOINT_STATE, 'std_msgs/msg/Header', 'builtin_interfaces/msg/Time'}
    assert text.count('MSG: std_msgs/Header') == text.count('MSG: builtin_interfaces/Time') == 1


def test_the_hash_is_the_one_that_ros_uses():
    # as ROS 2 Jazzy reports it for the publishers of joint_state_broadcaster
    assert type_hash(JOINT_STATE) == (
        'RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e'
    )
