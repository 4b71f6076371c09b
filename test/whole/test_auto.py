# SPDX-License-Identifier: Apache-2.0
"""Settings that an experiment file leaves out: chosen, printed, stored and repeated."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.cli.main import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.exports.saving import save
from robot_identification.identification.pipeline import identify
from robot_identification.results.stored_result import read_result
import yaml


@pytest.fixture
def without_signals(workspace):
    """Leave all that can be chosen out of the file."""
    text = workspace.experiment.read_text()
    start, stop = text.index('signals:'), text.index('estimation:')
    text = text[:start] + text[stop:]
    workspace.experiment.write_text(text)
    workspace.edit('auto: false\n', '')
    workspace.edit('  friction: [viscous, coulomb, offset]\n  rotor_inertia: true\n', '')
    return workspace


def test_settings_left_out_are_chosen_and_the_run_is_repeated_exactly(without_signals):
    result = identify(load_experiment(without_signals.experiment))
    assert {choice.key for choice in result.selection.choices} >= {'signals.cutoff'}
    saved = save(result, without_signals.folder / 'out').result
    stored = read_result(saved)
    assert stored.settings.signals == result.settings.signals
    # the result file is the experiment that repeats it, from any folder
    again = identify(load_experiment(saved))
    assert again.selection is None
    assert again.settings.signals == result.settings.signals
    assert again.settings.model == result.settings.model
    np.testing.assert_array_equal(again.robot.gravity, result.robot.gravity)
    np.testing.assert_array_equal(again.estimate.base.values, result.estimate.base.values)


def test_no_auto_takes_the_defaults(without_signals, capsys):
    experiment, out = str(without_signals.experiment), without_signals.folder / 'plain'
    assert main(['identify', experiment, '--no-auto', '--out', str(out)]) == 0
    assert 'Chosen from the recordings' not in capsys.readouterr().out
    document = yaml.safe_load((out / 'result.yaml').read_text())
    assert document['selection'] == []
    assert document['settings']['signals']['cutoff'] == 25.0


def test_the_choices_are_printed(without_signals, capsys):
    out = without_signals.folder / 'out'
    assert main(['identify', str(without_signals.experiment), '--verbose', '--out', str(out)]) == 0
    shown = capsys.readouterr().out
    assert 'Chosen from the recordings:' in shown
    assert '  signals.cutoff: ' in shown


def test_a_tilted_base_turns_gravity(workspace):
    workspace.edit('  effort_kind', '  base_tilt: [0.1, 0.0, 0.0]\n  effort_kind')
    robot = load_experiment(workspace.experiment).build_robot()
    wanted = [0.0, 9.81 * np.sin(0.1), -9.81 * np.cos(0.1)]
    np.testing.assert_allclose(robot.gravity, wanted, atol=1e-12)
    np.testing.assert_allclose(robot.model.gravity.linear, wanted, atol=1e-12)
