# SPDX-License-Identifier: Apache-2.0
"""Maps from drives to joints; both sides of elastic joints, in one file or topic or in two."""

import warnings

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.drives import Drives, EffortDrive
from robot_identification.data.recording import Recording
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import (
    IdentificationWarning,
    RecordingError,
    SettingsError,
)
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import ElasticJoints
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import get_typestore, Stores

# two joints, the second motor turns with both
GEAR = np.array([[50.0, 0.0], [40.0, 40.0]])  # motor angle = GEAR @ q
POSITION = np.linalg.inv(GEAR).tolist()
EFFORT = GEAR.T.tolist()


def test_positions_velocities_and_efforts_are_mapped_to_the_joints():
    q, v, c = np.random.default_rng(0).normal(size=(3, 50, 2))
    drives = from_mapping(
        Drives,
        {'position': {'matrix': POSITION, 'offset': [0.5, -1]}, 'effort': {'matrix': EFFORT}},
    )
    velocity, effort = drives.joint_velocity(v @ GEAR.T), drives.joint_effort(c)
    np.testing.assert_allclose(drives.joint_position(q @ GEAR.T), q + [0.5, -1.0], atol=1e-12)
    np.testing.assert_allclose(velocity, v, atol=1e-12)
    np.testing.assert_allclose(effort, c @ GEAR, atol=1e-12)
    # power is the same on both sides
    np.testing.assert_allclose(
        (effort * velocity).sum(axis=1), (c * (v @ GEAR.T)).sum(axis=1), rtol=1e-9
    )


def test_what_is_left_out_stays_as_it_is():
    values = np.random.default_rng(0).normal(size=(50, 2))
    for drives in (Drives(), from_mapping(Drives, None), from_mapping(Drives, {'effort': None})):
        for convert in (drives.joint_position, drives.joint_velocity, drives.joint_effort):
            np.testing.assert_array_equal(convert(values), values)


def test_a_recording_without_velocity_has_none_at_the_joints():
    assert from_mapping(Drives, {'position': {'matrix': POSITION}}).joint_velocity(None) is None


@pytest.mark.parametrize(
    ('drives', 'key'),
    [
        ({'position': {'matrix': [[1, 0]]}}, 'position.matrix'),
        ({'position': {'matrix': [[1, 0], [1]]}}, 'position.matrix'),
        ({'position': {'matrix': [[], []]}}, 'position.matrix'),
        ({'position': {'matrix': POSITION, 'offset': [0]}}, 'position.offset'),
        ({'effort': {'matrix': [[1, 0], [0, 1], [0, 0]]}}, 'effort.matrix'),
    ],
)
def test_wrong_shapes_name_the_key(drives, key):
    with pytest.raises(SettingsError) as error:
        from_mapping(Drives, drives, 'robot.drives').check(2)
    assert error.value.key == f'robot.drives.{key}'
    assert key in str(error.value)


def test_what_is_no_matrix_is_refused():
    with pytest.raises(SettingsError, match=r'robot\.drives\.effort\.matrix'):
        from_mapping(Drives, {'effort': {'matrix': [1, 2]}}, 'robot.drives')


JOINTS = ('a', 'b')
COLUMNS = ('a', 'b', 'a_motor', 'b_motor')
ELASTIC = ElasticJoints()
KIND = 'sensor_msgs/msg/JointState'
STORE = get_typestore(Stores.ROS2_JAZZY)
START = 1_763_700_000_123_456_789
PATH = 'data.identification[0]'


def links(time):
    """Positions and velocities of the links, (n, 2) each."""
    phase = np.column_stack([3.0 * time, 2.0 * time + 1.0])
    return np.sin(phase), np.cos(phase) * [3.0, 2.0]


def motors(time):
    """Positions, velocities and efforts of the motors, (n, 2) each."""
    phase = np.column_stack([3.0 * time + 0.1, 2.0 * time + 1.2])
    return np.sin(phase), np.cos(phase) * [3.0, 2.0], 5.0 * np.cos(phase)


def write_csv(path, **columns):
    table = np.column_stack([np.asarray(values) for values in columns.values()])
    np.savetxt(path, table, '%.15g', ',', header=','.join(columns), comments='')


