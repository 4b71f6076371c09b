# SPDX-License-Identifier: Apache-2.0
"""From files to parameters: against the parameters that made the files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.errors import SettingsError
from robot_identification.estimation.prior import body_scale
from robot_identification.exports.saving import save
from robot_identification.identification.pipeline import IdentificationProblem, identify
from robot_identification.identification.revalidation import add_validation, validate_stored
from robot_identification.results.stored_result import read_result


@pytest.fixture(scope='module')
def case(make_workspace, tmp_path_factory):
    """Give a folder and what is identified from it; not to be changed."""
    made = make_workspace(tmp_path_factory.mktemp('pipeline'))
    return made, identify(load_experiment(made.experiment))


def test_the_true_base_parameters_are_found_within_their_uncertainty(case):
    """Weighed with the covariance, the distance to the truth is a chi-squared variable's."""
    workspace, result = case
    estimate = result.estimate
    error = estimate.base.values - result.structure.project(workspace.truth).values
    assert estimate.identifiability.excited.all()
    distance = error @ np.linalg.solve(estimate.uncertainty.covariance, error)
    # mean b, standard deviation sqrt(2 b): five of these are room for the filters' own error
    b = error.size
    assert distance < b + 5.0 * np.sqrt(2.0 * b)
    assert estimate.fit.relative_error < 3.0


def test_validation_error_is_that_of_the_identification(case):
    _, result = case
    (validation,) = result.validations
    assert validation.relative_error < 1.3 * result.estimate.fit.relative_error


def test_standard_parameters_fit_as_well_and_are_nearer_to_the_prior_than_the_truth(case):
    workspace, result = case
    base = result.structure.project(result.standard).values
    np.testing.assert_allclose(base, result.estimate.base.values, rtol=1e-9, atol=1e-12)
    change = np.linalg.norm(result.standard.values - result.prior.values)
    # the truth fits as well up to noise, and is not the nearest
    assert change < np.linalg.norm(workspace.truth.values - result.prior.values)


def test_saved_urdf_predicts_the_torque_of_the_true_robot(case, tmp_path):
    workspace, result = case
    saved = save(result, tmp_path)
    assert {path.name for path in (saved.result, saved.verdict, saved.report, saved.urdf)} == {
        'result.yaml',
        'report.html',
        'identified.urdf',
        'verdict.json',
    }
    identified = pin.buildModelFromUrdf(str(saved.urdf))
    true, nominal = workspace.robot.with_parameters(workspace.truth), workspace.robot.model
    rng = np.random.default_rng(3)
    errors = {'identified': 0.0, 'nominal': 0.0}
    for _ in range(50):
        q, v, a = rng.uniform(-1.0, 1.0, (3, 3))
        # rotor inertia has no place in a URDF
        truth = pin.rnea(true, true.createData(), q, v, a)
        for name, model in (('identified', identified), ('nominal', nominal)):
            torque = pin.rnea(model, model.createData(), q, v, a)
            errors[name] += np.sum((torque - truth) ** 2)
    assert errors['identified'] < 1e-2 * errors['nominal']


def test_stored_result_validates_as_the_result_does(case, tmp_path):
    workspace, result = case
    saved = save(result, tmp_path)
    sources = load_experiment(workspace.experiment).sources('validation')
    (stored,) = validate_stored(read_result(saved.result), sources)
    assert stored.relative_error == pytest.approx(result.validations[0].relative_error, rel=1e-6)


def test_a_validation_can_be_added_later(case):
    workspace, result = case
    (source,) = load_experiment(workspace.experiment).sources('validation')
    again = add_validation(result, source)
    assert len(again.validations) == 2
    assert again.validations[0].joints == again.validations[1].joints


def test_progress_goes_from_nothing_to_all_and_never_back(workspace):
    told = []
    identify(load_experiment(workspace.experiment), progress=lambda f, text: told.append(f))
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert told == sorted(told)


def test_prior_of_the_problem(workspace, tmp_path):
    problem = IdentificationProblem.from_experiment(load_experiment(workspace.experiment))
    assert problem.prior()['link_2.m'] == pytest.approx(workspace.robot.prior['link_2.m'])
    nothing = replace(problem, estimation=replace(problem.estimation, prior='none'))
    assert not nothing.prior().values.any()
    absent = replace(problem.estimation, prior=str(tmp_path / 'absent.yaml'))
    with pytest.raises(SettingsError, match='absent.yaml'):
        replace(problem, estimation=absent).prior()


def test_uncertain_parameters_all_of_them_are_a_warning(workspace):
    """Nothing is essential at a threshold that nothing meets; the estimate stands."""
    overrides = {'estimation.essential.max_relative_std': '1e-9'}
    result = identify(load_experiment(workspace.experiment, overrides))
    assert result.essential is None
    assert any('max_relative_std' in text for text in result.warnings)
    save(result, workspace.folder / 'out')


def test_the_distance_to_the_prior_is_measured_as_the_settings_say(workspace):
    """Each choice is the nearest in its own measure."""
    results = {
        distance: identify(
            load_experiment(workspace.experiment, {'estimation.distance': distance})
        )
        for distance in ('body', 'si')
    }
    layout = results['si'].prior.layout
    sizes = {'body': body_scale(workspace.robot, layout), 'si': np.ones(len(layout))}

    def away(found: str, measure: str) -> float:
        change = results[found].standard.values - results[found].prior.values
        return float(np.linalg.norm(change / sizes[measure]))

    assert away('body', 'body') < 0.99 * away('si', 'body')
    assert away('si', 'si') < 0.99 * away('body', 'si')
