# SPDX-License-Identifier: Apache-2.0
"""The table of criteria: each fires, is documented, and counts wherever the verdict is told."""

import ast
from dataclasses import replace
import json
from pathlib import Path
import re

from made_up_loads import BODY, payload, servos, tool
from made_up_loads import fit as loads_fit
import numpy as np
import pytest
from robot_identification.model.consistency import check
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.plausibility import PlausibilityFinding, PlausibilityReport
from robot_identification.model.robot_size import RobotSize
from robot_identification.pages.report import html
from robot_identification.pages.summary import summary
from robot_identification.selection.model_selection import Choice, ModelSelection
from robot_identification.verdicts import body_criteria, criteria
from robot_identification.verdicts.criteria import ARM, CRITERIA, Criterion, KINDS
from robot_identification.verdicts.document import verdict_json
from robot_identification.verdicts.reason import LOAD_USES, Reason, USES
from robot_identification.verdicts.verdict import DO_NOT_USE, GOOD, USABLE, verdict
from simulated_arm import (
    by_currents,
    colour,
    recorded,
    SIGNALS,
    with_delay,
    with_errors,
    with_file_errors,
    with_finding,
)

REFERENCE = Path(__file__).parents[2] / 'docs' / 'reference'
PAGE = (REFERENCE / 'verdict.md').read_text(encoding='utf-8')
FEW, SOME = np.arange(10) < 4, np.arange(10) != 2
"""Parameters that are determined: mass and first moments; all but one of those."""


def slow(result):
    (seen,) = result.validations
    speeds = tuple(0.4 * np.array(result.system.factor.highest_speed))
    return replace(result, validations=(replace(seen, highest_speed=speeds),))


def not_excited(result):
    known = result.estimate.identifiability
    none = replace(known, excited=np.zeros_like(known.excited))
    return replace(result, estimate=replace(result.estimate, identifiability=none))


def without_bodies(result):
    wrong = ParameterSet(result.standard.layout, -np.abs(result.standard.values) - 0.1)
    return replace(result, standard=wrong, consistency=check(wrong))


def too_heavy(result):
    finding = PlausibilityFinding('link_1', 'mass', 3.0, 1.0, 2.0, 'kg', 'link_1 is too heavy')
    return replace(result, plausibility=PlausibilityReport((finding,)))


def pushed(result):
    values = result.estimate.standard.updated({'joint_2.off': 1e6})
    return replace(result, estimate=replace(result.estimate, standard=values))


def tilted(result):
    choice = Choice('robot.base_tilt', (0.0, 0.3, 0.0), -70.0, 'against the gravity')
    chosen = ModelSelection(result.settings.model, SIGNALS, np.zeros(3), (choice,))
    return replace(result, selection=chosen)


def correlated(size=19):
    matrix = np.eye(size)
    matrix[0, 1] = matrix[1, 0] = 0.99
    return matrix


SCALED = replace(servos().servo, gains='scale')
BROKEN = check(ParameterSet(payload().base.layout, BODY * [1, 1, 1, 1, 3, 1, 1, 1, 1, 1])).links[0]

