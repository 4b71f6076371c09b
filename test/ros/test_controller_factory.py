# SPDX-License-Identifier: Apache-2.0
"""
The excitation node and each kind of controller over DDS: motions, refusals, and deaths.

The simulated robot follows the rules of ros2_control's controllers (test_simulation_inputs.py).
"""

from __future__ import annotations

from contextlib import suppress
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.action import ActionClient
from rclpy.parameter import Parameter
from robot_identification.excitation.points import PointTrajectory, to_points
from robot_identification.nodes.motion_messages import seconds, trajectory_message
from robot_identification_msgs.action import Excite
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

pytestmark = pytest.mark.wall_clock

PLANAR = 'package://robot_identification/urdf/zollo_planar_2r.urdf'
JOINTS = ('joint_1', 'joint_2')
GOAL = (0.8, -0.3)
EXCITATION = [sys.executable, '-m', 'robot_identification.nodes.excitation_node']
TOPICS = {
    'trajectory_topic': 'joint_trajectory',
    'follow_joint_trajectory': 'follow_joint_trajectory',
    'position_commands': 'position_commands',
    'velocity_commands': 'velocity_commands',
}
KINDS = tuple(TOPICS)


def motion(speed=0.5):
    """Return a motion from zero to `GOAL`, not straight, as a path and as the message."""
    shape = np.array([[0.0, 0.0], [0.4, -0.5], GOAL])
    middle = np.array([[0.0, 0.0], [0.45, 0.0], [0.0, 0.0]]) * speed / 0.5
    time = np.array([0.0, 1.5, 3.0]) * 0.5 / speed
    path = PointTrajectory(JOINTS, time, shape, middle, np.zeros((3, 2)))
    points = to_points(path, 50.0)
    m = points.motion
    return path, trajectory_message(JOINTS, points.time, m.position, m.velocity, m.acceleration)


def away(path, places):
    """Return how far from all of a path each place is."""
    track = path.sample(np.linspace(0.0, path.duration, 1000)).position
    return np.abs(track[None] - places[:, None]).max(axis=2).min(axis=1)


