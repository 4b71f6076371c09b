# SPDX-License-Identifier: Apache-2.0
"""The recorder of a motion, as the node that moves the robot sees it."""

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.nodes.common import LATCHED
from robot_identification.nodes.excitation import remote_nodes
from robot_identification.nodes.excitation.options import Code, MotionError, Report
from robot_identification.nodes.excitation.remote_nodes import MotionRecording
from robot_identification_msgs.msg import RecorderStatus
from robot_identification_msgs.srv import StartRecording, StopRecording


class Pause:
    """Wait for the executor's next turn."""

    def __await__(self):
        yield


async def tick():
    await Pause()


class Recorder:
    """Answers as a recorder does, and publishes the statuses that a test wants."""

    def __init__(self, ros):
        self.ros = ros
        self.statuses = ros.node.create_publisher(RecorderStatus, 'recorder/status', LATCHED)
        for kind, verb in ((StartRecording, 'start'), (StopRecording, 'stop')):
            ros.node.create_service(kind, f'recorder/{verb}', self._answer)

    def _answer(self, request, response):
        response.success, response.path = True, '/recordings/run'
        return response

    def say(self, **fields):
        self.statuses.publish(RecorderStatus(**{'path': '/recordings/run', **fields}))
        self.ros.spin(0.1)


def wait(ros, coroutine, *arguments):
    task = ros.executor.create_task(coroutine, *arguments)
    ros.wait_until(task.done, what='the recorder')
    return task.result()


@pytest.fixture
def recording(ros):
    recorder = Recorder(ros)
    recorder.say(recording=False)  # of an earlier one
    recorder.say(recording=False, path='/recordings/before')
    report = Report()
    made = MotionRecording(ros.node, tick, 'recorder', 'run', report)
    wait(ros, made.start)
    return recorder, made


def test_a_recorder_that_records_is_no_reason(ros, recording, monkeypatch):
    recorder, made = recording
    monkeypatch.setattr(remote_nodes, 'RECORDER_SILENT', 0.35)
    for _ in range(10):
        recorder.say(recording=True)
        assert made.failure() is None
    wait(ros, made.stop)
    ros.spin(0.6)
    assert made.failure() is None


def test_a_recorder_that_is_gone_or_hangs_is_missed(ros, recording, monkeypatch):
    recorder, made = recording
    monkeypatch.setattr(remote_nodes, 'RECORDER_SILENT', 0.35)
    recorder.say(recording=True)
    ros.wait_until(lambda: made.failure() is not None, what='the error')
    error = made.failure()
    assert error.code == Code.RECORDER_FAILED
    assert "the recorder 'recorder' has published no status for 0." in error.message


def test_a_process_that_was_held_up_has_not_listened(ros, recording, monkeypatch):
    recorder, made = recording
    recorder.say(recording=True)
    now = [100.0]
    monkeypatch.setattr(remote_nodes.time, 'monotonic', lambda: now[0])
    made.failure()
    now[0] += 30.0
    assert made.failure() is None


@pytest.mark.parametrize(
    ('message', 'words'), [('', 'not by this node'), ('the disk is full', ': the disk is full')]
)
def test_a_recording_that_was_ended_by_others_or_by_a_fault_is_missed(
    ros, recording, message, words
):
    recorder, made = recording
    recorder.say(recording=False, message=message)
    assert made.failure().code == Code.RECORDER_FAILED
    assert words in made.failure().message


def test_the_recording_of_others_in_place_of_the_motions_is_noticed_and_left_alone(
    ros, tmp_path, monkeypatch
):
    """Somebody stops the recorder and starts it again, so fast that a status replaces another."""
    note = MotionRecording._note
    monkeypatch.setattr(
        MotionRecording, '_note', lambda made, status: status.recording and note(made, status)
    )
    ros.start('recorder', parameters={'output': str(tmp_path)})
    status = ros.latched(RecorderStatus, 'recorder/status')
    made = MotionRecording(ros.node, tick, 'recorder', 'ours', Report())
    wait(ros, made.start)
    assert ros.call(StopRecording, 'recorder/stop').success
    assert ros.call(StartRecording, 'recorder/start', name='theirs').success
    ros.wait_until(lambda: status[-1].path.endswith('theirs'), what='the status')
    ros.wait_until(lambda: made.failure() is not None, what='the error')
    failure = made.failure()
    assert failure.code == Code.RECORDER_FAILED
    assert f"and records into '{tmp_path / 'theirs'}' instead" in failure.message
    wait(ros, made.stop, failure)
    # where the motion came to its end before, its recording is not whole all the same
    with pytest.raises(MotionError, match='not whole, and records into'):
        wait(ros, made.stop)
    assert made.report.result.recording_path == str(tmp_path / 'ours')
    assert ros.call(StopRecording, 'recorder/stop').path == str(tmp_path / 'theirs')
