# SPDX-License-Identifier: Apache-2.0
"""Faults of joint states in a bag: each handled, or refused by number and time."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.bag_writer import BagWriter, Topic
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import IdentificationWarning, RecordingError
from rosbags.typesys import get_typestore, Stores

STORE = get_typestore(Stores.ROS2_JAZZY)
KIND = 'sensor_msgs/msg/JointState'
JOINTS = ('shoulder', 'elbow')
START = 1_763_700_000_000_000_000
PERIOD = 1_000_000
ROWS = 400
VALUES = np.random.default_rng(4).normal(size=(3, ROWS, 2))


def message(row, *, names=JOINTS, stamp=None, fields=('position', 'velocity', 'effort'), **values):
    """Serialise a row; ``fields`` are those that it has, ``values`` replace some."""
    seconds, rest = divmod(START + row * PERIOD if stamp is None else stamp, 10**9)
    time = STORE.types['builtin_interfaces/msg/Time'](seconds, rest)
    order = [JOINTS.index(name) for name in names]
    signals = {
        name: np.asarray(values.get(name, array[row][order] if name in fields else ()), float)
        for name, array in zip(('position', 'velocity', 'effort'), VALUES, strict=True)
    }
    header = STORE.types['std_msgs/msg/Header'](time, '')
    return bytes(STORE.serialize_cdr(STORE.types[KIND](header, list(names), **signals), KIND))


def read(tmp_path, messages, size=64):
    """Write (time of reception, message) pairs in this order, 100 a chunk, and read them."""
    with BagWriter(tmp_path / 'run', [Topic('/joint_states', KIND)]) as writer:
        for number, (log, data) in enumerate(messages):
            writer.write(0, log, data, publish_time=log)
            if number % 100 == 99:
                writer.flush()
    source = open_recording(RecordingEntry(file=str(tmp_path / 'run')), JOINTS)
    blocks = list(source.blocks(size))
    return tuple(
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ('time', 'position', 'effort')
    )


def ordinary():
    return [(START + row * PERIOD, message(row)) for row in range(ROWS)]


def refused(tmp_path, messages, match):
    with pytest.raises(RecordingError, match=match) as error:
        read(tmp_path, messages)
    assert '\n' not in str(error.value)
    assert error.value.remedy
    return error.value


@pytest.mark.parametrize('reach', [1, 7, 150])
def test_messages_out_of_order_come_in_the_order_of_their_reception(tmp_path, reach):
    """Up to ``reach`` messages late, so within a chunk as well as across several."""
    late = np.arange(ROWS) + np.random.default_rng(5).uniform(0.0, reach, ROWS)
    messages = ordinary()
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        time, position, effort = read(tmp_path, [messages[i] for i in np.argsort(late)])
    np.testing.assert_allclose(time, np.arange(ROWS) * 1e-3, atol=1e-12)
    np.testing.assert_array_equal(position, VALUES[0])
    np.testing.assert_array_equal(effort, VALUES[2])


@pytest.mark.parametrize('change', [1, 63, 64, 250])
def test_joints_in_another_order_from_some_message_on_are_taken_by_name(tmp_path, change):
    messages = ordinary()
    for row in range(change, ROWS):
        messages[row] = (messages[row][0], message(row, names=JOINTS[::-1]))
    _, position, effort = read(tmp_path, messages)
    np.testing.assert_array_equal(position, VALUES[0])
    np.testing.assert_array_equal(effort, VALUES[2])


def test_of_doubled_stamps_the_last_message_counts(tmp_path):
    messages = ordinary()
    messages.insert(200, (messages[200][0], message(200, effort=[9.0, 9.0])))
    _, _, effort = read(tmp_path, messages)
    np.testing.assert_array_equal(effort, VALUES[2])


@pytest.mark.parametrize('value', [np.nan, np.inf])
@pytest.mark.parametrize('signal', ['position', 'effort'])
def test_a_value_that_is_no_number_is_named_with_its_place_and_time(tmp_path, signal, value):
    messages = ordinary()
    messages[321] = (messages[321][0], message(321, **{signal: [1.0, value]}))
    error = refused(tmp_path, messages, f'{signal}.*row 321, at 0.321 s')
    assert error.joint == 'elbow'


@pytest.mark.parametrize(
    'missing', [{'fields': ('position',)}, {'fields': ('effort',)}, {'names': JOINTS[:1]}]
)
def test_messages_that_lack_a_field_are_left_out_and_the_first_one_is_named(tmp_path, missing):
    messages = ordinary()
    gone = [*range(123, 140), 300]
    for row in gone:
        messages[row] = (messages[row][0], message(row, **missing))
    seconds = f'{(START + 123 * PERIOD) // 10**9}.123'
    with pytest.warns(IdentificationWarning, match=f'18 stamps .* the first one at {seconds}'):
        time, position, effort = read(tmp_path, messages)
    np.testing.assert_array_equal(position, np.delete(VALUES[0], gone, axis=0))
    np.testing.assert_array_equal(effort, np.delete(VALUES[2], gone, axis=0))
    np.testing.assert_allclose(time, np.delete(np.arange(ROWS), gone) * 1e-3, atol=1e-12)


@pytest.mark.parametrize('place', [1, 60, 250, ROWS - 20])
def test_messages_that_are_delivered_late_are_passed_over_and_counted(tmp_path, place):
    """The last 20 before a place come twice, as from a middleware with two paths."""
    rows = [*range(20, place + 20), *range(place, place + 20), *range(place + 20, ROWS)]
    received = sorted(max(rows[: k + 1]) for k in range(len(rows)))
    messages = [
        (START + at * PERIOD + k, message(row))
        for k, (at, row) in enumerate(zip(received, rows, strict=True))
    ]
    first = f'{(START + place * PERIOD) * 1e-9:.9f} s: they were delivered late'
    match = f"19 messages of topic '/joint_states' are older .* {first}"
    with pytest.warns(IdentificationWarning, match=match):
        time, position, effort = read(tmp_path, messages)
    np.testing.assert_array_equal(position, VALUES[0][20:])
    np.testing.assert_array_equal(effort, VALUES[2][20:])
    np.testing.assert_allclose(time, np.arange(ROWS - 20) * 1e-3, atol=1e-12)


@pytest.mark.parametrize(('place', 'step'), [(60, 20), (250, 20), (250, 3), (64, 64)])
def test_a_clock_that_was_set_back_is_named_with_its_time(tmp_path, place, step):
    """Messages after the step come late by their stamps; most are newer than all before."""
    messages = ordinary()
    for row in range(place, ROWS):
        stamp = START + (row - step) * PERIOD
        messages[row] = (messages[row][0], message(row, stamp=stamp))
    seconds = (START + (place - step) * PERIOD) * 1e-9
    refused(tmp_path, messages, f'{seconds:.9f} s .* goes back in time: the clock was set back')


def test_stamps_of_which_many_go_back_are_refused(tmp_path):
    messages = ordinary()
    messages[9::9] = [(at, message(0)) for at, _ in messages[9::9]]
    refused(tmp_path, messages, 'goes back in time')


def test_what_is_no_joint_state_is_named_with_its_number_and_time(tmp_path):
    messages = ordinary()
    messages[77] = (messages[77][0], messages[77][1][:40])
    refused(tmp_path, messages, rf'message 77, received at {START // 10**9}\.077')
