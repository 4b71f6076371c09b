# SPDX-License-Identifier: Apache-2.0
"""The recorder's latest recording, as a node finds it that was held up meanwhile."""

from __future__ import annotations

import os
import signal

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification_msgs.srv import Identify, StartRecording, StopRecording

SERVICE = 'identification/identify'


@pytest.fixture
def cell(ros, tmp_path, arm):
    """Give an identification node without a recorder, and a client of its service."""
    output = str(tmp_path / 'results')
    parameters = {**arm.parameters, 'output': output, 'recordings': str(tmp_path / 'runs')}
    ros.identification = ros.start('identification', parameters=parameters)
    ros.client = ros.node.create_client(Identify, SERVICE)
    ros.wait_until(ros.client.service_is_ready, what='the service')
    yield ros
    os.kill(ros.identification.pid, signal.SIGCONT)
    ros.node.destroy_client(ros.client)


def hold_up(ros):
    os.kill(ros.identification.pid, signal.SIGSTOP)


def go_on(ros):
    os.kill(ros.identification.pid, signal.SIGCONT)


def record(ros, name):
    """Record nothing; return the future of the answer to the recording's end."""
    assert ros.call(StartRecording, 'recorder/start', name=name).success
    client = ros.node.create_client(StopRecording, 'recorder/stop')
    ros.wait_until(client.service_is_ready, what='the recorder')
    return client.call_async(StopRecording.Request())


def identify(ros):
    return ros.client.call_async(Identify.Request())


def answer(ros, future):
    ros.wait_until(future.done, what='the answer')
    return future.result().message


def test_a_recorder_that_is_found_late_is_waited_for(cell, tmp_path):
    hold_up(cell)
    cell.start('recorder', parameters={'output': str(tmp_path / 'runs')})
    cell.wait_until(record(cell, 'first').done, what='the end')
    asked = identify(cell)
    cell.spin(0.2)
    go_on(cell)
    # it is empty, but it is the one
    assert str(tmp_path / 'runs' / 'first') in answer(cell, asked)


def test_the_end_of_a_recording_is_answered_when_others_have_its_status(cell, tmp_path):
    cell.start('recorder', parameters={'output': str(tmp_path / 'runs')})
    cell.wait_until(record(cell, 'first').done, what='the end')
    assert str(tmp_path / 'runs' / 'first') in answer(cell, identify(cell))
    hold_up(cell)
    ended = record(cell, 'second')
    cell.spin(1.0)
    assert not ended.done(), 'the other node has not yet the status'
    go_on(cell)
    cell.wait_until(ended.done, what='the end')
    assert str(tmp_path / 'runs' / 'second') in answer(cell, identify(cell))
