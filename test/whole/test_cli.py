# SPDX-License-Identifier: Apache-2.0
"""The command line as a user runs it, but for the process (see `test_terminal`)."""

from __future__ import annotations

from dataclasses import replace
import json
import re
import shutil

import numpy as np
import pytest
from robot_identification.cli import experiment
from robot_identification.cli.main import main
from robot_identification.errors import ConsistencyError
from robot_identification.exports import saving
from robot_identification.identification import pipeline
import yaml

from .conftest import make_recording


@pytest.fixture(scope='module')
def once_identified(make_workspace, tmp_path_factory):
    made = make_workspace(tmp_path_factory.mktemp('identified'))
    made.run('identify', 'experiment.yaml')
    return made


@pytest.fixture
def identified(once_identified, tmp_path):
    """Give a folder in which `identify` has run."""
    shutil.copytree(once_identified.folder, tmp_path, dirs_exist_ok=True)
    return replace(once_identified, folder=tmp_path)


def test_identify_prints_a_verdict_the_links_and_the_summary_and_writes_four_files(workspace):
    done = workspace.run('identify', 'experiment.yaml')
    lines = done.stdout.splitlines()
    assert lines[0].startswith('Good for all uses: ') and len(lines) <= 15
    assert lines[-1].endswith('report.html to results') and max(map(len, lines)) <= 80
    done = workspace.run('identify', 'experiment.yaml', '--verbose')
    heads = ('weighted least squares', 'Plausibility: ', '-- Links: before', '== Verdict ==')
    places = [done.stdout.index(head) for head in heads]
    assert places == sorted(places)
    assert re.search(r'joint_3\s+\d+', done.stdout)
    assert 'Validation on second.csv' in done.stdout
    written = re.findall(r'^wrote (.*)$', done.stdout, re.MULTILINE)
    assert len(written) == 4
    for path in written:
        assert (workspace.folder / path).stat().st_size > 1000
    judged = json.loads((workspace.folder / 'results' / 'verdict.json').read_text())
    assert judged['sentence'] in ' '.join(done.stdout.split())
    document = yaml.safe_load((workspace.folder / 'results' / 'result.yaml').read_text())
    assert document['structure']['base'] == len(document['parameters'])
    assert document['identification']['relative_error'] < 3.0
    checked = document['consistency']
    assert checked['plausible'] == (checked['physical'] and not checked['findings'])
    for finding in checked['findings']:
        assert {'link', 'quantity', 'value', 'lower', 'upper', 'unit'} < set(finding)
    assert 'Plausibility: ' in done.stdout
    assert 'Plausibility: ' in (workspace.folder / 'results' / 'report.html').read_text()


def test_out_and_set_replace_what_the_file_says(workspace):
    workspace.run(
        'identify',
        'experiment.yaml',
        '--out',
        'other',
        '--set',
        'estimation.method=ols',
        '--quiet',
    )
    document = yaml.safe_load((workspace.folder / 'other' / 'result.yaml').read_text())
    assert document['identification']['method'] == 'ols'
    assert not (workspace.folder / 'results').exists()


def test_quiet_prints_only_what_was_written(workspace):
    done = workspace.run('identify', 'experiment.yaml', '--quiet')
    assert [line.split()[0] for line in done.stdout.splitlines()] == ['wrote'] * 4


def test_validate_takes_an_experiment_file(identified):
    command = 'validate', 'results/result.yaml', 'experiment.yaml'
    told = identified.run(*command).stdout
    assert told.startswith('Good for all uses: ') and len(told.splitlines()) < 15
    done = identified.run(*command, '--verbose')
    assert 'joint_2' in done.stdout
    assert done.stdout.startswith('== Verdict by the validation alone')


def test_validate_takes_the_results_own_settings_for_keys_that_the_file_leaves_out(identified):
    command = 'validate', 'results/result.yaml', 'experiment.yaml', '--verbose'
    before = identified.run(*command).stdout
    identified.edit('  dead_zone: 0.05\n', '')
    assert identified.run(*command).stdout == before
    assert identified.run(*command, '--set', 'signals.dead_zone=0.0').stdout != before


def test_validate_refuses_a_file_that_is_no_bag(identified):
    done = identified.run('validate', 'results/result.yaml', 'first.csv', expect=2)
    assert 'first.csv' in one_line(done)


