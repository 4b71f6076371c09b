# SPDX-License-Identifier: Apache-2.0
"""Commands ``compare`` and ``plot`` on results of one robot."""

from __future__ import annotations

import pytest
from robot_identification.results.stored_result import read_result


@pytest.fixture(scope='module')
def results(make_workspace, tmp_path_factory):
    """Identify once from each of the recordings."""
    workspace = make_workspace(tmp_path_factory.mktemp('compare'))
    plain = ('--quiet', '--set', 'estimation.bootstrap=null')
    workspace.run('identify', 'experiment.yaml', *plain, '--out', 'one')
    swapped = ('data.identification[0].file=second.csv', 'data.validation[0].file=second.csv')
    sets = (word for setting in swapped for word in ('--set', setting))
    workspace.run('identify', 'experiment.yaml', *plain, *sets, '--out', 'two')
    return workspace


def test_two_recordings_of_one_robot_do_not_differ(results):
    done = results.run('compare', 'one/result.yaml', 'two/result.yaml')
    assert '0 of ' in done.stdout and ' base parameters differ significantly' in done.stdout
    errors = done.stdout.partition('Relative error on second.csv')[2].splitlines()
    (last,) = (line.split() for line in errors if line.startswith('all joints'))
    for name, cell in zip(('one', 'two'), last[2:], strict=True):
        (stored,) = read_result(results.folder / name / 'result.yaml').document['validation']
        assert float(cell) == pytest.approx(stored['relative_error'], abs=0.006)


def test_given_recordings_are_predicted_by_all_results(results):
    command = ('compare', 'one/result.yaml', 'two/result.yaml', '--on', 'experiment.yaml')
    done = results.run(*command, '--set', 'data.validation[0].file=first.csv')
    assert 'Relative error on first.csv' in done.stdout


def test_one_result_cannot_be_compared(results):
    assert 'at least two' in results.run('compare', 'one/result.yaml', expect=2).stderr


def test_efforts_of_chosen_joints_are_drawn(results):
    done = results.run('plot', 'one/result.yaml', '--joint', 'joint_2', '--out', 'efforts.html')
    assert done.stdout == 'wrote efforts.html\n'
    page = (results.folder / 'efforts.html').read_text()
    assert 'data-joint="joint_2"' in page
    assert 'data-joint="joint_1"' not in page
    done = results.run('plot', 'one/result.yaml', '--joint', 'joint_9', expect=2)
    assert 'its joints are joint_1, joint_2, joint_3' in done.stderr
    assert done.stderr.count('\n') == 1
