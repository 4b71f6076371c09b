# SPDX-License-Identifier: Apache-2.0
"""Stops of a controller: against integrated braking, and distances measured by Pinocchio alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ExcitationError
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.constraints import (
    check_collisions,
    check_trajectory,
    CollisionError,
    LimitViolation,
)
from robot_identification.excitation.distance_search import FINEST
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.settings import Obstacle, PlannerSettings, with_floor
from robot_identification.excitation.stops import (
    check_stops,
    decelerations,
    GENTLE,
    harsh_stops,
    STEP,
    Stops,
)
from robot_identification.excitation.trajectories import point_to_point, PointTrajectory
from robot_identification.model.robot import Robot
from robot_identification.simulation import SimulationSettings, Simulator, Waypoints
from robot_identification.simulation.controller import Constraints, TrajectoryController

URDF = Path(__file__).resolve().parents[2] / 'urdf'


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF / 'demo_arm.urdf')


@pytest.fixture(scope='module')
def limits(arm):
    return motion_limits(arm, PlannerSettings(), margin=0.0)


def braked(position, velocity, deceleration, step=1e-5):
    """Integrate a stop of one state in small steps, as a controller's clock would."""
    q, v, path = position.copy(), velocity.copy(), [position.copy()]
    while v.any():
        slower = np.sign(v) * np.maximum(np.abs(v) - deceleration * step, 0.0)
        q += 0.5 * step * (v + slower)
        v = slower
        path.append(q.copy())
    return np.array(path)


def random_stops(n_joints=3):
    rng = np.random.default_rng(4)
    velocity = rng.uniform(-1.0, 1.0, (5, n_joints))
    velocity[1] = 0.0
    velocity[2, 0] = 0.0
    deceleration = rng.uniform(0.5, 20.0, n_joints)
    position = rng.uniform(-1.0, 1.0, (5, n_joints))
    return Stops(0.05 * np.arange(5), position, velocity, deceleration)


def test_stops_are_those_of_joints_that_brake_on_their_own():
    stops = random_stops()
    for k, (q, v) in enumerate(zip(stops.position, stops.velocity, strict=True)):
        path = braked(q, v, stops.deceleration)
        np.testing.assert_allclose(stops.end[k], path[-1], atol=1e-4)
        assert stops.duration[k] == pytest.approx(1e-5 * (len(path) - 1), abs=1e-4)
        place = np.linspace(0.0, 1.0, len(path))
        np.testing.assert_allclose(stops.positions(2.0 * k + place), path, atol=1e-4)


def test_a_joint_that_brakes_at_once_stays_while_the_others_brake():
    deceleration = decelerations(('a', 'b'), [np.inf, 2.0])
    stops = Stops(np.zeros(1), np.zeros((1, 2)), np.ones((1, 2)), deceleration)
    np.testing.assert_allclose(stops.end, [[0.0, 0.25]], atol=1e-8)


@pytest.mark.parametrize('values', [None, (), (0.0, 1.0), (1.0, -1.0), (1.0, np.nan)])
def test_a_controller_without_a_deceleration_for_each_joint_holds(values):
    assert decelerations(('a', 'b'), values) is None


def test_stops_that_may_exceed_the_acceleration_limits_are_told_with_what_to_set(limits):
    acceleration = limits.acceleration
    assert harsh_stops(limits, 0.4 * acceleration) == ''
    harsh = 0.3 * acceleration
    harsh[2] = 0.5 * acceleration[2]
    text = harsh_stops(limits, harsh)
    assert text.startswith(
        "the controller stops joint 'joint_3' with 5.6 rad/s^2, more than 0.4 of its acceleration "
        'limit of 11.2 rad/s^2'
    )
    assert 'max_deceleration_on_cancel, at most joint_1 4, joint_2 3.52' in text
    for none in (None, (), np.zeros(6)):
        text = harsh_stops(limits, none)
        assert (
            'at once' in text
            and 'needs constraints.decelerate_on_cancel, a velocity state interface' in text
        )


