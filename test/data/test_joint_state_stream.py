# SPDX-License-Identifier: Apache-2.0
"""Joint states read one at a time, against rosbags' own decoding."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

pytest.importorskip('rosbags')

from robot_identification.data.joint_state import JointStateStream
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


@settings(max_examples=60, deadline=None)
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
