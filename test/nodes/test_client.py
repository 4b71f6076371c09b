# SPDX-License-Identifier: Apache-2.0
"""Clients of the nodes: requests typed by the messages, answers as text, canceled goals."""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import threading
import time
from uuid import uuid4

import numpy as np
import pytest

pytest.importorskip('rclpy')

from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from diagnostic_msgs.msg import KeyValue
import rclpy
from rclpy.action import ActionClient, ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from robot_identification.cli.interfaces import (
    add_fields,
    comments,
    message_content,
    REQUESTS,
    share_of,
)
from robot_identification.cli.ros import VERBS as TOLD
from robot_identification.nodes import client
from robot_identification.nodes.common import LATCHED
from robot_identification.nodes.common.messages import goal_mark
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.msg import OnlineStatus
from robot_identification_msgs.srv import Identify
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectoryPoint
from unique_identifier_msgs.msg import UUID
import yaml

from scripts.node_interfaces import INTERFACES

COMMAND = [sys.executable, '-m', 'robot_identification.cli', 'node']


def parsed(verb, *words):
    parser = argparse.ArgumentParser()
    add_fields(parser, REQUESTS[verb])
    return vars(parser.parse_args(words))


def test_every_verb_has_a_line_and_an_interface_of_a_node():
    assert set(TOLD) == {*REQUESTS, 'stop', 'watch'}
    names = {each.name.replace('~', node) for node, known in INTERFACES.items() for each in known}
    assert {interface.name for interface in REQUESTS.values()} <= names


def test_fields_are_typed_by_the_message():
    fields = parsed(
        'identify', 'runs/first', '--method', 'irls', '--options', 'signals.cutoff=20',
        '--options', 'estimation.irls.loss=tukey',
    )  # fmt: skip
    assert fields == {
        'source': 'runs/first',
        'method': 'irls',
        'options': [
            KeyValue(key='signals.cutoff', value='20'),
            KeyValue(key='estimation.irls.loss', value='tukey'),
        ],
    }
    Identify.Request(**fields)
    goal = parsed('excite', 'plan_1', '--speed', '0.3', '--dry-run', '--no-record')
    assert goal == {'plan_id': 'plan_1', 'speed': 0.3, 'dry_run': True, 'record': False}
    assert parsed('online', 'off') == {'data': False}
    # what is not given is left to the message
    assert parsed('plan') == {}


@pytest.mark.parametrize('words', [('plan', '--seed', '-1'), ('plan', '--seeds', '1')])
def test_wrong_fields_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        parsed(*words)
    assert words[1] in capsys.readouterr().err


@pytest.mark.parametrize('verb', REQUESTS)
def test_every_request_has_its_help(verb):
    parser = argparse.ArgumentParser()
    add_fields(parser, REQUESTS[verb])
    assert parser.format_help() and '__default' not in parser.format_help()
    known = REQUESTS[verb].request.get_fields_and_field_types()
    # std_srvs is not installed with its comments everywhere
    if (
        REQUESTS[verb].kind.startswith('robot_identification_msgs')
        and comments('std_srvs/srv/X') == {}
    ):
        assert set(known) <= {
            *comments(REQUESTS[verb].kind),
            'structure_needs_at_least_one_member',
        }


def test_feedback_becomes_a_share_and_a_text():
    feedback = Excite.Feedback(phase='moving_to_start', progress=0.25)
    assert share_of(feedback, {}) == (0.25, 'moving to start')
    planning = PlanExcitation.Feedback(iteration=30, criterion=12.3456)
    share, text = share_of(planning, {'max_iterations': 120})
    assert share == 0.25 and 'criterion 12.35' in text
    assert share_of(planning, {})[0] == 0.0


def test_answers_are_short():
    answer = Identify.Response(success=True, rank=58, message='done')
    answer.base.covariance = [0.0] * 3364
    values = message_content(answer)
    assert values['base']['covariance'] == '3364 entries'
    assert 'joints' not in values and values['rank'] == 58


def started(ros, *words):
    """Start the command; it is forked off a process that has its libraries."""
    return ros.start_command('client', [*COMMAND, *words], wait=False)


