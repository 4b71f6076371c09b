# SPDX-License-Identifier: Apache-2.0
"""A stream of commands beside joint states that may be false."""

import numpy as np
import pytest
from robot_identification.excitation.command_stream import (
    CommandPlayer,
    LATE,
    REFUSED_COUNT,
)
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.trajectories import point_to_point

JOINTS = ('a', 'b')
LIMITS = Limits(
    JOINTS,
    ('rad', 'rad'),
    np.full(2, -2.0),
    np.full(2, 2.0),
    np.full(2, 1.0),
    np.full(2, 4.0),
    np.full(2, np.inf),
)
PATH = point_to_point(JOINTS, np.zeros(2), [0.6, -0.3], [0.5, 0.5], [2.0, 2.0])
PERIOD = 0.004


def play(velocity, spoil, duration=PATH.duration, after=None):
    """Play the path of a robot that follows at once; return times and commands."""
    player = CommandPlayer(velocity, 2.0, 1.0 / PERIOD, simulated=False)
    player.prepare()
    player.begin(LIMITS, np.zeros(2))
    player.follow(PATH, 10.0)
    place, commands = np.zeros(2), []
    times = np.arange(0.0, duration, PERIOD)
    for k, time in enumerate(times):
        for stamp, position in spoil(k, 10.0 + time, place):
            player.note(stamp, 500.0 + time, position)
        player.replace(500.0 + time)
        if after is not None and k == after:
            player.ignore_states()
        commands.append(player.command(500.0 + time, 1.0))
        place = place + PERIOD * commands[-1] if velocity else commands[-1]
    return player, times, np.array(commands)


def true(k, stamp, place):
    return [(stamp, place)]


@pytest.mark.parametrize('velocity', [False, True])
def test_true_states_give_the_path(velocity):
    _, times, commands = play(velocity, true)
    motion = PATH.sample(times)
    expected = motion.velocity if velocity else motion.position
    np.testing.assert_allclose(commands, expected, atol=0.01)


@pytest.mark.parametrize('velocity', [False, True])
@pytest.mark.parametrize(
    'spoil',
    [
        lambda k, stamp, place: [(stamp, place + (k > 100))],
        lambda k, stamp, place: [(stamp - 0.3 * (k > 100), place)],
        lambda k, stamp, place: [(stamp + 0.3 * (k > 100), place)],
        lambda k, stamp, place: [(stamp, place)] * (k < 100),
    ],
)
def test_states_that_become_false_leave_the_commands_as_they_are(velocity, spoil):
    alone, together = play(velocity, spoil)[2], play(velocity, true)[2]
    np.testing.assert_allclose(alone, together, atol=0.01)


def test_states_that_come_late_do_not_turn_the_clock_back():
    def late(k, stamp, place):
        return [(stamp - LATE * 4.0 * (200 < k < 300), place)]

    # passed over here by their delay, not by their order
    commands = play(False, late)[2]
    np.testing.assert_allclose(commands, play(False, true)[2], atol=0.01)


def test_after_some_that_are_not_plausible_no_state_is_used_for_this_motion():
    def briefly(k, stamp, place):
        return [(stamp, place + (100 <= k < 100 + REFUSED_COUNT) - 0.02 * (k > 200))]

    commands = play(True, briefly)[2]
    plan = PATH.sample(np.arange(0.0, PATH.duration, PERIOD)).velocity
    np.testing.assert_allclose(commands[250:], plan[250:], atol=1e-3)
    # one less is passed over, and feedback goes on
    fewer = play(True, lambda k, s, q: [(s, q + (k == 100) - 0.02 * (k > 200))])[2]
    assert np.abs(fewer[250:] - plan[250:]).max() > 0.02


def test_velocities_end_at_rest_within_the_limits():
    player, _, commands = play(True, true, duration=0.5 * PATH.duration)
    last = [commands[-1]]
    while last[-1].any():
        last.append(player.last())
    slope = np.abs(np.diff(last, axis=0)).max() / PERIOD
    assert 1.0 < slope <= 1.05 * 4.0 + 1e-9
    player, _, commands = play(False, true, duration=0.5 * PATH.duration)
    np.testing.assert_allclose(player.last(), commands[-1])