CASES = {
    ('diagnosis', 'arm'): lambda good: with_finding(good, 'degrees'),
    ('delay', 'arm'): lambda good: with_delay(good, 0.02, 0.02, 0.02),
    ('validation', 'arm'): lambda good: replace(good, validations=()),
    ('fit', 'arm'): lambda good: replace(good, estimate=with_errors(good.estimate, 20.0)),
    ('prediction', 'arm'): lambda good: replace(
        good, predicted=replace(good.predicted, relative_error=12.0)
    ),
    ('files', 'arm'): lambda good: with_file_errors(good, urdf=20.0, joint=9.0, original=30.0),
    ('excitation', 'arm'): not_excited,
    ('consistency', 'arm'): without_bodies,
    ('plausibility', 'arm'): too_heavy,
    ('weight', 'arm'): lambda good: replace(
        good, predicted=replace(good.predicted, gravity=3.0, gravity_size=0.5)
    ),
    ('speed', 'arm'): slow,
    ('residuals', 'arm'): lambda good: recorded(good, residuals=colour(50.0, 1.0)),
    ('offsets', 'arm'): pushed,
    ('mounting', 'arm'): tilted,
    ('gains', 'arm'): lambda good: by_currents(good, None),
    ('efforts', 'servos'): lambda _: servos(),
    ('rollout', 'servos'): lambda _: servos(motion=np.full(3, 1e-3)),
    ('method', 'servos'): lambda _: servos(method='ols'),
    ('bounds', 'servos'): lambda _: servos(fit={'at_bound': np.arange(19) < 1}),
    ('correlation', 'servos'): lambda _: servos(fit={'correlation': correlated()}),
    ('delay', 'servos'): lambda _: servos(fit={'std': np.full(19, 1e-2)}),
    ('bodies', 'servos'): lambda _: servos(fit={'vector': np.full(19, 0.5)}),
    ('gains', 'servos'): lambda _: servos(servo=SCALED),
    ('friction', 'servos'): lambda _: servos(('armature', 'viscous', 'delay', 'slope')),
    ('mass', 'tool'): lambda _: tool(determined=SOME),
    ('mass', 'payload'): lambda _: payload(covariance=0.1 * np.eye(10)),
    ('size', 'tool'): lambda _: tool(robot_size=RobotSize(1.0, 1e-3)),
    ('size', 'payload'): lambda _: payload(robot_size=RobotSize(1e-6, 1e3)),
    ('body', 'tool'): lambda _: tool(physical=False),
    ('body', 'payload'): lambda _: payload(consistency=BROKEN),
    ('wrench', 'tool'): lambda _: tool(15.0),
    ('fit', 'payload'): lambda _: payload(fit=loads_fit(20.0)),
    ('gains', 'payload'): lambda _: payload(by_gains=True),
    ('inertia', 'tool'): lambda _: tool(determined=FEW),
    ('inertia', 'payload'): lambda _: payload(determined=FEW),
    ('assumed', 'tool'): lambda _: tool(determined=FEW),
    ('assumed', 'payload'): lambda _: payload(determined=SOME),
}
"""A result that each criterion speaks of, by its name and kind; made of a good arm."""


@pytest.mark.parametrize(
    ('criterion', 'kind'),
    [
        pytest.param(criterion, kind, id=f'{criterion.name} of {kind.name}')
        for criterion in CRITERIA
        for kind in criterion.applies_to
    ],
)
def test_every_criterion_fires(good, monkeypatch, criterion, kind):
    # joints that slide have no gravity to tell from a constant
    monkeypatch.setattr(body_criteria, 'revolute', lambda robot: (True, False, True))
    result = CASES[criterion.name, kind.name](good)
    assert isinstance(result, kind.type)
    found = verdict(result)
    fired = [reason for reason in found.reasons if reason.criterion == criterion.name]
    assert fired and all(reason.text for reason in fired)
    assert {*found.uses} <= {*kind.uses}
    assert all({*reason.rules_out} <= {*kind.uses} for reason in fired)
    others = {reason.text for reason in verdict(sound(kind, good)).reasons}
    # that no efforts were recorded is true of all servos
    assert criterion.name == 'efforts' or {reason.text for reason in fired} - others


def sound(kind, good):
    """Return a result of a kind that no criterion speaks against, as far as there is one."""
    return {'arm': good, 'servos': servos(), 'tool': tool(), 'payload': payload()}[kind.name]


def test_sound_results_of_each_kind_are_good(good):
    levels = [verdict(sound(kind, good)).level for kind in KINDS]
    assert levels == [GOOD, USABLE, GOOD, GOOD]  # commands cannot tell masses
    sentence = verdict(tool()).sentence
    assert sentence == (
        'Good for gravity compensation and dynamics; the fit misses 1 % of how the wrench changes.'
    )


@pytest.mark.parametrize(
    ('error', 'level', 'words'),
    [
        (9.9, GOOD, ''),
        (10.1, USABLE, 'more than noise'),
        (19.9, USABLE, 'more than noise'),
        (20.1, DO_NOT_USE, 'look for contact, a delay'),
        (81.0, DO_NOT_USE, 'weight was taken off before'),
    ],
)
def test_the_error_of_a_wrench_counts(error, level, words):
    found = verdict(tool(error))
    assert found.level == level and words in found.sentence


