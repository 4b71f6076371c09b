# SPDX-License-Identifier: Apache-2.0
"""What the excitation node makes of joint states, message by message."""

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.nodes import excitation_states
from sensor_msgs.msg import JointState


class Listener:
    """A node's place: keeps the callback, so that the test is the driver."""

    def create_subscription(self, kind, topic, callback, *_, **__):
        self.send = callback


@pytest.fixture
def clock(monkeypatch):
    """Return the time that the module sees, as a list of one number."""
    now = [100.0]
    monkeypatch.setattr(excitation_states.time, 'monotonic', lambda: now[0])
    return now


@pytest.fixture
def driver():
    return Listener()


@pytest.fixture
def states(driver, clock):
    watch = excitation_states.StateWatch(driver, None)
    watch.watch(('joint_1',))
    return watch


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


def test_the_velocity_is_the_measured_one_or_that_of_the_latest_positions(states, driver, clock):
    for i in range(20):
        clock[0] += 0.01
        driver.send(state(1.0 + 0.01 * i, position=0.02 * i))
        states.look()
    assert states.velocity() == pytest.approx([2.0])
    message = state(2.0)
    message.velocity = [3.0]
    driver.send(message)
    assert states.velocity() == pytest.approx([3.0])