def test_validate_writes_measured_and_predicted_efforts(identified):
    """At every sample; but for the ends, predictions are nearer to the robot than the noise."""
    done = identified.run(
        'validate', 'results/result.yaml', 'experiment.yaml', '--predictions', 'out.csv', '--quiet'
    )
    assert (
        'wrote out.csv: predicted from the motion filtered by butterworth at 20 Hz; measured is '
        'the recorded joint torque, not filtered; both in N m' in done.stdout
    )
    lines = (identified.folder / 'out.csv').read_text().splitlines()
    joints = identified.robot.joints
    names = [f'{joint}.{kind}' for joint in joints for kind in ('measured', 'predicted')]
    assert lines[0].split(',') == ['time', *names]
    table = np.loadtxt(lines[1:], delimiter=',')
    recorded = identified.table('second.csv')
    assert np.array_equal(table[:, 0], recorded[:, 0])
    assert np.array_equal(table[:, 1::2], recorded[:, 4:])
    quiet = make_recording(identified.robot, identified.truth, 2, 0.0)[:, 4:]
    error = (table[:, 2::2] - quiet)[40:-40]
    assert (np.sqrt(np.mean(error**2, axis=0)) < 0.05).all()
    assert np.isfinite(table).all()


def test_predictions_say_what_they_have_been_through(identified):
    """A delay is in the predicted efforts, a given gain in the measured ones."""
    path = identified.folder / 'results' / 'result.yaml'
    command = 'validate', 'late.yaml', 'experiment.yaml', '--predictions', 'late.csv', '--quiet'
    document = yaml.safe_load(path.read_text())
    settings = document['settings']
    settings['signals']['effort_delay'] = [0.0, 0.1, 0.0]
    settings['drives'] = {'position': None, 'effort': {'matrix': np.eye(3).tolist()}}
    (identified.folder / 'late.yaml').write_text(yaml.safe_dump(document, sort_keys=False))
    told = identified.run(*command).stdout
    assert (
        'and the channel of the efforts (effort_delay 0, 0.1 s); measured is the recorded' in told
    )
    assert 'joint torque times robot.drives.effort, not filtered' in told
    identified.run('validate', path, *command[2:4], 'now.csv', '--quiet')
    late, now = (identified.table(name) for name in ('late.csv', 'now.csv'))
    shift = round(0.1 / np.diff(now[:, 0]).mean())
    np.testing.assert_allclose(late[:, [2, 6]], now[:, [2, 6]], atol=1e-9)
    moved = (late[shift:, 4] - now[:-shift, 4])[40:-40]
    assert np.abs(moved).max() < 0.01 * np.abs(now[:, 4]).max()


def test_predictions_do_not_replace_what_is_read(identified):
    before = identified.table('second.csv')
    command = 'validate', 'results/result.yaml', 'experiment.yaml', '--predictions'
    for file in ('second.csv', 'results/result.yaml'):
        assert file in one_line(identified.run(*command, file, expect=2))
    assert np.array_equal(identified.table('second.csv'), before)
    assert 'absent' in one_line(identified.run(*command, 'absent/out.csv', expect=2))


def test_check_of_a_result_and_of_a_urdf(identified):
    assert 'link_2' in identified.run('check', 'results/result.yaml').stdout
    done = identified.run('check', identified.robot.path, '--require-physical')
    assert 'link_2' in done.stdout


def test_require_physical_gives_exit_code_3(identified):
    identified.edit('value', 'value', 'results/identified.urdf')
    text = (identified.folder / 'results' / 'identified.urdf').read_text()
    broken = re.sub(r'<mass value="[^"]*"', '<mass value="-1.0"', text, count=1)
    (identified.folder / 'broken.urdf').write_text(broken)
    done = identified.run('check', 'broken.urdf', '--require-physical', expect=3)
    assert done.stderr.startswith('error: ')
    identified.run('check', 'broken.urdf')


def test_plausible_is_more_than_physical(identified):
    text = identified.robot.path.read_text()
    heavy = re.sub(r'<mass value="[^"]*"', '<mass value="1000.0"', text)
    (identified.folder / 'heavy.urdf').write_text(heavy)
    done = identified.run('check', 'heavy.urdf', '--require', 'physical')
    assert 'Plausibility: NOT plausible' in done.stdout and 'kg/m^3, plausible is' in done.stdout
    for demand in (['--require', 'plausible'], ['--require-physical']):
        done = identified.run('check', 'heavy.urdf', *demand, expect=3)
        assert 'not plausible' in one_line(done)
    done = identified.run('check', 'results/result.yaml')
    assert 'Plausibility: ' in done.stdout


