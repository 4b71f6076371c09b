# SPDX-License-Identifier: Apache-2.0
"""Stiction and Stribeck friction: columns, slopes, prior, and settings that cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.model.consistency import check
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ModelSettings,
    predict,
    prior,
)
from robot_identification.regressor.friction import slopes_of, USUAL_SLOPES
from robot_identification.results.urdf_export import identified_urdf

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'
STATIC = ('viscous', 'stiction', 'stribeck', 'offset')


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(FOLDER / 'szabo_3r.urdf')


def only_friction(regressor, values):
    vector = np.zeros(len(regressor.layout))
    for name, value in values.items():
        vector[regressor.layout.index(name)] = value
    return ParameterSet(regressor.layout, vector)


def test_columns_are_those_of_the_paper(arm):
    # equation (9), written out for each joint with slopes of its own
    settings = ModelSettings(
        friction=STATIC,
        rotor_inertia=False,
        stiction_slope=(100.0, 50.0, 200.0),
        stribeck_slope=(5.0, 4.0, 3.0),
    )
    regressor = build(arm, settings)
    ts, tsc, tv = (2.0, 1.0, 2.0), (-0.3, -0.2, -0.3), (0.5, 0.277, 0.03)
    values = {}
    for j, joint in enumerate(arm.joints):
        values |= {f'{joint}.ts': ts[j], f'{joint}.tsc': tsc[j], f'{joint}.fv': tv[j]}
        assert regressor.layout.units[regressor.layout.index(f'{joint}.tsc')] == 'N m'
    motion = Motion(*np.random.default_rng(0).uniform(-1.0, 1.0, (3, 50, 3)))
    effort = predict(regressor, motion, only_friction(regressor, values))
    for j, (kv, delta) in enumerate(((100.0, 5.0), (50.0, 4.0), (200.0, 3.0))):
        v = motion.velocity[:, j]
        expected = (
            ts[j] * 2.0 / np.pi * np.arctan(kv * v)
            + tsc[j] * 2.0 / np.pi * np.arctan(delta * v)
            + tv[j] * v
        )
        np.testing.assert_allclose(effort[:, j], expected, rtol=1e-13, atol=1e-14)


def test_stiction_takes_what_the_urdf_says_of_dry_friction(arm):
    values = prior(arm, ModelSettings(friction=STATIC))
    assert [values[f'{joint}.ts'] for joint in arm.joints] == [1.7, 0.8, 1.7]
    assert [values[f'{joint}.tsc'] for joint in arm.joints] == [0.0, 0.0, 0.0]


def test_the_urdf_gets_the_friction_that_stiction_falls_to(arm):
    layout = prior(arm, ModelSettings(friction=STATIC)).layout
    values = prior(arm, ModelSettings(friction=STATIC)).updated(
        {'joint_2.ts': 1.0, 'joint_2.tsc': -0.25}
    )
    model = ModelSettings(friction=STATIC, stiction_slope=(90.0, 80.5, 70.0))
    text = identified_urdf(arm, values, model)
    again = prior(Robot.from_urdf(text), ModelSettings())
    assert again['joint_2.fc'] == 0.75
    assert 'joint_2.tsc = -0.25' in text
    assert 'stiction_slope of joint_2 = 80.5' in text
    assert layout == values.layout


def test_friction_that_drives_at_speed_is_found_out(arm):
    values = prior(arm, ModelSettings(friction=STATIC))
    fine = values.updated({'joint_1.tsc': -1.6, 'joint_2.ts': 0.0})
    assert not check(fine).joints
    (problem,) = check(values.updated({'joint_1.tsc': -1.8})).joints
    assert problem.parameter == 'joint_1.tsc'
    assert problem.value == pytest.approx(-0.1)
    assert 'ts + tsc' in problem.message
    (problem,) = check(values.updated({'joint_3.ts': -0.1, 'joint_3.tsc': 0.3})).joints
    assert problem.parameter == 'joint_3.ts'


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({'friction': ['coulomb', 'stiction']}, 'leave coulomb out'),
        ({'friction': ['stiction'], 'stiction_slope': 0.0}, 'positive'),
        ({'friction': ['stiction'], 'stiction_slope': [100.0, -1.0]}, 'positive'),
        ({'friction': ['stiction'], 'stiction_slope': []}, 'positive'),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(SettingsError, match=words):
        from_mapping(ModelSettings, settings)


def test_slopes_have_to_fit_the_robot(arm):
    with pytest.raises(SettingsError, match='has 2 values, but the robot has 3') as caught:
        build(arm, ModelSettings(friction=STATIC, stiction_slope=(1.0, 2.0)))
    assert caught.value.key == 'stiction_slope'
    wrong = ModelSettings(
        friction=STATIC, stiction_slope=(9.0, 9.0, 9.0), stribeck_slope=(1.0, 9.0, 1.0)
    )
    with pytest.raises(SettingsError, match='more steeply') as caught:
        build(arm, wrong)
    assert (caught.value.joint, caught.value.key) == ('joint_2', 'stribeck_slope')


def test_a_slope_that_is_not_given_keeps_clear_of_the_one_that_is():
    joints = ('a', 'b')
    slopes = slopes_of(ModelSettings(friction=STATIC), joints)
    assert {term: values.tolist() for term, values in slopes.items()} == {
        term: [value] * 2 for term, value in USUAL_SLOPES.items()
    }
    steep = slopes_of(ModelSettings(friction=STATIC, stribeck_slope=(90.0, 110.0)), joints)
    assert (steep['stiction'] == 2200.0).all()
    slow = slopes_of(ModelSettings(friction=STATIC, stiction_slope=5.0), joints)
    assert (slow['stribeck'] == 0.25).all()


def test_a_coupled_motor_keeps_coulomb_friction(arm):
    drive = CoupledDrive(motor='joint_3', joints=('joint_2', 'joint_3'))
    settings = ModelSettings(friction=STATIC, coupled_drives=(drive,))
    assert 'joint_3.fcm' in build(arm, settings).layout