def test_a_service_is_called_and_its_refusal_is_one_line(ros, tmp_path):
    absent = started(ros, 'check', '--timeout', '1')
    ros.start('recorder', parameters={'output': str(tmp_path / 'bags')})
    end, watch = started(ros, 'end'), started(ros, 'watch', 'recorder', '--once')
    assert end.wait(60.0) == 2
    assert len(end.lines) == 1
    assert end.output.startswith("error: service 'recorder/stop' refuses: ")
    assert watch.wait(60.0) == 0
    assert yaml.safe_load(watch.output)['recording'] is False
    # a node that is not there
    assert absent.wait(60.0) == 2
    assert "service 'identification/check_consistency': no answer within 1 s" in absent.output


@pytest.fixture
def excitation(ros):
    """Give an action server whose motion lasts until it is canceled, and what it has seen."""
    seen = {'canceled': threading.Event(), 'begun': threading.Event()}

    def execute(handle):
        seen['goal'] = handle.request
        seen['begun'].set()
        if handle.request.dry_run:
            handle.succeed()
            return Excite.Result(max_tracking_error=0.5)
        while not handle.is_cancel_requested:
            handle.publish_feedback(Excite.Feedback(phase='exciting', progress=0.5))
            seen['canceled'].wait(0.05)
        seen['canceled'].wait(1.0)  # the robot comes to rest
        handle.canceled()
        seen['canceled'].set()
        return Excite.Result(error_code=Excite.Result.CANCELED, error_msg='at rest')

    node = ros.node
    server = ActionServer(
        node, Excite, '/arm/excitation/excite', execute,
        cancel_callback=lambda _: CancelResponse.ACCEPT, callback_group=ReentrantCallbackGroup(),
    )  # fmt: skip
    executor = MultiThreadedExecutor(num_threads=3, context=node.context)
    executor.add_node(node)
    spinner = threading.Thread(target=executor.spin, daemon=True)
    spinner.start()
    yield seen
    executor.shutdown()
    spinner.join(5.0)
    server.destroy()


def test_a_goal_is_sent_to_a_namespace(ros, excitation):
    words = ('excite', 'plan_7', '--dry-run', '--speed', '0.5')
    before, behind = (
        started(ros, '--namespace', 'arm', *words),
        started(ros, *words, '--namespace', '/arm'),
    )
    assert before.wait(60.0) == 0, before.output
    client = behind
    assert client.wait(60.0) == 0, client.output
    assert (excitation['goal'].plan_id, excitation['goal'].speed) == ('plan_7', 0.5)
    assert 'max_tracking_error: 0.5' in client.output


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_cancels_the_goal_and_waits_until_the_robot_is_at_rest(ros, excitation, number):
    client = started(ros, 'excite', 'plan_1', '--namespace', 'arm')
    assert excitation['begun'].wait(60.0)
    assert client.stop(number, timeout=60.0) == 130
    assert client.lines[-1] == 'error: interrupted'
    # the client did not end before
    assert excitation['canceled'].is_set()


# ------------------------------------------------------------------------------------------- stop


@pytest.fixture
def controller(ros):
    """Give the action servers of two controllers, in a thread, that cancel as they are told."""
    told = {'cancel': CancelResponse.ACCEPT, 'handles': []}

    def execute(handle):
        told['handles'].append(handle)
        end = time.monotonic() + 60.0
        while not handle.is_cancel_requested and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.3)  # it decelerates
        handle.canceled()
        return FollowJointTrajectory.Result()

    node = ros.node
    actions = [f'/left/{name}/follow_joint_trajectory' for name in ('arm', 'leg')]
    servers = [
        ActionServer(
            node, FollowJointTrajectory, action, execute,
            cancel_callback=lambda _: told['cancel'], callback_group=ReentrantCallbackGroup(),
        )
        for action in actions
    ]  # fmt: skip
    clients = [ActionClient(node, FollowJointTrajectory, action) for action in actions]
    executor = MultiThreadedExecutor(num_threads=4, context=node.context)
    executor.add_node(node)
    spinner = threading.Thread(target=executor.spin, daemon=True)
    spinner.start()
    told['clients'] = clients
    yield told
    executor.shutdown()
    spinner.join(5.0)
    for each in (*clients, *servers):
        each.destroy()


