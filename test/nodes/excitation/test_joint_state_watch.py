# SPDX-License-Identifier: Apache-2.0
"""Acceptance of joint states by the excitation node, message by message."""

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from rclpy.serialization import serialize_message
from robot_identification.excitation.limits import Limits
from robot_identification.nodes.excitation import joint_state_watch as excitation_states
from sensor_msgs.msg import JointState


class Driver:
    """A subscription's place: what is sent lies there, and is fetched at once if not `left`."""

    topic_name = '/joint_states'

    def __init__(self):
        self.waiting, self.left = [], False

    def send(self, message, published=0.0, received=0.0, sequence=0):
        info = {
            'publication_sequence_number': sequence,
            'source_timestamp': round(1e9 * published),
            'received_timestamp': round(1e9 * received),
        }
        self.waiting.append((serialize_message(message), info))
        if not self.left:
            self.watch.fetch()

    def taken(self):
        waiting, self.waiting = self.waiting, []
        yield from waiting


@pytest.fixture
def clock(monkeypatch):
    """Return the time that the module sees, as a list of one number."""
    now = [100.0]
    monkeypatch.setattr(time, 'monotonic', lambda: now[0])
    # the other machine's clock is another
    monkeypatch.setattr(time, 'time', lambda: now[0] + 5000.0)
    return now


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def states(driver, clock, monkeypatch):
    monkeypatch.setattr(excitation_states, 'FetchedJointStates', lambda *_, **__: driver)
    driver.watch = excitation_states.StateWatch(None)
    driver.watch.watch(('joint_1',))
    return driver.watch


def state(stamp, position=0.0):
    message = JointState(name=['joint_1'], position=[position])
    message.header.stamp.sec = int(stamp)
    message.header.stamp.nanosec = round(1e9 * (stamp - int(stamp)))
    return message


def test_a_process_that_was_held_up_looks_into_its_queue_first(states, driver, clock):
    driver.send(state(1.0))
    assert not states.silent(0.2)
    clock[0] += 5.0
    states.look()
    assert not states.silent(0.2)
    driver.send(state(6.0))
    for _ in range(10):
        states.look()
        assert not states.silent(0.2)
    clock[0] += 0.3
    states.look()
    assert states.silent(0.2)


def test_a_clock_that_jumps_is_noticed_and_a_slow_one_is_not(states, driver, clock):
    for step, elapsed, jump in (
        (0.005, 0.005, 0.0),
        (0.0, 0.5, 0.0),
        (3.0, 3.0, 0.0),
        (-100.0, 0.005, -100.0),
        (50.0, 0.005, 50.0),
    ):
        driver.send(state(200.0))
        states.forget()
        clock[0] += elapsed
        driver.send(state(200.0 + step))
        assert states.jump == pytest.approx(jump)
        states.watch(('joint_2',))
        states.watch(('joint_1',))


def test_the_present_is_told_by_messages_however_late_they_come(states, driver, clock):
    for step in range(100):
        clock[0] += 0.01
        driver.send(state(7.0 + 0.01 * step), published=clock[0] - 0.002)
        assert states.now() == pytest.approx(1e9 * (7.0 + 0.01 * step), abs=1e3)
    published, begin = clock[0] - 0.002, clock[0]
    # held up for 2 s, this process gets what was published before, and then more than once a tick
    clock[0] += 2.0
    assert states.now() == pytest.approx(1e9 * (7.99 + 2.0), abs=1e3)
    for step in range(1, 150):
        clock[0] += 0.001
        driver.send(state(7.99 + 0.01 * step), published=published + 0.01 * step)
        assert states.now() == pytest.approx(1e9 * (7.99 + clock[0] - begin), abs=1e3)
    # a simulation that stood still goes on where it was
    clock[0] += 3.0
    driver.send(state(9.49), published=clock[0] - 0.002)
    assert states.now() == pytest.approx(1e9 * 9.49, abs=1e3)


def test_rest_is_told_by_the_stamps_and_not_by_when_they_come(states, driver, clock):
    def send(stamps, position):
        for stamp in stamps:
            driver.send(state(stamp, position(stamp)))
            clock[0] += 0.01
            states.look()

    moving = [1.0 + 0.01 * i for i in range(30)]
    send(moving, lambda stamp: 0.5 * stamp)
    assert not states.at_rest(0.003)
    # nothing comes for long: what is known is that it moved
    for _ in range(100):
        clock[0] += 0.01
        states.look()
    assert not states.at_rest(0.003)
    # and a few states from thereafter are not enough to tell
    send([1.31, 1.32], lambda stamp: 0.645)
    assert not states.at_rest(0.003)
    send([1.32 + 0.01 * i for i in range(1, 20)], lambda stamp: 0.645)
    assert states.at_rest(0.003)


