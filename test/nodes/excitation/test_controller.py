# SPDX-License-Identifier: Apache-2.0
"""Questions to a controller and its manager, its goals, and their cancels."""

import itertools
import os
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from control_msgs.action import FollowJointTrajectory
from controller_manager_msgs.msg import ControllerState as StateMessage
from controller_manager_msgs.srv import ListControllers
from rcl_interfaces.srv import GetParameters
import rclpy
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.parameter import Parameter
from rclpy.task import Future
from robot_identification.excitation.trajectories import point_to_point, to_points
from robot_identification.model.robot import Robot
from robot_identification.nodes.excitation import remote_nodes
from robot_identification.nodes.excitation.controller import Controller, REFUSES, SentGoal
from robot_identification.nodes.excitation.options import Code, MotionError

from benchmarks.driven_world import Answer


class Pause:
    """Wait for the executor's next turn."""

    def __await__(self):
        yield


async def tick():
    await Pause()


class Manager:
    """A controller manager that tells the states of its controllers, as ros2_control's does."""

    def __init__(self, ros, name='/controller_manager', **states):
        self.states, self.asked = states, 0
        ros.node.create_service(ListControllers, f'{name}/list_controllers', self._answer)

    def _answer(self, request, response):
        self.asked += 1
        response.controller = [StateMessage(name=n, state=s) for n, s in self.states.items()]
        return response


def ask(ros, name):
    """Ask for a controller; return the `MotionError`, or None."""
    question = Controller(ros.node, None, name)

    async def work():
        try:
            await question._require_active(tick)
        except MotionError as error:
            return error

    task = ros.executor.create_task(work)
    ros.wait_until(task.done, 20.0, 'the answer')
    return task.result()


def wait_for(ros, *services):
    """Wait until services of the test itself are known."""

    def known():
        return set(services) <= {name for name, _ in ros.node.get_service_names_and_types()}

    ros.wait_until(known, what='the controller managers')


def test_only_an_active_controller_passes(ros):
    manager = Manager(ros, arm='inactive', hand='active')
    elsewhere = Manager(ros, '/left/manager', arm='unconfigured')
    wait_for(ros, '/controller_manager/list_controllers', '/left/manager/list_controllers')

    error = ask(ros, 'arm')
    assert error.code == Code.NO_CONTROLLER
    assert str(error) == (
        "the controller '/arm' is inactive, so nothing would move: activate it: "
        'ros2 control switch_controllers --activate arm'
    )
    assert (manager.asked, elsewhere.asked) == (1, 0)

    # of another namespace, of another name; the command has to say where
    text = str(ask(ros, '/left/arm'))
    assert "'/left/arm' is unconfigured" in text
    assert 'set_controller_state arm inactive --controller-manager /left/manager' in text

    # active, or nothing that this manager knows of
    assert ask(ros, 'hand') is None
    assert ask(ros, 'foot') is None
    assert ask(ros, '/right/arm') is None


def test_a_manager_that_does_not_answer_is_asked_again_and_then_nothing_moves(ros, monkeypatch):
    monkeypatch.setattr(remote_nodes, 'ANSWER_SECONDS', 4.0)
    asked = []

    async def never(request, response):
        asked.append(request)
        await ros_future
        return response

    ros_future = Future(executor=ros.executor)
    group = ReentrantCallbackGroup()
    ros.node.create_service(
        ListControllers, '/controller_manager/list_controllers', never, callback_group=group
    )
    wait_for(ros, '/controller_manager/list_controllers')
    error = ask(ros, 'arm')
    ros_future.set_result(None)
    assert error.code == Code.NO_CONTROLLER and len(asked) == 3
    assert "'/controller_manager' does not answer whether the controller '/arm'" in str(error)


# ----------------------------------------------------------------------------- the goal, its end


