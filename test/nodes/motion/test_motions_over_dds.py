# SPDX-License-Identifier: Apache-2.0
"""
Motions over DDS by each kind of controller, and the deaths of the processes that take part.

The motions are slow, and their bounds wide: a busy machine may hold any of the processes up for
a second.  What a motion does in its time is tested on a driven clock, in ``motion``.
"""

from __future__ import annotations

from contextlib import suppress
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from controller_manager_msgs.msg import ControllerState as StateMessage
from controller_manager_msgs.srv import ListControllers
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from robot_identification.data.bag import bag_info
from robot_identification.excitation.trajectories import PointTrajectory, to_points
from robot_identification.nodes.common.messages import (
    nanoseconds,
    seconds,
    time_message,
    trajectory_message,
)
from robot_identification_msgs.action import Excite, PlanExcitation
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

PLANAR = 'package://robot_identification/urdf/zollo_planar_2r.urdf'
JOINTS = ('joint_1', 'joint_2')
EXCITATION = [sys.executable, '-m', 'robot_identification.nodes.excitation_node']
KINDS = ('trajectory_topic', 'follow_joint_trajectory', 'position_commands', 'velocity_commands')
TOPICS = {kind: kind for kind in KINDS} | {'trajectory_topic': 'joint_trajectory'}
UNDER_WAY = 0.03
"""Way after which the arm is moving [rad]."""