def wait(condition):
    end = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


STOP = ('--namespace', 'left', 'stop', '--timeout')
STOP_ARM = ('--namespace', 'left', 'stop', '--controller', 'arm', '--timeout')
UNSEEN = 'the arm was not seen at rest: use the emergency stop if it moves'


def send(action, node='/left/excitation'):
    """Send a goal of the excitation node's, or of somebody else where ``node`` is empty."""
    goal_id = UUID(uuid=list(uuid4().bytes))
    if node:
        goal_id.uuid[:8] = np.frombuffer(goal_mark(node), np.uint8)
    assert action.wait_for_server(60.0)
    action.send_goal_async(FollowJointTrajectory.Goal(), goal_uuid=goal_id)


def test_stop_cancels_the_nodes_goals_and_waits_for_their_end(ros, controller):
    idle = started(ros, *STOP_ARM, '30')
    assert (idle.wait(60.0), idle.output) == (0, "'/left/arm': no goal to cancel")
    arm, leg = controller['clients']
    for each in (arm, arm, leg):
        send(each)
    wait(lambda: len(controller['handles']) == 3)
    stop = started(ros, *STOP_ARM, '30')
    assert stop.wait(60.0) == 0
    assert stop.output == f"'/left/arm': 2 goals canceled; {UNSEEN}"
    statuses = sorted(h.status for h in controller['handles'])
    assert statuses == [GoalStatus.STATUS_EXECUTING, *[GoalStatus.STATUS_CANCELED] * 2]
    both = started(ros, *STOP, '30')
    assert both.wait(60.0) == 0
    # those that have ended are no goals to it
    assert both.lines[-1] == f"'/left/leg': 1 goal canceled; {UNSEEN}"
    assert not any(h.is_active for h in controller['handles'])


def test_stop_leaves_goals_of_others_alone(ros, controller):
    """Another client's, and another excitation node's of the same controller."""
    arm, _ = controller['clients']
    for node in ('', '/right/excitation', '/left/excitation'):
        send(arm, node)
    wait(lambda: len(controller['handles']) == 3)
    stop = started(ros, *STOP_ARM, '30')
    assert stop.wait(60.0) == 0
    assert stop.output == (
        "'/left/arm': 1 goal canceled; 2 of other clients not canceled, which --all cancels; "
        f'{UNSEEN}'
    )
    canceled = [h for h in controller['handles'] if h.status == GoalStatus.STATUS_CANCELED]
    assert [bytes(h.goal_id.uuid[:8]) for h in canceled] == [goal_mark('/left/excitation')]
    assert sum(h.is_active for h in controller['handles']) == 2
    everyone = started(ros, *STOP_ARM, '30', '--all')
    assert everyone.wait(60.0) == 0
    assert everyone.output == f"'/left/arm': 2 goals canceled; {UNSEEN}"


def test_a_controller_that_is_discovered_late_is_stopped_too(ros, controller, monkeypatch):
    for each in controller['clients']:
        send(each)
    wait(lambda: len(controller['handles']) == 2)

    def known(*_):
        """Leave the leg out until nothing of the arm is left."""
        moving = [h for h in controller['handles'] if h.status != GoalStatus.STATUS_CANCELED]
        return ['/left/arm', '/left/leg'] if len(moving) < 2 else ['/left/arm']

    monkeypatch.setattr(client, '_controllers', known)
    monkeypatch.setattr(client, '_REST_WAIT', 0.1)
    stopped = client.stop(namespace='left', timeout=30.0)
    assert [each.goals for each in stopped.values()] == [1, 1]
    assert all(h.status == GoalStatus.STATUS_CANCELED for h in controller['handles'])


