# SPDX-License-Identifier: Apache-2.0
"""Recordings of robots on their feet: the same signals from tables and from bags."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.config.floating_sources import FloatingReader
from robot_identification.data.drives import Drives
from robot_identification.data.recording_config import ImuColumns, RecordingEntry
from robot_identification.data.sensor_messages import SensorMessages
from robot_identification.errors import IdentificationError, IdentificationWarning
from robot_identification.model.mechanisms import ContactSettings, ImuSettings
from robot_identification.model.robot import Robot
from walker import FEET, walker, write_bag

pytest.importorskip('rosbags')

TOPICS = tuple(f'/{foot}/contact' for foot in FEET)


@pytest.fixture(scope='module')
def signals():
    random = np.random.default_rng(0)
    count = 40
    stance = np.ones((count, 4))
    stance[15:30, 2] = 0.0
    turn = np.array([0.0, 0.0, 0.0, 1.0]) + 0.01 * random.normal(size=(count, 4))
    turn[20:] *= -1.0  # the same orientation
    return {
        'time': np.arange(count) / 200.0,
        'q': 0.3 * np.sin(0.1 * np.arange(count)[:, None] + np.arange(12)),
        'tau': random.normal(size=(count, 12)),
        'gyro': random.normal(size=(count, 3)),
        'acc': random.normal(size=(count, 3)),
        'turn': turn,
        'stance': stance,
        'wrench': np.tile([0.0, 3.0, 40.0], (count, 4)) * np.repeat(stance, 3, axis=1),
    }


@pytest.fixture(scope='module')
def reader(tmp_path_factory):
    joints = Robot.from_urdf(walker(), floating=True).joints
    feet = tuple(ContactSettings(frame=foot, kind='sphere', radius=0.022) for foot in FEET)
    folder = tmp_path_factory.mktemp('bags')
    return FloatingReader(joints, feet, ImuSettings(frame='trunk'), Drives(), folder)


def bag(reader, signals, contacts, **changes):
    """Write a bag and return its entry."""
    path = reader.base / f'{contacts}{len(list(reader.base.iterdir()))}'
    write_bag(path, reader.driven, signals, contacts, **changes)
    topics = '/feet' if contacts == 'array' else TOPICS
    return RecordingEntry(file=str(path), imu=ImuColumns(), contacts=topics)


@pytest.mark.parametrize('contacts', ['bool', 'array', 'wrench'])
def test_bags_have_what_tables_have(reader, signals, contacts):
    np.savez(reader.base / 'table.npz', **signals)
    table = RecordingEntry(
        file='table.npz',
        time='time',
        position='q',
        effort='tau',
        imu=ImuColumns(gyroscope='gyro', accelerometer='acc', orientation='turn'),
        contacts='stance',
    )
    wanted = reader.read(table, 'data')
    found = reader.read(bag(reader, signals, contacts), 'data')
    for name in ('time', 'position', 'effort', 'gyroscope', 'accelerometer'):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-8)
    np.testing.assert_array_equal(found.stance, wanted.stance)
    same = np.abs(np.sum(found.orientation * wanted.orientation, axis=1))
    np.testing.assert_allclose(same, np.sum(wanted.orientation**2, axis=1))
    assert (np.diff(found.orientation, axis=0) < 0.5).all()


def test_wrenches_come_from_topics_or_columns(reader, signals):
    entry = bag(reader, signals, 'wrench')
    found = reader.read(replace(entry, wrenches={'FR_foot': '/FR_foot/contact'}), 'data')
    np.testing.assert_allclose(found.wrench[:, 3:6], signals['wrench'][:, 3:6])
    assert np.isnan(np.delete(found.wrench, [3, 4, 5], axis=1)).all()
    np.savez(reader.base / 'force.npz', **signals, force=signals['wrench'][:, 3:6])
    table = RecordingEntry(
        file='force.npz',
        time='time',
        position='q',
        effort='tau',
        imu=ImuColumns(gyroscope='gyro', accelerometer='acc'),
        contacts='stance',
        wrenches={'FR_foot': 'force'},
    )
    np.testing.assert_array_equal(reader.read(table, 'data').wrench, found.wrench)
    with pytest.raises(IdentificationError, match=r"'data\.wrenches\.hand' is no frame of robot"):
        reader.read(replace(table, wrenches={'hand': 'force'}), 'data')


def test_an_imu_without_orientation_and_in_another_frame(reader, signals):
    entry = bag(reader, signals, 'bool', orientation=False, frame='imu_link')
    with pytest.warns(IdentificationWarning, match="the IMU names the frame 'imu_link'"):
        found = reader.read(entry, 'data')
    assert found.orientation is None
    at_feet = bag(reader, {**signals, 'turn': 0.0 * signals['turn']}, 'bool')
    assert reader.read(at_feet, 'data').orientation is None


def test_gaps_of_the_imu_are_left_out(reader, signals):
    entry = bag(reader, signals, 'bool')
    other = bag(reader, {name: values[10:20] for name, values in signals.items()}, 'bool')
    assert len(reader.read(replace(entry, time_range=(0.05, None)), 'data')) == 30
    assert len(reader.read(other, 'data')) == 10


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'imu': ImuColumns(topic='/imu/raw')}, 'topics with sensor_msgs/msg/Imu are /imu/data'),
        ({'imu': ImuColumns(gyroscope='gyro')}, 'gyroscope.* is given for a bag'),
        ({'contacts': TOPICS[:3]}, 'has 3 topics, expected 4'),
        ({'contacts': TOPICS[0]}, 'has 1 values a message for 4 contacts'),
        ({'contacts': None}, 'contacts.* is missing'),
        ({'imu': None}, 'imu.* is missing'),
    ],
)
def test_what_does_not_fit_is_named(reader, signals, changes, message):
    entry = bag(reader, signals, 'bool')
    with pytest.raises(IdentificationError, match=message):
        reader.read(replace(entry, **changes), 'data')


def test_messages_without_stamps_take_those_of_the_imu():
    stamp = np.array([10, 20, 40])
    imu = SensorMessages(stamp, stamp * 3 + 1000, np.zeros((3, 6)), '', True)
    received = np.array([1000, 1045, 1120, 1130])
    flags = SensorMessages(received, received, np.zeros((4, 1)), '', False)
    np.testing.assert_array_equal(flags.on_clock_of(imu).stamp, [-20, 15, 40, 50])
