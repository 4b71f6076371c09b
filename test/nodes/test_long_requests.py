# SPDX-License-Identifier: Apache-2.0
"""Identification and validation as actions: progress, cancel, and what stays afterwards."""

from __future__ import annotations

from pathlib import Path
import time

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')

from action_msgs.msg import GoalStatus
from robot_identification_msgs import action, srv

IDENTIFY, VALIDATE = '/identification/identify', '/identification/validate'


@pytest.fixture(scope='module')
def output(tmp_path_factory):
    return tmp_path_factory.mktemp('results')


@pytest.fixture(scope='module')
def node(module_ros, arm, output):
    module_ros.start('identification', parameters={**arm.parameters, 'output': str(output)})
    return module_ros


def test_an_action_answers_as_its_service_and_says_how_far_it_is(node, bags, output):
    source, method = str(bags['first']), 'OLS'  # in any case
    answer = node.call(srv.Identify, IDENTIFY, timeout=120.0, source=source, method=method)
    assert answer.success, answer.message
    status, result, feedback = node.act(
        action.Identify, IDENTIFY, timeout=120.0, source=source, method=method
    )
    assert (status, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, result.NONE)
    assert Path(result.result_path) == output / 'first_ols'
    for name in ('level', 'verdict', 'rank', 'relative_error', 'message', 'result_path'):
        assert getattr(result, name) == getattr(answer, name), name
    assert [p.value for p in result.base.parameters] == [p.value for p in answer.base.parameters]
    assert result.level in (result.GOOD, result.USABLE, result.DO_NOT_USE)
    shares, phases = zip(*((each.progress, each.phase) for each in feedback), strict=True)
    assert list(shares) == sorted(shares) and 0.0 <= shares[0] < shares[-1] <= 1.0
    # how many of them there is time to send depends on the machine
    assert all(phases), phases

    status, result, feedback = node.act(
        action.Validate, VALIDATE, timeout=120.0, source=str(bags['second'])
    )
    assert status == GoalStatus.STATUS_SUCCEEDED and feedback
    assert 0.0 < result.relative_error < 3.0


def test_a_canceled_one_ends_at_once_writes_nothing_and_the_node_goes_on(node, bags, output):
    source = str(bags['second'])
    began = time.monotonic()
    status, result, feedback = node.act(
        action.Identify,
        IDENTIFY,
        timeout=120.0,
        cancel_when=lambda feedback: feedback,
        source=source,
        method='wls',
    )
    canceled = time.monotonic() - began
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, result.CANCELED)
    assert result.error_msg == 'canceled; nothing was written'
    assert not list((output / 'second_wls').iterdir())
    began = time.monotonic()
    answer = node.call(srv.Identify, IDENTIFY, timeout=120.0, source=source, method='wls')
    assert answer.success, answer.message
    assert canceled < time.monotonic() - began  # it has not computed to its end


def test_one_that_waits_for_its_turn_is_canceled_there(node, bags):
    from rclpy.action import ActionClient

    client = ActionClient(node.node, action.Identify, IDENTIFY)
    node.wait_until(client.server_is_ready, what='the action')
    goal = action.Identify.Goal(source=str(bags['first']))
    sent = [client.send_goal_async(goal) for _ in range(2)]
    node.wait_until(lambda: all(each.done() for each in sent), what='two goals')
    first, second = (each.result() for each in sent)
    results = [first.get_result_async(), second.get_result_async()]
    second.cancel_goal_async()
    node.wait_until(results[1].done, 60.0, 'the end of the second')
    assert results[1].result().status == GoalStatus.STATUS_CANCELED
    node.wait_until(results[0].done, 120.0, 'the end of the first')
    assert results[0].result().status == GoalStatus.STATUS_SUCCEEDED
    client.destroy()


@pytest.mark.parametrize(
    ('fields', 'code', 'words'),
    [
        ({'method': 'best'}, 'INVALID_SETTINGS', "'estimation.method'"),
        ({'source': 'nowhere.mcap'}, 'INVALID_RECORDING', 'nowhere.mcap'),
    ],
)
def test_a_failure_has_its_code_and_the_reason(node, bags, fields, code, words):
    status, result, _ = node.act(
        action.Identify, IDENTIFY, timeout=60.0, **{'source': str(bags['first']), **fields}
    )
    assert status == GoalStatus.STATUS_ABORTED
    assert result.error_code == getattr(result, code)
    assert words in result.error_msg and '\n' not in result.error_msg
