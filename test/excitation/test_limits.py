# SPDX-License-Identifier: Apache-2.0
"""Limits in force: what the URDF and the settings say, less the margin."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.errors import ExcitationError
from robot_identification.excitation.limits import motion_limits, start_position
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot

URDF = """
<robot name="r">
  <link name="base"/>
  <link name="l1"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="l2"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="l3"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="turn" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="3" velocity="2" effort="50"/></joint>
  <joint name="slide" type="prismatic"><parent link="l1"/><child link="l2"/><axis xyz="1 0 0"/>
    <limit lower="0" upper="0.4" velocity="0.5" effort="100"/></joint>
  <joint name="spin" type="continuous"><parent link="l2"/><child link="l3"/><axis xyz="0 0 1"/>
    <limit velocity="4" effort="10"/></joint>
</robot>
"""


@pytest.fixture
def robot():
    return Robot.from_urdf(URDF)


def test_the_margin_is_taken_off_each_limit(robot):
    limits = motion_limits(robot, PlannerSettings(margin=0.2, acceleration_time=0.5))
    np.testing.assert_allclose(limits.lower, [-0.6, 0.04, -np.inf])
    np.testing.assert_allclose(limits.upper, [2.6, 0.36, np.inf])
    np.testing.assert_allclose(limits.velocity, [1.6, 0.4, 3.2])
    np.testing.assert_allclose(limits.acceleration, [3.2, 0.8, 6.4])
    # the margin of the prediction comes on top
    np.testing.assert_allclose(limits.effort, [36.0, 72.0, 7.2])
    assert limits.units == ('rad', 'm', 'rad')
    assert limits.unit('effort', 1) == 'N' and limits.unit('velocity', 0) == 'rad/s'
    np.testing.assert_allclose(
        motion_limits(robot, PlannerSettings(margin=0.2), margin=0.0).lower, [-1.0, 0.0, -np.inf]
    )


def test_settings_replace_what_the_urdf_gives(robot):
    settings = PlannerSettings(
        margin=0.0,
        lower_limits=(-0.5, 0.1, -1.0),
        upper_limits=(0.5, 0.3, 1.0),
        velocity_limits=(1.0, 0.1, 1.0),
        acceleration_limits=(5.0, 1.0, 7.0),
        velocity_scale=0.5,
    )
    limits = motion_limits(robot, settings)
    np.testing.assert_allclose(limits.upper, settings.upper_limits)
    np.testing.assert_allclose(limits.velocity, [0.5, 0.05, 0.5])
    np.testing.assert_allclose(limits.acceleration, settings.acceleration_limits)


def test_the_start_is_the_middle_unless_given(robot):
    settings = PlannerSettings()
    limits = motion_limits(robot, settings)
    np.testing.assert_allclose(start_position(robot, settings, limits), [1.0, 0.2, 0.0])
    given = replace(settings, start=(0.0, 0.1, 5.0))
    np.testing.assert_allclose(start_position(robot, given, limits), given.start)


@pytest.mark.parametrize(
    ('change', 'joint', 'key', 'words'),
    [
        ({'lower_limits': (0.0, 0.5, 0.0)}, 'slide', 'position', 'lower is 0.5, upper is 0.4'),
        ({'velocity_limits': (1.0, 0.0, 1.0)}, 'slide', 'velocity_limits', 'is 0'),
        ({'acceleration_limits': (0.0, 1.0, 1.0)}, 'turn', 'acceleration_limits', 'is 0'),
        ({'velocity_limits': (1.0,)}, None, 'velocity_limits', 'has 1 values, the robot 3 joints'),
        ({'start': (0.0, 0.39, 0.0)}, 'slide', 'start', '0.39 m, outside'),
    ],
)
def test_what_leaves_no_room_is_named(robot, change, joint, key, words):
    settings = PlannerSettings(**change)
    with pytest.raises(ExcitationError, match=words) as caught:
        start_position(robot, settings, motion_limits(robot, settings))
    assert (caught.value.joint, caught.value.key) == (joint, key)


def test_jerk_limits_are_given_or_follow_from_the_accelerations():
    robot = Robot.from_urdf(URDF)
    default = motion_limits(robot, PlannerSettings(margin=0.2, jerk_time=0.05))
    np.testing.assert_allclose(default.jerk, default.acceleration / 0.05)
    given = motion_limits(robot, PlannerSettings(margin=0.2, jerk_limits=(100.0, 200.0, 300.0)))
    np.testing.assert_allclose(given.jerk, [80.0, 160.0, 240.0])
    assert np.isinf(motion_limits(robot, PlannerSettings(jerk_time=None)).jerk).all()
    with pytest.raises(ExcitationError, match="jerk limit of joint 'slide' is 0") as caught:
        motion_limits(robot, PlannerSettings(jerk_limits=(1.0, 0.0, 1.0)))
    assert caught.value.key == 'jerk_limits'
    assert (given.unit('jerk', 0), given.unit('jerk', 1)) == ('rad/s^3', 'm/s^3')
    with pytest.raises(ExcitationError, match="'jerk_limits' has 1 values"):
        motion_limits(robot, PlannerSettings(jerk_limits=(1.0,)))


def test_a_missing_velocity_limit_is_asked_for():
    robot = Robot.from_urdf(URDF.replace('velocity="4"', 'velocity="0"'))
    with pytest.raises(ExcitationError, match="velocity limit of joint 'spin' is missing"):
        motion_limits(robot, PlannerSettings())


def test_every_robot_here_has_usable_limits():
    """Nothing is planned for the delta robot, whose joints are bound by its loops."""
    for path in (Path(__file__).resolve().parents[2] / 'urdf').glob('*.urdf'):
        if path.stem == 'delta':
            continue
        robot = Robot.from_urdf(path)
        settings = PlannerSettings()
        start_position(robot, settings, motion_limits(robot, settings))
