# SPDX-License-Identifier: Apache-2.0
"""Faults of moderate size are named with their joint, as reservations."""

from dataclasses import replace
import re

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.diagnosis.diagnose import diagnose
from robot_identification.identification.pipeline import identify_sources
from robot_identification.results.verdict import verdict
from robot_identification.signals import SignalSettings

from benchmarks.faulty_arms import arm

SIGNALS = SignalSettings(cutoff=8.0, decimate_to=20.0)


def identified(made, recording):
    return identify_sources(IdentificationProblem(made.robot, signals=SIGNALS), [recording])


@pytest.mark.parametrize(('seed', 'joint'), [(101, 1), (102, 2), (106, 1)])
def test_an_encoder_that_is_off_by_twenty_degrees(seed, joint):
    made = arm(seed)
    position = made.recording.position.copy()
    position[:, joint] += np.radians(20.0)
    name = made.robot.joints[joint]
    (finding,) = diagnose(made.robot, [replace(made.recording, position=position)]).findings
    assert (finding.code, finding.joints) == ('position_offset', (name,))
    assert finding.whole >= 1.0 and name in finding.evidence
    degrees = float(re.search(r'(\S+) degrees added', finding.change)[1])
    assert degrees == pytest.approx(-20.0, abs=6.0), finding.change


@pytest.mark.parametrize(
    ('seed', 'joint'),
    [
        (101, 0),
        pytest.param(104, 6, marks=pytest.mark.soak),
        pytest.param(106, 1, marks=pytest.mark.soak),
    ],
)
def test_one_joint_s_effort_that_is_twenty_milliseconds_late(seed, joint):
    made = arm(seed)
    time, effort = made.recording.time, made.recording.effort.copy()
    effort[:, joint] = np.interp(time - 0.02, time, effort[:, joint])
    result = identified(made, replace(made.recording, effort=effort))
    late = result.effort_delay
    assert late.delay[joint] == pytest.approx(0.022, abs=0.006)  # 0 to 5 ms were there before
    name = made.robot.joints[joint]
    (reason,) = (each for each in verdict(result).against if each.criterion == 'delay')
    assert reason.joints == (name,) and not reason.rules_out
    assert f'{1e3 * late.delay[joint]:.2g} ms apart at {name}' in reason.text
    assert not [r for r in verdict(identified(made, made.recording)).against if name in r.joints]
