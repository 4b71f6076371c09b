# SPDX-License-Identifier: Apache-2.0
"""Every estimator by the experiment file, on a recording of a robot that is known."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.errors import SettingsError
from robot_identification.io.experiment import load_experiment
from robot_identification.io.results import read_result
from robot_identification.pipeline import identify
import yaml

NOISE = 0.05
"""Standard deviation of the recordings' effort [N m], see conftest."""


def found(workspace, method, **overrides):
    chosen = {'estimation.method': method} | overrides
    return identify(load_experiment(workspace.experiment, chosen))


@pytest.fixture
def spoil(workspace):
    """Return what makes 1 % of the effort's samples wrong by 50 times their noise."""

    def do(seed=5):
        rng = np.random.default_rng(seed)
        table = workspace.table()
        bad = rng.random(table[:, 4:].shape) < 0.01
        table[:, 4:] += np.where(bad, 50.0 * NOISE * rng.normal(size=bad.shape), 0.0)
        workspace.write(table)

    return do


@pytest.mark.parametrize('decimate_to', [None, 50.0])
@pytest.mark.parametrize('loss', ['huber', 'tukey'])
def test_outliers_in_a_recording_move_no_parameter_by_a_standard_deviation(
    workspace, spoil, loss, decimate_to
):
    keys = {'estimation.irls.loss': loss, 'signals.decimate_to': decimate_to}
    clean = {method: found(workspace, method, **keys).estimate for method in ('ols', 'irls')}
    spoil()
    for method, before in clean.items():
        result = found(workspace, method, **keys)
        moved = np.abs(result.estimate.base.values - before.base.values) / before.std
        assert (moved.max() < 1.0) == (method == 'irls'), (method, moved.max())
    truth = result.structure.project(workspace.truth).values
    error = result.estimate.base.values - truth
    assert (np.abs(error) < 4.0 * result.estimate.std).all()
    # what is left when uncertain ones are dropped stays as good
    kept = result.essential.essential
    assert (np.abs(result.essential.base.values - truth)[kept] < 6.0 * before.std[kept]).all()
    assert all('weight below one half' in note for note in result.estimate.notes)
    share = [note.partition('; ')[2] for note in result.estimate.notes]
    assert all(share) == (decimate_to is not None)


@pytest.mark.parametrize('formulation', ['factor', 'gram'])
@pytest.mark.parametrize('block', [1, 40, 10**6])
def test_recursive_estimate_is_the_batch_where_all_is_excited(workspace, formulation, block):
    batch = found(workspace, 'ols').estimate
    keys = {'estimation.mrls.formulation': formulation, 'estimation.mrls.block': block}
    estimate = found(workspace, 'mrls', **keys).estimate
    assert estimate.excited.all()
    scale = np.abs(batch.base.values).max()
    np.testing.assert_allclose(estimate.base.values, batch.base.values, atol=1e-10 * scale)
    np.testing.assert_allclose(estimate.std, batch.std, rtol=1e-7)
    assert [fit.rmse for fit in estimate.joints] == pytest.approx(
        [fit.rmse for fit in batch.joints], rel=1e-9
    )
    assert estimate.condition_number == pytest.approx(batch.condition_number, rel=1e-9)
    assert 'the recursion took' in estimate.notes[0]


def test_recursive_estimate_with_the_weights_of_wls(workspace):
    batch = found(workspace, 'wls').estimate
    estimate = found(workspace, 'mrls', **{'estimation.mrls.weights': 'wls'}).estimate
    np.testing.assert_allclose(estimate.base.values, batch.base.values, rtol=1e-8)


def test_what_a_recording_does_not_reach_keeps_the_prior_and_says_why(workspace):
    """Joint 1 only ever turns one way: its offset cannot be told from its Coulomb friction."""
    table = workspace.table()
    robot = workspace.robot
    from robot_identification.regressors import build

    time = table[:, 0]
    ramp = 2.0 * time + 0.3 * np.sin(2.0 * time)
    table[:, 1] = ramp
    q = table[:, 1:4]
    v, a = (np.gradient(x, time, axis=0) for x in (q, np.gradient(q, time, axis=0)))
    from robot_identification.recording import Motion

    regressor = build(robot)
    effort = (regressor.rows(Motion(q, v, a)) @ workspace.truth.values).reshape(-1, 3)
    table[:, 4:] = effort + 0.01 * np.random.default_rng(0).normal(size=effort.shape)
    workspace.write(table)
    result = found(workspace, 'mrls')
    estimate = result.estimate
    i = estimate.base.layout.index('joint_1.off')
    assert not estimate.excited[i] and np.isnan(estimate.std[i])
    assert estimate.base.values[i] == result.structure.project(result.prior).values[i]
    assert 'joint_1.fc' in estimate.reasons[i]
    assert any('joint_1.off' in warning for warning in result.warnings)


def test_bounds_of_standard_parameters(workspace):
    """A box that excludes the free estimate's masses; best within it, or cut at it."""
    free = found(workspace, 'mrls').estimate
    truth = workspace.truth
    top = 0.5 * truth['joint_2.fv']
    (workspace.folder / 'bounds.yaml').write_text('m: [0, 100]\nfv: [0, 20]\n')
    keys = {
        'estimation.mrls.bounds_file': 'bounds.yaml',
        'estimation.mrls.bounds': {'joint_2.fv': [0.0, top]},
    }
    i = free.base.layout.index('joint_2.fv')
    for how in ('least_squares', 'clip'):
        result = found(workspace, 'mrls', **keys, **{'estimation.mrls.bounded': how})
        estimate = result.estimate
        assert estimate.base.values[i] == top and np.isnan(estimate.std[i])
        assert 'joint_2.fv' in estimate.notes[-1]
        others = np.arange(free.std.size) != i
        same = np.allclose(estimate.base.values[others], free.base.values[others], rtol=1e-9)
        assert same == (how == 'clip')
        if how == 'least_squares':
            best = estimate.relative_error
        else:
            assert free.relative_error < best < estimate.relative_error


@pytest.mark.parametrize(
    ('key', 'value', 'about'),
    [
        ('estimation.mrls.bounds', {'link_9.m': [0, 1]}, r'bounds\.link_9\.m'),
        ('estimation.mrls.bounds', {'m': [9.0, 1.0]}, r'bounds\.m'),
        ('estimation.mrls.bounds_file', 'nowhere.yaml', r"bounds_file': file '.*' does not exist"),
        ('estimation.mrls.thresholds', {'x': 1.0}, r'thresholds\.x'),
        ('estimation.mrls.block', 0, r"mrls\.block' is 0"),
        ('estimation.mrls.formulation', 'qr', r"formulation' is 'qr'"),
        ('estimation.irls.loss', 'cauchy', r"irls\.loss' is 'cauchy'"),
    ],
)
def test_wrong_settings_are_named(workspace, key, value, about):
    with pytest.raises(SettingsError, match=about):
        found(workspace, 'mrls', **{key: value})


@pytest.mark.parametrize('method', ['irls', 'mrls'])
def test_command_line_and_result_file(workspace, method):
    done = workspace.run('identify', 'experiment.yaml', '--set', f'estimation.method={method}')
    stored = read_result(workspace.folder / 'results' / 'result.yaml')
    assert stored.estimation.method == method and stored.notes
    document = yaml.safe_load((workspace.folder / 'results' / 'result.yaml').read_text())
    assert document['identification']['method'] == method
    assert 'least squares' in done.stdout
