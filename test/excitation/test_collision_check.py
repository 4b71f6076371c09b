# SPDX-License-Identifier: Apache-2.0
"""Looks along a path: dense enough however uneven the motion, and the nearest over all of them."""

from pathlib import Path

import numpy as np
import pytest
from robot_identification.excitation import collision_check
from robot_identification.excitation.collision_check import (
    check_collisions,
    CollisionError,
    FINEST,
    sweep,
)
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.obstacles import Obstacle, with_floor
from robot_identification.excitation.points import point_to_point, PointTrajectory
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'


def test_a_burst_within_one_step_of_the_grid_is_looked_at_densely():
    # 1 rad in 30 ms, from rest to rest
    time = np.array([0.0, 1.0, 1.03, 2.0])
    position = np.array([[0.0], [0.0], [1.0], [1.0]])
    burst = PointTrajectory(('a',), time, position, np.zeros((4, 1)), np.zeros((4, 1)))
    times = sweep(burst, np.array([0.8]), 0.01)
    moved = 0.8 * np.abs(np.diff(burst.sample(times).position[:, 0]))
    assert moved.max() <= 0.01 * (1.0 + 1e-6)
    assert 80 <= times.size < 300


def test_the_nearest_is_found_wherever_on_the_path_it_is(monkeypatch):
    arm = Robot.from_urdf(URDF)
    limits = motion_limits(arm, PlannerSettings(), margin=0.0)
    model = collision_model(arm, 0.01, with_floor((), -0.5))
    down, up = np.array([0.0, 0.9, -0.7, 0.5, 0.4, 1.0]), np.zeros(6)
    share = (0.3 * limits.velocity, 0.3 * limits.acceleration)
    for start, goal in ((down, up), (up, down)):
        way = point_to_point(arm.joints, start, goal, *share)
        at_once = check_collisions(way, model)
        with monkeypatch.context() as patch:
            patch.setattr(collision_check, '_BLOCK', 16)
            by_parts = check_collisions(way, model)
        assert {nearest.obstacle for nearest in at_once} == {False, True}
        for one, other in zip(at_once, by_parts, strict=True):
            assert (one.first, one.second) == (other.first, other.second)
            assert one.distance == pytest.approx(other.distance, abs=1e-6)
            assert one.time == pytest.approx(other.time, abs=0.05)


POINTER = """
<robot name="pointer">
  <link name="base"/>
  <link name="tip">
    <inertial>
      <mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <collision>
      <origin xyz="1 0 0"/>
      <geometry><sphere radius="0.001"/></geometry>
    </collision>
  </link>
  <joint name="turn" type="revolute">
    <parent link="base"/>
    <child link="tip"/>
    <axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="1" effort="10"/>
  </joint>
</robot>"""


@pytest.mark.parametrize('phase', np.linspace(0.0, 1.0, 10, endpoint=False))
def test_the_clearance_is_kept_between_the_looks(phase):
    clearance, small = 0.05, 0.001
    pointer = Robot.from_urdf(POINTER)
    start = -0.5 - phase * clearance
    way = point_to_point(('turn',), [start], [0.5], np.ones(1), np.ones(1))
    for share, kept in ((1.02, True), (1.0 - 1.2 * FINEST, False)):
        # the tip passes it at this distance, between two looks or at one
        x = 1.0 + share * clearance + 2.0 * small
        post = Obstacle(name='post', size=(small,), kind='sphere', position=(x, 0.0, 0.0))
        model = collision_model(pointer, clearance, [post])
        if kept:
            check_collisions(way, model)
        else:
            with pytest.raises(CollisionError, match='closer than the clearance'):
                check_collisions(way, model)
