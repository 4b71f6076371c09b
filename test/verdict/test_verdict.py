# SPDX-License-Identifier: Apache-2.0
"""The verdict on simulated arms, good and broken, and each criterion alone."""

import ast
from dataclasses import replace
import json
from pathlib import Path
import re

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.diagnosis.recording_faults import RecordingFault
from robot_identification.estimation.drive_gains import DriveGains
from robot_identification.estimation.estimate import Estimate
from robot_identification.estimation.residuals import EffortDelay, ResidualColour
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.consistency import check
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.plausibility import PlausibilityFinding as Implausible
from robot_identification.model.plausibility import PlausibilityReport
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result
from robot_identification.selection.model_selection import Choice, ModelSelection
from robot_identification.signals import SignalSettings
from robot_identification.simulation import SimulationSettings
from robot_identification.simulation.truth import truth
from robot_identification.verdict import criteria as criteria
from robot_identification.verdict.criteria import ALL, Reason, USES
from robot_identification.verdict.verdict import (
    DO_NOT_USE,
    GOOD,
    USABLE,
    validation_verdict,
    verdict,
    verdict_from_reasons,
    verdict_json,
)

REFERENCE = Path(__file__).parents[2] / 'docs' / 'reference'
ROBOT = Robot.from_urdf(Path(__file__).parents[2] / 'urdf' / 'szabo_3r.urdf')
SIGNALS = SignalSettings(cutoff=10.0, decimate_to=25.0)


def run(seed, name='run', *, seconds=20.0, speed=1.0, delay=0.0, scale=1.0, drag=0.0, still=None):
    """
    Record an arm whose parameters differ by 15 % from those of its URDF.

    ``speed`` multiplies all frequencies, ``delay`` [s] and ``scale`` are those of the efforts,
    ``drag`` [N m s^2] is a friction that no model has, ``still`` is a joint that hardly moves.
    """
    random = np.random.default_rng(seed)
    time = np.arange(round(100.0 * seconds)) / 100.0
    motion = np.zeros((3, time.size, ROBOT.n_joints))
    for j in range(ROBOT.n_joints):
        for k in range(1, 6):
            w, phase, size = 0.2 * np.pi * k * speed, *random.uniform((0.0, 0.1), (6.3, 0.4))
            size *= 0.01 if j == still else 1.0
            angle = w * time + phase
            motion[:, :, j] += size * np.array(
                [np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle)]
            )
    q, v, a = motion
    true = truth(ROBOT, SimulationSettings(seed=3, perturbation=0.15)).values
    effort = (build(ROBOT, ModelSettings()).rows(Motion(q, v, a)) @ true).reshape(q.shape)
    effort += drag * v * np.abs(v)
    late = [np.interp(time - delay, time, column) for column in effort.T]
    effort = scale * np.stack(late, axis=1)
    effort += 0.02 * effort.std(axis=0) * random.normal(size=q.shape)
    return Recording(time, q, effort, ROBOT.joints, source=name)


def identified(recording, *validations):
    problem = IdentificationProblem(ROBOT, signals=SIGNALS)
    return identify_sources(problem, [recording], validations)


@pytest.fixture(scope='module')
def good():
    return identified(run(1), run(2, 'second run'))


def reasons(result, criterion):
    return [r for r in verdict(result).reasons if r.criterion == criterion]


# ------------------------------------------------------------------------------------ whole ways


def test_a_good_arm_is_good_for_everything_and_says_up_to_which_speed(good):
    found = verdict(good)
    assert found.level == GOOD and found.uses == tuple(USES)
    assert not found.against
    assert found.sentence.startswith('Good for prediction of efforts, computed torque,')
    assert 'validated up to 1.1 times the identified speeds' in found.sentence


def test_without_a_validation_nothing_is_said_for_control():
    found = verdict(identified(run(1)))
    assert found.level == USABLE and found.uses == ('effort_prediction', 'simulation')
    assert 'not validated' in found.sentence
    assert [step.key for step in found.next_steps] == ['data.validation']


def test_a_validation_on_the_same_rows_is_none():
    found = verdict(identified(run(1), run(1)))
    assert found.level == USABLE and 'not validated' in found.sentence
    assert 'computed_torque' not in found.uses


