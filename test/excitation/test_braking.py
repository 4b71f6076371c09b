# SPDX-License-Identifier: Apache-2.0
"""Stops on the path and off it, and pieces of a path with stops behind them."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.excitation.braking import (
    ACCELERATION_SHARE,
    LONGEST,
    SHORTEST,
    slowed,
    stoppable,
    to_rest,
)
from robot_identification.excitation.extremes import nominal_effort
from robot_identification.excitation.families import FourierTrajectory, rest_to_rest
from robot_identification.excitation.limits import Limits, motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import point_to_point, PointTrajectory, to_points
from robot_identification.model.robot import Robot
from robot_identification.simulation.servo import TrajectoryFollower, Waypoints

JOINTS = ('a', 'b')
BASIS = rest_to_rest(10.0, 0.1, 5)


def path(seed):
    rng = np.random.default_rng(seed)
    coefficients = BASIS @ rng.standard_normal((BASIS.shape[1], 2))
    return FourierTrajectory(JOINTS, 10.0, 0.1, np.zeros(2), coefficients)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), begin=st.floats(0.0, 9.5), duration=st.floats(0.2, 1.0))
def test_slowing_down_stays_on_the_path_and_begins_as_it_goes(seed, begin, duration):
    trajectory = path(seed)

    def at(time):
        return slowed(trajectory, begin, duration, time / duration)

    time = np.linspace(0.0, duration, 1000)
    motion = at(time)
    here = trajectory.sample(np.array([begin]))
    for name in ('position', 'velocity', 'acceleration'):
        np.testing.assert_allclose(getattr(motion, name)[0], getattr(here, name)[0], atol=1e-9)
    assert not motion.velocity[-1].any() and not motion.acceleration[-1].any()
    # every position is one of the path, in the part that lies ahead
    ahead = trajectory.sample(np.linspace(begin, begin + duration / 2.0, 20001)).position
    for position in motion.position[::50]:
        assert np.abs(ahead - position).max(axis=1).min() < 2e-3
    step = 1e-5
    inner = time[1:-1]
    difference = at(inner + step).position - at(inner - step).position
    np.testing.assert_allclose(at(inner).velocity, difference / (2 * step), atol=1e-5)


def test_a_way_to_where_one_is_takes_the_least_time():
    away = point_to_point(JOINTS, np.ones(2), np.ones(2), np.ones(2), np.ones(2))
    assert away.duration == pytest.approx(0.1)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), aimed=st.booleans())
def test_a_stop_off_the_path_begins_as_the_robot_is_commanded_and_keeps_the_limits(seed, aimed):
    rng = np.random.default_rng(seed)
    high, velocity, acceleration = rng.uniform(0.5, 3.0, 2), rng.uniform(0.5, 3.0, 2), 5.0
    limits = Limits(
        JOINTS, ('rad', 'rad'), -high, high, velocity, np.full(2, acceleration), np.full(2, np.inf)
    )
    moving = rng.uniform(-1.0, 1.0, (3, 2))
    state = moving * np.array([high - 0.4, 0.8 * velocity, np.full(2, acceleration)])
    place = np.clip(state[0] + rng.uniform(-0.2, 0.2, 2), -high, high) if aimed else None
    stop = to_rest(limits, state, place)
    if stop is None:  # too near a limit and too fast, or the place is where it cannot turn to
        reach = 0.5 * state[1] ** 2 / (ACCELERATION_SHARE * acceleration)
        near = (np.abs(state[0]) + reach > 0.4 * high).any()
        assert near or (aimed and to_rest(limits, state) is not None)
        return
    assert SHORTEST <= stop.duration <= LONGEST
    motion = stop.sample(np.linspace(0.0, stop.duration, 1001))
    for values, begin in zip(
        (motion.position, motion.velocity, motion.acceleration), state, strict=True
    ):
        np.testing.assert_allclose(values[0], begin, atol=1e-9)
    assert max(np.abs(motion.velocity[-1]).max(), np.abs(motion.acceleration[-1]).max()) < 1e-9
    assert (np.abs(motion.position) <= high + 1e-3).all()
    assert (np.abs(motion.velocity) <= np.maximum(velocity, np.abs(state[1])) * 1.01).all()
    most = np.maximum(ACCELERATION_SHARE * acceleration, np.abs(state[2]))
    assert (np.abs(motion.acceleration) <= 1.02 * most).all()
    if aimed:
        np.testing.assert_allclose(motion.position[-1], place, atol=1e-9)


URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf'
LENGTH, PERIOD = 0.5, 0.1


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


@pytest.fixture(scope='module')
def limits(robot):
    return motion_limits(robot, PlannerSettings(), margin=0.0)


def joint_path(limits, seed, share=0.7):
    """Return a motion of 8 s that uses a share of the velocity or acceleration limits."""
    basis = rest_to_rest(8.0, 0.125, 5)
    rng = np.random.default_rng(seed)
    coefficients = basis @ rng.standard_normal((basis.shape[1], 2))
    series = FourierTrajectory(limits.joints, 8.0, 0.125, np.zeros(2), coefficients)
    motion = series.sample(np.linspace(0.0, 8.0, 2001))
    use = max(
        (np.abs(motion.velocity) / limits.velocity).max(),
        (np.abs(motion.acceleration) / limits.acceleration).max(),
    )
    return to_points(replace(series, coefficients=share / use * coefficients), 50.0)


def stoppable_path(robot, limits, seed):
    return stoppable(joint_path(limits, seed), limits, nominal_effort(robot))


def waypoints_of(sent):
    time = sent.begin + sent.time
    return Waypoints(sent.joints, time, sent.position, sent.velocity, sent.acceleration)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), now=st.floats(-0.2, 8.0))
def test_a_horizon_is_the_path_and_then_a_stop_on_it_within_the_limits(robot, limits, seed, now):
    stops = stoppable_path(robot, limits, seed)
    horizon = stops.horizon(now, now + LENGTH)
    sent = horizon.trajectory
    begin = sent.begin
    assert begin <= max(now, 0.0)
    until = min(horizon.stop, stops.path.duration)
    assert until >= min(now + LENGTH, stops.path.duration) - 1e-9
    here = np.linspace(max(now, 0.0), until, 200)
    for name in ('position', 'velocity', 'acceleration'):
        wanted = getattr(stops.path.sample(here), name)
        np.testing.assert_allclose(getattr(sent.sample(here - begin), name), wanted, atol=1e-9)
    motion = sent.sample(np.linspace(0.0, sent.duration, 4001))
    assert not sent.velocity[-1].any() and not sent.acceleration[-1].any()
    # by differences and by Pinocchio, not by what the stops were checked with
    assert (np.abs(motion.acceleration) <= limits.acceleration).all()
    jerk = np.diff(motion.acceleration, axis=0) / (sent.duration / 4000)
    assert (np.abs(jerk) <= 1.001 * limits.jerk).all()
    data = robot.model.createData()
    for row in range(0, 4001, 40):
        q, v, a = motion.position[row], motion.velocity[row], motion.acceleration[row]
        tau = pin.rnea(robot.model, data, q, v, a)
        assert (np.abs(tau) <= robot.limits.effort).all()
    # every position is one of the path
    near = stops.path.sample(np.linspace(begin, horizon.end, 20001)).position
    for position in motion.position[::100]:
        assert np.abs(near - position).max(axis=1).min() < 1e-3


def test_a_controller_that_gets_one_horizon_after_the_other_follows_the_path(robot, limits):
    """Whatever the delays of the messages, as long as none comes after its stop has begun."""
    stops = stoppable_path(robot, limits, 3)
    rng = np.random.default_rng(1)
    follower = TrajectoryFollower(limits.joints, stops.path.position[0])
    messages = []
    for sent in np.arange(-0.1, 8.0, PERIOD):
        horizon = stops.horizon(sent, sent + LENGTH)
        arrival = max(sent + rng.uniform(0.0, 0.3), messages[-1][0]) if messages else sent
        messages.append((arrival, horizon.trajectory))
        if horizon.stop == np.inf:
            break
    start, times = 100.0, np.arange(-0.2, 8.3, 0.001)
    reference = np.empty((times.size, 3, 2))
    for i, now in enumerate(times):
        while messages and messages[0][0] <= now:
            follower.follow(waypoints_of(messages.pop(0)[1]), start + now, start)
        reference[i] = follower.advance(start + now)
    wanted = stops.path.sample(times)
    np.testing.assert_allclose(reference[:, 0], wanted.position, atol=1e-9)
    np.testing.assert_allclose(reference[:, 1], wanted.velocity, atol=1e-7)


@pytest.mark.parametrize('died', [0.0, 1.3, 4.05, 7.6])
def test_without_further_horizons_the_robot_rests_within_the_bound(robot, limits, died):
    stops = stoppable_path(robot, limits, 5)
    latest = died - died % PERIOD
    horizon = stops.horizon(latest, latest + LENGTH)
    bound = stops.rest_within(LENGTH)
    assert horizon.end - latest <= bound + 1e-9
    assert LENGTH + 0.2 < bound < LENGTH + 1.0
    follower = TrajectoryFollower(limits.joints, stops.path.position[0])
    follower.follow(waypoints_of(horizon.trajectory), died, 0.0)
    follower.advance(died)
    rest = follower.advance(latest + bound)
    assert not rest[1].any() and not rest[2].any()


def test_where_the_path_itself_brakes_as_hard_as_it_may_a_stop_comes_later(robot, limits):
    """From rest to rest by constant accelerations at the limit, which leave a stop no room."""
    limits = replace(limits, jerk=np.full(2, np.inf))
    peak = 0.5 * limits.acceleration.min()
    time = np.linspace(0.0, 4.0, 201)
    push = np.where(time < 2.0, 1.0, -1.0) * peak
    speed = peak * np.where(time < 2.0, time, 4.0 - time)
    place = peak * np.where(time < 2.0, 0.5 * time**2, 4.0 - 0.5 * (4.0 - time) ** 2)
    both = (np.repeat(column[:, None], 2, axis=1) for column in (place, speed, push))
    braking = PointTrajectory(limits.joints, time, *both)
    tight = replace(limits, acceleration=np.full(2, 1.02 * peak), effort=np.full(2, np.inf))
    stops = stoppable(braking, tight, nominal_effort(robot))
    # once the path brakes at the limit, no stop is quicker than the path's own end
    assert stops.begin.size and stops.begin.max() < 2.1
    assert stops.rest_within(0.05) == pytest.approx(4.0 - stops.begin.max() + 0.05, abs=0.2)
    assert stops.horizon(3.0, 3.5).end == 4.0
    loose = stoppable(
        braking, replace(tight, acceleration=np.full(2, 50.0)), nominal_effort(robot)
    )
    assert loose.rest_within(0.05) < 1.0


def test_efforts_decide_where_accelerations_do_not(robot, limits):
    trajectory = joint_path(limits, 2)
    effort = nominal_effort(robot)
    free = replace(limits, effort=np.full(2, np.inf))
    needed = np.abs(effort(trajectory.sample(np.linspace(0.0, 8.0, 4001)))).max(axis=0)
    tight = replace(limits, effort=1.02 * needed)
    quick, slow = (stoppable(trajectory, each, effort) for each in (free, tight))
    common = np.isin(quick.begin, slow.begin)
    assert common.sum() > 20
    assert (slow.duration >= quick.duration[common]).all()
    assert slow.duration.mean() > 1.02 * quick.duration[common].mean()
    for now in np.arange(0.5, 6.0, 0.37):
        sent = slow.horizon(now, now).trajectory
        predicted = effort(sent.sample(np.linspace(0.0, sent.duration, 2001)))
        assert (np.abs(predicted) <= 1.005 * tight.effort).all()


def test_jerks_decide_where_accelerations_do_not(robot, limits):
    trajectory = joint_path(limits, 2)
    free, effort = replace(limits, jerk=np.full(2, np.inf)), nominal_effort(robot)
    step = 1e-4
    time = np.arange(0.0, 8.0, step)
    jerk = np.diff(trajectory.sample(time).acceleration, axis=0) / step
    tight = replace(limits, jerk=1.3 * np.abs(jerk).max(axis=0))
    quick, slow = (stoppable(trajectory, each, effort) for each in (free, tight))
    common = np.isin(quick.begin, slow.begin)
    assert common.sum() > 20
    assert slow.duration.mean() > 1.2 * quick.duration[common].mean()
    for now in np.arange(0.5, 6.0, 0.37):
        sent = slow.horizon(now, now).trajectory
        acceleration = sent.sample(np.arange(0.0, sent.duration, step)).acceleration
        assert (np.abs(np.diff(acceleration, axis=0)) / step <= 1.001 * tight.jerk).all()


def test_a_short_way_is_sent_whole(robot, limits):
    way = point_to_point(limits.joints, np.zeros(2), np.full(2, 0.01), np.ones(2), np.ones(2))
    short = to_points(way, 50.0)
    stops = stoppable(short, limits, nominal_effort(robot))
    horizon = stops.horizon(0.0, 10.0)
    assert horizon.stop == np.inf and horizon.end == short.duration
    np.testing.assert_array_equal(horizon.trajectory.time, short.time)
    assert stops.rest_within(10.0) == pytest.approx(short.duration)
