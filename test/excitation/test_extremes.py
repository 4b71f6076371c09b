# SPDX-License-Identifier: Apache-2.0
"""Extremes of polynomials, and the largest predicted efforts, between the grid's points too."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from numpy.polynomial import Polynomial
import pytest
from robot_identification.excitation.bases import FourierTrajectory, rest_to_rest
from robot_identification.excitation.extremes import check_times, extremes, largest_efforts
from robot_identification.excitation.trajectories import (
    concatenate,
    point_to_point,
    PointTrajectory,
    to_points,
)

ORDERS = range(4)


def path(seed, n=12, joints=2, accelerations=True):
    random = np.random.default_rng(seed)
    time = np.cumsum(random.uniform(0.005, 0.4, n))
    values = random.standard_normal((3, n, joints)) * np.array([1.0, 2.0, 8.0])[:, None, None]
    names = tuple(f'j{i}' for i in range(joints))
    return PointTrajectory(names, time, *values[:2], values[2] if accelerations else None)


def by_roots(trajectory, joint, order):
    """Lowest and highest value by the roots that NumPy finds of each polynomial."""
    values = []
    for begin, end, c in zip(
        trajectory.time, trajectory.time[1:], trajectory.coefficients[:, :, joint], strict=False
    ):
        p = Polynomial(c).deriv(order) if order else Polynomial(c)
        roots = p.deriv().roots()
        real = roots.real[np.abs(roots.imag) < 1e-9]
        inner = real[(real > 0.0) & (real < end - begin)]
        values.extend(p(np.concatenate([[0.0, end - begin], inner])))
    return min(values), max(values)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), accelerations=st.booleans())
def test_extremes_are_those_at_the_roots_of_derivatives(seed, accelerations):
    trajectory = path(seed, accelerations=accelerations)
    found = extremes(trajectory, 500.0)
    for joint in range(2):
        for order in ORDERS:
            low, high = by_roots(trajectory, joint, order)
            size = max(abs(low), abs(high))
            assert found.lowest[order, joint] == pytest.approx(low, abs=1e-9 * size)
            assert found.highest[order, joint] == pytest.approx(high, abs=1e-9 * size)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_the_times_are_those_of_the_extremes_and_no_sample_is_beyond(seed):
    trajectory = path(seed)
    found = extremes(trajectory, 500.0)
    dense = trajectory.sample(np.linspace(0.0, trajectory.duration, 20_001))
    for order, name in enumerate(('position', 'velocity', 'acceleration')):
        samples = getattr(dense, name)
        slack = 1e-9 * np.abs(samples).max()
        assert (samples.max(axis=0) <= found.highest[order] + slack).all()
        assert (samples.min(axis=0) >= found.lowest[order] - slack).all()
        for times, values in (
            (found.highest_time[order], found.highest[order]),
            (found.lowest_time[order], found.lowest[order]),
        ):
            there = getattr(trajectory.sample(times), name).diagonal()
            np.testing.assert_allclose(there, values, atol=1e-6 * np.abs(samples).max())


def test_a_motion_from_rest_to_rest_has_the_extremes_of_its_closed_form():
    distance, limit = 0.7, np.array([1.3])
    way = point_to_point(('a',), np.zeros(1), np.array([distance]), limit, 1e6 * limit)
    found = extremes(way, 250.0)
    T = way.duration
    assert found.highest[0, 0] == pytest.approx(distance)
    assert found.highest[1, 0] == pytest.approx(1.3)
    assert found.highest_time[1, 0] == pytest.approx(0.5 * T, abs=1e-6)
    assert found.highest[2, 0] == pytest.approx(10.0 / np.sqrt(3.0) * distance / T**2)
    assert found.highest[3, 0] == pytest.approx(60.0 * distance / T**3)
    assert found.lowest[3, 0] == pytest.approx(-30.0 * distance / T**3)
    assert found.jump[0] == pytest.approx(0.0, abs=1e-9)


def test_a_jerk_limit_makes_the_way_as_long_as_it_must_be():
    goal, ones = np.array([0.7, -0.2]), np.ones(2)
    jerk = np.array([2.0, 4.0])
    way = point_to_point(('a', 'b'), np.zeros(2), goal, 1e3 * ones, 1e3 * ones, jerk=jerk)
    largest = np.abs(extremes(way, 250.0).largest(3)[0])
    assert largest[0] == pytest.approx(2.0) and largest[1] < 4.0


def test_a_series_is_joined_as_a_controller_would():
    frequency, harmonics = 0.2, 5
    basis = rest_to_rest(5.0, frequency, harmonics)
    x = np.random.default_rng(0).standard_normal((basis.shape[1], 2))
    series = FourierTrajectory(('a', 'b'), 5.0, frequency, np.zeros(2), basis @ x)
    found = extremes(series, 500.0)
    time = np.linspace(0.0, 5.0, 400_001)
    motion = series.sample(time)
    jerk = np.gradient(motion.acceleration, time, axis=0)
    for order, samples in enumerate((motion.position, motion.velocity, motion.acceleration, jerk)):
        size = np.abs(samples).max()
        np.testing.assert_allclose(found.highest[order], samples.max(axis=0), atol=1e-4 * size)
        np.testing.assert_allclose(found.lowest[order], samples.min(axis=0), atol=1e-4 * size)


def test_jumps_of_the_acceleration_are_found_at_points_and_at_both_ends():
    time = np.array([0.0, 1.0, 2.0])
    cubic = PointTrajectory(('a',), time, np.array([[0.0], [1.0], [0.0]]), np.zeros((3, 1)))
    # 6 in the first moment, -6 before and after the middle, 6 at the end
    found = extremes(cubic, 500.0)
    assert found.jump[0] == pytest.approx(6.0)
    moved = np.array([[0.0], [1.0], [1.0]])
    found = extremes(PointTrajectory(('a',), time, moved, np.zeros((3, 1))), 500.0)
    assert found.jump[0] == pytest.approx(6.0)
    last = np.array([[0.0], [0.0], [3.0]])
    ending = PointTrajectory(('a',), time, np.zeros((3, 1)), np.zeros((3, 1)), last)
    found = extremes(ending, 500.0)
    assert (found.jump[0], found.jump_time[0]) == (pytest.approx(3.0), pytest.approx(2.0))


def test_parts_one_after_the_other_keep_their_times():
    first = point_to_point(('a',), np.zeros(1), np.ones(1), np.ones(1), np.ones(1))
    second = point_to_point(('a',), np.ones(1), 3.0 * np.ones(1), np.full(1, 5.0), np.full(1, 9.0))
    found = extremes(concatenate([first, second]), 500.0)
    alone = extremes(second, 500.0)
    assert found.highest[1, 0] == pytest.approx(alone.highest[1, 0])
    assert found.highest_time[1, 0] == pytest.approx(first.duration + alone.highest_time[1, 0])


def test_long_trajectories_are_taken_in_blocks_with_the_same_result():
    n = 9000
    time = np.linspace(0.0, 90.0, n)
    position = np.sin(time)[:, None]
    trajectory = PointTrajectory(
        ('a',), time, position, np.cos(time)[:, None], -np.sin(time)[:, None]
    )
    found = extremes(trajectory, 250.0)
    np.testing.assert_allclose(found.highest[:3, 0], 1.0, atol=1e-9)
    # the beginning and the end are not at rest: no other point has a jump
    assert found.jump[0] == pytest.approx(abs(np.sin(90.0)))
    assert found.jump_time[0] == pytest.approx(90.0)


def ramp(duration=2.0):
    """Return a trajectory whose position is the time, so that states tell the time."""
    time = np.array([0.0, duration])
    return PointTrajectory(
        ('a',), time, time[:, None], np.ones((2, 1)), np.zeros((2, 1))
    )  # fmt: skip


def counted(function):
    looks = []

    def effort(motion):
        looks.append(len(motion))
        return function(motion.position)

    return effort, looks


@settings(max_examples=60)
@given(
    middle=st.floats(0.05, 1.95),
    width=st.floats(0.006, 0.5),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_a_peak_between_two_looks_is_found(middle, width, sign):
    # the peak is 1, the grid of 250 Hz sees less of it where it is narrow
    def peak(t):
        return sign * (0.2 + 0.8 * np.exp(-0.5 * ((t - middle) / width) ** 2))

    trajectory = ramp()
    grid = peak(check_times(trajectory, 250.0))
    seen = np.abs(grid).max()
    limit = np.array([0.5 * (1.0 + seen)])
    values, times = largest_efforts(trajectory, counted(peak)[0], limit, 250.0)
    if seen < 1.0 - 1e-7:
        assert abs(values[0]) > limit[0]
    assert np.sign(values[0]) == sign
    assert times[0] == pytest.approx(middle, abs=0.004)


def test_far_from_the_limit_nothing_is_looked_at_twice():
    effort, looks = counted(lambda t: np.sin(20.0 * t))
    values, _ = largest_efforts(ramp(), effort, np.array([1.5]), 500.0)
    assert abs(values[0]) == pytest.approx(1.0, abs=1e-3)
    assert sum(looks) == check_times(ramp(), 500.0).size


def test_a_jump_of_friction_near_the_limit_is_no_peak():
    # 0.6 before and 0.9 after: the jump itself is never above 0.9
    def friction(t):
        return 0.75 + 0.15 * np.sign(t - 1.0003)

    effort, looks = counted(friction)
    values, _ = largest_efforts(ramp(), effort, np.array([0.91]), 500.0)
    assert values[0] == pytest.approx(0.9)
    assert 3 * 8 <= sum(looks[1:]) <= 200


def test_long_trajectories_have_no_gap_between_blocks():
    trajectory = ramp(20.0)
    times = check_times(trajectory, 250.0)
    for place in (4095, 4096, 4097, 4098):
        middle = 0.5 * (times[place] + times[place + 1])

        def peak(t, middle=middle):
            return np.exp(-0.5 * ((t - middle) / 0.004) ** 2)

        values, when = largest_efforts(trajectory, counted(peak)[0], np.array([0.95]), 250.0)
        assert values[0] > 0.95 and when[0] == pytest.approx(middle, abs=1e-3)


@pytest.mark.parametrize(
    ('duration', 'harmonics'),
    [(0.5, 11), pytest.param(2.0, 100, marks=pytest.mark.soak), (5.0, 20)],
)
def test_fast_series_and_the_points_that_stand_for_them_hide_nothing(duration, harmonics):
    free = rest_to_rest(duration, 1.0 / duration, harmonics)
    rng = np.random.default_rng(harmonics)
    coefficients = free @ rng.normal(size=(free.shape[1], 2))
    # all of it in the highest harmonics, where interpolation is worst
    coefficients *= np.where(np.arange(2 * harmonics) % harmonics < 0.7 * harmonics, 1e-3, 1.0)[
        :, None
    ]
    series = FourierTrajectory(('a', 'b'), duration, 1.0 / duration, np.zeros(2), coefficients)
    dense = series.sample(np.linspace(0.0, duration, 400_001))
    points = to_points(series, 100.0)
    for found in (extremes(series, 500.0), extremes(points, 500.0)):
        for order, values in enumerate((dense.position, dense.velocity, dense.acceleration)):
            largest = np.abs(values).max(axis=0)
            np.testing.assert_allclose(np.abs(found.largest(order)[0]), largest, rtol=1e-5)
    # what a controller makes of the points, at its own rate
    sent = points.sample(np.linspace(0.0, duration, 100_001))
    limit = np.abs(dense.acceleration).max(axis=0)
    assert (np.abs(sent.acceleration) <= (1.0 + 5e-6) * limit).all()
