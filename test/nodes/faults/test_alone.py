# SPDX-License-Identifier: Apache-2.0
"""Nodes that are started before anything else: whatever they are asked, they answer in time."""

from __future__ import annotations

import os
from pathlib import Path
import signal
import time

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from rclpy.action import ActionClient
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.msg import OnlineStatus, Regressor
from robot_identification_msgs.srv import (
    CheckConsistency,
    ExportUrdf,
    GetRegressor,
    Identify,
    IdentifyTool,
    StartRecording,
    StopRecording,
    Validate,
)
from std_srvs.srv import SetBool, Trigger

NODES = ('recorder', 'regressor', 'identification', 'excitation')
BOUND = 20.0
"""Within this time an answer has to come, on a busy machine [s]."""


@pytest.fixture(scope='module')
def alone(cell, tmp_path_factory):
    """Give all nodes but a robot: no description, states, controller; started as by users."""
    folder = tmp_path_factory.mktemp('alone')
    Path(os.environ['ROS_LOG_DIR'], 'any.mcap').touch()  # in the folder where nodes are started
    for node in NODES:
        parameters = {'execute': True, 'output': str(folder), 'online.enabled': True}
        cell.start(node, parameters=parameters, wait=False, fresh=True)
    for node in NODES:
        cell.wait_for_node(f'/{node}', timeout=60.0)
    return cell


@pytest.mark.parametrize(
    ('kind', 'service', 'fields', 'words'),
    [
        (Identify, 'identification/identify', {}, 'no recording is known'),
        (Identify, 'identification/identify', {'source': '/'}, 'is not below'),
        (Identify, 'identification/identify', {'source': 'any.mcap'}, 'robot description'),
        (IdentifyTool, 'identification/identify_tool', {}, 'no recording of wrenches'),
        (Validate, 'identification/validate', {}, 'no estimate yet'),
        (CheckConsistency, 'identification/check_consistency', {}, 'no estimate yet'),
        (ExportUrdf, 'identification/export_urdf', {}, 'no estimate yet'),
        (SetBool, 'identification/online/enable', {'data': True}, 'robot description'),
        (SetBool, 'identification/online/freeze', {'data': True}, 'has not started yet'),
        (Trigger, 'identification/online/reset', {}, 'has not started yet'),
        (Trigger, 'identification/online/save', {}, 'has not started yet'),
        (GetRegressor, 'regressor/get_regressor', {}, 'robot description'),
        (StopRecording, 'recorder/stop', {}, 'nothing is being recorded'),
    ],
)
def test_a_service_says_what_is_missing(alone, kind, service, fields, words):
    begin = time.monotonic()
    answer = alone.call(kind, service, timeout=BOUND, **fields)
    assert not answer.success
    assert words in answer.message
    assert ': ' in answer.message, 'what is wrong, and what to do'
    assert time.monotonic() - begin < BOUND


def test_an_action_says_what_is_missing(alone):
    plan = ActionClient(alone.node, PlanExcitation, 'excitation/plan')
    excite = ActionClient(alone.node, Excite, 'excitation/excite')
    goals = [(plan, PlanExcitation.Goal()), (excite, Excite.Goal(dry_run=True))]
    results = []
    for client, goal in goals:
        alone.wait_until(client.server_is_ready, BOUND, 'the action')
        sending = client.send_goal_async(goal)
        alone.wait_until(sending.done, BOUND, 'acceptance')
        results.append(sending.result().get_result_async())
    # both wait for a description at the same time
    alone.wait_until(lambda: all(result.done() for result in results), BOUND, 'the results')
    for result in (result.result().result for result in results):
        assert result.error_code == type(result).NO_MODEL, result.error_msg
        assert "topic '/robot_description'" in result.error_msg


def test_what_needs_nothing_works(alone):
    assert alone.call(Trigger, 'identification/reset', timeout=BOUND).success
    started = alone.call(StartRecording, 'recorder/start', name='silence', timeout=BOUND)
    assert started.success
    assert 'nothing publishes on /joint_states' in started.message
    stopped = alone.call(StopRecording, 'recorder/stop', timeout=BOUND)
    assert stopped.success, stopped.message
    assert stopped.messages == 0
    assert alone.call(SetBool, 'identification/online/enable', data=False).success


def test_the_live_identification_says_what_it_waits_for(alone):
    answer = alone.call(SetBool, 'identification/online/enable', data=True)
    assert not answer.success
    status = alone.latched(OnlineStatus, 'identification/online/status')
    alone.wait_until(lambda: status, what='a status')
    assert status[-1].state == OnlineStatus.OFF


def test_two_of_one_name_are_told(alone):
    """Both would record, and both would move the robot."""
    other = alone.start('recorder', wait=False)
    for process in (alone.processes[0], other):
        process.wait_for_output("1 more of the name '/recorder'", 40.0)
    assert other.stop() == 0
    alone.processes.remove(other)


def test_they_end_in_good_order(alone):
    """While somebody listens to live rows, and a recording of nothing runs."""
    alone.subscribe(Regressor, 'regressor/regressor')
    assert alone.call(StartRecording, 'recorder/start', name='silence').success
    for number, process in zip((signal.SIGINT, signal.SIGTERM) * 2, alone.processes):
        assert process.stop(number) == 0, process.output
        assert 'Traceback' not in process.output
