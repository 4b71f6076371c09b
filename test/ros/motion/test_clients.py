# SPDX-License-Identifier: Apache-2.0
"""A motion whose client dies, or ceases to give signs of life."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification_msgs.action import Excite
from std_msgs.msg import Empty

pytestmark = pytest.mark.wall_clock

GOAL = np.array([2.0, -1.5])

CLIENT = """
import sys
import rclpy
from rclpy.action import ActionClient
from rclpy.serialization import deserialize_message
from robot_identification_msgs.action import Excite
from trajectory_msgs.msg import JointTrajectory

rclpy.init()
node = rclpy.create_node('short_lived')
client = ActionClient(node, Excite, 'excitation/excite')
client.wait_for_server()
trajectory = deserialize_message(bytes.fromhex(sys.stdin.readline()), JointTrajectory)
goal = Excite.Goal(trajectory=trajectory)
sending = client.send_goal_async(
    goal, feedback_callback=lambda m: print(m.feedback.progress, flush=True)
)
rclpy.spin_until_future_complete(node, sending)
rclpy.spin(node)
"""

QUICK_LEASE = """<?xml version="1.0" encoding="UTF-8"?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <participant profile_name="mortal" is_default_profile="true">
    <rtps><builtin><discovery_config>
      <leaseDuration><sec>2</sec></leaseDuration>
      <leaseAnnouncement><sec>0</sec><nanosec>500000000</nanosec></leaseAnnouncement>
    </discovery_config></builtin></rtps>
  </participant>
</profiles>
"""


@pytest.fixture
def mortal_client(tmp_path):
    """Give a function that starts a client whose death the middleware notices within 2 s."""
    from rclpy.serialization import serialize_message

    profile = tmp_path / 'lease.xml'
    profile.write_text(QUICK_LEASE)
    started = []

    def start(trajectory):
        names = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')
        environment = {**os.environ, **dict.fromkeys(names, str(profile))}
        client = subprocess.Popen(
            [sys.executable, '-c', CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment,
        )  # fmt: skip
        started.append(client)
        client.stdin.write(serialize_message(trajectory).hex() + '\n')
        client.stdin.flush()
        while float(client.stdout.readline() or 'nan') < 0.1:
            pass
        return client

    yield start
    for client in started:
        client.kill()
        client.wait()


def test_a_client_that_is_killed_is_missed(cell, move, mortal_client):
    client = mortal_client(move(3.0 * GOAL / 2.0, speed=0.15))
    client.kill()
    cell.ros.wait_until(
        lambda: 'the client is gone (/short_lived' in cell.node.output, 30.0, 'the loss'
    )
    cell.ros.spin(0.5)
    assert cell.at_rest()
    assert 0.1 < cell.states[-1].position[0] < 2.9


def test_a_sign_of_life_has_to_go_on(cell, move):
    # a busy machine may hold up this process, but not for so long
    cell.set(alive_timeout=3.0)
    alive = cell.ros.publisher(Empty, 'excitation/alive', wait_for_subscribers=1)
    timer = cell.ros.node.create_timer(0.1, lambda: alive.publish(Empty()))
    try:
        _, future, feedback = cell.begin(trajectory=move(GOAL, speed=0.1))
        cell.wait_for_progress(feedback, 0.05)
        assert not future.done()
    finally:
        cell.ros.node.destroy_timer(timer)
    before = time.monotonic()
    cell.ros.wait_until(future.done, 20.0, 'the result')
    assert future.result().result.error_code == Excite.Result.CLIENT_LOST
    assert 'no sign of life' in future.result().result.error_msg
    assert time.monotonic() - before < 15.0
    assert cell.at_rest()
    # who sends none need not: the next motion goes on without
    _, result, _ = cell.excite(trajectory=move(0.1 * GOAL, start=cell.states[-1].position))
    assert result.error_code == 0, result.error_msg