def test_efforts_in_other_units_are_not_to_be_used():
    found = verdict(identified(run(1, scale=0.01), run(2, 'second run', scale=0.01)))
    assert found.level == DO_NOT_USE
    assert 'effort_kind' in found.sentence
    # all else follows from it
    assert [step.criterion for step in found.next_steps] == ['diagnosis']
    assert 'robot.effort_kind' in found.next_steps[0].next_step


def test_late_efforts_are_not_to_be_used():
    found = verdict(identified(run(1, delay=0.02), run(2, 'second run', delay=0.02)))
    assert found.level == DO_NOT_USE
    assert '20 ms apart' in found.sentence or 'effort_delay' in found.sentence


def test_a_very_short_motion_is_not_to_be_used():
    found = verdict(identified(run(1, seconds=2.0)))
    assert found.level == DO_NOT_USE
    assert 'the motion determines' in found.sentence
    assert any('longer motion' in step.next_step for step in found.next_steps)


def test_a_joint_at_rest_rules_out_control():
    found = verdict(identified(run(1, still=1), run(2, 'second run')))
    assert found.level == USABLE
    assert not {'computed_torque', 'collision_detection'} & {*found.uses}
    (reason,) = (r for r in found.against if r.criterion == 'diagnosis')
    assert reason.joints == ('joint_2',)


def test_a_validation_at_twice_the_speed_says_so():
    result = identified(run(1, drag=2.0), run(2, 'fast', speed=2.0, drag=2.0))
    found = verdict(result)
    assert found.level == USABLE and 'computed_torque' not in found.uses
    assert 'up to 2.3 times the identified speeds' in found.sentence
    assert any('as fast as' in step.next_step for step in found.next_steps)
    # a validation within the speeds shows that it holds there
    both = replace(result, validations=(*result.validations, *within(result)))
    assert verdict(both).level == USABLE and verdict(both).uses == tuple(USES)


def within(result):
    """Return a validation as good as the fit, at the speeds of the identification."""
    (fast,) = result.validations
    fit, speeds = result.estimate.fit, result.system.factor.highest_speed
    return (
        replace(
            fast,
            joints=tuple(replace(joint, rows=joint.rows - 1) for joint in fit.joints),
            relative_error=fit.relative_error,
            sources=('slow',),
            highest_speed=tuple(speeds.tolist()),
        ),
    )


# ------------------------------------------------------------------------------------- criteria


def with_finding(result, code, **values):
    finding = RecordingFault(code, 'what is seen', 'mend this key', **values)
    return recorded(result, diagnosis=(finding,))


@pytest.mark.parametrize('code', ['degrees', 'effort_sign', 'effort_scale', 'gravity_direction'])
def test_faults_of_recordings_forbid_every_use(good, code):
    found = verdict(with_finding(good, code))
    assert found.level == DO_NOT_USE and code in found.sentence
    assert [step.next_step for step in found.next_steps] == ['mend this key']


@pytest.mark.parametrize(
    ('code', 'left'),
    [('late_samples', set(USES)), ('saturation', set(USES) - {'collision_detection'}),
     ('negative_friction', {'effort_prediction'})],
)  # fmt: skip
def test_lesser_faults_leave_some_uses(good, code, left):
    found = verdict(with_finding(good, code))
    assert found.level == USABLE and {*found.uses} == left


def test_faults_of_one_kind_are_told_once(good):
    finding = RecordingFault('range', 'too far', 'mend it')
    each = tuple(replace(finding, joints=(joint,)) for joint in ROBOT.joints)
    (reason,) = reasons(recorded(good, diagnosis=each), 'diagnosis')
    assert reason.joints == ROBOT.joints and 'and 2 more' in reason.text


def test_a_delay_that_the_settings_make_up_for_is_a_reservation(good):
    late = with_finding(good, 'effort_delay')
    assert verdict(late).level == DO_NOT_USE
    signals = replace(SIGNALS, effort_delay=0.03)
    mended = replace(late, settings=replace(late.settings, signals=signals))
    assert verdict(mended).level == USABLE and verdict(mended).uses == tuple(USES)


