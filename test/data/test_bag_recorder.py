# SPDX-License-Identifier: Apache-2.0
"""Tests that messages offered to the recorder are in the bag, or counted as dropped."""

from __future__ import annotations

import os
from pathlib import Path
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time as clock

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.bag_recorder import BagRecorder, header_stamp
from robot_identification.data.bag_writer import Topic
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import IdentificationWarning, RecordingError
from rosbags.highlevel import AnyReader
from rosbags.typesys import get_typestore, Stores

STORE = get_typestore(Stores.ROS2_JAZZY)
KIND = 'sensor_msgs/msg/JointState'
TOPIC = Topic('/joint_states', KIND)
JOINTS = ('elbow', 'shoulder')


def serialised(stamp: int, values=(1.0, 2.0), little_endian: bool = True) -> bytes:
    header = STORE.types['std_msgs/msg/Header']
    moment = STORE.types['builtin_interfaces/msg/Time'](*divmod(stamp, 10**9))
    array = np.array(values, dtype=float)
    message = STORE.types[KIND](header(moment, ''), list(JOINTS), array, array, array)
    return bytes(STORE.serialize_cdr(message, KIND, little_endian=little_endian))


@pytest.mark.parametrize('little_endian', [True, False])
def test_the_stamp_is_read_in_either_byte_order(little_endian):
    stamp = 1_700_000_001_234_567_890
    assert header_stamp(serialised(stamp, little_endian=little_endian)) == stamp
    assert header_stamp(b'\x00\x01\x00\x00\x00') is None


def test_everything_offered_is_written_and_described(tmp_path):
    recorder = BagRecorder(tmp_path / 'run', [TOPIC])
    for i in range(1000):
        if i != 500:
            recorder.offer(0, i, i, serialised(i * 10**6))
    recorder.lost = 3
    status = recorder.stop()
    assert (status.messages, status.dropped, status.gaps) == (999, 3, 1)
    assert status.duration == pytest.approx(0.999)
    assert status.rate == pytest.approx(998 / 0.999)
    assert status.longest_gap == pytest.approx(0.002)
    assert status.message == 'the middleware lost 3 messages; the stamps have 1 gaps'
    with AnyReader([tmp_path / 'run']) as reader:
        assert [log for _, log, _ in reader.messages()] == [i for i in range(1000) if i != 500]


@pytest.mark.parametrize('back', [3 * 10**8, 5 * 10**9, 17 * 10**17])
def test_a_clock_that_is_set_back_leaves_messages_in_their_order(tmp_path, back):
    """
    Readers sort by the time of reception, which is simulated where use_sim_time is true.

    As where a simulation begins again, or a /clock comes first after the recording has begun.
    """
    begin, step, count = 10**9 + 17 * 10**17, 4 * 10**6, 500
    moments = begin + np.arange(2 * count) * step - back * (np.arange(2 * count) >= count)
    recorder = BagRecorder(tmp_path / 'run', [TOPIC])
    for i, moment in enumerate(moments.tolist()):
        recorder.offer(0, moment, moment, serialised(moment, [i, -i]))
    assert recorder.stop().message == '1 stamps are not later than the one before'
    with AnyReader([tmp_path / 'run']) as reader:
        found = [(log, reader.deserialize(data, KIND)) for _, log, data in reader.messages()]
    assert [state.position[0] for _, state in found] == list(range(2 * count))
    logs = np.array([log for log, _ in found])
    assert (logs[:count] == moments[:count]).all() and (np.diff(logs) >= 0).all()
    # a second of it may be lost, no more
    assert logs[-1] - logs[0] >= (2 * count - 1) * step - 10**9
    if back > 10**9:
        entry = RecordingEntry(file=str(tmp_path / 'run'), format='rosbag2', topic=TOPIC.name)
        with pytest.raises(RecordingError, match='goes back in time: the clock was set back'):
            list(open_recording(entry, JOINTS).blocks())


def test_a_full_queue_drops_and_counts(tmp_path):
    recorder = BagRecorder(tmp_path / 'run', [TOPIC], capacity=10)
    release = threading.Event()
    write = recorder._writer.write
    recorder._writer.write = lambda *a, **k: (release.wait(5.0), write(*a, **k))
    for i in range(50):
        recorder.offer(0, i, i, serialised(i))
    release.set()
    status = recorder.stop()
    assert status.messages + status.dropped == 50
    assert status.messages == 10, 'those on their way to the disk count, too'
    assert (status.overflowed, status.lost, status.waiting) == (40, 0, 0)
    assert 'the disk was too slow for' in status.message


def test_the_core_reads_what_was_recorded(tmp_path):
    recorder = BagRecorder(tmp_path / 'run', [TOPIC])
    for i in range(300):
        recorder.offer(0, i, i, serialised(10**18 + i * 10**6, [i, -i]))
    recorder.stop()
    source = open_recording(RecordingEntry(file=str(tmp_path / 'run')), JOINTS[::-1])
    blocks = list(source.blocks(1000))
    assert {block.joints for block in blocks} == {('shoulder', 'elbow')}
    position = np.concatenate([block.position for block in blocks])
    assert position.tolist() == [[-i, i] for i in range(300)]
    time = np.concatenate([block.time for block in blocks])
    assert np.diff(time) == pytest.approx(1e-3, abs=1e-6)


