# SPDX-License-Identifier: Apache-2.0
"""What tests of motions share: a simulated arm of two joints, and the node that moves it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

URDF = Path(__file__).resolve().parents[3] / 'urdf'
PLANAR = str(URDF / 'zollo_planar_2r.urdf')

PARAMETERS = {
    'use_sim_time': True,
    'execute': True,
    'move_speed': 0.8,
    # a busy machine may hold up the simulation; a driver that dies is told all the same
    'stale_timeout': 1.0,
    'horizon': 1.0,
    'planner.duration': 4.0,
    'planner.harmonics': 4,
    'planner.max_iterations': 3,
}
"""Of the excitation node."""


def quintic(goal, start=None, speed=1.0):
    """Return the message of a motion from rest to rest, from zero unless said otherwise."""
    from robot_identification.excitation.points import point_to_point, to_points
    from robot_identification.nodes.motion_messages import trajectory_message

    joints = tuple(f'joint_{i + 1}' for i in range(len(goal)))
    start = np.zeros(len(goal)) if start is None else start
    limits = np.full(len(goal), 1.5 * speed), np.full(len(goal), 4.0 * speed)
    points = to_points(point_to_point(joints, start, np.asarray(goal), *limits), 50.0)
    m = points.motion
    return trajectory_message(joints, points.time, m.position, m.velocity, m.acceleration)


class Cell:
    """
    A client, a simulated arm, and the node that moves it.

    Attributes
    ----------
    ros:
        The client.
    arm, node:
        Processes.
    states, sent:
        Joint states and trajectories so far.

    """

    def __init__(self, ros, urdf=PLANAR, rate=200.0, **parameters):
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory

        self.ros = ros
        self._changed = {}
        arm = {'robot_description': urdf, 'rate': rate, 'clock_rate': 50.0}
        self.arm = ros.start('simulation', parameters=arm, wait=False)
        self.node = ros.start('excitation', parameters={**PARAMETERS, **parameters})
        self.states = ros.subscribe(JointState, 'joint_states', 1000)
        self.sent = ros.subscribe(JointTrajectory, 'joint_trajectory', 100)
        ros.wait_until(lambda: self.states, 20.0, what='joint states')
        ros.wait_until(
            lambda: 'with joints' in self.node.output, 20.0, what='the robot in excitation'
        )

    def set(self, **values):
        """Set parameters of the node until the end of the test."""
        before = self.ros.get_parameters('excitation', *values)
        for name, value in values.items():
            self._changed.setdefault(name, before[name])
            done, reason = self.ros.set_parameter('excitation', name, value)
            assert done, reason

    def renew(self):
        """Put everything back to where it was."""
        from std_srvs.srv import Trigger

        assert self.ros.call(Trigger, 'simulation/reset').success
        for name, value in self._changed.items():
            assert self.ros.set_parameter('excitation', name, value)[0]
        self._changed.clear()
        self.ros.spin(0.1)
        self.states.clear()
        self.sent.clear()

    def excite(self, cancel_when=None, **fields):
        """Send a goal; return status, result and feedback."""
        from robot_identification_msgs.action import Excite

        return self.ros.act(Excite, 'excitation/excite', cancel_when=cancel_when, **fields)

    def begin(self, **fields):
        """Send a goal; return its handle, the future of its result, and its feedback so far."""
        from rclpy.action import ActionClient
        from robot_identification_msgs.action import Excite

        feedback = []
        client = self.ros._client(
            lambda kind, name: ActionClient(self.ros.node, kind, name), Excite, 'excitation/excite'
        )
        self.ros.wait_until(client.server_is_ready)
        sending = client.send_goal_async(
            Excite.Goal(**fields), feedback_callback=lambda m: feedback.append(m.feedback)
        )
        self.ros.wait_until(sending.done, what='acceptance')
        return sending.result(), sending.result().get_result_async(), feedback

    def wait_for_progress(self, feedback, share):
        """Wait until a motion has come so far."""
        self.ros.wait_until(
            lambda: feedback and feedback[-1].progress > share, 30.0, f'progress of {share}'
        )

    def at_rest(self):
        """Tell whether the arm rests, by its joint states."""
        for _ in range(10):
            # on a busy machine, some that wait in the queue are of the past
            self.states.clear()
            self.ros.wait_until(lambda: len(self.states) > 40, what='joint states')
            if float(np.ptp(self.positions(), axis=0).max()) < 2e-3:
                return True
        return False

    def stamps(self):
        """Return the times of the joint states so far [s]."""
        return np.array([s.header.stamp.sec + 1e-9 * s.header.stamp.nanosec for s in self.states])

    def positions(self):
        """Return the positions so far, (n, 2)."""
        return np.array([state.position for state in self.states])

    def velocities(self):
        """Return the velocities so far, (n, 2)."""
        return np.array([state.velocity for state in self.states])


def new_ros(request):
    plugins = request.config.pluginmanager.get_plugins()
    return next(plugin.Ros for plugin in plugins if hasattr(plugin, 'Ros'))()


@pytest.fixture(scope='module')
def running(request, ros_domain):
    """Start the nodes once for all tests of a module."""
    pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')
    ros = new_ros(request)
    try:
        yield Cell(ros)
    finally:
        ros.close()


@pytest.fixture
def cell(running):
    """Give the running nodes, with the arm at rest at zero and their first parameters."""
    running.renew()
    return running


@pytest.fixture
def own_cell(ros):
    """Give a function that starts nodes for one test, which may kill them."""
    return lambda **options: Cell(ros, **options)


@pytest.fixture(scope='session')
def move():
    """Give the function that makes the message of a motion."""
    return quintic