@pytest.mark.parametrize(('late', 'told'), [(0.0, []), (0.01, []), ((0.0, 0.04, 0.0), ['40 ms'])])
def test_a_delay_that_was_chosen_is_told(good, late, told):
    signals = replace(SIGNALS, effort_delay=late)
    choice = Choice('signals.effort_delay', late, -30.0, 'against none')
    chosen = ModelSelection(good.settings.model, signals, np.zeros(3), (choice,))
    result = replace(good, settings=replace(good.settings, signals=signals))
    assert not reasons(result, 'delay')
    result = replace(result, selection=chosen)
    assert verdict(result).level == GOOD
    found = [reason.text for reason in reasons(result, 'delay')]
    assert len(found) == len(told) and all(word in text for word, text in zip(told, found))


@pytest.mark.parametrize(('tilt', 'told'), [(0.0, []), (0.02, []), (0.26, ['15 degrees'])])
def test_a_tilt_that_was_chosen_is_told(good, tilt, told):
    value = (0.0, -tilt, 0.0)
    choices = (Choice('robot.base_tilt', value, -70.0, 'against the gravity'),) if tilt else ()
    chosen = ModelSelection(good.settings.model, SIGNALS, np.array(value), choices)
    result = replace(good, selection=chosen)
    assert verdict(result).level == GOOD
    found = [reason.text for reason in reasons(result, 'mounting')]
    assert len(found) == len(told) and all(word in text for word, text in zip(told, found))


def with_delay(result, *delays, std=0.001, gain=2.0):
    late = EffortDelay(ROBOT.joints, np.array(delays), np.full(3, std), gain)
    return recorded(result, effort_delay=late)


def test_delays_count_where_they_are_sure_and_move_the_effort(good):
    assert verdict(with_delay(good, 0.001, 0.001, 0.001)).level == GOOD
    assert verdict(with_delay(good, 0.04, 0.04, 0.04, std=0.02)).level == GOOD
    assert verdict(with_delay(good, 0.02, 0.02, 0.02)).level == DO_NOT_USE
    assert verdict(with_delay(good, -0.02, -0.02, 0.0)).level == DO_NOT_USE
    # no effort is as late or early: the model lacks something that looks like it
    assert verdict(with_delay(good, 0.0, 0.0, -0.35, std=0.01)).level == GOOD
    assert '150 ms apart' in reasons(with_delay(good, 0.0, 0.0, 0.15), 'delay')[0].text
    one = with_delay(good, 0.0, 0.0, 0.06)
    assert verdict(one).level == USABLE
    assert reasons(one, 'delay')[0].joints == ('joint_3',)
    assert verdict(with_delay(good, np.nan, np.nan, np.nan)).level == GOOD
    # as any other finding, by what the whole robot gains
    assert verdict(with_delay(good, 0.02, 0.02, 0.02, gain=1.2)).level == USABLE
    assert verdict(with_delay(good, 0.02, 0.02, 0.02, gain=0.99)).level == GOOD
    assert verdict(with_delay(good, 0.02, 0.02, 0.02, gain=1.005)).level == GOOD
    assert verdict(with_delay(good, 0.0, 0.0, 0.06, gain=1.005)).level == GOOD
    assert 'joint_3: corrected, the residual falls by 50 %' in reasons(one, 'delay')[0].text


def test_what_was_done_already_is_not_advised(good):
    colour = replace(good.recorded.residuals, reversal_ratio=np.full(3, 5.0))
    rough = recorded(with_delay(good, 0.0, 0.0, 0.06), residuals=colour)
    assert rough.selection is None
    steps = {step.criterion: step.next_step for step in verdict(rough).next_steps}
    assert 'let `auto` choose signals.effort_delay' in steps['delay']
    assert steps['residuals'].startswith('leave out rows near reversals')
    signals = replace(SIGNALS, dead_zone=0.02)
    chosen = ModelSelection(rough.settings.model, signals, np.zeros(3))
    settings = replace(rough.settings, signals=signals)
    steps = verdict(replace(rough, selection=chosen, settings=settings)).next_steps
    assert not any('auto' in step.next_step for step in steps)
    assert 'widen the dead zone (signals.dead_zone)' in [step.next_step for step in steps]


