# SPDX-License-Identifier: Apache-2.0
"""The way to a trajectory's start: when there is one, how fast, and when there must be none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.points import point_to_point
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot
from robot_identification.nodes.excitation.motion_checks import approach_to
from robot_identification.nodes.excitation.motion_types import Code, MotionError
from robot_identification.nodes.excitation.options import ExecutionOptions

URDF = Path(__file__).resolve().parents[3] / 'urdf' / 'zollo_planar_2r.urdf'
OPTIONS = ExecutionOptions()
START = np.array([0.5, -0.4])


@pytest.fixture(scope='module')
def limits():
    return motion_limits(Robot.from_urdf(URDF), PlannerSettings(), margin=0.0)


@pytest.fixture(scope='module')
def trajectory(limits):
    return point_to_point(limits.joints, START, np.zeros(2), np.ones(2), np.ones(2))


def test_a_robot_that_is_there_has_no_way_to_go(limits, trajectory):
    near = START + [0.99 * OPTIONS.start_tolerance, 0.0]
    assert approach_to(near, trajectory, limits, OPTIONS) is None
    far = START - [0.0, 1.01 * OPTIONS.start_tolerance]
    assert approach_to(far, trajectory, limits, OPTIONS) is not None
    with pytest.raises(MotionError, match=r"'joint_2' is 0\.0202 away.*move_to_start") as caught:
        approach_to(far, trajectory, limits, replace(OPTIONS, move_to_start=False))
    assert caught.value.code == Code.NOT_AT_START


@pytest.mark.parametrize('tight', ['velocity', 'acceleration', 'jerk'])
def test_the_way_keeps_the_share_of_all_limits_and_comes_to_rest_at_the_start(
    limits, trajectory, tight
):
    limits = replace(limits, **{tight: np.array([0.9, 0.5])})
    way = approach_to(np.array([-1.0, 0.8]), trajectory, limits, OPTIONS)
    motion = way.sample(np.linspace(0.0, way.duration, 4001))
    np.testing.assert_allclose(motion.position[-1], START, atol=1e-12)
    np.testing.assert_allclose(motion.velocity[[0, -1]], 0.0, atol=1e-12)
    share = OPTIONS.move_speed
    jerk = np.diff(motion.acceleration, axis=0) / (way.duration / 4000)
    uses = {
        name: (np.abs(values) / (share * getattr(limits, name))).max()
        for name, values in (
            ('velocity', motion.velocity),
            ('acceleration', motion.acceleration),
            ('jerk', jerk),
        )
    }
    # ... and takes no longer than that
    assert max(uses.values()) == uses[tight] == pytest.approx(1.0, abs=2e-3)


def test_a_way_without_end_is_none(limits, trajectory):
    with pytest.raises(MotionError, match="'joint_1' is 1e") as caught:
        approach_to(START + [1e6, 0.0], trajectory, limits, OPTIONS)
    assert caught.value.code == Code.NOT_AT_START
