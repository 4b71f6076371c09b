# SPDX-License-Identifier: Apache-2.0
"""Reports of changes of a moving simulated robot on /diagnostics, kind by kind."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('mujoco')

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile
from robot_identification_msgs.msg import OnlineStatus
from rosgraph_msgs.msg import Clock
from scipy.interpolate import CubicSpline
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

RATE, FACTOR = 200.0, 2.0
SECONDS, LEARNED = 75.0, 12.0
JOINTS = tuple(f'joint_{i}' for i in range(1, 7))
MASS = 2.0


def motion():
    """Return sines of 0.2 to 0.8 Hz, with rest at both ends, as a message."""
    rng, n = np.random.default_rng(3), len(JOINTS)
    time = np.arange(0.0, SECONDS + 0.01, 0.02)
    size, angle = rng.uniform(0.15, 0.4, (n, 4)), rng.uniform(0.0, 6.0, (n, 4))
    omega = 2.0 * np.pi * 0.2 * rng.choice(np.arange(1, 5), (n, 4))
    ramp = np.minimum(1.0, np.minimum(time, SECONDS - time) / 2.0)
    ramp = ramp**3 * (10.0 - 15.0 * ramp + 6.0 * ramp**2)
    path = np.sum(size * np.sin(omega * time[:, None, None] + angle), axis=2) * ramp[:, None]
    curve = CubicSpline(time, path, bc_type='clamped')
    velocity = curve(time, 1)
    velocity[[0, -1]] = 0.0
    message = JointTrajectory(joint_names=JOINTS)
    for t, q, v, a in zip(time, path, velocity, curve(time, 2), strict=True):
        point = JointTrajectoryPoint(positions=q, velocities=v, accelerations=a)
        point.time_from_start.sec = int(t)
        point.time_from_start.nanosec = round(1e9 * (t % 1.0)) % 10**9
        message.points.append(point)
    return message, path[0]


class Cell:
    """A simulated arm in motion, and what is said about it."""

    def __init__(self, ros):
        self.ros = ros
        trajectory, start = motion()
        ros.start(
            'simulation',
            parameters={
                'rate': RATE,
                'real_time_factor': FACTOR,
                'initial_position': start.tolist(),
                'clock_rate': 50.0,
            },
        )
        ros.start(
            'identification',
            parameters={
                'use_sim_time': True,
                'online.enabled': True,
                'online.state_rate': RATE,
                'online.publish_rate': 10.0,
                'online.changes.enabled': True,
                'online.changes.learning': 10.0,
                'online.changes.accept_after': 3.0,
                'signals.dead_zone': 0.05,
            },
        )
        self.clock = ros.subscribe(Clock, '/clock', QoSProfile(depth=1))
        self.statuses = ros.subscribe(OnlineStatus, '/identification/online/status', 10)
        self.diagnostics = ros.subscribe(DiagnosticArray, '/diagnostics', 100)
        self.push = ros.publisher(JointState, '/simulation/disturbance', wait_for_subscribers=1)
        self.wait(lambda: self.statuses and self.statuses[-1].updates > 0, 'updates', 90.0)
        assert ros.follow(trajectory).accepted
        self.begin = self.now

    @property
    def now(self):
        """Newest stamp of the joint states [s]."""
        stamp = self.statuses[-1].header.stamp
        return stamp.sec + 1e-9 * stamp.nanosec

    @property
    def report(self):
        """Newest report about changes, as message and values; None before the first."""
        found = [s for a in self.diagnostics for s in a.status if s.name.endswith(': change')]
        if not found:
            return '', {}
        return found[-1].message, {pair.key: pair.value for pair in found[-1].values}

    @property
    def clock_now(self):
        """Simulated time, or a little less [s]."""
        clock = self.clock[-1].clock
        return clock.sec + 1e-9 * clock.nanosec

    def pass_time(self, ticks=2):
        """Wait for so many more messages of the clock: one may have been on its way."""
        count = len(self.clock)
        self.wait(lambda: len(self.clock) >= count + ticks, 'the clock', 60.0)

    def wait(self, condition, what, seconds):
        self.ros.wait_until(condition, seconds, what)

    def expect(self, number, kind):
        """Wait for so many changes, and return what is told of the newest of this kind."""
        self.wait(
            lambda: self.report[1].get('found') == str(number), f'{kind}: {self.report}', 90.0
        )
        values = self.report[1]
        assert values['kind'] == kind, values
        return values

    def collide(self, joint, effort):
        """
        Push for a moment until a collision is reported; return what is reported of it.

        If this process or the simulation is held up, a push is long or has no length, and is no
        collision: it is repeated.
        """
        for _ in range(5):
            before = self.report[1].get('found')
            for value in (effort, 0.0):
                self.push.publish(JointState(name=[joint], effort=[value]))
                self.ros.spin(0.1 / FACTOR)
            end = self.clock_now + 3.0
            self.wait(
                lambda e=end, b=before: self.clock_now > e or self.report[1].get('found') != b,
                'the push',
                60.0,
            )
            values = self.report[1]
            if values.get('found') != before and values['kind'] == 'collision':
                return values
            self.normal()
        pytest.fail(f'no collision: {self.report}')

    def normal(self):
        """Wait until what was found has become normal."""
        found = self.now
        self.wait(lambda: self.now > found + 4.0, 'the new normal', 90.0)


@pytest.mark.soak
def test_a_payload_wear_and_a_collision_are_noticed_and_told_apart(ros):
    cell = Cell(ros)
    cell.wait(lambda: cell.now > cell.begin + LEARNED, 'what the motion tells', 60.0)
    assert ros.call(SetBool, '/identification/online/freeze', data=True).success
    cell.wait(lambda: cell.report[0] == 'no change', 'what is usual', 60.0)

    before = cell.clock_now
    assert ros.set_parameter('/simulation', 'payload.mass', MASS)[0]
    cell.pass_time()
    after = cell.clock_now
    payload = cell.expect(1, 'payload')
    assert (payload['joint or link'], payload['unit']) == ('link_6', 'kg')
    assert before - 1.0 < float(payload['since, by the stamps [s]']) < after + 1.0
    assert float(payload['found, by the stamps [s]']) - after < 2.0
    assert float(payload['size']) == pytest.approx(MASS, rel=0.05)
    cell.normal()

    factors = [2.0 if joint == 'joint_3' else 1.0 for joint in JOINTS]
    assert ros.set_parameter('/simulation', 'wear.friction', factors)[0]
    friction = cell.expect(2, 'friction')
    assert friction['joint or link'] == 'joint_3'
    assert float(friction['size']) > 3.0 * float(friction['standard deviation'])
    cell.normal()

    collision = cell.collide('joint_2', 60.0)
    assert collision['joint or link'] == 'joint_2'
    assert abs(float(collision['size'])) > 20.0
    assert not ros.set_parameter('/simulation', 'wear.friction', [1.0, 2.0])[0]