CLIENT = """
import sys
import rclpy
from rclpy.action import ActionClient
from rclpy.serialization import deserialize_message
from robot_identification_msgs.action import Excite
from trajectory_msgs.msg import JointTrajectory

rclpy.init()
node = rclpy.create_node('short_lived')
client = ActionClient(node, Excite, 'trajectory_topic/excite')
client.wait_for_server()
trajectory = deserialize_message(bytes.fromhex(sys.stdin.readline()), JointTrajectory)
sending = client.send_goal_async(Excite.Goal(trajectory=trajectory))
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


def motion(duration, size):
    """Return a motion from zero, not straight, as a path and as the message."""
    shape = size * np.array([[0.0, 0.0], [0.5, -0.6], [1.0, -0.4]])
    middle = np.zeros((3, 2))
    middle[1] = (shape[2] - shape[0]) / duration
    path = PointTrajectory(
        JOINTS, np.array([0.0, 0.5, 1.0]) * duration, shape, middle, np.zeros((3, 2))
    )
    p = to_points(path, 50.0)
    return path, trajectory_message(JOINTS, p.time, p.position, p.velocity, p.acceleration)


SHORT = 2.0, 0.15
"""Duration and size of a motion that is carried out [s, rad]."""

LONG = 24.0, 1.2
"""The same of one that a test ends soon after its beginning."""


def away(path, places):
    """Return how far from all of a path each place is."""
    track = path.sample(np.linspace(0.0, path.duration, 1000)).position
    return np.abs(track[None] - places[:, None]).max(axis=2).min(axis=1)


class Motion:
    """A motion that one of the nodes was asked for."""

    def __init__(self, cell, kind, trajectory=None, **fields):
        self.ros, self.feedback = cell.ros, []
        self.client = cell.ros._client(
            lambda action, name: ActionClient(cell.ros.node, action, name),
            Excite,
            f'{kind}/excite',
        )
        cell.ros.wait_until(self.client.server_is_ready, 60.0, 'the action')
        if trajectory is not None:
            fields['trajectory'] = trajectory
        sending = self.client.send_goal_async(
            Excite.Goal(**fields), feedback_callback=lambda m: self.feedback.append(m.feedback)
        )
        cell.ros.wait_until(sending.done, 60.0, 'acceptance')
        self.goal = sending.result()
        self.future = self.goal.get_result_async()

    @property
    def done(self):
        return self.future.done()

    def cancel(self):
        self.goal.cancel_goal_async()

    def end(self):
        """Wait for the end; return status and result."""
        self.ros.wait_until(self.future.done, 120.0, 'the end of the motion')
        return self.future.result().status, self.future.result().result


class Cell:
    """
    A simulated robot, and an excitation node for each kind of controller, called as the kind.

    The test answers for the controllers of ``trajectory_topic`` and ``velocity_commands``, with
    the joints in `told`; the others ask the simulation.
    """

    def __init__(self, ros):
        self.ros, self.told, self.nodes = ros, list(JOINTS), {}
        parameters = {
            'robot_description': PLANAR,
            'rate': 125.0,
            'servo_rate': 250.0,
            'clock_rate': 25.0,
            'real_time_factor': 2.0,
        }
        self.robot = ros.start('simulation', parameters=parameters, wait=False)
        # few are kept for a process that is late: the latest is never long past
        self.states = ros.subscribe(JointState, 'joint_states', 10)
        self.heard = -np.inf
        for topic in ('position_commands', 'velocity_commands'):
            ros.node.create_subscription(Float64MultiArray, topic, self._hear, 10)
        ros.node.create_service(GetParameters, 'told/get_parameters', self._tell)

    def _hear(self, _):
        self.heard = time.monotonic()

    def _tell(self, request, response):
        values = {'joints': self.told}
        for name in request.names:
            if values.get(name):
                parameter = Parameter(name, value=values[name])
                response.values.append(parameter.get_parameter_value())
        return response

    def start(self, kind, controller_node):
        """Start an excitation node; its actions are below the kind's name."""
        values = {
            'use_sim_time': True,
            'execute': True,
            'controller_kind': kind,
            'controller_topic': TOPICS[kind],
            'controller_node': controller_node,
            'speed_scaling_topic': 'simulation/speed_scaling',
            # so seldom that none is missed
            'command_rate': 10.0,
            # any of the processes may be held up
            'horizon': 5.0,
            'stale_timeout': 5.0,
            'settle_time': 20.0,
            'tracking_lag': 2.0,
            'tracking_tolerance': 0.5,
            'effort_share': 0.0,
            'effort_tolerance': 0.0,
            'move_speed': 0.5,
            'planner.duration': 3.0,
            'planner.harmonics': 3,
            'planner.max_iterations': 1,
        }
        self.nodes[kind] = self.ros.start_command(
            kind, EXCITATION, '-r', f'__node:={kind}', parameters=values, wait=False
        )

    def wait(self):
        """Wait until all nodes have the robot."""
        for name, node in self.nodes.items():
            self.ros.wait_until(
                lambda n=node: 'with joints' in n.output or n.returncode is not None,
                60.0,
                f'robot in {name}',
            )
            assert node.returncode is None, node.output

    def reset(self):
        # a stream goes on for a moment after its motion, and would take the robot back
        self.ros.wait_until(lambda: time.monotonic() - self.heard > 0.5, 60.0, 'silence')
        self.told = list(JOINTS)
        assert self.ros.call(Trigger, 'simulation/reset', timeout=60.0).success
        # states of before may still be on their way
        self.ros.wait_until(lambda: self.states and self.near(0.0), 60.0, what='the reset')
        self.clear()

    def near(self, place):
        return np.abs(np.array(self.states[-1].position) - place).max() < 2e-3

    def clear(self):
        self.states.clear()
        self.ros.wait_until(lambda: self.states, 60.0, what='joint states')

    def begin(self, kind, trajectory, **fields):
        """Have a motion begin; return it once the arm is under way."""
        begun = Motion(self, kind, trajectory, **fields)
        self.ros.wait_until(
            lambda: begun.done or np.abs(self.states[-1].position).max() > UNDER_WAY,
            120.0,
            'the motion',
        )
        assert not begun.done, begun.future.result().result.error_msg
        return begun

    def require_rest(self, bound=60.0):
        """Wait until the robot rests, for half a second of its own time."""

        def rests():
            stamps = [seconds(state.header.stamp) for state in self.states[-63:]]
            late = np.array([state.position for state in self.states[-63:]])
            whole = len(late) == 63 and stamps[-1] - stamps[0] < 1.0
            return whole and float(np.ptp(late, axis=0).max()) < 2e-3

        self.clear()
        self.ros.wait_until(rests, bound, 'rest')

    def require_rest_on(self, path):
        """Wait for rest on a path, at neither of its ends."""
        self.require_rest()
        place = np.array([self.states[-1].position])
        end = path.sample(np.array([path.duration])).position
        assert away(path, place)[0] < 0.015
        assert np.abs(place - end).max() > 0.05 and np.abs(place).max() > 0.5 * UNDER_WAY

    def require_rest_at_end(self, path):
        self.require_rest()
        end = path.sample(np.array([path.duration])).position[0]
        np.testing.assert_allclose(self.states[-1].position, end, atol=0.02)


@pytest.fixture(scope='module')
def running(request, ros_domain):
    """Start the cell once for all tests; the last ones kill its nodes."""
    plugins = request.config.pluginmanager.get_plugins()
    ros = next(plugin.Ros for plugin in plugins if hasattr(plugin, 'Ros'))()
    try:
        cell = Cell(ros)
        for kind in KINDS:
            asked = kind in ('trajectory_topic', 'velocity_commands')
            cell.start(kind, 'told' if asked else 'simulation/controller')
        cell.wait()
        yield cell
    finally:
        ros.close()


