# SPDX-License-Identifier: Apache-2.0
"""From the drives' side to the joints."""

import numpy as np
import pytest
from robot_identification.data.drives import Drives
from robot_identification.data.recording import Recording
from robot_identification.errors import SettingsError
from robot_identification.options.fields import from_mapping

# two joints, the second motor turns with both
GEAR = np.array([[50.0, 0.0], [40.0, 40.0]])  # motor angle = GEAR @ q
POSITION = np.linalg.inv(GEAR).tolist()
EFFORT = GEAR.T.tolist()


def at_the_motors(n_rows=50):
    rng = np.random.default_rng(0)
    q, v, c = rng.normal(size=(3, n_rows, 2))
    time = np.arange(n_rows) / 100.0
    return q, v, c, Recording(time, q @ GEAR.T, c, ('m1', 'm2'), v @ GEAR.T, source='run.csv')


def test_positions_velocities_and_efforts_are_turned_to_the_joints():
    q, v, c, recording = at_the_motors()
    drives = from_mapping(
        Drives,
        {'position': {'matrix': POSITION, 'offset': [0.5, -1]}, 'effort': {'matrix': EFFORT}},
    )
    joints = drives.to_joints(recording, ('j1', 'j2'))
    np.testing.assert_allclose(joints.position, q + [0.5, -1.0], atol=1e-12)
    np.testing.assert_allclose(joints.velocity, v, atol=1e-12)
    np.testing.assert_allclose(joints.effort, c @ GEAR, atol=1e-12)
    assert joints.joints == ('j1', 'j2')
    assert joints.source == 'run.csv'
    # power is the same on both sides
    np.testing.assert_allclose(
        (joints.effort * joints.velocity).sum(axis=1), (c * (v @ GEAR.T)).sum(axis=1), rtol=1e-9
    )


def test_what_is_left_out_stays_as_it_is():
    _, _, _, recording = at_the_motors()
    for drives in (Drives(), from_mapping(Drives, None), from_mapping(Drives, {'effort': None})):
        joints = drives.to_joints(recording)
        np.testing.assert_array_equal(joints.position, recording.position)
        np.testing.assert_array_equal(joints.velocity, recording.velocity)
        np.testing.assert_array_equal(joints.effort, recording.effort)
        assert joints.joints == recording.joints


def test_a_recording_without_velocity_has_none_at_the_joints():
    _, _, _, r = at_the_motors()
    drives = from_mapping(Drives, {'position': {'matrix': POSITION}})
    assert drives.to_joints(Recording(r.time, r.position, r.effort, r.joints)).velocity is None


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


def test_a_matrix_that_does_not_fit_the_recording_names_both():
    _, _, _, recording = at_the_motors()
    drives = from_mapping(Drives, {'effort': {'matrix': [[1, 0, 0], [0, 1, 0]]}})
    with pytest.raises(SettingsError, match=r'takes 3 columns, run\.csv has 2'):
        drives.to_joints(recording)


def test_what_is_no_matrix_is_refused():
    with pytest.raises(SettingsError, match=r'robot\.drives\.effort\.matrix'):
        from_mapping(Drives, {'effort': {'matrix': [1, 2]}}, 'robot.drives')
