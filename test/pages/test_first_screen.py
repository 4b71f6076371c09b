# SPDX-License-Identifier: Apache-2.0
"""The verdict on one screen: its size, its lines, and its one next step, for all kinds."""

from dataclasses import replace
from pathlib import Path

import made_up_loads
import made_up_result
import numpy as np
import pytest
from robot_identification.diagnosis.recording_faults import RecordingFault
from robot_identification.errors import Omission, OmittedText
from robot_identification.pages.first_screen import (
    COLUMNS,
    first_screen,
    names_in_line,
    Places,
    ROWS,
)
from robot_identification.pages.summary import screen
from robot_identification.verdicts.reason import ALL, MORE, Reason
from robot_identification.verdicts.residual_criteria import fit_step
from robot_identification.verdicts.verdict import verdict, verdict_from_reasons
from simulated_arm import colour, identified, recorded, run, with_errors, with_file_errors

PLACES = Places('experiment.yaml', 'results/result.yaml', 'results/identified.urdf')
WRITTEN = 'result.yaml', 'verdict.json', 'identified.urdf', 'actuators.py', 'report.html'
FAULT = RecordingFault(
    'coupled_drives',
    'fits 5.22 times better with A2 and A3 driven by coupled motors (1 times the effort of A3 '
    'added to that of A2): the residual of A3 falls from 92.8 to 17.8 % of its effort',
    'put 1 into robot.drives.effort.matrix, in the row of A2 and the column of A3, and -1 into '
    'robot.drives.position.matrix, in the row of A3 and the column of A2',
    improvement=5.22,
    improvement_of_all=4.0,
)


@pytest.fixture(scope='module')
def good():
    """Return the result of an arm, validated on a second run."""
    return identified(run(1), run(2, 'second run'))


def arms(good):
    """Return results of arms, clean and faulty, by name."""
    (seen,) = good.validations
    omissions = [
        OmittedText.of(Omission(f'from {i} to {i + 1} s', 'time of ident.csv.gz', (str(i),)))
        for i in range(2)
    ]
    omissions += [OmittedText.of(Omission('a very long sentence on something else ' * 9))] * 2
    poor = replace(good, validations=(with_errors(seen, 42.0),))
    return {
        'good': good,
        'not validated': replace(good, validations=()),
        'useless': replace(good, validations=(with_errors(seen, 99.0),)),
        'one joint': replace(good, validations=(with_errors(seen, 66.0, 'joint_2'),)),
        'file': with_file_errors(good, urdf=20.0, joint=80.0, original=40.0),
        'coloured': recorded(poor, residuals=colour(20.0, 1.0)),
        'fault': recorded(poor, diagnosis=(FAULT,)),
        'minor fault': recorded(good, diagnosis=(replace(FAULT, improvement_of_all=1.1),)),
        'left out': replace(good, omissions=tuple(omissions), warnings=('w',)),
    }


KINDS = [
    *['good', 'not validated', 'useless', 'one joint', 'file', 'coloured', 'fault'],
    *['minor fault', 'left out', 'made up', 'servos', 'payload', 'tool', 'bad tool'],
]


def result_of(name, good):
    others = {
        'made up': made_up_result.made_up_result,
        'servos': made_up_loads.servos,
        'payload': made_up_loads.payload,
        'tool': made_up_loads.tool,
        'bad tool': lambda: made_up_loads.tool(error=95.0),
    }
    return others[name]() if name in others else arms(good)[name]


@pytest.mark.parametrize('name', KINDS)
def test_a_verdict_fits_on_a_screen(name, good):
    """With the line on the files that were written; one line a use, with a reason or a figure."""
    result = result_of(name, good)
    found = verdict(result)
    lines = screen(result, PLACES, warnings=3).text().splitlines()
    written = names_in_line([Path('results') / file for file in WRITTEN])
    assert len(lines) + len(written) <= ROWS
    assert max(map(len, [*lines, *written])) <= COLUMNS, lines  # the commands that are named, too
    assert lines[0].startswith(('Good for ', 'Usable ', 'Do not use: '))
    for use, text in found.possible.items():
        (line,) = (line for line in lines if line[2:9].strip() in ('good', 'usable', 'no')
                   and line[10:].startswith(text))  # fmt: skip
        state = line.split()[0]
        assert (state == 'no') == (use not in found.uses)
        assert (state == 'good') == (found.against_use(use) is None)
        assert state == 'good' or len(line.split(text)[1].split()) > 1
    assert sum(line.startswith('next: ') for line in lines) == 1


def test_the_next_step_is_that_of_the_gravest_reason(good):
    made = {name: screen(result, PLACES) for name, result in arms(good).items()}
    assert made['fault'].headline.startswith('Do not use: coupled_drives: fits 5.22 times better')
    assert made['fault'].step == f'{FAULT.remedy}, in experiment.yaml'
    assert made['not validated'].step.endswith('data.validation, in experiment.yaml')
    assert made['file'].command == 'robot-identification export results/result.yaml --format c'
    assert made['coloured'].command == 'robot-identification plan experiment.yaml'
    assert 'results/identified.urdf' in made['good'].step and not made['good'].command
    # a command that names a file which is not there cannot be typed
    (gone,) = (screen(arms(good)[name], replace(PLACES, experiment='')) for name in ('coloured',))
    assert not gone.command and gone.step


def test_what_was_left_out_is_counted_and_leads_to_the_report(good):
    text = screen(arms(good)['left out'], replace(PLACES, details='results/report.html'),
                  warnings=2).left_out  # fmt: skip
    assert text.startswith('left out or changed: 2 times of ident.csv.gz, a very long sentence')
    assert text.endswith('1 more; 2 warnings; see results/report.html')
    held = replace(verdict(good), locked=9)
    assert (
        first_screen(held, PLACES).left_out
        == 'left out or changed: 9 locked joints; see --verbose'
    )
    assert not screen(good, PLACES).left_out


def test_steps_do_not_contradict_each_other(good):
    slower = Reason(criterion='diagnosis', text='a', rules_out=ALL[1:], next_step='move slower')
    faster = Reason(criterion='fit', text='b', rules_out=ALL[2:], **MORE)
    found = verdict_from_reasons([faster, slower], 'not validated')
    assert [step.next_step for step in found.next_steps] == ['move slower']
    # where a fault explains what was missed, the steps of what follows from it are void
    fault = replace(slower, next_step='put -1 there', value=2.0)
    alone = verdict_from_reasons([faster, fault], 'not validated').next_steps
    assert [step.next_step for step in alone] == ['put -1 there']


def test_residuals_are_called_noise_only_where_they_are_white(good):
    def step(rows, **figures):
        return fit_step(recorded(good, residuals=colour(rows, 1.0), **figures))['next_step']

    assert 'noise' in step(2.0, diagnosis=())
    assert 'noise' not in step(5.0, diagnosis=())
    assert 'noise' not in step(2.0, diagnosis=(FAULT,))
    assert 'noise' not in step(np.nan, diagnosis=())