def test_a_constant_effort_of_a_slide_that_no_drive_has_is_a_reservation(good, monkeypatch):
    standard = good.estimate.standard
    size = np.sqrt((good.system.analysed.effort[:, 1] ** 2).mean())
    cases = ((True, 0.6, GOOD), (False, 0.4, GOOD), (False, -0.6, USABLE))
    for turns, share, level in cases:
        monkeypatch.setattr(criteria, 'revolute', lambda robot, j=turns: (True, j, True))
        values = standard.updated({'joint_2.off': share * size})
        found = replace(good, estimate=replace(good.estimate, standard=values))
        assert verdict(found).level == level and verdict(found).uses == tuple(USES)
    (reason,) = reasons(found, 'offsets')
    assert reason.joints == ('joint_2',) and 'is 60 % of its effort' in reason.text
    plain = replace(good, estimate=replace(good.estimate, standard=None))
    assert not reasons(plain, 'offsets')


def by_currents(result, gains):
    """Return a result that comes from motor currents."""
    settings = replace(result.settings, effort_kind='motor_current')
    return replace(result, settings=settings, drive_gains=gains)


def recorded(result, **figures):
    """Return a result with other figures of its recordings."""
    return replace(result, recorded=replace(result.recorded, **figures))


def with_errors(thing, error, joint=None):
    """Return an estimate or validation with the relative error of all joints, or of one [%]."""
    if isinstance(thing, Estimate):
        return replace(thing, fit=with_errors(thing.fit, error, joint))
    joints = tuple(
        replace(each, relative_error=error) if joint in (None, each.joint) else each
        for each in thing.joints
    )
    if joint is not None:
        return replace(thing, joints=joints)
    return replace(thing, joints=joints, relative_error=error)


@pytest.mark.parametrize('criterion', ['fit', 'validation'])
@pytest.mark.parametrize(
    ('error', 'joint', 'level', 'lost'),
    [
        (14.0, None, GOOD, set()),
        (16.0, None, USABLE, {'computed_torque', 'collision_detection'}),
        (51.0, None, DO_NOT_USE, set(USES)),
        (29.0, 'joint_2', GOOD, set()),
        (31.0, 'joint_2', USABLE, {'collision_detection'}),
        (51.0, 'joint_2', USABLE, {'collision_detection', 'computed_torque'}),
        (float('nan'), 'joint_2', GOOD, set()),
    ],
)
def test_errors_of_fit_and_validation(good, criterion, error, joint, level, lost):
    estimate, (seen,) = with_errors(good.estimate, 14.0), good.validations
    # an error of 14 % is not judged beside one of 1 %
    result = replace(good, estimate=estimate, validations=(with_errors(seen, 14.0),))
    if criterion == 'fit':
        result = replace(result, estimate=with_errors(estimate, error, joint))
    else:
        (seen,) = result.validations
        result = replace(result, validations=(with_errors(seen, error, joint),))
    found = verdict(result)
    assert found.level == level
    assert {*USES} - {*found.uses} == lost
    assert bool(reasons(result, criterion)) == (level != GOOD)


def test_a_validation_of_few_rows_says_so_and_judges_nothing(good):
    (seen,) = good.validations
    joints = tuple(replace(joint, rows=28) for joint in seen.joints)
    few = with_errors(replace(seen, joints=joints), 103.0)
    found = verdict(replace(good, validations=(few,)))
    assert found.level == USABLE and found.uses == ('effort_prediction', 'simulation')
    assert '28 rows' in found.sentence and '103' not in found.summary()


def test_a_joint_without_rows_is_not_judged(good):
    (seen,) = good.validations
    first, *others = seen.joints
    still = replace(first, rows=0, relative_error=float('nan'))
    found = verdict(replace(good, validations=(replace(seen, joints=(still, *others)),)))
    assert {*USES} - {*found.uses} == {'collision_detection'}
    assert first.joint in found.sentence and 'not judged' in found.sentence


