# SPDX-License-Identifier: Apache-2.0
"""Gains of drives that the experiment file leaves to the recordings."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.errors import SettingsError
from robot_identification.estimation.drive_gains import load_on
from robot_identification.exports.saving import save
from robot_identification.identification.gains import with_gains
from robot_identification.identification.pipeline import identify
from robot_identification.model.parameters import INERTIAL_SYMBOLS
from robot_identification.pages.summary import summary
from robot_identification.results.stored_result import read_result

from .conftest import make_recording, Workspace

TRUE = np.array([11.5, 18.0, 5.2])
"""Gains of the drives [N m/A]."""

MASS, CENTRE = 3.0, (0.05, 0.02, 0.1)
COLUMNS = 'time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]'


def write_currents(workspace: Workspace, file: str, seed: int, truth) -> None:
    table = make_recording(workspace.robot, truth, seed, 0.0)
    table[:, 4:] /= TRUE
    table[:, 4:] += 0.1 / TRUE * np.random.default_rng(seed).normal(size=(len(table), 3))
    workspace.write(table, file)


@pytest.fixture
def currents(workspace) -> Workspace:
    """Make recordings of currents, one with a load; no gains are given."""
    load = load_on(workspace.robot, MASS, CENTRE, (0.01, 0.0, 0.012, 0.001, 0.0, 0.009))
    link = workspace.robot.links[-1]
    body = dict(zip(INERTIAL_SYMBOLS, load.parameters, strict=True))
    heavy = workspace.truth.updated(
        {f'{link}.{s}': workspace.truth[f'{link}.{s}'] + value for s, value in body.items()}
    )
    write_currents(workspace, 'first.csv', 1, workspace.truth)
    write_currents(workspace, 'second.csv', 2, workspace.truth)
    write_currents(workspace, 'loaded.csv', 3, heavy)
    workspace.edit('joint_torque', 'motor_current')
    return workspace


def ratios(gains) -> np.ndarray:
    return gains / gains[1]


def given(values) -> dict:
    matrix = np.diag(values).tolist()
    return {'robot.drives.effort.matrix': matrix, 'robot.drives.effort.gains': 'ratios'}


STARTS = {
    'no gains': {},
    'the same for all': given([10.0, 10.0, 10.0]),
    'wrong ones': given(TRUE * [1.4, 0.7, 1.2]),
}


@pytest.mark.parametrize('start', ['no gains', 'the same for all', 'wrong ones'])
def test_ratios_are_the_true_ones_from_any_start(currents, start):
    _, gains = with_gains(load_experiment(currents.experiment, STARTS[start]))
    assert gains.drives == currents.robot.joints and gains.recordings == ('first.csv',)
    reference = gains.drives.index(gains.reference)
    error = np.log(gains.gains / gains.gains[reference] * TRUE[reference] / TRUE)
    assert np.abs(error).max() < 0.01 and gains.std.max() < 0.01
    assert (np.abs(error) <= 3.0 * gains.std).all()


def test_starts_make_no_difference(currents):
    first, second = (
        with_gains(load_experiment(currents.experiment, STARTS[start]))[1].gains
        for start in ('no gains', 'wrong ones')
    )
    np.testing.assert_allclose(first, second, rtol=1e-3)


def test_links_weigh_what_the_prior_says(currents):
    """The scale of the gains is that of the masses, and said to be."""
    result = identify(load_experiment(currents.experiment, {'estimation.method': 'physical'}))
    # the base does not move the first link's mass
    links = currents.robot.links[1:]
    masses, priors, truth = (
        sum(parameters[f'{link}.m'] for link in links)
        for parameters in (result.standard, result.prior, currents.truth)
    )
    assert masses == pytest.approx(priors, rel=0.02)
    assert truth / priors > 1.05
    assert result.drive_gains.scale == "the prior's masses"
    assert sum('the scale of the drives' in warning for warning in result.warnings) == 1
    assert result.validations[0].relative_error < 5.0


def test_a_known_load_gives_the_scale(currents):
    currents.edit(
        '  validation:\n',
        f'  known_load:\n    recordings: [{{file: loaded.csv, {COLUMNS}}}]\n'
        f'    mass: {MASS}\n  validation:\n',
    )
    result = identify(load_experiment(currents.experiment, {'auto': False}))
    gains = result.drive_gains
    np.testing.assert_allclose(gains.gains, TRUE, rtol=0.01)
    assert gains.scale == 'the known load of 3 kg' and 0.0 < gains.scale_std < 0.01
    assert not any('scale of the drives' in warning for warning in result.warnings)
    truth = result.structure.project(currents.truth).values
    misfit = np.linalg.norm(result.estimate.base.values - truth) / np.linalg.norm(truth)
    assert misfit < 0.02


def test_a_load_is_as_wrong_as_the_gains(currents):
    """By the prior's masses the scale is a few per cent off, and that is said."""
    currents.edit(
        '  validation:\n',
        f'  payload:\n    recordings: [{{file: loaded.csv, {COLUMNS}}}]\n  validation:\n',
    )
    settings = {'auto': False, 'estimation.method': 'physical'}
    result = identify(load_experiment(currents.experiment, settings))
    scale = np.mean(result.drive_gains.gains / TRUE)
    assert abs(scale - 1.0) > 0.1
    assert result.payload.mass == pytest.approx(scale * MASS, rel=0.02)
    assert 'one to one' in ' '.join(summary(result.payload).split())
    assert any('one to one' in warning for warning in result.warnings)
    assert result.payload.to_dict()['classical_std'][0] > 0.0


