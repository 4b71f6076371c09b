# SPDX-License-Identifier: Apache-2.0
"""Whole motions out of stretches: what continues one another, and what counts."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.data.commands import CommandRecording, whole_motions

PERIOD = 0.01


def recording(rows, shift=0.0, source='whole'):
    """Return rows of a motion of one joint, its position moved by a shift [rad]."""
    time = PERIOD * np.asarray(rows)
    position = np.sin(3.0 * time)[:, None]
    return CommandRecording(time, position + shift, position, ('joint',), source=source)


def split(length):
    """Return even and odd periods of ten seconds, the latter held out."""
    rows = np.arange(1000)
    odd = rows // length % 2 == 1
    unseen = recording(rows[odd], source='odd')
    return recording(rows[~odd], source='even'), replace(unseen, held_out=np.ones(odd.sum(), bool))


def test_periods_in_two_files_are_one_motion():
    seen, unseen = split(100)
    (motion,) = whole_motions([unseen], [seen])
    np.testing.assert_allclose(motion.recording.time, PERIOD * np.arange(1000))
    np.testing.assert_array_equal(motion.counted, motion.recording.held_out)
    assert motion.counted.sum() == 500  # starts of periods count


def test_what_follows_a_gap_counts_and_the_start_of_a_file_does_not():
    _, unseen = split(100)
    motions = whole_motions([unseen])
    assert [len(each.recording) for each in motions] == [100] * 5
    # 0.5 s, or a fifth of what is shorter
    assert [each.counted.sum() for each in motions] == [80, *[100] * 4]


@pytest.mark.parametrize('shift', [0.3, -0.3])
def test_files_that_do_not_continue_one_another_are_apart(shift):
    """Positions that jump by more than ever within are of another motion."""
    seen, unseen = split(100)
    other = replace(seen, position=seen.position + shift)
    assert len(whole_motions([unseen], [other])) == 5
    again = replace(seen, time=seen.time + 0.1)  # another clock: stamps overlap
    assert len(whole_motions([unseen], [again])) == 5


def test_held_out_blocks_of_one_recording_are_one_motion():
    whole = recording(np.arange(1000)).with_blocks_held_out()
    (motion,) = whole_motions([whole])
    np.testing.assert_array_equal(motion.counted, whole.counted(held_out=True))