def test_collision_detection_looks_at_rows_of_the_dead_zone(good):
    (seen,) = good.validations
    slow = replace(seen, all_rows=(5.0, 56.0, 5.0))
    found = verdict(replace(good, validations=(slow,)))
    assert {*USES} - {*found.uses} == {'collision_detection'}
    assert '56 % of the effort of joint_2' in found.sentence


def test_rows_of_the_dead_zone_are_validated():
    problem = IdentificationProblem(ROBOT, signals=replace(SIGNALS, dead_zone=0.2))
    (seen,) = identify_sources(problem, [run(1)], [run(2)]).validations
    assert len(seen.all_rows) == ROBOT.n_joints
    assert seen.all_rows != tuple(joint.relative_error for joint in seen.joints)


def test_a_finding_that_hardly_helps_the_whole_robot_is_a_reservation(good):
    finding = RecordingFault(
        'effort_scale', 'fits better', 'mend it', ('joint_3',), 'times 3', 2.0, whole=1.2
    )
    found = verdict(recorded(good, diagnosis=(finding,)))
    assert found.level == USABLE and found.uses == tuple(USES)
    assert 'the model may lack something' in found.sentence
    decisive = replace(finding, whole=1.6)
    assert verdict(recorded(good, diagnosis=(decisive,))).level == DO_NOT_USE


def test_a_fault_of_the_recordings_is_named_before_what_follows_from_it():
    fault = Reason('diagnosis', 'a zero is off', next_step='mend the zero')
    masses = Reason('plausibility', 'masses', rules_out=('simulation',), next_step='check gains')
    remark = Reason('speed', 'fast', remark=True)
    others = [masses, remark, Reason('gains', 'known to 10 %'), fault]
    found = verdict_from_reasons(others, 'not validated')
    assert 'not for simulation, because a zero is off; masses; and 1 more' in found.sentence
    assert found.next_steps[0].next_step == 'mend the zero'
    useless = Reason('validation', 'misses', rules_out=ALL)
    found = verdict_from_reasons([*others, useless], 'not validated')
    assert found.sentence.startswith('Do not use, because misses; and 3 more')
    assert [reason.criterion for reason in found.against[:2]] == ['validation', 'diagnosis']


def test_a_validation_much_worse_than_the_fit_is_a_reservation(good):
    (seen,) = good.validations
    for fitted, error, level in ((1.0, 4.9, GOOD), (2.0, 5.1, USABLE), (4.0, 7.9, GOOD)):
        estimate = replace(good.estimate, fit=replace(good.estimate.fit, relative_error=fitted))
        changed = replace(
            good, estimate=estimate, validations=(replace(seen, relative_error=error),)
        )
        assert verdict(changed).level == level


def test_the_step_against_a_large_error_follows_the_residuals(good):
    large = replace(good, estimate=with_errors(good.estimate, 20.0))
    for rows, ratio, key in (
        (1.0, 3.0, 'signals.dead_zone'),
        (20.0, 1.0, 'robot.drives'),
        (1.0, 1.0, 'signals.cutoff'),
    ):
        (reason,) = reasons(recorded(large, residuals=colour(rows, ratio)), 'fit')
        assert reason.key == key


def colour(rows, ratio):
    return ResidualColour(ROBOT.joints, 0.02, np.full(3, 0.02 * rows), np.full(3, ratio))


def test_speeds_below_those_of_the_identification_are_a_remark(good):
    (seen,) = good.validations
    speeds = np.array(good.system.factor.highest_speed)
    speeds[1] *= 0.4
    slow = replace(good, validations=(replace(seen, highest_speed=tuple(speeds)),))
    (reason,) = reasons(slow, 'speed')
    assert reason.joints == ('joint_2',) and reason.value == pytest.approx(0.4)
    assert verdict(slow).level == GOOD
    assert '(0.4 times at the joint where that is least)' in verdict(slow).sentence


def test_speeds_that_are_not_known_are_not_made_up(good):
    (seen,) = good.validations
    unknown = replace(good, validations=(replace(seen, highest_speed=()),))
    assert 'speeds that are not known' in verdict(unknown).sentence


