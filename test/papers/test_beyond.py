# SPDX-License-Identifier: Apache-2.0
"""Small cases of the methods beyond the papers."""

from __future__ import annotations

import pytest

from benchmarks.papers import beyond


@pytest.mark.soak
def test_seven_links_come_nearer_to_the_truth():
    found = beyond.simulated('panda', duration=10.0)
    assert found['links'] == 7
    assert found['unphysical'] > 0 == found['left']
    assert found['ratio'] < 1.02
    assert found['error'] < 1.02 * found['error_free']


@pytest.mark.soak
def test_a_humanoid_of_thirty_joints_is_physical_too():
    found = beyond.simulated('talos', duration=12.0)
    assert found['links'] == 30
    assert found['unphysical'] > 0 == found['left']
    assert found['ratio'] < 1.02 and found['error'] < 1.02 * found['error_free']


def test_two_kilograms_are_found():
    found = beyond.payloads(3, duration=10.0)
    assert found['mass'] < 0.03 and found['mass_std'] < 3.5 and found['centre'] < 0.01
    # thirty squares: five standard deviations of their mean
    assert abs(found['square'] - 1.0) < 5.0 * (2.0 / 30.0) ** 0.5