@pytest.fixture
def cell(running):
    """Give the cell, with the robot at rest at zero."""
    running.reset()
    return running


def test_a_client_that_is_killed_is_missed(cell, tmp_path):
    """The first test, since a client of this process would be taken for its client, too."""
    profile = tmp_path / 'lease.xml'
    profile.write_text(QUICK_LEASE)
    names = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')
    environment = {**os.environ, **dict.fromkeys(names, str(profile))}
    path, message = motion(*LONG)
    with subprocess.Popen(
        [sys.executable, '-c', CLIENT], stdin=subprocess.PIPE, text=True, env=environment
    ) as client:
        try:
            client.stdin.write(serialize_message(message).hex() + '\n')
            client.stdin.flush()
            cell.ros.wait_until(
                lambda: np.abs(cell.states[-1].position).max() > UNDER_WAY, 120.0, 'the motion'
            )
        finally:
            client.kill()
    node = cell.nodes['trajectory_topic']
    words = 'the client is gone (/short_lived'
    cell.ros.wait_until(lambda: words in node.output, 60.0, 'the loss')
    cell.require_rest_on(path)


# ---------------------------------------------------------------------------------------- motions


@pytest.mark.parametrize('kind', KINDS[1:])
def test_a_motion_is_carried_out_by_each_kind_of_controller(cell, kind):
    path, message = motion(*SHORT)
    status, result = Motion(cell, kind, message).end()
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    assert result.planned_duration == pytest.approx(path.duration)
    cell.require_rest_at_end(path)


def test_a_plan_is_executed_and_recorded_and_a_motion_that_ends_early_is_marked(cell, tmp_path):
    ros, kind = cell.ros, KINDS[0]
    recorder = ros.start('recorder', parameters={'use_sim_time': True, 'output': str(tmp_path)})
    path, message = motion(*LONG)
    begun = cell.begin(kind, message, record=True, recording_name='short')
    begun.cancel()
    status, result = begun.end()
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Excite.Result.CANCELED)
    assert result.recording_path == str(tmp_path / 'short')
    cell.require_rest_on(path)
    mark = bag_info(tmp_path / 'short').mark
    assert 'CANCELED' in mark and 'of the motion' in mark and result.error_msg in mark

    assert ros.set_parameter(kind, 'planner.velocity_limits', [0.4, 0.4])[0]
    plan = ros.act(PlanExcitation, f'{kind}/plan')[1]
    assert ros.set_parameter(kind, 'planner.velocity_limits', [3.0, 3.0])[0]
    assert plan.error_code == 0, plan.error_msg
    begun = Motion(cell, kind, plan_id=plan.plan_id, record=True, recording_name='whole')
    status, result = begun.end()
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, '')
    assert result.recording_path == str(tmp_path / 'whole')
    assert bag_info(tmp_path / 'whole').mark == ''
    with AnyReader([tmp_path / 'whole']) as bag:
        states = [bag.deserialize(data, link.msgtype) for link, _, data in bag.messages()]
    stamps = [state.header.stamp.sec + 1e-9 * state.header.stamp.nanosec for state in states]
    assert stamps[-1] - stamps[0] > plan.planned_duration
    phases = {feedback.phase for feedback in begun.feedback}
    assert {'moving_to_start', 'exciting'} <= phases
    assert recorder.stop() == 0


# ------------------------------------------------------------------------------- what goes wrong


def test_neither_a_dry_run_nor_a_motion_takes_an_inactive_controller(cell):
    states = {'told': 'inactive'}

    def answer(_, response):
        response.controller = [StateMessage(name=n, state=s) for n, s in states.items()]
        return response

    name = '/controller_manager/list_controllers'
    service = cell.ros.node.create_service(ListControllers, name, answer)
    message = motion(*SHORT)[1]
    try:
        for dry_run in (True, False):
            status, result = Motion(cell, KINDS[0], message, dry_run=dry_run).end()
            assert status == GoalStatus.STATUS_ABORTED
            assert result.error_code == Excite.Result.NO_CONTROLLER
            assert "the controller '/told' is inactive" in result.error_msg
        states['told'] = 'active'
        status, result = Motion(cell, KINDS[0], message, dry_run=True).end()
        assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    finally:
        cell.ros.node.destroy_service(service)
    cell.require_rest()
    assert cell.near(0.0)


