# SPDX-License-Identifier: Apache-2.0
"""Names with line breaks, control characters and formulas: refused, or written as text."""

import csv
import io
from pathlib import Path
import warnings

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import (
    IdentificationError,
    IdentificationWarning,
    ModelError,
    RecordingError,
)
from robot_identification.estimation.validation import PredictedEfforts
from robot_identification.excitation.plan_file import points_csv
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.exports.robot_export import parameters_csv
from robot_identification.exports.saving import write_predictions
from robot_identification.model.robot import Robot
from robot_identification.untrusted.names import csv_cell, has_control

URDF = (Path(__file__).parents[2] / 'urdf' / 'zollo_planar_2r.urdf').read_text()
ODD = ['joint 1', 'größe', '関節', 'a,b', '"q"', "it's", '<&>', '$(x)', '=1+1', '-x', '+x', '@x']
BROKEN = ['a\nb', 'a\rb', 'a\tb', 'a\x1b[31m', 'a\x7f', 'a\x85b', 'a\u2028b', '\u202eb', 'a\udcff']
FORMULA = '=1+cmd|calc!A0'


def named(old, new):
    """Return the URDF with another name of a joint or link; characters as references."""
    text = ''.join(f'&#{ord(character)};' for character in new)
    assert f'"{old}"' in URDF
    return URDF.replace(f'"{old}"', f'"{text}"')


JOINT, LINK = 'joint_1', 'link_1'


@pytest.mark.parametrize('name', BROKEN)
def test_control_characters_are_found(name):
    assert has_control(name)


@pytest.mark.parametrize('name', ODD)
@pytest.mark.parametrize('old', [JOINT, LINK])
def test_odd_names_of_a_robot_stay(name, old):
    robot = Robot.from_urdf(named(old, name))
    assert name in (robot.joints if old == JOINT else robot.links)


@pytest.mark.parametrize('name', ['a\nb', 'a\tb', 'a\x85b', 'a\u2028b', '\u202eb'])
@pytest.mark.parametrize('old', [JOINT, LINK])
def test_a_robot_with_control_characters_is_refused_in_one_line(name, old):
    with pytest.raises(
        ModelError, match='the name .* has control characters: rename it'
    ) as caught:
        Robot.from_urdf(named(old, name))
    assert str(caught.value).isprintable()
    assert name in (caught.value.joint, caught.value.link)


def test_the_robots_own_name_is_checked():
    with pytest.raises(ModelError, match='of the robot .* has control characters'):
        Robot.from_urdf(URDF.replace('<robot name="', '<robot name="a&#10;'))


@pytest.mark.parametrize('name', ['a\x1b[31mb', '\u202eb'])
def test_a_table_with_control_characters_is_refused_in_one_line(tmp_path, name):
    path = tmp_path / 'run.csv'
    path.write_text(f't,{name},tau\n0,1,2\n1,2,3\n', encoding='utf-8')
    entry = RecordingEntry(file=str(path), time='t', position=(1,), effort=('tau',))
    with pytest.raises(RecordingError, match='of a column has control characters') as caught:
        list(open_recording(entry, ('joint',)).blocks())
    assert str(caught.value).isprintable()


@pytest.mark.parametrize('text', BROKEN)
def test_errors_and_warnings_are_one_printable_line(text):
    error = IdentificationError(f'no joint {text}', remedy=f'not {text}')
    assert str(error).isprintable()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        warnings.warn(f'joint {text} is held', IdentificationWarning, stacklevel=1)
    assert str(caught[0].message).isprintable()


@pytest.mark.parametrize('text', ['=1+1', '+x', '-x', '@x', '\t=1', '-1+cmd|x'])
def test_cells_like_formulas_are_text(text):
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize('value', ['joint', '-1.5e-3', '+2', '', 'a=b', -1.5, None, 3])
def test_other_cells_stay(value):
    assert csv_cell(value) == value


def cells(text):
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row]


def no_formulas(text):
    """Return whether no cell of a table is a formula, and each row has as many cells."""
    rows = list(csv.reader(io.StringIO(text)))
    numbers = {len(row) for row in rows}
    return len(numbers) == 1 and not any(
        cell[:1] in ('=', '+', '@') or (cell[:1] == '-' and not cell[1:2].isdigit())
        for cell in cells(text)
    )


def test_no_table_begins_a_cell_with_a_formula(tmp_path):
    points = np.zeros((3, 2))
    trajectory = PointTrajectory((FORMULA, 'a,b'), np.arange(3.0), points, points, points)
    assert no_formulas(points_csv(trajectory))
    block = PredictedEfforts(np.arange(3.0), points, points, (FORMULA, 'a,b'))
    write_predictions(tmp_path / 'efforts.csv', [block])
    assert no_formulas((tmp_path / 'efforts.csv').read_text())
    row = {'unit': 'kg', 'value': -1.0, 'std': None, 'prior': 1.0, 'expression': FORMULA}
    tables = {name: [{'name': FORMULA, **row}] for name in ('standard_parameters', 'parameters')}
    assert no_formulas(parameters_csv(tables))