class Cell:
    """
    A simulated robot, and an excitation node for each kind of controller, called as the kind.

    The test answers for the controllers of ``trajectory_topic`` and ``velocity_commands``, with
    the joints in `told`; the others ask the simulation.
    """

    def __init__(self, ros):
        self.ros, self.told, self.nodes = ros, list(JOINTS), {}
        self.start_robot()
        self.states = ros.subscribe(JointState, 'joint_states', 1000)
        self.heard = -np.inf
        for topic in ('position_commands', 'velocity_commands'):
            ros.node.create_subscription(Float64MultiArray, topic, self._hear, 10)
        ros.node.create_service(GetParameters, 'told/get_parameters', self._tell)

    def start_robot(self):
        parameters = {
            'robot_description': PLANAR,
            'rate': 125.0,
            'servo_rate': 250.0,
            'clock_rate': 25.0,
            # what a busy machine holds up counts half
            'real_time_factor': 0.5,
        }
        self.robot = self.ros.start('simulation', parameters=parameters)

    def _hear(self, _):
        self.heard = time.monotonic()

    def _tell(self, request, response):
        values = {'joints': self.told}
        for name in request.names:
            if values.get(name):
                parameter = Parameter(name, value=values[name])
                response.values.append(parameter.get_parameter_value())
        return response

    def start(self, name, kind=None, **parameters):
        """Start an excitation node; its actions are below ``name``."""
        kind = kind or name
        # a simulation that is held up hears commands in bursts, which are leaps to its drives
        streamed = kind.endswith('commands')
        free = {'effort_share': 0.0, 'effort_tolerance': 0.0, 'tracking_tolerance': 0.3}
        values = {
            'use_sim_time': True,
            'execute': True,
            'stale_timeout': 1.0,
            # a busy machine may hold a node up, and the simulated drives' time, who get commands
            # in bursts then
            'horizon': 1.0,
            **(free if streamed else {}),
            'controller_kind': kind,
            'controller_topic': TOPICS[kind],
            'controller_node': 'simulation/controller',
            'speed_scaling_topic': 'simulation/speed_scaling',
            **parameters,
        }
        self.nodes[name] = self.ros.start_command(
            name, EXCITATION, '-r', f'__node:={name}', parameters=values, wait=False
        )

    def wait(self):
        """Wait until all nodes have the robot."""
        for name, node in self.nodes.items():
            self.ros.wait_until(lambda n=node: 'with joints' in n.output, 60.0, f'robot in {name}')

    def reset(self):
        if self.robot.returncode is not None:
            self.start_robot()  # a test that kills it may be tried again
        # a stream goes on for a moment after its motion, and would take the robot back
        self.ros.wait_until(lambda: time.monotonic() - self.heard > 0.5, 20.0, 'silence')
        self.told = list(JOINTS)
        assert self.ros.set_parameter('simulation', 'speed_scaling', 1.0)[0]
        assert self.ros.call(Trigger, 'simulation/reset').success
        # states of before may still be on their way
        self.ros.wait_until(lambda: self.states and self.near(0.0), 20.0, what='the reset')
        self.clear()

    def near(self, place):
        return np.abs(np.array(self.states[-1].position) - place).max() < 2e-3

    def clear(self):
        self.states.clear()
        self.ros.wait_until(lambda: self.states, 20.0, what='joint states')

    def excite(self, name, message, when=None):
        """Carry a motion out; ``when`` is called with the feedback so far, and cancels by true."""
        fields = {'trajectory': message, 'timeout': 90.0, 'cancel_when': when}
        return self.ros.act(Excite, f'{name}/excite', **fields)

    def excite_undisturbed(self, name, message, **options):
        """As `excite`, and again where the machine held what moves the robot up."""
        for _ in range(3):
            status, result, feedback = self.excite(name, message, **options)
            if 'held up' not in result.error_msg:
                break
            self.reset()
        return status, result, feedback

    def measured(self):
        """Return stamps and positions so far."""
        stamps = np.array([seconds(state.header.stamp) for state in self.states])
        return stamps, np.array([state.position for state in self.states])

    def require_rest(self):
        for _ in range(5):
            # on a busy machine, some that wait in the queue are of the past
            self.clear()
            self.ros.wait_until(lambda: len(self.states) > 60, 20.0, what='joint states')
            moved = float(np.ptp(self.measured()[1], axis=0).max())
            if moved < 2e-3:
                return
        pytest.fail(f'the robot has moved by {moved} rad where it should rest')

    def require_on(self, path, kind, slowed=False):
        """
        Check that the robot has moved on a path, and rests at its end.

        Trajectories are interpolated where they are followed, and the drives' servo knows what is
        to come.  Streams may be behind or ahead by some 0.1 s, at 0.5 rad/s, and so may horizons
        where the node hears of a change of speed as late; velocities leave what is corrected with
        a time constant of half a second.
        """
        streamed = kind.endswith('commands')
        end = 0.01 if kind == 'velocity_commands' else 3e-3
        np.testing.assert_allclose(self.states[-1].position, GOAL, atol=end)
        assert away(path, self.measured()[1][::5]).max() < (0.05 if streamed or slowed else 5e-3)


@pytest.fixture(scope='module')
def running(request, ros_domain):
    """Start the cell once for all tests that leave it alive."""
    plugins = request.config.pluginmanager.get_plugins()
    ros = next(plugin.Ros for plugin in plugins if hasattr(plugin, 'Ros'))()
    try:
        cell = Cell(ros)
        for kind in TOPICS:
            asked = kind in ('trajectory_topic', 'velocity_commands')
            cell.start(kind, **({'controller_node': 'told'} if asked else {}))
        cell.wait()
        yield cell
    finally:
        ros.close()


@pytest.fixture
def unwatched(running):
    """Give a function that has a node not watch efforts during a test whose robot leaps."""
    changed = []

    def change(name):
        changed.append(name)
        for parameter in ('effort_share', 'effort_tolerance'):
            assert running.ros.set_parameter(name, parameter, 0.0)[0]

    yield change
    for name in changed:
        for parameter, value in (('effort_share', 0.95), ('effort_tolerance', 0.5)):
            assert running.ros.set_parameter(name, parameter, value)[0]


@pytest.fixture
def cell(running):
    """Give the cell, with the robot at rest at zero, at full speed."""
    running.reset()
    return running


def code_of(outcome):
    return outcome[1].error_code, outcome[1].error_msg


# ---------------------------------------------------------------------------------------- motions


