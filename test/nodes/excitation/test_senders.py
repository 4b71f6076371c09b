# SPDX-License-Identifier: Apache-2.0
"""
Senders of motions, against stand-ins of controllers by ros2_control's rules.

Both sides live in this process, but for the one that streams commands.
"""

from __future__ import annotations

from array import array
from multiprocessing import Pipe
import os
import subprocess
import sys
import time
from unittest import mock

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.parameter import Parameter
from rclpy.task import Future
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.trajectories import point_to_point, PointTrajectory, to_points
from robot_identification.nodes.common.messages import seconds, time_message
from robot_identification.nodes.excitation import remote_nodes
from robot_identification.nodes.excitation.command_process import (
    CommandTask,
    Heartbeat,
)
from robot_identification.nodes.excitation.motion import SENDERS
from robot_identification.nodes.excitation.options import Code, ControllerOptions, MotionError
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

JOINTS = ('a', 'b')
PATH = point_to_point(JOINTS, np.zeros(2), [0.4, -0.2], [0.5, 0.5], [2.0, 2.0])
POINTS = to_points(PATH, 50.0)


LIMITS = Limits(
    JOINTS,
    ('rad', 'rad'),
    np.full(2, -2.0),
    np.full(2, 2.0),
    np.full(2, 1.0),
    np.full(2, 4.0),
    np.full(2, np.inf),
)


def sender_of(node, group, options):
    """Return the sender itself, without the check before it."""
    return SENDERS[options.controller_kind](node, group, options)


class Pause:
    """Wait for the executor's next turn."""

    def __await__(self):
        yield


async def tick():
    await Pause()


def refusal(ros, sender):
    """Prepare a sender whose controller is missing; return its `MotionError`."""
    with mock.patch.object(remote_nodes, 'CONTROLLER_SECONDS', 0.3):
        return prepare(ros, sender)


def prepare(ros, sender, timeout=40.0):
    """Prepare a sender for a motion; return its `MotionError`, or None."""

    async def work():
        try:
            await sender.prepare(JOINTS, tick)
        except MotionError as error:
            return error

    task = ros.executor.create_task(work)
    ros.wait_until(task.done, timeout, 'the sender')
    return task.result()


@pytest.fixture
def tell(ros):
    """Give a function with which a controller tells its parameters."""
    told = {}

    def answer(request, response):
        # all or nothing, as rclcpp answers
        if all(name in told for name in request.names):
            response.values = [
                Parameter(name, value=told[name]).get_parameter_value() for name in request.names
            ]
        return response

    def tell(**values):
        told.clear()
        told.update(values)

    ros.node.create_service(GetParameters, 'controller/get_parameters', answer)
    return tell


# --------------------------------------------------------------------------------- any controller


def test_joints_are_compared_by_name(ros, tell, capfd):
    sender = sender_of(
        ros.node, None, ControllerOptions(controller_topic='controller/joint_trajectory')
    )
    error = refusal(ros, sender)
    assert (error.code, '/controller/joint_trajectory' in str(error)) == (Code.NO_CONTROLLER, True)
    ros.node.create_subscription(JointTrajectory, 'controller/joint_trajectory', print, 1)
    for told, partial, words in (
        (['a', 'b'], False, ()),
        (['b', 'a'], False, ()),
        (['a', 'c'], False, ("'/controller'", "does not have 'b'", "has 'c' too")),
        (['a', 'b', 'c', 'd'], False, ("has 'c', 'd' too",)),
        (['a', 'b', 'c', 'd'], True, ()),
        (['a'], True, ("does not have 'b'",)),
    ):
        tell(joints=told, allow_partial_joints_goal=partial)
        error = prepare(ros, sender)
        assert (error is None) == (not words)
        if words:
            assert error.code == Code.JOINTS_DIFFER
            assert all(word in str(error) for word in words), error
    tell(joints=['a', 'b'])  # and nothing else is declared
    assert prepare(ros, sender) is None
    tell()
    assert prepare(ros, sender) is None
    assert prepare(ros, sender) is None
    assert capfd.readouterr().err.count("'/controller' does not return its parameter joints") == 1


def test_a_controller_whose_node_is_silent_is_taken_on_trust_in_bounded_time(ros):
    options = ControllerOptions(controller_topic='joint_trajectory', controller_node='nobody')
    sender = sender_of(ros.node, None, options)
    ros.node.create_subscription(JointTrajectory, 'joint_trajectory', print, 1)
    begin = time.monotonic()
    assert prepare(ros, sender) is None
    assert time.monotonic() - begin < 10.0


