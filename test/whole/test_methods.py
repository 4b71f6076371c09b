# SPDX-License-Identifier: Apache-2.0
"""Every method from the command line, with options of its own; wrong ones are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from robot_identification.cli import main
from robot_identification.estimation.estimators import ESTIMATORS
from robot_identification.results.stored_result import read_result
import yaml

METHODS = yaml.safe_load((Path(__file__).parents[1] / 'methods.yaml').read_text())


@pytest.fixture(scope='module')
def folder(tmp_path_factory, make_workspace):
    """Give one folder for all; nothing here changes its recordings."""
    return make_workspace(tmp_path_factory.mktemp('methods'))


def run(workspace, options):
    options = {**options, 'data.validation': '[]'}
    settings = [word for key, value in options.items() for word in ('--set', f'{key}={value}')]
    return main(['identify', str(workspace.experiment), '--quiet', *settings])


def test_every_estimator_is_tried():
    assert set(ESTIMATORS) <= set(METHODS['reached'])


@pytest.mark.parametrize('name', METHODS['reached'])
def test_a_method_is_reached(folder, name):
    case = METHODS['reached'][name]
    assert run(folder, case['options']) == 0
    result = read_result(folder.folder / 'results' / 'result.yaml')
    for key, value in case['options'].items():
        section, _, rest = key.partition('.')
        found = {'robot': result.settings.model, 'signals': result.settings.signals}.get(
            section, result.settings.estimation
        )
        for step in rest.split('.'):
            found = getattr(found, step)
        assert _plain(found) == _plain(yaml.safe_load(value)), key
    found = result.document['identification']
    assert found['method'] == case['options'].get('estimation.method', 'wls')
    assert found['relative_error'] < 2.0
    assert case.get('notes', '') in ' '.join(result.notes)
    assert case.get('parameter', 'link_1.m') in result.standard.layout
    assert result.document['consistency']['physical'] or not case.get('physical')


@pytest.mark.parametrize('case', METHODS['refused'], ids=lambda case: ' '.join(case['options']))
def test_what_cannot_be_is_named(folder, case, capsys):
    assert run(folder, case['options']) == 2
    text = capsys.readouterr().err.splitlines()[-1]
    assert text.startswith('error: ')
    for word in case['names']:
        assert word in text


def _plain(value):
    """Make tuples and settings comparable with what YAML gives."""
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if hasattr(value, '__dataclass_fields__'):
        return getattr(value, next(iter(value.__dataclass_fields__)))
    if isinstance(value, dict):
        named = [value[key] for key in ('motor', 'link') if key in value]
        return named[0] if named else {key: _plain(item) for key, item in value.items()}
    return value
