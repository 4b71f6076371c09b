# SPDX-License-Identifier: Apache-2.0
"""Who dies while a robot moves: the node, its client, or either for a while only."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.nodes.motion_messages import seconds, trajectory_points
from robot_identification_msgs.action import Excite
from rosbags.highlevel import AnyReader
from std_msgs.msg import Empty

GOAL = np.array([2.0, -1.5])


def moving(cell):
    """Tell whether the arm was moving in the latest joint states."""
    return np.abs(cell.velocities()[-20:]).max() > 0.05


def require_smooth_rest(cell, since, bound):
    """
    Wait until the arm rests, and hold it to the straight path that it was on.

    ``since`` is the place in ``cell.states`` at which the node was gone.
    """
    cell.ros.wait_until(
        lambda: len(cell.states) > since + 60 and np.abs(cell.velocities()[-40:]).max() < 2e-3,
        20.0,
        'rest',
    )
    stamps, velocities, positions = cell.stamps(), cell.velocities(), cell.positions()
    still = np.flatnonzero(np.abs(velocities).max(axis=1) > 0.01)[-1]
    # the servo's own lag comes on top of the bound on the commanded motion
    assert stamps[still] - stamps[since] < bound + 0.1
    # on the path: both joints have gone the same share of their ways
    shares = positions[since:] / GOAL
    assert np.abs(np.diff(shares, axis=1)).max() < 0.01
    assert 0.05 < shares[-1].min() < 0.95
    # no jerk of a stop at once: a robot that is halted loses its speed from one state to the next
    acceleration = np.diff(velocities[since:], axis=0) / np.diff(stamps[since:])[:, None]
    assert np.abs(acceleration).max() < 12.0


def bound_told(cell):
    """Return the bound that the node has logged [s]."""
    line = [line for line in cell.node.lines if 'rests within' in line][-1]
    return float(line.rsplit('within', 1)[1].split()[0])


def test_the_node_is_killed_and_the_arm_rests_within_the_bound_on_the_path(
    own_cell, move, tmp_path
):
    cell = own_cell()
    recorder = cell.ros.start(
        'recorder', parameters={'use_sim_time': True, 'output': str(tmp_path)}
    )
    goal = move(GOAL, speed=0.6)
    _, future, feedback = cell.begin(trajectory=goal, record=True, recording_name='cut')
    cell.wait_for_progress(feedback, 0.3)
    os.kill(cell.node.pid, signal.SIGKILL)
    since = len(cell.states) - 1
    assert moving(cell)
    bound = bound_told(cell)
    assert 0.5 < bound < 1.5
    require_smooth_rest(cell, since, bound)
    assert not future.done()
    # nobody has told the recorder to stop, so it went on; its bag is whole
    assert recorder.stop() == 0
    with AnyReader([tmp_path / 'cut']) as bag:
        states = [bag.deserialize(data, link.msgtype) for link, _, data in bag.messages()]
    assert states[-1].position[0] == pytest.approx(cell.positions()[-1, 0], abs=1e-3)
    assert len(states) > 200


def test_a_node_that_was_held_up_ends_the_motion_and_does_not_take_it_up_again(own_cell, move):
    cell = own_cell()
    goal = move(GOAL, speed=0.4)
    _, future, feedback = cell.begin(trajectory=goal)
    cell.wait_for_progress(feedback, 0.3)
    os.kill(cell.node.pid, signal.SIGSTOP)
    since = len(cell.states) - 1
    assert moving(cell)
    bound = bound_told(cell)
    cell.ros.spin(2.0)
    os.kill(cell.node.pid, signal.SIGCONT)
    cell.ros.wait_until(future.done, 20.0, 'the result')
    result = future.result().result
    assert result.error_code == Excite.Result.INTERNAL
    assert 'held up' in result.error_msg and 'horizon' in result.error_msg
    require_smooth_rest(cell, since, bound)
    # and the next motion goes as ever
    _, result, _ = cell.excite(trajectory=goal)
    assert (result.error_code, result.error_msg) == (0, '')
    assert np.abs(np.array(cell.states[-1].position) - GOAL).max() < 0.02


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
        lambda: 'the client is gone (/short_lived)' in cell.node.output, 30.0, 'the loss'
    )
    cell.ros.spin(0.5)
    assert cell.at_rest()
    assert 0.1 < cell.states[-1].position[0] < 2.9


def test_a_sign_of_life_has_to_go_on(cell, move):
    alive = cell.ros.publisher(Empty, 'excitation/alive', wait_for_subscribers=1)
    _, future, feedback = cell.begin(trajectory=move(GOAL, speed=0.4))
    timer = cell.ros.node.create_timer(0.1, lambda: alive.publish(Empty()))
    cell.wait_for_progress(feedback, 0.5)
    assert not future.done()
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


def test_horizons_carry_the_plan_and_nothing_else(cell, move):
    goal = move(GOAL, speed=0.6)
    _, result, _ = cell.excite(trajectory=goal)
    assert result.error_code == 0, result.error_msg
    plan = trajectory_points(goal, ('joint_1', 'joint_2'))
    wanted = {round(1e6 * t): q for t, q in zip(plan.time, plan.position, strict=True)}
    starts, knots = {seconds(m.header.stamp) for m in cell.sent}, set()
    assert len(starts) == 1 and len(cell.sent) > 8
    stops = []
    for message in cell.sent:
        points = trajectory_points(message, ('joint_1', 'joint_2'))
        assert not points.velocity[-1].any()
        there = [round(1e6 * t) for t in points.time]
        length = 0
        while length < len(there) and there[length] in wanted:
            if np.abs(wanted[there[length]] - points.position[length]).max() > 1e-9:
                break
            length += 1
        # from the path's points on come those of the stop, which are elsewhere
        knots.update(there[:length])
        stops.append(points.time[length - 1])
        assert length > 20 or message is cell.sent[-1]
    assert knots == set(wanted)
    # each comes before the stop of the one before it begins
    begins = [m.points[0].time_from_start for m in cell.sent]
    assert all(seconds(b) < stop for b, stop in zip(begins[1:], stops, strict=False))
