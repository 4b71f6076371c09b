# SPDX-License-Identifier: Apache-2.0
"""Sweeps and poses: within all limits, at constant speed or at rest, and informative."""

from pathlib import Path

import numpy as np
import pytest
from robot_identification.errors import ExcitationError
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.constraints import check_trajectory
from robot_identification.excitation.planner import plan
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf'


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF / 'demo_arm.urdf')


def checked(arm, **settings):
    made = plan(arm, PlannerSettings(**settings))
    check_trajectory(arm, made.trajectory, made.limits, collisions=collision_model(arm, 0.01))
    assert made.trajectory.duration <= made.settings.duration
    return made


def test_sweeps_move_one_joint_at_constant_speeds(arm):
    made = checked(arm, method='sweeps', duration=120.0)
    time = np.arange(0.0, made.trajectory.duration, 0.01)
    motion = made.trajectory.sample(time)
    steady = (np.abs(motion.acceleration) < 1e-6) & (np.abs(motion.velocity) > 1e-6)
    for joint in range(arm.n_joints):
        speeds = np.unique(np.round(motion.velocity[steady[:, joint], joint], 6))
        # both directions, at three speeds or more
        assert (speeds > 0.0).sum() >= 3 and set(speeds) == set(-speeds)
    assert steady.any(axis=1).mean() > 0.3
    friction = [n.rpartition('.')[2] in ('fv', 'fc') for n in made.deviations.names]
    assert (made.deviations.relative[friction] < 0.2).all()


def test_poses_rest_where_gravity_tells_most(arm):
    made = checked(arm, method='poses', duration=40.0)
    time = np.arange(0.0, made.trajectory.duration, 0.01)
    rest = (np.abs(made.trajectory.sample(time).velocity) < 1e-9).all(axis=1)
    assert rest.mean() > 0.25
    more = checked(arm, method='poses', duration=80.0)
    offsets = [name.endswith('.off') for name in made.deviations.names]
    assert (more.deviations.std[offsets] < made.deviations.std[offsets]).all()


def test_no_time_for_any_is_named(arm):
    for method in ('sweeps', 'poses'):
        with pytest.raises(ExcitationError, match=f'no room or time for {method}'):
            plan(arm, PlannerSettings(method=method, duration=0.6))


def test_no_pose_that_can_be_held_is_named(arm):
    # in a tight box around the arm only the start is free of collision
    start = tuple(np.zeros(arm.n_joints))
    with pytest.raises(ExcitationError, match='no room or time for poses'):
        plan(arm, PlannerSettings(method='poses', start=start, clearance=0.3, floor=-0.32))