@pytest.mark.parametrize('kind', KINDS[1:])
def test_the_robot_moves_as_planned(cell, kind):
    path, message = motion()
    sent = cell.ros.subscribe(Float64MultiArray, 'position_commands', 1000)
    status, result, _ = cell.excite_undisturbed(kind, message)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    cell.require_on(path, kind)
    # at the joint states' own stamps: nothing but what the robot does counts
    assert 0.0 < result.max_tracking_error < (0.3 if kind.endswith('commands') else 2e-3)
    if kind == 'position_commands':
        told = np.array([message.data for message in sent])
        assert len(told) > 100
        assert away(path, told[20::5]).max() < 0.005  # after the little way to the start


@pytest.mark.parametrize('kind', KINDS[1:4:2])
def test_cancel_brings_the_robot_to_rest_on_the_path(cell, kind):
    path, message = motion()
    status, result, _ = cell.excite(kind, message, lambda f: f and f[-1].progress > 0.4)
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Excite.Result.CANCELED)
    cell.require_rest()
    place = np.array([cell.states[-1].position])
    assert away(path, place)[0] < 0.015
    assert np.abs(place - GOAL).max() > 0.05 and np.abs(place).max() > 0.05


@pytest.mark.parametrize('kind', ['trajectory_topic', 'velocity_commands'])
def test_a_controller_that_slows_time_down_is_followed(cell, kind, unwatched):
    path, message = motion()
    if kind == 'trajectory_topic':
        # where a change is heard late, the next horizon is ahead by as much of it
        unwatched(kind)
    asked = []

    def slow(feedback):
        progress = feedback[-1].progress if feedback else 0.0
        for i, (share, speed) in enumerate(((0.25, 0.3), (0.6, 1.0))):
            if progress > share and len(asked) == i:
                parameter = Parameter('speed_scaling', value=speed).to_parameter_msg()
                asked.append(client.call_async(SetParameters.Request(parameters=[parameter])))
        return False

    client = cell.ros.node.create_client(SetParameters, 'simulation/set_parameters')
    cell.ros.wait_until(client.service_is_ready)
    status, result, feedback = cell.excite(kind, message, slow)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    assert len(asked) == 2
    speeds = [f.speed_scaling for f in feedback]
    assert (min(speeds), max(speeds)) == pytest.approx((0.3, 1.0))
    # the path is the same, though not its time: a third of it took three times as long
    cell.require_on(path, kind, slowed=True)
    assert result.duration > result.planned_duration + 0.4 * path.duration
    cell.ros.node.destroy_client(client)


# --------------------------------------------------------------------------------------- refusals


def test_other_joints_are_refused_by_their_names(cell):
    cell.told = ['joint_1', 'elbow']
    code, text = code_of(cell.excite('trajectory_topic', motion()[1]))
    assert code == Excite.Result.JOINTS_DIFFER
    assert all(word in text for word in ("does not have 'joint_2'", "has 'elbow' too", "'told'"))
    cell.require_rest()
    assert cell.near(0.0)


# ------------------------------------------------------------------------------- what goes wrong


def test_a_goal_that_the_controller_gives_up_ends_the_motion(cell, unwatched):
    unwatched('follow_joint_trajectory')  # the other one takes the robot back a little
    commands = cell.ros.publisher(Float64MultiArray, 'position_commands')

    def take_over(feedback):
        if feedback and feedback[-1].progress > 0.3:
            commands.publish(Float64MultiArray(data=list(cell.states[-1].position)))
        return False

    code, text = code_of(cell.excite('follow_joint_trajectory', motion()[1], take_over))
    assert code == Excite.Result.CONTROLLER_FAILED
    assert 'another controller commands the robot' in text
    assert 'INVALID_GOAL' in text


# ----------------------------------------------------------------------------------------- deaths


def test_a_stream_that_is_killed_stops_the_robot(cell):
    def kill(feedback):
        if feedback and feedback[-1].progress > 0.4:
            for child in children_of(cell.nodes['velocity_commands'].pid):
                with suppress(ProcessLookupError):  # told before, it is gone by now
                    os.kill(child, signal.SIGKILL)
        return False

    code, text = code_of(cell.excite('velocity_commands', motion()[1], kill))
    assert code == Excite.Result.CONTROLLER_FAILED
    assert 'the process that streams commands has ended' in text
    cell.require_rest()