def test_the_speed_scaling_is_listened_to(ros, monkeypatch):
    options = ControllerOptions(speed_scaling_topic='speed')
    sender = sender_of(ros.node, None, options)
    ros.node.create_subscription(JointTrajectory, 'joint_trajectory', print, 1)
    error = refusal(ros, sender)
    assert error.code == Code.NO_CONTROLLER
    assert "'/speed'" in str(error) and 'speed_scaling_topic' in str(error)
    publisher = ros.publisher(Float64, 'speed', wait_for_subscribers=1)
    for value in (30.0, float('nan'), -5.0):
        publisher.publish(Float64(data=value))
    assert prepare(ros, sender) is None
    ros.spin(0.2)
    assert sender.speed_scaling == pytest.approx(0.3)
    assert sender.failure is None
    # and no executor has to come to it
    publisher.publish(Float64(data=50.0))
    time.sleep(0.2)
    assert sender.speed_scaling == pytest.approx(0.5)
    monkeypatch.setattr(remote_nodes, 'SPEED_SECONDS', 0.01)
    assert "'/speed' has not published the speed scaling" in sender.failure


def test_a_controller_that_leaves_is_missed(ros):
    sender = sender_of(ros.node, None, ControllerOptions())
    subscription = ros.node.create_subscription(JointTrajectory, 'joint_trajectory', print, 1)
    assert prepare(ros, sender) is None
    assert sender.failure is None
    ros.node.destroy_subscription(subscription)
    ros.wait_until(lambda: sender.failure is not None, what='the failure')
    assert 'the controller is gone' in sender.failure


# ------------------------------------------------------------------------------------- the action


class StandIn:
    """
    The action of a controller, by the documented rules of joint_trajectory_controller.

    It refuses other joints, ends with velocity and times that do not increase.  A new goal ends
    the former, which is aborted with INVALID_GOAL; `end` ends the one that is followed.
    """

    def __init__(self, ros):
        from control_msgs.action import FollowJointTrajectory

        self.kind, self.ros = FollowJointTrajectory, ros
        self.goals, self.canceled, self._running = [], 0, None
        ActionServer(
            ros.node,
            FollowJointTrajectory,
            'controller/follow_joint_trajectory',
            self._execute,
            goal_callback=self._goal,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._cancel,
        )

    def _goal(self, request):
        trajectory = request.trajectory
        times = [seconds(point.time_from_start) for point in trajectory.points]
        good = (
            sorted(trajectory.joint_names) == sorted(JOINTS)
            and all(np.diff(times) > 0.0)
            and not any(trajectory.points[-1].velocities)
            and all(len(p.positions) == 2 for p in trajectory.points)
        )
        return GoalResponse.ACCEPT if good else GoalResponse.REJECT

    def _accepted(self, handle):
        self.end(self.kind.Result.INVALID_GOAL, 'replaced by another goal')
        self.goals.append(handle.request.trajectory)
        self._running = Future(executor=self.ros.executor)
        handle.execute()

    def _cancel(self, _):
        self.canceled += 1
        self.end(None, '')
        return CancelResponse.ACCEPT

    async def _execute(self, handle):
        code, text = await self._running
        if code == self.kind.Result.SUCCESSFUL:
            handle.succeed()
        elif code is None:
            handle.canceled()
        else:
            handle.abort()
        return self.kind.Result(error_code=code or 0, error_string=text)

    def end(self, code, text):
        if self._running is not None and not self._running.done():
            self._running.set_result((code, text))


@pytest.fixture
def action(ros, tell):
    """Give the stand-in and a sender that is prepared."""
    tell(joints=list(JOINTS))
    options = ControllerOptions(
        controller_kind='follow_joint_trajectory',
        controller_topic='controller/follow_joint_trajectory',
    )
    sender = sender_of(ros.node, None, options)
    stand_in = StandIn(ros)
    ros.wait_until(lambda: prepare(ros, sender) is None, what='the action')
    return stand_in, sender


def send(ros, stand_in, sender, points=POINTS):
    count = len(stand_in.goals)
    sender.send(points, time.time_ns())
    ros.wait_until(lambda: len(stand_in.goals) > count, what='the goal')
    ros.spin(0.1)


