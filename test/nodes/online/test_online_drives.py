# SPDX-License-Identifier: Apache-2.0
"""Dahl's dry friction, springs and the effort channel in the live identification."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy')

from robot_identification.regressor import ModelSettings


def test_estimates_with_terms_of_real_drives_are_those_of_the_core(live_with_drives):
    live = live_with_drives
    messages = live.states()
    status = live.play(messages)
    assert (status.lost, status.refused, status.gaps) == (0, 0, 0)
    model = ModelSettings(breakaway=0.02, joint_springs=('joint_1',))
    channel = {'effort_delay': (0.01, 0.0, 0.02), 'effort_low_pass': 12.0}
    expected = live.expected(messages, model, **channel)
    assert expected.rows == status.rows > 0
    live.require(expected)
    assert 'joint_1.kc' in expected.layout
    # each of them changes the numbers
    plain = live.expected(messages, ModelSettings(joint_springs=('joint_1',)), **channel)
    without = live.expected(messages, model)
    for other in (plain, without):
        assert np.abs(other.values - expected.values).max() > 1e-3
