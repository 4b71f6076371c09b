# SPDX-License-Identifier: Apache-2.0
"""Planning of a calibration's motions, and the ways to their starts."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from robot_identification.calibration.motions import next_motion, with_way
from robot_identification.config.problem import IdentificationProblem
from robot_identification.excitation.constraints import check_trajectory
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot
from robot_identification.results.plan_file import as_points

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf'
PLANNER = PlannerSettings(duration=3.0, harmonics=4, max_iterations=60)


@pytest.fixture(scope='module')
def problem():
    return IdentificationProblem(Robot.from_urdf(URDF))


def test_the_way_to_a_start_goes_before_the_motion(problem):
    made = next_motion(problem, PLANNER, (), {})
    motion = as_points(made.trajectory)
    assert with_way(made, motion.position[0]).duration == motion.duration
    here = motion.position[0] + [0.5, -0.3]
    whole = with_way(made, here)
    way = whole.duration - motion.duration
    assert 0.1 < way < 3.0
    np.testing.assert_allclose(whole.position[0], here)
    limits = motion_limits(problem.robot, PLANNER)
    check_trajectory(problem.robot, whole, limits)  # raises where a limit is not kept
    moments = np.linspace(0.0, motion.duration, 500)
    after, alone = whole.sample(way + moments), motion.sample(moments)
    np.testing.assert_allclose(after.position, alone.position, atol=1e-9)
    np.testing.assert_allclose(after.velocity, alone.velocity, atol=1e-6)


def test_progress_goes_to_the_planner(problem):
    told = []
    planned = partial(next_motion, progress=lambda share, text: told.append(share))
    planned(problem, PLANNER, [], {})
    assert told[-1] == 1.0