def write_whole(folder, time, name='run.csv'):
    """Both sides in the same rows."""
    (q, v), (theta, spin, u) = links(time), motors(time)
    write_csv(
        folder / name,
        t=time, q1=q[:, 0], q2=q[:, 1], v1=v[:, 0], v2=v[:, 1],
        m1=theta[:, 0], m2=theta[:, 1], w1=spin[:, 0], w2=spin[:, 1], u1=u[:, 0], u2=u[:, 1],
    )  # fmt: skip


ONE_FILE = {
    'file': 'run.csv',
    'time': 't',
    'position': ['q1', 'q2'],
    'velocity': ['v1', 'v2'],
    'effort': ['u1', 'u2'],
    'motor': {'position': ['m1', 'm2'], 'velocity': ['w1', 'w2']},
}
TWO_FILES = {
    'file': 'links.csv',
    'time': 't',
    'position': ['q1', 'q2'],
    'velocity': ['v1', 'v2'],
    'motor': {
        'file': 'motors.csv',
        'time': 'T',
        'position': ['m1', 'm2'],
        'velocity': ['w1', 'w2'],
        'effort': ['u1', 'u2'],
    },
}


def write_two(folder, time, motor_time):
    q, v = links(time)
    theta, spin, u = motors(motor_time)
    write_csv(folder / 'links.csv', t=time, q1=q[:, 0], q2=q[:, 1], v1=v[:, 0], v2=v[:, 1])
    write_csv(
        folder / 'motors.csv',
        T=motor_time, m1=theta[:, 0], m2=theta[:, 1], w1=spin[:, 0], w2=spin[:, 1],
        u1=u[:, 0], u2=u[:, 1],
    )  # fmt: skip


def write_bag(path, streams):
    """Write (topic, time, names, position, velocity, effort) streams."""
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        messages = []
        for topic, time, names, q, v, u in streams:
            connection = writer.add_connection(topic, KIND, typestore=STORE)
            for i, t in enumerate(time):
                stamp = START + round(t * 1e9)
                messages.append((stamp, connection, names, q[i], v[i], u[i]))
        for stamp, connection, names, q, v, u in sorted(messages, key=lambda m: m[0]):
            seconds, rest = divmod(stamp, 10**9)
            time_of = STORE.types['builtin_interfaces/msg/Time'](sec=seconds, nanosec=rest)
            message = STORE.types[KIND](
                header=STORE.types['std_msgs/msg/Header'](stamp=time_of, frame_id=''),
                name=list(names),
                position=np.ascontiguousarray(q),
                velocity=np.ascontiguousarray(v),
                effort=np.ascontiguousarray(u),
            )
            writer.write(connection, stamp, STORE.serialize_cdr(message, KIND))


def opened(folder, entry, drives=None, elastic=ELASTIC):
    made = from_mapping(RecordingEntry, entry, PATH)
    return open_recording(made, JOINTS, drives, folder, PATH, elastic)


def read(source, size=64) -> Recording:
    blocks = list(source.blocks(size))
    assert all(len(block) <= size for block in blocks)
    names = ('time', 'position', 'velocity', 'effort')
    arrays = {
        name: None
        if any(getattr(block, name) is None for block in blocks)
        else np.concatenate([getattr(block, name) for block in blocks])
        for name in names
    }
    return Recording(**arrays, joints=blocks[0].joints)


def matches(recording, tolerance):
    """Check that the motors' side is what it was at the links' stamps."""
    (q, v), (theta, spin, u) = links(recording.time), motors(recording.time)
    assert recording.joints == COLUMNS
    np.testing.assert_allclose(recording.position[:, :2], q, atol=1e-12)
    np.testing.assert_allclose(recording.velocity[:, :2], v, atol=1e-12)
    np.testing.assert_allclose(recording.position[:, 2:], theta, atol=tolerance)
    np.testing.assert_allclose(recording.velocity[:, 2:], spin, atol=3 * tolerance)
    assert not recording.effort[:, :2].any()
    np.testing.assert_allclose(recording.effort[:, 2:], u, atol=5 * tolerance)


TIME = np.arange(500) / 250.0


def test_one_file_has_both_sides_in_its_rows(tmp_path):
    write_whole(tmp_path, TIME)
    source = opened(tmp_path, ONE_FILE)
    assert source.elastic is not None
    recording = read(source)
    assert len(recording) == len(TIME)
    matches(recording, 1e-12)
    assert source.duration == pytest.approx(2.0, rel=0.05)
    again = read(source, 17)
    np.testing.assert_array_equal(again.position, recording.position)


