# SPDX-License-Identifier: Apache-2.0
"""Recordings in rosbag2 files, written by rosbags."""

import struct
import time
import warnings

from mcap.writer import Writer as McapWriter
import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.bag_writer import BagWriter, Topic
from robot_identification.data.joint_state import decode, Messages
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import (
    IdentificationWarning,
    RecordingError,
    SettingsError,
)
from robot_identification.options.fields import from_mapping
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import get_typestore, Stores

STORE = get_typestore(Stores.ROS2_JAZZY)
KIND = 'sensor_msgs/msg/JointState'
JOINTS = ('shoulder', 'elbow', 'wrist')
START = 1_763_700_000_123_456_789
PLUGINS = (StoragePlugin.MCAP, StoragePlugin.SQLITE3)


def serialised(stamp, names, position=(), velocity=(), effort=(), frame='', little_endian=True):
    message = STORE.types[KIND](
        header=STORE.types['std_msgs/msg/Header'](
            stamp=STORE.types['builtin_interfaces/msg/Time'](
                sec=stamp // 10**9, nanosec=stamp % 10**9
            ),
            frame_id=frame,
        ),
        name=list(names),
        position=np.array(position, dtype=float),
        velocity=np.array(velocity, dtype=float),
        effort=np.array(effort, dtype=float),
    )
    return bytes(STORE.serialize_cdr(message, KIND, little_endian=little_endian))


def write(path, messages, plugin=StoragePlugin.MCAP, topic='/joint_states', compression=None):
    """Write (stamp, serialised message) pairs; ``compression`` is a `CompressionMode`."""
    writer = Writer(path, version=9, storage_plugin=plugin)
    if compression is not None:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connection = writer.add_connection(topic, KIND, typestore=STORE)
        text = writer.add_connection('/rosout', 'std_msgs/msg/String', typestore=STORE)
        string = STORE.types['std_msgs/msg/String'](data='noise')
        for number, (stamp, message) in enumerate(messages):
            writer.write(connection, stamp, message)
            if number % 10 == 0:
                noise = STORE.serialize_cdr(string, 'std_msgs/msg/String')
                writer.write(text, stamp, noise)
    return path


def motion(n_rows=500, seed=0):
    """Stamps [ns], positions, velocities and efforts."""
    values = 0.5 * np.random.default_rng(seed).normal(size=(3, n_rows, 3))
    return (START + np.arange(n_rows) * 1_000_000, *values)


def ordinary(n_rows=500, **more):
    stamps, q, v, c = motion(n_rows)
    return [
        (int(stamps[i]), serialised(int(stamps[i]), JOINTS, q[i], v[i], c[i], **more))
        for i in range(n_rows)
    ]


def load(path, size=128, joints=JOINTS, **entry):
    source = open_recording(
        from_mapping(RecordingEntry, {'file': path.name, **entry}), joints, base=path.parent
    )
    blocks = list(source.blocks(size))
    parts = {
        name: [getattr(block, name) for block in blocks]
        for name in ('time', 'position', 'velocity', 'effort')
    }
    return {
        name: None if any(part is None for part in values) else np.concatenate(values)
        for name, values in parts.items()
    }


def matches(got, rows=slice(None)):
    stamps, q, v, c = motion()
    np.testing.assert_allclose(got['time'], (stamps[rows] - stamps[rows][0]) * 1e-9, atol=1e-15)
    np.testing.assert_array_equal(got['position'], q[rows])
    np.testing.assert_array_equal(got['velocity'], v[rows])
    np.testing.assert_array_equal(got['effort'], c[rows])


@pytest.mark.parametrize('plugin', PLUGINS)
@pytest.mark.parametrize('frame', ['', 'base_link'])
def test_reads_what_rosbags_writes(tmp_path, plugin, frame):
    bag = write(tmp_path / 'bag', ordinary(frame=frame), plugin)
    matches(load(bag))
    [file] = [file for file in bag.iterdir() if file.suffix in ('.mcap', '.db3')]
    matches(load(file))


