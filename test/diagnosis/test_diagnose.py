# SPDX-License-Identifier: Apache-2.0
"""Recordings of arms that their URDFs describe badly: every fault is found, and no other."""

from dataclasses import replace
import re

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Recording
from robot_identification.diagnosis import diagnose as diagnosis
from robot_identification.diagnosis.diagnose import diagnose, HypothesisComparison
from robot_identification.diagnosis.hypotheses import (
    Correction,
    exchanged,
    hypotheses,
    nearest_axis,
    position_offset,
)
from robot_identification.diagnosis.recording_faults import diagnosis_samples
from robot_identification.errors import Omission
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings
from robot_identification.verdicts.verdict import verdict

from benchmarks.diagnosis import real_cases, right
from benchmarks.faulty_arms import arm, FAULTS, faulty, KINDS

THREE_JOINTS, FOUR_JOINTS, FIVE_JOINTS = 60, 61, 62


@pytest.mark.parametrize('seed', [100, 101])
def test_nothing_is_wrong_with_good_recordings(seed):
    made = arm(seed)
    assert diagnose(made.robot, [made.recording]) == ()


@pytest.mark.parametrize('kind', KINDS)
def test_fault_is_found(kind):
    fault = faulty(kind, FOUR_JOINTS)
    found = diagnose(fault.robot, [fault.recording])
    assert right(found, fault) == 'first'
    assert all(each.remedy and each.evidence for each in found)


def test_a_sign_in_the_coupled_wrist_of_the_tx40_is_found():
    # fits that leave the joint aside from their start name a factor of its neighbour
    _, robot, model, recording = next(real_cases())  # the first one ships with the examples
    assert robot.name == 'tx40'
    effort = recording.effort * [1.0, 1.0, 1.0, 1.0, 1.0, -1.0]
    found = diagnose(robot, [replace(recording, effort=effort)], model)
    assert (found[0].code, found[0].joints) == ('effort_sign', ('joint_6',))


def test_a_scale_that_no_masses_reach_shows_in_the_residuals():
    made = arm(64)
    effort = 1000.0 * made.recording.effort
    (finding,) = diagnose(made.robot, [replace(made.recording, effort=effort)])
    assert finding.code == 'effort_kind'


@pytest.mark.parametrize('factor', [0.001, 1000.0])
def test_one_joint_in_another_unit_is_named(factor):
    made = arm(FOUR_JOINTS)
    effort = made.recording.effort.copy()
    effort[:, 2] *= factor
    (finding,) = diagnose(made.robot, [replace(made.recording, effort=effort)])
    assert (finding.code, finding.joints) == ('effort_scale', (made.robot.joints[2],))
    assert finding.factor == pytest.approx(1.0 / factor, rel=0.5)


@pytest.mark.parametrize(
    'mass',
    [
        pytest.param(0.01, marks=pytest.mark.soak),
        1.0,
        pytest.param(200.0, marks=pytest.mark.soak),
    ],
)
def test_a_urdf_without_masses_tells_of_no_scale_and_no_load(mass):
    """One and the same ball stands for all links, as `check --repair` or an exporter makes it."""
    made = arm(FOUR_JOINTS, gains=0.0)
    moments = ' '.join(f'{axis}="{0.005 * mass}"' for axis in ('ixx', 'iyy', 'izz'))
    ball = f'<origin xyz="0 0 0"/><mass value="{mass}"/><inertia {moments} '
    text = re.sub('<origin [^>]*><mass [^>]*><inertia .*?(?=ixy)', ball, made.robot.urdf)
    with pytest.warns(Omission, match='no mass is compared with it'):
        robot = Robot.from_urdf(text)
    assert robot.bodies_alike
    result = identify_sources(IdentificationProblem(robot), [made.recording])
    assert not result.recorded.diagnosis
    assert not [each for each in result.plausibility.findings if 'mass' in each.quantity]
    told = [each for each in verdict(result).against if 'nothing confirms the masses' in each.text]
    assert len(told) == 1 and not told[0].rules_out
    table = result.link_table()
    assert np.isnan([table.std, *(link.std.mass for link in table.links)]).all()
    # what masses do not tell, residuals do
    effort = made.recording.effort * np.where(np.arange(robot.n_joints) == 1, -1.0, 1.0)
    (finding,) = diagnose(robot, [replace(made.recording, effort=effort)])
    assert finding.code == 'effort_sign'
    # and no robot of this size has 30 tonnes
    tonnes = replace(made.recording, effort=1000.0 * made.recording.effort)
    if mass == 1.0:
        assert [each.code for each in diagnose(robot, [tonnes])] == ['effort_kind']


