# SPDX-License-Identifier: Apache-2.0
"""Percentiles from counts in bins, against those of the durations themselves."""

import math

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

pytest.importorskip('rclpy')

from robot_identification.nodes.identification.online_follower import Durations, Sequences

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
    sequences = Sequences()
    return [sequences.missing_before(number) for number in numbers]


@given(st.sets(st.integers(1, 2000), min_size=2))
def test_what_is_missing_from_one_publisher(numbers):
    numbers = sorted(numbers)
    assert sum(missing(numbers)) == numbers[-1] - numbers[0] + 1 - len(numbers)


def test_publishers_that_come_and_go():
    """Nothing is missing where two take turns, where one is new, or starts again."""
    turns = [number for pair in zip(range(1, 50), range(30_001, 30_050)) for number in pair]
    assert sum(missing(turns)) == 0
    assert sum(missing([*range(1, 50), *range(1, 50)])) == 0
    assert sum(missing([*range(1, 50), *range(900_001, 900_050), 50, 51, 900_050])) == 0
    assert missing([1, 2, 5, 6, 900_000, 7, 900_003]) == [0, 0, 2, 0, 0, 0, 2]