def test_check_repairs_a_urdf(identified):
    text = identified.robot.path.read_text()
    broken = re.sub(r'<mass value="[^"]*"', '<mass value="-1.0"', text, count=1)
    (identified.folder / 'broken.urdf').write_text(broken)
    done = identified.run('check', 'broken.urdf', '--repair', '--require', 'physical')
    assert 'is no physical body' in done.stdout and 'wrote broken.repaired.urdf' in done.stdout
    again = identified.run('check', 'broken.repaired.urdf', '--repair')
    assert again.stdout.startswith('nothing to repair')
    done = identified.run('check', 'results/result.yaml', '--repair', expect=2)
    assert 'only a URDF can be repaired' in one_line(done)


def test_a_promised_file_that_is_not_written_is_an_error(workspace, monkeypatch, capsys):
    def refused(*_):
        raise ConsistencyError("link 'link_1' has a mass of -1 kg")

    monkeypatch.setattr(saving, 'export', refused)
    assert main(['identify', str(workspace.experiment), '--quiet']) == 5
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "error: identified.urdf is not written: link 'link_1' has a mass of -1 kg"


def test_what_would_be_faster_is_named_before_the_work_starts(workspace, monkeypatch, capsys):
    def refused(*_, **__):
        raise ConsistencyError('no need to go on')

    monkeypatch.setattr(experiment, 'find_spec', lambda _: None)
    monkeypatch.setattr(pipeline, 'identify', refused)
    assert main(['identify', str(workspace.experiment)]) != 0
    told = capsys.readouterr().err
    assert "warning: 'numba' is not installed: pip install 'robot-identification[fast]'" in told


def test_export_to_a_file_and_to_standard_output(identified):
    identified.run('export', 'results/result.yaml', '--out', 'out.urdf')
    text = (identified.folder / 'out.urdf').read_text()
    assert identified.run('export', 'results/result.yaml').stdout == text
    assert text == (identified.folder / 'results' / 'identified.urdf').read_text()


def test_replay_prints_errors_before_and_after(workspace):
    workspace.run('identify', 'experiment.yaml', '--set', 'estimation.method=physical')
    done = workspace.run('replay', 'results/result.yaml', 'experiment.yaml', '--horizon', '0.2')
    assert 'Error of the position after 0.2 s' in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith('joint_')]
    assert len(rows) == 3
    assert all(float(after) < 0.2 * float(before) for _, _, before, after in rows)


def test_export_writes_every_format(identified, monkeypatch, capsys):
    monkeypatch.chdir(identified.folder)
    result = 'results/result.yaml'
    begins = {'mjcf': '<mujoco', 'sdf': '<sdf', 'c': '/*', 'yaml': 'name: ', 'csv': 'kind,name'}
    for name, begin in begins.items():
        assert main(['export', result, '--format', name]) == 0
        text = capsys.readouterr().out
        assert text.startswith(begin)
        # the suffix of the file says the same
        path = f'robot.{"xml" if name == "mjcf" else name}'
        assert main(['export', result, '--out', path]) == 0
        assert (identified.folder / path).read_text() == text
        wrote, *said = capsys.readouterr().out.splitlines()
        assert wrote == f'wrote {path}'
        # tables predict nothing
        assert any('misses' in line for line in said) == (name not in ('yaml', 'csv'))


def test_diagnose_finds_nothing_in_good_recordings(workspace):
    assert 'nothing found' in workspace.run('diagnose', 'experiment.yaml').stdout


def test_diagnose_and_identify_tell_what_mends_a_recording(workspace):
    other_way = ('--set', 'robot.gravity=[0, 0, 9.81]')
    told = workspace.run('diagnose', 'experiment.yaml', *other_way).stdout
    assert 'gravity along' in told and 'robot.gravity' in told
    done = workspace.run('identify', 'experiment.yaml', *other_way)
    assert done.stdout.startswith('Do not use: gravity_direction: ') and not done.stderr
    assert 'next: set robot.gravity' in ' '.join(done.stdout.split()), done.stdout
    done = workspace.run('identify', 'experiment.yaml', *other_way, '--verbose')
    document = yaml.safe_load((workspace.folder / 'results' / 'result.yaml').read_text())
    assert [finding['code'] for finding in document['diagnosis']] == ['gravity_direction']
    assert document['diagnosis'][0]['evidence'] in done.stderr


