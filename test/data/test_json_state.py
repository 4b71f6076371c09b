# SPDX-License-Identifier: Apache-2.0
"""Joint states in JSON, as Foxglove writes them, against the numbers that were written."""

from __future__ import annotations

import json

from mcap.writer import Writer
import numpy as np
import pytest
from robot_identification.config.draft_entries import described
from robot_identification.data.bag import joint_state_messages
from robot_identification.data.joint_state import decode, JointStateStream
from robot_identification.errors import RecordingError

NAMES = ('elbow', 'wrist')
ALIGNMENTS = [NAMES, ('elbow', 'wrist_roll'), ('a', 'b')]


def foxglove(k, names=NAMES):
    joints = [{'name': n, 'position': k + 0.1 * j, 'effort': -k} for j, n in enumerate(names)]
    return {'timestamp': {'sec': 1_700_000_000 + k, 'nsec': 5 * k}, 'joints': joints}


def ros(k, names=NAMES):
    position = [k + 0.1 * j for j in range(2)]
    stamp = {'sec': 1_700_000_000 + k, 'nanosec': 5 * k}
    header = {'stamp': stamp, 'frame_id': 'base'}
    return {'header': header, 'name': list(names), 'position': position, 'effort': [-k, -k]}


def written(path, kind, contents):
    with path.open('wb') as stream:
        writer = Writer(stream)
        writer.start()
        schema = writer.register_schema(kind, 'jsonschema', b'{}')
        channel = writer.register_channel('/joints', 'json', schema)
        for k, content in enumerate(contents):
            writer.add_message(channel, 10**9 * k, json.dumps(content).encode(), 10**9 * k)
        writer.finish()
    return path


@pytest.mark.parametrize(
    ('kind', 'state'),
    [('foxglove.JointStates', foxglove), ('sensor_msgs/msg/JointState', ros)],
)
@pytest.mark.parametrize('names', ALIGNMENTS)
def test_stamps_and_numbers_are_those_that_were_written(tmp_path, kind, state, names):
    path = written(tmp_path / 'run.mcap', kind, [state(k, names) for k in range(50)])
    entry, guess = described(path, names, None)
    assert (entry.topic, guess.joints) == ('/joints', names)
    (messages,) = joint_state_messages(path, '/joints')
    found = decode(messages, dict.fromkeys(('position', 'velocity', 'effort'), names))
    k = np.arange(50)
    np.testing.assert_array_equal(found.stamp, 10**9 * (1_700_000_000 + k) + 5 * k)
    np.testing.assert_array_equal(found.values['position'], k[:, None] + np.array([0.0, 0.1]))
    np.testing.assert_array_equal(found.values['effort'], -np.stack([k, k], axis=1))
    assert not found.present['velocity'].any()
    # the same to the last byte as the messages of ROS
    one = JointStateStream(names).read(messages[3])
    np.testing.assert_array_equal(one.position, [3.0, 3.1])


def test_a_state_without_a_stamp_has_the_time_of_its_receipt(tmp_path):
    path = written(tmp_path / 'run.mcap', 'foxglove.JointStates', [{'joints': []}] * 3)
    (messages,) = joint_state_messages(path, 'joints')
    found = decode(messages, dict.fromkeys(('position', 'velocity', 'effort'), ()))
    np.testing.assert_array_equal(found.stamp, 10**9 * np.arange(3))


@pytest.mark.parametrize(
    'content',
    [
        [1],
        {'timestamp': 'now', 'joints': []},
        {'joints': [{'name': 'a', 'effort': 'x'}]},
        {'joints': 3},
        {'timestamp': {'sec': 10**12}, 'joints': []},
    ],
)
def test_other_contents_are_refused_in_one_line(tmp_path, content):
    path = written(tmp_path / 'run.mcap', 'foxglove.JointStates', [content])
    with pytest.raises(RecordingError, match='run.mcap') as found:
        list(joint_state_messages(path, '/joints'))
    assert '\n' not in str(found.value)


def test_other_encodings_are_named(tmp_path):
    path = written(tmp_path / 'run.mcap', 'foxglove.FrameTransform', [{}])
    with pytest.raises(RecordingError, match='is of type foxglove.FrameTransform in json'):
        list(joint_state_messages(path, '/joints'))