def test_npz_and_cuts(tmp_path):
    (q, v), (theta, spin, u) = links(TIME), motors(TIME)
    # what lies outside of the cut is of no concern
    theta[:10] = np.nan
    np.savez(tmp_path / 'run.npz', t=TIME, q=q, v=v, m=theta, w=spin, u=u)
    entry = {
        'file': 'run.npz', 'time': 't', 'position': 'q', 'velocity': 'v', 'effort': 'u',
        'motor': {'position': 'm', 'velocity': 'w'}, 'rows': [12, 400],
    }  # fmt: skip
    recording = read(opened(tmp_path, entry))
    np.testing.assert_allclose(recording.time, TIME[12:400])
    matches(recording, 1e-12)
    del entry['motor']['velocity']
    assert read(opened(tmp_path, entry)).velocity is None


@pytest.mark.parametrize('size', [7, 64, 10_000])
@pytest.mark.parametrize('rate', [400.0, 97.0, 4000.0])
def test_a_second_file_is_brought_to_the_stamps_of_the_links(tmp_path, rate, size):
    motor_time = np.arange(-0.013, 2.3, 1.0 / rate)
    write_two(tmp_path, TIME, motor_time)
    recording = read(opened(tmp_path, TWO_FILES), size)
    np.testing.assert_allclose(recording.time, TIME)
    # third order in the distance of the samples, which are up to 10 ms apart
    matches(recording, 2e-5 * (97.0 / rate) ** 2)