def test_a_controller_that_does_not_stop_needs_the_emergency_stop(ros, controller):
    absent = started(ros, 'stop', '--timeout', '1')
    unknown = started(ros, 'stop', '--controller', 'unknown', '--timeout', '1')
    send(controller['clients'][0])
    wait(lambda: controller['handles'])
    controller['cancel'] = CancelResponse.REJECT
    # time to find the controller, too: Fast DDS announces what was lost every 3 s
    stop = started(ros, *STOP, '15')
    for process, reason in (
        (absent, "no action 'follow_joint_trajectory' outside of namespaces in 1 s"),
        (unknown, "action 'unknown/follow_joint_trajectory' does not answer in 1 s"),
        (
            stop,
            "action '/left/arm/follow_joint_trajectory' does not end its goals (1 EXECUTING), and "
            'the arm was not seen at rest: ',
        ),
    ):
        assert process.wait(60.0) == 2
        assert len(process.lines) == 1
        assert process.output.startswith(
            'error: use the emergency stop if the robot moves: ' + reason
        )
    controller['cancel'] = CancelResponse.ACCEPT
    assert started(ros, *STOP, '30').wait(60.0) == 0


@pytest.mark.parametrize(
    ('seconds', 'rate', 'words'),
    [
        # 100 s pass before the controller tells the end of a goal
        (1, 0.01, ', of which 1 stays CANCELING, as after a cancel at the end'),
        (60, 20.0, ''),
    ],
)
def test_stop_tells_a_goal_that_stays_canceling_from_one_that_ends(ros, seconds, rate, words):
    parameters = {'controller': 'arm', 'action_monitor_rate': rate, 'rate': 100.0}
    arm = ros.start('simulation', '-r', '__ns:=/left', parameters=parameters, wait=False)
    action = '/left/arm/follow_joint_trajectory'
    client = ActionClient(ros.node, FollowJointTrajectory, action)
    ros.wait_until(client.server_is_ready, what='the arm')
    states = ros.subscribe(JointState, '/left/joint_states')
    point = JointTrajectoryPoint(positions=[0.3] * 6)
    point.time_from_start.sec = seconds
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = [f'joint_{i}' for i in range(1, 7)]
    goal.trajectory.points = [point]
    ros.wait_until(client.send_goal_async(goal).done, what='the goal')
    bound = 0.02 if words else 0.28  # at its end, or on the way
    ros.wait_until(
        lambda: states and np.abs(np.array(states[-1].position) - 0.3).max() < bound,
        60.0,
        'the motion',
    )
    stop = started(ros, *STOP, '40', '--all')
    assert stop.wait(90.0) == 0, stop.output
    assert stop.output == f"'/left/arm': 1 goal canceled{words}; the arm is at rest"
    client.destroy()
    assert arm.stop() == 0


# ---------------------------------------------------------------------- watch, and servers that go


def test_of_two_latched_messages_the_newest_is_shown(ros):
    publishers = [
        ros.node.create_publisher(OnlineStatus, 'identification/online/status', LATCHED)
        for _ in range(2)
    ]
    for order in ((2, 1), (1, 2)):
        for publisher, second in zip(publishers, order, strict=True):
            message = OnlineStatus(messages=second)
            message.header.stamp.sec = second
            publisher.publish(message)
        watch = started(ros, 'watch', 'online', '--once')
        assert watch.wait(60.0) == 0
        assert yaml.safe_load(watch.output)['messages'] == 2


def test_a_server_that_goes_is_not_waited_for(ros):
    context = rclpy.Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node('identification', context=context)
    asked = []
    node.create_service(Trigger, 'identification/online/save', lambda *_: asked.append(1))
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    client = started(ros, 'save')
    end = time.monotonic() + 60.0
    while not asked and time.monotonic() < end:
        # the handler gives no answer
        with contextlib.suppress(TypeError):
            executor.spin_once(timeout_sec=0.1)
    assert asked and client.returncode is None
    executor.shutdown()
    node.destroy_node()
    context.try_shutdown()
    assert client.wait(30.0) == 2
    assert 'the node has gone without an answer' in client.output


HANGS = """
import sys, time
from robot_identification.nodes.common import processes
from rclpy.node import Node
processes.LEAVE_SECONDS = 1
Node.destroy_node = lambda self: time.sleep(60.0)
with processes.client_node('client'):
    print('the answer', flush=True)
"""


def test_a_client_that_hangs_while_it_leaves_is_ended_after_its_answer(ros):
    begun = time.monotonic()
    done = subprocess.run([sys.executable, '-c', HANGS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGALRM, 'the answer\n')
    assert time.monotonic() - begun < 30.0
