# SPDX-License-Identifier: Apache-2.0
"""Tests of the time and remarks of a bag."""

import numpy as np
import pytest
from robot_identification.data.bag import bag_info, BagInfo
from robot_identification.data.bag_writer import BagWriter, Topic
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import get_typestore, Stores

STORE = get_typestore(Stores.ROS2_JAZZY)
START = 1_763_700_000_123_456_789


def write(folder, plugin, version=9):
    """Write a bag with custom data by rosbags."""
    message = STORE.types['std_msgs/msg/String'](data='x')
    writer = Writer(folder, version=version, storage_plugin=plugin)
    writer.set_custom_data('serial', 'Ärm 7')
    with writer:
        connection = writer.add_connection('/a', 'std_msgs/msg/String', typestore=STORE)
        data = STORE.serialize_cdr(message, 'std_msgs/msg/String')
        for number in range(3):
            writer.write(connection, START + number * 10**9, data)
    return folder


@pytest.mark.parametrize('plugin', [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_folder_tells_start_and_custom_data(tmp_path, plugin):
    about = bag_info(write(tmp_path / 'bag', plugin))
    assert about.start == pytest.approx(1e-9 * START, abs=1e-6)
    assert about.custom == {'serial': 'Ärm 7'}


@pytest.mark.parametrize('plugin', [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_storage_file_alone_tells_the_same(tmp_path, plugin):
    (file,) = (f for f in write(tmp_path / 'bag', plugin).iterdir() if f.suffix != '.yaml')
    assert bag_info(file) == bag_info(tmp_path / 'bag')


def test_our_own_writer_is_understood(tmp_path):
    topic = Topic('/joint_states', 'sensor_msgs/msg/JointState')
    writer = BagWriter(tmp_path / 'bag', [topic], {'serial': 'A7'})
    writer.write(0, START, b'\0' * 16, publish_time=START)
    writer.close()
    (file,) = (tmp_path / 'bag').glob('*.mcap')
    assert bag_info(file).start == pytest.approx(1e-9 * START, abs=1e-6)
    assert bag_info(file).custom == {'serial': 'A7'}
    assert bag_info(tmp_path / 'bag') == bag_info(file)


def test_damaged_files_tell_nothing(tmp_path):
    (file,) = write(tmp_path / 'bag', StoragePlugin.MCAP).glob('*.mcap')
    data = file.read_bytes()
    rng = np.random.default_rng(0)
    other = tmp_path / 'cut.mcap'
    for length in rng.integers(0, len(data), 30):
        other.write_bytes(data[:length])
        assert bag_info(other) == BagInfo()
    for _ in range(100):
        changed = bytearray(data)
        changed[rng.integers(len(data) - 200, len(data))] ^= int(rng.integers(1, 256))
        other.write_bytes(changed)
        bag_info(other)  # raises nothing
    assert bag_info(tmp_path / 'missing.mcap') == BagInfo()