def test_what_tells_nothing_new_counts_as_silence(states, driver, clock):
    driver.send(state(1.0))
    nameless = JointState(name=['other'], position=[0.0])
    for message, words in (
        (state(1.0), ''),
        (state(1.1, float('nan')), 'no finite positions'),
        (nameless, "'joint_1' is not in the joint states"),
    ):
        for _ in range(30):
            clock[0] += 0.01
            driver.send(message)
            states.look()
        assert states.silent(0.2) and words in states.fault
        assert states.sample().position == pytest.approx([0.0])
        driver.send(state(clock[0]))
        assert not states.silent(0.2) and states.fault == ''
        driver.send(state(1.0))


def test_efforts_are_those_of_late_and_of_this_motion(states, driver, clock):
    assert states.effort(0.05) is None
    for i in range(101):
        message = state(1.0 + 0.01 * i)
        message.effort = [float(i)]
        driver.send(message)
    assert states.effort(0.0) == pytest.approx([100.0])
    assert states.effort(0.051) == pytest.approx([97.5])
    driver.send(state(700.0))
    assert states.jump > 0.0
    states.forget()
    assert states.effort(0.05) is None and states.jump == 0.0


def test_what_lay_there_for_long_is_old_and_its_jump_is_of_the_past(states, driver, clock):
    driver.send(state(50.0), received=clock[0] + 5000.0)
    clock[0] += 3.0
    driver.left = True
    for stamp in (1.0, 1.1):
        driver.send(state(stamp, 0.3), received=clock[0] + 5000.0)
    clock[0] += 60.0
    states.forget()
    assert states.jump == 0.0
    assert states.age == pytest.approx(60.0)
    assert states.sample().position == pytest.approx([0.3])
    for _ in range(excitation_states.LOOKS):
        states.look()
    assert states.silent(0.2)


# ------------------------------------------------------------------------------------------- trust

ONE = np.ones(1)
BOUNDS = Limits(('joint_1',), ('rad',), -3.0 * ONE, 3.0 * ONE, ONE, 4.0 * ONE, np.inf * ONE)


class Graph:
    """A node's place that knows who publishes."""

    def get_publishers_info_by_topic(self, topic):
        assert topic == '/joint_states'
        return [SimpleNamespace(node_namespace='/arm', node_name=name) for name in ('one', 'two')]

    def count_publishers(self, topic):
        return len(self.get_publishers_info_by_topic(topic))


@pytest.fixture
def bounded(driver, clock, monkeypatch):
    """Give states with bounds, from a robot that moves at half a radian a second."""
    monkeypatch.setattr(excitation_states, 'FetchedJointStates', lambda *_, **__: driver)
    driver.watch = states = excitation_states.StateWatch(Graph())
    states.watch(('joint_1',), BOUNDS)
    states.begin()

    sent = itertools.count(1)

    def drive(count, off=lambda i: 0.0, sequence=lambda i: next(sent)):
        for i in range(count):
            clock[0] += 0.005
            message = state(clock[0], 0.5 * (clock[0] - 100.0) + off(i))
            driver.send(message, sequence=sequence(i))
            states.look()

    drive(50)
    states.drive = drive
    return states


def test_a_leap_is_not_accepted_and_several_end_the_trust(bounded, clock):
    bounded.drive(2, off=lambda i: 1.0)
    assert bounded.refused == 2 and not bounded.flawless and not bounded.contradiction
    assert bounded.sample().position < 0.2 and 'farther than its limits' in bounded.fault
    bounded.drive(20)
    assert bounded.refused == 0 and not bounded.contradiction and bounded.fault == ''
    bounded.drive(20, off=lambda i: 0.4 * (i % 7 == 0))
    assert 'contradict' in bounded.contradiction and bounded.refused == 0
    assert '/arm/one, /arm/two' in bounded.contradiction
    # what was of the motion before is forgotten
    clock[0] += 0.5
    bounded.begin()
    assert not bounded.contradiction and bounded.flawless


def test_messages_of_two_publishers_are_told_by_their_numbers(bounded):
    bounded.drive(20)
    assert bounded.flawless and not bounded.contradiction
    # a driver that is started anew counts from the beginning, once
    bounded.drive(20, sequence=lambda i: 1 + i)
    assert not bounded.flawless and not bounded.contradiction
    bounded.drive(8, sequence=lambda i: (30 if i % 2 else 9000) + i)
    assert 'several publishers' in bounded.contradiction
    assert '/arm/one, /arm/two' in bounded.contradiction


def test_during_a_motion_time_is_kept_whatever_the_stamps_say(bounded, driver, clock):
    bounded.moving = True
    before = bounded.now()
    clock[0] += 0.005
    driver.send(state(7.0))
    assert bounded.jump < -90.0
    assert bounded.now() == pytest.approx(before + 5e6, abs=1e3)