@pytest.mark.parametrize(
    ('plugin', 'compression'),
    [
        (StoragePlugin.SQLITE3, CompressionMode.FILE),
        (StoragePlugin.SQLITE3, CompressionMode.MESSAGE),
        (StoragePlugin.MCAP, CompressionMode.MESSAGE),
        (StoragePlugin.MCAP, CompressionMode.STORAGE),
    ],
)
def test_reads_compressed_bags(tmp_path, plugin, compression):
    matches(load(write(tmp_path / 'bag', ordinary(), plugin, compression=compression)))


def test_joints_are_taken_by_name_in_any_order(tmp_path):
    stamps, q, v, c = motion()
    rng = np.random.default_rng(1)
    messages = []
    for i, stamp in enumerate(stamps.tolist()):
        order = rng.permutation(4)
        names = np.array([*JOINTS, 'gripper'])[order]
        rows = [np.append(array[i], 9.0)[order] for array in (q, v, c)]
        messages.append((stamp, serialised(stamp, names, *rows)))
    bag = write(tmp_path / 'bag', messages)
    matches(load(bag))
    got = load(bag, joints=('wrist', 'shoulder'))
    np.testing.assert_array_equal(got['effort'], c[:, [2, 0]])


def test_names_of_the_motors_can_be_given(tmp_path):
    bag = write(tmp_path / 'bag', ordinary())
    got = load(bag, joints=('a', 'b'), position=['elbow', 'wrist'], effort=['wrist', 'elbow'])
    _, q, _, c = motion()
    np.testing.assert_array_equal(got['position'], q[:, 1:])
    np.testing.assert_array_equal(got['effort'], c[:, [2, 1]])


def test_the_topic_may_have_a_namespace_or_no_slash(tmp_path):
    bag = write(tmp_path / 'bag', ordinary(), topic='/robot/joint_states')
    matches(load(bag, topic='robot/joint_states'))


def test_the_duration_is_known_before_it_is_read(tmp_path):
    bag = write(tmp_path / 'bag', ordinary())
    source = open_recording(RecordingEntry(file='bag'), JOINTS, base=tmp_path)
    assert source.duration == pytest.approx(0.499, abs=1e-6)
    [file] = bag.glob('*.mcap')
    file.write_bytes(b'')
    assert source.duration == 0.0


def test_missing_or_nan_velocity_is_none(tmp_path):
    stamps, q, v, c = motion()
    for name, velocity in (('without', ()), ('nan', [0.0, np.nan, 0.0])):
        messages = [
            (stamp, serialised(stamp, JOINTS, q[i], velocity, c[i]))
            for i, stamp in enumerate(stamps.tolist())
        ]
        got = load(write(tmp_path / name, messages))
        assert got['velocity'] is None
        np.testing.assert_array_equal(got['position'], q)


@pytest.mark.parametrize('size', [1, 2, 7, 5000])
def test_of_several_messages_with_one_stamp_the_last_counts(tmp_path, size):
    messages = ordinary()
    stamp = messages[50][0]
    wrong = serialised(stamp, JOINTS, [7.0] * 3, [7.0] * 3, [7.0] * 3)
    messages[50:50] = [(stamp, wrong), (stamp, wrong)]
    matches(load(write(tmp_path / 'bag', messages), size=size))


@pytest.mark.parametrize('size', [1, 3, 5000])
def test_messages_of_several_publishers_are_joined_by_stamp(tmp_path, size):
    stamps, q, v, c = motion()
    messages = []
    for i, stamp in enumerate(stamps.tolist()):
        messages += [
            (stamp, serialised(stamp, JOINTS[:1], q[i, :1], v[i, :1], c[i, :1])),
            (stamp, serialised(stamp + 300, ['gripper'], [1.0], [1.0], [1.0])),
            (stamp, serialised(stamp, JOINTS[:0:-1], q[i, :0:-1], v[i, :0:-1], c[i, :0:-1])),
        ]
    matches(load(write(tmp_path / 'bag', messages), size=size))


