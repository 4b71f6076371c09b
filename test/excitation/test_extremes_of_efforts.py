# SPDX-License-Identifier: Apache-2.0
"""The largest predicted efforts: between the grid's points, at jumps of friction, and when."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.extremes import check_times, largest_efforts
from robot_identification.excitation.points import PointTrajectory


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


@settings(max_examples=60, deadline=None)
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
