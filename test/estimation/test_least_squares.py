# SPDX-License-Identifier: Apache-2.0
"""OLS and WLS against dense algebra, their statistics against simulation, and their refusals."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import (
    IdentifiabilityError,
    ModelError,
    RecordingError,
)
from robot_identification.estimation.least_squares import (
    essential,
    evaluate,
    joint_weights,
    ols,
    wls,
)
from robot_identification.estimation.prior import standard_covariance
from robot_identification.estimation.system import combine, from_rows
from robot_identification.model.parameters import ParameterSet


def test_ols_is_dense_least_squares(problem):
    case = problem(noise=np.array([0.1, 1.0, 0.01]))
    W, tau = case.rows
    estimate = ols(case.system)
    beta = np.linalg.lstsq(W, tau, rcond=None)[0]
    residual = tau - W @ beta
    variance = residual @ residual / (tau.size - beta.size)
    assert np.allclose(estimate.base.values, beta, rtol=1e-12)
    assert np.allclose(
        estimate.uncertainty.covariance, variance * np.linalg.inv(W.T @ W), rtol=1e-10
    )
    assert np.allclose(estimate.std, np.sqrt(np.diag(estimate.uncertainty.covariance)))
    assert np.allclose(estimate.relative_std, 100 * estimate.std / np.abs(beta))
    assert estimate.rows.residual_std == pytest.approx(np.sqrt(variance), rel=1e-12)
    assert estimate.rows.count == tau.size and estimate.rank == beta.size
    assert estimate.identifiability.excited.all() and (estimate.rows.weights == 1.0).all()
    assert estimate.rows.raw_condition_number == pytest.approx(np.linalg.cond(W), rel=1e-10)
    scaled = W / np.linalg.norm(W, axis=0)
    assert estimate.rows.condition_number == pytest.approx(np.linalg.cond(scaled), rel=1e-10)


def test_wls_weighs_by_the_residual_of_each_joint_alone(problem):
    noise = np.array([0.1, 1.0, 0.01])
    case = problem(m=500, noise=noise)
    sigma = []
    for j in range(3):
        W, tau = case.matrix[:, j], case.effort[:, j]
        residual = tau - W @ np.linalg.lstsq(W, tau, rcond=None)[0]
        sigma.append(np.sqrt(residual @ residual / (tau.size - W.shape[1])))
    estimate = wls(case.system)
    assert np.allclose(estimate.rows.weights, 1 / np.array(sigma), rtol=1e-10)
    assert np.allclose(sigma, noise, rtol=0.15)
    W = (case.matrix / np.array(sigma)[:, None]).reshape(-1, 8)
    beta = np.linalg.lstsq(W, (case.effort / sigma).ravel(), rcond=None)[0]
    assert np.allclose(estimate.base.values, beta, rtol=1e-10)
    assert estimate.rows.residual_std == pytest.approx(1.0, rel=0.1)
    assert (
        np.abs(beta - case.truth).max() < np.abs(ols(case.system).base.values - case.truth).max()
    )


def test_columns_that_a_joint_does_not_have_do_not_disturb_its_weight(problem_of):
    # the last joint has parameters of its own only, as the outermost joint of an arm has
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(400, 2, 6))
    matrix[:, 1, :4] = 0.0
    case = problem_of(matrix, rng.normal(size=6), np.array([1.0, 0.05]))
    weights = wls(case.system).rows.weights
    W, tau = matrix[:, 1, 4:], case.effort[:, 1]
    residual = tau - W @ np.linalg.lstsq(W, tau, rcond=None)[0]
    assert 1 / weights[1] == pytest.approx(np.linalg.norm(residual) / np.sqrt(398), rel=1e-10)


def test_columns_of_rounding_size_are_no_parameters_of_a_joint(problem_of):
    # sin and cos of angles leave 1e-16 where a column is 0 on paper; nine rows are few
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(9, 2, 6))
    matrix[:, 1, :4] = 0.0
    truth, noise = rng.normal(size=6), np.array([1.0, 0.05])
    exact = problem_of(matrix, truth, noise)
    rounded = matrix.copy()
    rounded[:, 1, :4] = 1e-16 * rng.normal(size=(9, 4))
    weights = [
        joint_weights(
            from_rows(exact.system.structure, exact.system.factor.joints, m, exact.effort)
        )
        for m in (matrix, rounded)
    ]
    assert np.allclose(*weights, rtol=1e-10)


@pytest.mark.parametrize('method', [ols, wls])
def test_fit_of_each_joint(problem, method):
    case = problem(noise=np.array([0.1, 1.0, 0.3]))
    estimate = method(case.system)
    residual = case.effort - case.matrix @ estimate.base.values
    for j, fit in enumerate(estimate.fit.joints):
        assert fit.joint == f'joint_{j}' and fit.rows == 300
        assert fit.rmse == pytest.approx(np.sqrt((residual[:, j] ** 2).mean()), rel=1e-10)
        assert fit.bias == pytest.approx(residual[:, j].mean(), rel=1e-9)
        error = 100 * np.linalg.norm(residual[:, j]) / np.linalg.norm(case.effort[:, j])
        assert fit.relative_error == pytest.approx(error, rel=1e-10)
        assert fit.raw_relative_error == pytest.approx(error, rel=1e-9)
    total = 100 * np.linalg.norm(residual) / np.linalg.norm(case.effort)
    assert estimate.fit.relative_error == pytest.approx(total, rel=1e-10)
    assert estimate.fit.raw_relative_error == pytest.approx(total, rel=1e-9)


def test_rows_in_the_dead_zone_count_for_the_raw_error_only(problem, structure_of):
    case = problem()
    keep = np.random.default_rng(6).random((300, 3)) < 0.5
    system = from_rows(structure_of(8), case.system.factor.joints, case.matrix, case.effort, keep)
    W, tau = case.matrix[keep], case.effort[keep]
    estimate = ols(system)
    assert np.allclose(estimate.base.values, np.linalg.lstsq(W, tau, rcond=None)[0], rtol=1e-11)
    assert system.factor.rows.tolist() == keep.sum(axis=0).tolist()
    residual = case.effort - case.matrix @ estimate.base.values
    raw = 100 * np.linalg.norm(residual) / np.linalg.norm(case.effort)
    assert estimate.fit.raw_relative_error == pytest.approx(raw, rel=1e-9)
    kept = 100 * np.linalg.norm(residual[keep]) / np.linalg.norm(tau)
    assert estimate.fit.relative_error == pytest.approx(kept, rel=1e-10)


def test_exact_data_give_exact_parameters(problem):
    case = problem(noise=0.0)
    for method in (ols, wls):
        estimate = method(case.system)
        assert np.allclose(estimate.base.values, case.truth, rtol=1e-11)
        assert estimate.fit.relative_error < 1e-10


@pytest.mark.parametrize('method', [ols, wls])
def test_standard_deviations_are_those_of_repeated_experiments(problem_of, method):
    rng = np.random.default_rng(7)
    matrix, truth = rng.normal(size=(60, 2, 3)), np.array([1.0, -2.0, 0.5])
    # for OLS the theory wants equal noise at all joints
    noise = np.array([0.3, 0.3]) if method is ols else np.array([0.3, 0.03])
    estimates = [method(problem_of(matrix, truth, noise, seed).system) for seed in range(400)]
    values = np.array([estimate.base.values for estimate in estimates])
    claimed = np.sqrt(np.mean([estimate.std**2 for estimate in estimates], axis=0))
    assert np.allclose(values.std(axis=0), claimed, rtol=0.15)
    assert (np.abs(values.mean(axis=0) - truth) < 4 * claimed / 20).all()


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(-6, 6))
def test_units_of_the_parameters_do_not_matter(seed, scale):
    from robot_identification.model.parameters import ParameterLayout
    from robot_identification.regressor.base_parameters import BaseStructure

    layout = ParameterLayout(('a.x', 'a.y', 'a.z'), ('kg', 'kg m', 'N m'))
    structure = BaseStructure(
        layout, np.arange(3), [], [], np.eye(3), np.ones(3), np.inf, layout.names
    )
    rng = np.random.default_rng(seed)
    matrix, truth = rng.normal(size=(50, 2, 3)), rng.normal(size=3)
    effort = matrix @ truth + 0.1 * rng.normal(size=(50, 2))
    factors = 10.0 ** np.array([0.0, scale, -scale])
    one = wls(from_rows(structure, ('i', 'j'), matrix, effort))
    two = wls(from_rows(structure, ('i', 'j'), matrix * factors, effort))
    assert np.allclose(two.base.values * factors, one.base.values, rtol=1e-9)
    assert np.allclose(two.relative_std, one.relative_std, rtol=1e-9)
    assert two.rows.condition_number == pytest.approx(one.rows.condition_number, rel=1e-9)


def test_several_recordings_count_as_one_long_one(problem, structure_of):
    whole = problem(m=300)
    structure, joints = structure_of(8), whole.system.factor.joints
    parts = [
        from_rows(structure, joints, whole.matrix[part], whole.effort[part])
        for part in (slice(0, 120), slice(120, 130), slice(130, 300))
    ]
    together = combine(parts)
    one, two = wls(whole.system), wls(together)
    assert np.allclose(one.base.values, two.base.values, rtol=1e-11)
    assert np.allclose(one.uncertainty.covariance, two.uncertainty.covariance, rtol=1e-10)
    assert one.fit.raw_relative_error == pytest.approx(two.fit.raw_relative_error)
    assert [fit.bias for fit in one.fit.joints] == pytest.approx(
        [fit.bias for fit in two.fit.joints]
    )
    assert np.unique(together.trace.segment).tolist() == [0, 1, 2]
    with pytest.raises(ValueError):
        combine([])
    with pytest.raises(ModelError, match='link.p7 is here only'):
        combine([whole.system, problem(b=7).system])


def test_evaluate_takes_any_parameters(problem):
    case = problem()
    fit = evaluate(case.system, np.zeros(8))
    assert fit.relative_error == pytest.approx(100.0)
    assert [joint.relative_error for joint in fit.joints] == pytest.approx([100.0] * 3)


def test_joint_without_effort_names_it(problem, structure_of):
    case = problem()
    effort = case.effort.copy()
    effort[:, 1] = 0.0
    with pytest.raises(RecordingError, match="joint 'joint_1' is zero") as error:
        from_rows(structure_of(8), case.system.factor.joints, case.matrix, effort)
    assert error.value.joint == 'joint_1' and error.value.remedy


def test_joint_that_is_always_in_the_dead_zone_is_named(problem, structure_of):
    case = problem()
    keep = np.ones((300, 3), dtype=bool)
    keep[:, 2] = False
    system = from_rows(structure_of(8), case.system.factor.joints, case.matrix, case.effort, keep)
    with pytest.raises(IdentifiabilityError, match="'joint_2'.*dead zone") as error:
        wls(system)
    assert error.value.joint == 'joint_2'
    fit = evaluate(system, case.truth)
    assert fit.joints[2].rows == 0 and np.isnan(fit.joints[2].rmse)


@pytest.mark.parametrize('method', [ols, wls])
def test_too_few_rows(problem, method):
    with pytest.raises(RecordingError, match='6 independent rows for 8 .*, fewer than 1.5'):
        method(problem(m=2, n=3, b=8).system)


def test_joint_with_too_few_rows_to_weigh_it(problem):
    case = problem(m=11, n=3, b=8)
    ols(case.system)
    with pytest.raises(RecordingError, match="'joint_0' has 11 .* rows for 8 param") as error:
        wls(case.system)
    assert error.value.joint == 'joint_0' and 'record longer' in error.value.remedy
    wls(problem(m=12, n=3, b=8).system)


def test_no_rows_at_all(structure_of):
    with pytest.raises(RecordingError, match='no rows'):
        from_rows(structure_of(2), ('a',), np.empty((0, 1, 2)), np.empty((0, 1)))


def test_prior_may_be_base_or_standard_parameters(problem, structure_of):
    case = problem()
    prior = ParameterSet(structure_of(8).layout, np.arange(8.0))
    assert np.array_equal(ols(case.system, prior=prior).base.values, ols(case.system).base.values)


def rows(seed=0, m=200, n=2, b=5):
    return np.random.default_rng(seed).normal(size=(m, n, b))


def test_everything_is_told_by_a_rich_motion(problem):
    estimate = wls(problem().system)
    assert (
        estimate.identifiability.excited.all()
        and set(estimate.identifiability.reasons) == {''}
        and not estimate.warnings
    )


@pytest.mark.parametrize('method', [ols, wls])
def test_column_of_zeros_keeps_the_prior(problem_of, method):
    matrix = rows()
    matrix[:, :, 2] = 0.0
    case = problem_of(matrix, np.arange(1.0, 6.0), 0.1)
    prior = ParameterSet(case.system.structure.layout, np.full(5, 7.0))
    estimate = method(case.system, prior=prior)
    assert estimate.identifiability.excited.tolist() == [True, True, False, True, True]
    assert estimate.base.values[2] == 7.0 and np.isnan(estimate.std[2])
    assert (
        np.isnan(estimate.uncertainty.covariance[2]).all()
        and np.isnan(estimate.uncertainty.covariance[:, 2]).all()
    )
    assert np.isfinite(np.delete(np.delete(estimate.uncertainty.covariance, 2, 0), 2, 1)).all()
    assert estimate.rank == 4 and np.isfinite(estimate.rows.condition_number)
    assert 'link.p2 is not identified' in estimate.warnings[0]
    assert [p.state for p in estimate][2] == 'NOT_EXCITED'
    without = method(case.system)
    assert without.base.values[2] == 0.0
    others = [0, 1, 3, 4]
    assert np.allclose(without.base.values[others], estimate.base.values[others])


def test_column_that_is_almost_zero_does_not_get_an_absurd_value(problem_of):
    matrix = rows()
    matrix[:, :, 2] *= 1e-7
    estimate = ols(problem_of(matrix, np.arange(1.0, 6.0), 0.1).system)
    assert estimate.identifiability.excited.tolist() == [True, True, False, True, True]
    assert estimate.base.values[2] == 0.0


def test_of_two_equal_columns_the_later_is_given_up(problem_of):
    # Coulomb friction and offset of a joint that turns one way only
    matrix = rows()
    matrix[:, :, 4] = matrix[:, :, 1]
    case = problem_of(matrix, np.array([1.0, 2.0, 3.0, 4.0, 0.5]), 0.1)
    estimate = ols(case.system)
    assert estimate.identifiability.excited.tolist() == [True] * 4 + [False]
    assert 'separate it from link.p1' in estimate.identifiability.reasons[4]
    assert estimate.base.values[1] == pytest.approx(2.5, abs=0.05)
    prior = ParameterSet(case.system.structure.layout, [0, 0, 0, 0, 0.5])
    informed = ols(case.system, prior=prior)
    assert informed.base.values[1] == pytest.approx(2.0, abs=0.05)
    assert informed.fit.relative_error == pytest.approx(estimate.fit.relative_error)
    assert np.isnan(standard_covariance(estimate, case.system.structure)[4]).all()


def test_dependence_under_noise_in_the_columns_is_seen(problem_of):
    # a velocity that is constant but for noise: viscous friction is no longer told from Coulomb's
    rng = np.random.default_rng(1)
    matrix = rows()
    matrix[:, :, 4] = 0.3 * matrix[:, :, 1] * (1 + 1e-6 * rng.normal(size=(200, 2)))
    case = problem_of(matrix, np.ones(5), 0.1)
    estimate = ols(case.system)
    assert estimate.identifiability.excited.tolist() == [True] * 4 + [False]
    # without noise in the effort the same rows do tell
    exact = ols(problem_of(matrix, np.ones(5), 0.0).system)
    assert exact.identifiability.excited.all() and np.allclose(exact.base.values, 1.0, rtol=1e-6)


def test_parameter_of_value_zero_is_excited(problem_of):
    truth = np.array([1.0, 0.0, 3.0, 4.0, 5.0])
    estimate = ols(problem_of(rows(), truth, 0.1).system)
    assert estimate.identifiability.excited.all() and estimate.relative_std[1] > 30


def test_small_units_are_not_taken_for_zero(problem_of):
    matrix = rows() * np.array([1.0, 1e-5, 1.0, 1e-4, 1.0])
    truth = np.array([1.0, 2e5, 3.0, 4e4, 5.0])
    estimate = ols(problem_of(matrix, truth, 0.1).system)
    assert estimate.identifiability.excited.all() and np.allclose(
        estimate.base.values, truth, rtol=0.05
    )


def test_essential_leaves_what_is_not_excited_alone(problem_of):
    matrix = rows()
    matrix[:, :, 2] = 0.0
    case = problem_of(matrix, np.array([1.0, 0.0, 3.0, 4.0, 5.0]), 0.1)
    prior = ParameterSet(case.system.structure.layout, np.full(5, 7.0))
    estimate = wls(case.system, prior=prior)
    reduced = essential(case.system, estimate)
    assert reduced.base.values[2] == 7.0 and reduced.base.values[1] == 0.0
    assert reduced.essential.tolist() == [True, False, False, True, True]
    assert reduced.identifiability.excited.tolist() == [True, True, False, True, True]


def test_joint_that_stands_still_is_named(problem, structure_of):
    from dataclasses import replace

    system = problem().system
    ranges = np.array([1.0, 5e-5, 1.0])
    still = replace(system, factor=replace(system.factor, position_range=ranges))
    with pytest.raises(IdentifiabilityError, match="joint 'joint_1' does not move") as error:
        wls(still)
    assert error.value.joint == 'joint_1' and 'lock' in error.value.remedy


def test_nothing_at_all_is_told(structure_of):
    effort = np.ones((50, 1))
    system = from_rows(structure_of(3), ('a',), np.zeros((50, 1, 3)), effort)
    with pytest.raises(IdentifiabilityError, match='none of the base parameters'):
        ols(system)


def eliminate(W: np.ndarray, tau: np.ndarray, limit: float) -> list[int]:
    """Drop the least certain column and fit all rows again, as the papers describe it."""
    left = list(range(W.shape[1]))
    while left:
        beta, *_ = np.linalg.lstsq(W[:, left], tau, rcond=None)
        residual = tau - W[:, left] @ beta
        variance = residual @ residual / (tau.size - len(left))
        std = np.sqrt(variance * np.diag(np.linalg.inv(W[:, left].T @ W[:, left])))
        relative = 100 * std / np.abs(beta)
        if relative.max() <= limit:
            break
        del left[int(relative.argmax())]
    return left


@pytest.fixture
def weak(problem_of):
    """Half of the parameters are small, and the columns are correlated."""
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(150, 2, 12)) @ (np.eye(12) + 0.8 * np.eye(12, k=1))
    truth = rng.normal(size=12) * np.where(np.arange(12) % 2, 0.02, 1.0)
    return problem_of(matrix, truth, np.array([0.2, 0.8]))


@pytest.mark.parametrize('limit', [5.0, 10.0, 30.0, 100.0])
@pytest.mark.parametrize('method', [ols, wls])
def test_same_as_fitting_all_rows_at_every_step(weak, method, limit):
    estimate = method(weak.system)
    assert estimate.identifiability.excited.all()
    W = (weak.matrix * estimate.rows.weights[:, None]).reshape(-1, 12)
    tau = (weak.effort * estimate.rows.weights).ravel()
    expected = eliminate(W, tau, limit)
    reduced = essential(weak.system, estimate, limit)
    assert np.flatnonzero(reduced.essential).tolist() == expected
    assert 0 < len(expected) <= 12 and (limit == 100.0 or len(expected) < 12)
    beta = np.linalg.lstsq(W[:, expected], tau, rcond=None)[0]
    assert np.allclose(reduced.base.values[expected], beta, rtol=1e-9)
    assert (reduced.base.values[~reduced.essential] == 0.0).all()
    assert (reduced.relative_std[reduced.essential] <= limit).all()
    assert np.isnan(reduced.std[~reduced.essential]).all()
    assert reduced.rank == len(expected)
    assert np.array_equal(reduced.rows.weights, estimate.rows.weights)
    assert reduced.rows.residual_std >= 0.98 * estimate.rows.residual_std


def test_certain_parameters_all_stay(problem):
    case = problem(noise=1e-6)
    estimate = wls(case.system)
    reduced = essential(case.system, estimate, 30.0)
    assert reduced.essential.all()
    assert np.allclose(reduced.base.values, estimate.base.values, rtol=1e-12)


def test_nothing_is_certain_enough(problem):
    case = problem(noise=1e3)
    with pytest.raises(IdentifiabilityError, match='below 0.1 %'):
        essential(case.system, ols(case.system), 0.1)


def test_value_of_exactly_zero_goes_first(problem_of):
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(100, 1, 3))
    # effort without noise: the last parameter comes out as 0 up to rounding
    case = problem_of(matrix, np.array([1.0, 2.0, 0.0]))
    reduced = essential(case.system, ols(case.system), 30.0)
    assert reduced.base.values[:2] == pytest.approx([1.0, 2.0])
