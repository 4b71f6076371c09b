# SPDX-License-Identifier: Apache-2.0
"""Constant memory of nodes that run for hours."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from rclpy.qos import QoSProfile
from std_msgs.msg import Empty
from std_srvs.srv import SetBool

LISTENER = """
from functools import partial
import gc
import sys

from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Empty
from std_srvs.srv import SetBool

from robot_identification.nodes.common import run


class Listener(Node):
    def __init__(self):
        super().__init__('listener')
        self.heard = 0
        self.create_subscription(Empty, 'ticks', self.hear, QoSProfile(depth=5000))
        self.create_service(SetBool, '~/memory', self.tell)

    def hear(self, _):
        self.heard += 1

    def tell(self, request, response):
        if request.data:
            gc.collect()
        response.message = f'{self.heard} {sys.getallocatedblocks()}'
        return response

    async def on_shutdown(self):
        print('resting')


if __name__ == '__main__':
    sys.exit(run(Listener, []))
"""


def test_a_message_leaves_nothing_behind(ros, tmp_path):
    """Counts the interpreter's blocks, which are exact; rclpy's own way keeps three a message."""
    script = tmp_path / 'listener.py'
    script.write_text(LISTENER)
    process = ros.start_command('listener', [sys.executable, str(script)])
    publisher = ros.publisher(Empty, 'ticks', QoSProfile(depth=5000), wait_for_subscribers=1)
    sent = 0

    def ask(collect):
        answer = ros.call(SetBool, '/listener/memory', timeout=30.0, data=collect)
        return [int(word) for word in answer.message.split()]

    def blocks_after(count):
        nonlocal sent
        sent += count
        for _ in range(count):
            publisher.publish(Empty())
        ros.wait_until(lambda: ask(False)[0] >= sent, 60.0, f'{sent} messages')
        return ask(True)[1]

    before = blocks_after(1000)
    # caches fill a little more, whatever the number of messages
    assert blocks_after(4000) - before < 2000
    assert process.stop() == 0
    assert process.lines[-1] == 'resting'


def test_the_recorder_loads_nothing_to_compute_with():
    """It starts in a third of the time, and with a third of the memory."""
    script = 'import robot_identification.nodes.recorder_node, sys; print(*sys.modules)'
    command = [sys.executable, '-c', script]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert not {'pinocchio', 'scipy', 'numba', 'mujoco', 'coal'} & set(loaded)


INTERRUPTED = """
import os, signal, sys
from rclpy.node import Node
from robot_identification.nodes.common import run


class Idle(Node):
    def __init__(self):
        super().__init__('idle')
        os.kill(os.getpid(), signal.SIGINT)


code = run(Idle, [])
os.kill(os.getpid(), signal.SIGINT)
sys.exit(code)
"""


def test_a_second_ctrl_c_does_not_kill_a_node_that_ends(ros_domain, tmp_path):
    """Launch sends one more to nodes that have got one from the terminal."""
    script = tmp_path / 'idle.py'
    script.write_text(INTERRUPTED)
    assert subprocess.run([sys.executable, str(script)], timeout=60.0).returncode == 0
