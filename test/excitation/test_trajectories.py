# SPDX-License-Identifier: Apache-2.0
"""Trajectories: derivatives against finite differences, ends at rest, exact joins."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import ExcitationError
from robot_identification.excitation.bases import FourierTrajectory, rest_to_rest
from robot_identification.excitation.trajectories import (
    concatenate,
    point_to_point,
    PointTrajectory,
    to_points,
    Trajectory,
)
from scipy.interpolate import BPoly

JOINTS = ('a', 'b', 'c')


def fourier(seed=0, duration=10.0, frequency=0.1, harmonics=5):
    rng = np.random.default_rng(seed)
    basis = rest_to_rest(duration, frequency, harmonics)
    coefficients = basis @ rng.standard_normal((basis.shape[1], 3))
    return FourierTrajectory(JOINTS, duration, frequency, rng.uniform(-1, 1, 3), coefficients)


def points(seed=0, acceleration=True):
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.uniform(0.2, 0.6, 8))
    a = rng.standard_normal((8, 3)) if acceleration else None
    return PointTrajectory(JOINTS, time, *rng.standard_normal((2, 8, 3)), a)


ALL = [
    fourier(),
    fourier(duration=7.3, frequency=0.1),
    points(),
    points(acceleration=False),
    point_to_point(JOINTS, np.zeros(3), np.array([1.0, -2.0, 0.5]), np.ones(3), np.ones(3)),
]


def assert_consistent(trajectory, time, tolerance):
    step = 1e-5
    here, before, after = (trajectory.sample(time + shift) for shift in (0.0, -step, step))
    for value, rate in (('position', 'velocity'), ('velocity', 'acceleration')):
        difference = (getattr(after, value) - getattr(before, value)) / (2.0 * step)
        np.testing.assert_allclose(getattr(here, rate), difference, atol=tolerance)


@pytest.mark.parametrize('trajectory', ALL)
def test_derivatives_are_those_of_the_positions(trajectory):
    assert isinstance(trajectory, Trajectory)
    time = np.linspace(1e-3, trajectory.duration - 1e-3, 333)
    if isinstance(trajectory, PointTrajectory):
        # away from the knots, where the third derivative jumps (cubic: the second)
        time = time[np.abs(time[:, None] - trajectory.time).min(axis=1) > 1e-3]
    assert_consistent(trajectory, time, 1e-6)


@pytest.mark.parametrize('trajectory', ALL)
def test_it_rests_outside_its_duration(trajectory):
    motion = trajectory.sample(np.array([-1.0, trajectory.duration + 1.0]))
    ends = trajectory.sample(np.array([0.0, trajectory.duration]))
    np.testing.assert_array_equal(motion.position, ends.position)
    assert not motion.velocity.any() and not motion.acceleration.any()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    duration=st.floats(2.0, 40.0),
    periods=st.one_of(st.integers(1, 5).map(float), st.floats(0.7, 5.0)),
    harmonics=st.integers(3, 12),
)
def test_a_series_starts_and_ends_at_rest(seed, duration, periods, harmonics):
    trajectory = fourier(seed, duration, periods / duration, harmonics)
    ends = trajectory.sample(np.array([0.0, duration]))
    scale = np.abs(trajectory.coefficients).sum(axis=0).max()
    highest = 2.0 * np.pi * trajectory.frequency * harmonics
    np.testing.assert_allclose(ends.position[0], trajectory.start, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(ends.velocity, 0.0, atol=1e-8 * scale)
    np.testing.assert_allclose(ends.acceleration, 0.0, atol=1e-8 * scale * highest)


def test_whole_periods_keep_all_free_coefficients_and_return_to_the_start():
    # 2 M coefficients less velocity and acceleration at the start; the end is the start again
    assert rest_to_rest(10.0, 0.1, 5).shape == (10, 8)
    assert rest_to_rest(20.0, 0.1, 5).shape == (10, 8)
    assert rest_to_rest(7.3, 0.1, 5).shape == (10, 6)
    trajectory = fourier(3)
    end = trajectory.sample(np.array([10.0])).position[0]
    np.testing.assert_allclose(end, trajectory.start, atol=1e-12)


def test_too_few_harmonics_are_refused():
    with pytest.raises(ExcitationError, match='1 harmonics leave no motion') as caught:
        rest_to_rest(10.0, 0.1, 1)
    assert caught.value.key == 'harmonics'


def test_points_are_interpolated_by_the_quintic_that_scipy_makes():
    trajectory = points(5)
    data = np.stack([trajectory.position, trajectory.velocity, trajectory.acceleration], axis=1)
    reference = BPoly.from_derivatives(np.array(trajectory.time), data)
    time = np.linspace(0.0, trajectory.duration, 500)
    motion = trajectory.sample(time)
    np.testing.assert_allclose(motion.position, reference(time), atol=1e-11)
    np.testing.assert_allclose(motion.velocity, reference.derivative()(time), atol=1e-9)
    np.testing.assert_allclose(motion.acceleration, reference.derivative(2)(time), atol=1e-8)


def test_without_accelerations_points_are_interpolated_by_cubics():
    trajectory = points(6, acceleration=False)
    data = np.stack([trajectory.position, trajectory.velocity], axis=1)
    reference = BPoly.from_derivatives(np.array(trajectory.time), data)
    time = np.linspace(0.0, trajectory.duration, 500)
    np.testing.assert_allclose(trajectory.sample(time).position, reference(time), atol=1e-12)


@pytest.mark.parametrize(
    ('fault', 'words'),
    [
        ({'time': [0.0, 1.0, 1.0]}, 'point 2 is 1 s after 1 s'),
        ({'time': [0.0, 1.0, np.nan]}, 'point 2'),
        ({'time': [0.0]}, '1 point'),
        ({'velocity': np.zeros((3, 2))}, 'velocity has shape'),
        ({'position': np.array([[0, 0, 0], [0, np.nan, 0], [0, 0, 0]])}, "joint 'b' in point 1"),
    ],
)
def test_contradictory_points_are_refused(fault, words):
    values = {'time': [0.0, 1.0, 2.0], 'position': np.zeros((3, 3)), 'velocity': np.zeros((3, 3))}
    with pytest.raises(ExcitationError, match=words):
        PointTrajectory(JOINTS, **{**values, **fault})


@settings(max_examples=50)
@given(seed=st.integers(0, 10_000))
def test_a_way_from_point_to_point_is_as_quick_as_the_limits_allow(seed):
    rng = np.random.default_rng(seed)
    start, goal = rng.uniform(-3, 3, (2, 3))
    velocity, acceleration = rng.uniform(0.5, 3.0, 3), rng.uniform(0.5, 10.0, 3)
    trajectory = point_to_point(JOINTS, start, goal, velocity, acceleration)
    motion = trajectory.sample(np.linspace(0.0, trajectory.duration, 2001))
    np.testing.assert_allclose(motion.position[[0, -1]], [start, goal], atol=1e-12)
    use = max(
        (np.abs(motion.velocity) / velocity).max(),
        (np.abs(motion.acceleration) / acceleration).max(),
    )
    assert use == pytest.approx(1.0, abs=1e-3)
    assert use <= 1.0 + 1e-9


def test_concatenated_trajectories_follow_each_other():
    first = point_to_point(JOINTS, np.zeros(3), np.ones(3), np.ones(3), np.ones(3))
    second = point_to_point(JOINTS, np.ones(3), np.full(3, 3.0), np.ones(3), np.ones(3))
    both = concatenate([first, second])
    assert both.duration == pytest.approx(first.duration + second.duration)
    time = np.linspace(0.0, second.duration, 20)
    np.testing.assert_allclose(
        both.sample(first.duration + time).position, second.sample(time).position, atol=1e-9
    )
    np.testing.assert_array_equal(both.sample(time[:3]).position, first.sample(time[:3]).position)
    assert concatenate([first]) is first


def test_what_does_not_fit_is_not_concatenated():
    first = point_to_point(JOINTS, np.zeros(3), np.ones(3), np.ones(3), np.ones(3))
    other = point_to_point(JOINTS, np.array([1.0, 1.2, 1.0]), np.ones(3), np.ones(3), np.ones(3))
    with pytest.raises(ExcitationError, match="position of joint 'b' jumps by 0.2") as caught:
        concatenate([first, other])
    assert caught.value.joint == 'b'
    renamed = point_to_point(('a', 'b', 'd'), np.ones(3), np.ones(3), np.ones(3), np.ones(3))
    with pytest.raises(ExcitationError, match='different joints'):
        concatenate([first, renamed])
    cubic = PointTrajectory(JOINTS, first.time, 1.0 + first.position, first.velocity)
    with pytest.raises(ExcitationError, match='part 0 or 1 has no accelerations'):
        concatenate([first, cubic])
    with pytest.raises(ExcitationError, match='no trajectory'):
        concatenate([])


def test_points_for_a_controller_end_exactly_at_rest_and_miss_little():
    trajectory = fourier(duration=7.3, frequency=0.1, harmonics=5)
    made = to_points(trajectory, 50.0)
    assert made.time[-1] == trajectory.duration and len(made.time) == 366
    for row in (0, -1):
        assert not made.velocity[row].any()
        assert not made.acceleration[row].any()
    time = np.linspace(0.0, 7.3, 5000)
    again = made.sample(time)
    np.testing.assert_allclose(again.position, trajectory.sample(time).position, atol=1e-8)
