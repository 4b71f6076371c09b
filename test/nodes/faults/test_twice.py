# SPDX-License-Identifier: Apache-2.0
"""Two clients that ask for the same at the same time: both are answered, and nothing is mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')
pytest.importorskip('rosbags')

from rclpy.action import ActionClient
from robot_identification_msgs.action import PlanExcitation
from robot_identification_msgs.msg import OnlineStatus, ParameterSet
from robot_identification_msgs.srv import (
    ExportUrdf,
    Identify,
    StartRecording,
    StopRecording,
)
from std_srvs.srv import SetBool, Trigger
import yaml

NODES = ('recorder', 'identification', 'excitation')
QUICK = {'planner.duration': 4.0, 'planner.harmonics': 4, 'planner.max_iterations': 3}


@pytest.fixture(scope='module')
def nodes(cell, arm, tmp_path_factory):
    """Give the nodes, and another participant of the graph with clients of its own."""
    folder = tmp_path_factory.mktemp('twice')
    for node in NODES:
        parameters = {**arm.parameters, **QUICK, 'output': str(folder / node)}
        cell.start(node, parameters=parameters, wait=False)
    for node in NODES:
        cell.wait_for_node(f'/{node}', timeout=60.0)
    cell.other = type(cell)()
    yield cell
    cell.other.close()


@pytest.fixture
def both(nodes):
    """Give a function that sends requests from two participants, and returns the answers."""

    def ask(kind, service, first, second):
        pairs = [(nodes, first), (nodes.other, second)]
        clients = [ros.node.create_client(kind, service) for ros, _ in pairs]
        for (ros, _), client in zip(pairs, clients):
            ros.wait_until(client.service_is_ready, what=f'service {service}')
        futures = [
            client.call_async(kind.Request(**fields))
            for client, (_, fields) in zip(clients, pairs)
        ]
        for (ros, _), future in zip(pairs, futures):
            ros.wait_until(future.done, 60.0, f'answer of {service}')
        for (ros, _), client in zip(pairs, clients):
            ros.node.destroy_client(client)
        return [future.result() for future in futures]

    return ask


def act_both(nodes, kind, action, first, second):
    """Send goals from two participants, and return the results."""
    pairs = [(nodes, first), (nodes.other, second)]
    clients = [ActionClient(ros.node, kind, action) for ros, _ in pairs]
    for (ros, _), client in zip(pairs, clients):
        ros.wait_until(client.server_is_ready, what=f'action {action}')
    sent = [client.send_goal_async(kind.Goal(**f)) for client, (_, f) in zip(clients, pairs)]
    results = []
    for (ros, _), future in zip(pairs, sent):
        ros.wait_until(future.done, what=f'acceptance by {action}')
        assert future.result().accepted
        results.append(future.result().get_result_async())
    for (ros, _), future in zip(pairs, results):
        ros.wait_until(future.done, 60.0, f'result of {action}')
    for client in clients:
        client.destroy()
    return [future.result().result for future in results]


def test_identify(nodes, both, arm):
    """Each gets its own answer; what is published in the end is one of the two, whole."""
    published = nodes.latched(ParameterSet, 'identification/parameters')
    requests = [
        {'source': str(arm.bags[name]), 'method': method}
        for name, method in (('short', 'ols'), ('short', 'wls'))
    ]
    answers = both(Identify, 'identification/identify', *requests)
    for answer, name in zip(answers, ('short_ols', 'short_wls')):
        assert answer.success, answer.message
        folder = Path(answer.result_path)
        assert folder.name == name
        written = yaml.safe_load((folder / 'result.yaml').read_text())
        assert [p['value'] for p in written['parameters']] == pytest.approx(
            [p.value for p in answer.base.parameters]
        )
    nodes.wait_until(lambda: len(published) == 2, what='both estimates')
    assert published[-1] in [answer.base for answer in answers]


def test_export_into_one_file(nodes, both, arm, tmp_path):
    nodes.call(Identify, 'identification/identify', timeout=60.0, source=str(arm.bags['short']))
    path = tmp_path / 'arm.urdf'
    answers = both(ExportUrdf, 'identification/export_urdf', *2 * [{'path': str(path)}])
    assert all(answer.success for answer in answers)
    assert path.read_text() == answers[0].urdf == answers[1].urdf


def test_start_and_stop(both):
    """One of them starts the recording, and one ends it."""
    answers = both(StartRecording, 'recorder/start', {'name': 'a'}, {'name': 'b'})
    (made,) = [answer for answer in answers if answer.success]
    (refused,) = [answer for answer in answers if not answer.success]
    assert made.path in refused.message and 'stop that recording first' in refused.message
    answers = both(StopRecording, 'recorder/stop', {}, {})
    (ended,) = [answer for answer in answers if answer.success]
    (refused,) = [answer for answer in answers if not answer.success]
    assert ended.path == made.path
    assert refused.message.startswith('nothing is being recorded')
    assert len(list(Path(made.path).parent.iterdir())) == 1, 'the other one left nothing'


def test_enable(nodes, both):
    """One process follows the robot, not two; the last word counts."""
    status = nodes.latched(OnlineStatus, 'identification/online/status')
    service = 'identification/online/enable'
    answers = both(SetBool, service, {'data': True}, {'data': True})
    assert all(answer.success for answer in answers)
    assert sorted(answer.message for answer in answers) == [
        'following /joint_states',
        'it was on already',
    ]
    nodes.wait_until(lambda: status[-1].state == OnlineStatus.WAITING, what='the start')
    assert nodes.node.count_subscribers('/joint_states') == 3, 'recorder, excitation and it'
    for kind, name, fields in (
        (SetBool, 'freeze', {'data': True}),
        (Trigger, 'reset', {}),
    ):
        answers = both(kind, f'identification/online/{name}', fields, fields)
        assert all(answer.success for answer in answers)
    answers = both(SetBool, service, {'data': False}, {'data': True})
    assert all(answer.success for answer in answers)
    # whichever came last: asked once more, it does as it says
    answer = nodes.call(SetBool, service, data=False)
    assert answer.success
    nodes.wait_until(lambda: status[-1].state == OnlineStatus.OFF, what='the end')
    nodes.wait_until(
        lambda: nodes.node.count_subscribers('/joint_states') == 2, what='the end of its process'
    )


def test_plan(nodes):
    common = {'max_iterations': 3, 'return_points': True}
    goals = {'seed': 1, **common}, {'seed': 2, **common}
    first, second = act_both(nodes, PlanExcitation, 'excitation/plan', *goals)
    assert first.error_code == second.error_code == 0, (first.error_msg, second.error_msg)
    assert first.plan_id != second.plan_id
    assert first.trajectory.points != second.trajectory.points
    # each as if it had been alone
    again = nodes.act(PlanExcitation, 'excitation/plan', **goals[0])[1]
    assert again.trajectory.points == first.trajectory.points
    again = nodes.act(PlanExcitation, 'excitation/plan', **goals[1])[1]
    assert again.trajectory.points == second.trajectory.points