def test_an_excitation_counts_by_condition_and_known_parameters(good):
    def excited(condition, known):
        relative = np.where(np.arange(len(good.estimate)) < known, 0.1, 0.5)
        std = relative * np.abs(good.estimate.base.values)
        estimate = replace(
            good.estimate,
            rows=replace(good.estimate.rows, condition_number=condition),
            uncertainty=replace(good.estimate.uncertainty, std=std),
        )
        return replace(good, estimate=estimate)

    count = len(good.estimate)
    assert verdict(excited(100.0, count)).level == GOOD
    remark = excited(300.0, count)
    assert verdict(remark).level == GOOD and reasons(remark, 'excitation')[0].remark
    for poor in (excited(1001.0, count), excited(100.0, count // 4)):
        assert verdict(poor).level == USABLE
        assert verdict(replace(poor, validations=())).level == DO_NOT_USE


def test_parameters_that_are_not_excited_are_a_remark(good):
    excited = np.array(good.estimate.identifiability.excited)
    excited[:2] = False
    known = replace(good.estimate.identifiability, excited=excited)
    some = replace(good, estimate=replace(good.estimate, identifiability=known))
    (reason,) = reasons(some, 'excitation')
    assert reason.remark and reason.text.startswith('2 of ')


def test_bodies_that_cannot_exist_are_for_no_simulator(good):
    wrong = ParameterSet(good.standard.layout, -np.abs(good.standard.values) - 0.1)
    found = verdict(replace(good, standard=wrong, consistency=check(wrong)))
    assert {*USES} - {*found.uses} == {'computed_torque', 'simulation'}
    assert any('estimation.method: physical' in step.next_step for step in found.next_steps)


@pytest.mark.parametrize(
    ('quantity', 'lost'),
    [('radius_of_gyration', set()), ('mass', {'simulation'}),
     ('total_mass', {'simulation', 'computed_torque'})],
)  # fmt: skip
def test_implausible_masses_are_for_no_simulator(good, quantity, lost):
    finding = Implausible('link_1', quantity, 3.0, 1.0, 2.0, 'kg', 'link_1 is too heavy')
    found = verdict(replace(good, plausibility=PlausibilityReport((finding,))))
    assert found.level == USABLE and {*USES} - {*found.uses} == lost
    assert found.reasons[0].threshold == 2.0


def test_coloured_residuals_alone_are_a_remark(good):
    coloured = recorded(good, residuals=colour(50.0, 5.0))
    assert verdict(coloured).level == GOOD
    texts = [reason.text for reason in reasons(coloured, 'residuals')]
    assert 'stay alike for up to 1 s' in texts[0] and 'near reversals' in texts[1]
    assert not reasons(recorded(good, residuals=colour(2.0, 1.0)), 'residuals')


def test_classical_deviations_beside_coloured_residuals_are_told(good):
    uncertainty = replace(good.estimate.uncertainty, growth=None)
    classical = replace(good, estimate=replace(good.estimate, uncertainty=uncertainty))
    (reason,) = reasons(recorded(classical, residuals=colour(9.0, 1.0)), 'residuals')
    assert reason.key == 'estimation.bootstrap' and '3.0 times too small' in reason.text


def gains_of(std, **keys):
    """Return gains of three drives that are all 10 N m/A, with standard deviations (3,)."""
    covariance = np.diag(np.square(std))
    return DriveGains(ROBOT.joints, np.ones(3), covariance, 10.0 * np.eye(3), **keys)


RATIOS = {'method': 'ratios', 'reference': 'joint_2'}


@pytest.mark.parametrize(
    ('gains', 'relative', 'words', 'lost'),
    [
        (None, 0.1, 'no recording confirms', set()),
        (gains_of([0.02, 0.0, 0.03], **RATIOS), 0.1, 'no recording confirms', set()),
        (gains_of([0.0, 0.0, 0.2], scale_std=0.08, **RATIOS), 0.08, 'joint_3, and its', set()),
        (gains_of([0.0, 0.0, 0.55], **RATIOS), 0.1, 'to 55 %', {'collision_detection'}),
        (gains_of([0.02, 0.07, np.nan], method='factors'), 0.07, 'to 1e+02 %',
         {'collision_detection'}),
    ],
)  # fmt: skip
def test_unknown_gains_are_a_reservation_with_their_deviation(good, gains, relative, words, lost):
    currents = by_currents(good, gains)
    (reason,) = reasons(currents, 'gains')
    assert not reason.remark and reason.key == 'data.known_load' and words in reason.text
    mass = good.link_table().after
    assert reason.unit == 'kg' and reason.value == pytest.approx(relative * mass)
    assert f'{relative * mass:.2g} of {mass:.3g} kg' in reason.text
    assert {*USES} - {*verdict(currents).uses} == lost
    assert verdict(currents).level == USABLE


def test_gains_that_are_known_are_no_reservation(good):
    known = gains_of([0.01, 0.0, 0.02], scale_std=0.01, **RATIOS)
    assert not reasons(by_currents(good, known), 'gains')
    assert not reasons(good, 'gains')


def test_results_of_factors_have_a_verdict_without_rows(good):
    bare = recorded(good, residuals=None, effort_delay=None)
    assert verdict(bare).level == GOOD


# ----------------------------------------------------------------------------------- the verdict


def test_a_step_is_named_once_and_the_gravest_reason_first(good):
    reason = Reason('fit', 'a', ('simulation',), next_step='do this')
    others = [replace(reason, text='b', rules_out=ALL), replace(reason, text='c', remark=True)]
    found = verdict_from_reasons([reason, *others], 'not validated')
    assert [r.text for r in found.reasons] == ['b', 'a', 'c']
    assert len(found.next_steps) == 1
    assert found.sentence == 'Do not use, because b; and 1 more, below.'
    assert '  - a\n' in found.summary()
    some = verdict_from_reasons([replace(reason, text='d', rules_out=()), reason], 'not validated')
    assert 'not for simulation, because a; and 1 more' in some.sentence
    assert '  - d\n' in some.summary()
    assert max(map(len, found.summary().splitlines())) <= 100


def test_the_file_is_strict_and_has_the_documented_keys(good):
    broken = recorded(good, effort_delay=EffortDelay(ROBOT.joints, *np.full((2, 3), np.nan), 1.0))
    text = verdict_json(broken)
    document = json.loads(text, parse_constant=pytest.fail)
    page = (Path(__file__).parents[2] / 'docs' / 'reference' / 'verdict.md').read_text(
        encoding='utf-8'
    )
    nested = [document, document['figures'], document['links'][0], document['total_mass']]
    nested += [*verdict(with_finding(good, 'degrees')).to_dict()['reasons'][:1]]
    for keys in nested:
        for key in keys:
            assert f'`{key}`' in page, key
    assert document['schema'] == 1 and document['level'] == 'good'
    assert document['figures']['delay'] == dict.fromkeys(ROBOT.joints)
    assert set(document['uses']) == set(USES)


def test_every_criterion_is_documented():
    page = (Path(__file__).parents[2] / 'docs' / 'reference' / 'verdict.md').read_text(
        encoding='utf-8'
    )
    for criterion in criteria.CRITERIA:
        assert f'`{criterion.__name__}`' in page
    for use in USES:
        assert f'`{use}`' in page


def test_a_stored_result_is_judged_by_its_validation(good, tmp_path):
    write_result(good, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    found = validation_verdict(stored, good.validations)
    assert (found.level, found.scope) == (GOOD, verdict(good).scope)
    (seen,) = good.validations
    assert validation_verdict(stored, [with_errors(seen, 51.0)]).level == DO_NOT_USE
    twice = replace(seen, relative_error=6.0)
    assert validation_verdict(stored, [twice]).level == USABLE


def test_keys_that_steps_name_are_keys_of_experiment_files():
    page = (Path(__file__).parents[2] / 'docs' / 'reference' / 'experiment.md').read_text(
        encoding='utf-8'
    )
    files = Path(criteria.__file__).parent.glob('verdict_*.py')
    trees = [ast.parse(file.read_text(encoding='utf-8')) for file in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    named = re.compile(r'\b(?:data|estimation|robot|signals)(?:\.\w+)*\.(\w+)')
    keys = {key for text in texts if isinstance(text, str) for key in named.findall(text)}
    assert {'dead_zone', 'known_load', 'links'} <= keys
    assert [key for key in sorted(keys) if f'| `{key}` |' not in page] == []