def test_rows_with_some_of_the_joints_only_are_left_out_with_a_warning(tmp_path):
    messages = ordinary()
    stamps, q, v, c = motion()
    for i in (3, 40):
        stamp = int(stamps[i])
        messages[i] = (stamp, serialised(stamp, JOINTS[:2], q[i, :2], v[i, :2], c[i, :2]))
    bag = write(tmp_path / 'bag', messages)
    with pytest.warns(IdentificationWarning, match='2 stamps of topic'):
        got = load(bag)
    np.testing.assert_array_equal(got['position'], np.delete(q, [3, 40], axis=0))


@pytest.mark.parametrize('size', [1, 3, 5000])
def test_what_a_publisher_leaves_out_is_not_filled_with_older_values(tmp_path, size):
    stamps, q, v, c = motion()
    messages = []
    for i, stamp in enumerate(stamps.tolist()):
        for part in (slice(0, 2), slice(2, 3)):
            message = serialised(stamp, JOINTS[part], q[i, part], v[i, part], c[i, part])
            if (i, part.start) != (77, 2):
                messages.append((stamp, message))
    bag = write(tmp_path / 'bag', messages)
    with pytest.warns(IdentificationWarning, match='1 stamps of topic'):
        got = load(bag, size=size)
    np.testing.assert_array_equal(got['position'], np.delete(q, 77, axis=0))


def test_big_endian_messages_are_read(tmp_path):
    matches(load(write(tmp_path / 'bag', ordinary(little_endian=False))))


def test_many_shapes_of_messages_are_read():
    rng = np.random.default_rng(2)
    messages, expected = [], []
    for i in range(300):
        names = ['x' * int(rng.integers(1, 40)) + str(i), *JOINTS]
        q = rng.normal(size=4)
        messages.append(serialised(START + i, names, q, [], q))
        expected.append(q[1:])
    states = decode(
        Messages.from_bytes(messages, range(300)),
        dict.fromkeys(('position', 'velocity', 'effort'), JOINTS),
    )
    np.testing.assert_array_equal(states.values['position'], expected)
    np.testing.assert_array_equal(states.stamp, START + np.arange(300))
    assert not states.present['velocity'].any()


def test_cuts_count_rows_and_seconds_from_the_first_message(tmp_path):
    bag = write(tmp_path / 'bag', ordinary())
    matches(load(bag, rows=[0, 300]), slice(0, 300))
    got = load(bag, time_range=[0.1, 0.2])
    np.testing.assert_array_equal(got['position'], motion()[1][100:201])


def cut(bag, share):
    """Cut an mcap file and take away what its recorder would have written last."""
    [file] = bag.glob('*.mcap')
    data = file.read_bytes()
    file.write_bytes(data[: round(share * len(data))])
    (bag / 'metadata.yaml').unlink()
    return file


@pytest.mark.parametrize('compression', [None, CompressionMode.STORAGE])
@pytest.mark.parametrize('share', [0.5, 0.9])
def test_a_bag_without_its_end_is_read_up_to_its_last_complete_chunk(tmp_path, compression, share):
    bag = write(tmp_path / 'bag', ordinary(3000, frame='f' * 1500), compression=compression)
    file = cut(bag, share)
    with pytest.warns(IdentificationWarning, match='last complete chunk .* are whole'):
        got = load(bag)
    n_rows = len(got['position'])
    # a chunk of 1 MiB has 580 messages
    assert 0 <= share * 3000 - n_rows < 620
    np.testing.assert_array_equal(got['position'], motion(3000)[1][:n_rows])
    with pytest.warns(IdentificationWarning):
        assert len(load(file)['position']) == n_rows


def test_a_whole_bag_without_metadata_is_read(tmp_path):
    for plugin in PLUGINS:
        bag = write(tmp_path / plugin.name, ordinary(), plugin)
        (bag / 'metadata.yaml').unlink()
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            matches(load(bag))


def test_sixty_seconds_at_one_kilohertz_take_about_a_second(tmp_path):
    stamps, q, v, c = motion(6000)
    bag = write(
        tmp_path / 'bag',
        [
            (stamp, serialised(stamp, JOINTS, q[i], v[i], c[i]))
            for i, stamp in enumerate(stamps.tolist())
        ],
    )
    begin = time.process_time()
    load(bag, size=16384)
    assert 10 * (time.process_time() - begin) < 2.0  # measured: 0.25


