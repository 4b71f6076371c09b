# SPDX-License-Identifier: Apache-2.0
"""Recordings that were cut off, completed: what is left of them, read by other readers."""

from __future__ import annotations

from itertools import pairwise
import os
import shutil
import struct
import time

from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
import pytest
from robot_identification.data import bag_repair
from robot_identification.data.bag import bag_info
from robot_identification.data.bag_repair import (
    is_complete,
    recordings_in,
    repair_bag,
)
from robot_identification.data.bag_writer import (
    BagWriter,
    message_definition,
    Qos,
    Topic,
    type_hash,
)
from robot_identification.errors import RecordingError
from rosbags.highlevel import AnyReader
from rosbags.typesys import get_typestore, Stores
import yaml

KIND = 'sensor_msgs/msg/JointState'
TOPIC = '/joint_states'
START = 1_700_000_000_000_000_000
COUNT = 40
STORE = get_typestore(Stores.ROS2_JAZZY)
QOS = yaml.safe_dump([Qos(depth=7).as_dict()])


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    """Do not wait for the disk: hundreds of bags are made here."""
    monkeypatch.setattr(os, 'fsync', lambda _: None)


def serialised(number: int) -> bytes:
    stamp = STORE.types['builtin_interfaces/msg/Time'](sec=number, nanosec=0)
    header = STORE.types['std_msgs/msg/Header'](stamp, '')
    import numpy as np

    values = np.full(2, float(number))
    message = STORE.types[KIND](header, ['a', 'b'], values, values, values)
    return bytes(STORE.serialize_cdr(message, KIND))


def our_bag(folder, count=COUNT, close=True, mark=''):
    """Write a bag with our writer, ten messages a chunk."""
    writer = BagWriter(folder, [Topic(TOPIC, KIND)], {'mark': mark} if mark else None)
    for i in range(count):
        writer.write(0, START + i, serialised(i), publish_time=START + i)
        if i % 10 == 9:
            writer.flush()
    writer.close() if close else writer.abandon()
    return folder


def foreign_bag(folder, compression=CompressionType.NONE, chunked=True, count=COUNT, first=0):
    """
    Write a bag as rosbag2's mcap plugin does, by the library of the format's makers.

    That is: its description at the beginning and at the end, schemas and channels in the chunk in
    which they are used first.
    """
    folder.mkdir(exist_ok=True)
    number = len(list(folder.glob('*.mcap')))
    description = {
        'version': 9,
        'storage_identifier': 'mcap',
        'custom_data': {'robot': 'tx40'},
        'ros_distro': 'jazzy',
    }
    with open(folder / f'{folder.name}_{number}.mcap', 'wb') as stream:
        writer = Writer(stream, chunk_size=1500, compression=compression, use_chunking=chunked)
        writer.start('ros2', 'libmcap 1.3.0')
        noted = {'serialized_metadata': yaml.safe_dump(description)}
        writer.add_metadata('rosbag2', noted)
        schema = writer.register_schema(KIND, 'ros2msg', message_definition(KIND).encode())
        about = {'offered_qos_profiles': QOS, 'topic_type_hash': type_hash(KIND)}
        channel = writer.register_channel(TOPIC, 'cdr', schema, about)
        for i in range(first, first + count):
            writer.add_message(channel, START + i, serialised(i), START + i)
        writer.add_metadata('rosbag2', noted)
        writer.finish()
    old = time.time() - 3600.0
    os.utime(folder / f'{folder.name}_{number}.mcap', (old, old))
    return folder


def file_of(bag):
    [file] = bag.glob('*.mcap')
    return file


def cut(bag, length):
    """Cut a bag's file as a killed recorder leaves it, without ``metadata.yaml``."""
    file = file_of(bag)
    old = file.stat().st_mtime
    file.write_bytes(file.read_bytes()[:length])
    os.utime(file, (old, old))
    (bag / 'metadata.yaml').unlink(missing_ok=True)
    return file