def test_filters_shows_responses_and_draws_them(workspace):
    done = workspace.run(
        'filters', 'experiment.yaml', '--out', 'filters.html',
        '--compare', 'polynomial_approximation', '--compare', 'butterworth',
    )  # fmt: skip
    # the file's own method first, each once, at the recording's rate
    titles = [line for line in done.stdout.splitlines() if 'Hz, looks at' in line]
    assert titles == [
        'butterworth at 400 Hz, looks at all samples',
        'polynomial_approximation at 400 Hz, looks at 0.044 s',
    ]
    assert 'wrote filters.html' in done.stdout
    assert 'Share of the true velocity' in (workspace.folder / 'filters.html').read_text()


def test_filters_takes_another_rate(workspace):
    done = workspace.run('filters', 'experiment.yaml', '--rate', '1000', '--out', 'other.html')
    assert 'butterworth at 1000 Hz' in done.stdout
    assert 'at 1000 Hz' in (workspace.folder / 'other.html').read_text()


def test_structure_tells_what_can_be_identified(workspace):
    upright = workspace.run('structure', 'experiment.yaml').stdout
    tilted = workspace.run('structure', 'experiment.yaml', '--set', 'robot.gravity=[3, 0, -9]')
    assert 'Identifiable parameters' in upright
    assert 'not at all' in upright

    def count(text):
        return int(
            next(line for line in text.splitlines() if 'base parameters of' in line).split()[0]
        )

    # gravity that is not along the first axis tells where the first link's mass is
    assert count(tilted.stdout) == count(upright) + 2


COMMANDS = [
    'identify', 'diagnose', 'validate', 'check', 'replay', 'export', 'structure', 'filters',
    'play', 'demo',
]  # fmt: skip


@pytest.mark.parametrize('command', COMMANDS)
def test_help_teaches(workspace, command):
    done = workspace.run(command, '--help')
    assert 'usage: robot-identification ' + command in done.stdout
    assert len(done.stdout.splitlines()) > 10


def test_version(workspace):
    from robot_identification import __version__

    assert __version__ in workspace.run('--version').stdout


@pytest.mark.parametrize(
    ('arguments', 'named'),
    [
        (('identfy',), "did you mean 'identify'?"),
        (('export', 'result.yaml', '--format', 'mcjf'), "did you mean 'mjcf'?"),
        (('identify', 'experiment.yaml', '--set', 'estimation.method=wsl'), "mean 'wls'?"),
        (('filters', 'experiment.yaml', '--compare', 'buterworth'), "mean 'butterworth'?"),
        (('identify',), 'experiment'),
        (('identify', 'absent.yaml'), 'absent.yaml'),
        (('identify', 'experiment.yaml', '--set', 'signals.cutof=3'), 'signals.cutoff'),
        (('identify', 'experiment.yaml', '--set', 'signals.cutoff'), 'KEY=VALUE'),
        (('identify', 'experiment.yaml', '--set', 'signals.cutoff=high'), 'signals.cutoff'),
        (('identify', 'experiment.yaml', '--set', 'output=null'), '--out'),
        (('validate', 'absent.yaml', 'experiment.yaml'), 'absent.yaml'),
        (('check', 'experiment.yaml'), 'experiment.yaml'),
        (('export', 'first.csv'), 'first.csv'),
        (('filters', 'experiment.yaml', '--compare', 'fourier'), 'savitzky_golay'),
        (('filters', 'experiment.yaml', '--rate', '0'), '--rate'),
        (('filters', 'experiment.yaml', '--out', 'filters.png'), '.html'),
        (('play', 'absent.mcap', '--rate', '0'), '--rate'),
    ],
)
def test_wrong_command_lines_get_one_line_and_exit_code_2(workspace, arguments, named):
    assert named in one_line(workspace.run(*arguments, expect=2))


def test_results_that_cannot_be_written(workspace):
    (workspace.folder / 'taken').write_text('a file, not a folder')
    done = workspace.run('identify', 'experiment.yaml', '--out', 'taken', expect=2)
    assert 'taken' in done.stderr
    # and that is found out before the work, even where the work would fail
    (workspace.folder / 'first.csv').write_text('')
    done = workspace.run('identify', 'experiment.yaml', '--out', 'taken', expect=2)
    assert 'taken' in one_line(done)


def one_line(done) -> str:
    """Return the error, which has to be one line without a traceback."""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith('error: ')
    return lines[0]


def test_without_a_command_there_is_help(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith('usage: robot-identification')