class StandIn:
    """
    A controller that does with goals and cancels what a test says.

    Attributes
    ----------
    told:
        Its parameters, `TOLD` but for those that the test gives.
    accepts, answers:
        Whether it takes goals, and cancels.

    """

    def __init__(self, ros, name='arm', **told):
        self.ros, self.told, self.kind = ros, {**TOLD, **told}, FollowJointTrajectory
        self.accepts = self.answers = True
        self.goals, self.cancels, self._end = [], 0, None
        ActionServer(
            ros.node,
            FollowJointTrajectory,
            f'{name}/follow_joint_trajectory',
            self._execute,
            goal_callback=self._asked,
            cancel_callback=self._cancel,
        )
        ros.node.create_service(GetParameters, f'{name}/get_parameters', self._tell)

    def _tell(self, request, response):
        # as rclcpp: where one of several is not declared, none is answered
        if all(name in self.told for name in request.names):
            response.values = [
                Parameter(name, value=self.told[name]).get_parameter_value()
                for name in request.names
            ]
        return response

    def _asked(self, request):
        self.goals.append(request)
        self._end = Future(executor=self.ros.executor)
        return GoalResponse.ACCEPT if self.accepts else GoalResponse.REJECT

    def _cancel(self, _):
        self.cancels += 1
        if not self.answers:
            return CancelResponse.REJECT
        self.end('canceled')
        return CancelResponse.ACCEPT

    async def _execute(self, handle):
        how, code, text = await self._end
        getattr(handle, {'succeeded': 'succeed', 'canceled': 'canceled'}.get(how, 'abort'))()
        return self.kind.Result(error_code=code, error_string=text)

    def end(self, how, code=0, text=''):
        if self._end is not None and not self._end.done():
            self._end.set_result((how, code, text))