def put(bag, content):
    """Make a bag of an old file with this content alone, and return it."""
    shutil.rmtree(bag, ignore_errors=True)
    bag.mkdir()
    (bag / f'{bag.name}_0.mcap').write_bytes(content)
    os.utime(bag / f'{bag.name}_0.mcap', (1, 1))
    return content


def boundaries(raw):
    """Return where records of a file begin."""
    places, place = [8], 8
    while place + 9 <= len(raw) - 8:
        (length,) = struct.unpack_from('<Q', raw, place + 1)
        place += 9 + length
        places.append(place)
    return places


def numbers_by_others(bag):
    """Return the messages' numbers, as rosbags and the mcap library read them."""
    with AnyReader([bag]) as reader:
        by_rosbags = [reader.deserialize(d, c.msgtype).header.stamp.sec
                      for c, _, d in reader.messages()]  # fmt: skip
        assert reader.message_count == len(by_rosbags)
    by_mcap = []
    for file in sorted(bag.glob('*.mcap')):
        with open(file, 'rb') as stream:
            reader = make_reader(stream, validate_crcs=True)
            summary = reader.get_summary()
            read = [message.log_time - START for *_, message in reader.iter_messages()]
            assert summary.statistics.message_count == len(read)
            check_index(file.read_bytes(), summary)
            by_mcap += read
    assert by_rosbags == by_mcap
    return by_mcap


def check_index(raw, summary):
    """Check that the message indices are where the chunks' index says, and name messages."""
    indexed = 0
    for chunk in summary.chunk_indexes:
        for channel, place in chunk.message_index_offsets.items():
            opcode, _, number, size = struct.unpack_from('<BQHI', raw, place)
            assert (opcode, number) == (7, channel)
            indexed += size // 16
    if summary.chunk_indexes:
        assert indexed == summary.statistics.message_count


def check_repaired(bag, raw):
    """Check what holds after every repair; return the messages' numbers."""
    numbers = numbers_by_others(bag)
    assert numbers == list(range(len(numbers))), 'from the start, without holes'
    assert is_complete(bag)
    told = yaml.safe_load((bag / 'metadata.yaml').read_text())['rosbag2_bagfile_information']
    assert told['message_count'] == len(numbers)
    assert told['files'][0]['message_count'] == len(numbers)
    if raw is not None:
        [kept] = bag.glob('unfinished/*.mcap.unfinished')
        assert kept.read_bytes() == raw, 'nothing is taken away'
    # what `ros2 bag info` tells: its size is that of all files in the folder, others' included
    assert told['ros_distro'] == 'jazzy'
    files = {path.name: path.read_bytes() for path in bag.iterdir() if path.is_file()}
    assert set(files) == {'metadata.yaml', *told['relative_file_paths']}
    assert repair_bag(bag) == ()
    after = {path.name: path.read_bytes() for path in bag.iterdir() if path.is_file()}
    assert after == files
    return numbers


@pytest.mark.parametrize('around', [-1, 0, 1, 12])
def test_a_bag_of_ours_cut_near_any_record_is_completed(tmp_path, around):
    raw = file_of(our_bag(tmp_path / 'run')).read_bytes()
    places = boundaries(raw)
    for place in places[:-1]:
        if place + around >= len(raw):
            continue  # complete
        left = put(tmp_path / 'run', raw[: place + around])
        repair = repair_bag(tmp_path / 'run')
        assert 'written anew' in repair[0]
        ends = [b for a, b in pairwise(places) if raw[a] == Opcode.CHUNK]
        whole = 10 * sum(end <= place + around for end in ends)
        assert len(check_repaired(tmp_path / 'run', left)) == whole


