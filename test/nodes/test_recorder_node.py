# SPDX-License-Identifier: Apache-2.0
"""The recorder over DDS: what it writes, what it refuses, how it ends."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
import signal
import struct
import sys
import time

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from builtin_interfaces.msg import Time
from mcap.exceptions import McapError
from mcap.reader import NonSeekingReader
from robot_identification.data.bag_writer import type_hash
from robot_identification.nodes.common.receive_buffers import profile_variables
from robot_identification_msgs.msg import RecorderStatus
from robot_identification_msgs.srv import StartRecording, StopRecording
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
import yaml

PUBLISHER = """
import sys, time
import rclpy
from sensor_msgs.msg import JointState

rate, count, topic = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rclpy.init()
node = rclpy.create_node('driver')
publisher = node.create_publisher(JointState, topic, 1000)
while publisher.get_subscription_count() == 0:
    time.sleep(0.01)
message = JointState(name=[f'joint_{i}' for i in range(7)], velocity=[0.0] * 7, effort=[1.0] * 7)
start = time.perf_counter()
for i in range(count):
    message.header.stamp.sec, rest = divmod(i, int(rate))
    message.header.stamp.nanosec = round(rest * 1e9 / rate)
    message.position = [float(i)] * 7
    publisher.publish(message)
    time.sleep(max(0.0, start + (i + 1) / rate - time.perf_counter()))