@pytest.mark.parametrize(('share', 'kept'), [(GENTLE, True), (1.0, False)])
def test_a_gentle_stop_keeps_the_acceleration_limits_of_a_simulated_arm(arm, limits, share, kept):
    """With inertias that the drives do not know, and friction that they do; over 1 ms."""
    deceleration = share * limits.acceleration
    # from a uniform motion, so that nothing but the stop accelerates
    speed, start = 0.9 * limits.velocity * [1, -1, 1, -1, 1, -1], np.array([-1, 1, -1, 1, -1, 1.0])
    time = np.linspace(0.0, 1.2, 61)
    rise = np.clip(time / 0.6, 0.0, 1.0)[:, None]
    position = start + 0.6 * speed * (rise**3 - 0.5 * rise**4)
    position[31:] += speed * (time[31:, None] - 0.6)
    velocity = speed * rise**2 * (3.0 - 2.0 * rise)
    acceleration = speed * 6.0 * rise * (1.0 - rise) / 0.6
    velocity[-1] = acceleration[-1] = 0.0  # it is canceled before
    largest = 0.0
    for seed in range(3):
        settings = SimulationSettings(
            seed=seed, friction_perturbation=0.0, initial_position=tuple(start)
        )
        simulator = Simulator(arm, settings)
        stops = Constraints(max_deceleration_on_cancel=tuple(deceleration))
        controller = TrajectoryController(simulator, stops)
        goal = controller.accept(Waypoints(arm.joints, time, position, velocity, acceleration))
        while simulator.time < 0.7:
            simulator.advance()
        controller.cancel(goal)
        reached = [simulator.plant.velocity.copy()]
        for _ in range(round(1e3 * (limits.velocity / deceleration).max()) + 100):
            simulator.advance()
            reached.append(simulator.plant.velocity.copy())
        assert np.abs(reached[-1]).max() < 1e-3
        assert (np.abs(simulator.plant.position) < limits.upper).all()
        share_of_limit = np.abs(np.diff(reached, axis=0)) * 1e3 / limits.acceleration
        largest = max(largest, share_of_limit.max())
    assert bool(largest <= 1.05) is kept, largest


def test_too_few_decelerations_are_named():
    with pytest.raises(
        ExcitationError, match="'stop_deceleration' has 1 values, the robot 2 joints"
    ):
        decelerations(('a', 'b'), [1.0])


def _across(arm, limits, joint, goal, speed):
    """One joint from 0 to a goal and no farther, at some speed on the way."""
    target = np.zeros(6)
    target[joint] = goal
    velocity = np.full(6, 15.0 / 8.0 * speed)
    return point_to_point(arm.joints, np.zeros(6), target, velocity, np.full(6, 1e3))


def test_a_stop_beyond_a_position_limit_names_joint_time_and_remedy(arm, limits):
    upper = limits.upper[5]
    way = _across(arm, limits, 5, 0.99 * upper, 1.5)
    time = np.linspace(0.0, way.duration, 20_001)
    motion = way.sample(time)
    reached = motion.position[:, 5] + motion.velocity[:, 5] ** 2 / (2.0 * 1.2)
    assert reached.max() > upper + 0.1
    with pytest.raises(LimitViolation, match="takes joint 'joint_6' to") as caught:
        check_stops(arm, way, limits, [50.0] * 5 + [1.2])
    assert caught.value.value == pytest.approx(reached.max(), abs=1e-3)
    assert caught.value.time == pytest.approx(time[reached.argmax()], abs=5e-3)
    assert 'max_deceleration_on_cancel' in caught.value.remedy
    assert 'planner.stop_deceleration' in caught.value.remedy
    # a hold stays on the path
    assert check_stops(arm, way, limits, None) == 0.0


def test_a_path_that_brakes_as_hard_as_its_stops_is_not_left_beyond_its_ends(arm, limits):
    way = _across(arm, limits, 5, limits.upper[5], 1.5)
    hardest = np.abs(way.sample(np.linspace(0.0, way.duration, 2001)).acceleration).max()
    longest = check_stops(arm, way, limits, np.full(6, 1.001 * hardest))
    fastest = 15.0 / 8.0 * limits.upper[5] / way.duration
    assert longest == pytest.approx(fastest / (1.001 * hardest), rel=1e-3)


def nearest(model, position):
    """Least distance of all pairs in each position."""
    robot, geometry = model.robot, model.geometry
    data, shapes = robot.model.createData(), geometry.createData()
    for q in robot.configuration(position):
        pin.computeDistances(robot.model, data, geometry, shapes, q)
        yield min(result.min_distance for result in shapes.distanceResults)


