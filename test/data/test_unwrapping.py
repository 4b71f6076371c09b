# SPDX-License-Identifier: Apache-2.0
"""Jumps by whole turns are taken out, other steps are named, and motion is left alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from robot_identification.config.sources import ArrayEntry, open_recording
from robot_identification.data.recording import Recording
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.data.unwrapping import Unwrapper
from robot_identification.errors import Omission

RATE = 50.0
TIME = np.arange(1000) / RATE
MOTION = np.column_stack((4.0 * np.sin(1.3 * TIME) + 2.0, np.sin(2.0 * TIME)))
JOINTS = ('wheel', 'elbow')


def recording(position):
    effort = np.zeros_like(position)
    return Recording(TIME, position, effort, JOINTS, source='run.csv')


def wrapped(position):
    return np.mod(position + np.pi, 2.0 * np.pi) - np.pi


def unwrapped(position, size=1000):
    unwrapper = Unwrapper()
    return np.vstack([unwrapper.take(part).position for part in recording(position).blocks(size)])


@pytest.mark.parametrize('size', [1, 7, 1000])
@pytest.mark.parametrize('turns', [1, 3], ids=['-pi to pi', 'multi-turn counter'])
def test_jumps_by_whole_turns_are_taken_out(size, turns):
    span = 2.0 * np.pi * turns
    given = np.mod(turns * MOTION + 0.5 * span, span) - 0.5 * span
    assert np.abs(np.diff(given, axis=0)).max() > np.pi
    with pytest.warns(Omission, match="positions of joint 'wheel' jump by whole turns"):
        found = unwrapped(given, size)
    off = (found - turns * MOTION) / (2.0 * np.pi)
    np.testing.assert_allclose(off, np.broadcast_to(np.rint(off[0]), off.shape), atol=1e-12)


def test_motion_is_left_alone():
    """At rest, through the limits of a float's noise, and by a slide of metres."""
    random = np.random.default_rng(0)
    fast = np.column_stack((100.0 * np.sin(TIME), 1e-4 * random.normal(size=len(TIME))))
    stops = np.column_stack((np.clip(MOTION[:, 0], 0.0, 2.0), np.round(MOTION[:, 1], 2)))
    with warnings.catch_warnings():
        warnings.simplefilter('error', Omission)
        for position in (MOTION, fast, stops, np.zeros_like(MOTION)):
            np.testing.assert_array_equal(unwrapped(position), position)


@pytest.mark.parametrize('gear', [50, 100])
@pytest.mark.parametrize('noise', [0.0, 2e-4])
def test_a_lost_turn_of_an_encoder_is_named(gear, noise):
    position = MOTION + noise * np.random.default_rng(1).normal(size=MOTION.shape)
    position[600:, 1] += 2.0 * np.pi / gear
    with pytest.warns(
        Omission, match=f"'elbow' step by .* .1/({gear}|{gear + 1}) of a turn. at 12 s"
    ) as told:
        np.testing.assert_array_equal(unwrapped(position), position)
    assert len(told) == 1


def test_positions_that_are_read_no_more_are_no_lost_turn():
    position = MOTION.copy()
    position[600:, 1] = position[600, 1]
    with pytest.warns(Omission, match="'elbow' stop at once at 12 s and stay exactly") as told:
        unwrapped(position)
    assert len(told) == 1
    with warnings.catch_warnings():  # the robot stops
        warnings.simplefilter('error', Omission)
        unwrapped(np.concatenate([MOTION[:600], np.repeat(MOTION[600:601], 400, axis=0)]))


def test_spikes_and_gaps_are_no_steps():
    position = MOTION.copy()
    position[300, 0] += 0.5
    time = TIME.copy()
    time[500:] += 3.0
    moved = np.column_stack((4.0 * np.sin(1.3 * time) + 2.0, np.sin(2.0 * time)))
    moved[300, 0] += 0.5
    with warnings.catch_warnings():
        warnings.simplefilter('error', Omission)
        unwrapped(position)
        Unwrapper().take(Recording(time, moved, np.zeros_like(moved), JOINTS))


def test_files_and_arrays_are_unwrapped(tmp_path):
    given = wrapped(MOTION)
    np.savetxt(tmp_path / 'run.csv', np.column_stack((TIME, given, given)), delimiter=',')
    entry = RecordingEntry(file='run.csv', time=0, position=(1, 2), effort=(3, 4))
    with pytest.warns(Omission, match='whole turns'):
        blocks = list(open_recording(entry, JOINTS, base=tmp_path).blocks(64))
    np.testing.assert_allclose(np.vstack([b.position for b in blocks]), MOTION, atol=1e-9)
    data = {'position': given, 'effort': given, 'time': TIME}
    with pytest.warns(Omission, match='whole turns'):
        found = ArrayEntry.from_mapping(data, 'arrays').at_joints(JOINTS, None)
    np.testing.assert_allclose(found.position, MOTION, atol=1e-9)
