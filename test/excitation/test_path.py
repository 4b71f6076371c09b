"""Times from point to point: every allowed one and no other, whatever the peaks do."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.extremes import extremes
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.path import (
    allowed_times,
    shortest_times,
    trajectory_through,
)
from robot_identification.excitation.sequence import WaypointSet

GRID = np.linspace(0.0, 1.0, 2001)


def limits(velocity=1.0, acceleration=4.0, room=2.0, n=1, jerk=np.inf):
    ones = np.ones(n)
    return Limits(
        joints=tuple(f'joint_{i + 1}' for i in range(n)),
        units=('rad',) * n,
        lower=-room * ones,
        upper=room * ones,
        velocity=velocity * ones,
        acceleration=acceleration * ones,
        effort=np.inf * ones,
        jerk=jerk * ones,
    )


def dense(start, end, time):
    """Sample the quintic by its printed coefficients, equation (28)."""
    (qa, va), (qb, vb) = start, end
    A, t = qb - qa, time * GRID
    a3 = 10 * A / time**3 - (6 * va + 4 * vb) / time**2
    a4 = -15 * A / time**4 + (8 * va + 7 * vb) / time**3
    a5 = 6 * A / time**5 - 3 * (va + vb) / time**4
    q = qa + va * t + a3 * t**3 + a4 * t**4 + a5 * t**5
    v = va + 3 * a3 * t**2 + 4 * a4 * t**3 + 5 * a5 * t**4
    jerk = 6 * a3 + 24 * a4 * t + 60 * a5 * t**2
    return q, v, 6 * a3 * t + 12 * a4 * t**2 + 20 * a5 * t**3, jerk


def kept(start, end, time, bound, slack):
    q, v, a, j = dense(start, end, time)
    more = 1.0 + slack
    if np.abs(j).max() > more * bound.jerk[0]:
        return False
    return (
        np.abs(q).max() <= bound.upper[0] + slack
        and np.abs(v).max() <= more * bound.velocity[0]
        and np.abs(a).max() <= more * bound.acceleration[0]
    )


positions, speeds = st.floats(-2.0, 2.0), st.floats(-1.0, 1.0)


@settings(max_examples=40)
@given(
    qa=positions,
    qb=positions,
    va=speeds,
    vb=speeds,
    acceleration=st.floats(0.5, 20.0),
    jerk=st.one_of(st.just(np.inf), st.floats(1.0, 1000.0)),
)
def test_allowed_times_are_those_of_a_scan(qa, qb, va, vb, acceleration, jerk):
    bound = limits(acceleration=acceleration, jerk=jerk)
    start, end = (qa, va), (qb, vb)
    intervals = allowed_times(np.array([[qa], [va]]), np.array([[qb], [vb]]), bound)
    for time in np.geomspace(0.011, 80.0, 100):
        inside = any(low <= time <= high for low, high in intervals)
        # next to a limit, the scan is too coarse to tell
        if inside:
            assert kept(start, end, time, bound, 1e-6), time
        else:
            near = any(abs(time / edge - 1.0) < 1e-3 for pair in intervals for edge in pair)
            assert near or not kept(start, end, time, bound, -1e-4), time


def test_peaks_of_the_example_are_not_monotone():
    points = WaypointSet(np.array([[0.0], [1.0]]), np.array([[1.0], [1.0]]))
    ways = [trajectory_through(points, [time], limits()) for time in (0.5, 1.0, 2.0)]
    peaks = [abs(extremes(way, 250.0).largest(2)[0][0]) for way in ways]
    for peak, time in zip(peaks, (0.5, 1.0, 2.0), strict=True):
        _, _, a, _ = dense((0.0, 1.0), (1.0, 1.0), time)
        assert peak == pytest.approx(np.abs(a).max(), abs=1e-5)
    assert peaks == pytest.approx(
        [20.0 / np.sqrt(3.0), 0.0, 25.0 / (10.0 * np.sqrt(3.0))], abs=1e-12
    )


def test_several_intervals_are_found_and_the_shortest_time_is_in_the_first():
    bound = limits(acceleration=1.0, room=50.0)
    start, end = np.array([[0.0], [1.0]]), np.array([[1.0], [1.0]])
    intervals = allowed_times(start, end, bound)
    assert len(intervals) == 2
    assert intervals[0][0] == pytest.approx(1.0)
    gap = 0.5 * (intervals[0][1] + intervals[1][0])
    assert not kept((0.0, 1.0), (1.0, 1.0), gap, bound, 1e-3)
    sequence = WaypointSet(np.array([[0.0], [1.0]]), np.array([[1.0], [1.0]]))
    assert shortest_times(sequence, bound) == pytest.approx([1.0])


def test_a_limit_is_reached_exactly_and_not_passed():
    random = np.random.default_rng(3)
    bound = limits(n=3, acceleration=5.0, room=3.0)
    points = WaypointSet(random.uniform(-1.0, 1.0, (12, 3)), random.uniform(-0.5, 0.5, (12, 3)))
    times = shortest_times(points, bound)
    assert np.isfinite(times).all()
    path = trajectory_through(points, times, bound)
    for begin, time in zip(path.time[:-1], times, strict=True):
        motion = path.sample(begin + time * GRID)
        use = max(np.abs(motion.velocity).max() / 1.0, np.abs(motion.acceleration).max() / 5.0)
        assert use == pytest.approx(1.0, abs=1e-5)
        assert use <= 1.0 + 1e-9


def test_a_jerk_limit_is_reached_exactly_and_not_passed():
    random = np.random.default_rng(4)
    bound = limits(n=3, acceleration=500.0, velocity=50.0, room=3.0, jerk=30.0)
    points = WaypointSet(random.uniform(-1.0, 1.0, (12, 3)), random.uniform(-0.2, 0.2, (12, 3)))
    times = shortest_times(points, bound)
    for i, time in enumerate(times):
        ends = zip(points.position[i], points.velocity[i], strict=True)
        others = zip(points.position[i + 1], points.velocity[i + 1], strict=True)
        peaks = [np.abs(dense(a, b, time)[3]).max() for a, b in zip(ends, others, strict=True)]
        assert max(peaks) == pytest.approx(30.0, abs=1e-3)


def test_speeds_at_the_limit_can_be_kept():
    bound = limits(room=10.0)
    start, end = np.array([[0.0], [1.0]]), np.array([[3.0], [1.0]])
    (low, high), *_ = allowed_times(start, end, bound)
    assert kept((0.0, 1.0), (3.0, 1.0), low * (1.0 + 1e-9), bound, 1e-9)
    assert not kept((0.0, 1.0), (3.0, 1.0), 0.99 * low, bound, 1e-6)
    assert high > low


def test_points_that_rest_in_one_place_take_next_to_no_time():
    zero = np.zeros((2, 1))
    assert allowed_times(zero, zero, limits())[0][0] == pytest.approx(0.01)


def test_a_way_that_cannot_be_has_no_time():
    # at full speed towards a limit that is near
    sequence = WaypointSet(np.array([[0.0, 1.95], [0.5, 1.9]]), np.array([[0.1, 1.0], [0.1, 1.0]]))
    assert np.isnan(shortest_times(sequence, limits(n=2))).all()
