# SPDX-License-Identifier: Apache-2.0
"""The reference of the servo: trajectories, their speed, disturbances."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import ExcitationError
from robot_identification.model.robot import Robot
from robot_identification.simulation import (
    SimulationSettings,
    Simulator,
    TrajectoryFollower,
    Waypoints,
)

JOINTS = ('a', 'b')


def polynomials(degree, seed=0):
    """Two polynomials of time that start at 0 and rest at time 1; their derivatives."""
    random = np.random.default_rng(seed)
    approach = np.polynomial.Polynomial([1.0, -1.0]) ** (3 if degree == 5 else 2)
    free = degree - approach.degree() + 1
    out = [approach * np.polynomial.Polynomial(random.normal(size=free)) for _ in JOINTS]
    return [p - p(0.0) for p in out]


def at(functions, time, order=0):
    return np.array([[f.deriv(order)(t) if order else f(t) for f in functions] for t in time])


def test_quintics_go_exactly_through_a_quintic():
    functions = polynomials(5)
    time = np.array([0.0, 0.2, 0.35, 0.7, 1.0])
    values = [at(functions, time, k) for k in range(3)]
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    follower.follow(Waypoints(JOINTS, time + 0.5, *values), now=2.0)
    # inside the trajectory the polynomial itself; the way to its first point is another
    for t in np.linspace(0.0, 1.0, 41)[:-1]:
        sample = follower.sample(2.5 + t)
        expected = np.array([at(functions, [t], k)[0] for k in range(3)])
        np.testing.assert_allclose(sample, expected, atol=1e-9)


def test_cubics_go_exactly_through_a_cubic():
    functions = polynomials(3)
    time = np.array([0.0, 0.3, 0.55, 1.0])
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    values = [at(functions, time, k) for k in range(2)]
    follower.follow(Waypoints(JOINTS, time + 0.5, *values), now=0.0)
    for t in np.linspace(0.0, 1.0, 31)[:-1]:
        expected = np.array([at(functions, [t], k)[0] for k in range(3)])
        np.testing.assert_allclose(follower.sample(0.5 + t), expected, atol=1e-9)


def test_positions_alone_are_joined_by_lines():
    follower = TrajectoryFollower(JOINTS, np.array([1.0, 2.0]))
    end = follower.follow(Waypoints(JOINTS, [1.0, 3.0], [[2.0, 2.0], [0.0, 4.0]]), now=10.0)
    assert end == 13.0
    np.testing.assert_allclose(follower.sample(10.5), [[1.5, 2.0], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(follower.sample(12.0), [[1.0, 3.0], [-1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(follower.sample(13.0), [[0.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(follower.sample(99.0), [[0.0, 4.0], [0.0, 0.0], [0.0, 0.0]])


def test_it_rests_before_and_without_a_trajectory():
    follower = TrajectoryFollower(JOINTS, np.array([1.0, 2.0]))
    for time in (-1.0, 0.0, 50.0):
        np.testing.assert_array_equal(follower.sample(time), [[1.0, 2.0], [0, 0], [0, 0]])


def random_waypoints(seed, points=4):
    random = np.random.default_rng(seed)
    time = np.cumsum(random.uniform(0.1, 0.5, points))
    position, velocity, acceleration = random.normal(size=(3, points, 2))
    velocity[-1] = acceleration[-1] = 0.0
    return Waypoints(JOINTS, time, position, velocity, acceleration)


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.floats(0.0, 1.5))
def test_the_way_to_a_first_point_begins_as_the_robot_moves(seed, when):
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    follower.follow(random_waypoints(seed), now=0.0)
    measured = np.random.default_rng(seed).normal(size=(2, 2))
    follower.follow(random_waypoints(seed + 1), now=when, state=measured)
    np.testing.assert_allclose(follower.sample(when), [*measured, [0.0, 0.0]], atol=1e-12)
    just_after = follower.sample(when + 1e-8)
    # the acceleration is zero there; what is left, a sixth of the jerk times 1e-24, is nothing
    np.testing.assert_allclose(just_after[0] - measured[0], 1e-8 * measured[1], atol=1e-14)
    np.testing.assert_allclose(just_after[1], measured[1], atol=1e-10)


def test_the_reference_stands_in_for_a_state_that_is_not_given():
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    follower.follow(Waypoints(JOINTS, [2.0], [[2.0, -2.0]]), now=0.0)
    follower.advance(0.5)
    follower.follow(Waypoints(JOINTS, [1.0], [[1.5, -1.5]]), now=0.5)
    np.testing.assert_allclose(follower.sample(1.0)[0], [1.0, -1.0])


def test_a_later_start_ends_the_former_trajectory_at_once():
    # joint_trajectory_controller's Trajectory::sample: up to the first point it interpolates
    # between time_before_traj_msg and that, and of what was before nothing is left
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    follower.follow(Waypoints(JOINTS, [10.0], [[10.0, -10.0]]), now=0.0)
    follower.advance(2.0)
    state = np.array([[2.0, -2.0], [1.0, -1.0]])
    later = Waypoints(JOINTS, [1.0], [[0.0, 0.0]])
    assert follower.follow(later, now=2.0, start=4.0, state=state) == 5.0
    np.testing.assert_allclose(follower.advance(2.0)[0], [2.0, -2.0])
    np.testing.assert_allclose(follower.advance(3.5)[0], [1.0, -1.0])
    np.testing.assert_allclose(follower.advance(6.0)[0], [0.0, 0.0], atol=1e-12)


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.floats(0.0, 0.999))
def test_a_trajectory_that_began_in_the_past_is_joined_where_it_is_now(seed, share):
    waypoints = random_waypoints(seed, points=5)
    first, last = waypoints.time[[0, -1]]
    now = 7.0 + first + share * (last - first)
    whole = TrajectoryFollower(JOINTS, np.zeros(2))
    whole.follow(waypoints, now=7.0)
    late = TrajectoryFollower(JOINTS, np.zeros(2))
    late.follow(waypoints, now=now, start=7.0, state=np.full((2, 2), 9.0))
    for time in np.linspace(now, 7.0 + last, 7):
        np.testing.assert_allclose(late.sample(time), whole.sample(time), atol=1e-12)


def test_a_first_point_at_time_zero_is_taken_at_once():
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    follower.follow(Waypoints(JOINTS, [0.0, 1.0], [[3.0, 3.0], [1.0, 1.0]]), now=0.0)
    np.testing.assert_allclose(follower.sample(0.0)[0], [3.0, 3.0])
    np.testing.assert_allclose(follower.sample(0.5)[0], [2.0, 2.0])
    follower.follow(Waypoints(JOINTS, [0.0], [[4.0, 5.0]]), now=0.5)
    np.testing.assert_allclose(follower.advance(0.5), [[4.0, 5.0], [0, 0], [0, 0]])


def test_time_is_stretched_and_a_new_trajectory_begins_in_real_time():
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    line = Waypoints(JOINTS, [0.0, 10.0], [[0.0, 0.0], [10.0, 20.0]])
    follower.follow(line, now=0.0)
    places = []
    for now, speed in ((0.0, 0.5), (2.0, 0.5), (4.0, 0.0), (9.0, 1.0), (10.0, 1.0)):
        follower.speed = speed
        places.append(follower.advance(now)[0, 0])
    np.testing.assert_allclose(places, [0.0, 1.0, 1.0, 6.0, 7.0])
    assert follower.elapsed == pytest.approx(7.0)
    assert follower.late == pytest.approx(-3.0)
    # JTC counts the time of a new message from the present, not from where the former one was
    follower.follow(line, now=10.5, start=5.0)
    assert follower.advance(10.5)[0, 0] == pytest.approx(5.5)
    follower.advance(20.0)
    assert follower.late > 0.0


def test_joints_are_matched_by_name():
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    swapped = Waypoints(('b', 'a'), [1.0], [[2.0, 1.0]], [[0.0, 0.0]], [[0.0, 0.0]])
    follower.follow(swapped, now=0.0)
    np.testing.assert_allclose(follower.sample(2.0)[0], [1.0, 2.0])


@pytest.mark.parametrize(
    ('joints', 'reason', 'joint'),
    [
        (('a', 'c'), "no joint 'c'", 'c'),
        (('a',), "joint 'b' is missing", 'b'),
        (('a', 'a'), "joint 'a' is named twice", 'a'),
    ],
)
def test_a_refused_trajectory_leaves_the_former_one(joints, reason, joint):
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    follower.follow(Waypoints(JOINTS, [1.0], [[1.0, 1.0]]), now=0.0)
    with pytest.raises(ExcitationError, match=reason) as caught:
        follower.follow(Waypoints(joints, [1.0], [[9.0] * len(joints)]), now=0.5)
    assert caught.value.joint == joint
    np.testing.assert_allclose(follower.sample(0.75)[0], [0.75, 0.75])


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        (([], np.zeros((0, 2))), 'has no points'),
        (([1.0, 1.0], [[0.0, 0.0]] * 2), 'point 1 is at 1 s, not after point 0'),
        (([2.0, 1.0], [[0.0, 0.0]] * 2), 'point 1 is at 1 s, not after point 0 at 2 s'),
        (([-1.0], [[0.0, 0.0]]), 'negative time'),
        (([np.nan], [[0.0, 0.0]]), 'negative time or none'),
        (([1.0], [[0.0, np.nan]]), "position of joint 'b' in point 0 is nan"),
        (([1.0], [[0.0, 0.0]], [[np.inf, 0.0]]), "velocity of joint 'a' in point 0 is inf"),
        (([1.0], None), 'no positions'),
        (([1.0], [[0.0]]), r'position has shape \(1, 1\), expected \(1, 2\)'),
        (([1.0], [[0.0, 0.0]], None, [[0.0, 0.0]]), 'accelerations but no velocities'),
        (([1.0], [[0.0, 0.0]], [[0.0, 0.3]]), "joint 'b' has a velocity of 0.3 at its end"),
    ],
)
def test_impossible_waypoints_are_refused(arguments, reason):
    with pytest.raises(ExcitationError, match=reason) as caught:
        Waypoints(JOINTS, *arguments)
    assert '\n' not in str(caught.value)
    assert caught.value.remedy


def test_a_trajectory_in_the_past_is_refused():
    follower = TrajectoryFollower(JOINTS, np.zeros(2))
    past = Waypoints(JOINTS, [1.0, 2.0], [[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(ExcitationError, match='its last point is at 3 s, and it is 5 s'):
        follower.follow(past, now=5.0, start=1.0)


PLANAR = 'package://robot_identification/urdf/zollo_planar_2r.urdf'


@pytest.fixture
def simulator():
    """Make a robot that is as its URDF says and lies in the plane at zero."""
    settings = SimulationSettings(perturbation=0.0, friction_perturbation=0.0, effort_noise=0.0)
    return Simulator(Robot.from_urdf(PLANAR), settings)


def run(simulator, seconds):
    return [simulator.advance() for _ in range(round(1000 * seconds))][-1]


def test_hold_ends_a_trajectory_where_the_robot_is(simulator):
    zero = np.zeros((1, 2))
    simulator.follow(Waypoints(simulator.joints, [1.0], [[0.5, 0.5]], zero, zero))
    run(simulator, 0.5)
    simulator.hold()
    place = simulator.plant.position.copy()
    np.testing.assert_allclose(run(simulator, 1.0).position, place, atol=5e-3)


def test_the_speed_changes_gradually_and_the_reference_with_it(simulator):
    line = Waypoints(simulator.joints, [0.0, 10.0], [[0.0, 0.0], [2.0, -1.0]])
    simulator.follow(line)
    run(simulator, 1.0)
    simulator.scale_speed(0.5)
    for share in (0.9, 0.7, 0.5, 0.5):
        run(simulator, 0.1 if share == 0.9 else 0.2)
        np.testing.assert_allclose(
            simulator.reference[1], share * np.array([0.2, -0.1]), rtol=0.01
        )
    # as fast as it is said to be
    place = simulator.reference[0].copy()
    run(simulator, 1.0)
    np.testing.assert_allclose(simulator.reference[0] - place, [0.1, -0.05], rtol=1e-6)


def test_a_disturbance_that_is_no_number_is_refused(simulator):
    simulator.disturb([1.0, 0.0])
    with pytest.raises(ExcitationError, match="that of joint 'joint_2' is nan") as caught:
        simulator.disturb([2.0, np.nan])
    assert caught.value.joint == 'joint_2'
    np.testing.assert_array_equal(simulator.plant.external, [1.0, 0.0])
