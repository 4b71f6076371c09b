# SPDX-License-Identifier: Apache-2.0
"""Each criterion of arms alone: what it speaks against, from which figure on, and what to do."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.diagnosis.recording_faults import RecordingFault
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.consistency import check
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.plausibility import PlausibilityFinding as Implausible
from robot_identification.model.plausibility import PlausibilityReport
from robot_identification.model.robot import Robot
from robot_identification.selection.model_selection import Choice, ModelSelection
from robot_identification.verdicts import body_criteria
from robot_identification.verdicts.reason import ALL, Reason, USES
from robot_identification.verdicts.use_figures import use_figures
from robot_identification.verdicts.verdict import (
    DO_NOT_USE,
    GOOD,
    USABLE,
    verdict,
    verdict_from_reasons,
)
from simulated_arm import (
    by_currents,
    colour,
    gains_of,
    reasons,
    recorded,
    ROBOT,
    run,
    SIGNALS,
    with_delay,
    with_errors,
    with_file_errors,
    with_finding,
)


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
        monkeypatch.setattr(body_criteria, 'revolute', lambda robot, j=turns: (True, j, True))
        values = standard.updated({'joint_2.off': share * size})
        found = replace(good, estimate=replace(good.estimate, standard=values))
        assert verdict(found).level == level and verdict(found).uses == tuple(USES)
    (reason,) = reasons(found, 'offsets')
    assert reason.joints == ('joint_2',) and 'is 60 % of its effort' in reason.text
    plain = replace(good, estimate=replace(good.estimate, standard=None))
    assert not reasons(plain, 'offsets')


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
    # an error of 14 % is not judged beside one of 1 %; files are not judged here
    validations = (with_errors(seen, 14.0),)
    result = replace(good, estimate=estimate, validations=validations, files=None)
    if criterion == 'fit':
        result = replace(result, estimate=with_errors(estimate, error, joint))
    else:
        (seen,) = result.validations
        result = replace(result, validations=(with_errors(seen, error, joint),))
    found = verdict(result)
    assert found.level == level
    assert {*USES} - {*found.uses} == lost
    assert bool(reasons(result, criterion)) == (level != GOOD)


@pytest.mark.parametrize(
    ('error', 'joint', 'original', 'lost'),
    [
        (14.0, 20.0, 40.0, set()),
        (16.0, 20.0, 40.0, {'computed_torque'}),
        (31.0, 20.0, 40.0, {'computed_torque', 'simulation'}),
        (4.0, 51.0, 40.0, {'computed_torque'}),
        (4.0, 20.0, 3.0, set()),
        (9.0, 20.0, 8.0, {'computed_torque', 'simulation'}),
        (float('nan'), float('nan'), 8.0, set()),
    ],
)
def test_computed_torque_and_simulation_are_words_about_the_file(
    good, error, joint, original, lost
):
    result = with_file_errors(good, urdf=error, joint=joint, original=original)
    found = verdict(result)
    assert {*USES} - {*found.uses} == lost
    told = [r for r in reasons(result, 'files') if not r.remark]
    assert bool(told) == bool(lost)
    for reason in told:
        assert 'identified URDF alone misses' in reason.text and 'the full model' in reason.text
        assert 'export with --format mjcf (2 %)' in reason.next_step
    # the full model's error is not asked for what is a word about the file
    (seen,) = result.validations
    poor = replace(result, validations=(with_errors(seen, 16.0),))
    assert {*USES} - {*verdict(poor).uses} == lost | {'collision_detection'}


def test_a_simulators_own_file_is_judged_where_the_experiment_names_it(good):
    result = with_file_errors(good, urdf=40.0, joint=40.0, original=50.0)
    target = replace(result, experiment={'simulation': {'target': 'mjcf'}})
    assert {*USES} - {*verdict(target).uses} == {'computed_torque'}
    assert 'simulation' not in verdict(result).uses


def test_a_file_on_a_faster_motion_is_a_reservation_beside_one_that_holds(good):
    result = with_file_errors(good, urdf=40.0, joint=40.0, original=50.0)
    (seen,), (recording,) = result.validations, result.files.recordings
    speeds = tuple((2.0 * np.asarray(seen.highest_speed)).tolist())
    fast = replace(seen, sources=('fast',), highest_speed=speeds)
    files = replace(result.files, recordings=(good.files.recordings[0], recording))
    both = replace(result, validations=(seen, fast), files=files)
    assert verdict(both).uses == tuple(USES) and verdict(both).level == USABLE
    assert verdict(replace(both, validations=(fast,), files=result.files)).uses == (
        'effort_prediction', 'collision_detection'
    )  # fmt: skip


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


@pytest.mark.parametrize(
    ('errors', 'fault', 'lost'),
    [
        ({'joint_3': 60.0}, None, set()),
        ({'joint_3': 60.0, 'joint_2': 35.0}, None, {'collision_detection'}),
        ({}, ('effort_sign', 'joint_3'), set()),
        ({}, ('effort_sign', 'joint_2'), set(USES)),
    ],
)
def test_a_gripper_costs_the_arm_no_use_and_is_excepted(good, monkeypatch, errors, fault, lost):
    monkeypatch.setattr(Robot, 'gripper_joints', ('joint_3',))
    result = good
    for joint, error in errors.items():
        seen = tuple(with_errors(each, error, joint) for each in result.validations)
        estimate = with_errors(result.estimate, error, joint)
        result = replace(result, estimate=estimate, validations=seen)
    if fault:
        result = with_finding(result, fault[0], joints=(fault[1],))
    found = verdict(result)
    assert {*USES} - {*found.uses} == lost
    excepted = 'joint_3' in errors or fault == ('effort_sign', 'joint_3')
    assert found.excepted == ('joint_3',) * excepted
    assert excepted == any('of the gripper' in text for text in found.remarks)
    if excepted:
        assert 'at all joints but joint_3' in found.sentence


def test_a_last_joint_with_hardly_any_effort_is_excepted_from_errors_but_no_faults(good):
    fit = good.estimate.fit
    tiny = tuple(
        replace(each, rmse=1e-9) if each.joint == 'joint_3' else each for each in fit.joints
    )
    small = replace(good, estimate=replace(good.estimate, fit=replace(fit, joints=tiny)))
    missed = replace(small, estimate=with_errors(small.estimate, 60.0, 'joint_3'))
    found = verdict(missed)
    assert {*USES} == {*found.uses} and found.excepted == ('joint_3',)
    assert verdict(with_finding(small, 'effort_sign', joints=('joint_3',))).level == DO_NOT_USE


def test_a_finding_that_hardly_helps_the_whole_robot_is_a_reservation(good):
    finding = RecordingFault(
        'effort_scale',
        'fits better',
        'mend it',
        ('joint_3',),
        'times 3',
        2.0,
        improvement_of_all=1.2,
    )
    found = verdict(recorded(good, diagnosis=(finding,)))
    assert found.level == USABLE and found.uses == tuple(USES)
    assert 'the model may lack something' in found.sentence
    decisive = replace(finding, improvement_of_all=1.6)
    assert verdict(recorded(good, diagnosis=(decisive,))).level == DO_NOT_USE


def test_a_fault_of_the_recordings_is_named_before_what_follows_from_it():
    fault = Reason(criterion='diagnosis', text='a zero is off', next_step='mend the zero')
    masses = Reason(
        criterion='plausibility', text='masses', rules_out=('simulation',), next_step='check gains'
    )
    remark = Reason(criterion='speed', text='fast', remark=True)
    others = [masses, remark, Reason(criterion='gains', text='known to 10 %'), fault]
    found = verdict_from_reasons(others, 'not validated')
    assert 'not for simulation, because a zero is off; masses; and 1 more' in found.sentence
    assert found.next_steps[0].next_step == 'mend the zero'
    useless = Reason(criterion='validation', text='misses', rules_out=ALL)
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


def test_speeds_below_those_of_the_identification_are_a_remark(good):
    (seen,) = good.validations
    speeds = np.array(good.system.factor.highest_speed)
    speeds[1] *= 0.4
    slow = replace(good, validations=(replace(seen, highest_speed=tuple(speeds)),))
    (reason,) = reasons(slow, 'speed')
    assert reason.joints == ('joint_2',) and reason.value == pytest.approx(0.4)
    assert verdict(slow).level == GOOD
    assert '(0.4 times at the joint where that is least)' in verdict(slow).sentence


def test_a_joint_that_the_validation_does_not_move_is_excepted(good):
    (seen,) = good.validations
    speeds = np.array(good.system.factor.highest_speed)
    speeds[1] *= 0.01
    still = replace(good, validations=(replace(seen, highest_speed=tuple(speeds)),))
    (reason,) = reasons(still, 'speed')
    assert reason.excepted and reason.joints == ('joint_2',)
    assert 'at all joints but joint_2' in verdict(still).sentence
    assert verdict(still).uses == tuple(USES)
    # one that moves none shows nothing
    none = replace(good, validations=(replace(seen, highest_speed=tuple(0.01 * speeds)),))
    assert not {'computed_torque', 'collision_detection'} & set(verdict(none).uses)


def test_errors_to_expect_are_those_of_the_joints_that_are_not_excepted(good):
    """Of three joints, one that is excepted is by far the worst."""
    predicted = replace(
        good.predicted,
        relative=(4.0, 90.0, 3.0),
        relative_error=80.0,
        effort=(3.0, 20.0, 4.0),
        contact=(1.0, 70.0, 2.0),
    )
    result = replace(good, predicted=predicted)
    figures = use_figures(result, ('joint_2',))
    # sqrt((4 * 3)^2 + (3 * 4)^2) / 5
    assert figures.expected == 'errors to expect: 3.4 % on motions as fast; 4 % at joint_1'
    assert figures.uses['collision_detection'] == 'contacts > 1 to 2 N m'
    assert use_figures(result).expected.endswith('80 % on motions as fast; 90 % at joint_2')


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
