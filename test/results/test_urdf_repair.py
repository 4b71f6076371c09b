# SPDX-License-Identifier: Apache-2.0
"""Repaired URDFs: physical for two readers, and as they were elsewhere."""

import warnings

import mujoco
import numpy as np
import pytest
from robot_identification.errors import IdentificationWarning, ModelError
from robot_identification.model.consistency import check
from robot_identification.model.robot import Robot
from robot_identification.results.urdf_export import repaired_urdf, robot_with_inertia

SOUND = '<mass value="1.5"/><inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/>'
THIN = '<mass value="2"/><inertia ixx="0.01" iyy="0.02" izz="0.2" ixy="0" ixz="0" iyz="0"/>'
BOX = (
    '<collision><origin xyz="0.1 0 0"/><geometry><box size="0.2 0.1 0.06"/></geometry></collision>'
)


def arm(first, second, third, tool=''):
    """Return three links in a row and what is fixed to the first."""
    joint = (
        '<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/>'
        '<origin xyz="0.3 0 0"/><axis xyz="0 {} 1"/><limit effort="9" velocity="9"/></joint>'
    )
    bodies = ''.join(
        f'<link name="{name}"><!-- {name} -->{inside}</link>'
        for name, inside in (('a', first), ('b', second), ('c', third), ('tool', tool))
    )
    return (
        f'<robot name="three"><link name="base"/>{bodies}'
        + joint.format('j1', 'continuous', 'base', 'a', 0)
        + joint.format('j2', 'continuous', 'a', 'b', 1)
        + joint.format('j3', 'continuous', 'b', 'c', 1)
        + joint.format('jt', 'fixed', 'a', 'tool', 0)
        + '</robot>'
    )


def inertial(inside):
    return f'<inertial>{inside}</inertial>'


def test_impossible_and_missing_bodies_are_repaired_and_others_kept():
    text = arm(inertial(THIN), '', BOX, inertial(SOUND))
    robot = Robot.from_urdf(text, massless=True)
    assert not check(robot.prior).physical
    repaired, remarks = repaired_urdf(robot)
    after = Robot.from_urdf(repaired)
    assert check(after.prior).physical
    assert [remark.split("'")[1] for remark in remarks] == ['a', 'b', 'c']
    assert 'nearest' in remarks[0] and 'neighbours' in remarks[1] and 'shapes' in remarks[2]
    assert after.prior['a.m'] == pytest.approx(3.5)
    assert after.prior['c.m'] == pytest.approx(1200.0 * 0.2 * 0.1 * 0.06)
    assert inertial(SOUND) in repaired and '<!-- b -->' in repaired
    assert mujoco.MjModel.from_xml_string(repaired).nv == 3
    assert repaired_urdf(after)[1] == ()


def test_a_sound_urdf_stays_as_it_is_to_the_letter():
    text = arm(*[inertial(SOUND)] * 4)
    assert repaired_urdf(Robot.from_urdf(text)) == (text, ())


def test_a_rotated_inertia_is_judged_in_its_own_frame():
    turned = f'<origin xyz="0.5 0 0" rpy="0.4 0.5 0.6"/>{SOUND}'
    text = arm(*[inertial(turned)] * 4)
    assert repaired_urdf(Robot.from_urdf(text)) == (text, ())
    wrong = text.replace('izz="0.02"', 'izz="0.04"')
    repaired, remarks = repaired_urdf(Robot.from_urdf(wrong))
    assert len(remarks) == 4
    before, after = (Robot.from_urdf(each).prior for each in (wrong, repaired))
    for symbol in ('m', 'mx', 'my', 'mz'):
        np.testing.assert_allclose(after[f'c.{symbol}'], before[f'c.{symbol}'], atol=1e-12)


def test_a_robot_whose_last_link_has_no_inertia_can_be_identified(tmp_path):
    text = arm(inertial(SOUND), inertial(SOUND), BOX)
    with pytest.raises(ModelError, match='--repair'):
        Robot.from_urdf(text)
    path = tmp_path / 'arm.urdf'
    path.write_text(text)
    with pytest.warns(IdentificationWarning, match="link 'c' has no inertia: a body that fills"):
        robot = robot_with_inertia(path, ('j3', 'j1', 'j2'))
    assert check(robot.prior).physical and robot.path == robot.opened.path == path
    assert robot.joints == ('j3', 'j1', 'j2')
    assert any('fills its shapes' in note for note in robot.warnings)


def test_robots_with_inertia_are_read_as_ever():
    text = arm(inertial(SOUND), '', inertial(SOUND))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        robot = robot_with_inertia(text)
    assert robot.urdf == text and not robot.prior.inertial('b').any()
    assert [str(warning.message) for warning in caught] == [
        'no <inertial>, so their prior is zero: b'
    ]
