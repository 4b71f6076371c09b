# SPDX-License-Identifier: Apache-2.0
"""The account of serialised joint states, without nodes and without waiting for a clock."""

from __future__ import annotations

import math
import time

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.online.counts import Durations, LostMessageCounter
from robot_identification.online.follower import Follower
from robot_identification.online.settings import OnlineOptions
from robot_identification.signals import SignalSettings

RATE = 250.0


@pytest.fixture(scope='module')
def follower(arm):
    signals = SignalSettings(dead_zone=0.05, trim=0.0)
    options = OnlineOptions(state_rate=RATE, deadline=5.0)
    problem = IdentificationProblem(arm.robot, signals=signals)
    return Follower(problem, options, system_stamps=False)


@pytest.fixture
def fresh(follower):
    follower.reset()
    return follower


@pytest.fixture(scope='module')
def messages(arm):
    """Return serialised joint states of one second."""
    from rosbags.typesys import get_typestore, Stores

    types = get_typestore(Stores.ROS2_JAZZY)
    kind = types.types['sensor_msgs/msg/JointState']
    stamp, header = (
        types.types[name] for name in ('builtin_interfaces/msg/Time', 'std_msgs/msg/Header')
    )
    return [
        bytes(
            types.serialize_cdr(
                kind(
                    header=header(stamp=stamp(1, round(1e9 * t)), frame_id=''),
                    name=list(arm.robot.joints),
                    position=np.array(position),
                    velocity=np.array(velocity),
                    effort=np.array(effort),
                ),
                kind.__msgtype__,
            )
        )
        for t, position, velocity, effort in zip(*arm.states(1, 0.9), strict=True)
    ]


def test_updates_that_took_too_long_are_counted(fresh, messages):
    late = {20, 21, 100}
    for number, message in enumerate(messages):
        # the start that the process has noted: an hour ago for some, the future for the others
        now = time.perf_counter()
        fresh.take(message, None, now - 3600.0 if number in late else now + 3600.0)
    # the first sample makes the identifier, all others are updates
    assert fresh.account.updates == len(messages) - 1
    assert fresh.account.late == len(late)
    assert fresh.durations.longest >= 3600.0


def test_messages_that_are_lost_or_refused_are_counted(fresh, messages):
    for number, message in enumerate(messages):
        if not 50 <= number < 53:
            broken = number in (70, 80)
            fresh.take(message[:40] if broken else message, number + 1, time.perf_counter())
    account = fresh.account
    assert (account.messages, account.lost, account.refused) == (len(messages) - 3, 3, 2)
    assert account.updates == len(messages) - 3 - 2 - 1
    assert fresh.longest_gap == pytest.approx(4.0 / RATE)
    assert fresh.trouble


SHARES = (0.5, 0.99, 0.999, 1.0)


@given(st.lists(st.floats(1e-6, 50.0), min_size=1, max_size=300))
def test_percentiles_are_at_most_two_percent_long(seconds):
    durations = Durations()
    for one in seconds:
        durations.add(one)
    for share in SHARES:
        exact = np.quantile(seconds, share, method='inverted_cdf')
        assert exact * (1.0 - 1e-9) <= durations.below(share) <= 1.0203 * exact
    assert durations.longest == durations.below(1.0) == max(seconds)
    assert durations.total == len(seconds)


def test_none_and_extremes():
    durations = Durations()
    assert math.isnan(durations.below(0.5)) and math.isnan(durations.longest)
    for one in (0.0, 1e-9, 1e4):
        durations.add(one)
    assert durations.longest == 1e4
    assert durations.below(0.5) <= 1e-7


def missing(numbers):
    sequences = LostMessageCounter()
    return [sequences.missing_before(number) for number in numbers]


@given(st.sets(st.integers(1, 2000), min_size=2))
def test_what_is_missing_from_one_publisher(numbers):
    numbers = sorted(numbers)
    assert sum(missing(numbers)) == numbers[-1] - numbers[0] + 1 - len(numbers)


@pytest.mark.parametrize(
    ('numbers', 'before'),
    [([1, 2, 5], 0), ([828, 829], 827), ([1, 2, 900_001, 900_002, 3], 900_000), ([0, 1], 0)],
)
def test_what_was_published_before_the_first_message_of_each_publisher(numbers, before):
    sequences = LostMessageCounter()
    for number in numbers:
        sequences.missing_before(number)
    assert sequences.before == before


def test_publishers_that_come_and_go():
    """Nothing is missing where two take turns, where one is new, or starts again."""
    turns = [number for pair in zip(range(1, 50), range(30_001, 30_050)) for number in pair]
    assert sum(missing(turns)) == 0
    assert sum(missing([*range(1, 50), *range(1, 50)])) == 0
    assert sum(missing([*range(1, 50), *range(900_001, 900_050), 50, 51, 900_050])) == 0
    assert missing([1, 2, 5, 6, 900_000, 7, 900_003]) == [0, 0, 2, 0, 0, 0, 2]


def test_of_a_publisher_that_is_alone_any_number_may_be_missing():
    sequences = LostMessageCounter()
    found = [sequences.missing_before(number, alone=True) for number in (7, 8, None, 30_000, 1, 2)]
    assert found == [0, 0, 0, 29_991, 0, 0]