JOINTS = ('a', 'b')
ROBOT = Robot.from_urdf(
    """<robot name="arm"><link name="base"/>"""
    + ''.join(
        f"""<joint name="{joint}" type="revolute"><parent link="{parent}"/><child link="{child}"/>
        <axis xyz="0 0 1"/><limit lower="-3" upper="3" velocity="2" effort="50"/></joint>
        <link name="{child}"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
        for joint, parent, child in (('a', 'base', 'upper'), ('b', 'upper', 'lower'))
    )
    + '</robot>'
)
TOLD = {
    'joints': list(JOINTS),
    'command_interfaces': ['position'],
    'state_interfaces': ['position', 'velocity'],
    'interpolation_method': 'splines',
    'speed_scaling.initial_scaling_factor': 1.0,
}
BRAKES = {
    'constraints.decelerate_on_cancel': True,
    **{f'constraints.{joint}.max_deceleration_on_cancel': 4.0 for joint in JOINTS},
}
WAY = to_points(point_to_point(JOINTS, np.zeros(2), [0.4, -0.2], [0.5] * 2, [2.0] * 2), 10.0)
TOLERANCE = np.array([0.1, 0.2])
NUMBERS = itertools.count()


def prepared(ros, controller):
    """Return what the controller declares, or the `MotionError`."""

    async def work():
        try:
            return await controller.prepare(ROBOT, tick)
        except MotionError as error:
            return error

    task = ros.executor.create_task(work)
    ros.wait_until(task.done, 40.0, 'the answer')
    return task.result()


@pytest.fixture
def arm(ros):
    """Give a stand-in and its client, of a name that no earlier test had, which may leave late."""
    name = f'arm_{next(NUMBERS)}'
    stand_in = StandIn(ros, name)
    controller = Controller(ros.node, None, name)
    ros.wait_until(lambda: not controller.gone and controller.shared() is None, what='the action')
    return stand_in, controller


def test_a_node_that_has_just_begun_waits_for_the_controllers_stops(ros):
    name = f'arm_{next(NUMBERS)}'
    controller = Controller(ros.node, None, name)

    async def ask():
        return await controller.contract(ROBOT, tick)

    task = ros.executor.create_task(ask)
    ros.spin(0.5)
    assert not task.done()
    stand_in = StandIn(ros, name, **BRAKES)
    ros.wait_until(task.done, 40.0, 'the answer')
    assert task.result().deceleration.tolist() == [4.0, 4.0] and not stand_in.goals


def test_what_a_controller_declares_is_asked_for_one_by_one(ros, arm, capfd):
    stand_in, controller = arm
    for told, words in (
        ({'joints': ['b', 'a']}, ()),
        ({'joints': ['a', 'c']}, (f"'{controller.name}'", "does not command 'b'", "has 'c' too")),
        ({'joints': ['a', 'b', 'c']}, ("has 'c' too",)),
        ({'joints': ['a', 'b', 'c'], 'allow_partial_joints_goal': True}, ()),
    ):
        stand_in.told = {**TOLD, **told}
        answer = prepared(ros, controller)
        if not words:
            assert answer.deceleration is None
            assert answer.hold == 'constraints.decelerate_on_cancel is not true'
            continue
        assert answer.code == Code.JOINTS_DIFFER
        assert all(word in answer.message for word in words), answer.message
    for changes, hold in (
        ({}, ''),
        ({'constraints.decelerate_on_cancel': False}, 'is not true'),
        ({'constraints.b.max_deceleration_on_cancel': 0.0}, 'is not positive'),
        ({'state_interfaces': ['position']}, 'no velocity'),
        # a joint of the controller that does not move counts, too
        ({'joints': ['a', 'b', 'c'], 'allow_partial_joints_goal': True}, 'constraints.c.max'),
    ):
        stand_in.told = {**TOLD, **BRAKES, **changes}
        answer = prepared(ros, controller)
        assert hold in answer.hold and bool(hold) == bool(answer.hold)
        assert (answer.deceleration is None) == bool(hold)
    line = 'and stops by deceleration (4 rad/s^2, 4 rad/s^2), 0.5 s at most'
    assert capfd.readouterr().err.count(line) == 1


def test_a_node_that_moves_nothing_is_no_client_of_the_action(ros, arm):
    """Others see its clients in the graph, and take it for who has sent a goal."""
    stand_in, controller = arm

    def clients():
        found = ros.node.get_subscriptions_info_by_topic(f'{controller.action}/_action/feedback')
        return len(found)

    assert not isinstance(prepared(ros, controller), MotionError)
    assert clients() == 0
    connected(ros, controller)
    ros.wait_until(lambda: clients() == 1, 40.0, 'the client in the graph')


def test_clocks_that_differ_are_told_by_name(ros, arm):
    stand_in, controller = arm
    today = time.time_ns()
    for told, stamp, words in (
        (True, today, f"use_sim_time of '{controller.name}' is true"),
        (False, 7_000_000_000, f"use_sim_time of '{controller.name}' is false"),
        (True, 7_000_000_000, ''),
        (False, today, ''),
        (True, 0, ''),
    ):
        stand_in.told = {**TOLD, 'use_sim_time': told}
        prepared(ros, controller)
        text = controller.clocks(stamp)
        assert words in text and bool(text) == bool(words)


def connected(ros, controller):
    """Have a controller be a client of its action."""
    connecting = ros.executor.create_task(controller.connect, tick)
    ros.wait_until(connecting.done, 40.0, 'the client')


def send(ros, arm):
    stand_in, controller = arm
    connected(ros, controller)
    goal = controller.send(WAY, TOLERANCE)
    ros.wait_until(lambda: goal.accepted is not None, what='the answer')
    return goal


def test_a_goal_has_the_trajectory_and_its_tolerances(ros, arm):
    goal = send(ros, arm)
    stand_in, controller = arm
    (request,) = stand_in.goals
    assert (request.trajectory.header.stamp.sec, request.trajectory.header.stamp.nanosec) == (0, 0)
    assert len(request.trajectory.points) == len(WAY.time)
    assert len(request.trajectory.points[3].accelerations) == 2
    for tolerances in (request.path_tolerance, request.goal_tolerance):
        assert [(each.name, each.position) for each in tolerances] == [('a', 0.1), ('b', 0.2)]
    assert request.goal_time_tolerance.sec > 60
    ros.wait_until(lambda: controller.shared() is not None, what='its status')
    assert 'active' in controller.shared().message
    assert goal.ending is None
    stand_in.end('succeeded')
    ros.wait_until(lambda: goal.ending is not None, what='its end')
    assert goal.ending.status == GoalStatus.STATUS_SUCCEEDED
    ros.wait_until(lambda: controller.shared() is None, what='its status')


def test_the_end_of_a_goal_is_known_where_its_status_is_lost(ros, arm):
    stand_in, controller = arm
    goal = send(ros, arm)
    ros.wait_until(lambda: controller.shared() is not None, what='its status')
    (topic,) = [s for s in ros.node.subscriptions if s.topic_name == controller._status_topic]
    ros.node.destroy_subscription(topic)
    stand_in.end('succeeded')
    ros.wait_until(lambda: goal.ending is not None, what='its end')
    assert controller.shared() is None


def test_what_the_controller_says_of_an_end_is_told(ros, arm):
    stand_in, _ = arm
    codes = stand_in.kind.Result
    for code, text, words in (
        (codes.PATH_TOLERANCE_VIOLATED, 'b is late', 'PATH_TOLERANCE_VIOLATED, b is late'),
        (codes.INVALID_GOAL, '', 'INVALID_GOAL'),
    ):
        goal = send(ros, arm)
        stand_in.end('aborted', code, text)
        ros.wait_until(lambda g=goal: g.ending is not None, what='its end')
        assert goal.ending.status == GoalStatus.STATUS_ABORTED
        assert goal.ending.words == words
    stand_in.accepts = False
    assert send(ros, arm).ending.code == 'REJECTED'


def test_a_cancel_needs_no_acceptance_and_is_heard(ros, arm):
    stand_in, controller = arm
    connected(ros, controller)
    goal = controller.send(WAY, TOLERANCE)
    goal.cancel()  # may arrive before the goal, and is repeated once that is accepted
    goal.cancel()
    ros.wait_until(lambda: goal.ending is not None, what='its end')
    assert goal.ending.status == GoalStatus.STATUS_CANCELED
    other = send(ros, arm)
    stand_in.answers = False
    other.cancel()
    ros.wait_until(lambda: stand_in.cancels >= 2, what='the cancel')
    ros.spin(0.2)
    assert not other.heard and other.ending is None
    assert other.trouble == REFUSES
    stand_in.answers = True
    other.cancel()
    ros.wait_until(lambda: other.ending is not None, what='its end')
    assert other.heard


def test_an_answer_that_is_older_than_the_acceptance_ends_no_goal(monkeypatch):
    """Answers to cancels and goals take different ways, and may overtake each other."""
    sent, now = [], [100.0]
    monkeypatch.setattr(time, 'monotonic', lambda: now[0])

    def send(*_):
        sent.append(Answer())
        return sent[-1]

    clients = SimpleNamespace(send_goal_async=send, call_async=send)
    message = FollowJointTrajectory.Goal()
    goal = SentGoal(SimpleNamespace(statuses={}), clients, clients, message, b'mark')
    unknown = CancelGoal.Response(return_code=CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID)
    goal.cancel()
    goal.cancel()
    sent[1].set(unknown)
    now[0] += 9.0
    sent[0].set(SimpleNamespace(accepted=True, get_result_async=Answer))
    assert goal.accepted and len(sent) == 4
    now[0] += 3.0
    sent[2].set(unknown)
    assert goal.ending is None
    # one that has truly lost it, as a controller that was started again
    now[0] += 11.0
    sent[3].set(unknown)
    assert goal.ending.status == GoalStatus.STATUS_UNKNOWN


def test_a_goal_whose_acceptance_got_lost_is_known_by_its_status():
    statuses, clients = {}, SimpleNamespace(send_goal_async=lambda *_: Answer())
    controller = SimpleNamespace(statuses=statuses)
    goal = SentGoal(controller, clients, clients, FollowJointTrajectory.Goal(), b'mark')
    assert goal.accepted is None
    statuses[bytes(goal._id.uuid)] = GoalStatus.STATUS_EXECUTING
    assert goal.accepted


def test_the_goals_of_a_controller_that_is_gone_hold_up_nobody(ros, arm):
    stand_in, controller = arm
    controller.statuses = {b'its last goal': GoalStatus.STATUS_EXECUTING}
    controller._senders = controller._servers()
    assert 'a goal is active' in controller.shared().message
    controller._senders = {b'the one before'}
    assert controller.shared() is None


def test_two_servers_of_the_action_are_named(ros, arm):
    stand_in, controller = arm
    assert controller.shared() is None
    other = rclpy.create_node('pretender', context=ros.context)
    server = ActionServer(other, stand_in.kind, controller.action, print)
    ros.wait_until(lambda: controller.shared() is not None, what='the second server')
    assert controller.shared().code == Code.CONTROLLER_SHARED
    assert '/pretender' in controller.shared().message
    server.destroy()
    other.destroy_node()
    ros.wait_until(lambda: controller.shared() is None, what='its end')


def test_without_control_msgs_the_node_says_what_to_install(ros, tmp_path):
    (tmp_path / 'control_msgs.py').write_text("raise ImportError('as if it were not installed')")
    process = ros.start(
        'excitation', wait=False, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path])
    )
    assert process.wait(40.0) == 2
    assert 'control-msgs' in process.output
    assert len(process.output.strip().splitlines()) == 1