@pytest.mark.parametrize(('percent', 'level'), [(4.9, GOOD), (5.1, USABLE)])
@pytest.mark.parametrize('made', [tool, payload])
def test_the_deviation_of_a_mass_counts(made, percent, level):
    found = verdict(made(covariance=(0.01 * percent * BODY[0]) ** 2 * np.eye(10)))
    assert found.level == level and ('dynamics' in found.uses) == (level == GOOD)


@pytest.mark.parametrize(
    ('error', 'uses'),
    [(14.9, ('gravity_compensation', 'dynamics')), (15.1, ('gravity_compensation',)), (50.1, ())],
)
def test_the_error_with_a_payload_counts(error, uses):
    assert verdict(payload(fit=loads_fit(error))).uses == uses


def test_a_payload_whose_inertia_fits_no_body_is_not_for_dynamics():
    assert verdict(payload(consistency=BROKEN)).uses == ('gravity_compensation',)
    assert verdict(tool(consistency=BROKEN)).level == GOOD


def test_what_is_no_result_has_no_verdict():
    with pytest.raises(TypeError, match='a str has no verdict'):
        verdict('result.yaml')


# ----------------------------------------------------------------------------------- a new line


def test_a_criterion_is_one_line_of_the_table(good, monkeypatch):
    told = Reason(text='the arm is of a colour that nobody likes', rules_out=('simulation',))
    line = Criterion('colour', (ARM,), lambda result: iter([told]))
    monkeypatch.setattr(criteria, 'CRITERIA', (*CRITERIA, line))
    found = verdict(good)
    assert [reason.criterion for reason in found.against] == ['colour']
    assert found.level == USABLE and 'simulation' not in found.uses
    document = json.loads(verdict_json(good))
    assert document['sentence'] == found.sentence
    assert {**document['reasons'][0], 'criterion': 'colour'}['text'] == told.text
    assert document['reasons'][0]['criterion'] == 'colour'
    assert told.text in html(good) and told.text in ' '.join(summary(good).split())
    assert not [reason for reason in verdict(tool()).reasons if reason.criterion == 'colour']


# --------------------------------------------------------------------------------------- the page


def rows_of(head):
    """Return the cells of the page's table with a head, row by row."""
    lines = PAGE[PAGE.index(head) :].split('\n\n')[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip('|').split(' | ')] for line in lines]


def test_the_page_has_a_row_for_each_criterion_in_order():
    rows = rows_of('| `criterion` | of | looks at | rules out |')
    assert all(len(row) == 4 and all(row) for row in rows)
    assert [tuple(row[:2]) for row in rows] == [
        (f'`{criterion.name}`', ', '.join(kind.name for kind in criterion.applies_to))
        for criterion in CRITERIA
    ]


def test_the_page_has_a_row_for_each_use():
    for head, uses in (
        ('| use of arm and servos | needs |', USES),
        ('| use of tool and payload | needs |', LOAD_USES),
    ):
        assert [row[0] for row in rows_of(head)] == [f'`{use}`' for use in uses]


def test_keys_that_steps_name_are_keys_of_experiment_files():
    page = (REFERENCE / 'experiment.md').read_text(encoding='utf-8')
    files = Path(criteria.__file__).parent.glob('*_criteria.py')
    trees = [ast.parse(file.read_text(encoding='utf-8')) for file in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    named = re.compile(r'\b(?:data|estimation|robot|signals|simulation)(?:\.\w+)*\.(\w+)')
    keys = {key for text in texts if isinstance(text, str) for key in named.findall(text)}
    assert {'dead_zone', 'known_load', 'links', 'rotation', 'timestep'} <= keys
    assert [key for key in sorted(keys) if f'| `{key}` |' not in page] == []


def test_a_negative_mass_of_a_load_names_exchanged_recordings():
    plain = payload()
    values = np.append(-plain.base.values[0], plain.base.values[1:])
    judged = verdict(replace(plain, base=replace(plain.base, values=values)))
    assert judged.level == DO_NOT_USE
    assert 'recordings with and without it are exchanged' in judged.sentence
