# SPDX-License-Identifier: Apache-2.0
"""Bad input, each as a user meets it: one line that names the culprit, and the remedy."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.errors import IdentificationError
from robot_identification.identification.pipeline import identify


def failure(workspace) -> IdentificationError:
    """Identify, and return the error that has to come."""
    with pytest.raises(IdentificationError) as caught:
        identify(load_experiment(workspace.experiment))
    text = str(caught.value)
    assert '\n' not in text
    assert caught.value.remedy
    return caught.value


def test_wrong_joint_name(workspace):
    workspace.edit('[joint_1, joint_2, joint_3]', '[joint_1, joint_2, elbow]')
    error = failure(workspace)
    assert error.joint == 'elbow'
    assert 'joint_3' in str(error)


def test_unknown_key(workspace):
    workspace.edit('cutoff: 20.0', 'cutof: 20.0')
    error = failure(workspace)
    assert error.key == 'signals.cutof'
    assert 'signals.cutoff' in str(error)


def test_effort_kind_is_never_guessed(workspace):
    workspace.edit('  effort_kind: joint_torque\n', '')
    assert failure(workspace).key == 'robot.effort_kind'


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_number_that_is_none(workspace, value):
    table = workspace.table()
    table[700, 5] = value
    workspace.write(table)
    error = failure(workspace)
    assert "effort 'tau2'" in str(error)
    assert 'first.csv' in str(error)
    assert 'row 700' in str(error)


def test_unsorted_stamps(workspace):
    table = workspace.table()
    table[[300, 301]] = table[[301, 300]]
    workspace.write(table)
    error = failure(workspace)
    assert 'first.csv' in str(error)
    assert 'back in time' in str(error)


def test_duplicated_stamps(workspace):
    table = workspace.table()
    table[500, 0] = table[499, 0]
    workspace.write(table)
    assert 'twice' in str(failure(workspace))


def test_too_short_a_recording(workspace):
    workspace.write(workspace.table()[:30])
    error = failure(workspace)
    assert 'first.csv' in str(error)


def test_shorter_than_the_number_of_parameters_takes(workspace):
    workspace.write(workspace.table()[:100])
    failure(workspace)


def test_missing_effort(workspace):
    workspace.edit(', effort: [tau1, tau2, tau3]}\n  validation', '}\n  validation')
    assert 'effort' in failure(workspace).key


def test_all_zero_effort(workspace):
    table = workspace.table()
    table[:, 6] = 0.0
    workspace.write(table)
    error = failure(workspace)
    assert error.joint == 'joint_3'
    assert 'first.csv' in str(error)


def test_unexcited_joint(workspace):
    table = workspace.table()
    table[:, 3] = 0.3
    workspace.write(table)
    assert failure(workspace).joint == 'joint_3'


def test_column_that_the_file_does_not_have(workspace):
    workspace.edit('[tau1, tau2, tau3]}\n  validation', '[tau1, tau2, tau9]}\n  validation')
    error = failure(workspace)
    assert 'tau9' in str(error)
    assert 'tau3' in str(error)


def test_cell_that_is_no_number(workspace):
    path = workspace.folder / 'first.csv'
    lines = path.read_text().splitlines()
    lines[42] = lines[42].replace(',', ',n/a,', 1).rsplit(',', 1)[0]
    path.write_text('\n'.join(lines))
    assert 'first.csv' in str(failure(workspace))


def test_missing_file(workspace):
    (workspace.folder / 'second.csv').unlink()
    error = failure(workspace)
    assert error.key == 'data.validation[0].file'


def test_corrupt_bag(workspace):
    (workspace.folder / 'bag.mcap').write_bytes(b'\x89MCAP0\r\n' + bytes(range(200)))
    workspace.edit(
        '{file: first.csv, time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]}',
        '{file: bag.mcap, format: rosbag2}',
    )
    assert 'bag.mcap' in str(failure(workspace))


def test_urdf_without_inertia(workspace):
    text = workspace.robot.path.read_text()
    bare = workspace.folder / 'bare.urdf'
    while '<inertial>' in text:
        start, end = text.index('<inertial>'), text.index('</inertial>')
        text = text[:start] + text[end + len('</inertial>') :]
    bare.write_text(text)
    workspace.edit(str(workspace.robot.path), str(bare))
    # bodies that fill their shapes, or small ones, stand in for those that are missing
    result = identify(load_experiment(workspace.experiment))
    remarks = [text for text in result.warnings if 'has no inertia' in text]
    assert ['link_1' in remarks[0], 'link_2' in remarks[1], 'link_3' in remarks[2]] == [True] * 3


def test_cutoff_above_the_nyquist_frequency(workspace):
    workspace.edit('cutoff: 20.0', 'cutoff: 250.0')
    error = failure(workspace)
    assert error.key == 'signals.cutoff'
    assert '250' in str(error)


def test_an_empty_list_of_joints(workspace):
    workspace.edit('[joint_1, joint_2, joint_3]', '[]')
    assert failure(workspace).key == 'robot.joints'


def test_an_empty_file(workspace):
    (workspace.folder / 'first.csv').write_text('')
    assert 'first.csv' in str(failure(workspace))


@pytest.mark.parametrize('method', ['wls', 'physical', 'irls', 'mrls'])
def test_too_few_independent_rows_for_the_parameters(workspace, method):
    """The fit would be exact, and its error on any other motion without bounds."""
    workspace.edit('cutoff: 20.0', 'cutoff: 1.0')
    workspace.edit('decimate_to: 50.0', 'decimate_to: 2.0')
    workspace.edit('dead_zone: 0.05', 'dead_zone: 0.0')
    workspace.edit('method: wls', f'method: {method}')
    error = failure(workspace)
    assert error.joint == 'joint_1' and 'fewer than 1.5 for each' in str(error)
    assert 'record longer, or raise signals.cutoff' in error.remedy
    assert 'dead_zone' not in error.remedy


def validated(workspace, table):
    """Identify, and return what validating on other recordings prints."""
    workspace.run('identify', 'experiment.yaml', '--quiet')
    workspace.write(table, 'second.csv')
    command = 'validate', 'results/result.yaml', 'experiment.yaml', '--verbose'
    return ' '.join(workspace.run(*command).stdout.split())


def test_a_validation_of_few_rows_shows_nothing(workspace):
    table = workspace.table('second.csv')[:300]
    table[:, 4:] *= 2.0  # whatever they are
    found = validated(workspace, table)
    assert 'rows a joint at most, too few to judge by' in found
    assert 'misses' not in found and 'Do not use' not in found
    assert 'validate on a longer motion' in found


def test_a_joint_without_rows_has_no_error(workspace):
    table = workspace.table('second.csv')
    table[:, 3] = table[0, 3] + 1e-4 * np.sin(table[:, 0])
    found = validated(workspace, table)
    assert 'no rows of joint_3 outside the dead zone: not judged' in found
    row = found[found.index('joint_3 0 ') :].split()[:6]
    assert row[:5] == ['joint_3', '0', '-', '-', '-']
