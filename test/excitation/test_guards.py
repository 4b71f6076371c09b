# SPDX-License-Identifier: Apache-2.0
"""Commands and joint states: what is passed on, and that nothing else is."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.braking import diverted, stoppable, to_rest
from robot_identification.excitation.guards import (
    BEHIND,
    CommandGate,
    CommandLimiter,
    POSITION_SLACK,
    state_bounds,
    StateMonitor,
    TOLERANCE,
    UnsafeCommandError,
)
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import point_to_point, PointTrajectory, to_points
from robot_identification.model.robot import Robot

JOINTS = ('a', 'b')
LIMITS = Limits(
    JOINTS,
    ('rad', 'rad'),
    np.full(2, -2.0),
    np.full(2, 2.0),
    np.array([1.0, 2.0]),
    np.array([5.0, 8.0]),
    np.full(2, np.inf),
)


def path(seed):
    """Return a path from rest to rest that uses its limits."""
    places = np.random.default_rng(seed).uniform(-1.5, 1.5, (2, 2))
    way = point_to_point(JOINTS, *places, LIMITS.velocity, 0.9 * LIMITS.acceleration)
    return to_points(way, 50.0)


def no_effort(motion):
    return np.zeros_like(motion.position)


def gate_at(seed, elapsed, length=0.5):
    """Return a gate whose last trajectory is a horizon of a path, and the path."""
    stops = stoppable(path(seed), LIMITS, no_effort)
    gate = CommandGate(LIMITS, stops.path.position[0])
    gate.admit(stops.horizon(0.0, length).trajectory, -0.2)
    for time in np.arange(0.0, elapsed, 0.2):
        gate.admit(stops.horizon(time, time + length).trajectory, time)
    return gate, stops


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 500), st.floats(0.0, 1.0))
def test_horizons_of_a_path_and_every_stop_on_it_pass(seed, share):
    gate, stops = gate_at(seed, share * path(seed).duration)
    elapsed = share * stops.path.duration
    gate.admit(stops.horizon(elapsed - 0.02, elapsed + 0.05).trajectory, elapsed)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 500), st.floats(0.05, 0.95), st.booleans())
def test_a_stop_off_the_path_passes_where_it_follows_from_it(seed, share, aimed):
    elapsed = share * path(seed).duration
    gate, _ = gate_at(seed, elapsed)
    begin = elapsed + 0.05
    state = gate.reference.state(begin)[:, 0]
    stop = to_rest(LIMITS, state, state[0] - 0.05 if aimed else None)
    if begin < gate.reference.end and stop is not None:
        gate.admit(diverted(gate.reference, begin, stop, 50.0), elapsed)
        rest = gate.reference.state(np.array([begin + stop.duration + 1.0]))
        assert not rest[1].any()
        if aimed:
            np.testing.assert_allclose(rest[0, 0], state[0] - 0.05, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 500), st.floats(0.05, 0.9), st.floats(0.01, 3.0), st.integers(0, 3))
def test_nothing_passes_that_would_be_a_leap(seed, share, size, kind):
    elapsed = share * path(seed).duration
    gate, stops = gate_at(seed, elapsed)
    good = stops.horizon(elapsed - 0.02, elapsed + 0.5).trajectory
    former, time = gate.reference, good.begin + good.time
    here, off = former.state(elapsed)[0, 0], np.array([0.0, size])
    if kind == 0:  # beside the path
        wrong = PointTrajectory(
            JOINTS, time, good.position + off, good.velocity, good.acceleration
        )
    elif kind == 1:  # at rest elsewhere, from now on
        wrong = still(elapsed + np.array([-0.05, 1.0]), here + off)
    elif kind == 2:  # later on the path than it is
        wrong = PointTrajectory(
            JOINTS, time - size, good.position, good.velocity, good.acceleration
        )
        if (np.abs(former.state(elapsed)[0] - wrong.state(elapsed)[0]) < 0.01).all():
            return  # near its end or begin the path hardly moves
    else:  # from elsewhere, a little later
        wrong = still(elapsed + np.array([0.1, 1.1]), here + off)
    with pytest.raises(UnsafeCommandError, match='command refused'):
        gate.admit(wrong, elapsed)
    assert gate.reference is former


def still(time, place):
    """Return a trajectory that rests in one place."""
    rest = np.zeros((2, 2))
    return PointTrajectory(JOINTS, time, np.tile(place, (2, 1)), rest, rest)


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'position': [[0.0, 0.0], [2.1, 0.0]], 'time': [0.0, 9.0]}, 'position of joint'),
        ({'position': [[0.0, 0.0], [1.0, 0.0]], 'time': [0.0, 1.5]}, 'velocity of joint'),
        ({'position': [[0.0, 0.0], [0.5, 0.0]], 'time': [0.0, 0.72]}, "of joint 'a'"),
        ({'velocity': [[0.0, 0.0], [0.1, 0.0]]}, 'does not end'),
        ({'position': [[0.3, 0.0], [0.4, 0.0]]}, 'would leap'),
        ({'joints': ('b', 'a')}, 'not those of the limits'),
    ],
)
def test_limits_rest_and_numbers_are_required(change, words):
    values = {
        'joints': JOINTS,
        'time': [0.0, 5.0],
        'position': [[0.0, 0.0], [0.5, 0.5]],
        'velocity': np.zeros((2, 2)),
        'acceleration': np.zeros((2, 2)),
        **change,
    }
    with pytest.raises(UnsafeCommandError, match=words):
        CommandGate(LIMITS, np.zeros(2)).admit(PointTrajectory(**values), -0.05)


def test_a_first_point_that_is_still_to_come_needs_its_time():
    points = to_points(point_to_point(JOINTS, [0.5, 0.0], [1.0, 0.0], [0.5] * 2, [2.0] * 2), 50.0)
    needed = max(0.5 * 15 / 8 / (1.05 * 1.0), np.sqrt(0.5 * 10 / np.sqrt(3) / (1.05 * 5.0)))
    gate = CommandGate(LIMITS, np.zeros(2))
    with pytest.raises(UnsafeCommandError, match='would leap'):
        gate.admit(points, -0.99 * needed)
    gate.admit(points, -1.01 * needed)


def test_where_the_controller_pauses_a_place_on_the_path_may_be_held():
    gate, stops = gate_at(3, 0.6)
    place = gate.reference.state(0.6)[0, 0]
    stay = still([0.55, 1.6], place)
    with pytest.raises(UnsafeCommandError):
        gate.admit(stay, 0.6)
    gate.admit(stay, 0.6, speed=0.0)


# ----------------------------------------------------------------------------------------- streams

PERIOD = 0.004


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 500), st.floats(0.0, 0.3))
def test_commands_of_a_path_pass_a_limiter_as_they_are(seed, jitter):
    way = path(seed)
    random = np.random.default_rng(seed)
    steps = PERIOD * (1.0 + jitter * random.uniform(-1.0, 1.0, int(way.duration / PERIOD)))
    motion = way.sample(np.cumsum(steps))
    limiter = CommandLimiter(LIMITS, way.position[0])
    for wanted, step in zip(motion.position, steps, strict=True):
        np.testing.assert_allclose(limiter.position(wanted, step, PERIOD), wanted, atol=1e-3)
    limiter = CommandLimiter(LIMITS, way.position[0])
    for wanted, step in zip(motion.velocity, steps, strict=True):
        np.testing.assert_allclose(limiter.velocity(wanted, step, PERIOD), wanted, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.booleans(), st.floats(0.0, 1.5), st.sampled_from([0.0, np.nan]))
def test_no_command_leaves_a_limiter_beyond_the_limits(seed, velocity, size, bad):
    random = np.random.default_rng(seed)
    limiter = CommandLimiter(LIMITS, np.zeros(2))
    sent, before, former = [np.zeros(2)], np.zeros(2), 0.0
    for k in range(400):
        if k % 50 == 0:
            wanted = size * random.uniform(-1.5, 1.5, 2)
            if bad != 0.0 and k % 100 == 0 and velocity:
                wanted[0] = bad
        step = PERIOD * random.uniform(0.5, 3.0)
        command = (limiter.velocity if velocity else limiter.position)(wanted, step, PERIOD)
        taken = min(step, BEHIND * PERIOD)
        speed = command if velocity else (command - sent[-1]) / taken
        assert (np.abs(speed) <= TOLERANCE * LIMITS.velocity * (1.0 + 1e-9)).all()
        apart = taken if velocity else 0.5 * (taken + former)
        assert (np.abs(speed - before) <= TOLERANCE * LIMITS.acceleration * apart + 1e-9).all()
        sent.append(command)
        before, former = speed, taken
    if not velocity:
        assert (np.abs(np.array(sent)) <= 2.0).all()


def test_a_place_that_stands_still_is_reached_and_kept():
    limiter = CommandLimiter(LIMITS, np.zeros(2))
    places = np.array(
        [limiter.position(np.array([1.0, -1.0]), PERIOD, PERIOD) for _ in range(900)]
    )
    np.testing.assert_allclose(places[-1], [1.0, -1.0], atol=1e-3)
    assert np.abs(places).max() < 1.02


def test_a_path_may_begin_anywhere_in_time():
    way = path(1)
    later = PointTrajectory(JOINTS, 7.0 + way.time, way.position, way.velocity, way.acceleration)
    gate = CommandGate(LIMITS, way.position[0])
    gate.admit(later, 6.9)
    np.testing.assert_allclose(gate.reference.state(7.5)[0, 0], way.sample([0.5]).position[0])


BOUNDS = Limits(
    ('a', 'b'),
    ('rad', 'rad'),
    np.full(2, -2.0),
    np.full(2, 2.0),
    np.array([1.0, 3.0]),
    np.array([5.0, 12.0]),
    np.full(2, np.inf),
)


def motion(seed, rate, seconds=4.0):
    """Return stamps and positions of a motion that uses its limits, from a random state."""
    random = np.random.default_rng(seed)
    step = 1.0 / rate
    q, v = random.uniform(-1.5, 1.5, 2), np.zeros(2)
    places = []
    for _ in range(round(seconds * rate)):
        a = random.choice([-1.0, 1.0], 2) * BOUNDS.acceleration
        v = np.clip(v + a * step, -BOUNDS.velocity, BOUNDS.velocity)
        v = np.where(np.abs(q + v * step) > 2.0, 0.0, v)  # it strikes its end stop
        q = q + v * step
        places.append(q)
    return 1.0 + step * np.arange(len(places)), np.array(places)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from([20.0, 100.0, 500.0]),
    st.floats(0.3, 3.0),
    st.floats(0.0, 0.02),
)
def test_a_motion_within_the_limits_is_accepted_at_any_rate_of_time(seed, rate, speed, late):
    monitor = StateMonitor(BOUNDS)
    stamps, places = motion(seed, rate)
    random = np.random.default_rng(seed)
    places = places + random.uniform(-0.005, 0.005, places.shape)
    # a simulation's time passes at another speed, and messages come late
    arrivals = 50.0 + stamps / speed + late * random.random(stamps.size)
    for stamp, arrival, place in zip(stamps, arrivals, places, strict=True):
        assert monitor.fault(stamp, arrival, place) == ''
    # and so where there are no stamps
    monitor = StateMonitor(BOUNDS)
    for stamp, place in zip(stamps, places, strict=True):
        assert monitor.fault(np.nan, stamp, place) == ''


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([100.0, 500.0]), st.floats(0.15, 3.0))
def test_a_leap_is_not(seed, rate, leap):
    monitor = StateMonitor(BOUNDS)
    stamps, places = motion(seed, rate, 1.0)
    for stamp, place in zip(stamps, places, strict=True):
        assert not monitor.fault(stamp, stamp, place)
    step = 1.0 / rate
    away = places[-1] + leap * np.array([0.0, -np.sign(places[-1, 1])])
    fault = monitor.fault(stamps[-1] + step, stamps[-1] + step, away)
    assert "joint 'b'" in fault and ('farther' in fault or 'outside' in fault)
    # the robot goes on where it was
    assert not monitor.fault(stamps[-1] + step, stamps[-1] + step, places[-1])


@pytest.mark.parametrize(
    ('stamp', 'arrival', 'words'),
    [
        (1.99, 2.01, '0.01 s before'),
        (2.3, 2.01, '0.3 s after'),
        (np.nan, 2.01, 'others have none'),
        (2.01, 2.01, ''),
        (2.01, 2.5, ''),
    ],
)
def test_stamps_that_do_not_fit_are_not_accepted(stamp, arrival, words):
    monitor = StateMonitor(BOUNDS)
    for time in np.linspace(1.0, 2.0, 101):
        assert not monitor.fault(time, time, np.zeros(2))
    fault = monitor.fault(stamp, arrival, np.zeros(2))
    assert words in fault and bool(words) == bool(fault)


@pytest.mark.parametrize('rate', [100.0, 1000.0])
def test_a_state_that_was_published_late_does_not_discredit_those_that_follow(rate):
    """A controller's thread that publishes may be held up while its stamps go on."""
    monitor = StateMonitor(BOUNDS)
    for stamp in np.arange(round(rate)) / rate:
        assert not monitor.fault(stamp, stamp, np.zeros(2))
    late = 1.0
    assert not monitor.fault(late, late + 0.3, np.zeros(2))
    for stamp in late + 0.3 + np.arange(1, 50) / rate:
        assert not monitor.fault(stamp, stamp, np.zeros(2))


