# SPDX-License-Identifier: Apache-2.0
"""The recorder when it is killed, renamed under its hands, out of room, or not alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import os
from pathlib import Path
import signal
import subprocess
import time

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from builtin_interfaces.msg import Time
from robot_identification.data.bag import bag_info, joint_state_messages
from robot_identification.data.bag_recorder import BagRecorder
from robot_identification.data.bag_writer import Topic
from robot_identification.data.joint_state import STAMP_PLACE
from robot_identification.errors import IdentificationWarning
from robot_identification_msgs.msg import RecorderStatus
from robot_identification_msgs.srv import StartRecording, StopRecording
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

KIND = 'sensor_msgs/msg/JointState'


@pytest.fixture(scope='module')
def output(tmp_path_factory):
    """Give the folder that both recorders write to."""
    return tmp_path_factory.mktemp('bags')


@pytest.fixture(scope='module')
def shared(module_ros, output):
    """Start two recorders with one output folder."""
    parameters = {'output': str(output)}
    module_ros.first = module_ros.start('recorder', parameters=parameters, wait=False)
    module_ros.start('recorder', parameters=parameters, namespace='/second', wait=False)
    for name in ('/recorder', '/second/recorder'):
        module_ros.wait_for_node(name, timeout=60.0)
    return module_ros


def begin(ros, name='', namespace=''):
    response = ros.call(StartRecording, f'{namespace}/recorder/start', timeout=60.0, name=name)
    assert response.success, response.message
    return Path(response.path)


def end(ros, namespace='', mark=''):
    return ros.call(StopRecording, f'{namespace}/recorder/stop', timeout=60.0, mark=mark)


def publish(ros, publisher, numbers):
    for number in numbers:
        header = Header(stamp=Time(sec=number))
        publisher.publish(JointState(header=header, name=['a', 'b'], position=[1.0, 2.0]))
    ros.spin(0.3)


def stamps(bag):
    with AnyReader([bag]) as reader:
        messages = (reader.deserialize(d, c.msgtype) for c, _, d in reader.messages())
        return [message.header.stamp.sec for message in messages]


def test_two_recorders_with_one_output_take_different_folders(shared):
    paths = []
    for _ in range(2):
        paths += [begin(shared, 'same'), begin(shared, 'same', '/second')]
        assert end(shared).success and end(shared, '/second').success
    assert sorted(path.name for path in paths) == ['same', 'same_1', 'same_2', 'same_3']
    assert all((path / 'metadata.yaml').exists() for path in paths)


def test_a_recording_that_is_renamed_goes_on_and_overwrites_nothing(shared, output):
    publisher = shared.publisher(JointState, 'joint_states', 100, wait_for_subscribers=1)
    path = begin(shared, 'before')
    publish(shared, publisher, range(5))
    path.rename(output / 'after')
    # another recording gets the old name meanwhile
    other = begin(shared, 'before', '/second')
    assert other == output / 'before'
    publish(shared, publisher, range(5, 9))
    response = end(shared)
    assert response.success, response.message
    assert response.path == str(output / 'after')
    assert end(shared, '/second').success
    assert stamps(output / 'after') == list(range(9))
    assert stamps(output / 'before') == []
    assert (output / 'after' / 'before_0.mcap').exists(), 'the file has the name it began with'


def test_a_recording_that_is_removed_says_so_and_the_next_one_works(shared, output):
    status = shared.latched(RecorderStatus, '/recorder/status')
    publisher = shared.publisher(JointState, 'joint_states', 100, wait_for_subscribers=1)
    path = begin(shared, 'gone')
    (path / 'gone_0.mcap').unlink()
    path.rmdir()
    publish(shared, publisher, range(3))
    shared.wait_until(
        lambda: 'was removed while it was recorded' in status[-1].message, what='the status'
    )
    assert not status[-1].recording
    assert status[-1].dropped == status[-1].overflowed == 3
    response = end(shared)
    assert not response.success and 'was removed' in response.message
    assert begin(shared, 'gone') == output / 'gone'
    assert end(shared).success


def test_the_mark_is_kept_in_the_bag_and_in_its_file(shared):
    path = begin(shared, 'marked')
    assert end(shared, mark='joint elbow left its path').success
    for place in (path, path / 'marked_0.mcap'):
        assert bag_info(place).mark == 'joint elbow left its path'
    path = begin(shared, 'unmarked')
    assert end(shared).success
    assert bag_info(path).mark == ''


def test_a_publisher_that_comes_later_is_described_too(shared):
    import yaml

    path = begin(shared, 'early', '/second')
    publisher = shared.publisher(JointState, '/second/joint_states', 7, wait_for_subscribers=1)
    publish(shared, publisher, range(3))
    assert end(shared, '/second').messages == 3
    told = yaml.safe_load((path / 'metadata.yaml').read_text())['rosbag2_bagfile_information']
    [profile] = told['topics_with_message_count'][0]['topic_metadata']['offered_qos_profiles']
    assert profile['reliability'] == 'reliable'
    assert profile['deadline'] == {'sec': 9223372036, 'nsec': 854775807}


def test_the_status_tells_everything_there_is(shared):
    status = shared.latched(RecorderStatus, '/recorder/status')
    publisher = shared.publisher(JointState, 'joint_states', 100, wait_for_subscribers=1)
    path = begin(shared, 'told')
    publish(shared, publisher, [1, 2, 3, 5, 4, 5])
    shared.wait_until(lambda: status[-1].messages == 6, what='the status of all messages')
    shared.wait_until(lambda: status[-1].bytes == size(path), what='the status of the flush')
    latest = status[-1]
    assert (latest.dropped, latest.lost, latest.overflowed, latest.waiting) == (0, 0, 0, 0)
    assert (latest.disordered, latest.gaps) == (1, 1)
    assert latest.jitter == pytest.approx(0.0, abs=1e-9)
    assert end(shared).success


def size(path):
    return sum(file.stat().st_size for file in path.glob('*.mcap'))


def test_recordings_begun_in_the_same_moment_take_different_folders(tmp_path):
    topics = [Topic('/joint_states', KIND)]
    with ThreadPoolExecutor(8) as pool:
        made = [pool.submit(BagRecorder.in_new_folder, tmp_path / 'same', topics)
                for _ in range(24)]  # fmt: skip
        recorders = [future.result() for future in made]
    assert len({recorder.folder for recorder in recorders}) == 24
    for recorder in recorders:
        assert (recorder.stop().path / 'metadata.yaml').exists()


@pytest.fixture
def small_disk(tmp_path):
    """Give a file system of half a megabyte."""
    folder = tmp_path / 'disk'
    folder.mkdir()
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=512k', 'tmpfs', str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True)
    except OSError:
        pytest.skip('needs the program mount')
    if done.returncode:
        pytest.skip('needs the right to mount a file system')
    yield folder
    subprocess.run(['umount', '-l', str(folder)], check=True)


def test_a_full_disk_is_told_at_once_and_a_recording_works_when_there_is_room(ros, small_disk):
    parameters = {'output': str(small_disk), 'flush_period': 0.1}
    process = ros.start('recorder', parameters=parameters, namespace='/full')
    status = ros.latched(RecorderStatus, '/full/recorder/status')
    publisher = ros.publisher(JointState, '/full/joint_states', 1000, wait_for_subscribers=1)
    (small_disk / 'ballast').write_bytes(bytes(300_000))
    path = begin(ros, 'run', '/full')
    sent = 0
    until = time.monotonic() + 30.0
    while 'No space left' not in status[-1].message and time.monotonic() < until:
        publish(ros, publisher, range(sent, sent + 200))
        sent += 200
    latest = status[-1]
    assert not latest.recording and latest.path == str(path)
    assert latest.overflowed > 0
    assert latest.messages + latest.dropped <= sent
    answer = end(ros, '/full')
    assert not answer.success and 'No space left on device' in answer.message
    assert answer.messages == latest.messages > 0
    assert process.returncode is None
    (small_disk / 'ballast').unlink()
    following = begin(ros, 'following', '/full')
    publish(ros, publisher, range(50))
    assert end(ros, '/full').messages == 50
    assert stamps(following) == list(range(50))
    # what had room is read
    assert read(path, '/full/joint_states') == list(range(latest.messages))


def read(bag, topic):
    """Return the stamps [s] in a bag without end, as our reader takes them."""
    with pytest.warns(IdentificationWarning, match='mcap recover'):
        return [
            int.from_bytes(message[STAMP_PLACE : STAMP_PLACE + 4], 'little')
            for block in joint_state_messages(bag, topic)
            for message in block
        ]


def test_a_killed_recorders_file_is_read_up_to_its_last_flush(ros, tmp_path):
    process = ros.start('recorder', parameters={'output': str(tmp_path)}, namespace='/killed')
    publisher = ros.publisher(JointState, '/killed/joint_states', 1000, wait_for_subscribers=1)
    path = begin(ros, 'run', '/killed')
    publish(ros, publisher, range(100))
    ros.wait_until(lambda: size(path) > 5000, what='a flush')
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (path / 'metadata.yaml').exists()
    found = read(path, '/killed/joint_states')
    assert found == list(range(len(found))) and found