@pytest.mark.soak
def test_two_arms_with_fourteen_joints_are_diagnosed():
    made = arm(70, joints=14)
    fault = FAULTS['signs of all efforts'](made)
    (finding,) = diagnose(fault.robot, [fault.recording])
    assert finding.code == 'effort_signs' and finding.improvement_of_all > 1.5


def test_a_delay_that_the_model_has_is_no_fault():
    fault = faulty('delay of efforts', FIVE_JOINTS)
    (finding,) = diagnose(fault.robot, [fault.recording])
    late = finding.change.split()[3]
    known = diagnose(fault.robot, [fault.recording], delay=float(late) / 1000.0)
    assert 'effort_delay' not in [each.code for each in known]


@pytest.mark.parametrize(
    ('gravity', 'along'),
    [((0.1, 0.0, 9.8), (0.0, 0.0, 9.8005)), ((2.0, 0.0, -9.6), (2.0, 0.0, -9.6))],
)
def test_gravity_near_an_axis_is_along_it(gravity, along):
    np.testing.assert_allclose(nearest_axis(np.array(gravity)), along, atol=1e-3)


def test_one_impossible_position_is_no_error():
    """It makes the normal matrix of one stretch larger than the others by many digits."""
    made = arm(60)
    position = made.recording.position.copy()
    position[len(position) // 3, 0] = 1e6
    diagnose(made.robot, [replace(made.recording, position=position)])


def test_finding_says_how_much_better_and_which_key():
    fault = faulty('sign of an effort', FIVE_JOINTS)
    (finding,) = diagnose(fault.robot, [fault.recording])
    joint = fault.joints[0]
    assert finding.improvement > 3.0
    assert f'times better with the effort of {joint} negated' in finding.evidence
    assert 'robot.drives.effort.matrix' in finding.remedy
    assert finding.to_dict()['code'] == 'effort_sign'


def scara():
    """Return a SCARA, and a recording of it; nothing couples its upright slide to the others."""
    ends = [(0.0, 0.0, 0.3), (0.3, 0.0, 0.05), (0.25, 0.0, 0.0), (0.0, 0.0, -0.1)]
    masses, kinds = (6.5, 4.8, 1.1, 1.4), ('revolute', 'revolute', 'prismatic', 'revolute')
    parts = ['<robot name="scara"><link name="l0"/>']
    for i, (end, mass, kind) in enumerate(zip(ends, masses, kinds, strict=True), 1):
        parts.append(
            f'<link name="l{i}"><inertial><origin xyz="{0.1 / i} 0.01 0.02"/>'
            f'<mass value="{mass}"/><inertia ixx="{0.02 / i}" iyy="{0.05 / i}" izz="{0.05 / i}" '
            'ixy="0" ixz="0" iyz="0"/>'
            f'</inertial></link><joint name="j{i}" type="{kind}"><parent link="l{i - 1}"/>'
            f'<child link="l{i}"/><origin xyz="{end[0]} {end[1]} {end[2]}"/><axis xyz="0 0 1"/>'
            '<limit lower="-3" upper="3" velocity="5" effort="100"/></joint>'
        )
    robot = Robot.from_urdf(''.join([*parts, '</robot>']))
    random = np.random.default_rng(3)
    time = np.arange(0.0, 20.0, 0.004)
    w = 2.0 * np.pi * random.uniform(0.2, 1.0, (3, 4))
    size = random.uniform(0.3, 1.0, (3, 4)) * np.array([0.6, 0.6, 0.05, 0.8])
    phase = w[:, None] * time[:, None] + random.uniform(0.0, 6.0, (3, 1, 4))
    position = (size[:, None] * np.sin(phase)).sum(axis=0)
    velocity = ((size * w)[:, None] * np.cos(phase)).sum(axis=0)
    acceleration = (-(size * w**2)[:, None] * np.sin(phase)).sum(axis=0)
    model = robot.model.copy()
    for inertia in model.inertias:
        inertia.mass *= random.uniform(0.85, 1.15)
    data = model.createData()
    effort = np.array(
        [pin.rnea(model, data, *state) for state in zip(position, velocity, acceleration)]
    )
    effort += effort.std(axis=0) * (0.1 * np.tanh(velocity / 0.01) + 0.2 * velocity)
    effort += 0.03 * effort.std(axis=0) * random.standard_normal(effort.shape)
    return robot, Recording(time, position, effort, robot.joints, source='scara')


def test_a_wrong_sign_of_a_joint_that_nothing_couples_to_others_is_found(monkeypatch):
    # whatever else may gain more without a prior
    few = replace(diagnosis.CRITERIA, shortlisted=0)
    monkeypatch.setattr(diagnosis, 'CRITERIA', few)
    robot, recording = scara()
    assert diagnose(robot, [recording]) == ()
    effort = recording.effort * [1.0, 1.0, -1.0, 1.0]
    (finding,) = diagnose(robot, [replace(recording, effort=effort)])
    # with a constant effort, the position's sign explains it as well
    named = {finding.change, *(other.change for other in finding.alternatives)}
    assert 'the effort of j3 negated' in named
    assert finding.joints == ('j3',) and finding.improvement_of_all > 1.5


def test_sizes_are_found():
    """An angle, a direction and a delay that lie between those that are tried."""
    made = arm(FOUR_JOINTS)
    position = made.recording.position.copy()
    position[:, 1] += np.radians(65.0)
    comparison = HypothesisComparison(
        made.robot,
        diagnosis_samples([replace(made.recording, position=position)]),
        ModelSettings(),
    )
    best = comparison.explanations()[0].change
    assert (best.code, best.joints) == ('position_offset', (1,))
    assert np.degrees(best.size) == pytest.approx(-65.0, abs=6.0)


def test_direction_of_gravity_is_found():
    fault = faulty('direction of gravity', FOUR_JOINTS)
    comparison = HypothesisComparison(
        fault.robot, diagnosis_samples([fault.recording]), ModelSettings()
    )
    gravity = np.array(comparison.explanations()[0].change.gravity)
    true = arm(FOUR_JOINTS).truth.gravity.linear
    angle = np.arccos(gravity @ true / np.linalg.norm(gravity) / np.linalg.norm(true))
    assert np.degrees(angle) < 5.0


def test_changes_undo_what_they_are_called_after():
    made = arm(THREE_JOINTS)
    observed = diagnosis_samples([made.recording])
    order = exchanged(3, 0, 2)
    swapped = Correction('joints_swapped', (0, 2), position=order, effort=order)
    twice = swapped.motion(swapped.motion(observed.motion))
    np.testing.assert_array_equal(twice.position, observed.motion.position)
    turned = position_offset(3, 1, 0.5).motion(observed.motion)
    np.testing.assert_allclose(turned.position[:, 1] - observed.motion.position[:, 1], 0.5)
    np.testing.assert_array_equal(turned.velocity, observed.motion.velocity)
    late = Correction('effort_delay', size=0.05).efforts(observed)
    # the effort that comes 0.05 s later
    assert np.abs(late - observed.effort).max() > 0.0


def test_hypotheses_are_many_but_not_too_many():
    tried = list(hypotheses(np.array([0.0, 0.0, -9.81]), (True,) * 7))
    assert 150 < len(tried) < 360
    assert len({(c.code, c.joints, c.size, c.gravity) for c in tried}) == len(tried)
    for change in tried:
        near = change.resized(-1.0)
        if near is not None:
            assert (near.code, near.joints) == (change.code, change.joints)
            assert near.size < change.size and change.resized(0.0).size == change.size


def test_identify_warns_and_keeps_the_findings():
    fault = faulty('efforts exchanged', THREE_JOINTS)
    result = identify_sources(IdentificationProblem(fault.robot), [fault.recording])
    found = [finding for finding in result.recorded.diagnosis if finding.code == 'efforts_swapped']
    assert len(found) == 1 and str(found[0]) in result.warnings
