# SPDX-License-Identifier: Apache-2.0
"""
Joint states that stop, slow down, lose a joint, go back in time or hold nonsense.

Here for the recorder and the regressor; the live identification's are in `test_online_node`, and
those of a motion in `test_motion`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')
pytest.importorskip('rosbags')

from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_identification.data.recording import Motion
from robot_identification.model.robot import Robot
from robot_identification.nodes.common.messages import nanoseconds, time_message
from robot_identification.regressor import build, ModelSettings
from robot_identification_msgs.msg import RecorderStatus, Regressor
from robot_identification_msgs.srv import StartRecording, StopRecording
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

URDF = Path(__file__).resolve().parents[3] / 'urdf' / 'szabo_3r.urdf'
SECOND = 10**9
RATE = 250.0
QUEUE = QoSProfile(depth=5000)


def matrix_of(message):
    return np.reshape(message.data, (message.rows, message.cols))


class Driver:
    """A driver of an arm that swings, and what the two nodes make of it."""

    def __init__(self, ros):
        self.ros = ros
        self.robot = Robot.from_urdf(URDF)
        self.model = build(self.robot, ModelSettings())
        self.status = ros.latched(RecorderStatus, 'recorder/status')
        self.rows = ros.subscribe(Regressor, 'regressor/regressor', QUEUE)
        # recorder and regressor
        self.publisher = ros.publisher(
            JointState, 'joint_states', QUEUE, wait_for_subscribers=2, timeout=30.0
        )

    @property
    def recorder(self):
        return self.ros.processes[0]

    @property
    def regressor(self):
        return self.ros.processes[1]

    def motion(self, stamp):
        """Return position, velocity, acceleration and effort at a time [ns]."""
        phase = 2.0 * (1e-9 * stamp) + np.arange(3)
        q = np.sin(phase)
        return q, 2.0 * np.cos(phase), -4.0 * q, 3.0 * q

    def message(self, stamp):
        q, v, _, tau = self.motion(stamp)
        return JointState(
            header=Header(stamp=time_message(stamp)),
            name=list(self.robot.joints),
            position=q,
            velocity=v,
            effort=tau,
        )

    def messages(self, begin, seconds, rate=RATE):
        stamps = begin + (np.arange(round(seconds * rate)) * SECOND / rate).round().astype(int)
        return [self.message(int(stamp)) for stamp in stamps]

    def publish(self, messages, rate=1000.0):
        for message in messages:
            self.publisher.publish(message)
            self.ros.spin(1.0 / rate)

    def start(self, name):
        answer = self.ros.call(StartRecording, 'recorder/start', name=name)
        assert answer.success, answer.message
        return answer.path

    def stop(self):
        answer = self.ros.call(StopRecording, 'recorder/stop')
        assert answer.success, answer.message
        return answer

    def require_rows(self, after):
        """Wait for live rows that belong to a moment after this one [ns], and check them all."""

        def found():
            return [m for m in self.rows if nanoseconds(m.header.stamp) > after]

        self.ros.wait_until(found, what='live rows')
        for message in found():
            q, v, a, tau = self.motion(nanoseconds(message.header.stamp))
            expected = self.model.rows(Motion(q[None], v[None], a[None]))
            largest = np.abs(expected).max()
            assert matrix_of(message) == pytest.approx(expected, abs=2e-2 * largest)
            assert np.asarray(message.effort) == pytest.approx(tau, abs=1e-2)


def stamps_in(path):
    with AnyReader([Path(path)]) as reader:
        return [
            nanoseconds(reader.deserialize(data, connection.msgtype).header.stamp)
            for connection, _, data in reader.messages()
        ]


@pytest.fixture(scope='module')
def nodes(cell, tmp_path_factory):
    """Start the two nodes."""
    output = str(tmp_path_factory.mktemp('states'))
    cell.start('recorder', parameters={'output': output}, wait=False)
    parameters = {'robot_description': str(URDF), 'rate': 50.0}
    cell.start('regressor', parameters=parameters, wait=False)
    for name in ('recorder', 'regressor'):
        cell.wait_for_node(f'/{name}', timeout=60.0)
    return Driver(cell)


@pytest.fixture
def driver(nodes):
    """Give the driver; what the test before it has left is forgotten."""
    nodes.ros.spin(0.1)
    nodes.rows.clear()
    for process in nodes.ros.processes:
        process.lines.clear()
    yield nodes
    for process in nodes.ros.processes:
        assert process.returncode is None, process.output
        assert 'Traceback' not in process.output


def test_they_stop_and_come_back(driver):
    path = driver.start('pause')
    before = driver.messages(SECOND, 1.0)
    driver.publish(before)
    driver.require_rows(SECOND)
    driver.ros.wait_until(
        lambda: 'no message for' in driver.status[-1].message, what='the silence in the status'
    )
    assert driver.status[-1].recording
    driver.regressor.wait_for_output('no joint states for', 10.0)
    # the arm moved on meanwhile
    after = driver.messages(5 * SECOND, 1.0)
    driver.publish(after)
    driver.require_rows(3 * SECOND)  # none of them belongs to the pause
    answer = driver.stop()
    assert answer.messages == len(before) + len(after)
    assert 'the stamps have 1 gap' in answer.message
    assert stamps_in(path) == [nanoseconds(m.header.stamp) for m in before + after]


def test_they_come_at_half_the_rate(driver):
    path = driver.start('half')
    fast, slow = driver.messages(SECOND, 1.0), driver.messages(2 * SECOND, 2.0, RATE / 2.0)
    driver.publish(fast + slow)
    driver.require_rows(3 * SECOND)
    answer = driver.stop()
    assert answer.messages == len(fast) + len(slow)
    assert 'gaps' in answer.message
    assert stamps_in(path) == [nanoseconds(m.header.stamp) for m in fast + slow]


def test_they_come_too_rarely_for_a_velocity(driver):
    path = driver.start('rare')
    rare = driver.messages(SECOND, 4.0, 20.0)
    driver.publish(rare, 20.0)
    driver.regressor.wait_for_output('raise the parameter window')
    assert not driver.rows
    answer = driver.stop()
    assert answer.message.startswith('80 messages in 3.95 s (20.0 Hz)')
    assert len(stamps_in(path)) == 80


def test_a_joint_is_lost_for_a_while(driver):
    path = driver.start('lost')
    messages = driver.messages(SECOND, 3.0)
    for message in messages[250:500]:
        message.name = message.name[:2]
        for field in ('position', 'velocity', 'effort'):
            setattr(message, field, getattr(message, field)[:2])
    driver.publish(messages)
    driver.regressor.wait_for_output("joint 'joint_3' is not in the joint states")
    driver.require_rows(3 * SECOND)
    assert driver.stop().messages == len(messages)
    assert stamps_in(path) == [nanoseconds(m.header.stamp) for m in messages]


def test_time_goes_back(driver):
    path = driver.start('back')
    late, early = driver.messages(100 * SECOND, 1.0), driver.messages(SECOND, 2.0)
    driver.publish(late)
    driver.require_rows(100 * SECOND)
    driver.rows.clear()
    driver.publish(early)
    driver.require_rows(SECOND)
    answer = driver.stop()
    assert answer.messages == len(late) + len(early)
    assert '1 stamps are not later than the one before' in answer.message
    assert answer.duration == pytest.approx(3.0, abs=0.1)
    assert stamps_in(path) == [nanoseconds(m.header.stamp) for m in late + early]


def test_they_hold_nonsense(driver):
    path = driver.start('nonsense')
    good = driver.messages(SECOND, 1.0)
    strange = []
    for i, stamp in enumerate(range(2 * SECOND, 3 * SECOND, SECOND // 100)):
        message = driver.message(stamp)
        kind = i % 8
        if kind == 0:
            message = JointState()
        elif kind == 1:
            message = JointState(header=message.header)
        elif kind == 2:
            message.position = [np.nan] * 3
        elif kind == 3:
            message.position[1] = np.inf
        elif kind == 4:
            message.effort = [np.nan] * 3
        elif kind == 5:
            message.position = message.position[:2]
        elif kind == 6:
            message.name = [message.name[0]] * 3
        else:
            message.header.stamp.sec = -5
        strange.append(message)
    driver.publish(good + strange)
    driver.regressor.wait_for_output('[WARN]')
    again = driver.messages(4 * SECOND, 1.0)
    driver.publish(again)
    driver.require_rows(4 * SECOND)
    answer = driver.stop()
    assert answer.messages == len(good + strange + again)
    assert len(stamps_in(path)) == answer.messages


def test_a_burst(driver):
    """Messages that a network delivers late and all at once are all recorded."""
    path = driver.start('burst')
    messages = driver.messages(SECOND, 3.0, 1000.0)
    for message in messages:
        driver.publisher.publish(message)
    driver.ros.wait_until(lambda: driver.status[-1].messages == len(messages), what='all messages')
    # live rows take joint states by best effort: a burst may be lost to them, what follows is not
    later = driver.messages(4 * SECOND, 1.0)
    driver.publish(later)
    driver.require_rows(4 * SECOND)
    assert driver.stop().dropped == 0
    assert stamps_in(path) == [nanoseconds(m.header.stamp) for m in messages + later]


def test_a_driver_without_guarantees_is_heard(driver):
    """Nothing would be heard of one that publishes best effort, if all was asked for."""
    kind = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
    reliable = driver.publisher
    path = driver.start('unsure')
    driver.publisher = driver.ros.publisher(JointState, 'joint_states', kind)
    driver.recorder.wait_for_output('is published best effort')
    driver.ros.wait_until(
        lambda: driver.publisher.get_subscription_count() == 2, what='two who listen'
    )
    messages = driver.messages(SECOND, 1.0)
    driver.publish(messages)
    driver.require_rows(SECOND)
    driver.ros.node.destroy_publisher(driver.publisher)
    driver.publisher = reliable
    answer = driver.stop()
    assert answer.messages + answer.dropped == len(messages)
    assert len(stamps_in(path)) == answer.messages > 0