def test_a_goal_that_the_controller_gives_up_ends_the_motion(cell):
    commands = cell.ros.publisher(Float64MultiArray, 'position_commands')
    begun = cell.begin('follow_joint_trajectory', motion(*LONG)[1])
    commands.publish(Float64MultiArray(data=list(cell.states[-1].position)))
    result = begun.end()[1]
    assert result.error_code == Excite.Result.CONTROLLER_FAILED
    assert 'another controller commands the robot' in result.error_msg
    assert 'INVALID_GOAL' in result.error_msg
    cell.require_rest()


def test_a_second_publisher_of_the_same_joints_ends_a_motion(cell):
    ros = cell.ros
    path, message = motion(*LONG)
    begun = cell.begin('trajectory_topic', message)
    other = ros.node.create_publisher(JointState, 'joint_states', 100)

    def publish():
        false = JointState(name=list(JOINTS), position=[0.0, 0.0])
        # ahead, so that this process may be late without the clock going back
        stamp = nanoseconds(cell.states[-1].header.stamp)
        false.header.stamp = time_message(stamp + 500_000_000)
        other.publish(false)

    timer = ros.node.create_timer(0.02, publish)
    try:
        result = begun.end()[1]
    finally:
        ros.node.destroy_timer(timer)
        ros.node.destroy_publisher(other)
    assert result.error_code == Excite.Result.UNTRUSTED_STATE, result.error_msg
    # which of the two is noticed first depends on how the messages of both alternate
    reasons = 'several publishers', 'contradict each other'
    assert any(reason in result.error_msg for reason in reasons), result.error_msg
    cell.require_rest_on(path)


# ----------------------------------------------------------------------------------------- deaths


def test_a_stream_that_is_killed_stops_the_robot(cell):
    path, message = motion(*LONG)
    begun = cell.begin('velocity_commands', message)
    for child in children_of(cell.nodes['velocity_commands'].pid):
        os.kill(child, signal.SIGKILL)
    result = begun.end()[1]
    assert result.error_code == Excite.Result.CONTROLLER_FAILED
    assert 'the process that streams commands has ended' in result.error_msg
    cell.require_rest_on(path)


def test_a_stream_that_hangs_is_ended_and_the_robot_stopped(cell):
    path, message = motion(*LONG)
    begun = cell.begin('position_commands', message)
    node = cell.nodes['position_commands']
    stopped = children_of(node.pid)
    for child in stopped:
        os.kill(child, signal.SIGSTOP)
    result = begun.end()[1]
    assert result.error_code == Excite.Result.CONTROLLER_FAILED, result.error_msg
    assert 'the process that streams commands has ended' in result.error_msg
    node.wait_for_output('was ended, since it hung')
    assert not any(map(alive, stopped))
    cell.require_rest_on(path)


@pytest.mark.parametrize('kind', ['trajectory_topic', 'velocity_commands'])
def test_a_node_that_is_killed_leaves_a_robot_at_rest_and_a_whole_recording(cell, kind, tmp_path):
    path, message = motion(*LONG)
    parameters = {'use_sim_time': True, 'output': str(tmp_path)}
    recorder = cell.ros.start('recorder', parameters=parameters)
    begun = cell.begin(kind, message, record=True, recording_name='cut')
    node = cell.nodes.pop(kind)
    children = children_of(node.pid)
    assert bool(children) == (kind == 'velocity_commands')
    node.stop(signal.SIGKILL)
    cell.ros.wait_until(lambda: not any(map(alive, children)), 120.0, 'the end of the stream')
    cell.require_rest_on(path)
    assert not begun.done
    # nobody stops the recorder, so it goes on until it is ended itself
    assert recorder.stop() == 0
    with AnyReader([tmp_path / 'cut']) as bag:
        states = [bag.deserialize(data, link.msgtype) for link, _, data in bag.messages()]
    np.testing.assert_allclose(states[-1].position, cell.states[-1].position, atol=2e-3)
    assert np.abs(states[0].position).max() < 2e-3


def children_of(pid):
    """Return the processes that ``pid`` has started; the kernel's own list may lack one."""
    found = []
    for entry in filter(str.isdigit, os.listdir('/proc')):
        with suppress(OSError), open(f'/proc/{entry}/stat') as file:
            if int(file.read().rpartition(')')[2].split()[1]) == pid:
                found.append(int(entry))
    return found


def alive(pid):
    return os.path.exists(f'/proc/{pid}')