def test_where_the_motors_are_not_known_rows_are_left_out(tmp_path):
    milliseconds = np.arange(200, 1800)
    write_two(tmp_path, TIME, milliseconds[np.abs(milliseconds - 1000) >= 100] / 1000.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always', IdentificationWarning)
        recording = read(opened(tmp_path, TWO_FILES))
    stamps = 4 * np.arange(len(TIME))
    in_gap = np.abs(stamps - 1000) < 100
    known = (stamps >= 200) & (stamps <= 1799) & ~in_gap
    np.testing.assert_allclose(recording.time, TIME[known])
    matches(recording, 1e-8)
    assert [str(w.message) for w in caught] == [
        f"links.csv: {in_gap.sum()} rows are left out, in gaps of the motors' side"
    ]


def test_a_single_missing_sample_is_no_gap(tmp_path):
    motor_time = np.delete(np.arange(0.0, 2.1, 2e-3), [300, 501, 502])
    write_two(tmp_path, TIME, motor_time)
    recording = read(opened(tmp_path, TWO_FILES))
    np.testing.assert_allclose(recording.time, TIME)
    matches(recording, 1e-6)


@pytest.mark.parametrize('size', [50, 65536])
def test_a_second_topic_has_stamps_of_its_own(tmp_path, size):
    motor_time = np.arange(0.1003, 2.2, 1e-3)
    q, v = links(TIME)
    theta, spin, u = motors(motor_time)
    nothing = np.full_like(q, 77.0)
    streams = [
        ('/joint_states', TIME, JOINTS, q, v, nothing),
        ('/motor_states', motor_time, COLUMNS[2:], theta, spin, u),
    ]
    write_bag(tmp_path / 'bag', streams)
    recording = read(opened(tmp_path, {'file': 'bag', 'motor': {'topic': '/motor_states'}}), size)
    # times count from the first message on the links' topic, the motors begin later
    np.testing.assert_allclose(recording.time, TIME[TIME > 0.1003], atol=1e-9)
    matches(recording, 1e-8)
    # an effort that is named is taken from the recording's own topic
    entry = {'file': 'bag', 'effort': ['a', 'b'], 'motor': {'topic': 'motor_states'}}
    assert (read(opened(tmp_path, entry)).effort[:, 2:] == 77.0).all()


def test_one_topic_may_have_the_motors_among_its_names(tmp_path):
    (q, v), (theta, spin, u) = links(TIME), motors(TIME)
    names = ('b_motor', 'a', 'a_motor', 'b')
    order = [3, 0, 2, 1]
    both = np.hstack([q, theta])[:, order], np.hstack([v, spin])[:, order]
    efforts = np.hstack([np.zeros_like(u), u])[:, order]
    write_bag(tmp_path / 'bag', [('/joint_states', TIME, names, *both, efforts)])
    matches(read(opened(tmp_path, {'file': 'bag'})), 1e-12)
    wrong = ElasticJoints(motors=('left', 'right'))
    with pytest.raises(RecordingError, match="has no joint 'left'"):
        read(opened(tmp_path, {'file': 'bag'}, elastic=wrong))


def test_gears_and_drives_are_reckoned_with(tmp_path):
    write_whole(tmp_path, TIME)
    elastic = ElasticJoints(gear_ratios=(-2.0, 4.0), motor_position='motor')
    drives = Drives(effort=EffortDrive(((10.0, 0.0), (1.0, 20.0))))
    recording = read(opened(tmp_path, ONE_FILE, drives, elastic))
    theta, spin, u = motors(TIME)
    np.testing.assert_allclose(recording.position[:, 2:], theta / [-2.0, 4.0], atol=1e-12)
    np.testing.assert_allclose(recording.velocity[:, 2:], spin / [-2.0, 4.0], atol=1e-12)
    expected = np.column_stack([10.0 * u[:, 0], u[:, 0] + 20.0 * u[:, 1]])
    np.testing.assert_allclose(recording.effort[:, 2:], expected, atol=1e-12)


def without(entry, *keys):
    return {key: value for key, value in entry.items() if key not in keys}


@pytest.mark.parametrize(
    ('entry', 'elastic', 'key'),
    [
        (without(ONE_FILE, 'motor'), ELASTIC, f'{PATH}.motor.position'),
        (ONE_FILE, None, f'{PATH}.motor'),
        (without(ONE_FILE, 'effort'), ELASTIC, f'{PATH}.effort'),
        ({**TWO_FILES, 'effort': ['q1', 'q2']}, ELASTIC, f'{PATH}.motor.effort'),
        ({**ONE_FILE, 'motor': {'position': ['m1']}}, ELASTIC, f'{PATH}.motor.position'),
        (ONE_FILE, ElasticJoints(motors=('m',)), 'robot.elastic.motors'),
        ({**TWO_FILES, 'motor': {'file': 'motors.csv', 'position': ['m1', 'm2'],
                                 'effort': ['u1', 'u2']}}, ELASTIC, f'{PATH}.motor.time'),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_named(tmp_path, entry, elastic, key):
    write_whole(tmp_path, TIME[:5])
    write_two(tmp_path, TIME[:5], TIME[:5])
    with pytest.raises(SettingsError) as caught:
        opened(tmp_path, entry, elastic=elastic)
    assert caught.value.key == key
    assert f"'{key}'" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    write_whole(tmp_path, TIME, 'links.csv')
    with pytest.raises(RecordingError, match=r'motors.csv does not exist'):
        opened(tmp_path, TWO_FILES)


@pytest.mark.parametrize(
    ('motor_time', 'words'),
    [
        (TIME + 100.0, 'no stamp in common'),
        (TIME - 100.0, 'no stamp in common'),
        (TIME[:1], 'fewer than two samples'),
        (TIME[[0, 1, 2, 2, 3, 4]], 'occurs twice'),
    ],
)
def test_sides_that_do_not_go_together(tmp_path, motor_time, words):
    write_two(tmp_path, TIME, motor_time)
    with pytest.raises(RecordingError, match=words) as caught:
        read(opened(tmp_path, TWO_FILES))
    assert caught.value.file is not None


def test_what_is_not_a_number_is_named(tmp_path):
    write_two(tmp_path, TIME, TIME)
    lines = (tmp_path / 'motors.csv').read_text().splitlines()
    cells = lines[100].split(',')
    lines[100] = ','.join([cells[0], 'nan', *cells[2:]])
    (tmp_path / 'motors.csv').write_text('\n'.join(lines))
    with pytest.raises(RecordingError, match="motors.csv: position 'm1' is nan"):
        read(opened(tmp_path, TWO_FILES))


def test_memory_does_not_grow_with_what_lies_between_two_links_rows(tmp_path, monkeypatch):
    """A second side that is much faster is passed through, not collected."""
    from robot_identification.data import alignment as module

    write_two(tmp_path, np.arange(40) * 0.5, np.arange(0.0, 20.0, 1e-3))
    held = []
    join = module._concatenated

    def watch(first, second):
        held.append(len(first) + len(second))
        return join(first, second)

    monkeypatch.setattr(module, '_concatenated', watch)
    recording = read(opened(tmp_path, TWO_FILES), 100)
    assert len(recording) == 40
    matches(recording, 1e-8)
    assert max(held) <= 1200
