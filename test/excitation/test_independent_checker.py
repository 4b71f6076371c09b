# SPDX-License-Identifier: Apache-2.0
"""Plans against a checker that has nothing of the planner's (`benchmarks.checked_plans`)."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.excitation import plan, PlannerSettings
from robot_identification.excitation.trajectories import to_points

from benchmarks.checked_plans import (
    ARMS,
    check_arm,
    CLEARANCE,
    IndependentChecker,
    MANY_LINKS,
    METHODS,
    random_settings,
)
from benchmarks.excitation import Arm, robot_of

EVERY_KIND = 1021
"""Seed whose first six settings have every kind of motion."""


# 200 plans in all; `make bench` has 10,000
@pytest.mark.soak
@pytest.mark.parametrize('arm', ARMS, ids=lambda arm: arm.name)
def test_random_plans_keep_limits_efforts_and_clearance(arm):
    checked = check_arm(arm, 5 if arm.name in MANY_LINKS else 37, seed=1)
    assert checked.violations == ()


@pytest.mark.parametrize(('name', 'count'), [('demonstration arm', 6), ('Panda', 1)])
def test_a_few_random_plans_do_so(name, count):
    (arm,) = (arm for arm in ARMS if arm.name == name)
    assert check_arm(arm, count, seed=EVERY_KIND).violations == ()


UR5 = Arm('UR5', 'ur_description/urdf/ur5_robot.urdf', (), 12.0, 0.0)


@pytest.mark.parametrize(
    ('clearance', 'seeds', 'evaluations'),
    [
        (0.03, 1, 5),
        *(pytest.param(c, 20, 40, marks=pytest.mark.soak) for c in (0.01, 0.03, 0.1)),
    ],
)
def test_no_links_of_a_ur5_touch_whatever_the_clearance(clearance, seeds, evaluations):
    """By exact meshes: a clearance that some pairs cannot keep is no reason to leave them out."""
    robot = robot_of(UR5)
    if robot is None:
        pytest.skip('needs the package example-robot-data')
    checker = IndependentChecker(robot.path, robot.joints, clearance)
    for seed in range(seeds):
        settings = PlannerSettings(
            duration=8.0, clearance=clearance, seed=seed, max_iterations=evaluations,
            time_budget=0.0,
        )  # fmt: skip
        made = plan(robot, settings)
        assert checker.contacts(made) == set()
        named = any("'base_link' and 'upper_arm_link'" in text for text in made.warnings)
        assert named is (clearance > 0.02)


def test_the_few_plans_have_every_kind_of_motion():
    rng = np.random.default_rng(EVERY_KIND)
    drawn = {random_settings(rng).method for _ in range(6)}
    assert drawn == set(METHODS)


@pytest.fixture(scope='module')
def ur10():
    arm = ARMS[0]
    robot = robot_of(arm)
    made = plan(robot, PlannerSettings(duration=4.0, max_iterations=5, clearance=CLEARANCE))
    return made, IndependentChecker(robot.path, robot.joints, CLEARANCE)


def test_fast_harmonics_keep_the_limits_between_points_too(ur10):
    _, checker = ur10
    settings = PlannerSettings(
        duration=2.1030819828866556, harmonics=11, criterion='frobenius', seed=1007425771,
        max_iterations=3, margin=0.1332002768769053, velocity_scale=0.781669155541536,
        acceleration_time=0.27891035005196063, effort_margin=0.0009280323787158928,
        clearance=CLEARANCE, time_budget=0.0,
    )  # fmt: skip
    assert list(checker.check(plan(robot_of(ARMS[0]), settings))) == []


@pytest.mark.parametrize(
    ('quantity', 'change'),
    [
        ('position', lambda points: points.scaled(10.0)),
        ('velocity', lambda points: points.slower(1.5)),
        ('acceleration', lambda points: points.slower(1.5)),
        ('jerk', lambda points: points.slower(4.0)),
        ('effort', lambda points: points.slower(4.0)),
    ],
)
def test_the_checker_finds_a_motion_beyond_a_limit(ur10, quantity, change):
    made, checker = ur10
    worse = replace(made, trajectory=change(to_points(made.trajectory, 100.0)))
    assert quantity in {violation.quantity for violation in checker.check(worse)}


def test_the_checker_finds_links_that_are_too_close(ur10):
    made, checker = ur10
    points = to_points(made.trajectory, 100.0)
    folded = np.array([0.0, -1.0, 2.9, 0.0, 0.0, 0.0])
    worse = replace(made, trajectory=replace(points, position=0.0 * points.position + folded))
    assert 'clearance' in {violation.quantity for violation in checker.check(worse)}
