# SPDX-License-Identifier: Apache-2.0
"""Joints that mimic others, as the fingers of grippers do."""

import warnings

import pytest
from robot_identification.errors import IdentificationWarning
from robot_identification.model.robot import Robot

LINK = """
<link name="{0}"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
"""
FINGER = """
<joint name="{0}" type="prismatic"><parent link="arm"/><child link="{0}_link"/>
<axis xyz="0 1 0"/><limit lower="0" upper="0.1" velocity="1" effort="9"/>{1}</joint>
"""
GRIPPER = (
    '<robot name="gripper"><link name="base"/>'
    + ''.join(LINK.format(name) for name in ('arm', 'left_link', 'right_link'))
    + '<joint name="turn" type="continuous"><parent link="base"/><child link="arm"/></joint>'
    + FINGER.format('right', '<mimic joint="left" multiplier="-2" offset="0.1"/>')
    + FINGER.format('left', '')
    + '</robot>'
)


def test_mimicking_joint_is_held_where_the_locked_one_puts_it():
    with warnings.catch_warnings():
        warnings.simplefilter('error', IdentificationWarning)
        warnings.filterwarnings('ignore', 'a placeholder in <inertial>')
        robot = Robot.from_urdf(GRIPPER, ['turn'], locked={'left': 0.04})
    assert robot.locked == {'left': 0.04, 'right': pytest.approx(0.1 - 2 * 0.04)}
    # the same as by hand
    same = Robot.from_urdf(GRIPPER, ['turn'], locked={'left': 0.04, 'right': 0.02})
    assert robot.prior.values == pytest.approx(same.prior.values, rel=1e-12)


def test_a_place_that_is_given_counts():
    robot = Robot.from_urdf(GRIPPER, ['turn'], locked={'left': 0.04, 'right': 0.0})
    assert robot.locked['right'] == 0.0


def test_identified_mimicking_joint_is_told():
    with pytest.warns(IdentificationWarning, match='mimic others: right; leave them out'):
        assert Robot.from_urdf(GRIPPER, ['turn', 'right', 'left']).n_joints == 3