time.sleep(1.0)
"""


@pytest.fixture
def drive(ros, tmp_path):
    """Return a function that publishes joint states from another process."""
    script = tmp_path / 'driver.py'
    script.write_text(PUBLISHER)

    def start(rate, count, topic='joint_states'):
        command = [sys.executable, str(script), str(rate), str(count), topic]
        return ros.start_command('driver', command, wait=False)

    return start


@pytest.fixture
def recorder(ros, tmp_path):
    """Return a function that starts the recorder with its output below ``tmp_path``."""

    def start(**parameters):
        return ros.start('recorder', parameters={'output': str(tmp_path / 'bags'), **parameters})

    return start


@pytest.fixture(scope='module')
def requests(module_ros, tmp_path_factory):
    """Start a recorder for tests that send requests alone; its output does not exist yet."""
    module_ros.output = tmp_path_factory.mktemp('requests') / 'bags'
    module_ros.namespace = '/requests'  # beside the recorders of the other tests
    parameters = {'output': str(module_ros.output)}
    module_ros.start('recorder', parameters=parameters, namespace=module_ros.namespace)
    return module_ros


def begin(ros, name=''):
    namespace = getattr(ros, 'namespace', '')
    return ros.call(StartRecording, f'{namespace}/recorder/start', name=name)


def end(ros):
    return ros.call(StopRecording, f'{getattr(ros, "namespace", "")}/recorder/stop')


def publish(ros, publisher, stamps, joints=2):
    for stamp in stamps:
        seconds, rest = divmod(stamp, 10**9)
        header = Header(stamp=Time(sec=seconds, nanosec=rest))
        names = [f'joint_{i}' for i in range(joints)]
        position = [float(stamp)] * joints
        publisher.publish(JointState(header=header, name=names, position=position))
    ros.spin(0.3)


def read(path):
    with AnyReader([Path(path)]) as reader:
        return [
            (connection.topic, log, reader.deserialize(data, connection.msgtype))
            for connection, log, data in reader.messages()
        ]


def stamp_of(message):
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def test_nothing_is_lost_at_500_hz_and_the_numbers_are_right(ros, recorder, drive):
    process = recorder()
    response = begin(ros, 'run')
    assert response.success
    assert response.message == 'nothing publishes on /joint_states yet'
    driver = drive(500, 1000)
    assert driver.wait() == 0
    response = end(ros)
    assert response.success
    assert (response.messages, response.dropped) == (1000, 0)
    assert response.duration == pytest.approx(1.998)
    assert response.message.startswith('1000 messages in 2.00 s (500.0 Hz)')
    messages = read(response.path)
    assert [stamp_of(m) for *_, m in messages] == [i * 2_000_000 for i in range(1000)]
    assert all(topic == '/joint_states' for topic, *_ in messages)
    assert [m.position[6] for *_, m in messages] == list(range(1000))
    logs = [log for _, log, _ in messages]
    assert logs == sorted(logs)
    assert abs(logs[-1] - time.time_ns()) < 60 * 10**9, 'received now, by the wall'
    assert process.stop() == 0


def test_the_bag_describes_its_topic_as_rosbag2_does(ros, recorder):
    recorder()
    publisher = ros.publisher(JointState, 'joint_states', 7, wait_for_subscribers=1)
    path = Path(begin(ros, 'run').path)
    publish(ros, publisher, [1])
    assert end(ros).messages == 1
    info = ros.node.get_publishers_info_by_topic('/joint_states')[0]
    text = (path / 'metadata.yaml').read_text()
    bag = yaml.safe_load(text)['rosbag2_bagfile_information']
    topic = bag['topics_with_message_count'][0]['topic_metadata']
    assert (topic['name'], topic['type']) == ('/joint_states', 'sensor_msgs/msg/JointState')
    assert topic['type_description_hash'] == str(info.topic_type_hash)
    assert topic['type_description_hash'] == type_hash('sensor_msgs/msg/JointState')
    assert len(topic['offered_qos_profiles']) == 1
    assert topic['offered_qos_profiles'][0]['reliability'] == 'reliable'
    assert topic['offered_qos_profiles'][0]['durability'] == 'volatile'


def test_two_topics_in_a_namespace(ros, tmp_path):
    parameters = {'topics': ['joint_states', 'motor_states'], 'output': str(tmp_path)}
    ros.start('recorder', parameters=parameters, namespace='/arm')
    joints = ros.publisher(JointState, '/arm/joint_states', wait_for_subscribers=1)
    motors = ros.publisher(JointState, '/arm/motor_states', wait_for_subscribers=1)
    path = ros.call(StartRecording, '/arm/recorder/start', name='both').path
    publish(ros, joints, [1, 2, 3])
    publish(ros, motors, [11, 12])
    response = ros.call(StopRecording, '/arm/recorder/stop')
    assert response.messages == 5
    found = [(topic, stamp_of(m)) for topic, _, m in read(path)]
    assert sorted(found) == [('/arm/joint_states', s) for s in (1, 2, 3)] + [
        ('/arm/motor_states', s) for s in (11, 12)
    ]


def test_status_tells_rate_gaps_and_the_longest_one(ros, recorder):
    recorder()
    status = ros.latched(RecorderStatus, '/recorder/status')
    publisher = ros.publisher(JointState, 'joint_states', 100, wait_for_subscribers=1)
    ros.wait_until(lambda: status, what='the latched status')
    assert not status[-1].recording and status[-1].path == ''
    path = begin(ros, 'run').path
    stamps = [i * 10**7 for i in range(50)]
    del stamps[20:23], stamps[30]  # one gap of 40 ms, one of 20 ms
    publish(ros, publisher, stamps)
    ros.wait_until(lambda: status[-1].messages == 46, what='the status of all messages')
    latest = status[-1]
    assert latest.recording and latest.path == path
    assert latest.gaps == 2
    assert latest.longest_gap == pytest.approx(0.04)
    assert latest.duration == pytest.approx(0.49)
    assert latest.rate == pytest.approx(45 / 0.49)
    # on a busy machine there is more to say: for how long no message has come
    assert latest.message.endswith('the stamps have 2 gaps')
    ros.wait_until(lambda: 'no message for' in status[-1].message, what='the silence')
    assert end(ros).message.endswith('the stamps have 2 gaps')
    ros.wait_until(lambda: not status[-1].recording, what='the last status')
    assert status[-1].messages == 46


def test_a_name_that_leaves_the_output_folder_is_refused(requests):
    for name in ('../run', '/tmp/run', '..', '.', 'a/b', 'a\\b', '-rf', '~', '~root', '.hidden'):
        response = begin(requests, name)
        assert not response.success
        assert response.message.startswith(f"the recording's name is '{name}': give a plain")
    # what would break a listing, or the file system
    for name, shown in (('a\nb', 'a\\nb'), ('\u202eb', '\\u202eb'), ('ä' * 150, 'ä' * 80)):
        message = begin(requests, name).message
        assert message.startswith(f"the recording's name is '{shown}': give")
    assert not requests.output.exists()


def test_start_and_stop_out_of_turn_are_refused(requests):
    response = end(requests)
    assert not response.success
    assert response.message == 'nothing is being recorded: start a recording first'
    path = begin(requests, 'turn').path
    response = begin(requests, 'other')
    assert not response.success
    assert response.message == f"'{path}' is being recorded: stop that recording first"
    assert end(requests).success


def test_a_recording_is_never_overwritten(requests):
    paths = []
    for _ in range(3):
        paths.append(Path(begin(requests, 'run').path))
        assert end(requests).success
    assert [path.name for path in paths] == ['run', 'run_1', 'run_2']
    assert Path(begin(requests).path).name.startswith('recording_')
    assert end(requests).success


def test_an_output_folder_that_cannot_be_written_is_answered(ros, recorder, tmp_path):
    (tmp_path / 'bags').write_text('a file, not a folder')
    process = recorder()
    response = begin(ros, 'run')
    assert not response.success
    assert 'cannot write the bag' in response.message
    assert 'choose a folder' in response.message
    (tmp_path / 'bags').unlink()
    assert begin(ros, 'run').success, 'the node goes on'
    assert process.returncode is None


def test_a_full_disk_ends_the_recording_with_the_reason(ros, tmp_path):
    # a limit on the size of files stands for a full disk
    code = (
        'import resource, signal, sys\n'
        'signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n'
        'resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n'
        'from robot_identification.nodes.recorder_node import main\n'
        'sys.exit(main())\n'
    )
    script = tmp_path / 'limited.py'
    script.write_text(code)
    parameters = {'output': str(tmp_path / 'bags'), 'flush_period': 0.1}
    ros.start_command('recorder', [sys.executable, str(script)], parameters=parameters)
    status = ros.latched(RecorderStatus, '/recorder/status')
    publisher = ros.publisher(JointState, 'joint_states', 1000, wait_for_subscribers=1)
    path = Path(begin(ros, 'run').path)
    for start in range(0, 400, 50):
        publish(ros, publisher, range(start, start + 50), joints=7)
    ros.wait_until(lambda: 'cannot write' in status[-1].message, what='the failure')
    assert not status[-1].recording
    written = status[-1].messages
    response = end(ros)
    assert not response.success
    assert 'File too large' in response.message
    assert response.path == str(path)
    assert 0 < response.messages == written < 400
    assert len(recovered(path)) == written


def recovered(folder):
    """Stamps of the messages of a bag without summary."""
    stamps = []
    file = next(folder.glob('*.mcap'))
    with open(file, 'rb') as stream, contextlib.suppress(McapError, struct.error):
        for *_, message in NonSeekingReader(stream).iter_messages(log_time_order=False):
            seconds, rest = struct.unpack_from('<iI', message.data, 4)
            stamps.append(seconds * 10**9 + rest)
    return stamps


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_the_bag(ros, recorder, number):
    process = recorder()
    publisher = ros.publisher(JointState, 'joint_states', 100, wait_for_subscribers=1)
    path = begin(ros, 'run').path
    publish(ros, publisher, range(1, 51))
    assert process.stop(number) == 0
    assert [stamp_of(m) for *_, m in read(path)] == list(range(1, 51))
    assert 'Traceback' not in process.output


def test_a_killed_recorder_loses_at_most_the_last_second(ros, recorder, drive):
    process = recorder()
    path = Path(begin(ros, 'run').path)
    drive(500, 5000)
    ros.wait_until(lambda: recovered(path)[-1:] > [10**9], what='more than a second on disk')
    last = recovered(path)[-1]
    started = time.monotonic()
    ros.spin(0.9)
    os.kill(process.pid, signal.SIGKILL)
    alive = time.monotonic() - started
    process.wait()
    stamps = recovered(path)
    assert stamps == [i * 2_000_000 for i in range(len(stamps))], 'everything before is there'
    assert stamps[-1] > last
    assert 1e-9 * (stamps[-1] - last) > alive - 1.0


SHARED_MEMORY = """<?xml version="1.0" encoding="UTF-8"?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <participant profile_name="user" is_default_profile="true"><rtps>
    <builtin><discovery_config>
      <leaseDuration><sec>3600</sec></leaseDuration>
    </discovery_config></builtin>
  </rtps></participant>
