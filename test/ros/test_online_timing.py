# SPDX-License-Identifier: Apache-2.0
"""Percentiles from counts in bins, against those of the durations themselves."""

import math

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

pytest.importorskip('rclpy')

from robot_identification.nodes.online_timing import Durations

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