def test_an_action_that_nobody_offers(ros):
    options = ControllerOptions(
        controller_kind='follow_joint_trajectory',
        controller_topic='nobody/follow_joint_trajectory',
    )
    error = refusal(ros, sender_of(ros.node, None, options))
    assert error.code == Code.NO_CONTROLLER
    assert "action '/nobody/follow_joint_trajectory'" in str(error)


def test_a_goal_that_takes_the_place_of_another_is_no_failure(ros, action):
    stand_in, sender = action
    for _ in range(4):
        send(ros, stand_in, sender)
        assert sender.failure is None
    assert not stand_in.canceled
    stand_in.end(stand_in.kind.Result.SUCCESSFUL, '')
    ros.spin(0.2)
    assert sender.failure is None
    sender.finish()
    ros.spin(0.2)
    assert not stand_in.canceled  # nothing is left to cancel
    assert np.allclose(stand_in.goals[-1].points[-1].positions, [0.4, -0.2])


def test_a_goal_that_is_still_followed_is_canceled_at_the_end_alone(ros, action):
    stand_in, sender = action
    send(ros, stand_in, sender)
    sender.finish()
    ros.wait_until(lambda: stand_in.canceled, what='the cancellation')
    # which is none of the next motion's business
    assert prepare(ros, sender) is None
    ros.spin(0.2)
    assert sender.failure is None


def test_what_the_controller_says_of_a_failure_is_told(ros, action):
    stand_in, sender = action
    codes = stand_in.kind.Result
    for code, text, words in (
        (codes.PATH_TOLERANCE_VIOLATED, 'b is late', 'PATH_TOLERANCE_VIOLATED, b is late'),
        (codes.INVALID_JOINTS, '', 'INVALID_JOINTS'),
        (codes.INVALID_GOAL, 'switched off', 'INVALID_GOAL, switched off'),
    ):
        send(ros, stand_in, sender)
        stand_in.end(code, text)
        ros.wait_until(lambda: sender.failure is not None, what='the failure')
        assert words in sender.failure
        send(ros, stand_in, sender)  # a stop, which makes nothing good
        assert words in sender.failure
        sender.finish()
        assert prepare(ros, sender) is None
        assert sender.failure is None


def test_a_goal_that_is_refused_is_a_failure(ros, action):
    stand_in, sender = action
    p = POINTS
    late = PointTrajectory(JOINTS, p.time, p.position, p.velocity + 0.1, p.acceleration)
    sender.send(late, time.time_ns())  # still moving at its end
    ros.wait_until(lambda: sender.failure is not None, what='the failure')
    assert "refuses a goal of action '/controller/follow_joint_trajectory'" in sender.failure
    assert not stand_in.goals


def test_without_control_msgs_the_node_says_what_to_install(ros, tmp_path):
    (tmp_path / 'control_msgs.py').write_text("raise ImportError('as if it were not installed')")
    process = ros.start(
        'excitation',
        parameters={'controller_kind': 'follow_joint_trajectory'},
        wait=False,
        PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
    )
    assert process.wait(40.0) == 2
    assert 'control-msgs' in process.output


# ----------------------------------------------------------------------------- streamed commands


class Robot:
    """Publishes joint states of a robot that stays where it is, and hears commands."""

    def __init__(self, ros, names=('b', 'x', 'a')):
        self.ros, self.names = ros, names
        self.commands, self.position = [], np.zeros(len(names))
        self._states = ros.node.create_publisher(JointState, 'joint_states', 10)
        ros.node.create_timer(0.01, self._publish)
        ros.node.create_subscription(
            Float64MultiArray,
            'controller/commands',
            lambda m: self.commands.append((time.monotonic(), np.array(m.data))),
            1000,
        )

    def _publish(self):
        message = JointState(name=list(self.names), position=array('d', self.position))
        message.header.stamp = time_message(time.monotonic_ns())
        self._states.publish(message)


def streaming(kind, **more):
    return ControllerOptions(
        controller_kind=kind, controller_topic='controller/commands', command_rate=10.0, **more
    )


