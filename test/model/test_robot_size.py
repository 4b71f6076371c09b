# SPDX-License-Identifier: Apache-2.0
"""Numbers of a URDF, and loads, in another unit than the rest are found by the robot's size."""

from pathlib import Path
import re

import numpy as np
import pytest
from robot_identification.errors import ExcitationError
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot
from robot_identification.model.robot_size import RobotSize, size_findings

URDF = (Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf').read_text()


def scaled(pattern, factor, text=URDF):
    """Multiply the numbers of the attribute in a pattern's second group."""

    def larger(found):
        numbers = ' '.join(repr(float(factor * float(number))) for number in found[2].split())
        return f'{found[1]}"{numbers}"'

    changed = re.sub(pattern + '"([^"]*)"', larger, text, flags=re.DOTALL)
    assert changed != text
    return changed


CENTRES = r'(<inertial>\s*<origin[^>]*?xyz=)'
ORIGINS = r'(<joint[^>]*>(?:(?!</joint>).)*?<origin[^>]*?xyz=)'
MOMENTS = r'(i[xyz]{2}=)'
LIMITS = r'((?:lower|upper)=)'


def messages(text):
    return [finding.message for finding in size_findings(Robot.from_urdf(text))]


def test_a_sound_urdf_has_none():
    assert not messages(URDF)


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        (scaled(CENTRES, 1000.0), 'centre of mass .* m from its joint.* in mm'),
        (scaled(ORIGINS, 1000.0), 'links have .* kg together .* origins seem to be in mm'),
        (scaled(CENTRES, 1000.0, scaled(ORIGINS, 1000.0)), 'origins seem to be in mm'),
        (scaled(MOMENTS, 1e9), 'radius of gyration .*against the robot.s reach'),
        (scaled(MOMENTS, 1e6), 'radius of gyration .*against the robot.s reach'),
        (scaled(LIMITS, np.degrees(1.0)), 'limits of .*joint_1.* seem to be in degrees'),
        (scaled(LIMITS, -1.0), "limits of joint 'joint_1' leave no room: lower is"),
    ],
    ids=['centres', 'origins', 'both', 'g mm^2', 'kg mm^2', 'degrees', 'mirrored'],
)
def test_another_unit_is_named(text, said):
    found = messages(text)
    assert found and re.search(said, found[0])


def test_no_plan_is_made_within_limits_in_degrees():
    robot = Robot.from_urdf(scaled(LIMITS, np.degrees(1.0)))
    with pytest.raises(ExcitationError, match="'joint_1', .* rad, seem to be in degrees: write"):
        motion_limits(robot, PlannerSettings())
    ends = [1.0] * robot.n_joints
    given = PlannerSettings(lower_limits=tuple(-e for e in ends), upper_limits=tuple(ends))
    assert motion_limits(robot, given).upper.max() < 1.0


def test_a_slide_in_mm_is_named():
    text = URDF.replace('name="joint_6" type="revolute"', 'name="joint_6" type="prismatic"')
    assert text != URDF
    pattern = r'(name="joint_6".*?)lower="[^"]*" upper="[^"]*"'
    text = re.sub(pattern, r'\1lower="0" upper="300"', text, count=1, flags=re.DOTALL)
    assert messages(text) == [
        'position limits of joint_6 seem to be in mm: those of joint_6 are 0 to 300 m'
    ]


def test_loads_are_judged_by_the_size_of_the_robot():
    size = RobotSize.from_robot(Robot.from_urdf(URDF))
    assert not [*size.faults_of_load(size.mass, np.array([0.0, 0.0, size.length]))]
    far = np.array([0.0, 25.0 * size.length, 0.0])
    heavy, distant = size.faults_of_load(109.0 * size.mass, far)
    assert '109 times as heavy as all links' in heavy and '25 times as far' in distant
    assert not [*RobotSize(0.0, 0.0).faults_of_load(1e9, far)]
