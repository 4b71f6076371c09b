# SPDX-License-Identifier: Apache-2.0
"""Goals of the simulated controller: their ends, and how the robot stops."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import ExcitationError, SettingsError
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.stops import harsh_stops
from robot_identification.model.robot import Robot
from robot_identification.simulation import (
    SimulationSettings,
    Simulator,
    TrajectoryFollower,
    Waypoints,
)
from robot_identification.simulation.controller import (
    Constraints,
    Outcome,
    Tolerances,
    TrajectoryController,
)

PLANAR = 'package://robot_identification/urdf/zollo_planar_2r.urdf'
ANY = Tolerances(np.zeros(2), np.zeros(2), 0.0)
DECELERATION = (4.0, 6.0)


def cell(**constraints):
    """Return a robot that is as its URDF says, and its controller."""
    ideal = SimulationSettings(perturbation=0.0, friction_perturbation=0.0, effort_noise=0.0)
    simulator = Simulator(Robot.from_urdf(PLANAR), ideal)
    return simulator, TrajectoryController(simulator, Constraints(**constraints))


def line(simulator, goal, seconds, begin=0.0):
    """Return waypoints from zero to ``goal``, rest to rest, by a quintic."""
    time = np.linspace(0.0, seconds, 21)
    x, goal = (time / seconds)[:, None], np.asarray(goal)
    return Waypoints(
        simulator.joints,
        begin + time,
        goal * (10 * x**3 - 15 * x**4 + 6 * x**5),
        goal * (30 * x**2 - 60 * x**3 + 30 * x**4) / seconds,
        goal * (60 * x - 180 * x**2 + 120 * x**3) / seconds**2,
    )


def run(simulator, seconds, until=lambda: False):
    """Advance; return the true position and velocity of every period, (m, 2, n_joints)."""
    rows = []
    for _ in range(round(1000 * seconds)):
        simulator.advance()
        rows.append([simulator.plant.position, simulator.plant.velocity])
        if until():
            break
    return np.array(rows)


# ---------------------------------------------------------------------------------------- braking


@settings(max_examples=60)
@given(st.integers(0, 2**31))
def test_each_joint_stops_by_its_own_constant_deceleration(seed):
    random = np.random.default_rng(seed)
    position, velocity = random.normal(size=(2, 3))
    velocity *= random.integers(0, 2, 3)  # some at rest
    deceleration = random.uniform(0.5, 20.0, 3)
    follower = TrajectoryFollower(('a', 'b', 'c'), np.zeros(3))
    follower.brake(position, velocity, deceleration, now=2.0)
    stop = np.abs(velocity) / deceleration
    for time in np.linspace(0.0, 1.2 * stop.max() + 0.1, 50):
        braked = np.minimum(time, stop)
        slope = np.sign(velocity) * deceleration
        found = follower.sample(2.0 + time)
        np.testing.assert_allclose(
            found[0], position + velocity * braked - 0.5 * slope * braked**2, atol=1e-12
        )
        np.testing.assert_allclose(found[1], velocity - slope * braked, atol=1e-12)
        # the value in the instant of the stop is nobody's
        inside = np.abs(time - stop) > 1e-9
        expected = np.where(time < stop, -slope, 0.0)
        np.testing.assert_allclose(found[2][inside], expected[inside], atol=1e-9)


def test_a_canceled_goal_decelerates_every_joint_on_its_own():
    simulator, controller = cell(max_deceleration_on_cancel=DECELERATION)
    goal = controller.accept(line(simulator, [1.5, -0.8], 2.0))
    run(simulator, 1.0)
    position, velocity = simulator.plant.position.copy(), simulator.plant.velocity.copy()
    assert abs(velocity[0]) > 1.0
    controller.cancel(goal)
    assert goal.outcome is Outcome.CANCELED
    moved = run(simulator, 1.0)
    distance = 0.5 * velocity * np.abs(velocity) / DECELERATION
    np.testing.assert_allclose(moved[-1][0], position + distance, atol=2e-3)
    acceleration = np.diff(moved[:, 1], axis=0) * 1000.0
    # an ideal robot: what the servo adds is small
    assert (np.abs(acceleration).max(axis=0) < 1.1 * np.array(DECELERATION)).all()
    for joint, limit in enumerate(DECELERATION):
        assert np.abs(moved[:, 1, joint]).max() <= abs(velocity[joint]) + 0.01
        at_rest = np.flatnonzero(np.abs(moved[:, 1, joint]) > 0.02)[-1] / 1000.0
        assert at_rest == pytest.approx(abs(velocity[joint]) / limit, abs=0.05)


@pytest.mark.parametrize(
    'constraints',
    [
        {'decelerate_on_cancel': False},
        {'decelerate_on_cancel': False, 'max_deceleration_on_cancel': DECELERATION},
        {'max_deceleration_on_cancel': (4.0, 0.0)},
    ],
)
def test_without_every_joints_deceleration_the_position_is_held_at_once(constraints):
    simulator, controller = cell(**constraints)
    goal = controller.accept(line(simulator, [1.0, 0.5], 2.0))
    run(simulator, 1.0)
    position = simulator.plant.position.copy()
    controller.cancel(goal)
    simulator.advance()
    np.testing.assert_allclose(simulator.reference, [position, [0, 0], [0, 0]])


def test_by_default_stops_are_gentle():
    simulator, controller = cell()
    np.testing.assert_allclose(0.7 * controller.deceleration, simulator.robot.limits.velocity)
    limits = motion_limits(simulator.robot, PlannerSettings(), margin=0.0)
    assert harsh_stops(limits, controller.deceleration) == ''


# ----------------------------------------------------------------------------------- ends of goals


def test_a_goal_succeeds_when_it_is_at_its_end_and_stays_there():
    simulator, controller = cell()
    goal = controller.accept(line(simulator, [0.3, -0.3], 1.0))
    run(simulator, 1.001)
    assert goal.outcome is None or simulator.time > 1.0
    run(simulator, 0.01)
    assert goal.outcome is Outcome.SUCCEEDED and controller.goal is None
    np.testing.assert_allclose(run(simulator, 0.5)[-1][0], [0.3, -0.3], atol=1e-3)


def test_a_new_goal_ends_the_former_and_begins_as_the_robot_moves():
    simulator, controller = cell()
    first = controller.accept(line(simulator, [1.0, 1.0], 2.0))
    run(simulator, 1.0)
    state = simulator.plant.position.copy(), simulator.plant.velocity.copy()
    rest = np.zeros((1, 2))
    second = controller.accept(Waypoints(simulator.joints, [1.0], [[0.5, 0.5]], rest, rest))
    assert first.outcome is Outcome.REPLACED
    simulator.advance()
    np.testing.assert_allclose(simulator.reference[:2], state, atol=1e-9)
    run(simulator, 1.1)
    assert second.outcome is Outcome.SUCCEEDED
    controller.cancel(first)  # as if late: nothing happens
    assert first.outcome is Outcome.REPLACED and second.outcome is Outcome.SUCCEEDED


def test_a_refused_goal_leaves_the_former():
    simulator, controller = cell()
    goal = controller.accept(line(simulator, [0.3, 0.3], 1.0))
    run(simulator, 0.3)
    for joints, start in ((('joint_1', 'elbow'), None), (simulator.joints, -9.0)):
        with pytest.raises(ExcitationError):
            controller.accept(Waypoints(joints, [1.0], [[0.0, 0.0]]), start)
    assert controller.goal is goal
    run(simulator, 0.8)
    assert goal.outcome is Outcome.SUCCEEDED


def test_a_joint_off_its_path_aborts_and_stops_by_deceleration():
    simulator, controller = cell(max_deceleration_on_cancel=DECELERATION)
    tolerances = Tolerances(np.array([0.0, 2e-3]), np.zeros(2), 0.0)
    goal = controller.accept(line(simulator, [1.5, 0.8], 2.0), tolerances=tolerances)
    run(simulator, 1.0)
    assert goal.outcome is None
    simulator.disturb(np.array([0.0, 40.0]))
    moved = run(simulator, 1.0, until=lambda: goal.outcome is not None)
    assert goal.outcome is Outcome.PATH_TOLERANCE_VIOLATED
    assert goal.reason == 'Aborted due to path tolerance violation'
    assert goal.detail.startswith("joint 'joint_2' is off by 0.002")
    simulator.disturb(np.zeros(2))
    position, velocity = moved[-1]
    after = run(simulator, 1.0)
    distance = 0.5 * velocity * np.abs(velocity) / DECELERATION
    np.testing.assert_allclose(after[-1][0], position + distance, atol=0.01)


def test_what_is_beyond_a_tolerance_is_not_commanded():
    """The first point is 0.05 rad ahead, and is due at once."""
    tolerances = Tolerances(np.full(2, 0.03), np.zeros(2), 0.0)
    for bounds, step in ((tolerances, 0.0), (ANY, 0.05)):
        simulator, controller = cell(max_deceleration_on_cancel=DECELERATION)
        away = line(simulator, [0.05, 0.0], 0.5)
        goal = controller.accept(
            Waypoints(simulator.joints, away.time, away.position[::-1]), tolerances=bounds
        )
        commanded = []
        for _ in range(300):
            simulator.advance()
            commanded.append(simulator.reference[0, 0])
        assert np.max(np.abs(np.diff([0.0, *commanded]))) == pytest.approx(step, abs=1e-3)
        if step == 0.0:
            assert goal.outcome is Outcome.PATH_TOLERANCE_VIOLATED
            assert np.max(np.abs(commanded)) < 1e-6
            assert abs(simulator.plant.position[0]) < 1e-3


def test_the_stop_begins_in_the_period_after_the_violation_without_a_step():
    simulator, controller = cell(max_deceleration_on_cancel=DECELERATION)
    tolerances = Tolerances(np.full(2, 2e-3), np.zeros(2), 0.0)
    goal = controller.accept(line(simulator, [1.5, 0.8], 2.0), tolerances=tolerances)
    run(simulator, 1.0)
    simulator.disturb(np.array([0.0, 40.0]))
    before = None
    while goal.outcome is None:
        before = simulator.reference.copy()
        simulator.advance()
    np.testing.assert_array_equal(simulator.reference, before)
    measured, velocity = simulator.plant.position.copy(), simulator.plant.velocity.copy()
    simulator.advance()
    np.testing.assert_allclose(simulator.reference[0], measured, atol=2e-5)
    np.testing.assert_allclose(np.abs(simulator.reference[2]), DECELERATION)
    assert (np.sign(simulator.reference[2]) == -np.sign(velocity)).all()


@pytest.mark.parametrize('goal_time', [0.0, 0.4])
def test_a_robot_that_does_not_arrive_aborts_after_the_goal_time(goal_time):
    simulator, controller = cell()
    tolerances = Tolerances(np.zeros(2), np.array([0.0, 2e-4]), goal_time)
    simulator.disturb(np.array([0.0, 15.0]))
    goal = controller.accept(line(simulator, [0.3, 0.3], 1.0), tolerances=tolerances)
    run(simulator, 5.0, until=lambda: goal.outcome is not None)
    if not goal_time:
        assert goal.outcome is None  # waits without end
        simulator.disturb(np.zeros(2))
        run(simulator, 1.0)
        assert goal.outcome is Outcome.SUCCEEDED
    else:
        assert goal.outcome is Outcome.GOAL_TOLERANCE_VIOLATED
        assert simulator.time == pytest.approx(1.4, abs=0.005)
        assert "joint 'joint_2'" in goal.detail
        assert re.fullmatch(
            r'Aborted due to goal_time_tolerance exceeding by 0\.40\d{4} seconds', goal.reason
        )


def test_slowed_down_a_goal_takes_longer_and_its_tolerances_hold():
    simulator, controller = cell()
    tolerances = Tolerances(np.full(2, 5e-3), np.full(2, 5e-3), 0.5)
    simulator.scale_speed(0.25)
    run(simulator, 1.0)  # it changes by 1/s
    goal = controller.accept(line(simulator, [0.5, -0.5], 1.0), tolerances=tolerances)
    moved = run(simulator, 10.0, until=lambda: goal.outcome is not None)
    assert goal.outcome is Outcome.SUCCEEDED
    assert len(moved) / 1000.0 == pytest.approx(4.0, abs=0.02)
    # a quintic's peak is 15/8 of its mean velocity
    assert np.abs(moved[:, 1]).max() == pytest.approx(15 / 8 * 0.5 / 4.0, rel=0.02)


# ------------------------------------------------------------------------------------- tolerances


def test_a_goals_tolerances_replace_keep_and_remove_the_controllers():
    own = Tolerances(np.array([0.1, 0.2]), np.array([0.3, 0.4]), 0.5)
    joints = ('a', 'b')
    new = own.replaced(joints, {'a': 0.0, 'b': -1.0}, {'b': 0.01}, -1.0)
    np.testing.assert_array_equal(new.path, [0.1, 0.0])
    np.testing.assert_array_equal(new.goal, [0.3, 0.01])
    assert new.goal_time == 0.0
    for wrong in ({'c': 0.1}, {'a': -2.0}):
        with pytest.raises(ExcitationError, match="'c'|'a'"):
            own.replaced(joints, wrong, {}, 0.0)
    with pytest.raises(ExcitationError, match='goal_time_tolerance is -3'):
        own.replaced(joints, {}, {}, -3.0)


def test_constraints_are_one_number_a_joint():
    with pytest.raises(SettingsError, match='constraints.goal'):
        cell(goal=(0.1, 0.1, 0.1))
    controller = cell(goal=(0.1,), trajectory=(0.2, 0.3), goal_time=2.0)[1]
    np.testing.assert_array_equal(controller.tolerances.goal, [0.1, 0.1])
    np.testing.assert_array_equal(controller.tolerances.path, [0.2, 0.3])
    assert controller.tolerances.goal_time == 2.0
