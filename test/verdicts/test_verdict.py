# SPDX-License-Identifier: Apache-2.0
"""The verdict on simulated arms, good and broken, and its file."""

from dataclasses import replace
import json
from pathlib import Path

import numpy as np
import pytest
from robot_identification.estimation.residuals import EffortDelay
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result
from robot_identification.verdicts.document import verdict_json
from robot_identification.verdicts.reason import ALL, Reason, USES
from robot_identification.verdicts.verdict import (
    DO_NOT_USE,
    GOOD,
    USABLE,
    validation_verdict,
    verdict,
    verdict_from_reasons,
)
from simulated_arm import (
    identified,
    recorded,
    ROBOT,
    run,
    with_errors,
    with_finding,
    within,
)


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


def test_a_step_is_named_once_and_the_gravest_reason_first(good):
    reason = Reason(criterion='fit', text='a', rules_out=('simulation',), next_step='do this')
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


def test_a_stored_result_is_judged_by_its_validation(good, tmp_path):
    write_result(good, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    found = validation_verdict(stored, good.validations)
    assert found.level == GOOD and verdict(good).scope.endswith(found.scope)
    (seen,) = good.validations
    assert validation_verdict(stored, [with_errors(seen, 51.0)]).level == DO_NOT_USE
    twice = replace(seen, relative_error=6.0)
    assert validation_verdict(stored, [twice]).level == USABLE
