# SPDX-License-Identifier: Apache-2.0
"""Clients of the nodes: requests typed by the messages, answers as text, canceled goals."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

import pytest

pytest.importorskip('rclpy')

from diagnostic_msgs.msg import KeyValue
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor
from robot_identification.cli.ros import VERBS as TOLD
from robot_identification.nodes.client import add_fields, comments, plain, share_of, VERBS
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.srv import Identify
import yaml

from scripts.node_interfaces import INTERFACES

COMMAND = [sys.executable, '-m', 'robot_identification.cli', 'node']


def parsed(verb, *words):
    parser = argparse.ArgumentParser()
    add_fields(parser, VERBS[verb])
    return vars(parser.parse_args(words))


def test_every_verb_has_a_line_and_an_interface_of_a_node():
    assert set(TOLD) == {*VERBS, 'watch'}
    names = {each.name.replace('~', node) for node, known in INTERFACES.items() for each in known}
    assert {interface.name for interface in VERBS.values()} <= names


def test_fields_are_typed_by_the_message():
    fields = parsed(
        'identify', 'runs/first', '--method', 'irls', '--options', 'signals.cutoff=20',
        '--options', 'estimation.irls.loss=tukey',
    )  # fmt: skip
    assert fields == {
        'source': 'runs/first',
        'method': Identify.Request.IRLS,
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
    assert Identify.Request(**parsed('identify')).method == Identify.Request.DEFAULT


@pytest.mark.parametrize(
    'words', [('identify', '--method', 'best'), ('plan', '--seed', '-1'), ('plan', '--seeds', '1')]
)
def test_wrong_fields_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        parsed(*words)
    assert words[1] in capsys.readouterr().err


@pytest.mark.parametrize('verb', VERBS)
def test_every_request_has_its_help(verb):
    parser = argparse.ArgumentParser()
    add_fields(parser, VERBS[verb])
    assert parser.format_help() and '__default' not in parser.format_help()
    known = VERBS[verb].request.get_fields_and_field_types()
    # std_srvs is not installed with its comments everywhere
    if (
        VERBS[verb].kind.startswith('robot_identification_msgs')
        and comments('std_srvs/srv/X') == {}
    ):
        assert set(known) <= {*comments(VERBS[verb].kind), 'structure_needs_at_least_one_member'}


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
    values = plain(answer)
    assert values['base']['covariance'] == '3364 entries'
    assert 'joints' not in values and values['rank'] == 58


def started(ros, *words):
    """Start the command; it is forked off a process that has its libraries."""
    return ros.start_command('client', [*COMMAND, *words], wait=False)


def test_a_service_is_called_and_its_refusal_is_one_line(ros, tmp_path):
    absent = started(ros, 'check', '--timeout', '1')
    ros.start('recorder', parameters={'output': str(tmp_path / 'bags')})
    stop, watch = started(ros, 'stop'), started(ros, 'watch', 'recorder', '--once')
    assert stop.wait(60.0) == 2
    assert len(stop.lines) == 1
    assert stop.output.startswith("error: service 'recorder/stop' refuses: ")
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
    words = ('excite', 'plan_7', '--dry-run', '--speed', '0.5', '--namespace', '/arm')
    client = started(ros, *words)
    assert client.wait(60.0) == 0, client.output
    assert (excitation['goal'].plan_id, excitation['goal'].speed) == ('plan_7', 0.5)
    assert 'max_tracking_error: 0.5' in client.output


def test_ctrl_c_cancels_the_goal_and_waits_until_the_robot_is_at_rest(ros, excitation):
    client = started(ros, 'excite', 'plan_1', '--namespace', 'arm')
    assert excitation['begun'].wait(60.0)
    assert client.stop(signal.SIGINT, timeout=60.0) == 130
    assert client.lines[-1] == 'error: interrupted'
    # the client did not end before
    assert excitation['canceled'].is_set()
