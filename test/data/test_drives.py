# SPDX-License-Identifier: Apache-2.0
"""From the drives' side to the joints."""

import numpy as np
import pytest
from robot_identification.data.drives import Drives
from robot_identification.errors import SettingsError
from robot_identification.options.fields import from_mapping

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