@pytest.mark.parametrize('compression', list(CompressionType))
@pytest.mark.parametrize('chunked', [True, False])
def test_what_ros2_bag_record_left_is_completed(tmp_path, compression, chunked):
    raw = file_of(foreign_bag(tmp_path / 'run', compression, chunked)).read_bytes()
    for share in (0.2, 0.5, 0.9, 0.99):
        left = put(tmp_path / 'run', raw[: round(share * len(raw))])
        repair_bag(tmp_path / 'run')
        numbers = check_repaired(tmp_path / 'run', left)
        if share > 0.4:
            assert len(numbers) > 5
            with open(file_of(tmp_path / 'run'), 'rb') as stream:
                chunks = make_reader(stream).get_summary().chunk_indexes
            stored = compression.name.lower().replace('none', '') if chunked else ''
            assert {chunk.compression for chunk in chunks} == {stored}
    told = yaml.safe_load((tmp_path / 'run' / 'metadata.yaml').read_text())
    told = told['rosbag2_bagfile_information']
    [topic] = told['topics_with_message_count']
    assert topic['topic_metadata']['name'] == TOPIC
    assert topic['topic_metadata']['type'] == KIND
    assert topic['topic_metadata']['offered_qos_profiles'] == yaml.safe_load(QOS)
    assert topic['topic_metadata']['type_description_hash'] == type_hash(KIND)
    assert told['custom_data'] == {'robot': 'tx40'}
    assert told['ros_distro'] == 'jazzy'
    assert bag_info(file_of(tmp_path / 'run')).custom == {'robot': 'tx40'}


def test_loose_messages_out_of_order_and_what_lies_between_them(tmp_path):
    order = [5, 0, 3, 9, 1, 7, 2]
    (tmp_path / 'run').mkdir()
    with open(tmp_path / 'run' / 'run_0.mcap', 'wb') as stream:
        writer = Writer(stream, use_chunking=False)
        writer.start('ros2', 'another')
        schema = writer.register_schema(KIND, 'ros2msg', message_definition(KIND).encode())
        channel = writer.register_channel(TOPIC, 'cdr', schema)
        for i in order:
            writer.add_message(channel, START + i, serialised(i), START + i)
            if i in (3, 1):
                writer.add_attachment(START, START, 'photo', 'image/png', b'x' * 100)
        writer.finish()
    raw = file_of(tmp_path / 'run').read_bytes()
    ends = [after for place, after in pairwise(boundaries(raw)) if raw[place] == 5]
    put(tmp_path / 'run', raw[: ends[-1]])
    repair_bag(tmp_path / 'run')
    assert numbers_by_others(tmp_path / 'run') == sorted(order)


def test_a_bag_that_lacks_its_metadata_alone_gets_it(tmp_path):
    raw = file_of(our_bag(tmp_path / 'run', mark='the robot was stopped')).read_bytes()
    written = (tmp_path / 'run' / 'metadata.yaml').read_text()
    (tmp_path / 'run' / 'metadata.yaml').unlink()
    assert repair_bag(tmp_path / 'run') == (f'metadata.yaml: made for {COUNT} messages',)
    assert (tmp_path / 'run' / 'metadata.yaml').read_text() == written
    assert file_of(tmp_path / 'run').read_bytes() == raw
    assert bag_info(tmp_path / 'run').mark == 'the robot was stopped'


@pytest.mark.parametrize('text', ['', 'rosbag2_bagfile_inf', '\0' * 512])
def test_metadata_that_a_power_loss_cut_is_replaced_and_kept(tmp_path, text):
    our_bag(tmp_path / 'run')
    (tmp_path / 'run' / 'metadata.yaml').write_text(text)
    assert not is_complete(tmp_path / 'run')
    assert 'metadata.yaml.unfinished' in repair_bag(tmp_path / 'run')[0]
    kept = tmp_path / 'run' / 'unfinished' / 'metadata.yaml.unfinished'
    assert kept.read_text() == text
    check_repaired(tmp_path / 'run', None)


