# SPDX-License-Identifier: Apache-2.0
"""Joint states read one at a time and from JSON, against decoding by rosbags."""

from __future__ import annotations

import json
import struct

from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.writer import Writer
import numpy as np
import pytest
from robot_identification.data.bag import joint_state_messages
from robot_identification.data.joint_state import decode
from robot_identification.data.joint_state_stream import JointStateStream
from robot_identification.drafting.entry_guess import guess_entry
from robot_identification.errors import RecordingError
from rosbags.typesys import get_typestore, Stores

STORE = get_typestore(Stores.ROS2_JAZZY)
KIND = 'sensor_msgs/msg/JointState'
JOINTS = ('shoulder', 'elbow', 'wrist_3')


def serialised(names, position, effort, velocity=(), stamp=(3, 4), frame=''):
    types = STORE.types
    time = types['builtin_interfaces/msg/Time'](*stamp)
    header = types['std_msgs/msg/Header'](stamp=time, frame_id=frame)
    arrays = [np.array(values, dtype=float) for values in (position, velocity, effort)]
    return bytes(STORE.serialize_cdr(types[KIND](header, list(names), *arrays), KIND))


@st.composite
def states(draw):
    others = draw(st.lists(st.text('abcxyz_0é', max_size=9), max_size=3, unique=True))
    names = draw(st.permutations([*JOINTS, *others]))
    number = st.floats(allow_nan=False, width=64)
    rows = st.lists(number, min_size=len(names), max_size=len(names))
    velocity = draw(st.one_of(st.just([]), rows))
    stamp = draw(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 10**9 - 1)))
    frame = draw(st.text('abc', max_size=5))
    return names, draw(rows), draw(rows), velocity, stamp, frame


@settings(max_examples=60)
@given(st.lists(states(), min_size=1, max_size=6))
def test_any_message_is_read_as_it_was_written(messages):
    """Whatever came before: each may have other names, another order, another frame."""
    stream = JointStateStream(JOINTS)
    for names, position, effort, velocity, stamp, frame in messages:
        found = stream.read(serialised(names, position, effort, velocity, stamp, frame))
        assert found.stamp == stamp[0] * 10**9 + stamp[1]
        order = [names.index(joint) for joint in JOINTS]
        np.testing.assert_array_equal(found.position, np.array(position)[order])
        np.testing.assert_array_equal(found.effort, np.array(effort)[order])


def test_what_fills_the_gaps_of_the_alignment_means_nothing():
    message = bytearray(serialised(JOINTS, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
    stream = JointStateStream(JOINTS)
    stream.read(bytes(message))
    place = message.index(b'elbow\x00') + 6
    assert message[place : place + 2] == b'\x00\x00'
    message[place] = 7
    assert stream.read(bytes(message)).effort.tolist() == [4.0, 5.0, 6.0]


GOOD = serialised(JOINTS, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0])


@pytest.mark.parametrize(
    ('message', 'words'),
    [
        (serialised(JOINTS[:2], [1.0, 2.0], [3.0, 4.0]), "'wrist_3' is not in"),
        (serialised([*JOINTS, 'elbow'], [1.0] * 4, [1.0] * 4), "'elbow' is named twice"),
        (serialised(JOINTS, [1.0] * 3, []), '3 names but 0 values of effort'),
        (serialised(JOINTS, [1.0] * 2, [1.0] * 3), '3 names but 2 values of position'),
        (GOOD[:-1], 'no joint state'),
        (GOOD[:20], 'no joint state'),
        (b'', 'no joint state'),
        (b'\x00\x00' + GOOD[2:], 'byte order'),
        (GOOD[:20] + struct.pack('<I', 2**31) + GOOD[24:], 'no joint state'),
    ],
)
def test_what_is_wrong_is_told_each_time_and_passes(message, words):
    stream = JointStateStream(JOINTS)
    stream.read(GOOD)
    for _ in range(2):
        with pytest.raises(RecordingError, match=words):
            stream.read(message)
    assert stream.read(GOOD).position.tolist() == [1.0, 2.0, 3.0]


def test_efforts_may_be_missing_where_they_are_not_needed():
    stream = JointStateStream(JOINTS, needs_effort=False)
    for effort in ([], [4.0, 5.0, 6.0]):
        assert stream.read(serialised(JOINTS, [1.0, 2.0, 3.0], effort)).effort.tolist() == effort
    with pytest.raises(RecordingError, match='3 names but 1 values of effort'):
        stream.read(serialised(JOINTS, [1.0, 2.0, 3.0], [4.0]))


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
    entry, guess = guess_entry(path, names, None)
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
