# SPDX-License-Identifier: Apache-2.0
"""The example of a delta robot, from its recording to its parameters, in both descriptions."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
import shutil

import numpy as np
import pytest
from robot_identification.config.experiment_file import experiment_from, load_experiment
from robot_identification.config.problem import IdentificationProblem
from robot_identification.errors import SettingsError
from robot_identification.estimation.factor_file import pack, unpack
from robot_identification.exports.saving import save
from robot_identification.identification.pipeline import identify, identify_factors
from robot_identification.identification.reduction import FactorBuilder
from robot_identification.identification.revalidation import validate_stored
from robot_identification.model.robot import Robot
from robot_identification.options.document import read_document
from robot_identification.regressor.delta import delta_urdf
from robot_identification.results.stored_result import read_result

ROOT = Path(__file__).resolve().parents[2]
DELTA = ROOT / 'examples' / 'delta'

spec = importlib.util.spec_from_file_location('record', DELTA / 'record.py')
record = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Make a user's copy of the repository's example, with recordings of 4 s."""
    root = tmp_path_factory.mktemp('suite')
    folder = root / 'examples' / 'delta'
    shutil.copytree(DELTA, folder, ignore=shutil.ignore_patterns('*.csv', 'results*'))
    shutil.copytree(ROOT / 'urdf', root / 'urdf')
    record.main(folder, seconds=4.0)
    return folder


@pytest.fixture(scope='module')
def identified(folder):
    """Give the function that identifies by one of the files, once for each method."""

    @functools.cache
    def by(name, method=None):
        overrides = {} if method is None else {'estimation.method': method}
        return identify(load_experiment(folder / name, overrides))

    return by


def found(result):
    return dict(zip(result.structure.names, result.estimate.base.values, strict=True))


def test_thirteen_parameters_are_found_from_the_geometry(folder, identified):
    result = identified('experiment.yaml')
    values = found(result)
    assert len(values) == 13
    for symbol, true in record.PARAMETERS.items():
        ours = [values[f'arm_{i}.{symbol}'] for i in (1, 2, 3)]
        np.testing.assert_allclose(ours, true, rtol=0.06)
    assert values['platform.m4'] == pytest.approx(record.PLATFORM, rel=0.04)
    assert all(fit.relative_error < 7.0 for fit in result.validations[0].joints)
    saved = save(result, folder / 'results')
    stored = read_result(folder / 'results' / 'result.yaml')
    assert (
        stored.settings.model == result.settings.model
        and stored.robot.passive == result.robot.passive
    )
    (again,) = validate_stored(
        stored, load_experiment(folder / 'experiment.yaml').sources('validation')
    )
    assert again.joints[0].rmse == pytest.approx(result.validations[0].joints[0].rmse)
    text = (folder / 'results' / 'identified.urdf').read_text()
    assert 'arm_1.J = ' in text and 'platform.m4 = ' in text
    assert saved is not None


def test_the_general_description_finds_the_same(folder, identified):
    one, result = found(identified('experiment.yaml')), identified('experiment_loops.yaml')
    other = found(result)
    assert len(other) == 16
    for i in (1, 2, 3):
        assert other[f'arm_{i}_link.Iyy'] == pytest.approx(one[f'arm_{i}.J'], rel=0.02)
        assert other[f'arm_{i}.fc'] == pytest.approx(one[f'arm_{i}.fc'], rel=0.01)
    assert other['platform.m'] == pytest.approx(one['platform.m4'], rel=0.02)
    # the passive platform's mass is written back, too
    save(result, folder / 'results_loops')
    again = Robot.from_urdf(
        folder / 'results_loops' / 'identified.urdf', result.robot.joints, passive=None
    )
    identified = again.opened.prior.get('platform.m')
    assert identified == pytest.approx(other['platform.m'], rel=1e-9)


@pytest.mark.parametrize(
    'name',
    ['experiment.yaml', pytest.param('experiment_loops.yaml', marks=pytest.mark.soak)],
)
def test_a_robot_whose_links_have_not_all_parameters_has_a_physical_fit(identified, name):
    results = [identified(name, method) for method in ('wls', 'physical')]
    free, found = (result.estimate.fit.relative_error for result in results)
    assert results[1].consistency.physical
    assert found < 1.05 * free


@pytest.mark.parametrize('name', ['experiment.yaml', 'experiment_loops.yaml'])
def test_a_factor_finds_the_same(folder, identified, name):
    experiment = load_experiment(folder / name, {'data.validation': []})
    stored = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment)).reduce(
        experiment.sources()[0]
    )
    result = identify_factors([unpack(pack(stored))], experiment.estimation)
    expected = identified(name).estimate
    apart = np.abs(result.estimate.base.values - expected.base.values)
    assert (apart <= 1e-8 * expected.std).all()


def test_the_urdf_is_that_of_the_geometry():
    experiment = load_settings('experiment.yaml')
    text = (ROOT / 'urdf' / 'delta.urdf').read_text()
    assert text.endswith(delta_urdf(experiment.robot.delta))


def load_settings(name):
    return experiment_from(read_document(DELTA / name), DELTA, check_data=False)


@pytest.mark.parametrize(
    ('name', 'overrides', 'key', 'words'),
    [
        ('experiment.yaml', {'robot.delta.arm_length': '0'}, 'robot.delta.arm_length', 'above 0'),
        ('experiment.yaml', {'robot.urdf': 'delta.urdf'}, 'robot.urdf', 'leave one of them out'),
        ('experiment.yaml', {'robot.joints': '[a, b]'}, 'robot.joints', 'three'),
        ('experiment_loops.yaml', {'robot.loops[1].link_a': 'arm'}, 'robot.loops', "'arm'"),
        ('experiment_loops.yaml', {'robot.loops[1].kind': 'weld'}, 'robot.loops[1].kind', 'rod'),
        ('experiment_loops.yaml', {'robot.loops[0].length': '2.0'}, 'robot.loops', "'forearm"),
        ('experiment_loops.yaml', {'robot.assembly': '{arm: 1.0}'}, 'robot.assembly.arm', 'arm_1'),
        ('experiment_loops.yaml', {'robot.joints': '[arm_1]'}, 'robot.loops', 'robot.joints'),
        ('experiment.yaml', {'robot.loops': '[]', 'robot.delta': 'null'}, 'robot.urdf', 'missing'),
    ],
)
def test_wrong_descriptions_are_refused_by_key(folder, name, overrides, key, words):
    with pytest.raises(SettingsError) as error:
        load_experiment(folder / name, overrides)
    assert error.value.key == key
    assert words in str(error.value)


@pytest.mark.parametrize('key', ['payload', 'known_load'])
def test_loads_do_not_go_with_thirteen_parameters(folder, key):
    run = {'file': 'identification.csv', 'time': 'time'}
    run |= {'position': ['q1', 'q2', 'q3'], 'effort': ['tau1', 'tau2', 'tau3']}
    load = {'recordings': [run], **({'mass': 1.0} if key == 'known_load' else {})}
    with pytest.raises(SettingsError, match='robot.delta') as caught:
        load_experiment(folder / 'experiment.yaml', {f'data.{key}': load})
    assert caught.value.key == f'data.{key}'