</profiles>
"""
"""Profile without the suite's transports; a process that is stopped for 20 s stays known."""


def test_every_message_that_the_middleware_lost_is_counted(ros, tmp_path):
    # a profile of the user stays, and with it the small queues of shared memory
    (tmp_path / 'user.xml').write_text(SHARED_MEMORY)
    process = ros.start(
        'recorder',
        parameters={'output': str(tmp_path / 'bags')},
        **dict.fromkeys(profile_variables(), str(tmp_path / 'user.xml')),
    )
    status = ros.latched(RecorderStatus, '/recorder/status')
    publisher = ros.publisher(JointState, 'joint_states', 500, wait_for_subscribers=1)
    path = begin(ros, 'run').path
    publish(ros, publisher, range(1, 11))
    ros.wait_until(lambda: status[-1].messages == 10, what='the first messages')
    os.kill(process.pid, signal.SIGSTOP)
    message = JointState(name=['joint_1', 'joint_2'], position=[0.0, 0.0])
    for stamp in range(11, 30001):  # as `publish`, in half the time
        message.header.stamp.nanosec = stamp
        publisher.publish(message)
    os.kill(process.pid, signal.SIGCONT)
    sent = itertools.count(30001)

    def accounted():
        # a message tells of those before it, which may all be lost while the recorder wakes up
        last = next(sent)
        publish(ros, publisher, [last])
        told = len(status)
        ros.wait_until(lambda: len(status) > told, what='a status')
        return status[-1].messages + status[-1].dropped == last

    ros.wait_until(accounted, what='an account of all messages')
    first = next(sent)
    publish(ros, publisher, range(first, first + 10))
    ros.wait_until(
        lambda: status[-1].messages + status[-1].dropped == first + 9, what='the last messages'
    )
    response = end(ros)
    stamps = [stamp_of(m) for *_, m in read(path)]
    assert response.messages == len(stamps) < 30000, 'neither queue takes them all'
    assert response.messages + response.dropped == first + 9
    assert f'the middleware lost {response.dropped} messages' in response.message
    assert stamps == sorted(set(stamps))
    assert stamps[:10] + stamps[-10:] == [*range(1, 11), *range(first, first + 10)]