@pytest.mark.parametrize('rate', [50.0, 250.0, 1000.0])
def test_a_stamp_that_is_ahead_is_not_accepted_at_any_rate(rate):
    monitor = StateMonitor(BOUNDS)
    times = np.arange(round(rate)) / rate
    for stamp in times:
        assert not monitor.fault(stamp, stamp, np.zeros(2))
    now = times[-1] + 1.0 / rate
    assert '0.3' in monitor.fault(now + 0.3, now, np.zeros(2))
    assert not monitor.fault(now, now, np.zeros(2))


def test_position_limits_hold_for_the_first_state_too():
    monitor = StateMonitor(BOUNDS)
    assert "joint 'a' is at 4.5" in monitor.fault(1.0, 1.0, np.array([4.5, 0.0]))
    assert not monitor.fault(1.0, 1.0, np.array([2.0 + 0.9 * POSITION_SLACK, 0.0]))


def test_a_robot_without_velocity_limits_is_not_bounded():
    urdf = Path(__file__).resolve().parents[2] / 'urdf' / 'delta.urdf'
    bounds = state_bounds(Robot.from_urdf(urdf), PlannerSettings())
    assert np.isinf(bounds.velocity).all()
    monitor = StateMonitor(bounds)
    zero = np.zeros(len(bounds.joints))
    assert not monitor.fault(1.0, 1.0, zero)
    assert not monitor.fault(1.01, 1.01, zero + 0.5)
