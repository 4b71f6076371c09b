# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of problems: alike where the rows are, and clear about what is not."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.base_parameters import drawn_states, structure
from robot_identification.errors import ModelError, SettingsError
from robot_identification.estimation import from_rows, ModelSignature
from robot_identification.estimation.factor import probe
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings

from .conftest import plain_structure

ARM = """
<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><mass value="{mass}"/><origin xyz="0.1 0 0.2"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><mass value="1"/><origin xyz="0 0.1 0.1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <origin xyz="0 0 {height}"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" velocity="2" effort="9"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="{length} 0 0.3" rpy="{turn} 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" velocity="2" effort="9"/></joint>
</robot>
"""


def fingerprint(settings=None, gravity=(0.0, 0.0, -9.81), **geometry):
    """Return the fingerprint of an arm."""
    values = {'mass': 2.0, 'height': 0.4, 'length': 0.5, 'turn': 0.3, **geometry}
    robot = Robot.from_urdf(ARM.format(**values), ('shoulder', 'elbow'), gravity=gravity)
    regressor = build(robot, ModelSettings())
    motion = drawn_states(robot, regressor, np.random.RandomState(1), 4)
    return ModelSignature.of(
        structure(regressor, robot),
        robot.joints,
        regressor=regressor,
        motion=motion,
        settings=settings,
    )


@pytest.fixture(scope='module')
def arm():
    return fingerprint()


@pytest.mark.parametrize(
    'alike', [{}, {'mass': 3.0}, {'height': 5.0}, {'length': 0.5 * (1.0 + 1e-12)}]
)
def test_rows_are_alike_whatever_inertias_the_urdf_has(arm, alike):
    assert arm.difference(fingerprint(**alike)) is None


@pytest.mark.parametrize(
    ('unlike', 'words'),
    [
        ({'length': 0.5001}, 'another combination of standard parameters'),
        ({'turn': 0.301}, 'differ in'),
        ({'gravity': (0.0, 0.0, -9.80)}, "joint 'shoulder' other rows"),
        ({'gravity': (0.0, 0.0, 9.81)}, 'gravity'),
    ],
)
def test_geometry_and_gravity_are_told_apart(arm, unlike, words):
    error = arm.difference(fingerprint(**unlike))
    assert isinstance(error, ModelError)
    assert words in str(error)


def test_joint_or_parameter_is_carried_by_the_error(arm):
    assert arm.difference(fingerprint(gravity=(0.0, 0.0, -9.8))).joint == 'shoulder'
    found = arm.difference(fingerprint(length=0.6)).value
    assert found in arm.base


@pytest.mark.parametrize(
    ('mine', 'others', 'key', 'words'),
    [
        ({'a': {'b': 1.0}}, {'a': {'b': 2.0}}, 'a.b', "'a.b' is 1.0 here and 2.0 there"),
        ({'a': {'b': 1.0}}, {'a': None}, 'a', 'here and None there'),
        ({'a': {}}, {'a': {'c': [1, 2]}}, 'a.c', "'a.c' is missing here and [1, 2] there"),
        ({'b': 1, 'a': {'c': 'x'}}, {'a': {'c': 'y'}, 'b': 1}, 'a.c', "'x' here and 'y' there"),
    ],
)
def test_setting_is_named_by_its_key(arm, mine, others, key, words):
    error = replace(arm, settings=mine).difference(replace(arm, settings=others))
    assert isinstance(error, SettingsError)
    assert error.key == key and words in str(error)


def test_settings_alike_make_no_difference(arm):
    one = replace(arm, settings={'a': 1.0, 'b': {'c': [1.0, 2.0]}})
    assert one.difference(replace(arm, settings={'b': {'c': [1, 2]}, 'a': 1})) is None


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'joints': ('shoulder', 'wrist')}, 'elbow is here only, wrist is there only'),
        ({'joints': ('elbow', 'shoulder')}, 'in another order: shoulder, elbow here'),
        ({'parameters': ('a', 'b')}, 'a, b are there only'),
        ({'base': ('lower.m',)}, 'base parameters are not the same'),
    ],
)
def test_names_are_told(arm, change, words):
    error = arm.difference(replace(arm, **change))
    assert isinstance(error, ModelError)
    assert words in str(error)


def test_unknown_geometry_is_not_taken_for_the_same(arm):
    error = arm.difference(replace(arm, rows=np.empty((2, 0))))
    assert isinstance(error, ModelError)
    nothing = replace(arm, rows=np.empty((2, 0)))
    assert nothing.difference(replace(nothing)) is None


def test_damaged_numbers_are_different(arm):
    assert arm.difference(replace(arm, regrouping=arm.regrouping * np.nan)) is not None


def test_one_row_for_all_joints_has_one_fingerprint(arm):
    robot = Robot.from_urdf(ARM.format(mass=1, height=0, length=0.5, turn=0.3))
    regressor = build(robot, ModelSettings())
    motion = drawn_states(robot, regressor, np.random.RandomState(1), 4)
    base = structure(regressor, robot)
    one = ModelSignature.of(base, ('energy',), regressor=regressor, motion=motion)
    assert one.rows.shape == (1, 4)
    assert np.allclose(one.rows[0], arm.rows.sum(axis=0), rtol=1e-12)


def test_merging_tells_what_differs():
    one = ModelSignature.of(plain_structure(2), ('a', 'b'))
    other = replace(one, settings={'signals': {'cutoff': 5.0}})
    factor = from_rows(plain_structure(2), ('a', 'b'), np.ones((4, 2, 2)), np.ones((4, 2))).factor
    with pytest.raises(SettingsError, match="'signals' is missing here"):
        replace(factor, fingerprint=one).merge(replace(factor, fingerprint=other))


def test_probe_tells_every_column_apart():
    values = probe(1000)
    assert len(np.unique(values)) == 1000
    assert values.min() > 0.5 and values.max() < 1.5
    assert np.array_equal(values[:10], probe(10))
