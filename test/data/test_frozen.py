# SPDX-License-Identifier: Apache-2.0
"""Efforts that stay the same while their joint goes back and forth are named, others are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from robot_identification.config.sources import ArrayEntry, open_recording
from robot_identification.data.frozen import warn_of_frozen_efforts
from robot_identification.data.recording import Recording
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import Omission

TIME = np.arange(3000) / 100.0
POSITION = np.column_stack((np.sin(TIME), 0.7 * np.sin(1.7 * TIME + 1.0)))
EFFORT = np.column_stack((5.0 * np.cos(TIME), np.sign(np.cos(1.7 * TIME + 1.0))))
JOINTS = ('lift', 'wrist')


def recording(position=POSITION, effort=EFFORT):
    return Recording(TIME, position, effort, JOINTS, source='run.csv')


def frozen():
    effort = EFFORT.copy()
    effort[1200:2400, 0] = effort[1200, 0]
    return effort


def test_an_effort_that_is_read_no_more_is_named():
    words = "run.csv: the effort of joint 'lift' stays at 4.219 from 12 to 23.99 s while it moves"
    with pytest.warns(Omission, match=words) as told:
        warn_of_frozen_efforts(recording(effort=frozen()))
    assert len(told) == 1


@pytest.mark.parametrize('step', [0.0, 0.5, 1.5])
def test_coarse_efforts_and_joints_at_rest_are_not(step):
    """An effort of friction alone is the same over each stroke, and has another sign then."""
    effort = np.round(EFFORT / step) * step if step else EFFORT
    held = POSITION * [1.0, 0.0] + 1e-4 * np.random.default_rng(0).normal(size=POSITION.shape)
    constant = effort * [1.0, 0.0] + [0.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter('error', Omission)
        warn_of_frozen_efforts(recording(effort=effort))
        warn_of_frozen_efforts(recording(held, constant))
        warn_of_frozen_efforts(next(recording(effort=frozen()).blocks(20)))


def test_files_and_arrays_are_looked_at(tmp_path):
    table = np.column_stack((TIME, POSITION, frozen()))
    np.savetxt(tmp_path / 'run.csv', table, delimiter=',')
    entry = RecordingEntry(file='run.csv', time=0, position=(1, 2), effort=(3, 4))
    with pytest.warns(Omission, match="the effort of joint 'lift' stays"):
        list(open_recording(entry, JOINTS, base=tmp_path).blocks())
    data = {'position': POSITION, 'effort': frozen(), 'time': TIME}
    with pytest.warns(Omission, match="the effort of joint 'lift' stays"):
        ArrayEntry.from_mapping(data, 'arrays').at_joints(JOINTS, None)