@pytest.mark.parametrize('kind', ['position_commands', 'velocity_commands'])
def test_a_stream_that_hangs_is_ended_and_the_robot_stopped(cell, kind):
    stopped = []

    def hang(feedback):
        if feedback and feedback[-1].progress > 0.4 and not stopped:
            stopped.extend(children_of(cell.nodes[kind].pid))
            for child in stopped:
                os.kill(child, signal.SIGSTOP)
        return False

    code, text = code_of(cell.excite(kind, motion()[1], hang))
    assert code == Excite.Result.CONTROLLER_FAILED, text
    assert 'the process that streams commands has ended' in text
    assert 'was ended, since it hung' in cell.nodes[kind].output
    assert not alive(stopped[0])
    cell.require_rest()
    # some 0.6 s at 0.5 rad/s, at most
    assert np.abs(np.array(cell.states[-1].position) - GOAL).max() > 0.05


def test_a_stream_of_positions_that_was_held_up_ends_without_a_leap(cell):
    path, message = motion()
    sent, numbers, held = [], [], []

    def hear(command, info):
        sent.append(command.data)
        numbers.append(info['publication_sequence_number'])

    def hold_up(feedback):
        if feedback and feedback[-1].progress > 0.4 and not held:
            held.extend(children_of(cell.nodes['position_commands'].pid))
            for child in held:
                os.kill(child, signal.SIGSTOP)
                threading.Timer(0.3, os.kill, (child, signal.SIGCONT)).start()
        return False

    text = ''
    cell.ros.node.create_subscription(Float64MultiArray, 'position_commands', hear, 1000)
    for _ in range(6):
        for items in (sent, numbers, held):
            items.clear()
        code, text = code_of(cell.excite('position_commands', message, hold_up))
        # 3 mrad a command are planned at most, half as many more are caught up, and a simulation
        # that was held up itself has its time pass half as fast again; some may get lost here
        steps = np.abs(np.diff(sent, axis=0)).max(axis=1)
        assert (steps / np.diff(numbers)).max() < 0.008, text
        cell.require_rest()
        place = np.array([cell.states[-1].position])
        assert away(path, place)[0] < 0.015
        if 'held up' in text:
            assert code == Excite.Result.CONTROLLER_FAILED
            assert np.abs(place - GOAL).max() > 0.05
            break
        # a busy machine lets it hang for longer, or holds the simulation up as well
        assert not text or 'has ended' in text, text
        cell.reset()
    cell.reset()
    assert 'the process that streams commands was held up for 0.' in text
    # and the next motion is one like any other
    status, result, _ = cell.excite_undisturbed('position_commands', message)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    cell.require_on(path, 'position_commands')


@pytest.mark.parametrize('kind', ['position_commands', 'velocity_commands'])
def test_a_node_that_is_killed_leaves_a_robot_that_comes_to_rest(cell, kind):
    path, message = motion(speed=0.4)
    client = ActionClient(cell.ros.node, Excite, f'{kind}/excite')
    cell.ros.wait_until(client.server_is_ready, 20.0)
    sending = client.send_goal_async(Excite.Goal(trajectory=message))
    cell.ros.wait_until(lambda: cell.states[-1].position[0] > 0.25, 40.0, 'the motion')
    assert sending.done()
    node = cell.nodes.pop(kind)
    children = children_of(node.pid)
    assert children
    node.stop(signal.SIGKILL)
    cell.clear()
    cell.ros.wait_until(lambda: not any(map(alive, children)), 40.0, 'the end of the stream')
    moving = np.array([state.velocity for state in cell.states])
    assert np.abs(moving[0]).max() > 0.05  # it did not stop dead
    cell.require_rest()
    place = np.array([cell.states[-1].position])
    assert away(path, place)[0] < 0.015
    client.destroy()


@pytest.mark.parametrize('kind', [KINDS[1]])
def test_a_robot_that_dies_ends_the_motion(cell, kind):
    def kill(feedback):
        if feedback and feedback[-1].progress > 0.3 and cell.robot.returncode is None:
            cell.robot.stop(signal.SIGKILL)
        return False

    code, text = code_of(cell.excite(kind, motion()[1], kill))
    assert code in (Excite.Result.STALE_STATE, Excite.Result.CONTROLLER_FAILED), text


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