def nearest_by_brute_force(model, trajectory, deceleration):
    """Least distance of all pairs on integrated stops."""
    found = []
    for time in np.arange(0.0, trajectory.duration, STEP):
        motion = trajectory.sample(np.array([time]))
        path = braked(motion.position[0], motion.velocity[0], deceleration, 4e-3)
        found.append(min(nearest(model, path)))
    return min(found)


@pytest.mark.parametrize(
    ('seed', 'free'),
    [
        (12, True),
        (18, False),
        (23, False),
        *(
            pytest.param(seed, free, marks=pytest.mark.soak)
            for seed, free in ((0, True), (16, False), (49, False))
        ),
    ],
)
def test_collisions_on_stops_are_those_of_brute_force(arm, limits, seed, free):
    rng = np.random.default_rng(seed)
    model = collision_model(arm, 0.01, with_floor((), -0.2))
    deceleration = rng.uniform(1.0, 4.0, 6)
    unbounded = replace(limits, lower=limits.lower - 10.0, upper=limits.upper + 10.0)
    start, goal = 0.8 * rng.uniform(arm.limits.lower, arm.limits.upper, (2, 6))
    way = point_to_point(arm.joints, start, goal, limits.velocity, limits.acceleration)
    # the path itself is free
    check_collisions(way, model)
    distance = nearest_by_brute_force(model, way, deceleration)
    if free:
        assert distance > model.clearance
        check_stops(arm, way, unbounded, deceleration, model)
        return
    assert distance < model.clearance - FINEST * model.clearance
    with pytest.raises(CollisionError, match='a stop from') as caught:
        check_stops(arm, way, unbounded, deceleration, model)
    found = caught.value.nearest
    assert caught.value.links == (found.first, found.second)
    # the stop is one, and the links are as close in its position as is said
    state = way.sample(np.array([caught.value.time]))
    stop = braked(state.position[0], state.velocity[0], deceleration, 1e-4)
    assert np.abs(stop - found.position).max(axis=1).min() < 1e-3
    (measured,) = nearest(model, found.position[None])
    assert measured - 1e-5 <= found.distance < model.clearance


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


def test_an_obstacle_behind_the_path_s_end_is_met_by_stops_alone():
    pointer = Robot.from_urdf(POINTER)
    limits = motion_limits(pointer, PlannerSettings(), margin=0.0)
    way = point_to_point(('turn',), [0.0], [0.5], np.ones(1), np.full(1, 100.0))
    # tangential distance from the path's end is 0.1 m, the stop's way is up to 0.5 m
    angle = 0.6
    post = Obstacle(
        name='post', size=(0.001,), kind='sphere', position=(np.cos(angle), np.sin(angle), 0.0)
    )
    model = collision_model(pointer, 0.01, [post])
    check_trajectory(pointer, way, limits, collisions=model)
    check_stops(pointer, way, limits, [100.0], model)
    with pytest.raises(CollisionError, match="link 'tip' and obstacle 'post'") as caught:
        check_stops(pointer, way, limits, [1.0], model)
    assert 'planner.stop_deceleration' in caught.value.remedy
    q = caught.value.nearest.position[0]
    assert 0.5 < q < angle + 0.02


@pytest.mark.parametrize('phase', np.linspace(0.0, 1.0, 7, endpoint=False))
def test_the_clearance_is_kept_between_the_looks_at_a_stop(phase):
    clearance, small = 0.05, 0.001
    pointer = Robot.from_urdf(POINTER)
    limits = motion_limits(pointer, PlannerSettings(), margin=0.0)
    # one stop that matters: from full speed past the post
    time = np.array([0.0, 1.0, 1.0 + 0.1, 2.0])
    begin = -0.3 - phase * clearance
    q = np.array([[begin], [begin + 0.4], [begin + 0.4], [begin]])
    v = np.array([[0.0], [1.0], [0.0], [0.0]])
    way = PointTrajectory(('turn',), time, q, v, np.zeros((4, 1)))
    for share, kept in ((1.02, True), (1.0 - 1.2 * FINEST, False)):
        x = 1.0 + share * clearance + 2.0 * small
        post = Obstacle(
            name='post',
            size=(small,),
            kind='sphere',
            position=(x * np.cos(0.3), x * np.sin(0.3), 0.0),
        )
        model = collision_model(pointer, clearance, [post])
        if kept:
            check_stops(pointer, way, limits, [1.0], model)
        else:
            with pytest.raises(CollisionError, match='a stop from'):
                check_stops(pointer, way, limits, [1.0], model)
