# SPDX-License-Identifier: Apache-2.0
"""Number of passes over a recording, and the place of the bootstrap's figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from robot_identification.cli import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources
from robot_identification.results.stored_result import read_result
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
