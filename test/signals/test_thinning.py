# SPDX-License-Identifier: Apache-2.0
"""Recordings in memory: sines at a lower rate against their closed form, and one reading alone."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.signals.thinning import KeptSource, thinned


def signals(time):
    return np.sin(2.0 * np.pi * 5.0 * time)[:, None], np.cos(2.0 * np.pi * 8.0 * time)[:, None]


def recording(time):
    position, effort = signals(time)
    return Recording(time, position, effort, ('a',), 2.0 * position)


class Counted:
    """A source that counts how often it is read."""

    def __init__(self, whole):
        self.whole, self.joints, self.source, self.reads = whole, whole.joints, 'run', 0

    def blocks(self, size):
        self.reads += 1
        yield from self.whole.blocks(size)


def test_thinned_recordings_have_the_same_signals_at_a_lower_rate():
    time = np.arange(0.0, 3.0, 1e-3)
    time = time[(time < 1.0) | (time > 1.5)]  # two stretches
    found = thinned(recording(time), 100.0, 600.0)
    assert np.median(np.diff(found.time)) == pytest.approx(0.01)
    assert np.diff(found.time).max() > 0.5
    position, effort = signals(found.time)
    np.testing.assert_allclose(found.position, position, atol=2e-3)
    np.testing.assert_allclose(found.velocity, 2.0 * position, atol=4e-3)
    np.testing.assert_allclose(found.effort, effort, atol=2e-3)


def test_slow_recordings_stay_as_they_are():
    whole = recording(np.arange(0.0, 3.0, 0.01))
    found = thinned(whole, 100.0, 600.0)
    np.testing.assert_array_equal(found.position, whole.position)
    assert thinned(whole.rows(0, 1), 100.0, 600.0).time.size == 1  # readers tell what is wrong


@pytest.mark.parametrize(('room', 'reads'), [(10_000_000, 1), (100, 2)])
def test_recordings_are_kept_if_there_is_room(room, reads):
    source = Counted(recording(np.arange(0.0, 3.0, 0.01)))
    kept = KeptSource(source, room)
    for size in (70, 100):
        time = np.concatenate([part.time for part in kept.blocks(size)])
        np.testing.assert_array_equal(time, source.whole.time)
    assert source.reads == reads
    assert kept.source == 'run'
