# SPDX-License-Identifier: Apache-2.0
"""Command ``calibrate`` in the simulation, with nothing asked."""

from pathlib import Path

import pytest
from robot_identification.cli.main import main
from robot_identification.exports import saving
import yaml

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf'
QUICK = ('--simulation', '--duration', '6', '--set', 'planner.max_iterations=60')


@pytest.fixture
def calibrate(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, 'html', lambda result: '')

    def calibrate(*options, robot=URDF):
        out = str(tmp_path / 'out')
        return main(['calibrate', str(robot), '--out', out, *QUICK, *options])

    return calibrate


def test_it_ends_with_the_goal_and_the_results(calibrate, tmp_path, capsys):
    assert calibrate('--target', '20') == 0
    out = capsys.readouterr().out
    assert 'motion_1: planning' in out and 'the goal is reached: ' in out
    for name in ('calibration.yaml', 'motion_1/plan.html', 'motion_1/recording.npz'):
        assert (tmp_path / 'out' / name).exists()
    result = yaml.safe_load((tmp_path / 'out' / 'results' / 'result.yaml').read_text())
    assert result['identification']['relative_error'] < 5.0


def test_a_goal_that_is_missed_is_told_by_exit_code_and_reason(calibrate, capsys):
    assert calibrate('--target', '0.02', '--motions', '1') == 4
    printed = capsys.readouterr()
    assert 'the budget of motions is spent' in printed.out
    assert printed.err.splitlines()[-1] == 'error: the goal is not reached'


@pytest.mark.parametrize(('answer', 'moved'), [('n', False), ('', False), ('yes', True)])
def test_confirm_asks_before_each_motion(calibrate, tmp_path, monkeypatch, answer, moved):
    asked = []

    def reply(text):
        asked.append(text)
        return answer

    monkeypatch.setattr('builtins.input', reply)
    calibrate('--confirm', '--motions', '1')
    assert len(asked) == 1 and 'motion_1/plan.html' in asked[0]
    assert (tmp_path / 'out' / 'motion_1' / 'recording.npz').exists() == moved


def test_an_experiment_file_gives_robot_and_methods(calibrate, tmp_path):
    path = tmp_path / 'experiment.yaml'
    path.write_text(
        f'robot: {{urdf: {URDF}, effort_kind: joint_torque, friction: [viscous, coulomb]}}\n'
        'signals: {cutoff: 12.0, dead_zone: 0.05}\nestimation: {method: ols}\nauto: false\n'
    )
    assert calibrate('--motions', '1', robot=path) in (0, 4)
    result = yaml.safe_load((tmp_path / 'out' / 'results' / 'result.yaml').read_text())
    assert result['identification']['method'] == 'ols'
    assert result['settings']['signals']['cutoff'] == 12.0