def test_simulated_time_stamps_the_log_and_goes_on_where_it_is_set_back(ros, tmp_path):
    from rosgraph_msgs.msg import Clock

    ros.start('recorder', parameters={'output': str(tmp_path), 'use_sim_time': True})
    clock = ros.publisher(Clock, '/clock', wait_for_subscribers=1)
    publisher = ros.publisher(JointState, 'joint_states', wait_for_subscribers=1)
    path = begin(ros, 'run').path
    times = [5, 6, 1, 2]
    for now in times:
        clock.publish(Clock(clock=Time(sec=now)))
        ros.spin(0.2)
        publish(ros, publisher, [now * 10**9])
    assert end(ros).messages == len(times)
    assert [log // 10**9 for _, log, _ in read(path)] == [5, 6, 6, 7]
    assert [stamp_of(message) // 10**9 for *_, message in read(path)] == times


def test_a_best_effort_driver_is_recorded_with_the_qos_override(ros, recorder):
    from rclpy.qos import qos_profile_sensor_data

    recorder(
        **{'qos_overrides./joint_states.subscription.reliability': 'best_effort'},
    )
    publisher = ros.publisher(
        JointState, 'joint_states', qos_profile_sensor_data, wait_for_subscribers=1
    )
    path = begin(ros, 'run').path
    status, stamps = ros.latched(RecorderStatus, '/recorder/status'), itertools.count(1)

    def received():
        publish(ros, publisher, [next(stamps)])
        return status and status[-1].messages

    # of such messages some may get lost, such as those before publisher and recorder met
    ros.wait_until(received, what='a message')
    end(ros)
    assert read(path)


def test_wrong_parameters_are_one_line_errors(ros):
    process = ros.start('recorder', parameters={'topics': ['a', 'a']}, wait=False)
    assert process.wait() == 2
    assert process.lines == [
        "error: 'topics' is ['a', 'a']: name one topic or several different ones"
    ]


COUNTING = """
import sys

from rclpy.executors import SingleThreadedExecutor

from robot_identification.nodes.common import processes
from robot_identification.nodes.recorder_node import RecorderNode


class Counting(SingleThreadedExecutor):
    rounds = 0

    def get_nodes(self):
        Counting.rounds += 1
        return super().get_nodes()


processes.SingleThreadedExecutor = Counting
code = processes.run(RecorderNode, sys.argv)
print('rounds:', Counting.rounds)
sys.exit(code)
"""


def test_messages_do_not_wake_the_executor(ros, tmp_path):
    """A subscription that wakes the executor without a take costs a whole core."""
    script = tmp_path / 'counting.py'
    script.write_text(COUNTING)
    process = ros.start_command(
        'recorder', [sys.executable, str(script)], parameters={'output': str(tmp_path / 'bags')}
    )
    publisher = ros.publisher(JointState, 'joint_states', 1000, wait_for_subscribers=1)
    begin(ros)
    message = JointState(name=['one'], position=[0.0])
    for number in range(3000):
        message.header.stamp.nanosec = number
        publisher.publish(message)
        time.sleep(0.001)
    assert end(ros).messages == 3000
    assert process.stop() == 0
    process.wait_for_output('rounds:')
    # timers alone make some seven rounds a second, however long the test takes
    assert int(process.output.rpartition('rounds:')[2]) < 1000
