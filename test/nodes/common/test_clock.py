# SPDX-License-Identifier: Apache-2.0
"""A simulated clock is read when it is asked for; a node's executor does not wake up for it."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from builtin_interfaces.msg import Time
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from robot_identification.nodes.common import now
from robot_identification.nodes.common.clock import read_clock
from rosgraph_msgs.msg import Clock


@pytest.fixture
def node(ros):
    """Give a node of the simulated clock, with an executor of its own."""
    simulated = [Parameter('use_sim_time', value=True)]
    made = rclpy.create_node('timed', context=ros.context, parameter_overrides=simulated)
    made.own = SingleThreadedExecutor(context=ros.context)
    made.own.add_node(made)
    yield made
    made.own.shutdown(timeout_sec=1.0)
    made.destroy_node()


def test_the_latest_time_is_read_and_wakes_no_executor(ros, node):
    clock = ros.publisher(Clock, '/clock', wait_for_subscribers=1)
    assert now(node).nanoseconds == 0
    for second in range(5, 105):
        clock.publish(Clock(clock=Time(sec=second)))
        node.own.spin_once(timeout_sec=0.0)
        assert node.get_clock().now().nanoseconds == 0
    ros.wait_until(lambda: now(node).nanoseconds == 104 * 10**9, what='the latest time')
    # as after a reset of a simulator
    clock.publish(Clock(clock=Time(sec=2)))
    ros.wait_until(lambda: now(node).nanoseconds == 2 * 10**9, what='the time set back')


def test_a_clock_that_goes_on_does_not_keep_the_executor_busy(ros, node):
    clock = ros.publisher(Clock, '/clock', wait_for_subscribers=1)
    read_clock(node)
    end = time.monotonic() + 2.0

    def publish():
        for second in itertools.count(1):
            clock.publish(Clock(clock=Time(sec=second)))
            time.sleep(0.002)
            if time.monotonic() > end:
                return

    publisher = threading.Thread(target=publish)
    publisher.start()
    begun = time.thread_time()
    while time.monotonic() < end:
        node.own.spin_once(timeout_sec=0.5)
    used = time.thread_time() - begun
    publisher.join()
    assert used < 0.05
    assert now(node).nanoseconds > 0
