# SPDX-License-Identifier: Apache-2.0
"""The recording of a Stäubli TX-40: motor side in, joint side out."""

from pathlib import Path
import time

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.drives import Drives
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.options.fields import from_mapping
from robot_identification.signals import (
    process,
    sample_rate,
    SignalSettings,
)

DATA = Path(__file__).parents[2] / 'examples' / 'tx40'
JOINTS = tuple(f'joint_{i}' for i in range(1, 7))
GEARS = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])


@pytest.fixture(scope='module')
def source():
    position, effort = GEARS.copy(), GEARS.copy()
    position[5, 4] = effort[4, 5] = 32.0
    drives = {
        'position': {
            'matrix': np.linalg.inv(position).tolist(),
            'offset': [0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0],
        },
        'effort': {'matrix': effort.tolist()},
    }
    entry = {
        'rate': 5000.0,
        'position': {'file': 'pos_read_data.csv.gz'},
        'effort': {'file': 'curr_data.csv.gz'},
    }
    return open_recording(
        from_mapping(RecordingEntry, entry), JOINTS, from_mapping(Drives, drives), DATA
    )


def test_shapes_rate_and_duration(source):
    blocks = list(source.blocks(16384))
    assert [len(block) for block in blocks] == [16384, 16384, 12232]
    assert all(block.position.shape == block.effort.shape == (len(block), 6) for block in blocks)
    assert sample_rate(source) == 5000.0
    assert blocks[-1].time[-1] == pytest.approx(44999 / 5000)


def test_ranges_at_the_joints_are_the_known_ones(source):
    blocks = list(source.blocks(16384))
    position = np.concatenate([block.position for block in blocks])
    effort = np.concatenate([block.effort for block in blocks])
    fastest = np.abs(np.gradient(position, 1 / 5000, axis=0)).max(axis=0)
    np.testing.assert_allclose(fastest, [5.16, 5.08, 7.0, 7.29, 5.72, 11.79], atol=0.006)
    np.testing.assert_allclose(np.abs(effort).max(axis=0), [94, 95, 34, 12, 22, 13], atol=0.5)


def test_samples_follow_the_motion(source):
    samples = process(source, SignalSettings(cutoff=100.0, trim=0.004))
    assert len(samples) == 45000 - 40
    # without the steps of the encoders the peaks are a little lower
    fastest = np.abs(samples.velocity).max(axis=0)
    assert (fastest / [5.16, 5.08, 7.0, 7.29, 5.72, 11.79] > 0.97).all()
    assert (fastest / [5.16, 5.08, 7.0, 7.29, 5.72, 11.79] < 1.0).all()
    # the robot rests at the end, and before the first move
    assert np.abs(samples.velocity[samples.time > 7.8]).max() < 0.01
    assert np.abs(samples.velocity[samples.time < 0.03]).max() < 0.01


def test_reading_and_filtering_are_a_small_part_of_three_seconds(source):
    begin = time.process_time()
    process(source, SignalSettings(cutoff=100.0))
    assert time.process_time() - begin < 1.5  # measured: 0.3
