# SPDX-License-Identifier: Apache-2.0
"""The judge of advice: what undoes a fault helps, its opposite does harm, silence is neither."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.diagnosis.hypotheses import Correction, effort_scale, time_scale
from robot_identification.diagnosis.recording_faults import RecordingFault

from benchmarks.advice import advice_errors, followed, HARMFUL
from benchmarks.faulty_arms import arm


@pytest.fixture(scope='module')
def clean():
    return arm(60, gains=0.0)


def finding(change: Correction) -> RecordingFault:
    return RecordingFault(change.code, '', '', correction=change)


def test_advice_that_undoes_a_fault_helps_and_its_opposite_does_harm(clean):
    factors = np.ones(clean.robot.n_joints)
    factors[1] = 4.0
    spoiled = replace(clean.recording, effort=clean.recording.effort * factors)
    ratios = []
    for factor in (0.25, 4.0):
        advice = finding(effort_scale(len(factors), (1,), factor))
        before, after = advice_errors(clean.robot, spoiled, [advice], clean)
        ratios.append(after / before)
    assert ratios[0] < 0.5 and ratios[1] > HARMFUL


def test_what_names_no_change_is_not_followed(clean):
    said = RecordingFault('saturation', '', 'record a slower motion')
    assert followed(clean.robot, clean.recording, said) is None
    assert advice_errors(clean.robot, clean.recording, [said], clean) is None


def test_changes_are_those_of_the_samples():
    time = np.linspace(0.0, 10.0, 1001)
    position = np.sin(time)[:, None]
    recorded = Recording(time, position, np.cos(time)[:, None], ('a',))
    late = Correction('effort_delay', size=0.1)
    _, shifted = followed(None, recorded, finding(late))
    inner = slice(None, 950)
    np.testing.assert_allclose(shifted.effort[inner, 0], np.cos(time[inner] + 0.1), atol=1e-4)
    _, fast = followed(None, recorded, finding(time_scale(2.0)))
    assert fast.time[-1] == pytest.approx(5.0) and fast.velocity is None
    disturbed = RecordingFault('brake', '', '', times=(('', 2.0, 4.0),))
    _, left = followed(None, recorded, disturbed)
    assert not ((left.time > 2.0) & (left.time < 4.0)).any()
