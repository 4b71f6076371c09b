# SPDX-License-Identifier: Apache-2.0
"""Faults of moderate size are named with their joint, as reservations."""

from dataclasses import replace
import re

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.diagnosis.diagnose import diagnose
from robot_identification.identification.pipeline import identify_sources
from robot_identification.signals import SignalSettings
from robot_identification.verdicts.verdict import verdict

from benchmarks.faulty_arms import arm

SIGNALS = SignalSettings(cutoff=8.0, decimate_to=20.0)


def identified(made, recording):
    return identify_sources(IdentificationProblem(made.robot, signals=SIGNALS), [recording])


@pytest.mark.parametrize(
    ('seed', 'joint'), [(101, 1), pytest.param(102, 2, marks=pytest.mark.soak), (106, 1)]
)
def test_an_encoder_that_is_off_by_twenty_degrees(seed, joint):
    made = arm(seed)
    position = made.recording.position.copy()
    position[:, joint] += np.radians(20.0)
    name = made.robot.joints[joint]
    (finding,) = diagnose(made.robot, [replace(made.recording, position=position)])
    assert (finding.code, finding.joints) == ('position_offset', (name,))
    assert finding.improvement_of_all >= 1.0 and name in finding.evidence
    degrees = float(re.search(r'(\S+) degrees added', finding.change)[1])
    assert degrees == pytest.approx(-20.0, abs=6.0), finding.change


@pytest.mark.parametrize(
    ('seed', 'joint', 'factor'),
    [pytest.param(103, 3, 1.25, marks=pytest.mark.soak), (105, 0, 0.8)],
)
def test_one_joint_s_gain_that_is_moderately_wrong(seed, joint, factor):
    made = arm(seed, gains=0.0)
    assert diagnose(made.robot, [made.recording]) == ()
    effort = made.recording.effort.copy()
    effort[:, joint] *= factor
    (finding,) = diagnose(made.robot, [replace(made.recording, effort=effort)])
    assert (finding.code, finding.joints) == ('effort_scale', (made.robot.joints[joint],))
    assert finding.minor  # a reservation
    assert finding.factor == pytest.approx(1.0 / factor, abs=2.0 * finding.deviation)
    assert finding.deviation < 0.1 and f'{finding.deviation:.2g}' in finding.evidence
    assert 'robot.drives.effort.matrix' in finding.remedy


def test_the_gain_of_a_joint_that_is_mostly_friction_is_right_where_it_is_named():
    """Its friction scales with its effort: a light wrist whose bodies hardly show."""
    made = arm(102, gains=0.0)
    joint = made.robot.n_joints - 1
    effort, velocity = made.recording.effort.copy(), np.gradient(made.recording.position[:, joint])
    effort[:, joint] += 4.0 * effort[:, joint].std() * np.tanh(velocity / velocity.std() / 0.1)
    for factor in (0.5, 0.8, 1.0, 1.25):
        scaled = effort.copy()
        scaled[:, joint] *= factor
        found = diagnose(made.robot, [replace(made.recording, effort=scaled)])
        named = [each for each in found if each.code == 'effort_scale']
        assert not named or factor == 0.5
        for each in named:
            assert each.minor and each.joints == (made.robot.joints[joint],)
            assert abs(each.factor * factor - 1.0) < 2.0 * each.deviation * factor


def test_the_gain_of_a_joint_of_friction_shows_at_the_joints_beside_it():
    # neither all efforts, nor coupled motors, nor another rate
    made = arm(61)
    effort, velocity = made.recording.effort.copy(), np.gradient(made.recording.position[:, 1])
    effort[:, 1] += 2.5 * made.rigid[:, 1].std() * np.tanh(velocity / velocity.std() / 0.05)
    assert made.rigid[:, 1].std() < 0.4 * effort[:, 1].std()
    effort[:, 1] *= 0.01
    finding, *_ = diagnose(made.robot, [replace(made.recording, effort=effort)])
    assert (finding.code, finding.joints) == ('effort_scale', ('joint_2',))
    assert finding.factor == pytest.approx(100.0, rel=0.3)


@pytest.mark.parametrize(
    ('seed', 'joint'),
    [
        (101, 0),
        pytest.param(104, 6, marks=pytest.mark.soak),
        pytest.param(106, 1, marks=pytest.mark.soak),
    ],
)
def test_one_joint_s_effort_that_is_twenty_milliseconds_late(seed, joint):
    made = arm(seed, gains=0.05)
    time, effort = made.recording.time, made.recording.effort.copy()
    effort[:, joint] = np.interp(time - 0.02, time, effort[:, joint])
    result = identified(made, replace(made.recording, effort=effort))
    late = result.recorded.effort_delay
    assert late.delay[joint] == pytest.approx(0.022, abs=0.006)  # 0 to 5 ms were there before
    name = made.robot.joints[joint]
    (reason,) = (each for each in verdict(result).against if each.criterion == 'delay')
    assert reason.joints == (name,) and not reason.rules_out
    assert f'{1e3 * late.delay[joint]:.2g} ms apart at {name}' in reason.text
    assert not [r for r in verdict(identified(made, made.recording)).against if name in r.joints]
