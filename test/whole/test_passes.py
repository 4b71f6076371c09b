# SPDX-License-Identifier: Apache-2.0
"""Number of passes over a recording, and the place of the bootstrap's figures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from robot_identification.cli import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.problem import IdentificationProblem
from robot_identification.identification import choose as choose_module
from robot_identification.identification import reduction
from robot_identification.identification.pipeline import (
    check,
    choose,
    estimate,
    explain,
    identify,
    identify_sources,
    prepare,
)
from robot_identification.regressor.base_search import structure
from robot_identification.results.stored_result import read_result
from robot_identification.selection import model_selection
from robot_identification.signals import SignalSettings, stretches
from robot_identification.signals.methods import LowPass
import yaml


@dataclass
class Counted:
    """A recording that counts how often its samples are asked for."""

    original: Any
    passes: list[int] = field(default_factory=lambda: [0])

    def __getattr__(self, name):
        return getattr(self.original, name)

    def blocks(self, *arguments, **keys):
        self.passes[0] += 1
        return self.original.blocks(*arguments, **keys)


@pytest.fixture(scope='module')
def folder(tmp_path_factory, make_workspace):
    return make_workspace(tmp_path_factory.mktemp('passes'))


@pytest.mark.parametrize(
    ('method', 'drawn', 'passes'),
    [
        # for the rows, and of the beginning for the diagnosis
        ('ols', False, 2),
        ('physical', True, 2),
        ('mrls', False, 3),
        *(
            pytest.param(*case, 2, marks=pytest.mark.soak)
            for case in (('wls', False), ('physical', False), ('ols', True), ('wls', True))
        ),
    ],
)
def test_weights_essentials_constraints_and_bootstrap_cost_no_further_pass(
    folder, method, drawn, passes
):
    override = {'estimation.method': method}
    override['estimation.bootstrap'] = {'replicates': 50} if drawn else None
    experiment = load_experiment(folder.experiment, override)
    problem = IdentificationProblem.from_experiment(experiment)
    joints = problem.robot.joints
    sources = [Counted(source) for source in experiment.sources('identification', joints)]
    held = [Counted(source) for source in experiment.sources('validation', joints)]
    result = identify_sources(problem, sources, held)
    assert [source.passes for source in sources] == [[passes]]
    # with the rows of the dead zone, and without them
    assert [source.passes for source in held] == [[1]]
    assert result.validations[0].all_rows
    assert result.essential is not None
    assert (result.estimate.uncertainty.bootstrap is not None) == drawn
    assert (result.estimate.uncertainty.classical_std is not None) == drawn


def test_the_bootstrap_is_in_result_summary_and_report(folder, capsys):
    options = [
        '--verbose',
        '--set',
        'estimation.bootstrap={replicates: 60, block: 0.5, level: 90}',
    ]
    assert main(['identify', str(folder.experiment), *options]) == 0
    assert '60 replicates of' in capsys.readouterr().out
    results = folder.folder / 'results'
    stored = read_result(results / 'result.yaml')
    assert stored.settings.estimation.bootstrap.block == 0.5
    document = yaml.safe_load((results / 'result.yaml').read_text())
    told = document['identification']['bootstrap']
    assert told['replicates'] == 60
    assert told['level'] == 90.0
    assert 0.3 < told['block'] < 0.7
    for parameter in document['parameters']:
        if parameter['std'] is not None:
            assert parameter['bootstrap_low'] < parameter['bootstrap_high']
            assert parameter['std'] == parameter['bootstrap_std'] > 0.0
            assert parameter['classical_std'] > 0.0
    page = (results / 'report.html').read_text()
    assert 'id="bootstrap"' in page
    assert '60 replicates of' in page


def test_a_stage_can_be_stopped_at_looked_at_and_gone_on_from(folder):
    experiment = load_experiment(folder.experiment)
    prepared = prepare(experiment)
    assert prepared.recordings.identification and not prepared.locked
    chosen = choose(prepared)
    assert chosen.prior.values.size == chosen.builder.structure.n_standard
    estimated = estimate(chosen)
    assert estimated.system.factor.n_base == chosen.builder.structure.n_base
    checked = check(estimated)
    assert checked.consistency.physical and len(checked.validations) == 1
    by_stages, at_once = explain(checked).to_document(), identify(experiment).to_document()
    del by_stages['timing'], at_once['timing']
    assert by_stages == at_once


def test_base_parameters_are_found_once_for_each_model(folder, monkeypatch):
    found = []

    def counted(regressor, robot, **settings):
        found.append((regressor.layout.names, robot.gravity.tobytes()))
        return structure(regressor, robot, **settings)

    for module in (choose_module, model_selection, reduction):
        monkeypatch.setattr(module, 'structure', counted)
    result = identify(load_experiment(folder.experiment, {'auto': True}))
    assert result.selection is not None and len(found) > 1
    assert len(set(found)) == len(found)


def test_samples_of_a_small_recording_are_filtered_once_for_each_filter(folder, monkeypatch):
    filtered = []
    samples = LowPass.samples

    def counted(self, stretch, ends):
        filtered.append(self)
        return samples(self, stretch, ends)

    monkeypatch.setattr(LowPass, 'samples', counted)
    (recording,) = prepare(load_experiment(folder.experiment)).recordings.identification
    settings = SignalSettings()
    for changed in (settings, settings, replace(settings, dead_zone=0.1, effort_delay=1e-3)):
        list(stretches(recording, changed))
    assert len(filtered) == 1
    list(stretches(recording, replace(settings, cutoff=0.5 * settings.cutoff)))
    assert len(filtered) == 2
    again = list(stretches(recording, settings))
    assert len(filtered) == 3 and len(recording.filtered) == 1
    (fresh,) = stretches(recording.rows(None, None), settings)
    assert (fresh.position == again[0].position).all()