def test_commands_need_an_order_and_follow_it(ros, tell):
    robot = Robot(ros)
    sender = sender_of(ros.node, None, streaming('position_commands'))
    error = prepare(ros, sender)
    assert error.code == Code.JOINTS_DIFFER
    assert 'controller_joints' in str(error) and "'/controller/commands'" in str(error)
    for told, words in ((['b'], "does not have 'a'"), (['b', 'a', 'c'], "has 'c' too")):
        tell(joints=told)
        assert words in str(prepare(ros, sender))
    tell(joints=['b', 'a'])
    assert prepare(ros, sender) is None
    assert sender.failure is None
    sender.begin(LIMITS, np.zeros(2))
    sender.send(POINTS, time.monotonic_ns() + 100_000_000)
    # a stream that a busy machine holds up ends on the way, so it is not asked for more
    ros.wait_until(
        lambda: robot.commands and np.abs(robot.commands[-1][1]).max() > 0.02, 20.0, 'the stream'
    )
    told = np.array([command for _, command in robot.commands])
    # in order, and on the path, which is straight; `test_command_stream_player` has its time
    np.testing.assert_allclose(told[:, 1], -2.0 * told[:, 0], atol=1e-9)
    assert (np.diff(told[:, 1]) >= -1e-9).all()
    sender.finish()
    # a robot at rest gets no commands
    ros.wait_until(lambda: time.monotonic() - robot.commands[-1][0] > 0.5, 20.0, 'silence')


def test_nobody_who_takes_commands_is_told(ros):
    options = ControllerOptions(
        controller_kind='velocity_commands',
        controller_topic='nobody/commands',
        controller_joints=JOINTS,
        controller_node='nobody',
    )
    error = refusal(ros, sender_of(ros.node, None, options))
    assert error.code == Code.NO_CONTROLLER
    assert "'/nobody/commands'" in str(error)


def test_a_stream_without_its_node_leads_to_rest_and_ends(ros):
    robot = Robot(ros, names=JOINTS)
    task = CommandTask(
        node='/gone',
        topic='/controller/commands',
        joint_states='/joint_states',
        speed='',
        velocity=True,
        simulated=False,
        rate=100.0,
        gain=0.0,
        priority=0,
    )
    pipe, other = Pipe()
    beat = Heartbeat()
    files = other.fileno(), beat.file
    command = [sys.executable, '-m', 'robot_identification.nodes.excitation.command_process']
    with other:
        process = subprocess.Popen([*command, *map(str, files)], pass_fds=files)
    pipe.send(task)
    ros.wait_until(pipe.poll, 40.0, 'the process')
    assert pipe.recv()[0] == 'ready'
    pipe.send(('joints', JOINTS))
    ros.wait_until(pipe.poll, 40.0, 'its partner')
    assert pipe.recv()[0] == 'connected'
    pipe.send(('begin', (LIMITS, np.zeros(2))))
    path = point_to_point(JOINTS, np.zeros(2), [0.4, -0.2], [0.25, 0.25], [2.0, 2.0])
    begin = time.monotonic() + 0.1
    pipe.send(('horizon', (path, begin)))
    ros.wait_until(
        lambda: any(np.abs(c).max() > 0.1 for _, c in robot.commands), 20.0, 'the motion'
    )
    process.terminate()  # as a service manager does to all processes at once: no reason to halt
    pipe.close()
    ros.wait_until(lambda: process.poll() is not None, 30.0, 'the end of the stream')
    ros.spin(0.2)
    assert process.returncode == 0
    told = np.array([command for _, command in robot.commands])
    # it went on and then commanded rest; that a stream keeps to its path is held on a driven clock
    assert not told[-5:].any()
    # between this many samples the peak is missed by no more than the bound
    peak = np.abs(path.sample(np.linspace(0.0, path.duration, 50_000)).velocity).max()
    assert 0.1 < np.abs(told).max() <= peak + 1e-9


def test_a_stream_that_dies_is_a_failure_and_velocities_end(ros, tell):
    robot = Robot(ros, names=JOINTS)
    tell(joints=list(JOINTS))
    sender = sender_of(ros.node, None, streaming('velocity_commands', command_gain=0.0))
    assert prepare(ros, sender) is None
    sender.begin(LIMITS, np.zeros(2))
    sender.send(POINTS, time.monotonic_ns() + 100_000_000)
    ros.wait_until(
        lambda: any(np.abs(c).max() > 0.1 for _, c in robot.commands), 20.0, 'the motion'
    )
    sender._stream._process.kill()
    ros.wait_until(lambda: sender.failure is not None, what='the failure')
    assert 'the process that streams commands has ended' in sender.failure
    ros.wait_until(lambda: not robot.commands[-1][1].any(), what='a command to rest')
    assert prepare(ros, sender) is None  # by a new one
    assert sender.failure is None
    sender.finish()
