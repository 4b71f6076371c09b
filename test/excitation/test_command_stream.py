# SPDX-License-Identifier: Apache-2.0
"""Single commands out of a motion, and the clock that they are timed by."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.command_stream import (
    CATCH_UP,
    CATCH_UP_TIME,
    CommandStream,
    FEEDBACK_TIME,
    HELD_UP,
    LARGEST_ERROR,
    PACE_SLEW,
    StampedClock,
)
from robot_identification.excitation.trajectories import point_to_point, PointTrajectory

JOINTS = ('a', 'b')
HERE = np.array([0.1, -0.2])
PATH = point_to_point(JOINTS, HERE, [0.7, 0.4], [0.5, 0.5], [2.0, 2.0])


# ------------------------------------------------------------------------------------------ clock


@settings(max_examples=15, deadline=None)
@given(st.floats(0.3, 3.0), st.floats(0.0, 0.002), st.integers(0, 2**31))
def test_the_clock_keeps_to_stamps_of_any_speed_and_runs_evenly(rate, late, seed):
    random = np.random.default_rng(seed)
    clock = StampedClock(100.0, 5.0)
    shown = []
    for wall in np.arange(5.0, 8.0, 0.005):
        # each stamp is up to ``late`` old when it arrives
        clock.correct(100.0 + rate * (wall - 5.0), wall + late * random.random())
        shown.append(clock.at(wall))
    assert shown[-1] == pytest.approx(100.0 + rate * (wall - 5.0), abs=rate * late + 1e-3)
    steps = np.diff(shown[400:])
    np.testing.assert_allclose(steps, 0.005 * rate, atol=0.1 * 0.005 * rate + 0.2 * rate * late)


def test_the_clock_goes_on_without_stamps_and_leaps_with_them():
    clock = StampedClock(10.0, 0.0)
    for wall in np.arange(0.0, 1.0, 0.01):
        clock.correct(10.0 + wall, wall)
    assert clock.at(3.0) == pytest.approx(13.0, abs=1e-6)
    clock.correct(500.0, 3.0)
    assert clock.at(3.0) == 500.0


def test_the_clock_never_goes_back_by_itself():
    clock = StampedClock(10.0, 0.0)
    for wall in np.arange(0.0, 3.0, 0.01):
        # slow stamps that are set back a little, and then stand still
        clock.correct(10.0 + 0.3 * min(wall, 2.0) - 0.4 * (wall > 1.0), wall)
        # were this the last stamp
        assert clock.at(wall + 5.0) >= clock.at(wall)
    assert clock.at(wall) == pytest.approx(10.2, abs=0.02)


def test_a_stamp_that_is_overtaken_by_another_drives_the_clock_nowhere():
    clock = StampedClock(10.0, 0.0)
    clock.correct(11.0, 1.0)
    before = clock.at(2.0)
    clock.correct(11.1, 0.9)
    assert clock.at(2.0) == pytest.approx(before, abs=1e-9)


def test_the_clock_waits_for_a_simulation_that_stalls_but_not_for_one_that_is_gone():
    clock = StampedClock(10.0, 0.0, ahead=0.05)
    for wall in np.arange(0.0, 1.0, 0.01):
        clock.correct(10.0 + wall, wall)
    shown = np.array([clock.at(wall) for wall in np.arange(0.99, 3.0, 0.001)])
    assert (np.diff(shown) >= 0.0).all() and np.diff(shown).max() < 0.0011
    assert clock.at(1.03) == pytest.approx(11.03, abs=1e-6)
    assert clock.at(1.29) == pytest.approx(10.99 + 0.05, abs=1e-6)
    assert clock.at(2.29) == pytest.approx(10.99 + 0.05 + 1.0, abs=1e-6)
    # a stall of 0.2 s, which the simulation does not notice: nor does the clock, much
    for wall in np.arange(1.2, 2.2, 0.01):
        clock.correct(wall + 9.8, wall)
        assert abs(clock.at(wall) - (wall + 9.8)) < 0.0501
    # which is found out as a critically damped error is, of 5 rad/s
    assert clock.at(wall) == pytest.approx(wall + 9.8, abs=6e-3)


# --------------------------------------------------------------------------------------- commands


def run(stream, times, speed=lambda _: 1.0, **state):
    return np.array([stream.command(t, speed(t), **state) for t in times])


def test_positions_are_those_of_the_path_and_then_its_end():
    stream = CommandStream(velocity=False, gain=0.0)
    assert not stream.running and stream.over
    stream.replace(PATH, 20.0, 20.0, HERE)
    times = np.arange(20.0, 20.0 + PATH.duration + 1.0, 0.01)
    commands = run(stream, times[times < 20.0 + PATH.duration])
    assert not stream.over, 'a process that is alone ends once it is over'
    commands = np.vstack([commands, run(stream, times[times >= 20.0 + PATH.duration])])
    np.testing.assert_allclose(commands, PATH.sample(times - 20.0).position, atol=1e-12)
    assert stream.over and stream.running
    stream.stop()
    assert not stream.running


@pytest.mark.parametrize('speed', [0.25, 1.0])
def test_velocities_lead_along_the_path_at_any_speed(speed):
    # the robot does the share ``speed`` of what it is told, as one with a slider
    stream = CommandStream(velocity=True, gain=0.0)
    stream.replace(PATH, 0.0, 0.0, HERE)
    step = 0.001
    times = np.arange(0.0, PATH.duration / speed + 0.2, step)
    commands = run(stream, times, lambda _: speed)
    assert stream.over and not commands[-1].any()
    moved = HERE + speed * step * np.cumsum(commands, axis=0)
    np.testing.assert_allclose(moved, PATH.sample(speed * times).position, atol=2e-3)


def test_a_robot_that_is_beside_the_path_is_drawn_back():
    stream = CommandStream(velocity=True, gain=3.0)
    place, step = HERE + 0.05, 0.01
    stream.replace(PATH, 0.0, 0.0, place)
    errors = []
    for now in np.arange(0.0, 2.0, step):
        errors.append(np.abs(PATH.sample(np.array([now])).position[0] - place).max())
        place = place + step * stream.command(now, 1.0, now, place)
    assert errors[0] == pytest.approx(0.05)
    assert max(errors[100:]) < 0.005
    # a state of some time ago is held against the plan of then
    alone, late = (CommandStream(velocity=True, gain=3.0) for _ in range(2))
    for stream in (alone, late):
        stream.replace(PATH, 0.0, 0.0, HERE)
    for now in np.arange(0.2, 2.0, step):
        then = PATH.sample(np.array([now - 0.1])).position[0]
        np.testing.assert_allclose(
            late.command(now, 1.0, now - 0.1, then), alone.command(now, 1.0), atol=1e-9
        )
    # ... which is nearer where time is slowed down
    slow = CommandStream(velocity=True, gain=3.0)
    slow.replace(PATH, 0.0, 0.0, HERE)
    slow.command(1.0, 0.5)
    place, expected = (PATH.sample(np.array([time])) for time in (0.55, 0.6))
    commands = slow.command(1.2, 0.5, 1.1, place.position[0])
    np.testing.assert_allclose(commands, expected.velocity[0], atol=1e-9)


@settings(max_examples=12, deadline=None)
@given(st.floats(-5.0, 5.0), st.floats(0.5, 10.0), st.integers(0, 2**31))
def test_what_feedback_adds_is_smooth_and_bounded_however_false_the_states_are(off, gain, seed):
    stream = CommandStream(velocity=True, gain=gain)
    stream.replace(PATH, 0.0, 0.0, HERE)
    random = np.random.default_rng(seed)
    times = np.arange(0.0, 20.0, PERIOD)
    states = HERE + off + random.uniform(-1.0, 1.0, (times.size, 2))
    added = (
        np.array([stream.command(t, 1.0, t, q) for t, q in zip(times, states, strict=True)])
        - PATH.sample(times).velocity
    )
    assert np.abs(added).max() <= gain * LARGEST_ERROR + 1e-9
    slope = np.abs(np.diff(added, axis=0)).max() / PERIOD
    assert slope <= 2.0 * gain * LARGEST_ERROR / FEEDBACK_TIME
    # 5 % of a way of 0.6 rad beside 0.1 rad, and what is under way when that is reached
    most = LARGEST_ERROR * (1.0 + gain * FEEDBACK_TIME) + 0.04
    assert np.abs(np.cumsum(added, axis=0)).max() * PERIOD < most


def test_a_path_that_is_still_to_begin_is_reached_from_where_the_robot_rests():
    stream = CommandStream(velocity=False, gain=0.0)
    away = HERE + [0.02, -0.01]
    stream.replace(PATH, 3.2, 3.0, away)
    times = np.linspace(3.0, 3.2, 101)
    commands = run(stream, times)
    np.testing.assert_allclose(commands[[0, -1]], [away, HERE], atol=1e-9)
    slope = (commands[1] - commands[0]) / (times[1] - times[0])
    np.testing.assert_allclose(slope, 0.0, atol=5e-3)
    np.testing.assert_allclose(
        run(stream, [4.0])[0], PATH.sample(np.array([0.8])).position[0], atol=1e-9
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.05, 1.5), min_size=1, max_size=5))
def test_a_horizon_of_the_same_path_changes_nothing(moments):
    once, often = (CommandStream(velocity=False, gain=0.0) for _ in range(2))
    for stream in (once, often):
        stream.replace(PATH, 0.0, 0.0, HERE)
    for moment in sorted(moments):
        often.command(moment, 1.0)
        often.replace(PATH, 0.0, moment, np.full(2, 99.0))
    np.testing.assert_allclose(often.command(1.6, 1.0), once.command(1.6, 1.0), atol=1e-12)


@pytest.mark.parametrize('velocity', [False, True])
def test_a_horizon_between_two_commands_delays_none(velocity):
    once, often = (CommandStream(velocity=velocity, gain=0.0) for _ in range(2))
    commands = []
    for stream in (once, often):
        stream.replace(PATH, 0.0, 0.0, HERE)
        commands.append([])
        for k, now in enumerate(np.arange(0.0, PATH.duration, 0.004)):
            if stream is often and k % 10 == 9:
                stream.replace(PATH, 0.0, now, HERE)
            commands[-1].append(stream.command(now, 1.0, usual=0.004))
    np.testing.assert_allclose(*commands, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.booleans(), st.floats(0.001, 0.1), st.integers(0, 2**31))
def test_a_clock_that_goes_back_now_and_then_lets_no_time_pass_twice(velocity, jitter, seed):
    # stamps that come now early, now late, put the clock of commands forth and back
    stream = CommandStream(velocity=velocity, gain=0.0)
    stream.replace(PATH, 0.0, 0.0, HERE)
    times = np.arange(0.0, PATH.duration, 0.004)
    shown = times + jitter * np.random.default_rng(seed).uniform(-1.0, 1.0, times.size)
    commands = run(stream, shown)
    plan = PATH.sample(np.maximum(np.maximum.accumulate(shown), 0.0))
    expected = plan.velocity if velocity else plan.position
    np.testing.assert_allclose(commands, expected, atol=1e-9)
    # nor does a horizon take back what was commanded
    stream.replace(PATH, 0.0, float(shown.max()) - 0.01, HERE)
    np.testing.assert_allclose(stream.command(0.0, 1.0), expected[-1], atol=1e-9)


def test_a_clock_that_was_set_back_does_not_hold_the_path_up():
    stream = CommandStream(velocity=True, gain=0.0)
    stream.replace(PATH, 1000.0, 1000.0, HERE)
    stream.command(1000.5, 1.0)
    run(stream, np.arange(3.0, 3.0 + PATH.duration, 0.01))
    assert stream.over
    stream.replace(PATH, 1.0, 1.2, HERE)  # and another motion begins then
    now = PATH.sample(np.array([0.2])).velocity[0]
    np.testing.assert_allclose(stream.command(1.2, 1.0), now, atol=1e-9)


# ---------------------------------------------------------------------------------- late commands

PERIOD = 0.004
FINE = PATH.sample(np.linspace(0.0, PATH.duration, 50_000))
PEAK, STEEPEST = np.abs(FINE.velocity).max(), np.abs(FINE.acceleration).max()


def streamed(stream, times, speed=1.0, usual=PERIOD):
    return np.array([stream.command(now, speed, usual=usual) for now in times])


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 0.09), st.floats(0.1, 1.0), st.floats(0.3, 1.0), st.booleans())
def test_positions_catch_up_with_what_they_missed_and_never_leap(late, when, speed, horizons):
    stream = CommandStream(velocity=False, gain=0.0)
    start = when * PATH.duration * 0.5 / speed
    before = np.arange(0.0, start, PERIOD)
    after = start + late + np.arange(0.0, PATH.duration / speed + 1.0, PERIOD)
    stream.replace(PATH, 0.0, 0.0, HERE)
    first = streamed(stream, before, speed)
    if horizons:  # one that begins where the robot has yet to get to
        now = float(after[0])
        left = PATH.duration - speed * now
        rest = point_slice(PATH, speed * now, left)
        stream.replace(rest, now, now, np.full(2, 99.0))
    commands = np.vstack([first, streamed(stream, after, speed)])
    most = CATCH_UP * PERIOD * speed * PEAK
    assert np.abs(np.diff(commands, axis=0)).max() <= CATCH_UP * most + 1e-9
    # the pace changes as slowly as it says
    steps = np.diff(commands[len(first) + 1 :], axis=0) / PERIOD
    change = np.abs(np.diff(steps, axis=0)).max() / PERIOD
    assert change <= CATCH_UP**2 * STEEPEST + PACE_SLEW * speed * PEAK + 1e-6
    ahead = speed * (start + late + 10.0 * CATCH_UP_TIME)
    plan = PATH.sample(np.array([min(ahead, PATH.duration)])).position[0]
    reached = commands[len(first) + round(10.0 * CATCH_UP_TIME / PERIOD)]
    np.testing.assert_allclose(reached, plan, atol=2.0 * PEAK * PERIOD)
    np.testing.assert_allclose(commands[-1], PATH.position[-1], atol=1e-6)
    assert stream.held_up == 0.0 and stream.over


def point_slice(path, begin, length):
    """Return the rest of a path, finely, with its time from 0."""
    time = np.linspace(0.0, length, 2000)
    motion = path.sample(begin + time)
    return PointTrajectory(JOINTS, time, motion.position, motion.velocity, motion.acceleration)


@pytest.mark.parametrize('late', [HELD_UP + 2 * PERIOD, 0.3, 5.0])
def test_a_robot_that_has_stopped_for_want_of_positions_is_left_there(late):
    stream = CommandStream(velocity=False, gain=0.0)
    stream.replace(PATH, 0.0, 0.0, HERE)
    last = streamed(stream, np.arange(0.0, 0.6, PERIOD))[-1]
    after = 0.6 + late + np.arange(0.0, 0.5, PERIOD)
    assert (streamed(stream, after) == last).all()
    assert stream.held_up == pytest.approx(late, abs=2 * PERIOD) and stream.over
    # what was sent before that was known changes nothing
    stream.replace(PATH, 0.0, after[-1], last)
    assert (streamed(stream, after[-1:] + PERIOD) == last).all()
    stream.resume()
    stream.replace(PATH, after[-1] + 0.1, after[-1], last)
    begin = streamed(stream, after[-1] + np.arange(0.0, 0.02, PERIOD))
    assert stream.held_up == 0.0 and np.abs(begin - last).max() < 0.1


def test_velocities_are_those_of_the_moment_however_late():
    stream = CommandStream(velocity=True, gain=0.0)
    stream.replace(PATH, 0.0, 0.0, HERE)
    streamed(stream, np.arange(0.0, 0.3, PERIOD))
    now = PATH.sample(np.array([0.7])).velocity[0]
    np.testing.assert_allclose(streamed(stream, [0.7])[0], now, atol=1e-9)
    assert stream.held_up == 0.0


@pytest.mark.parametrize('rate', [10.0, 30.0, 250.0, 1000.0])
def test_commands_of_any_rate_that_jitter_are_not_late(rate):
    stream = CommandStream(velocity=False, gain=0.0)
    stream.replace(PATH, 0.0, 0.0, HERE)
    times = np.arange(0.0, PATH.duration + 1.0, 1.0 / rate)
    times += np.random.default_rng(4).uniform(0.0, 0.9 / rate, times.size)
    commands = streamed(stream, times, usual=1.0 / rate)
    assert stream.held_up == 0.0 and stream.over
    np.testing.assert_allclose(commands[-1], PATH.position[-1], atol=1e-9)