KILLED = """
import sys, time
sys.path.insert(0, {here!r})
from test_bag_recorder import BagRecorder, serialised, TOPIC

recorder = BagRecorder(sys.argv[1], [TOPIC])
for i in range(100_000):
    recorder.offer(0, i, i, serialised(i * 10**6, [i, -i]))
    time.sleep(0.001)
    print(i, flush=True)
"""


def test_the_core_reads_what_a_killed_recorder_left(tmp_path):
    code = KILLED.format(here=str(Path(__file__).parent))
    with subprocess.Popen(
        [sys.executable, '-c', code, str(tmp_path / 'run')],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    ) as process:
        for line in process.stdout:
            if int(line) == 0:
                started = clock.monotonic()
            elif clock.monotonic() - started > 2.0:
                break
        os.kill(process.pid, signal.SIGKILL)
        offered = int(line) + 1
        process.stdout.read()
    source = open_recording(RecordingEntry(file=str(tmp_path / 'run')), JOINTS)
    with pytest.warns(IdentificationWarning, match='read up to its last complete chunk'):
        blocks = list(source.blocks(100_000))
    position = np.concatenate([block.position[:, 0] for block in blocks])
    read = len(position)
    assert position.tolist() == list(range(read)), 'from the start, without holes'
    assert read >= 0.5 * offered, 'at most the last second of two is lost'


def test_an_error_of_the_disk_ends_the_recording_and_is_told(tmp_path):
    recorder = BagRecorder(tmp_path / 'run', [TOPIC], flush_period=0.0)

    def fail():
        raise RecordingError('cannot write: the disk is gone')

    recorder._writer.flush = fail
    recorder.offer(0, 0, 0, serialised(0))
    limit = clock.monotonic() + 5.0
    while recorder.error is None and clock.monotonic() < limit:
        clock.sleep(0.01)
    assert recorder.status().message == 'cannot write: the disk is gone'
    recorder.offer(0, 1, 1, serialised(1))
    assert recorder.status().overflowed == 2, 'what the disk refused is missing, too'
    assert (recorder.status().waiting, recorder.status().lost) == (0, 0)
    with pytest.raises(RecordingError, match='the disk is gone'):
        recorder.stop()


def test_what_was_written_is_on_the_disk_after_the_period(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, 'fdatasync', lambda number: synced.append(os.fstat(number).st_size))
    recorder = BagRecorder(tmp_path / 'run', [TOPIC], flush_period=0.0, sync_period=0.05)
    recorder.offer(0, 0, 0, serialised(0))
    limit = clock.monotonic() + 20.0
    # a message may be on its way while one looks
    while not (len(set(synced)) > 1 and synced[-1] == recorder.status().size):
        assert clock.monotonic() < limit, synced
        clock.sleep(0.01)
    recorder.stop()
    synced.clear()
    recorder = BagRecorder(tmp_path / 'never', [TOPIC], sync_period=0.0)
    recorder.stop()
    assert not synced


def test_a_disk_that_fails_when_it_is_waited_for_ends_the_recording(tmp_path, monkeypatch):
    def fail(number):
        raise OSError(5, 'Input/output error')

    monkeypatch.setattr(os, 'fdatasync', fail)
    recorder = BagRecorder(tmp_path / 'run', [TOPIC], sync_period=0.01)
    limit = clock.monotonic() + 20.0
    while recorder.error is None and clock.monotonic() < limit:
        clock.sleep(0.01)
    with pytest.raises(RecordingError, match='disk failed under .*Input/output error: record on'):
        recorder.stop()


def test_a_slow_disk_keeps_no_message_from_the_system(tmp_path, monkeypatch):
    """A killed process loses what was not handed over, however long the disk takes."""
    release = threading.Event()
    monkeypatch.setattr(os, 'fdatasync', lambda _: release.wait(30.0))
    recorder = BagRecorder(tmp_path / 'run', [TOPIC], flush_period=0.0, sync_period=0.01)
    clock.sleep(0.1)
    before = recorder.status().size
    recorder.offer(0, 0, 0, serialised(0))
    limit = clock.monotonic() + 20.0
    while recorder.status().size == before and clock.monotonic() < limit:
        clock.sleep(0.01)
    assert (tmp_path / 'run' / 'run_0.mcap').stat().st_size > before
    release.set()
    assert recorder.stop().messages == 1


def test_scarce_room_is_told(tmp_path, monkeypatch):
    recorder = BagRecorder(tmp_path / 'run', [TOPIC])
    usage = shutil.disk_usage(tmp_path)._replace(free=recorder.status().size)
    monkeypatch.setattr(shutil, 'disk_usage', lambda _: usage)
    monkeypatch.setattr(recorder, '_began', recorder._began - 60.0)
    assert 'the disk has room for 1.0 min more' in recorder.status().message
    recorder.stop()


def test_messages_without_a_stamp_are_kept_and_remarked(tmp_path):
    recorder = BagRecorder(tmp_path / 'run', [TOPIC])
    recorder.offer(0, 0, 0, struct.pack('<I', 256))
    assert '1 messages are too short to have a stamp' in recorder.stop().message
