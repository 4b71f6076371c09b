# SPDX-License-Identifier: Apache-2.0
"""The last check before commands are sent: what passes follows from what was sent before."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.braking import diverted, stoppable, to_rest
from robot_identification.excitation.command_gate import (
    BEHIND,
    CommandGate,
    CommandLimiter,
    TOLERANCE,
    UnsafeCommandError,
)
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.points import (
    point_to_point,
    PointTrajectory,
    to_points,
)

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
