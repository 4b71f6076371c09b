# SPDX-License-Identifier: Apache-2.0
"""Joint states of the excitation node, message by message."""

import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from rclpy.serialization import serialize_message
from robot_identification.nodes.excitation import joint_state_watch as excitation_states
from robot_identification.online import latest_states
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
    monkeypatch.setattr(excitation_states, 'FetchedMessages', lambda *_, **__: driver)
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
    assert not states.is_silent(0.2)
    clock[0] += 5.0
    states.look()
    assert not states.is_silent(0.2)
    driver.send(state(6.0))
    for _ in range(10):
        states.look()
        assert not states.is_silent(0.2)
    clock[0] += 0.3
    states.look()
    assert states.is_silent(0.2)


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
        assert states.is_silent(0.2) and words in states.fault
        assert states.sample().position == pytest.approx([0.0])
        driver.send(state(clock[0]))
        assert not states.is_silent(0.2) and states.fault == ''
        driver.send(state(1.0))


def test_efforts_are_those_of_late_and_of_this_motion(states, driver, clock):
    assert states.effort(0.05) is None
    for i in range(101):
        message = state(1.0 + 0.01 * i)
        message.effort = [float(i)]
        driver.send(message)
    assert states.effort(0.0) == pytest.approx([100.0])
    assert states.effort(0.051) == pytest.approx([97.5])
    states.forget()
    assert states.effort(0.05) is None


def test_what_lay_there_for_long_is_old(states, driver, clock):
    driver.send(state(50.0), received=clock[0] + 5000.0)
    clock[0] += 3.0
    driver.left = True
    for stamp in (1.0, 1.1):
        driver.send(state(stamp, 0.3), received=clock[0] + 5000.0)
    clock[0] += 60.0
    states.forget()
    assert states.age == pytest.approx(60.0)
    assert states.sample().position == pytest.approx([0.3])
    for _ in range(latest_states.LATEST.silent_looks):
        states.look()
    assert states.is_silent(0.2)


@pytest.mark.parametrize('period', [0.001, 0.02, 0.2, 0.9])
def test_silence_is_told_by_the_usual_period(states, driver, clock, period):
    """As of a simulation that is much slower than real time."""
    for i in range(20):
        clock[0] += period
        driver.send(state(1.0 + 0.01 * i))
        for _ in range(4):
            states.look()
        assert not states.is_silent(0.2)
    clock[0] += max(0.2, latest_states.LATEST.silent_periods * period) - 0.01
    states.look()
    assert not states.is_silent(0.2)
    clock[0] += 0.1
    states.look()
    assert states.is_silent(0.2)


@pytest.mark.parametrize('factor', [0.02, 0.1, 1.0, 20.0])
def test_rest_takes_as_long_in_a_slow_simulation_by_its_own_time(states, driver, clock, factor):
    period = 0.01
    for i in range(100):
        clock[0] += period / factor
        driver.send(state(1.0 + period * i, 0.1 * i))
        assert not states.at_rest(0.003)
    began, looks = clock[0], 0
    while not states.at_rest(0.003):
        looks += 1
        clock[0] += period / factor
        driver.send(state(2.0 + period * looks, 9.9))
    assert looks * period == pytest.approx(max(0.15, 0.15 * factor), abs=2.1 * period)
    assert clock[0] - began >= 0.15


def test_a_clock_that_goes_back_does_not_take_time_back(states, driver, clock):
    times = []
    for stamp in (5.0, 5.1, 5.05, 5.2, 1.0, 1.1, 1.2, 700.0, 700.1):
        clock[0] += 0.1
        driver.send(state(stamp))
        times.append(states.time)
    assert times[:4] == pytest.approx([5.0, 5.1, 5.1, 5.2])
    assert np.diff(times).min() >= 0.0
    # after the step back it goes on from where it was
    assert times[4:7] == pytest.approx([5.2, 5.3, 5.4])


def test_jitter_of_the_stamps_does_not_hide_rest(states, driver, clock):
    random = np.random.default_rng(1)
    for i in range(100):
        clock[0] += 0.01
        driver.send(state(5.0 + 0.01 * i + random.uniform(-0.3, 0.3), 0.2))
    assert states.at_rest(0.003)


# --------------------------------------------------------------------------------------- patience


@pytest.mark.parametrize(('rate', 'over'), [(20.0, 0.2), (1.0, 4.0), (0.05, 80.0)])
def test_a_wait_for_a_robot_is_bounded_by_the_robots_clock(states, driver, clock, rate, over):
    driver.send(state(7.0))
    limit, begin = latest_states.WaitLimit(states, 4.0, still=3.0), clock[0]
    while not limit.over:
        clock[0] += 0.01
        driver.send(state(7.0 + rate * (clock[0] - begin)))
    assert clock[0] - begin == pytest.approx(over, abs=0.02)


def test_joint_states_that_do_not_come_keep_nobody_waiting(states, driver, clock):
    driver.send(state(7.0))
    limit, begin = latest_states.WaitLimit(states, 4.0, still=3.0), clock[0]
    while not limit.over:
        clock[0] += 0.01
        if clock[0] - begin < 0.5:
            driver.send(state(7.0 + clock[0] - begin))
    assert clock[0] - begin == pytest.approx(3.5, abs=0.03)