def test_of_a_bag_in_several_files_the_last_one_is_completed(tmp_path):
    foreign_bag(tmp_path / 'run')
    foreign_bag(tmp_path / 'run', first=COUNT)
    first, second = sorted((tmp_path / 'run').glob('*.mcap'))
    whole, size = first.read_bytes(), second.stat().st_size
    second.write_bytes(second.read_bytes()[: size // 2])
    os.utime(second, (1, 1))
    repair_bag(tmp_path / 'run')
    assert first.read_bytes() == whole
    numbers = numbers_by_others(tmp_path / 'run')
    assert COUNT < len(numbers) < 2 * COUNT
    assert numbers == list(range(len(numbers)))
    told = yaml.safe_load((tmp_path / 'run' / 'metadata.yaml').read_text())
    told = told['rosbag2_bagfile_information']
    assert told['message_count'] == len(numbers)
    assert told['relative_file_paths'] == ['run_0.mcap', 'run_1.mcap']


def test_a_recording_in_progress_is_left_alone(tmp_path):
    writer = BagWriter(tmp_path / 'run', [Topic(TOPIC, KIND)])
    writer.write(0, START, serialised(0), publish_time=START)
    writer.flush()
    before = writer.path.read_bytes()
    with pytest.raises(RecordingError, match='is being recorded .* stop its recorder'):
        repair_bag(tmp_path / 'run')
    assert [path.name for path in (tmp_path / 'run').iterdir()] == ['run_0.mcap']
    assert writer.path.read_bytes() == before
    writer.close()
    assert repair_bag(tmp_path / 'run') == ()


def test_a_file_of_others_has_to_be_quiet(tmp_path, monkeypatch):
    file = cut(foreign_bag(tmp_path / 'run'), 5000)
    os.utime(file)
    with pytest.raises(RecordingError, match='was written to 0 s ago'):
        repair_bag(tmp_path / 'run', quiet=60.0)
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        os.utime(file, (1, 1))

    monkeypatch.setattr(bag_repair.time, 'sleep', sleep)
    repair_bag(tmp_path / 'run')
    assert len(slept) == 1 and 0.0 < slept[0] <= bag_repair.QUIET


def test_a_file_that_grows_meanwhile_is_left_alone(tmp_path, monkeypatch):
    file = cut(our_bag(tmp_path / 'run'), 5000)
    rewrite = bag_repair.rewrite

    def slow(*arguments):
        with file.open('ab') as stream:
            stream.write(b'more')
        return rewrite(*arguments)

    monkeypatch.setattr(bag_repair, 'rewrite', slow)
    with pytest.raises(RecordingError, match='has changed meanwhile'):
        repair_bag(tmp_path / 'run')
    assert [path.name for path in (tmp_path / 'run').iterdir()] == [file.name]


def test_without_room_nothing_is_changed(tmp_path, monkeypatch):
    file = cut(our_bag(tmp_path / 'run'), 5000)
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(bag_repair.shutil, 'disk_usage', lambda _: usage)
    with pytest.raises(RecordingError, match='no room for another copy'):
        repair_bag(tmp_path / 'run')
    assert [path.name for path in (tmp_path / 'run').iterdir()] == [file.name]


@pytest.mark.parametrize('place', [(0, 2**62), (2**63, 10), (2**64 - 1, 2**64 - 1)])
def test_metadata_beyond_the_end_of_the_file_is_not_read(tmp_path, place):
    our_bag(tmp_path / 'run')
    file = file_of(tmp_path / 'run')
    raw = bytearray(file.read_bytes())
    index = next(at for at in boundaries(raw) if raw[at] == Opcode.METADATA_INDEX)
    assert bag_repair.file_info(file) is not None
    struct.pack_into('<QQ', raw, index + 9, *place)
    file.write_bytes(raw)
    assert bag_repair.file_info(file) is None


def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path):
    file = cut(our_bag(tmp_path / 'run'), 7000)
    data = bytearray(file.read_bytes())
    first = next(place for place in boundaries(data) if data[place] == Opcode.CHUNK)
    data[first + 200] ^= 1
    file.write_bytes(data)
    with pytest.raises(RecordingError, match='is damaged .*checksum'):
        repair_bag(tmp_path / 'run')
    assert [path.name for path in (tmp_path / 'run').iterdir()] == [file.name]
    file.write_bytes(b'hello')
    os.utime(file, (1, 1))
    with pytest.raises(RecordingError, match='does not begin as an mcap file'):
        repair_bag(tmp_path / 'run')


def test_a_repair_that_was_interrupted_is_done_anew(tmp_path):
    raw = cut(our_bag(tmp_path / 'run'), 8000).read_bytes()
    (tmp_path / 'run' / '.0123456789abcdef.new').write_bytes(b'half of it')
    assert not is_complete(tmp_path / 'run')
    repair_bag(tmp_path / 'run')
    check_repaired(tmp_path / 'run', raw)


def test_where_files_cannot_have_two_names_the_old_one_is_copied(tmp_path, monkeypatch):
    raw = cut(our_bag(tmp_path / 'run'), 8000).read_bytes()

    def refuse(*_):
        raise PermissionError(1, 'Operation not permitted')

    monkeypatch.setattr(bag_repair.os, 'link', refuse)
    repair_bag(tmp_path / 'run')
    check_repaired(tmp_path / 'run', raw)


def test_a_file_that_ends_in_its_first_bytes_becomes_an_empty_bag(tmp_path):
    raw = file_of(our_bag(tmp_path / 'run')).read_bytes()
    told = {
        0: 'is empty',
        3: 'has only 3 of its first 8 bytes',
        8: 'read up to its last complete chunk (8 of 8 bytes are whole)',
        12: 'read up to its last complete chunk (8 of 12 bytes are whole)',
        40: 'read up to its last complete chunk (',
    }
    for length, words in told.items():
        left = put(tmp_path / 'run', raw[:length])
        done = repair_bag(tmp_path / 'run')
        assert done[0].startswith(f'run_0.mcap: {words}')
        assert done[0].endswith("the old one is 'unfinished/run_0.mcap.unfinished'")
        assert check_repaired(tmp_path / 'run', left) == []


def test_a_single_file_is_completed_without_a_folder_about_it(tmp_path):
    file = cut(our_bag(tmp_path / 'run'), 8000)
    shutil.move(file, tmp_path / 'alone.mcap')
    assert not is_complete(tmp_path / 'alone.mcap')
    assert len(repair_bag(tmp_path / 'alone.mcap')) == 1
    assert is_complete(tmp_path / 'alone.mcap')
    assert not (tmp_path / 'metadata.yaml').exists()


def test_a_folder_of_recordings_is_gone_through(tmp_path):
    for name in ('b', 'a'):
        our_bag(tmp_path / name)
    (tmp_path / 'notes').mkdir()
    assert recordings_in(tmp_path) == [tmp_path / 'a', tmp_path / 'b']
    assert recordings_in(tmp_path / 'a') == [tmp_path / 'a']
    assert recordings_in(tmp_path / 'a' / 'a_0.mcap') == [tmp_path / 'a' / 'a_0.mcap']
    assert recordings_in(tmp_path / 'notes') == [tmp_path / 'notes']


def test_what_cannot_be_repaired_has_a_remedy(tmp_path):
    (tmp_path / 'old').mkdir()
    (tmp_path / 'old' / 'old_0.db3').write_bytes(b'')
    with pytest.raises(RecordingError, match='ros2 bag reindex -s sqlite3'):
        repair_bag(tmp_path / 'old')
    (tmp_path / 'none').mkdir()
    for path in (tmp_path / 'none', tmp_path / 'nowhere'):
        with pytest.raises(RecordingError, match='is no recording in mcap'):
            repair_bag(path)


def test_the_metadata_of_a_renamed_file_is_written_anew(tmp_path):
    bag = our_bag(tmp_path / 'bag')
    [file] = bag.glob('*.mcap')
    file.rename(bag / 'renamed.mcap')
    assert not is_complete(bag)
    done = repair_bag(bag)
    assert 'made for 40 messages' in done[-1]
    assert yaml.safe_load((bag / 'metadata.yaml').read_text())['rosbag2_bagfile_information'][
        'relative_file_paths'
    ] == ['renamed.mcap']
    assert is_complete(bag) and repair_bag(bag) == ()