def refused(path, kind=RecordingError, joints=JOINTS, **entry):
    with pytest.raises(kind) as error:
        load(path, joints=joints, **entry)
    assert '\n' not in str(error.value)
    assert error.value.remedy
    return error.value, str(error.value)


@pytest.mark.filterwarnings('ignore::robot_identification.errors.IdentificationWarning')
@pytest.mark.parametrize('plugin', PLUGINS)
def test_damaged_bags_are_named(tmp_path, plugin):
    bag = write(tmp_path / 'bag', ordinary(5000), plugin)
    [file] = [file for file in bag.iterdir() if file.suffix in ('.mcap', '.db3')]
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle - 20000 : middle + 20000] = bytes(40000)
    file.write_bytes(data)
    error, shown = refused(bag)
    assert 'bag' in error.file
    for content in (b'', b'hello', b'\x89MCAP0\r\n', bytes(10000)):
        file.write_bytes(content)
        error, shown = refused(file)
        assert str(file) in shown


def test_damage_in_an_unfinished_bag_is_named(tmp_path):
    messages = ordinary(3000, frame='f' * 1500)
    file = cut(write(tmp_path / 'bag', messages, compression=CompressionMode.STORAGE), 0.8)
    bag = file.parent
    data = bytearray(file.read_bytes())
    data[len(data) // 4 : len(data) // 4 + 1000] = bytes(1000)
    file.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        assert 'damaged' in refused(bag)[1]


def killed_recorder(folder, n_rows=1000, flushed=900, mark=''):
    """Write a bag with our own writer, which is killed after its last flush; or closed, marked."""
    writer = BagWriter(folder, [Topic('/joint_states', KIND)], {'mark': mark} if mark else None)
    for number, (stamp, message) in enumerate(ordinary(n_rows)):
        if number % 100 == 0 and number <= flushed:
            writer.flush()
        writer.write(0, stamp, message, publish_time=stamp)
    if mark:
        writer.close()
    return writer.path


def test_a_killed_recorder_of_ours_loses_nothing_that_was_flushed(tmp_path):
    file = killed_recorder(tmp_path / 'bag')
    with pytest.warns(IdentificationWarning, match='last complete chunk'):
        got = load(tmp_path / 'bag')
    np.testing.assert_array_equal(got['position'], motion(1000)[1][:900])
    # the last chunk, or the index behind it, had begun to reach the disk
    data = file.read_bytes()
    index = 9 + 6 + 16 * 100
    for missing, rows in ((1, 900), (index, 900), (index + 1, 800)):
        file.write_bytes(data[: len(data) - missing])
        with pytest.warns(IdentificationWarning, match='missing|no whole record'):
            assert len(load(tmp_path / 'bag')['position']) == rows


def test_what_a_power_loss_left_of_the_last_chunk_is_left_out(tmp_path):
    file = killed_recorder(tmp_path / 'bag')
    data = bytearray(file.read_bytes())
    file.write_bytes(data + bytes(5000))
    with pytest.warns(IdentificationWarning, match='last complete chunk .* 5000 bytes follow'):
        assert len(load(tmp_path / 'bag')['position']) == 900
    # the length of the file was written, but not all of its blocks
    zeros = 9 + 6 + 16 * 100 + 5000
    for content in (data[:-zeros] + bytes(zeros), data[:-3000] + b'?' + data[-2999:]):
        file.write_bytes(content)
        with pytest.warns(IdentificationWarning, match='last complete chunk .* bytes follow'):
            got = load(tmp_path / 'bag')
        for name, values in zip(('position', 'velocity', 'effort'), motion(1000)[1:], strict=True):
            np.testing.assert_array_equal(got[name], values[:800])


def test_zeros_with_something_behind_them_are_damage(tmp_path):
    file = killed_recorder(tmp_path / 'bag')
    file.write_bytes(file.read_bytes() + bytes(1000) + b'\x07')
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        assert 'no record' in refused(tmp_path / 'bag')[1]


def test_a_changed_byte_in_an_unfinished_bag_is_found(tmp_path):
    file = killed_recorder(tmp_path / 'bag')
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        assert 'checksum' in refused(tmp_path / 'bag')[1]


def test_damaged_metadata_is_named(tmp_path):
    bag = write(tmp_path / 'bag', ordinary(10))
    for text in ('', 'a: [', 'rosbag2_bagfile_information: 5', 'rosbag2_bagfile_information: {}'):
        (bag / 'metadata.yaml').write_text(text)
        assert 'damaged' in refused(bag)[1]


@pytest.mark.parametrize('plugin', PLUGINS)
def test_fewer_messages_than_are_promised_are_damage(tmp_path, plugin):
    bag = write(tmp_path / 'bag', ordinary(50), plugin)
    text = (bag / 'metadata.yaml').read_text()
    assert text.count('"message_count": 50') + text.count('message_count: 50') == 1
    (bag / 'metadata.yaml').write_text(text.replace('message_count: 50', 'message_count: 51'))
    assert 'holds 50 of 51 messages' in refused(bag)[1]


def test_a_folder_that_is_no_bag_is_named(tmp_path):
    (tmp_path / 'bag').mkdir()
    assert 'is not a bag' in refused(tmp_path / 'bag')[1]


def test_a_bag_cut_in_its_first_chunk_has_no_topics(tmp_path):
    file = cut(write(tmp_path / 'bag', ordinary()), 0.5)
    with pytest.warns(IdentificationWarning, match='last complete chunk'):
        assert 'ends before its first complete chunk' in refused(file)[1]


def test_a_missing_topic_lists_what_there_is(tmp_path):
    bag = write(tmp_path / 'bag', ordinary(10), topic='/left/joint_states')
    assert 'topics with joint states are /left/joint_states' in refused(bag)[1]
    assert 'is of type std_msgs/msg/String' in refused(bag, topic='/rosout')[1]


def test_a_missing_joint_lists_what_there_is(tmp_path):
    bag = write(tmp_path / 'bag', ordinary(10))
    error, shown = refused(bag, joints=('shoulder', 'knee'))
    assert error.joint == 'knee'
    assert 'shoulder, elbow, wrist' in shown


def test_missing_effort_names_the_joint(tmp_path):
    stamps, q, v, c = motion(50)
    for name, effort in (('empty', lambda i: []), ('nan', lambda i: [c[i, 0], np.nan, c[i, 2]])):
        messages = [
            (stamp, serialised(stamp, JOINTS, q[i], v[i], effort(i)))
            for i, stamp in enumerate(stamps.tolist())
        ]
        error, shown = refused(write(tmp_path / name, messages))
        assert 'effort' in shown
        assert error.joint == {'empty': 'shoulder', 'nan': 'elbow'}[name]
        assert 'does not report' in shown


def test_a_single_nan_names_joint_and_row(tmp_path):
    messages = ordinary()
    _, q, v, c = motion()
    stamp = messages[321][0]
    messages[321] = (stamp, serialised(stamp, JOINTS, [0.0, np.nan, 0.0], v[321], c[321]))
    error, shown = refused(write(tmp_path / 'bag', messages))
    assert error.joint == 'elbow'
    assert 'row 321, at 0.321 s' in shown


@pytest.mark.parametrize('size', [3, 128, 5000])
@pytest.mark.parametrize('periods', [(1_000_000, 1_000_000), (1_000_000, 1_700_000)])
def test_publishers_with_stamps_of_their_own_are_joined_by_time(tmp_path, size, periods):
    """Sines are interpolated to an eighth of (speed * period)^2, at the ends; else better."""
    speed = np.array([3.0, 5.0, 7.0])
    messages = []
    parts = ((slice(0, 2), 0), (slice(2, 3), 400_000))
    for (part, late), period in zip(parts, periods, strict=True):
        for stamp in range(START + late, START + 400_000_000, period):
            angle = speed[part] * 1e-9 * (stamp - START)
            values = np.sin(angle), speed[part] * np.cos(angle), 10.0 * np.cos(angle)
            messages.append((stamp, serialised(stamp, JOINTS[part], *values)))
    bag = write(tmp_path / 'bag', sorted(messages, key=lambda item: item[0]))
    with pytest.warns(IdentificationWarning, match='wrist are interpolated .* shoulder, elbow'):
        got = load(bag, size=size)
    assert len(got['time']) > 390
    assert got['time'][0] == pytest.approx(1e-3)  # what has no neighbours is left out
    angle = speed * got['time'][:, None]
    np.testing.assert_allclose(got['position'], np.sin(angle), atol=2e-5)
    np.testing.assert_allclose(got['velocity'], speed * np.cos(angle), atol=2e-4)
    np.testing.assert_allclose(got['effort'], 10.0 * np.cos(angle), atol=2e-4)


def test_publishers_that_never_meet_are_refused(tmp_path):
    messages = []
    for late, joint in enumerate(JOINTS):
        for stamp in range(START + late * 10**9, START + late * 10**9 + 10**8, 10**6):
            messages.append((stamp, serialised(stamp, [joint], [1.0], [1.0], [1.0])))
    assert 'have no time in common' in refused(write(tmp_path / 'bag', messages))[1]


@pytest.mark.parametrize(
    'size', [7, *(pytest.param(s, marks=pytest.mark.soak) for s in (1, 5000))]
)
@pytest.mark.parametrize('effort', [(), (0.0, 0.0, 0.0)], ids=['no effort', 'zeros'])
@pytest.mark.parametrize('late', [0, 300_000], ids=['same stamps', 'own stamps'])
@pytest.mark.parametrize('first', [False, True])
def test_zeros_of_a_second_publisher_are_passed_over(tmp_path, size, effort, late, first):
    messages = []
    for stamp, message in ordinary():
        zeros = serialised(stamp + late, JOINTS[::-1], [0.0] * 3, effort and [0.0] * 3, effort)
        pair = [(stamp, message), (stamp + late, zeros)]
        messages += pair[::-1] if first and not late else pair
    bag = write(tmp_path / 'bag', messages)
    with pytest.warns(IdentificationWarning, match=r'(second publisher|no effort)'):
        matches(load(bag, size=size))


@pytest.mark.parametrize('size', [1, 5000])
def test_positions_without_effort_do_not_stand_in_for_those_of_the_driver(tmp_path, size):
    """joint_state_publisher repeats positions that it got earlier."""
    messages = []
    for stamp, message in ordinary():
        messages += [(stamp, message), (stamp, serialised(stamp, JOINTS, [1.0, 2.0, 3.0]))]
    with pytest.warns(IdentificationWarning, match='500 messages .* second publisher'):
        matches(load(write(tmp_path / 'bag', messages), size=size))


def test_efforts_from_another_publisher_than_positions_are_joined(tmp_path):
    stamps, q, v, c = motion()
    messages = []
    for i, stamp in enumerate(stamps.tolist()):
        messages += [
            (stamp, serialised(stamp, JOINTS, q[i], v[i])),
            (stamp, serialised(stamp, JOINTS, effort=c[i])),
        ]
    matches(load(write(tmp_path / 'bag', messages)))


def test_a_robot_at_its_zero_is_no_second_publisher(tmp_path):
    """It rests there before and after the motion."""
    stamps, q, v, c = motion()
    still = np.zeros(500, dtype=bool)
    still[:100] = still[400:] = True
    q[still], v[still], c[still] = 0.0, 0.0, 0.0
    messages = [
        (stamp, serialised(stamp, JOINTS, q[i], v[i], c[i]))
        for i, stamp in enumerate(stamps.tolist())
    ]
    with warnings.catch_warnings():
        warnings.simplefilter('error', IdentificationWarning)
        got = load(write(tmp_path / 'bag', messages))
    np.testing.assert_array_equal(got['position'], q)


def test_two_publishers_of_the_same_joints_are_named(tmp_path):
    """A robot and its simulated twin, at the same stamps or at their own."""
    for late, text in ((0, 'same stamp, which counts'), (500_000, 'alternate between two states')):
        messages = []
        for stamp in range(START, START + 10**9, 2_000_000):
            angle = 1e-9 * (stamp - START)
            for apart, name in ((0.0, JOINTS), (0.3, JOINTS[::-1])):
                state = np.full(3, apart + np.sin(angle)), [1.0] * 3, np.full(3, 5.0 + apart)
                own = stamp + (late if apart else 0)
                messages.append((own, serialised(own, name, *state)))
        with pytest.warns(IdentificationWarning, match=text):
            load(write(tmp_path / str(late), messages))


@pytest.mark.parametrize('every', [1, 2, 3, 8])
def test_a_second_publisher_that_sends_less_often_is_named(tmp_path, every):
    """It has the joints where they are not, between some of the robot's messages."""
    messages = []
    for i, stamp in enumerate(range(START, START + 10**9, 2_000_000)):
        state = np.full(3, np.sin(3e-9 * (stamp - START))), [1.0] * 3, np.full(3, 5.0)
        messages.append((stamp, serialised(stamp, JOINTS, *state)))
        if i % every == 0:
            own = stamp + 700_000
            state = np.full(3, 0.3), [0.0] * 3, np.zeros(3)
            messages.append((own, serialised(own, JOINTS, *state)))
    with pytest.warns(IdentificationWarning, match='alternate between two states'):
        load(write(tmp_path / 'bag', messages))


@pytest.mark.parametrize('period', [7.3, 10.0, 40.0])
def test_a_quick_motion_back_and_forth_is_no_second_publisher(tmp_path, period):
    """With rests between, and noise of the encoders."""
    random, messages = np.random.default_rng(1), []
    for i, stamp in enumerate(range(START, START + 10**10, 20_000_000)):
        swing = 0.2 * np.sin(2.0 * np.pi * i / period) * (i % 200 > 100)
        state = swing + 1e-5 * random.standard_normal(3), [1.0] * 3, np.full(3, 5.0 + swing)
        messages.append((stamp, serialised(stamp, JOINTS, *state)))
    with warnings.catch_warnings():
        warnings.simplefilter('error', IdentificationWarning)
        load(write(tmp_path / 'bag', messages))


def mcap(path, messages, senders):
    """Write messages by the (channel, sequence number) of their sender; channels have nodes."""
    with open(path, 'wb') as stream:
        writer = McapWriter(stream)
        writer.start('ros2')
        schema = writer.register_schema(KIND, 'ros2msg', b'')
        nodes = {'/driver': 0, '/twin': 0, '': 0}
        for node in nodes:
            about = {'callerid': node} if node else {}
            nodes[node] = writer.register_channel('/joint_states', 'cdr', schema, about)
        for (stamp, data), (node, sequence) in zip(messages, senders, strict=True):
            writer.add_message(nodes[node], stamp, data, stamp, sequence)
        writer.finish()
    return path


def twins(names=(JOINTS, JOINTS)):
    """Two publishers in turn, of nearly the same positions."""
    messages = []
    for stamp in range(START, START + 10**9, 2_000_000):
        angle = 1e-9 * (stamp - START)
        for late, name in enumerate(names):
            own = stamp + 500_000 * late
            state = np.full(3, np.sin(angle)), [1.0] * 3, np.full(3, 5.0)
            messages.append((own, serialised(own, name, *state)))
    return messages


NUMBERS = [i for pair in range(500) for i in (pair + 40, pair)]


@pytest.mark.parametrize(
    ('senders', 'text'),
    [
        ([('', number) for number in NUMBERS], 'by their sequence numbers'),
        ([('', number // 2) for number in range(1000)], 'by their sequence numbers'),
        ([(('/driver', '/twin')[i % 2], i // 2) for i in range(1000)], 'nodes /driver, /twin'),
        ([(('', '/twin')[i % 2], 0) for i in range(1000)], 'two publishers .* the nodes /twin'),
    ],
)
def test_publishers_of_the_same_joints_are_named_by_what_the_file_has_of_them(
    tmp_path, senders, text
):
    with pytest.warns(IdentificationWarning, match=text):
        load(mcap(tmp_path / 'run.mcap', twins(), senders))


@pytest.mark.parametrize(
    ('names', 'senders'),
    [
        ((JOINTS, JOINTS), [('', number) for number in range(1000)]),
        # some are lost, some late, and the recorder may number nothing
        ((JOINTS, JOINTS), [('', number + 3 * (number > 200)) for number in range(1000)]),
        ((JOINTS, JOINTS), [('', number + 2 * (number % 50 == 0)) for number in range(1000)]),
        ((JOINTS, JOINTS), [('', 0)] * 1000),
        # another device
        ((JOINTS, ('finger_1', 'finger_2', 'finger_3')), [('', number) for number in NUMBERS]),
        ((JOINTS, ('lamp', 'b', 'c')), [(('/driver', '/twin')[i % 2], i) for i in range(1000)]),
    ],
)
def test_one_publisher_of_our_joints_is_one(tmp_path, names, senders):
    with warnings.catch_warnings():
        warnings.simplefilter('error', IdentificationWarning)
        got = load(mcap(tmp_path / 'run.mcap', twins(names), senders))
    assert len(got['time']) == (1000 if names[0] == names[1] else 500)


def test_a_renamed_file_is_read_in_place_of_the_one_in_the_metadata(tmp_path):
    bag = write(tmp_path / 'bag', ordinary())
    [file] = bag.glob('*.mcap')
    file.rename(bag / 'renamed.mcap')
    with pytest.warns(IdentificationWarning, match=f'names {file.name}, and renamed.mcap is read'):
        matches(load(bag))
    (bag / 'other.mcap').write_bytes((bag / 'renamed.mcap').read_bytes())
    error, shown = refused(bag)
    assert all(name in shown for name in (file.name, 'renamed.mcap', 'other.mcap'))
    for path in bag.glob('*.mcap'):
        path.unlink()
    assert f'names {file.name}, which is not there' in refused(bag)[1]


def test_stamps_that_were_never_set_are_refused(tmp_path):
    messages = [(START + i, serialised(0, JOINTS, *np.eye(3))) for i in range(20)]
    assert 'same stamp 0 s' in refused(write(tmp_path / 'bag', messages))[1]


def test_a_clock_that_is_set_back_is_refused(tmp_path):
    messages = ordinary(200)
    late = [(START + 10**9 + i, message) for i, (_, message) in enumerate(messages)]
    assert 'goes back in time' in refused(write(tmp_path / 'bag', [*messages, *late]))[1]


@pytest.mark.parametrize('plugin', PLUGINS)
@pytest.mark.parametrize('count', [1000, 20000])
@pytest.mark.parametrize('apart', [600_000_000, 1_000_500_000])
def test_a_simulated_clock_that_is_set_back_while_it_is_recorded_is_refused(
    tmp_path, plugin, count, apart
):
    """
    Log times are those of the clock, as by `ros2 bag record --use-sim-time`.

    Sorted by them, the motions before and after would be one, sample by sample.
    """
    message = serialised(0, JOINTS, *np.zeros((3, 3)))
    times = START + 1_000_000 * np.arange(2 * count)
    times[count:] -= apart

    def stamped(time):
        return message[:4] + struct.pack('<iI', *divmod(time, 10**9)) + message[12:]

    bag = write(tmp_path / 'bag', [(t, stamped(t)) for t in times.tolist()], plugin)
    error, words = refused(bag)
    assert f'received {1e-9 * apart - 1e-3:.6g} s before' in words
    assert 'the clock was set back' in words and 'use_sim_time' in error.remedy


def test_an_empty_topic_is_refused(tmp_path):
    assert 'no messages' in refused(write(tmp_path / 'bag', []))[1]


def test_the_number_of_names_has_to_fit(tmp_path):
    bag = write(tmp_path / 'bag', ordinary(10))
    refused(bag, SettingsError, position=['elbow'])


def test_what_is_no_joint_state_is_refused(tmp_path):
    bag = write(tmp_path / 'bag', [(START, b'\x00\x01\x00\x00' + bytes(8) + b'\xff' * 40)])
    assert 'not a joint state' in refused(bag)[1]


def test_the_mark_of_a_recording_that_was_ended_early_is_told(tmp_path):
    bag = killed_recorder(tmp_path / 'marked', mark='joint elbow left its path').parent
    with pytest.warns(IdentificationWarning, match='marked when .* joint elbow left its path'):
        load(bag)
    with pytest.warns(IdentificationWarning, match='joint elbow left its path'):
        load(bag / 'marked_0.mcap')