def test_result_has_the_gains_and_predicts_with_them(currents, tmp_path):
    experiment = load_experiment(currents.experiment)
    result = identify(experiment)
    saved = save(result, tmp_path)
    stored = read_result(saved.result)
    matrix = np.array(stored.settings.drives.effort.matrix)
    np.testing.assert_allclose(matrix, result.drive_gains.matrix)
    assert stored.settings.drives.effort.gains == 'given'
    assert stored.document['drive_gains']['reference'] == result.drive_gains.reference
    assert 'their ratios, without a load' in saved.report.read_text()
    table = result.drive_gains.summary()
    assert table.startswith("Drive gains, by their ratios; their scale is that of the prior's")
    done = currents.run('validate', saved.result, 'experiment.yaml', '--predictions', 'out.csv')
    (told,) = (line for line in done.stdout.splitlines() if line.startswith('wrote out.csv'))
    assert 'motor current times the gains that were found, not filtered; both in N m' in told
    measured = np.loadtxt(currents.folder / 'out.csv', delimiter=',', skiprows=1)[:, 1::2]
    recorded = currents.table('second.csv')[:, 4:]
    np.testing.assert_allclose(measured, recorded @ matrix.T)


def test_a_drive_whose_current_is_lost_in_noise_is_told(currents):
    table = currents.table()
    table[:, 4] += np.random.default_rng(0).normal(scale=50.0, size=len(table))
    currents.write(table)
    _, gains = with_gains(load_experiment(currents.experiment))
    (told,) = (warning for warning in gains.warnings if 'hardly determine the gain' in warning)
    assert "'joint_1'" in told
    ratio = gains.gains[2] / gains.gains[1]
    assert ratio == pytest.approx(TRUE[2] / TRUE[1], rel=0.02)


def test_commands_that_need_gains_say_so_and_others_do_not(currents):
    for command in (('reduce', 'experiment.yaml', '--out', 'a.factor'),):
        done = currents.run(*command, expect=2)
        assert 'the gains of the drives are not known' in done.stderr
    assert 'base parameters of' in currents.run('structure', 'experiment.yaml').stdout


@pytest.mark.parametrize(
    ('overrides', 'about'),
    [
        ({'robot.effort_kind': 'motor_torque'}, "'robot.drives.effort' is missing"),
        (
            {'robot.drives.effort.matrix': [[1, 0, 0], [0, 1, 0.1], [0, 0, 1]],
             'robot.drives.effort.gains': 'ratios'},
            'not diagonal',
        ),
        (
            {'robot.drives.effort.matrix': [[1, 0, 0], [0, 0, 0], [0, 0, 1]],
             'robot.drives.effort.gains': 'ratios'},
            'not diagonal',
        ),
        (
            {'robot.drives.effort.matrix': [[1, 0], [0, 1], [0, 0]],
             'robot.drives.effort.gains': 'ratios'},
            'not diagonal',
        ),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(currents, overrides, about):
    with pytest.raises(SettingsError, match=about):
        load_experiment(currents.experiment, overrides)


def test_a_prior_without_masses_has_no_scale(currents):
    with pytest.raises(SettingsError, match='no masses'):
        with_gains(load_experiment(currents.experiment, {'estimation.prior': 'none'}))
